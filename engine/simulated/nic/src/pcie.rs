//! The PCIe link of a NIC: what goes up and down, in which order, and how much may be on its way. Memory is elsewhere.
//!
//! Up go writes and requests to read, down come what was read and doorbells. All that goes up keeps its order, because
//! neither a write nor a read passes a write (PCIe base specification, section 2.4.1), and what waits for a tag or for
//! credits has not gone up yet. What happens at the other end is in `path`.

use std::collections::VecDeque;

use kelpie_events::{Picos, Rate, Server};

/// What a link is.
#[derive(Debug, Clone, Copy)]
pub struct PcieConfig {
    /// In each direction, what the lanes carry after their encoding.
    pub rate: Rate,
    /// From one end to the other.
    pub latency: Picos,
    /// Header, sequence number, CRC and framing of a packet (TLP). Units: bytes.
    pub overhead: u64,
    /// Longest data of a write or of a completion. Units: bytes.
    pub max_payload: u64,
    /// Longest read that one tag asks for. Units: bytes.
    pub max_read_request: u64,
    /// Reads that may be on their way.
    pub tags: u32,
    /// Data of writes that the root complex has room for until memory took them. Units: bytes.
    pub write_credits: u64,
    /// How it saves power, if it does.
    pub sleep: Option<LinkSleep>,
}

/// How a link saves power. Source: PCIe base specification, section 5.4.1 (active state power management, L1).
#[derive(Debug, Clone, Copy)]
pub struct LinkSleep {
    /// It sleeps after so much time without traffic.
    pub after: Picos,
    /// What waking takes.
    pub wake: Picos,
}

/// What is read: data, and the requests for it, of which each takes a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadAmount {
    /// Units: bytes.
    pub bytes: u64,
    /// Requests, each for data that lie together.
    pub requests: u32,
}

impl ReadAmount {
    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, requests: self.requests + other.requests }
    }
}

/// What went over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PcieCounts {
    /// Reads that were asked for, one for each tag.
    pub reads: u64,
    /// Data that came back. Units: bytes.
    pub read_bytes: u64,
    /// Data that was written. Units: bytes.
    pub written_bytes: u64,
    /// Times at which all tags were in use.
    pub no_tag: u64,
    /// Writes that found too few credits.
    pub no_credit: u64,
}

/// The link between a NIC and its root complex.
#[derive(Debug, Clone)]
pub struct Link {
    config: PcieConfig,
    up: Server,
    down: Server,
    /// Tags in use.
    tags: u32,
    /// Credits in use. Units: bytes.
    writes: u64,
    /// When credits come back, and for how many bytes; the first first.
    returns: VecDeque<(Picos, u64)>,
    /// Since when nothing moves, and from when on it is awake.
    idle_since: Picos,
    awake_from: Picos,
    counts: PcieCounts,
}

impl Link {
    /// A link on which nothing moves.
    pub fn new(config: PcieConfig) -> Self {
        Self {
            config,
            up: Server::default(),
            down: Server::default(),
            tags: 0,
            writes: 0,
            returns: VecDeque::new(),
            idle_since: Picos::ZERO,
            awake_from: Picos::ZERO,
            counts: PcieCounts::default(),
        }
    }

    /// What went over it so far.
    pub fn counts(&self) -> PcieCounts {
        self.counts
    }

    /// Tags in use.
    pub fn tags(&self) -> u32 {
        self.tags
    }

    /// Asks for as much of so many bytes in so many requests as there are tags for; says when the last request is at
    /// the root complex, and what was asked for, or nothing if no tag is free. Tags are free again after
    /// [`Link::finish_read`].
    pub fn read(&mut self, now: Picos, wanted: ReadAmount) -> Option<(Picos, ReadAmount)> {
        debug_assert!(wanted.bytes > 0 && wanted.requests > 0, "a read of nothing has no answer");
        let free = self.config.tags - self.tags;
        if free == 0 {
            self.counts.no_tag += 1;
            return None;
        }
        let granted = if wanted.requests <= free {
            wanted
        } else {
            // All requests of a read are taken for equally long.
            let bytes = wanted.bytes * u64::from(free) / u64::from(wanted.requests);
            ReadAmount { bytes: bytes.max(1), requests: free }
        };
        self.tags += granted.requests;
        self.counts.reads += u64::from(granted.requests);
        let requests = self.config.rate.time(self.config.overhead) * u64::from(granted.requests);
        let now = self.wake(now);
        Some((self.up.serve(now, requests) + self.config.latency, granted))
    }

    /// Memory begins to answer requests and is over at `end`; says when the last of the data is on the NIC.
    pub fn answer(&mut self, now: Picos, amount: ReadAmount, end: Picos) -> Picos {
        self.counts.read_bytes += amount.bytes;
        let packets = amount.bytes.div_ceil(self.config.max_payload).max(amount.requests.into());
        let span = self.config.rate.time(amount.bytes + packets * self.config.overhead);
        let here = self.down.serve(now, span).max(end) + self.config.latency;
        self.idle_since = self.idle_since.max(here);
        here
    }

    /// Something is to move: when it may at the earliest.
    #[inline]
    fn wake(&mut self, now: Picos) -> Picos {
        let Some(sleep) = self.config.sleep else { return now };
        if now > self.idle_since + sleep.after {
            self.awake_from = now + sleep.wake;
        }
        let moves = now.max(self.awake_from);
        self.idle_since = self.idle_since.max(moves);
        moves
    }

    /// Requests are over.
    pub fn finish_read(&mut self, amount: ReadAmount) {
        debug_assert!(self.tags >= amount.requests, "a read was asked for");
        self.tags -= amount.requests;
    }

    /// What reading `bytes` that lie together takes.
    pub fn amount(&self, bytes: u64) -> ReadAmount {
        ReadAmount { bytes, requests: bytes.div_ceil(self.config.max_read_request) as u32 }
    }

    /// Writes `bytes`; says when the last of them is at the root complex. The error is when to ask again, because
    /// credits are missing until then. Credits come back as [`Link::returns_at`] says. A write that is longer than all
    /// credits goes once it has them all.
    ///
    /// # Errors
    /// When enough credits are back.
    pub fn write(&mut self, now: Picos, bytes: u64) -> Result<Picos, Picos> {
        while let Some((_, back)) = self.returns.pop_front_if(|(at, _)| *at <= now) {
            self.writes -= back;
        }
        let mut held = self.writes;
        let mut credits = self.returns.iter();
        let mut wait = now;
        while held > 0 && held + bytes > self.config.write_credits {
            let Some((at, back)) = credits.next() else { break };
            (held, wait) = (held - back, *at);
        }
        if wait > now {
            self.counts.no_credit += 1;
            return Err(wait);
        }
        self.writes += bytes;
        self.counts.written_bytes += bytes;
        let span = self.on_link(bytes);
        let now = self.wake(now);
        let there = self.up.serve(now, span) + self.config.latency;
        self.idle_since = self.idle_since.max(there);
        Ok(there)
    }

    /// The root complex has room again for a written `bytes` from this time on.
    pub fn returns_at(&mut self, time: Picos, bytes: u64) {
        let place = self.returns.partition_point(|(at, _)| *at <= time);
        self.returns.insert(place, (time, bytes));
    }

    /// A doorbell that the CPU writes; says when it is on the NIC.
    pub fn doorbell(&mut self, now: Picos) -> Picos {
        self.down.serve(now, self.on_link(8)) + self.config.latency
    }

    /// Time that each direction was busy: up, down.
    pub fn busy(&self) -> [Picos; 2] {
        [self.up.busy, self.down.busy]
    }

    /// What data take with the headers of their packets.
    fn on_link(&self, bytes: u64) -> Picos {
        let packets = bytes.div_ceil(self.config.max_payload).max(1);
        self.config.rate.time(bytes + packets * self.config.overhead)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_link_that_was_idle_for_long_takes_its_time_to_wake() {
        let sleep = Some(LinkSleep { after: nanos(20_000), wake: nanos(16_000) });
        let mut link = Link::new(PcieConfig { sleep, ..config() });
        let mut took = |at: u64| (link.write(nanos(at), 64).expect("credits") - nanos(at)) > nanos(16_000);
        // Idle from the start for less than it takes to sleep, idle for more, awake, and idle again.
        assert_eq!([10_000, 40_000, 60_000, 90_000].map(&mut took), [false, true, false, true]);
        let mut link = Link::new(config());
        let now = nanos(1_000_000);
        assert!(link.write(now, 64).expect("credits") < now + nanos(1000), "none that saves no power");
    }

    /// PCIe 4.0 x16, with 100 ns from end to end.
    fn config() -> PcieConfig {
        PcieConfig {
            rate: Rate::gbps(252.0),
            latency: nanos(100),
            overhead: 20,
            max_payload: 512,
            max_read_request: 512,
            tags: 64,
            write_credits: 16 << 10,
            sleep: None,
        }
    }

    fn nanos(nanos: u64) -> Picos {
        Picos::new(nanos * 1000)
    }

    /// Reads so many requests as fast as tags allow, from memory that takes `memory` for each, beside each other. The
    /// time that it took.
    fn read_all(config: PcieConfig, requests: u32, bytes: u64, memory: Picos) -> Picos {
        let mut link = Link::new(config);
        let mut coming: VecDeque<Picos> = VecDeque::new();
        let mut now = Picos::ZERO;
        for _ in 0..requests {
            let at_memory = loop {
                let amount = link.amount(bytes);
                if let Some((at_memory, granted)) = link.read(now, amount) {
                    assert_eq!(granted, amount, "one tag is enough");
                    break at_memory;
                }
                now = now.max(coming.pop_front().expect("tags are in use by reads on their way"));
                link.finish_read(amount);
            };
            // All take equally long in memory, so that answers come in order.
            coming.push_back(link.answer(at_memory + memory, link.amount(bytes), Picos::ZERO));
        }
        coming.back().copied().unwrap_or(now)
    }

    /// Units: Gbit/s.
    fn rate(bytes: u64, took: Picos) -> f64 {
        bytes as f64 * 8.0 / took.as_seconds() / 1e9
    }

    #[test]
    fn with_tags_enough_reads_fill_the_link_but_for_headers() {
        let took = read_all(PcieConfig { tags: 1024, ..config() }, 20_000, 512, nanos(600));
        let expected = 252.0 * 512.0 / 532.0;
        let seen = rate(20_000 * 512, took);
        assert!((seen / expected - 1.0).abs() < 0.01, "{seen} Gbit/s, not {expected}");
    }

    #[test]
    fn few_tags_bound_reads_by_the_law_of_little() {
        for (tags, bytes) in [(1, 64), (8, 64), (8, 512), (32, 256)] {
            let (memory, data) = (nanos(600), config().rate.time(bytes + 20));
            let trip = config().rate.time(20) + config().latency + memory + data + config().latency;
            let took = read_all(PcieConfig { tags, ..config() }, 5_000, bytes, memory);
            let expected = (u64::from(tags) * bytes) as f64 * 8.0 / trip.as_seconds() / 1e9;
            let seen = rate(5_000 * bytes, took);
            assert!((seen / expected - 1.0).abs() < 0.02, "{tags} tags of {bytes} B: {seen} Gbit/s, not {expected}");
        }
    }

    #[test]
    fn credits_bound_writes_by_the_law_of_little() {
        let (bytes, held) = (1024, nanos(1_500));
        let mut link = Link::new(config());
        let mut now = Picos::ZERO;
        for _ in 0..4_000 {
            let reached = match link.write(now, bytes) {
                Ok(reached) => reached,
                Err(when) => {
                    now = when;
                    link.write(now, bytes).expect("credits are back")
                }
            };
            link.returns_at(reached + held, bytes);
        }
        let data = config().rate.time(bytes + 2 * 20);
        let expected = 16_384.0 * 8.0 / (data + config().latency + held).as_seconds() / 1e9;
        let seen = rate(4_000 * bytes, now);
        assert!((seen / expected - 1.0).abs() < 0.02, "{seen} Gbit/s, not {expected}");
        assert!(link.counts().no_credit > 3_000);
    }

    #[test]
    fn a_write_longer_than_all_credits_goes_alone() {
        let mut link = Link::new(config());
        assert!(link.write(Picos::ZERO, 64 << 10).is_ok());
        link.returns_at(nanos(9), 64 << 10);
        assert_eq!(link.write(Picos::ZERO, 1), Err(nanos(9)));
        assert!(link.write(nanos(9), 1).is_ok());
    }

    proptest! {
        #[test]
        fn more_of_anything_makes_no_read_slower(
            tags in 1u32..64, bytes in 1u64..=512, gbps in 10.0f64..500.0, memory in 0u64..2_000,
        ) {
            let base = PcieConfig { tags, rate: Rate::gbps(gbps), ..config() };
            let took = read_all(base, 300, bytes, nanos(memory));
            for better in [
                PcieConfig { tags: tags + 1, ..base },
                PcieConfig { rate: Rate::gbps(gbps * 1.1), ..base },
                PcieConfig { latency: nanos(90), ..base },
                PcieConfig { max_payload: 1024, ..base },
            ] {
                prop_assert!(read_all(better, 300, bytes, nanos(memory)) <= took + Picos::new(300));
            }
        }

        #[test]
        fn what_was_written_and_read_is_counted(sizes in prop::collection::vec(1u64..4096, 1..50)) {
            let mut link = Link::new(config());
            let mut now = Picos::ZERO;
            for bytes in &sizes {
                now = link.write(now, *bytes).expect("one at a time");
                link.returns_at(now, *bytes);
                let amount = link.amount(*bytes);
                let (at_memory, granted) = link.read(now, amount).expect("one at a time");
                assert_eq!(granted, amount);
                now = link.answer(at_memory, amount, Picos::ZERO);
                link.finish_read(amount);
            }
            let counts = link.counts();
            prop_assert_eq!(counts.written_bytes, sizes.iter().sum::<u64>());
            prop_assert_eq!(counts.read_bytes, counts.written_bytes);
            prop_assert_eq!((counts.reads, link.tags()), (sizes.iter().map(|bytes| bytes.div_ceil(512)).sum(), 0));
        }
    }
}

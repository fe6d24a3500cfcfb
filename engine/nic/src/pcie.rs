//! The PCIe link of a NIC: what goes up and down, in which order, and how much may be on its way. Memory is elsewhere.
//!
//! Up go writes and requests to read, down come what was read and doorbells. All that goes up keeps its order, because
//! neither a write nor a read passes a write (PCIe base specification, section 2.4.1), and what waits for a tag or for
//! credits has not gone up yet. What happens at the other end is in `ordering`.

use kelpie_events::{Picos, Rate, Server};

/// What a link is.
#[derive(Debug, Clone, Copy)]
pub struct Config {
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
}

/// What went over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Reads that were asked for, one for each tag.
    pub reads: u64,
    /// Data that came back. Units: bytes.
    pub read_bytes: u64,
    /// Data that was written. Units: bytes.
    pub written_bytes: u64,
    /// Requests that found all tags in use.
    pub no_tag: u64,
    /// Writes that found too few credits.
    pub no_credit: u64,
}

/// The link between a NIC and its root complex.
#[derive(Debug, Clone)]
pub struct Link {
    config: Config,
    up: Server,
    down: Server,
    /// Tags in use.
    reads: u32,
    /// Credits in use. Units: bytes.
    writes: u64,
    counts: Counts,
}

impl Link {
    /// A link on which nothing moves.
    pub fn new(config: Config) -> Self {
        Self { config, up: Server::default(), down: Server::default(), reads: 0, writes: 0, counts: Counts::default() }
    }

    /// What went over it so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Tags in use.
    pub fn reads(&self) -> u32 {
        self.reads
    }

    /// Asks for `bytes`, at most [`Config::max_read_request`]; says when the request is at the root complex, or nothing
    /// if all tags are in use. The tag is free again after [`Link::finish_read`].
    pub fn read(&mut self, now: Picos, bytes: u64) -> Option<Picos> {
        debug_assert!((1..=self.config.max_read_request).contains(&bytes), "{bytes} B are no single request");
        if self.reads == self.config.tags {
            self.counts.no_tag += 1;
            return None;
        }
        self.reads += 1;
        self.counts.reads += 1;
        Some(self.up.serve(now, self.config.rate.time(self.config.overhead)) + self.config.latency)
    }

    /// Memory has answered a read; says when the last of it is on the NIC.
    pub fn answer(&mut self, now: Picos, bytes: u64) -> Picos {
        self.counts.read_bytes += bytes;
        self.down.serve(now, self.on_link(bytes)) + self.config.latency
    }

    /// A read is over.
    pub fn finish_read(&mut self) {
        debug_assert!(self.reads > 0, "a read was asked for");
        self.reads -= 1;
    }

    /// Writes `bytes`; says when the last of them is at the root complex, or nothing if credits are missing. They come
    /// back with [`Link::finish_write`]. A write that is longer than all credits goes once it has them all.
    pub fn write(&mut self, now: Picos, bytes: u64) -> Option<Picos> {
        if self.writes > 0 && self.writes + bytes > self.config.write_credits {
            self.counts.no_credit += 1;
            return None;
        }
        self.writes += bytes;
        self.counts.written_bytes += bytes;
        Some(self.up.serve(now, self.on_link(bytes)) + self.config.latency)
    }

    /// The root complex has room again for a write of `bytes`.
    pub fn finish_write(&mut self, bytes: u64) {
        debug_assert!(self.writes >= bytes, "credits come back once");
        self.writes -= bytes;
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

    /// PCIe 4.0 x16, with 100 ns from end to end.
    fn config() -> Config {
        Config {
            rate: Rate::gbps(252.0),
            latency: nanos(100),
            overhead: 20,
            max_payload: 512,
            max_read_request: 512,
            tags: 64,
            write_credits: 16 << 10,
        }
    }

    fn nanos(nanos: u64) -> Picos {
        Picos::new(nanos * 1000)
    }

    /// Reads so many requests as fast as tags allow, from memory that takes `memory` for each, beside each other. The
    /// time that it took.
    fn read_all(config: Config, requests: u32, bytes: u64, memory: Picos) -> Picos {
        let mut link = Link::new(config);
        let mut coming: VecDeque<Picos> = VecDeque::new();
        let mut now = Picos::ZERO;
        for _ in 0..requests {
            let at_memory = loop {
                if let Some(at_memory) = link.read(now, bytes) {
                    break at_memory;
                }
                now = now.max(coming.pop_front().expect("tags are in use by reads on their way"));
                link.finish_read();
            };
            // All take equally long in memory, so that answers come in order.
            coming.push_back(link.answer(at_memory + memory, bytes));
        }
        coming.back().copied().unwrap_or(now)
    }

    /// Units: Gbit/s.
    fn rate(bytes: u64, took: Picos) -> f64 {
        bytes as f64 * 8.0 / took.as_seconds() / 1e9
    }

    #[test]
    fn with_tags_enough_reads_fill_the_link_but_for_headers() {
        let took = read_all(Config { tags: 1024, ..config() }, 20_000, 512, nanos(600));
        let expected = 252.0 * 512.0 / 532.0;
        let seen = rate(20_000 * 512, took);
        assert!((seen / expected - 1.0).abs() < 0.01, "{seen} Gbit/s, not {expected}");
    }

    #[test]
    fn few_tags_bound_reads_by_the_law_of_little() {
        for (tags, bytes) in [(1, 64), (8, 64), (8, 512), (32, 256)] {
            let (memory, data) = (nanos(600), config().rate.time(bytes + 20));
            let trip = config().rate.time(20) + config().latency + memory + data + config().latency;
            let took = read_all(Config { tags, ..config() }, 5_000, bytes, memory);
            let expected = (u64::from(tags) * bytes) as f64 * 8.0 / trip.as_seconds() / 1e9;
            let seen = rate(5_000 * bytes, took);
            assert!((seen / expected - 1.0).abs() < 0.02, "{tags} tags of {bytes} B: {seen} Gbit/s, not {expected}");
        }
    }

    #[test]
    fn credits_bound_writes_by_the_law_of_little() {
        let (bytes, held) = (1024, nanos(1_500));
        let mut link = Link::new(config());
        let mut over: VecDeque<Picos> = VecDeque::new();
        let mut now = Picos::ZERO;
        for _ in 0..4_000 {
            let reached = loop {
                if let Some(reached) = link.write(now, bytes) {
                    break reached;
                }
                now = now.max(over.pop_front().expect("credits are in use by writes on their way"));
                link.finish_write(bytes);
            };
            over.push_back(reached + held);
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
        assert!(link.write(Picos::ZERO, 64 << 10).is_some());
        assert_eq!(link.write(Picos::ZERO, 1), None);
        link.finish_write(64 << 10);
        assert!(link.write(Picos::ZERO, 1).is_some());
    }

    proptest! {
        #[test]
        fn more_of_anything_makes_no_read_slower(
            tags in 1u32..64, bytes in 1u64..=512, gbps in 10.0f64..500.0, memory in 0u64..2_000,
        ) {
            let base = Config { tags, rate: Rate::gbps(gbps), ..config() };
            let took = read_all(base, 300, bytes, nanos(memory));
            for better in [
                Config { tags: tags + 1, ..base },
                Config { rate: Rate::gbps(gbps * 1.1), ..base },
                Config { latency: nanos(90), ..base },
                Config { max_payload: 1024, ..base },
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
                link.finish_write(*bytes);
                let at_memory = link.read(now, (*bytes).min(512)).expect("one at a time");
                now = link.answer(at_memory, (*bytes).min(512));
                link.finish_read();
            }
            let counts = link.counts();
            prop_assert_eq!(counts.written_bytes, sizes.iter().sum::<u64>());
            prop_assert_eq!(counts.read_bytes, sizes.iter().map(|bytes| (*bytes).min(512)).sum::<u64>());
            prop_assert_eq!((counts.reads, link.reads()), (sizes.len() as u64, 0));
        }
    }
}

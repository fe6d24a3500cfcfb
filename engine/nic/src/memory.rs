//! The memory of a host: DRAM of its sockets and memory of GPUs, and what lies between them and the root complex of the
//! NIC. All times come from what is queued.

use kelpie_events::{Picos, Rate, Server};

use crate::cache::LINE;

/// One memory.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// What it reads and writes together.
    pub rate: Rate,
    /// From a request that it gets to its answer, with nothing queued.
    pub latency: Picos,
    /// The way to it, one of the memory's [`Way`]s; none: right behind the root complex.
    pub way: Option<usize>,
}

/// A way from the root complex to a memory, such as the interconnect of two sockets: full duplex.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// From the root complex.
    pub away: Rate,
    /// To the root complex.
    pub back: Rate,
    /// From one end to the other.
    pub latency: Picos,
}

/// Both directions of a way: from the root complex, and to it.
#[derive(Debug, Clone, Default)]
struct Duplex {
    away: Server,
    back: Server,
}

/// A way with what is on it.
#[derive(Debug, Clone)]
struct Span(Way, Duplex);

impl Span {
    /// `bytes` leave the root complex; when they are at the other end.
    fn away(&mut self, now: Picos, bytes: u64) -> Picos {
        self.1.away.serve(now, self.0.away.time(bytes)) + self.0.latency
    }

    /// `bytes` leave the other end; when they are at the root complex.
    fn back(&mut self, now: Picos, bytes: u64) -> Picos {
        self.1.back.serve(now, self.0.back.time(bytes)) + self.0.latency
    }
}

/// A host's memory.
#[derive(Debug, Clone)]
pub struct Memory {
    places: Vec<(Place, Server)>,
    ways: Vec<Span>,
    /// Lines that were written in part and so had to be read first.
    partial_lines: u64,
}

impl Memory {
    /// Memory at rest. Every place lies behind one of the ways, or none.
    pub fn new(places: &[Place], ways: &[Way]) -> Self {
        debug_assert!(places.iter().all(|place| place.way.is_none_or(|way| way < ways.len())));
        Self {
            places: places.iter().map(|place| (*place, Server::default())).collect(),
            ways: ways.iter().map(|way| Span(*way, Duplex::default())).collect(),
            partial_lines: 0,
        }
    }

    /// Reads for a request that is at the root complex, and is answered after `earliest`; says when the first line of the
    /// answer is there, and the last.
    ///
    /// Requests come to a place in the order in which they come to the root complex, so that claims in that order are
    /// claims in the order of time. A request that waits at the root complex holds up no other.
    pub fn read(&mut self, now: Picos, earliest: Picos, place: usize, bytes: u64) -> [Picos; 2] {
        let (rate, latency, way) = self.of(place);
        let there = now + way.map_or(Picos::ZERO, |way| self.ways[way].0.latency);
        let span = rate.time(bytes);
        let served = self.places[place].1.serve(there, span).max(earliest) + latency;
        let first = rate.time(bytes.min(LINE)) + served.saturating_sub(span);
        way.map_or([first, served], |way| {
            let last = self.ways[way].back(served, bytes);
            [last.saturating_sub(self.ways[way].0.back.time(bytes.saturating_sub(LINE))), last]
        })
    }

    /// Takes a write that is at the root complex; says when memory has it.
    ///
    /// A line that is written in part is read first, because memory keeps whole lines.
    pub fn write(&mut self, now: Picos, place: usize, address: u64, bytes: u64) -> Picos {
        let (rate, latency, way) = self.of(place);
        let there = way.map_or(now, |way| self.ways[way].away(now, bytes));
        let partial = partial_lines(address, bytes);
        self.partial_lines += partial;
        let done = self.places[place].1.serve(there, rate.time(bytes + partial * LINE));
        if partial > 0 { done + latency } else { done }
    }

    /// Time that each way was busy: from the root complex, and to it.
    pub fn ways_busy(&self) -> impl Iterator<Item = [Picos; 2]> {
        self.ways.iter().map(|span| [span.1.away.busy, span.1.back.busy])
    }

    /// Time that each place was busy.
    pub fn places_busy(&self) -> impl Iterator<Item = Picos> {
        self.places.iter().map(|(_, server)| server.busy)
    }

    fn of(&self, place: usize) -> (Rate, Picos, Option<usize>) {
        let place = self.places[place].0;
        (place.rate, place.latency, place.way)
    }

    /// Lines that were written in part so far.
    pub fn partial_lines(&self) -> u64 {
        self.partial_lines
    }
}

/// Lines of which a write covers a part and not all: none, its first, its last, or both.
fn partial_lines(address: u64, bytes: u64) -> u64 {
    let end = address + bytes;
    let (first, last) = (address / LINE, end.saturating_sub(1) / LINE);
    let (begins_inside, ends_inside) = (!address.is_multiple_of(LINE), !end.is_multiple_of(LINE));
    if bytes == 0 {
        0
    } else if first == last {
        u64::from(begins_inside || ends_inside)
    } else {
        u64::from(begins_inside) + u64::from(ends_inside)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOCAL: usize = 0;
    const FAR: usize = 1;

    fn nanos(nanos: u64) -> Picos {
        Picos::new(nanos * 1000)
    }

    /// Two sockets, 100 ns apart.
    fn memory() -> Memory {
        let near = Place { rate: Rate::gbps(800.0), latency: nanos(90), way: None };
        let way = Way { away: Rate::gbps(166.0), back: Rate::gbps(166.0), latency: nanos(100) };
        Memory::new(&[near, Place { way: Some(0), ..near }], &[way])
    }

    #[test]
    fn far_memory_takes_two_hops_more_and_no_more_than_its_way_carries() {
        let [_, near] = memory().read(Picos::ZERO, Picos::ZERO, LOCAL, 64);
        let [_, far] = memory().read(Picos::ZERO, Picos::ZERO, FAR, 64);
        assert_eq!(far - near, nanos(200) + Rate::gbps(166.0).time(64));
        let mut memory = memory();
        let [_, last] = (0..10_000).map(|_| memory.read(Picos::ZERO, Picos::ZERO, FAR, 512)).max().expect("answers");
        let gbps = 10_000.0 * 512.0 * 8.0 / last.as_seconds() / 1e9;
        assert!((gbps / 166.0 - 1.0).abs() < 0.01, "{gbps} Gbit/s");
    }

    #[test]
    fn the_first_line_of_an_answer_is_there_before_the_last() {
        let [first, last] = memory().read(Picos::ZERO, Picos::ZERO, LOCAL, 4096);
        assert_eq!(last - first, Rate::gbps(800.0).time(4096 - 64));
        let [first, last] = memory().read(Picos::ZERO, Picos::ZERO, FAR, 4096);
        assert_eq!(last - first, Rate::gbps(166.0).time(4096 - 64));
    }

    #[test]
    fn a_way_is_full_duplex_and_a_place_is_not() {
        let mut memory = memory();
        let [_, read] = memory.read(Picos::ZERO, Picos::ZERO, FAR, 1 << 20);
        let written = memory.write(Picos::ZERO, FAR, 0, 1 << 20);
        let one = Rate::gbps(166.0).time(1 << 20);
        assert!(read < one + one / 2 && written < one + one / 2, "the way carries both at once");
        let mut memory = Memory::new(&[Place { rate: Rate::gbps(100.0), latency: nanos(90), way: None }], &[]);
        memory.read(Picos::ZERO, Picos::ZERO, LOCAL, 1 << 20);
        assert!(memory.write(Picos::ZERO, LOCAL, 0, 1 << 20) >= Rate::gbps(100.0).time(2 << 20));
    }

    #[test]
    fn a_line_that_is_written_in_part_is_read_first() {
        for (address, bytes, partial) in [
            (0, 64, 0),
            (0, 128, 0),
            (0, 1, 1),
            (8, 16, 1),
            (32, 64, 2),
            (32, 32, 1),
            (64, 96, 1),
            (1, 4096, 2),
            (5, 0, 0),
        ] {
            let mut memory = memory();
            let done = memory.write(Picos::ZERO, LOCAL, address, bytes);
            assert_eq!(memory.partial_lines(), partial, "{bytes} B at {address}");
            assert_eq!(done >= nanos(90), partial > 0, "{bytes} B at {address}");
        }
    }

    proptest! {
        #[test]
        fn a_write_covers_each_line_in_whole_or_in_part(address in 0u64..1000, bytes in 1u64..1000) {
            let lines = (address..address + bytes).map(|byte| byte / LINE);
            let mut covered = std::collections::BTreeMap::new();
            lines.for_each(|line| *covered.entry(line).or_insert(0) += 1);
            let expected = covered.values().filter(|bytes| **bytes < LINE).count() as u64;
            prop_assert_eq!(partial_lines(address, bytes), expected);
        }
    }
}

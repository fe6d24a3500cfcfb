//! The memory of a host: DRAM of its sockets and memory of GPUs, and what lies between them and the root complex of the
//! NIC. All times come from what is queued.
//!
//! What is far goes there, is served, and comes back: three calls at three times, because a server that is claimed
//! ahead of its time would stand idle for it.

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
    /// In each direction.
    pub rate: Rate,
    /// From one end to the other.
    pub latency: Picos,
}

/// Both directions of a way: from the root complex, and to it.
#[derive(Debug, Clone, Default)]
struct Duplex {
    away: Server,
    back: Server,
}

/// A host's memory.
#[derive(Debug, Clone)]
pub struct Memory {
    places: Vec<(Place, Server)>,
    ways: Vec<(Way, Duplex)>,
    /// Lines that were written in part and so had to be read first.
    partial_lines: u64,
}

impl Memory {
    /// Memory at rest. Every place lies behind one of the ways, or none.
    pub fn new(places: &[Place], ways: &[Way]) -> Self {
        debug_assert!(places.iter().all(|place| place.way.is_none_or(|way| way < ways.len())));
        Self {
            places: places.iter().map(|place| (*place, Server::default())).collect(),
            ways: ways.iter().map(|way| (*way, Duplex::default())).collect(),
            partial_lines: 0,
        }
    }

    /// Sends a request with `bytes` of data to a place; says when it is there.
    pub fn go(&mut self, now: Picos, place: usize, bytes: u64) -> Picos {
        self.way(place).map_or(now, |(way, duplex)| duplex.away.serve(now, way.rate.time(bytes)) + way.latency)
    }

    /// Sends an answer of `bytes` back from a place; says when it is at the root complex.
    pub fn come_back(&mut self, now: Picos, place: usize, bytes: u64) -> Picos {
        self.way(place).map_or(now, |(way, duplex)| duplex.back.serve(now, way.rate.time(bytes)) + way.latency)
    }

    /// Reads for a request that is at its place; says when the answer may leave.
    pub fn read(&mut self, now: Picos, place: usize, bytes: u64) -> Picos {
        let (place, server) = &mut self.places[place];
        server.serve(now, place.rate.time(bytes)) + place.latency
    }

    /// Takes a write that is at its place; says when memory has it.
    ///
    /// A line that is written in part is read first, because memory keeps whole lines.
    pub fn write(&mut self, now: Picos, place: usize, address: u64, bytes: u64) -> Picos {
        let (place, server) = &mut self.places[place];
        let partial = partial_lines(address, bytes);
        self.partial_lines += partial;
        let done = server.serve(now, place.rate.time(bytes + partial * LINE));
        if partial > 0 { done + place.latency } else { done }
    }

    fn way(&mut self, place: usize) -> Option<&mut (Way, Duplex)> {
        self.places[place].0.way.map(|way| &mut self.ways[way])
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
        let way = Way { rate: Rate::gbps(166.0), latency: nanos(100) };
        Memory::new(&[near, Place { way: Some(0), ..near }], &[way])
    }

    /// A read from the root complex and back, with nothing else on its way.
    fn read_alone(memory: &mut Memory, now: Picos, place: usize, bytes: u64) -> Picos {
        let there = memory.go(now, place, 0);
        let served = memory.read(there, place, bytes);
        memory.come_back(served, place, bytes)
    }

    #[test]
    fn far_memory_takes_two_hops_more_and_no_more_than_its_way_carries() {
        let near = read_alone(&mut memory(), Picos::ZERO, LOCAL, 64);
        let far = read_alone(&mut memory(), Picos::ZERO, FAR, 64);
        assert_eq!(far - near, nanos(200) + Rate::gbps(166.0).time(64));
        let mut memory = memory();
        let last = (0..10_000).map(|_| memory.come_back(Picos::ZERO, FAR, 512)).max().expect("answers");
        let gbps = 10_000.0 * 512.0 * 8.0 / last.as_seconds() / 1e9;
        assert!((gbps / 166.0 - 1.0).abs() < 0.01, "{gbps} Gbit/s");
    }

    #[test]
    fn a_way_is_full_duplex_and_a_place_is_not() {
        let mut memory = memory();
        let away = (0..1000).map(|_| memory.go(Picos::ZERO, FAR, 512)).max().expect("writes");
        let back = (0..1000).map(|_| memory.come_back(Picos::ZERO, FAR, 512)).max().expect("answers");
        assert_eq!(away, back);
        let read = memory.read(Picos::ZERO, FAR, 1 << 20);
        let written = memory.write(Picos::ZERO, FAR, 0, 1 << 20);
        assert!(written >= Rate::gbps(800.0).time(2 << 20) && read < written);
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

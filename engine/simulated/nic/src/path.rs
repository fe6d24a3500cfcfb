//! The way from a NIC into the memory of its host: link, root complex and memory, in the order that PCIe asks for.
//!
//! A write is done after all writes before it, unless it is marked relaxed. A read begins after all writes before it. A
//! write waits for no read. Source: PCIe base specification, section 2.4.1.

use kelpie_events::Picos;

use crate::memory::Memory;
use crate::pcie::{Link, ReadAmount};

/// The attribute of a write. Source: PCIe base specification, section 2.2.6.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// After all writes before it.
    Strict,
    /// Whenever memory takes it.
    Relaxed,
}

/// Requests to read that are on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadSpan {
    /// When the first line of the answer is at the root complex.
    pub first: Picos,
    /// When the last is.
    pub last: Picos,
    /// What was asked for.
    pub amount: ReadAmount,
}

/// A NIC's way into memory.
#[derive(Debug, Clone)]
pub struct Path {
    /// The link.
    pub link: Link,
    /// What lies behind the root complex.
    pub memory: Memory,
    /// Whether answers begin in the order in which they were asked for, because all memory in use is equally far.
    pub is_in_order: bool,
    /// When all writes so far are done.
    written: Picos,
    /// Time by which strict writes were done later than memory had them.
    held_up: Picos,
}

impl Path {
    /// A way on which nothing moves.
    pub fn new(link: Link, memory: Memory) -> Self {
        Self { link, memory, is_in_order: false, written: Picos::ZERO, held_up: Picos::ZERO }
    }

    /// Asks for as much as there are tags for; nothing if there is none. [`Path::answer`] is due at the first
    /// line.
    pub fn read(&mut self, now: Picos, place: usize, wanted: ReadAmount) -> Option<ReadSpan> {
        let (at_root, amount) = self.link.read(now, wanted)?;
        let [first, last] = self.memory.read(at_root, self.written, place, amount.bytes);
        Some(ReadSpan { first, last, amount })
    }

    /// The first line of an answer is at the root complex; says when all of it is on the NIC.
    pub fn answer(&mut self, now: Picos, asked: ReadSpan) -> Picos {
        self.link.answer(now, asked.amount, asked.last)
    }

    /// Writes `bytes`; says when they are in memory and the writes before them as far as they must be.
    ///
    /// # Errors
    /// When to ask again, because the root complex has no room until then.
    pub fn write(&mut self, now: Picos, place: usize, address: u64, bytes: u64, order: Order) -> Result<Picos, Picos> {
        let at_root = self.link.write(now, bytes)?;
        let in_memory = self.memory.write(at_root, place, address, bytes);
        let done = if order == Order::Strict { in_memory.max(self.written) } else { in_memory };
        self.held_up += done - in_memory;
        self.written = self.written.max(done);
        self.link.returns_at(done, bytes);
        Ok(done)
    }

    /// Time by which strict writes were done later than memory had them.
    pub fn held_up(&self) -> Picos {
        self.held_up
    }
}

#[cfg(test)]
mod tests {
    use kelpie_events::Rate;

    use super::*;
    use crate::memory::{MemoryPath, MemoryUnit};
    use crate::pcie::PcieConfig;

    /// PCIe 4.0 x16, memory of the own socket, and memory of the other 400 ns further.
    fn path() -> Path {
        let link = Link::new(PcieConfig {
            rate: Rate::gbps(252.0),
            latency: Picos::new(100_000),
            overhead: 20,
            max_payload: 512,
            max_read_request: 512,
            tags: 64,
            write_credits: 16 << 10,
            sleep: None,
        });
        let near =
            MemoryUnit { rate: Rate::gbps(800.0), latency: Picos::new(90_000), partial: Picos::new(90_000), way: None };
        let way = MemoryPath::new(Rate::gbps(166.0), Rate::gbps(166.0), Picos::new(400_000));
        Path::new(link, Memory::new(&[near, MemoryUnit { way: Some(0), ..near }], &[way]))
    }

    fn write(path: &mut Path, place: usize, order: Order) -> Picos {
        path.write(Picos::ZERO, place, 0, 64, order).expect("credits")
    }

    #[test]
    fn a_strict_write_is_done_after_those_before_it_and_a_relaxed_one_at_once() {
        for (order, waits) in [(Order::Strict, true), (Order::Relaxed, false)] {
            let mut path = path();
            let [far, near] = [1, 0].map(|place| write(&mut path, place, order));
            assert_eq!(near >= far, waits, "{order:?}");
            assert_eq!(path.held_up() > Picos::ZERO, waits, "{order:?}");
            assert!(write(&mut path, 0, Order::Strict) >= far, "a strict one passes no relaxed one either");
        }
    }

    #[test]
    fn a_read_begins_after_the_writes_before_it_and_not_after_those_behind_it() {
        let mut path = path();
        let alone = path.read(Picos::ZERO, 0, ReadAmount { bytes: 64, requests: 1 }).expect("a tag").first;
        let written = write(&mut path, 1, Order::Relaxed);
        let behind = path.read(Picos::ZERO, 0, ReadAmount { bytes: 64, requests: 1 }).expect("a tag").first;
        assert!(alone < written && behind > written, "{alone:?} {written:?} {behind:?}");
        let mut other = self::path();
        let read = other.read(Picos::ZERO, 1, ReadAmount { bytes: 1 << 15, requests: 64 }).expect("tags").last;
        assert!(write(&mut other, 0, Order::Strict) < read, "no write waits for a read");
    }

    #[test]
    fn credits_come_back_when_a_write_is_done() {
        let mut path = path();
        let done = path.write(Picos::ZERO, 1, 0, 16 << 10, Order::Strict).expect("credits");
        assert_eq!(path.write(Picos::ZERO, 0, 0, 64, Order::Strict), Err(done));
        assert!(path.write(done, 0, 0, 64, Order::Strict).is_ok());
    }
}

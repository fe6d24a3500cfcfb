//! What a root complex owes to the order in which writes and reads of a device reach it. Its memory is elsewhere.
//!
//! A write is done after all writes before it, unless it is marked relaxed. A read begins after all writes before it. A
//! write waits for no read. Source: PCIe base specification, section 2.4.1.

use std::collections::VecDeque;

/// The attribute of a write. Source: PCIe base specification, section 2.2.6.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// After all writes before it.
    Strict,
    /// Whenever memory takes it.
    Relaxed,
}

/// Names a write that has reached the root complex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

/// A write that is not over, or over before one that came earlier.
#[derive(Debug, Clone, Copy)]
struct Write {
    bytes: u64,
    order: Order,
    is_in_memory: bool,
}

/// The order of one device. `R` is what a read is known by.
#[derive(Debug, Clone)]
pub struct Ordering<R> {
    /// Of the oldest of `writes`.
    oldest: u64,
    writes: VecDeque<Write>,
    /// Reads that wait until all writes below their number are over.
    reads: VecDeque<(u64, R)>,
}

impl<R> Default for Ordering<R> {
    fn default() -> Self {
        Self { oldest: 0, writes: VecDeque::new(), reads: VecDeque::new() }
    }
}

impl<R> Ordering<R> {
    /// A write arrives, and may go on to memory at once.
    pub fn write(&mut self, bytes: u64, order: Order) -> Ticket {
        self.writes.push_back(Write { bytes, order, is_in_memory: false });
        Ticket(self.oldest + self.writes.len() as u64 - 1)
    }

    /// A read arrives; it comes back if it may begin, and waits otherwise.
    pub fn read(&mut self, read: R) -> Option<R> {
        if self.writes.is_empty() {
            return Some(read);
        }
        self.reads.push_back((self.oldest + self.writes.len() as u64, read));
        None
    }

    /// Memory has a write; says for how many bytes credits go back.
    pub fn in_memory(&mut self, ticket: Ticket) -> u64 {
        let write = &mut self.writes[(ticket.0 - self.oldest) as usize];
        write.is_in_memory = true;
        let mut over = if write.order == Order::Relaxed { write.bytes } else { 0 };
        while let Some(write) = self.writes.pop_front_if(|write| write.is_in_memory) {
            self.oldest += 1;
            over += if write.order == Order::Strict { write.bytes } else { 0 };
        }
        over
    }

    /// The next read that waited and now may begin.
    pub fn next_read(&mut self) -> Option<R> {
        self.reads.pop_front_if(|(after, _)| *after <= self.oldest).map(|(_, read)| read)
    }

    /// Reads that wait for writes.
    pub fn waiting(&self) -> usize {
        self.reads.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_strict_write_is_over_after_those_before_it_and_a_relaxed_one_at_once() {
        for (order, expected) in [(Order::Strict, [0, 0, 7]), (Order::Relaxed, [4, 2, 1])] {
            let mut ordering: Ordering<()> = Ordering::default();
            let [first, second, third] = [1, 2, 4].map(|bytes| ordering.write(bytes, order));
            assert_eq!([third, second, first].map(|ticket| ordering.in_memory(ticket)), expected, "{order:?}");
        }
        let mut ordering: Ordering<()> = Ordering::default();
        let relaxed = ordering.write(1, Order::Relaxed);
        let strict = ordering.write(2, Order::Strict);
        assert_eq!(
            [strict, relaxed].map(|ticket| ordering.in_memory(ticket)),
            [0, 3],
            "it passes no relaxed one either"
        );
    }

    #[test]
    fn a_read_begins_after_the_writes_before_it_and_not_after_those_behind_it() {
        let mut ordering = Ordering::default();
        assert_eq!(ordering.read('a'), Some('a'));
        let before = ordering.write(64, Order::Relaxed);
        assert_eq!(ordering.read('b'), None);
        let behind = ordering.write(64, Order::Strict);
        assert_eq!(ordering.read('c'), None);
        assert_eq!(ordering.next_read(), None);
        ordering.in_memory(before);
        assert_eq!([ordering.next_read(), ordering.next_read()], [Some('b'), None]);
        ordering.in_memory(behind);
        assert_eq!([ordering.next_read(), ordering.next_read()], [Some('c'), None]);
    }

    proptest! {
        #[test]
        fn all_credits_come_back_and_every_read_begins(
            arrivals in prop::collection::vec((any::<bool>(), any::<bool>(), 1u64..512), 1..60), seed: u64,
        ) {
            let mut ordering = Ordering::default();
            let (mut tickets, mut reads, mut begun) = (Vec::new(), 0, 0);
            for (is_read, is_relaxed, bytes) in &arrivals {
                if *is_read {
                    reads += 1;
                    begun += usize::from(ordering.read(()).is_some());
                } else {
                    let order = if *is_relaxed { Order::Relaxed } else { Order::Strict };
                    tickets.push((ordering.write(*bytes, order), *bytes));
                }
            }
            let written: u64 = tickets.iter().map(|(_, bytes)| bytes).sum();
            let mut back = 0;
            let mut turn = seed;
            while !tickets.is_empty() {
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (ticket, _) = tickets.swap_remove((turn >> 33) as usize % tickets.len());
                back += ordering.in_memory(ticket);
                begun += std::iter::from_fn(|| ordering.next_read()).count();
            }
            prop_assert_eq!((back, begun, ordering.waiting()), (written, reads, 0));
        }
    }
}

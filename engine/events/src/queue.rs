//! The event queue. What events mean lives with the simulation that handles them.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Picos;

/// Events in order of time, then of insertion, so that equal seeds give equal runs.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Entry<E>>,
    inserted: u64,
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }
}

impl<E> Events<E> {
    /// Adds an event.
    #[inline]
    pub fn at(&mut self, time: Picos, event: E) {
        self.inserted += 1;
        self.heap.push(Entry { time, number: self.inserted, event });
    }

    /// The earliest event before `end`.
    #[inline]
    pub fn next_before(&mut self, end: Picos) -> Option<(Picos, E)> {
        if self.heap.peek()?.time >= end {
            return None;
        }
        self.heap.pop().map(|entry| (entry.time, entry.event))
    }
}

/// An event that waits; no two have the same number.
#[derive(Debug)]
struct Entry<E> {
    time: Picos,
    number: u64,
    event: E,
}

impl<E> Ord for Entry<E> {
    /// The earliest is the greatest, which the heap gives first.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_the_order_in_which_they_were_added() {
        let mut events = Events::default();
        for (time, event) in [(5, "c"), (3, "a"), (5, "d"), (3, "b"), (9, "late")] {
            events.at(Picos::new(time), event);
        }
        let end = Picos::new(9);
        let order: Vec<(Picos, &str)> = std::iter::from_fn(|| events.next_before(end)).collect();
        assert_eq!(order, [(3, "a"), (3, "b"), (5, "c"), (5, "d")].map(|(time, event)| (Picos::new(time), event)));
        assert_eq!(events.next_before(Picos::new(10)), Some((Picos::new(9), "late")));
        assert_eq!(events.next_before(Picos::MAX), None);
    }
}

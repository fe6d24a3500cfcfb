//! Simulated time and the event queue. What events mean lives with the parts that handle them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Simulated time or a span of it. Units: picoseconds.
pub type Ps = u64;

/// A span given in nanoseconds.
pub fn ns(value: f64) -> Ps {
    (value * 1e3).round() as Ps
}

/// Time that a byte takes.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    ps_per_byte: f64,
}

impl Rate {
    /// A rate given in Gbit/s.
    pub fn gbps(value: f64) -> Self {
        Self { ps_per_byte: 8e3 / value }
    }

    /// What `bytes` take.
    pub fn time(self, bytes: u64) -> Ps {
        (bytes as f64 * self.ps_per_byte) as Ps
    }
}

/// Events in order of time, then of insertion, so that equal seeds give equal runs.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Reverse<(Ps, u64, E)>>,
    inserted: u64,
}

impl<E: Ord> Default for Events<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }
}

impl<E: Ord> Events<E> {
    /// Adds an event.
    pub fn at(&mut self, time: Ps, event: E) {
        self.inserted += 1;
        self.heap.push(Reverse((time, self.inserted, event)));
    }

    /// The earliest event before `end`.
    pub fn next_before(&mut self, end: Ps) -> Option<(Ps, E)> {
        if self.heap.peek()?.0.0 >= end {
            return None;
        }
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }
}

//! The event queue. What events mean lives with the simulation that handles them.
//!
//! It is a calendar: events of the next microseconds lie in buckets by their time, of which only the one that is due is
//! sorted; later ones wait in a heap. Source: Brown, Calendar Queues, CACM 31 (1988).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Picos;

/// Bits of a time below its bucket: 8 ns. Source: measured, because a bucket then holds few events.
const WIDTH_BITS: u32 = 13;
/// Buckets, which together are 8 µs, longer than nearly every wait of a NIC.
const BUCKETS: u64 = 1024;
/// No event.
const NONE: u32 = u32::MAX;

/// Events in order of time, then of insertion, so that equal seeds give equal runs.
///
/// Events of a bucket are a list, the last that was inserted first, whose places all buckets share: what is used is
/// little and stays in the processor's cache.
#[derive(Debug)]
pub struct Events<E> {
    /// The bucket that is due, the last first.
    due: Vec<(Picos, E)>,
    /// Number of the bucket that is due.
    today: u64,
    /// The last event of each bucket.
    buckets: Vec<u32>,
    /// A bit for each bucket that holds something.
    filled: [u64; (BUCKETS / 64) as usize],
    /// Events in buckets, and what is free.
    places: Vec<QueueSlot<E>>,
    /// The first free place.
    free: u32,
    /// What lies beyond all buckets.
    far: BinaryHeap<Far<E>>,
    /// Events that were put there.
    inserted: u64,
}

/// A place for an event in a bucket.
#[derive(Debug)]
struct QueueSlot<E> {
    time: Picos,
    event: E,
    /// The one before it in its bucket, or the next free place.
    next: u32,
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Self {
        Self {
            due: Vec::new(),
            today: 0,
            buckets: vec![NONE; BUCKETS as usize],
            filled: [0; (BUCKETS / 64) as usize],
            places: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            inserted: 0,
        }
    }
}

impl<E: Copy> Events<E> {
    /// Adds an event.
    #[inline]
    pub fn at(&mut self, time: Picos, event: E) {
        let bucket = bucket_of(time);
        if bucket >= self.today + BUCKETS {
            self.inserted += 1;
            self.far.push(Far { time, number: self.inserted, event });
        } else {
            self.put(bucket, time, event);
        }
    }

    /// The earliest event before `end`.
    #[inline]
    pub fn next_before(&mut self, end: Picos) -> Option<(Picos, E)> {
        if self.due.is_empty() {
            self.turn_over();
        }
        if self.due.last()?.0 >= end {
            return None;
        }
        self.due.pop()
    }

    /// Puts an event, which was inserted after all others of its time, into its bucket.
    #[inline]
    fn put(&mut self, bucket: u64, time: Picos, event: E) {
        if bucket <= self.today {
            let place = self.due.iter().rposition(|(other, _)| *other > time).map_or(0, |later| later + 1);
            self.due.insert(place, (time, event));
            return;
        }
        let bucket = (bucket % BUCKETS) as usize;
        let place = QueueSlot { time, event, next: self.buckets[bucket] };
        self.buckets[bucket] = self.free;
        if let Some(free) = self.places.get_mut(self.free as usize) {
            self.free = free.next;
            *free = place;
        } else {
            self.buckets[bucket] = self.places.len() as u32;
            self.places.push(place);
        }
        self.filled[bucket / 64] |= 1 << (bucket % 64);
    }

    /// Goes on to the next bucket that holds something.
    fn turn_over(&mut self) {
        let far = self.far.peek().map(|far| bucket_of(far.time));
        // What is far is later than all buckets.
        let Some(next) = self.next_filled().or(far) else { return };
        self.today = next;
        let bucket = (next % BUCKETS) as usize;
        self.filled[bucket / 64] &= !(1 << (bucket % 64));
        let mut at = std::mem::replace(&mut self.buckets[bucket], NONE);
        while let Some(place) = self.places.get_mut(at as usize) {
            self.due.push((place.time, place.event));
            let before = std::mem::replace(&mut place.next, self.free);
            self.free = std::mem::replace(&mut at, before);
        }
        // The sort is stable, so that events of one time stay in the reverse order of insertion.
        if self.due.len() > 1 {
            self.due.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        }
        while self.far.peek().is_some_and(|far| bucket_of(far.time) < next + BUCKETS) {
            let Some(Far { time, event, .. }) = self.far.pop() else { break };
            self.put(bucket_of(time), time, event);
        }
    }

    /// Number of the next bucket after today's that holds something.
    fn next_filled(&self) -> Option<u64> {
        let begin = (self.today + 1) % BUCKETS;
        let words = BUCKETS / 64;
        for step in 0..=words {
            let word = (begin / 64 + step) % words;
            let mut bits = self.filled[word as usize];
            if step == 0 {
                bits &= u64::MAX << (begin % 64);
            } else if step == words {
                bits &= !(u64::MAX << (begin % 64));
            }
            if bits != 0 {
                let place = word * 64 + u64::from(bits.trailing_zeros());
                return Some(self.today + 1 + (place + BUCKETS - begin) % BUCKETS);
            }
        }
        None
    }
}

/// Buckets count from 1, so that before the first event no bucket is due.
#[inline]
fn bucket_of(time: Picos) -> u64 {
    (time.count() >> WIDTH_BITS) + 1
}

/// An event beyond all buckets; no two have the same number.
#[derive(Debug)]
struct Far<E> {
    time: Picos,
    number: u64,
    event: E,
}

impl<E> Ord for Far<E> {
    /// The earliest is the greatest.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

impl<E> PartialOrd for Far<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Far<E> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Far<E> {}

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

    #[test]
    fn near_and_far_events_come_in_the_same_order_as_from_a_sorted_list() {
        // A generator of its own, so that the crate needs none: numbers of all sizes.
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let mut events = Events::default();
        let mut waiting: Vec<(Picos, u64)> = Vec::new();
        let (mut now, mut number) = (Picos::ZERO, 0);
        for _ in 0..20_000 {
            for _ in 0..next() % 3 {
                let delay = [0, next() % 10, next() % 5_000, next() % 10_000_000, next() % 1_000_000_000];
                let time = now + Picos::new(delay[(next() % 5) as usize]);
                number += 1;
                events.at(time, number);
                waiting.push((time, number));
            }
            let first = waiting.iter().copied().min();
            let end = now + Picos::new(next() % 100_000);
            let expected = first.filter(|(time, _)| *time < end);
            assert_eq!(events.next_before(end), expected);
            if let Some(first) = expected {
                now = first.0;
                waiting.retain(|other| *other != first);
            }
        }
        assert!(number > 10_000);
    }
}

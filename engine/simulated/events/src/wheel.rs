//! The event queue of simulations with many alike parts: whole nanoseconds, events that are numbers, no order of
//! insertion.
//!
//! Events of the next 4 µs lie in slots of 1 ns, so that no slot has to be sorted by time; later ones wait in a heap.
//! Events of one time come in the order of their numbers, not of insertion: a simulation whose parts run on
//! several threads gives the same results as on one. Source: Varghese and Lauck, Hashed and Hierarchical Timing Wheels,
//! SOSP 1987.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Slots, which together are longer than a packet on a link of a data centre.
const SLOTS: u64 = 4096;
const WORDS: usize = (SLOTS / 64) as usize;
/// No event.
const NONE: u32 = u32::MAX;

/// Events in order of time, then of their numbers.
#[derive(Debug)]
pub struct Wheel {
    /// The first time that has not been handed out.
    cursor: u64,
    /// The last event of each slot.
    slots: Vec<u32>,
    /// A bit for each slot that holds something, and one for each word of them.
    filled: [u64; WORDS],
    words: u64,
    /// Events in slots, and what is free.
    places: Vec<Place>,
    free: u32,
    /// What lies beyond all slots.
    far: BinaryHeap<Reverse<(u64, u32)>>,
}

/// A place for an event in a slot.
#[derive(Debug, Clone, Copy)]
struct Place {
    event: u32,
    /// The one before it in its slot, or the next free place.
    next: u32,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            cursor: 0,
            slots: vec![NONE; SLOTS as usize],
            filled: [0; WORDS],
            words: 0,
            places: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
        }
    }
}

impl Wheel {
    /// Adds an event. Units: ns, later than all that [`Wheel::next_before`] has given.
    #[inline]
    pub fn at(&mut self, time: u64, event: u32) {
        debug_assert!(time >= self.cursor, "an event lies in the past");
        if time >= self.cursor + SLOTS {
            self.far.push(Reverse((time, event)));
        } else {
            self.put(time, event);
        }
    }

    /// Takes all events of the earliest time before `end`, in order, in place of what `due` holds; says which time it
    /// is.
    #[inline]
    pub fn next_before(&mut self, end: u64, due: &mut Vec<u32>) -> Option<u64> {
        due.clear();
        let time = self.earliest()?;
        if time >= end {
            return None;
        }
        self.cursor = time;
        while self.far.peek().is_some_and(|far| far.0.0 < time + SLOTS) {
            let Some(Reverse((time, event))) = self.far.pop() else { break };
            self.put(time, event);
        }
        self.cursor = time + 1;
        let slot = (time % SLOTS) as usize;
        self.filled[slot / 64] &= !(1 << (slot % 64));
        if self.filled[slot / 64] == 0 {
            self.words &= !(1 << (slot / 64));
        }
        let mut at = std::mem::replace(&mut self.slots[slot], NONE);
        while let Some(place) = self.places.get_mut(at as usize) {
            due.push(place.event);
            let before = std::mem::replace(&mut place.next, self.free);
            self.free = std::mem::replace(&mut at, before);
        }
        if due.len() > 1 {
            due.sort_unstable();
        }
        Some(time)
    }

    /// The time of the earliest event.
    pub fn earliest(&self) -> Option<u64> {
        self.next_filled().or_else(|| Some(self.far.peek()?.0.0))
    }

    #[inline]
    fn put(&mut self, time: u64, event: u32) {
        let slot = (time % SLOTS) as usize;
        let place = Place { event, next: self.slots[slot] };
        self.slots[slot] = self.free;
        if let Some(free) = self.places.get_mut(self.free as usize) {
            self.free = free.next;
            *free = place;
        } else {
            self.slots[slot] = self.places.len() as u32;
            self.places.push(place);
        }
        self.filled[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
    }

    /// The first time of which a slot holds something.
    #[inline]
    fn next_filled(&self) -> Option<u64> {
        let begin = self.cursor % SLOTS;
        let (word, bit) = ((begin / 64) as usize, begin % 64);
        let here = self.filled[word] & (u64::MAX << bit);
        let slot = if here != 0 {
            word as u64 * 64 + u64::from(here.trailing_zeros())
        } else {
            // Words after this one, then those before it, and at last what lies before the cursor in its own.
            let later = if word == WORDS - 1 { 0 } else { self.words & (u64::MAX << (word + 1)) };
            let words = if later != 0 { later } else { self.words };
            if words == 0 {
                return None;
            }
            let word = u64::from(words.trailing_zeros());
            word * 64 + u64::from(self.filled[word as usize].trailing_zeros())
        };
        Some(self.cursor + (slot + SLOTS - begin) % SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_number_like_from_a_sorted_list() {
        // A generator of its own, so that the crate needs none: numbers of all sizes.
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let (mut wheel, mut waiting, mut due) = (Wheel::default(), Vec::new(), Vec::new());
        let (mut now, mut seen) = (0, 0);
        for _ in 0..20_000 {
            for _ in 0..next() % 4 {
                let delay = [1, 1 + next() % 60, next() % 4096 + 1, 4095 + next() % 3, next() % 1_000_000 + 1];
                let (time, event) = (now + delay[(next() % 5) as usize], next() as u32);
                wheel.at(time, event);
                waiting.push((time, event));
            }
            let end = now + 1 + next() % 5000;
            let first = waiting.iter().map(|(time, _)| *time).min().filter(|time| *time < end);
            assert_eq!(wheel.next_before(end, &mut due), first);
            let Some(time) = first else { continue };
            let mut expected: Vec<u32> = waiting.iter().filter(|one| one.0 == time).map(|one| one.1).collect();
            expected.sort_unstable();
            assert_eq!(due, expected, "at {time}");
            seen += due.len();
            waiting.retain(|one| one.0 != time);
            now = time;
        }
        assert!(seen > 10_000);
    }
}

//! Caches of the NIC: one that forgets the oldest, what a miss costs, how full one may be before it misses.

use kelpie_events::{Picos, Pool};

/// A cache that forgets the oldest entries; entries are numbers, sizes are in the cache's unit.
///
/// An entry is held until `capacity` has been inserted after it, which needs one number for each entry and no list.
#[derive(Debug, Clone, Default)]
pub struct FifoCache {
    capacity: u64,
    inserted: u64,
    /// `inserted` right after the entry went in; 0: never.
    stamps: Vec<u64>,
}

impl FifoCache {
    /// A cache of `capacity` for `entries` numbers.
    pub fn new(capacity: u64, entries: usize) -> Self {
        Self { capacity, inserted: 0, stamps: vec![0; entries] }
    }

    /// Looks `entry` up and inserts it when it is missing; says whether it was there.
    pub fn touch(&mut self, entry: usize, size: u64) -> bool {
        let stamp = self.stamps[entry];
        let held = stamp != 0 && self.inserted - stamp + size <= self.capacity;
        if !held {
            self.inserted += size;
            self.stamps[entry] = self.inserted;
        }
        held
    }
}

/// Share of accesses that miss for want of associativity while the working set still fits; prefetch hides their cost.
///
/// Source: our choice, the fourth power; real caches of few ways begin to miss before they are full.
pub fn pressure(working_set: u64, capacity: u64) -> f64 {
    (working_set as f64 / capacity.max(1) as f64).min(1.0).powi(4) * 0.1
}

/// Fetches what a cache did not hold in `reads` reads of `span` and counts them; says when all of it is there.
pub fn fetch(pool: &mut Pool, now: Picos, span: Picos, reads: u32, misses: &mut f64) -> Picos {
    let mut done = now;
    for _ in 0..reads {
        *misses += 1.0;
        done = done.max(pool.serve(now, span));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_waits_for_its_last_read_and_counts_each() {
        let (mut pool, mut misses) = (Pool::new(2), 0.0);
        let (now, span) = (Picos::new(7), Picos::new(10));
        assert_eq!(fetch(&mut pool, now, span, 0, &mut misses), now);
        assert_eq!(fetch(&mut pool, now, span, 3, &mut misses), Picos::new(27));
        assert_eq!((pool.busy, misses.to_bits()), (Picos::new(30), 3.0_f64.to_bits()));
    }

    #[test]
    fn a_working_set_that_fits_is_held_and_one_that_does_not_thrashes() {
        for (entries, misses_expected) in [(8, 8), (9, 90)] {
            let mut cache = FifoCache::new(8, entries);
            let misses = (0..10 * entries).filter(|touch| !cache.touch(touch % entries, 1)).count();
            assert_eq!(misses, misses_expected, "{entries} entries in a cache of 8");
        }
    }
}

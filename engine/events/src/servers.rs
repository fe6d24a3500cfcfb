//! The building blocks of every part: servers that are busy until a time, and caches that forget the oldest.

use crate::time::Ps;

/// A first-come, first-served server.
#[derive(Debug, Clone, Default)]
pub struct Server {
    free: Ps,
    /// Time spent serving.
    pub busy: Ps,
}

impl Server {
    /// Serves for `span` from `now` or from when the work before is done; says when it is done.
    pub fn serve(&mut self, now: Ps, span: Ps) -> Ps {
        self.free = self.free.max(now) + span;
        self.busy += span;
        self.free
    }

    /// Keeps the server from serving again before `time`, without counting it as busy.
    pub fn hold_until(&mut self, time: Ps) {
        self.free = self.free.max(time);
    }

    /// When the work so far is done.
    pub fn free(&self) -> Ps {
        self.free
    }
}

/// Equal servers side by side, such as the misses that a cache can have in flight.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    free: Vec<Ps>,
    /// Time spent serving, over all servers.
    pub busy: Ps,
}

impl Pool {
    /// `servers` of them.
    pub fn new(servers: u32) -> Self {
        Self { free: vec![0; servers as usize], busy: 0 }
    }

    /// Servers in the pool.
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// Time that a server spent serving, in the mean.
    pub fn mean_busy(&self) -> Ps {
        self.busy / self.free.len() as Ps
    }

    /// Whether a server is idle at `now`.
    pub fn idle(&self, now: Ps) -> bool {
        self.free.iter().any(|free| *free <= now)
    }

    /// Serves on the server that is free first; says when it is done.
    pub fn serve(&mut self, now: Ps, span: Ps) -> Ps {
        let first = self.free.iter_mut().min().expect("a pool has at least one server");
        *first = (*first).max(now) + span;
        self.busy += span;
        *first
    }

    /// Fetches what a cache did not hold in `reads` reads of `span` and counts them; says when all of it is there.
    pub fn fetch(&mut self, now: Ps, span: Ps, reads: u32, misses: &mut f64) -> Ps {
        let mut done = now;
        for _ in 0..reads {
            *misses += 1.0;
            done = done.max(self.serve(now, span));
        }
        done
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_serves_one_after_the_other() {
        let mut server = Server::default();
        assert_eq!(server.serve(10, 5), 15);
        assert_eq!(server.serve(11, 5), 20);
        assert_eq!(server.serve(30, 5), 35);
        assert_eq!(server.busy, 15);
    }

    #[test]
    fn a_pool_serves_side_by_side() {
        let mut pool = Pool::new(2);
        assert_eq!(pool.serve(0, 10), 10);
        assert_eq!(pool.serve(0, 10), 10);
        assert!(!pool.idle(5));
        assert_eq!(pool.serve(0, 10), 20);
    }

    #[test]
    fn a_fetch_waits_for_its_last_read_and_counts_each() {
        let (mut pool, mut misses) = (Pool::new(2), 0.0);
        assert_eq!(pool.fetch(7, 10, 0, &mut misses), 7);
        assert_eq!(pool.fetch(7, 10, 3, &mut misses), 27);
        assert_eq!((pool.busy, misses.to_bits()), (30, 3.0_f64.to_bits()));
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

//! A set-associative cache of lines of host memory, which says what is held, what is on its way and what is missing.
//! Fetching a missing line is up to whoever asked.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// A line. Units: bytes. Source: the cache line of hosts, by which PCIe reads come back.
pub const LINE: u64 = 64;

/// No key: bits 56 to 63 of a key are its kind, and no kind is 255.
const EMPTY: u64 = u64::MAX;

/// No read: the line is there.
const HERE: u32 = u32::MAX;

/// Multiplier of Fibonacci hashing, 2^64 divided by the golden ratio. Source: Knuth, TAOCP 3, section 6.4.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Names a line: what kind of thing, which of them, which line of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// Line `line` of thing `object` of a kind, which is below 255.
    #[inline]
    pub const fn new(kind: u8, object: u32, line: u32) -> Self {
        debug_assert!(kind < u8::MAX && line < 1 << 24);
        Self((kind as u64) << 56 | (object as u64) << 24 | line as u64)
    }

    /// The line `further` lines behind.
    #[inline]
    #[must_use]
    pub const fn plus(self, further: u32) -> Self {
        Self(self.0 + further as u64)
    }
}

/// Which line of a full set goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// The one that was not used for longest.
    LeastRecent,
    /// Any, by a seeded generator.
    Random,
}

/// The form of a cache.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// What it holds. Units: bytes; rounded down to whole sets, of which there is at least one.
    pub bytes: u64,
    /// Lines of a set, at least 1.
    pub ways: u32,
    /// Which line goes.
    pub replacement: Replacement,
}

impl Geometry {
    fn ways(self) -> usize {
        self.ways.max(1) as usize
    }

    fn sets(self) -> u64 {
        (self.bytes / LINE / self.ways() as u64).max(1)
    }

    /// Lines that it has room for.
    pub fn lines(self) -> usize {
        self.sets() as usize * self.ways()
    }
}

/// What a cache says of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// It is there.
    Held,
    /// Somebody else asked for it: it comes with the read of this number.
    Coming(u32),
    /// It has to be fetched.
    Missing,
}

/// How often each answer was given, and how many lines went for others. Units: lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// [`Lookup::Held`].
    pub hits: u64,
    /// [`Lookup::Coming`].
    pub merged: u64,
    /// [`Lookup::Missing`].
    pub misses: u64,
    /// Lines that made room.
    pub evicted: u64,
}

/// A cache. Shape: `sets` times `ways` lines.
#[derive(Debug, Clone)]
pub struct Cache {
    keys: Vec<u64>,
    /// The read that each line comes with, or [`HERE`].
    coming: Vec<u32>,
    /// When each line was used last, counted in lookups.
    used: Vec<u64>,
    sets: u64,
    ways: usize,
    replacement: Replacement,
    random: Pcg32,
    lookups: u64,
    counts: Counts,
}

impl Cache {
    /// An empty cache; equal seeds give equal answers.
    pub fn new(geometry: Geometry, seed: u64) -> Self {
        let (ways, sets, lines) = (geometry.ways(), geometry.sets(), geometry.lines());
        Self {
            keys: vec![EMPTY; lines],
            coming: vec![HERE; lines],
            used: vec![0; lines],
            sets,
            ways,
            replacement: geometry.replacement,
            random: Pcg32::seed_from_u64(seed),
            lookups: 0,
            counts: Counts::default(),
        }
    }

    /// Lines that it has room for.
    pub fn lines(&self) -> usize {
        self.keys.len()
    }

    /// What was answered so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Looks a line up.
    #[inline]
    pub fn look_up(&mut self, key: Key) -> Lookup {
        self.lookups += 1;
        let set = self.set(key);
        let Some(place) = self.keys[set.clone()].iter().position(|held| *held == key.0) else {
            self.counts.misses += 1;
            return Lookup::Missing;
        };
        let line = set.start + place;
        self.used[line] = self.lookups;
        if self.coming[line] == HERE {
            self.counts.hits += 1;
            Lookup::Held
        } else {
            self.counts.merged += 1;
            Lookup::Coming(self.coming[line])
        }
    }

    /// Makes room for a line that comes with a read.
    pub fn bring(&mut self, key: Key, read: u32) {
        let set = self.set(key);
        let same = |held: &u64| *held == key.0;
        let free = |held: &u64| *held == EMPTY;
        let keys = &self.keys[set.clone()];
        let place = keys.iter().position(same).or_else(|| keys.iter().position(free));
        let line = set.start
            + place.unwrap_or_else(|| {
                self.counts.evicted += 1;
                match self.replacement {
                    Replacement::Random => ((u64::from(self.random.next_u32()) * self.ways as u64) >> 32) as usize,
                    Replacement::LeastRecent => {
                        let used = &self.used[set.clone()];
                        (0..self.ways).min_by_key(|place| used[*place]).expect("a set has at least one line")
                    }
                }
            });
        (self.keys[line], self.coming[line], self.used[line]) = (key.0, read, self.lookups);
    }

    /// Makes room for a line that is there already.
    pub fn keep(&mut self, key: Key) {
        self.bring(key, HERE);
    }

    /// A line has come with a read, if no other took its room meanwhile.
    pub fn arrived(&mut self, key: Key, read: u32) {
        let set = self.set(key);
        if let Some(place) = self.keys[set.clone()].iter().position(|held| *held == key.0)
            && self.coming[set.start + place] == read
        {
            self.coming[set.start + place] = HERE;
        }
    }

    /// A line is no longer what memory holds.
    pub fn forget(&mut self, key: Key) {
        let set = self.set(key);
        if let Some(place) = self.keys[set.clone()].iter().position(|held| *held == key.0) {
            self.keys[set.start + place] = EMPTY;
        }
    }

    /// The lines of the set that a key belongs to.
    #[inline]
    fn set(&self, key: Key) -> std::ops::Range<usize> {
        // The upper half of a product is a hash scaled to the number of sets, which need not be a power of two.
        let hash = key.0.wrapping_mul(SPREAD);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(SPREAD);
        let set = ((u128::from(hash) * u128::from(self.sets)) >> 64) as usize;
        set * self.ways..(set + 1) * self.ways
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const GEOMETRY: Geometry = Geometry { bytes: 1024 * LINE, ways: 16, replacement: Replacement::Random };

    fn key(line: u32) -> Key {
        Key::new(1, line / 7, line % 7)
    }

    /// Looks a line up and brings it at once if it is missing; whether it was there.
    fn touch(cache: &mut Cache, key: Key) -> bool {
        let held = cache.look_up(key) == Lookup::Held;
        if !held {
            cache.bring(key, 7);
            cache.arrived(key, 7);
        }
        held
    }

    /// Hits per lookup of so many lines in turn, once they were all seen.
    fn hits_in_turn(geometry: Geometry, lines: u32) -> f64 {
        let mut cache = Cache::new(geometry, 1);
        let rounds = 200;
        (0..lines).for_each(|line| _ = touch(&mut cache, key(line)));
        let hits = (0..rounds).flat_map(|_| 0..lines).filter(|line| touch(&mut cache, key(*line))).count();
        hits as f64 / f64::from(lines * rounds)
    }

    #[test]
    fn hits_fall_gradually_as_more_lines_are_used_in_turn() {
        let rates: Vec<f64> =
            [256, 512, 768, 896, 1024, 1280, 1536, 2048, 4096].map(|lines| hits_in_turn(GEOMETRY, lines)).into();
        assert!(rates.is_sorted_by(|more, less| more >= less), "{rates:?}");
        assert!(rates.windows(2).all(|pair| pair[0] - pair[1] < 0.35), "a step and no slope: {rates:?}");
        assert!(rates[0] > 0.999 && rates[1] > 0.98, "half full: {rates:?}");
        assert!(rates[8] < 0.05, "four times what it holds: {rates:?}");
    }

    #[test]
    fn the_least_recent_line_goes_first_and_lines_in_turn_then_never_hit() {
        let one_set = Geometry { bytes: 4 * LINE, ways: 4, replacement: Replacement::LeastRecent };
        assert!((hits_in_turn(one_set, 4) - 1.0).abs() < f64::EPSILON);
        assert!(hits_in_turn(one_set, 5).abs() < f64::EPSILON);
        let mut cache = Cache::new(one_set, 1);
        (0..4).for_each(|line| _ = touch(&mut cache, key(line)));
        assert!(touch(&mut cache, key(0)) && !touch(&mut cache, key(9)));
        assert_eq!([0, 1].map(|line| touch(&mut cache, key(line))), [true, false], "line 1 made room for line 9");
    }

    #[test]
    fn random_use_of_twice_what_is_held_hits_half_of_the_time() {
        let (mut cache, mut random) = (Cache::new(GEOMETRY, 1), Pcg32::seed_from_u64(2));
        let mut hits = 0;
        for turn in 0..200_000 {
            let hit = touch(&mut cache, key(random.next_u32() % 2048));
            hits += u32::from(hit && turn >= 100_000);
        }
        assert!((f64::from(hits) / 1e5 - 0.5).abs() < 0.02, "{hits} of 100,000");
    }

    #[test]
    fn whoever_asks_for_a_line_on_its_way_waits_with_the_first() {
        let mut cache = Cache::new(GEOMETRY, 1);
        assert_eq!(cache.look_up(key(1)), Lookup::Missing);
        cache.bring(key(1), 3);
        assert_eq!(cache.look_up(key(1)), Lookup::Coming(3));
        cache.arrived(key(1), 4);
        assert_eq!(cache.look_up(key(1)), Lookup::Coming(3), "another read brought nothing of it");
        cache.arrived(key(1), 3);
        assert_eq!(cache.look_up(key(1)), Lookup::Held);
        assert_eq!(cache.counts(), Counts { hits: 1, merged: 2, misses: 1, evicted: 0 });
    }

    proptest! {
        #[test]
        fn every_lookup_is_counted_once_and_no_more_is_held_than_there_is_room_for(
            touched in prop::collection::vec(0u32..200, 1..400),
            bytes in 0u64..100 * LINE,
            ways in 0u32..20,
            least_recent: bool,
        ) {
            let replacement = if least_recent { Replacement::LeastRecent } else { Replacement::Random };
            let mut cache = Cache::new(Geometry { bytes, ways, replacement }, 3);
            let mut held = BTreeSet::new();
            for line in &touched {
                prop_assert!(!touch(&mut cache, key(*line)) || held.contains(line), "line {line} was never brought");
                held.insert(*line);
            }
            let counts = cache.counts();
            prop_assert_eq!(counts.hits + counts.merged + counts.misses, touched.len() as u64);
            prop_assert!(counts.misses - counts.evicted <= cache.lines() as u64);
            let held = cache.keys.iter().filter(|key| **key != EMPTY).count();
            prop_assert_eq!(counts.misses - counts.evicted, held as u64);
        }
    }
}

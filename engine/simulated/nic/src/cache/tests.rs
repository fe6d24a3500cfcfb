//! What is held, what goes first, and that each lookup is counted once.

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
    assert_eq!(cache.counts(), CacheCounts { hits: 1, merged: 2, misses: 1, evicted: 0 });
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
        let held = cache.blocks.iter().flat_map(|block| block.high).filter(|high| *high != EMPTY).count();
        prop_assert_eq!(counts.misses - counts.evicted, held as u64);
    }
}

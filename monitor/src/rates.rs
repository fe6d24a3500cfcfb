//! From two readings of raw counters to rates over the interval between them; safe against wrap and reset.

use std::collections::BTreeMap;

use crate::counters::is_level;
use crate::sources::Reading;

/// Rates over one interval.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    /// By name, per second; a level (see [`is_level`]) as it was at the end.
    pub per_sec: BTreeMap<String, f64>,
}

/// Longest way across the end of 32 bits that is taken for a wrap. Source: our choice, a quarter of the range: what
/// drivers count in 32 bits takes seconds for it, and a reset rarely happens to a value that near the end.
const LONGEST_WRAP: u32 = u32::MAX / 4;

/// How much a counter advanced from `before` to `after`; `None` if it was reset.
///
/// Nothing says how wide a counter is: one that went back has passed the end of 64 bits, or of 32 (as those of mlx5's
/// `hw_counters` do) if the way across it is short, or else was reset.
pub fn advance(before: u64, after: u64) -> Option<u64> {
    let by = after.wrapping_sub(before);
    if by <= u64::MAX / 2 {
        return Some(by);
    }
    let by = u32::try_from(after).ok()?.wrapping_sub(u32::try_from(before).ok()?);
    (by <= LONGEST_WRAP).then_some(by.into())
}

/// Rates between two readings that are `seconds` apart; a counter missing in either is missing.
///
/// An interval without length has no rates.
pub fn rates(before: &Reading, after: &Reading, seconds: f64) -> Rates {
    if seconds <= 0.0 || !seconds.is_finite() {
        return Rates::default();
    }
    let rate = |(name, then): (&String, &u64)| {
        let now = *after.get(name)?;
        let value = if is_level(name) { now as f64 } else { advance(*then, now)? as f64 / seconds };
        Some((name.clone(), value))
    };
    Rates { per_sec: before.iter().filter_map(rate).collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counters_advance_across_their_end_and_not_across_a_reset() {
        const END32: u64 = u32::MAX as u64;
        for (before, after, expected) in [
            (5, 5, Some(0)),
            (5, 9, Some(4)),
            (END32 - 1, END32 + 4, Some(5)),
            (END32, 3, Some(4)),
            (END32 - 9, 10, Some(20)),
            (END32 - (1 << 29), 1 << 28, Some((1 << 29) + (1 << 28) + 1)),
            (3_000_000_000, 0, None),
            (100, 0, None),
            (END32 + 1, 0, None),
            (u64::MAX, 0, Some(1)),
            (u64::MAX - 1, 7, Some(9)),
        ] {
            assert_eq!(advance(before, after), expected, "{before} to {after}");
        }
    }

    #[test]
    fn missing_stays_missing() {
        let reading = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let before: Reading = reading(&[("gone", 1), ("sent", 100), ("reset", 50)]);
        let after: Reading = reading(&[("new", 1), ("sent", 300), ("reset", 2)]);
        let seen = rates(&before, &after, 0.5);
        assert_eq!(seen.per_sec, BTreeMap::from([("sent".to_owned(), 400.0)]));
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(rates(&before, &after, seconds), Rates::default());
        }
    }

    #[test]
    fn a_level_is_not_a_count() {
        let level = |value| Reading::from([("ethtool.outbound_pci_stalled_rd".to_owned(), value)]);
        for (before, after) in [(0, 40), (40, 0), (40, 40)] {
            let seen = rates(&level(before), &level(after), 0.5);
            assert_eq!(seen.per_sec.values().copied().collect::<Vec<_>>(), [after as f64]);
        }
        assert_eq!(rates(&level(1), &Reading::new(), 0.5), Rates::default());
    }

    proptest! {
        #[test]
        fn a_64_bit_counter_never_loses_an_advance(before in any::<u64>(), by in 0..=u64::MAX / 2) {
            prop_assert_eq!(advance(before, before.wrapping_add(by)), Some(by));
        }
    }
}

//! From two readings of raw counters to rates over the window between them; safe against wrap and reset.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Reading, is_level};

/// Rates over one window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    /// By name, per second; a level (see [`is_level`]) as it was at the end.
    pub per_sec: BTreeMap<String, f64>,
    /// Names whose 32-bit counter wrapped in the window: the rate is right only if it wrapped once.
    pub wrapped: BTreeSet<String>,
}

/// How much a counter advanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advance {
    /// By this much.
    pub by: u64,
    /// A legacy 32-bit counter passed its end, once as far as one can tell.
    pub wrapped: bool,
}

/// How much a counter advanced from `before` to `after`; `None` where it was reset or stands at its end.
///
/// A counter that went back has wrapped if it was in the upper half of its range and is in the lower half now;
/// otherwise someone reset it. Legacy port counters are 32 bits wide and may stick at their end. Source: IBTA
/// volume 1, section 16.1.3.5 (`PortCounters`).
pub fn advance(before: u64, after: u64) -> Option<Advance> {
    const LEGACY_END: u64 = u32::MAX as u64;
    let wraps = |end: u64| before > end / 2 && before <= end && after <= end / 2;
    if before == LEGACY_END && after == LEGACY_END {
        None
    } else if after >= before {
        Some(Advance { by: after - before, wrapped: false })
    } else if wraps(LEGACY_END) {
        Some(Advance { by: after + (LEGACY_END - before) + 1, wrapped: true })
    } else if wraps(u64::MAX) {
        Some(Advance { by: after.wrapping_sub(before), wrapped: false })
    } else {
        None
    }
}

/// Rates between two readings that are `seconds` apart; a counter missing in either is missing.
///
/// A window without length has no rates.
pub fn rates(before: &Reading, after: &Reading, seconds: f64) -> Rates {
    let mut rates = Rates::default();
    if seconds <= 0.0 || !seconds.is_finite() {
        return rates;
    }
    for (name, then) in before {
        if is_level(name) {
            rates.per_sec.extend(after.get(name).map(|now| (name.clone(), *now as f64)));
            continue;
        }
        let Some(advance) = after.get(name).and_then(|now| advance(*then, *now)) else { continue };
        rates.per_sec.insert(name.clone(), advance.by as f64 / seconds);
        if advance.wrapped {
            rates.wrapped.insert(name.clone());
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counters_advance_across_their_end_and_not_across_a_reset() {
        const END32: u64 = u32::MAX as u64;
        let table = [
            (5, 5, Some((0, false))),
            (5, 9, Some((4, false))),
            (END32 - 1, END32 + 4, Some((5, false))),
            (END32, END32, None),
            (END32, 3, Some((4, true))),
            (END32 - 9, 10, Some((20, true))),
            (100, 0, None),
            (END32 / 2, 0, None),
            (END32 - 9, END32 - 10, None),
            (u64::MAX, 0, Some((1, false))),
            (u64::MAX - 1, 7, Some((9, false))),
            (END32 + 1, 0, None),
        ];
        for (before, after, expected) in table {
            let expected = expected.map(|(by, wrapped)| Advance { by, wrapped });
            assert_eq!(advance(before, after), expected, "{before} to {after}");
        }
    }

    #[test]
    fn missing_stays_missing_and_wraps_are_flagged() {
        let reading = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let before: Reading = reading(&[("gone", 1), ("legacy", u64::from(u32::MAX)), ("sent", 100), ("reset", 50)]);
        let after: Reading = reading(&[("new", 1), ("legacy", 1), ("sent", 300), ("reset", 2)]);
        let seen = rates(&before, &after, 0.5);
        assert_eq!(seen.per_sec, BTreeMap::from([("legacy".to_owned(), 4.0), ("sent".to_owned(), 400.0)]));
        assert_eq!(seen.wrapped, BTreeSet::from(["legacy".to_owned()]));
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
        fn a_64_bit_counter_never_loses_an_advance(before in any::<u64>(), by in 0..u64::MAX / 4) {
            let after = before.wrapping_add(by);
            prop_assume!(after >= before || before > u64::from(u32::MAX));
            prop_assume!(!(before == u64::from(u32::MAX) && by == 0));
            prop_assert_eq!(advance(before, after).map(|advance| advance.by), Some(by));
        }
    }
}

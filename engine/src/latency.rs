//! How many requests took how long: a histogram, how it travels, its percentiles. What is timed is decided elsewhere.

use hdrhistogram::Histogram;
use kelpie_monitor::Latency;
use serde::{Deserialize, Serialize};

/// Longer times count as this. Units: nanoseconds. Source: our choice, because no drain and no sample is as long.
pub const LONGEST: u64 = 60_000_000_000;

/// Significant digits that are kept. Source: our choice, because runs differ by more than one in a thousand.
const DIGITS: u8 = 3;

/// Requests that took equally long, as far as [`Latencies`] tells times apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took(
    /// How long. Units: nanoseconds.
    pub u64,
    /// Requests. So few bits that no sum over a measurement overflows.
    pub u32,
);

/// How many requests took how long. All room is there from the beginning: to record allocates nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("constants that make a histogram"))
    }
}

impl Latencies {
    /// Counts a request that took so long. Units: nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        self.record_all(Took(nanos, 1));
    }

    /// Counts requests that took equally long; what [`Latencies::list`] gave is recorded as it was.
    pub fn record_all(&mut self, took: Took) {
        self.0.saturating_record_n(took.0.clamp(1, LONGEST), took.1.into());
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// Forgets all, and keeps the room.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that was recorded, shortest first.
    pub fn list(&self) -> Vec<Took> {
        let recorded = self.0.iter_recorded();
        recorded
            .map(|step| Took(step.value_iterated_to(), u32::try_from(step.count_at_value()).unwrap_or(u32::MAX)))
            .collect()
    }

    /// The percentiles; there are none of nothing.
    pub fn percentiles(&self) -> Option<Latency> {
        let at = |quantile| self.0.value_at_quantile(quantile).min(LONGEST);
        (!self.is_empty()).then(|| Latency {
            count: self.0.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.0.max().min(LONGEST),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        nanos.into_iter().for_each(|nanos| latencies.record(nanos));
        latencies
    }

    /// Equal to three digits.
    fn agree(seen: Latency, count: u64, expected: [u64; 5]) {
        assert_eq!(seen.count, count);
        for (seen, expected) in [seen.p50, seen.p90, seen.p99, seen.p999, seen.max].into_iter().zip(expected) {
            assert!(seen.abs_diff(expected) * 1000 <= expected, "{seen}, not {expected}");
        }
    }

    #[test]
    fn percentiles_of_known_times() {
        let percentiles = |latencies: &Latencies| latencies.percentiles().expect("not empty");
        agree(percentiles(&of([7])), 1, [7; 5]);
        agree(percentiles(&of(1..=1000)), 1000, [500, 900, 990, 999, 1000]);
        let millions = (1..=10_000).rev().map(|step| step * 1_000_000);
        let expected = [5_000_000_000, 9_000_000_000, 9_900_000_000, 9_990_000_000, 10_000_000_000];
        agree(percentiles(&of(millions)), 10_000, expected);
        let tail = std::iter::repeat_n(2_000, 998).chain([50_000_000, 70_000_000]);
        agree(percentiles(&of(tail)), 1000, [2_000, 2_000, 2_000, 50_000_000, 70_000_000]);
        assert_eq!(Latencies::default().percentiles(), None);
    }

    #[test]
    fn what_is_too_short_or_too_long_counts_at_the_end() {
        let ends = of([0, 1, LONGEST, LONGEST + 1, u64::MAX]).percentiles().expect("not empty");
        assert_eq!((ends.count, ends.p50, ends.max), (5, LONGEST, LONGEST));
        assert_eq!(of([0]).percentiles().map(|one| (one.count, one.p50, one.max)), Some((1, 1, 1)));
    }

    #[test]
    fn a_list_records_back_to_the_same_and_merges_like_it() {
        let (some, others) = (of((0..500).map(|step| 3 + step * step * 977)), of([1, 1, 999, 2_000_000_000]));
        let mut listed = Latencies::default();
        some.list().into_iter().chain(others.list()).for_each(|took| listed.record_all(took));
        let mut merged = some.clone();
        merged.merge(&others);
        assert_eq!((listed.list(), listed.percentiles()), (merged.list(), merged.percentiles()));
        assert_eq!(merged.list()[0], Took(1, 2));
        merged.clear();
        assert!(merged.is_empty() && merged.list().is_empty() && !some.is_empty());
        merged.merge(&some);
        assert_eq!(merged.list(), some.list(), "cleared is as new");
    }

    #[test]
    fn counts_from_strangers_do_not_overflow() {
        let mut latencies = Latencies::default();
        (0..100_000).for_each(|nanos| latencies.record_all(Took(nanos, u32::MAX)));
        assert_eq!(latencies.percentiles().expect("many").count, 100_000 * u64::from(u32::MAX));
        assert!(serde_json::from_str::<Took>("[5,4294967296]").is_err());
    }
}

//! From a forest's score to a probability with an interval: what came of the rows that were scored alike.

use statrs::distribution::{Beta, ContinuousCDF};

/// Share of the rows whose scores count as alike. Source: our choice, because a twentieth of 1,000 rows tells 2 % from
/// 10 %, and a score changes little within it.
const ALIKE: f64 = 0.05;
/// Fewest and most such rows. Source: our choice: of 30 healthy rows the interval ends at 6 %, of 400 at 0.5 %.
const COUNTS: (usize, usize) = (30, 400);
/// What lies outside an interval, at each end. Source: our choice, because each end alone then holds with 95 %.
const TAIL: f64 = 0.05;

/// A probability that is not known exactly. Shape: 0 to 1 each, `low` at most `mean`, `mean` at most `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end: with 95 % the probability is not below.
    pub low: f64,
    /// The mean of what it may be.
    pub mean: f64,
    /// Upper end: with 95 % the probability is not above.
    pub high: f64,
}

impl Interval {
    /// What is known of a share after `anomalous` of `count` trials.
    ///
    /// Source: Jeffreys' interval; Brown, Cai and DasGupta 2001, "Interval Estimation for a Binomial Proportion".
    pub fn of(anomalous: usize, count: usize) -> Self {
        let (bad, good) = (anomalous as f64 + 0.5, (count - anomalous) as f64 + 0.5);
        let beta = Beta::new(bad, good).expect("both are positive");
        let low = if anomalous == 0 { 0.0 } else { beta.inverse_cdf(TAIL) };
        let high = if anomalous == count { 1.0 } else { beta.inverse_cdf(1.0 - TAIL) };
        Self { low, mean: bad / (bad + good), high }
    }
}

/// Scores of rows by trees that had not seen them, with what came of them, sorted.
#[derive(Debug)]
pub(crate) struct Calibration(Vec<(f64, bool)>);

impl Calibration {
    pub(crate) fn new(mut scored: Vec<(f64, bool)>) -> Self {
        scored.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Self(scored)
    }

    /// The probability at this score.
    pub(crate) fn at(&self, score: f64) -> Interval {
        let all = self.0.len();
        let wanted = ((all as f64 * ALIKE) as usize).clamp(COUNTS.0, COUNTS.1).min(all);
        let place = self.0.partition_point(|(other, _)| *other < score);
        let from = place.saturating_sub(wanted / 2).min(all - wanted);
        let alike = &self.0[from..from + wanted];
        Interval::of(alike.iter().filter(|(_, outcome)| *outcome).count(), wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_jeffreys() {
        // Brown, Cai and DasGupta 2001, table 5, gives 95 %; these are 90 %, from R: qbeta(c(0.05, 0.95), x+0.5, n-x+0.5).
        for (anomalous, count, low, high) in [(0, 50, 0.0, 0.0376), (50, 50, 0.9624, 1.0), (5, 50, 0.0460, 0.1854)] {
            let interval = Interval::of(anomalous, count);
            assert!((interval.low - low).abs() < 2e-3, "{anomalous} of {count}: {interval:?}");
            assert!((interval.high - high).abs() < 2e-3, "{anomalous} of {count}: {interval:?}");
        }
        assert_eq!((Interval::of(0, 0).low, Interval::of(0, 0).high), (0.0, 1.0), "nothing is known");
    }

    #[test]
    fn a_score_means_what_came_of_its_like() {
        // The score is twice too sure of itself: at 0.2 one of ten is anomalous.
        let scored = (0..1000).map(|row| (f64::from(row) / 1000.0, row % 10 < row / 200)).collect();
        let calibration = Calibration::new(scored);
        for (score, expected) in [(0.05, 0.0), (0.3, 0.1), (0.95, 0.4)] {
            let interval = calibration.at(score);
            assert!(interval.low <= expected && expected <= interval.high, "{score}: {interval:?}");
            assert!(interval.high - interval.low < 0.25, "{score}: {interval:?}");
        }
    }
}

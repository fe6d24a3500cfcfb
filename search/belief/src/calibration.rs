//! From a forest's score to a probability with an interval: what came of the rows that were scored alike.

/// How many standard deviations an interval ends from its middle. Source: the normal distribution; each end alone then
/// holds with 95 %.
const DEVIATIONS: f64 = 1.645;
/// Scores nearer to 0 or 1 are taken for this. Source: our choice, because of 200 trees one or two may err.
const EDGE: f64 = 0.01;
/// Standard deviations of what is believed of offset and slope before anything was measured. Source: our choice; 3
/// admits shares from 0.3 % to 99.7 %, and a score is mostly neither half nor twice as sure as it says.
const PRIOR: [f64; 2] = [3.0, 1.0];
/// Steps of Newton's method. Source: our choice, because it converges in fewer than ten.
const STEPS: usize = 25;
/// How often a step is halved at most until it leads to a better line. Source: our choice; a smaller part changes
/// nothing.
const HALVINGS: i32 = 20;

/// A probability that is not known exactly. Shape: 0 to 1 each, `low` at most `middle`, `middle` at most `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end: with 95 % the probability is not below.
    pub low: f64,
    /// The most plausible value.
    pub middle: f64,
    /// Upper end: with 95 % the probability is not above.
    pub high: f64,
}

/// Log odds as a line over the log odds of the score, and how sure that line is.
///
/// Source: Platt 1999, "Probabilistic Outputs for Support Vector Machines", with the Laplace approximation of `MacKay`
/// 1992 for the interval.
#[derive(Debug)]
pub(crate) struct Calibration {
    offset: f64,
    slope: f64,
    /// Covariance of both: of the offset, of the two, of the slope.
    covariance: [f64; 3],
    /// The scores, sorted, each with how many rows were anomalous up to it.
    up_to: Vec<(f64, usize)>,
}

impl Calibration {
    /// Learns from scores of rows by trees that had not seen them, with what came of them.
    pub(crate) fn of(scored: &[(f64, bool)]) -> Self {
        let points: Vec<(f64, f64)> =
            scored.iter().map(|(score, is)| (log_odds(*score), f64::from(u8::from(*is)))).collect();
        let (mut line, mut covariance) = ([0.0, 1.0], [0.0; 3]);
        for _ in 0..STEPS {
            let (loss, gradient, curvature) = loss(&points, line);
            let determinant = curvature[0] * curvature[2] - curvature[1] * curvature[1];
            covariance = [curvature[2] / determinant, -curvature[1] / determinant, curvature[0] / determinant];
            let step = [
                covariance[0] * gradient[0] + covariance[1] * gradient[1],
                covariance[1] * gradient[0] + covariance[2] * gradient[1],
            ];
            let part = |part: f64| [line[0] + part * step[0], line[1] + part * step[1]];
            // A whole step may jump over the minimum and back for ever.
            let parts = (0..HALVINGS).map(|halved| part(0.5_f64.powi(halved)));
            let Some(better) = parts.into_iter().find(|line| self::loss(&points, *line).0 < loss) else { break };
            line = better;
        }
        let [mut offset, mut slope] = line;
        if slope < 0.0 {
            // Trees that take the healthy for anomalous tell no two workloads apart.
            let anomalous = points.iter().map(|(_, outcome)| outcome).sum::<f64>();
            (offset, slope) = (((anomalous + 0.5) / (points.len() as f64 - anomalous + 0.5)).ln(), 0.0);
        }
        let mut sorted = scored.to_vec();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut anomalous = 0;
        let counted = sorted.into_iter().map(|(score, is)| {
            anomalous += usize::from(is);
            (score, anomalous)
        });
        Self { offset, slope, covariance, up_to: counted.collect() }
    }

    /// Rows that score no higher: how many, and how many of them were anomalous.
    pub(crate) fn up_to(&self, score: f64) -> (usize, usize) {
        let count = self.up_to.partition_point(|(other, _)| *other <= score);
        (count, count.checked_sub(1).map_or(0, |last| self.up_to[last].1))
    }

    /// The probability at this score.
    pub(crate) fn at(&self, score: f64) -> Interval {
        let x = log_odds(score);
        let middle = self.offset + self.slope * x;
        let variance = self.covariance[0] + 2.0 * self.covariance[1] * x + self.covariance[2] * x * x;
        let half = DEVIATIONS * variance.max(0.0).sqrt();
        Interval { low: probability(middle - half), middle: probability(middle), high: probability(middle + half) }
    }
}

/// How badly a line of this offset and slope fits points, the negative logarithm of its posterior, with how that falls,
/// and its curvature: by the offset, by both, by the slope.
fn loss(points: &[(f64, f64)], [offset, slope]: [f64; 2]) -> (f64, [f64; 2], [f64; 3]) {
    let [offset_weight, slope_weight] = PRIOR.map(|deviation| 1.0 / (deviation * deviation));
    let mut loss = 0.5 * (offset * offset * offset_weight + (1.0 - slope) * (1.0 - slope) * slope_weight);
    let mut falls = [-offset * offset_weight, (1.0 - slope) * slope_weight];
    let mut curvature = [offset_weight, 0.0, slope_weight];
    for (x, outcome) in points {
        let at = offset + slope * x;
        let p = probability(at);
        let weight = p * (1.0 - p);
        loss += at.max(0.0) + (-at.abs()).exp().ln_1p() - outcome * at;
        falls[0] += outcome - p;
        falls[1] += (outcome - p) * x;
        curvature[0] += weight;
        curvature[1] += weight * x;
        curvature[2] += weight * x * x;
    }
    (loss, falls, curvature)
}

fn log_odds(share: f64) -> f64 {
    let share = share.clamp(EDGE, 1.0 - EDGE);
    (share / (1.0 - share)).ln()
}

fn probability(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_means_what_came_of_its_like() {
        // Of rows scored s the share s / 2 is anomalous, as far as whole numbers allow.
        let scored: Vec<(f64, bool)> =
            (1..10).flat_map(|score| (0..200).map(move |row| (f64::from(score) / 10.0, row < 10 * score))).collect();
        let calibration = Calibration::of(&scored);
        for score in [0.2, 0.4, 0.6, 0.8] {
            let interval = calibration.at(score);
            assert!((interval.middle - score / 2.0).abs() < 0.05, "{score}: {interval:?}");
            assert!(interval.low < interval.middle && interval.middle < interval.high, "{score}: {interval:?}");
            assert!(interval.high - interval.low < 0.1, "{score}: {interval:?}");
        }
    }

    #[test]
    fn what_scores_no_higher_is_counted() {
        let calibration = Calibration::of(&[(0.3, true), (0.1, false), (0.2, true), (0.2, false), (0.9, true)]);
        for (score, expected) in [(0.05, (0, 0)), (0.1, (1, 0)), (0.25, (3, 1)), (1.0, (5, 3))] {
            assert_eq!(calibration.up_to(score), expected, "{score}");
        }
    }

    #[test]
    fn no_line_makes_the_worst_score_the_healthiest() {
        for rows in 1..40 {
            let backwards: Vec<(f64, bool)> =
                (0..2 * rows).map(|row| (f64::from(u8::from(row < rows)), row >= rows)).collect();
            let calibration = Calibration::of(&backwards);
            let [low, high] = [0.0, 1.0].map(|score| calibration.at(score));
            assert!((low.middle - 0.5).abs() < 1e-9 && (high.middle - 0.5).abs() < 1e-9, "{rows}: {low:?} {high:?}");
            assert!(high.high > 0.5 && high.low < 0.5, "{rows}: {high:?}");
        }
    }

    #[test]
    fn rows_that_scores_tell_apart_without_a_mistake_leave_a_line_in_the_right_direction() {
        for rows in 1..40 {
            let apart: Vec<(f64, bool)> =
                (0..2 * rows).map(|row| (f64::from(u8::from(row < rows)), row < rows)).collect();
            let calibration = Calibration::of(&apart);
            let [low, high] = [0.0, 1.0].map(|score| calibration.at(score).middle);
            assert!(low < 0.1 && high > 0.9 && (low + high - 1.0).abs() < 1e-6, "{rows}: {low} {high}");
        }
    }

    #[test]
    fn what_little_was_measured_says_little() {
        let nothing = Calibration::of(&[]).at(0.5);
        assert!(nothing.low < 0.01 && nothing.high > 0.99, "{nothing:?}");
        let healthy = |count: usize| Calibration::of(&vec![(0.0, false); count]).at(0.0).high;
        assert!(healthy(5) > 0.1 && healthy(500) < 0.02, "{} {}", healthy(5), healthy(500));
    }
}

//! How alike two samples are: the distance of their distributions, as a share.

use serde::{Deserialize, Serialize};

use crate::results::Better;

/// What a distance of two distributions is divided by. The paper's equation 2 leaves it in the unit of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// The largest value of both samples. One slow step in a hundred counts much, so it suits components that were
    /// pooled. For single values the similarity is least over most.
    #[default]
    Xmax,
    /// The area up to the better of both. One slow step in a hundred counts a hundredth, so it suits time series of one
    /// component.
    Area,
}

/// How alike two samples are, each in ascending order: 1 for equal ones, 0 for ones that have nothing in common.
///
/// Source: SuperBench, equation 2, `1 - integral |F1 - F2| / max(F1, F2)` over the metric's values, with 0 / 0 = 0 and
/// the norm that the paper does not give.
pub fn similarity(one: &[f64], other: &[f64], norm: Norm) -> f64 {
    match norm {
        // A norm that is known leaves nothing to ask at each value.
        Norm::Xmax => compared(one, other, Norm::Xmax, |a, b| (a - b).abs()),
        Norm::Area => compared(one, other, Norm::Area, |a, b| (a - b).abs()),
    }
}

/// How good an observation is against a criterion, each in ascending order: 1 if it is as good or better.
///
/// Source: SuperBench, equation 4; for metrics of which less is better the numerator is the other one.
pub fn one_sided(observed: &[f64], criterion: &[f64], norm: Norm, better: Better) -> f64 {
    compared(observed, criterion, norm, |seen, wanted| match better {
        // More of the observed values are small than of the criterion's.
        Better::Higher => (seen - wanted).max(0.0),
        Better::Lower => (wanted - seen).max(0.0),
    })
}

/// Sweeps over the values of both samples.
fn compared(one: &[f64], other: &[f64], norm: Norm, difference: impl Fn(f64, f64) -> f64) -> f64 {
    let (Some(last), Some(other_last)) = (one.last(), other.last()) else { return 0.0 };
    let (share, other_share) = (1.0 / one.len() as f64, 1.0 / other.len() as f64);
    let (mut a, mut b) = (0, 0);
    let (mut distance, mut area, mut at) = (0.0, 0.0, 0.0);
    while a < one.len() || b < other.len() {
        let is_one = b == other.len() || (a < one.len() && one[a] <= other[b]);
        let next = if is_one { one[a] } else { other[b] };
        // Both distribution functions up to the next value.
        let (below, other_below) = (a as f64 * share, b as f64 * other_share);
        let width = next - at;
        let apart = difference(below, other_below);
        if norm == Norm::Xmax {
            if apart > 0.0 {
                distance += apart / below.max(other_below) * width;
            }
        } else {
            distance += apart * width;
            area += (1.0 - below.min(other_below)) * width;
        }
        at = next;
        if is_one {
            a += 1;
        } else {
            b += 1;
        }
    }
    let whole = if norm == Norm::Xmax { last.max(*other_last) } else { area };
    if whole > 0.0 { (1.0 - distance / whole).clamp(0.0, 1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-6, "{one} and {other}");
    }

    #[test]
    fn single_values_are_as_alike_as_least_over_most() {
        for norm in [Norm::Xmax, Norm::Area] {
            near(similarity(&[22.4], &[23.7], norm), 22.4 / 23.7);
            near(similarity(&[23.7], &[22.4], norm), 22.4 / 23.7);
            near(similarity(&[5.0], &[5.0], norm), 1.0);
            near(similarity(&[0.0], &[0.0], norm), 1.0);
            near(similarity(&[0.0], &[5.0], norm), 0.0);
        }
    }

    #[test]
    fn one_slow_step_of_a_hundred_counts_much_by_the_largest_and_little_by_the_area() {
        let (healthy, mut slow) = (vec![100.0; 100], vec![100.0; 100]);
        slow[0] = 50.0;
        near(similarity(&slow, &healthy, Norm::Xmax), 0.5);
        near(similarity(&slow, &healthy, Norm::Area), 0.995);
    }

    #[test]
    fn what_is_better_than_the_criterion_is_as_good_as_it_can_be() {
        near(one_sided(&[22.6], &[23.7], Norm::Xmax, Better::Higher), 0.953_586_498);
        near(one_sided(&[30.0], &[23.7], Norm::Xmax, Better::Higher), 1.0);
        near(one_sided(&[30.0], &[23.7], Norm::Xmax, Better::Lower), 23.7 / 30.0);
        near(one_sided(&[20.0], &[23.7], Norm::Xmax, Better::Lower), 1.0);
    }
}

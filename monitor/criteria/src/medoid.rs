//! The medoid: the sample that is most like all others. For short samples the sums of all pairs come from sweeps over
//! the values and not from the pairs, so that thousands of nodes take milliseconds.

use std::ops::Range;

use crate::similarity::{Norm, similarity};

/// Most values of the distribution functions that a sweep keeps apart. Source: our choice, because a sweep costs as
/// many steps for each value of each node, and pairs are faster beyond.
const MOST_LEVELS: usize = 64;

/// Nodes from which on sweeps are worth their sorting. Source: measured, see `docs/measured/qualification.md`.
const SWEPT: usize = 64;

/// The sample that is most like all others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Medoid {
    /// Which.
    pub place: usize,
    /// How alike any two samples are, on average; 1 for a single one.
    pub repeatability: f64,
}

/// The sample with the largest sum of similarities to the others, the first of equal ones. Samples are in ascending
/// order. None of none.
pub fn medoid(samples: &[&[f64]], norm: Norm) -> Option<Medoid> {
    let count = samples.len() as f64;
    let swept = (norm == Norm::Xmax && samples.len() >= SWEPT).then(|| levels(samples)).flatten();
    let sums: Vec<f64> = match swept {
        Some(levels) => distances(samples, &levels).into_iter().map(|sum| count - sum).collect(),
        None => similarities(samples, norm),
    };
    let most = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Sums of the same terms in another order differ in their last digits.
    let place = sums.iter().position(|sum| *sum >= most - 1e-12 * count)?;
    let pairs = count * (count - 1.0);
    let repeatability = if pairs > 0.0 { (sums.iter().sum::<f64>() - count) / pairs } else { 1.0 };
    Some(Medoid { place, repeatability })
}

/// For each sample, the sum of its similarities to all, pair by pair.
fn similarities(samples: &[&[f64]], norm: Norm) -> Vec<f64> {
    let mut sums = vec![1.0; samples.len()];
    for one in 0..samples.len() {
        for other in one + 1..samples.len() {
            let alike = similarity(samples[one], samples[other], norm);
            sums[one] += alike;
            sums[other] += alike;
        }
    }
    sums
}

/// All values that the distribution functions of these samples take, in order, if there are few.
fn levels(samples: &[&[f64]]) -> Option<Vec<f64>> {
    let mut lengths: Vec<usize> = samples.iter().map(|sample| sample.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    if lengths.iter().sum::<usize>() > 2 * MOST_LEVELS {
        return None;
    }
    let of_length = |length: &usize| {
        let length = *length;
        (0..=length).map(move |count| count as f64 / length as f64)
    };
    let mut levels: Vec<f64> = lengths.iter().filter(|length| **length > 0).flat_map(of_length).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    (levels.len() <= MOST_LEVELS).then_some(levels)
}

/// A value at which the distribution function of a member steps from one level to the next.
#[derive(Clone, Copy)]
struct Step {
    value: f64,
    member: u32,
    from: u16,
    to: u16,
}

/// For each sample, the sum over all others of their distance, as a share of the largest value of both.
///
/// At each value the sum over others depends on how many of them are at each level alone. What a distance is a share of
/// is the larger one's largest value: members are cut in halves by it, again and again, and between two halves it is
/// known.
fn distances(samples: &[&[f64]], levels: &[f64]) -> Vec<f64> {
    // A length that is known lets several levels be added at once.
    match levels.len() {
        ..=8 => swept::<8>(samples, levels),
        9..=16 => swept::<16>(samples, levels),
        17..=32 => swept::<32>(samples, levels),
        _ => swept::<MOST_LEVELS>(samples, levels),
    }
}

fn swept<const L: usize>(samples: &[&[f64]], levels: &[f64]) -> Vec<f64> {
    let place_of = |level: f64| levels.partition_point(|other| *other < level) as u16;
    let mut order: Vec<usize> = (0..samples.len()).filter(|place| !samples[*place].is_empty()).collect();
    let most = |place: usize| samples[place].last().copied().unwrap_or_default();
    order.sort_by(|one, other| most(*one).total_cmp(&most(*other)));
    let members: Vec<&[f64]> = order.iter().map(|place| samples[*place]).collect();
    let mut steps: Vec<Step> = Vec::with_capacity(members.iter().map(|member| member.len()).sum());
    for (number, member) in members.iter().enumerate() {
        let mut from = 0;
        for (nth, value) in member.iter().enumerate() {
            let to = place_of((nth + 1) as f64 / member.len() as f64);
            steps.push(Step { value: *value, member: number as u32, from, to });
            from = to;
        }
    }
    steps.sort_unstable_by(|one, other| one.value.total_cmp(&other.value));
    let mut apart = vec![[0.0; L]; levels.len()];
    for (one, row) in levels.iter().zip(&mut apart) {
        for (other, apart) in levels.iter().zip(row) {
            let most = one.max(*other);
            *apart = if most > 0.0 { (one - other).abs() / most } else { 0.0 };
        }
    }
    let weights = members.iter().map(|member| reciprocal(member[member.len() - 1])).collect();
    let mut shares = vec![0.0; members.len()];
    let spare = Vec::with_capacity(steps.len());
    Sweep::<L> { apart, members, weights, spare }.halve(&mut steps, 0..order.len(), &mut shares);
    let mut all = vec![0.0; samples.len()];
    for (place, share) in order.into_iter().zip(shares) {
        all[place] = share;
    }
    all
}

/// Members up to which pairs are compared one by one. Source: measured; a sweep has to begin, too.
const FEW: usize = 16;

/// Sweeps over the steps of members in order of their largest values.
struct Sweep<'m, const L: usize> {
    /// By two levels, their distance.
    apart: Vec<[f64; L]>,
    members: Vec<&'m [f64]>,
    /// One over the largest value of each.
    weights: Vec<f64>,
    /// Room for steps of larger members.
    spare: Vec<Step>,
}

impl<const L: usize> Sweep<'_, L> {
    /// Adds the distances among members of this range, whose steps these are.
    fn halve(&mut self, steps: &mut [Step], range: Range<usize>, shares: &mut [f64]) {
        if range.len() <= FEW {
            for one in range.clone() {
                for other in one + 1..range.end {
                    let apart = 1.0 - similarity(self.members[one], self.members[other], Norm::Xmax);
                    shares[one] += apart;
                    shares[other] += apart;
                }
            }
            return;
        }
        let middle = usize::midpoint(range.start, range.end);
        self.between(steps, &range, middle, shares);
        // Smaller members come first, both in their order.
        self.spare.clear();
        let mut kept = 0;
        for place in 0..steps.len() {
            let step = steps[place];
            if (step.member as usize) < middle {
                steps[kept] = step;
                kept += 1;
            } else {
                self.spare.push(step);
            }
        }
        steps[kept..].copy_from_slice(&self.spare);
        let (lower, upper) = steps.split_at_mut(kept);
        self.halve(lower, range.start..middle, shares);
        self.halve(upper, middle..range.end, shares);
    }

    /// Adds the distances between the members below `middle` and those from it on, which are the larger ones: what a
    /// distance is a share of is the larger one's largest value.
    fn between(&self, steps: &[Step], range: &Range<usize>, middle: usize, shares: &mut [f64]) {
        // By half that asks and its level: the distance to all of the other half at the present value, and its integral
        // up to there. All are at the lowest level.
        let (mut sums, mut areas) = ([[0.0; L]; 2], [[0.0; L]; 2]);
        let smaller = (middle - range.start) as f64;
        let larger: f64 = self.weights[middle..range.end].iter().sum();
        for ((to_larger, to_smaller), apart) in sums_of(&mut sums).zip(&self.apart[0]) {
            (*to_larger, *to_smaller) = (larger * apart, smaller * apart);
        }
        let mut at = 0.0;
        for step in steps {
            let width = step.value - at;
            at = step.value;
            for (areas, sums) in areas.iter_mut().zip(&sums) {
                for (area, sum) in areas.iter_mut().zip(sums) {
                    *area += sum * width;
                }
            }
            let (member, from, to) = (step.member as usize, usize::from(step.from), usize::from(step.to));
            let half = usize::from(member >= middle);
            // A larger member counts by its weight for a smaller one, which counts once for it.
            let own = self.weights[member];
            let (factor, weight) = if half == 1 { (own, own) } else { (1.0, 1.0) };
            // What it was at before ends here, and what it is at now begins.
            shares[member] += (areas[half][from] - areas[half][to]) * factor;
            let (left, reached) = (&self.apart[from], &self.apart[to]);
            for ((sum, left), reached) in sums[1 - half].iter_mut().zip(left).zip(reached) {
                *sum += weight * (reached - left);
            }
        }
        // After the last value all are at the highest level, at which nothing differs.
        let highest = self.apart.len() - 1;
        for member in range.clone() {
            let half = usize::from(member >= middle);
            let factor = if half == 1 { self.weights[member] } else { 1.0 };
            shares[member] += areas[half][highest] * factor;
        }
    }
}

/// Level by level, the sums of both halves.
fn sums_of<const L: usize>(sums: &mut [[f64; L]; 2]) -> impl Iterator<Item = (&mut f64, &mut f64)> {
    let [to_larger, to_smaller] = sums;
    to_larger.iter_mut().zip(to_smaller)
}

fn reciprocal(value: f64) -> f64 {
    if value > 0.0 { 1.0 / value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> impl Strategy<Value = Vec<f64>> {
        let value = (0_u32..400).prop_map(|value| f64::from(value) / 4.0);
        proptest::collection::vec(value, 1..6).prop_map(|mut sample| {
            sample.sort_by(f64::total_cmp);
            sample
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn sweeps_find_what_pairs_find(samples in proptest::collection::vec(sample(), 2..80)) {
            let samples: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
            let swept = distances(&samples, &levels(&samples).expect("few values"));
            let pairs = similarities(&samples, Norm::Xmax);
            for (distance, alike) in swept.iter().zip(pairs) {
                prop_assert!((samples.len() as f64 - distance - alike).abs() < 1e-9, "{distance} {alike}");
            }
        }
    }
}

//! Ordered features: the last value that keeps the anomaly, by bisection over the ladder of the space.

use kelpie_spaces::{Feature, FeatureValue, Space, Test, Workload};

use super::Builder;
use super::conditions::End;
use crate::oracle::Oracle;

/// How many steps keep the anomaly, provided that keeping is monotone along the steps.
///
/// Asks at most log2 (steps) + 1 times.
fn kept<T, E>(steps: &[(T, Workload)], mut keeps: impl FnMut(&Workload) -> Result<bool, E>) -> Result<usize, E> {
    let (mut kept, mut lost) = (0, steps.len());
    while kept < lost {
        let middle = usize::midpoint(kept, lost);
        if keeps(&steps[middle].1)? {
            kept = middle + 1;
        } else {
            lost = middle;
        }
    }
    Ok(kept)
}

/// The values of an ordered feature, ascending.
pub(super) fn ladder(space: &Space, feature: Feature) -> Vec<u64> {
    let mut values: Vec<u64> = space.feature_values(feature).iter().filter_map(FeatureValue::number).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// `from` moved along the ladder from `near` (not included) to `far`; steps that the space cannot take are left out.
///
/// A step carries the value that it reached, which for a product (`total_mrs`) may be below the one asked for.
fn steps(space: &Space, from: &Workload, feature: Feature, near: u64, far: u64) -> Vec<(u64, Workload)> {
    let between = |value: &u64| (near < *value && *value <= far) || (far <= *value && *value < near);
    let step = |value: u64| {
        let workload = space.with_feature(from, feature, &FeatureValue::Number(value))?;
        let reached = workload.feature(feature).number().filter(between)?;
        Some((reached, workload))
    };
    let mut steps: Vec<(u64, Workload)> = ladder(space, feature).into_iter().filter(between).filter_map(step).collect();
    steps.sort_by_key(|(value, _)| *value);
    steps.dedup_by_key(|(value, _)| *value);
    if far < near {
        steps.reverse();
    }
    steps
}

impl<O: Oracle> Builder<'_, '_, O> {
    /// Tightens an ordered feature between a point that shows the symptom and one that does not.
    pub(super) fn tighten_ordered(
        &mut self,
        feature: Feature,
        shown: &Workload,
        near: u64,
        far: u64,
    ) -> Result<(), O::Error> {
        let first_time = self.conditions.get(feature).is_none();
        let mut steps = steps(self.search.space, shown, feature, near, far);
        steps.retain(|(value, _)| *value != far);
        self.bisect(feature, near, far, &steps)?;
        if first_time { self.other_end(feature, End::towards(near, far)) } else { Ok(()) }
    }

    /// Shuts out a healthy point by moving a bound that is there, if a few steps inwards the symptom is back.
    ///
    /// Most healthy points inside lie there, and a new condition for each of them would make the region an odd one.
    pub(super) fn is_nudged(&mut self, healthy: &Workload) -> Result<bool, O::Error> {
        let region = self.conditions.region();
        for condition in &region.conditions {
            let feature = condition.feature;
            let Test::Range { min, max } = condition.test else { continue };
            let (Some(own), Some(far)) = (self.anchor.feature(feature).number(), healthy.feature(feature).number())
            else {
                continue;
            };
            let bound = if far < own { min } else { max };
            if bound.is_none() {
                continue;
            }
            let mut steps = steps(self.search.space, healthy, feature, far, own);
            steps.truncate(self.tuning().nudge);
            steps.retain(|(_, moved)| region.contains(moved));
            let Some((value, moved)) = steps.pop() else { continue };
            if self.shows(&moved)? {
                steps.reverse();
                self.bisect(feature, value, far, &steps)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Bisects the steps between `near`, which keeps the anomaly, and `far`, which loses it, and sets the bound.
    ///
    /// The bound is the last value on the ladder before the first that is known to lose it: values that could not
    /// be tried here stay inside, and validation tries them elsewhere.
    fn bisect(&mut self, feature: Feature, near: u64, far: u64, steps: &[(u64, Workload)]) -> Result<(), O::Error> {
        let kept = kept(steps, |workload| self.shows(workload))?;
        let last_kept = kept.checked_sub(1).map_or(near, |last| steps[last].0);
        let first_lost = steps.get(kept).map_or(far, |(value, _)| *value);
        let ladder = ladder(self.search.space, feature);
        let end = End::towards(near, far);
        let bound = match end {
            End::Min => {
                ladder.into_iter().find(|value| *value > first_lost).map_or(last_kept, |next| next.min(last_kept))
            }
            End::Max => {
                ladder.into_iter().rfind(|value| *value < first_lost).map_or(last_kept, |next| next.max(last_kept))
            }
        };
        // The anchor stays inside.
        if let Some(own) = self.anchor.feature(feature).number() {
            self.conditions.bound(feature, end, if end == End::Min { bound.min(own) } else { bound.max(own) });
        }
        Ok(())
    }

    /// A feature that matters on one side may matter on the other: looks there from the anchor.
    fn other_end(&mut self, feature: Feature, done: End) -> Result<(), O::Error> {
        let ladder = ladder(self.search.space, feature);
        let (Some(own), Some(lowest), Some(highest)) =
            (self.anchor.feature(feature).number(), ladder.first(), ladder.last())
        else {
            return Ok(());
        };
        let far = if done == End::Max { *lowest } else { *highest };
        let steps = steps(self.search.space, self.anchor, feature, own, far);
        let Some(((value, extreme), between)) = steps.split_last() else { return Ok(()) };
        if self.shows(extreme)? { Ok(()) } else { self.bisect(feature, own, *value, between) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_every_border_in_few_questions() {
        for length in 0..40_usize {
            let steps: Vec<(usize, Workload)> = (0..length).map(|step| (step, Workload::new(Vec::new()))).collect();
            for border in 0..=length {
                let mut asked = 0;
                let base = steps.as_ptr() as usize;
                let found = kept(&steps, |workload| {
                    asked += 1;
                    let offset = std::ptr::from_ref(workload) as usize - base;
                    Ok::<_, ()>(offset / size_of::<(usize, Workload)>() < border)
                });
                assert_eq!(found, Ok(border));
                assert!(asked <= length.checked_ilog2().map_or(0, |log| log + 1), "{asked} questions for {length}");
            }
        }
    }
}

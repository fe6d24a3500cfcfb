//! The workloads beside a region: which to compare with a finding, and where to look for one. Nothing is measured.

use crate::features::{Feature, FeatureValue};
use crate::region::{Condition, Region, Test};
use crate::space::Space;
use crate::workload::Workload;

/// Workloads that are proposed of each kind. Source: our choice, because of the nearest few one nearly always is
/// healthy.
const MOST_PROPOSED: usize = 64;

/// What lies outside `region`, the nearest to `workload` first: those that differ from it in the fewest features, of
/// equals those that came first.
///
/// This is the rule by which a finding's healthy neighbour is chosen, wherever there is one: the first that is healthy.
pub fn nearest_outside<T>(
    workload: &Workload,
    region: &Region,
    candidates: impl IntoIterator<Item = T>,
    workload_of: impl Fn(&T) -> &Workload,
) -> Vec<T> {
    let mut outside: Vec<T> =
        candidates.into_iter().filter(|candidate| !region.contains(workload_of(candidate))).collect();
    outside.sort_by_cached_key(|candidate| workload.differing(workload_of(candidate)).len());
    outside
}

impl Space {
    /// Workloads outside `region` that may be healthy: with one of its conditions broken, then with one more feature
    /// changed, each the nearest to `workload` first.
    pub fn outside(&self, region: &Region, workload: &Workload) -> Vec<Workload> {
        let nearest = |candidates: Vec<Workload>| {
            let mut nearest = nearest_outside(workload, region, candidates, |candidate| candidate);
            nearest.truncate(MOST_PROPOSED);
            nearest
        };
        let once = nearest(region.conditions.iter().flat_map(|condition| self.broken(workload, condition)).collect());
        let twice = nearest(once.iter().flat_map(|changed| self.changed(changed)).collect());
        once.into_iter().chain(twice).collect()
    }

    /// The workload with a condition broken, in every way that the space has.
    fn broken(&self, workload: &Workload, condition: &Condition) -> Vec<Workload> {
        let values = self.values_outside(workload, condition).into_iter();
        values.filter_map(|value| self.with_feature(workload, condition.feature, &value)).collect()
    }

    /// The workload with one feature changed, in every way that the space has.
    fn changed(&self, workload: &Workload) -> Vec<Workload> {
        let values = |feature| self.feature_values(feature).into_iter().map(move |value| (feature, value));
        let moves = Feature::ALL.into_iter().flat_map(values);
        moves.filter_map(|(feature, value)| self.with_feature(workload, feature, &value)).collect()
    }

    /// The values of a feature that break a condition; of numbers the nearest first.
    fn values_outside(&self, workload: &Workload, condition: &Condition) -> Vec<FeatureValue> {
        let values = self.feature_values(condition.feature).into_iter();
        let mut outside: Vec<FeatureValue> = values.filter(|value| !condition.admits(value)).collect();
        if let (Test::Range { .. }, Some(now)) = (&condition.test, workload.feature(condition.feature).number()) {
            outside.sort_by_key(|value| value.number().map(|number| number.abs_diff(now)));
        }
        outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known;

    #[test]
    fn what_is_nearest_comes_first_and_of_equals_the_first() {
        let space = Space::catalog("full").expect("the catalog has it");
        let workload = known::anomaly(1).expect("the paper has it").trigger.workload();
        let with = |workload: &Workload, feature, value| {
            space.with_feature(workload, feature, &FeatureValue::Number(value)).expect("the space has it")
        };
        let one = with(&workload, Feature::RecvBatch, 32);
        let other = with(&workload, Feature::RecvBatch, 16);
        let two = with(&one, Feature::TotalQps, 3);
        let many = Condition { feature: Feature::RecvBatch, test: Test::Range { min: Some(64), max: None } };
        let region = Region { conditions: vec![many] };
        let candidates = [&two, &workload, &one, &other];
        let nearest = nearest_outside(&workload, &region, candidates, |candidate| candidate);
        let differing = |other: &Workload| workload.differing(other).len();
        assert!(differing(&one) == differing(&other) && differing(&two) > differing(&one));
        assert_eq!(nearest, [&one, &other, &two], "without the one inside");
    }

    #[test]
    fn what_is_proposed_lies_outside_and_breaks_one_condition_first() {
        let space = Space::catalog("full").expect("the catalog has it");
        for anomaly in known::anomalies() {
            let (workload, region) = (anomaly.trigger.workload(), &anomaly.conditions);
            let proposed = space.outside(region, &workload);
            assert!(!proposed.is_empty(), "anomaly {}", anomaly.id);
            assert!(proposed.iter().all(|other| !region.contains(other)), "anomaly {}", anomaly.id);
            assert!(proposed.len() <= 2 * MOST_PROPOSED);
        }
    }
}

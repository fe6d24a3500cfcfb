//! The conditions collected so far: at most one per feature, only ever tightened, dropped when nothing needs them.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Test, Workload};

/// Conditions by feature.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Conditions {
    tests: BTreeMap<Feature, Test>,
}

/// An end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Min,
    Max,
}

impl End {
    /// The end that shuts out `healthy`, seen from `anomalous`.
    pub(super) fn towards(anomalous: u64, healthy: u64) -> Self {
        if healthy > anomalous { End::Max } else { End::Min }
    }
}

impl Conditions {
    pub(super) fn region(&self) -> Region {
        let condition = |(feature, test): (&Feature, &Test)| Condition { feature: *feature, test: test.clone() };
        Region { conditions: self.tests.iter().map(condition).collect() }
    }

    pub(super) fn get(&self, feature: Feature) -> Option<&Test> {
        self.tests.get(&feature)
    }

    /// Shuts out everything beyond `bound`, which stays inside.
    pub(super) fn bound(&mut self, feature: Feature, end: End, bound: u64) {
        let test = self.tests.entry(feature).or_insert(Test::Range { min: None, max: None });
        if let Test::Range { min, max } = test {
            match end {
                End::Min => *min = Some(min.map_or(bound, |old| old.max(bound))),
                End::Max => *max = Some(max.map_or(bound, |old| old.min(bound))),
            }
        }
    }

    /// Moves the bound of an ordered feature out to the value that `workload` has.
    pub(super) fn admit(&mut self, feature: Feature, workload: &Workload) {
        let Some(value) = workload.feature(feature).number() else { return };
        if let Some(Test::Range { min, max }) = self.tests.get_mut(&feature) {
            *min = min.map(|bound| bound.min(value));
            *max = max.map(|bound| bound.max(value));
        }
    }

    /// Admits only these words, and of them only what was admitted before.
    pub(super) fn only(&mut self, feature: Feature, values: impl IntoIterator<Item = FeatureValue>) {
        let words: BTreeSet<String> = values.into_iter().filter_map(FeatureValue::into_word).collect();
        let kept = match self.tests.get(&feature) {
            Some(Test::In(old)) => old.iter().filter(|word| words.contains(*word)).cloned().collect(),
            _ => words.into_iter().collect(),
        };
        self.tests.insert(feature, Test::In(kept));
    }

    /// Drops each condition, or end of a range, without which `still_holds` is true.
    ///
    /// Leaves what is `needed`, tries the others in their fixed order, and says which were dropped.
    pub(super) fn prune(&mut self, needed: &BTreeSet<Feature>, still_holds: impl Fn(&Region) -> bool) -> Vec<Feature> {
        let mut pruned = Vec::new();
        for feature in self.tests.keys().copied().filter(|feature| !needed.contains(feature)).collect::<Vec<_>>() {
            for weaker in weakened(&self.tests[&feature]) {
                let mut candidate = self.clone();
                match weaker {
                    Some(test) => candidate.tests.insert(feature, test),
                    None => candidate.tests.remove(&feature),
                };
                if still_holds(&candidate.region()) {
                    *self = candidate;
                    pruned.push(feature);
                    break;
                }
            }
        }
        pruned
    }

    /// Pins features to the values that they have in `workload`.
    pub(super) fn pin(&mut self, workload: &Workload, features: &[Feature]) {
        for feature in features.iter().copied() {
            let test = match workload.feature(feature) {
                FeatureValue::Number(number) => Test::Range { min: Some(number), max: Some(number) },
                FeatureValue::Category(word) => Test::In(vec![word]),
            };
            self.tests.insert(feature, test);
        }
    }
}

/// What a test can be weakened to, weakest first; `None` is no test at all.
fn weakened(test: &Test) -> Vec<Option<Test>> {
    match test {
        Test::Range { min: Some(min), max: Some(max) } => vec![
            None,
            Some(Test::Range { min: Some(*min), max: None }),
            Some(Test::Range { min: None, max: Some(*max) }),
        ],
        _ => vec![None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_only_tighten() {
        let mut conditions = Conditions::default();
        for (end, bound) in [(End::Min, 4), (End::Min, 8), (End::Min, 2), (End::Max, 64), (End::Max, 100)] {
            conditions.bound(Feature::Qps, end, bound);
        }
        assert_eq!(conditions.get(Feature::Qps), Some(&Test::Range { min: Some(8), max: Some(64) }));
        let words = |words: [&str; 2]| words.map(|word| FeatureValue::Category(word.to_owned()));
        conditions.only(Feature::QpType, words(["RC", "UC"]));
        conditions.only(Feature::QpType, words(["UC", "UD"]));
        assert_eq!(conditions.get(Feature::QpType), Some(&Test::In(vec!["UC".to_owned()])));
    }

    #[test]
    fn an_end_that_nothing_needs_is_dropped() {
        let mut conditions = Conditions::default();
        conditions.bound(Feature::Qps, End::Min, 8);
        conditions.bound(Feature::Qps, End::Max, 64);
        conditions.bound(Feature::Mtu, End::Max, 1024);
        let needs_min = |region: &Region| {
            region.conditions.iter().any(|condition| matches!(condition.test, Test::Range { min: Some(8), .. }))
        };
        assert_eq!(conditions.prune(&BTreeSet::from([Feature::TotalMrs]), needs_min), [Feature::Mtu, Feature::Qps]);
        let left = Region {
            conditions: vec![Condition { feature: Feature::Qps, test: Test::Range { min: Some(8), max: None } }],
        };
        assert_eq!(conditions.region(), left);
    }
}

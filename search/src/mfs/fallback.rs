//! What is done where the search for a condition fails: cuts from known points alone, and narrowing at the limit.

use kelpie_spaces::{Feature, FeatureValue, Region, Test, Workload};

use super::Builder;
use super::conditions::End;
use super::ordered::ladder;
use crate::oracle::Oracle;

/// Conditions that a point of the neighbourhood may break. Source: our choice, because products of two features
/// (QPs and MRs of each) bound many weaknesses, and a conjunction cuts their corners.
const BROKEN_BY_NEIGHBOURS: usize = 2;

impl<O: Oracle> Builder<'_, '_, O> {
    /// Shuts a healthy point out by the one feature that costs the fewest known anomalous points inside.
    ///
    /// The cut lies at the nearest known anomalous value, so nothing is claimed that was not seen. Says whether
    /// there was such a feature.
    pub(super) fn cut(&mut self, healthy: &Workload) -> bool {
        let best = Feature::ALL
            .into_iter()
            .filter(|feature| self.anchor.feature(*feature) != healthy.feature(*feature))
            .min_by_key(|feature| (self.lost_by_cut(*feature, healthy), self.conditions.get(*feature).is_none()));
        let Some(feature) = best else { return false };
        match (self.anchor.feature(feature), healthy.feature(feature)) {
            (FeatureValue::Number(own), FeatureValue::Number(far)) => {
                let end = End::towards(own, far);
                let inside = self.inside.iter().filter_map(|workload| workload.feature(feature).number());
                let bound = match end {
                    End::Min => inside.filter(|value| *value > far).chain([own]).min(),
                    End::Max => inside.filter(|value| *value < far).chain([own]).max(),
                };
                self.conditions.bound(feature, end, bound.unwrap_or(own));
            }
            (own, far) => {
                let seen = self.inside.iter().map(|workload| workload.feature(feature)).chain([own]);
                let word = |value| match value {
                    FeatureValue::Category(word) => Some(word),
                    FeatureValue::Number(_) => None,
                };
                let mut words: Vec<String> = seen.filter(|value| *value != far).filter_map(word).collect();
                words.sort_unstable();
                words.dedup();
                self.conditions.only(feature, &words);
            }
        }
        true
    }

    fn lost_by_cut(&self, feature: Feature, healthy: &Workload) -> usize {
        let far = healthy.feature(feature);
        let own = self.anchor.feature(feature);
        let beyond = |value: FeatureValue| match (&value, &far, &own) {
            (FeatureValue::Number(value), FeatureValue::Number(far), FeatureValue::Number(own)) => {
                if far > own {
                    value >= far
                } else {
                    value <= far
                }
            }
            _ => value == far,
        };
        self.inside.iter().filter(|workload| beyond(workload.feature(feature))).count()
    }

    /// The limit is reached: moves the region nearer to the anchor, first halfway along the features that have a
    /// condition, then along every ordered one, and at last onto the anchor itself. `false` when all that is done.
    pub(super) fn narrow(&mut self) -> bool {
        self.narrowed += 1;
        let ordered = Feature::ALL.into_iter().filter(|feature| feature.is_ordered());
        match self.narrowed {
            1 => {
                self.before_narrowing = Some(self.conditions.clone());
                for feature in ordered {
                    if self.conditions.get(feature).is_some() {
                        self.halve(feature);
                    }
                }
            }
            2 => ordered.for_each(|feature| self.halve(feature)),
            3 => self.conditions.pin(self.anchor),
            _ => return false,
        }
        self.changed();
        true
    }

    /// What later search takes for the same weakness: the conditions before any narrowing, with each bound moved out to
    /// the points beyond it that showed the symptom while all but one or two of the conditions held.
    pub(super) fn neighbourhood(&self) -> Region {
        let mut conditions = self.before_narrowing.as_ref().unwrap_or(&self.conditions).clone();
        let region = conditions.region();
        for workload in &self.showing {
            let broken: Vec<_> = region.conditions.iter().filter(|condition| !condition.holds(workload)).collect();
            if broken.len() <= BROKEN_BY_NEIGHBOURS && broken.iter().all(|condition| condition.feature.is_ordered()) {
                for condition in broken {
                    conditions.admit(condition.feature, workload);
                }
            }
        }
        conditions.region()
    }

    /// Moves each end that shuts something out, or each end if none does, halfway to the anchor.
    fn halve(&mut self, feature: Feature) {
        let Some(own) = self.anchor.feature(feature).number() else { return };
        let (min, max) = match self.conditions.get(feature) {
            Some(Test::Range { min, max }) => (min.is_some(), max.is_some()),
            _ => (true, true),
        };
        let region = self.conditions.region();
        let test = region.conditions.iter().find(|condition| condition.feature == feature);
        let admitted = |value: &u64| test.is_none_or(|test| test.admits(&FeatureValue::Number(*value)));
        let (below, above): (Vec<u64>, Vec<u64>) =
            ladder(self.session.space, feature).into_iter().filter(admitted).partition(|value| *value < own);
        if min {
            let lowest = below.get(below.len().div_ceil(2)).copied().unwrap_or(own);
            self.bound_with_anchor(feature, End::Min, lowest);
        }
        if max {
            let highest = above.get(above.len() / 2).copied().unwrap_or(own);
            self.bound_with_anchor(feature, End::Max, highest);
        }
    }
}

//! What is done if the search for a condition fails: cuts from known points alone, and narrowing at the limit.

use kelpie_spaces::{Dimension, Feature, FeatureValue, Region, Workload};

use super::Builder;
use super::conditions::End;
use super::refine::Reach;
use crate::oracle::Oracle;

impl<O: Oracle> Builder<'_, '_, O> {
    /// Shuts a healthy point out by the one feature that costs the fewest known anomalous points inside.
    ///
    /// The cut lies at the nearest known anomalous value, so the region reaches no further than what was seen. Says
    /// whether there was such a feature.
    pub(super) fn cut(&mut self, healthy: &Workload) -> bool {
        let region = self.conditions.region();
        let seen = self.search.sightings.within(&region, self.started);
        let known: Vec<&Workload> = self.inside.iter().chain(seen).collect();
        let best = Feature::ALL
            .into_iter()
            .filter(|feature| self.anchor.feature(*feature) != healthy.feature(*feature))
            .min_by_key(|feature| {
                (self.lost_by_cut(*feature, healthy, &known), self.conditions.get(*feature).is_none())
            });
        let Some(feature) = best else { return false };
        let seen = known.iter().map(|workload| workload.feature(feature)).chain([self.anchor.feature(feature)]);
        match (self.anchor.feature(feature), healthy.feature(feature)) {
            (FeatureValue::Number(own), FeatureValue::Number(far)) => {
                let end = End::towards(own, far);
                let seen = seen.filter_map(|value| value.number());
                let bound = match end {
                    End::Min => seen.filter(|value| *value > far).min(),
                    End::Max => seen.filter(|value| *value < far).max(),
                };
                self.conditions.bound(feature, end, bound.unwrap_or(own));
            }
            (_, far) => self.conditions.only(feature, seen.filter(|value| *value != far)),
        }
        true
    }

    fn lost_by_cut(&self, feature: Feature, healthy: &Workload, known: &[&Workload]) -> usize {
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
        known.iter().filter(|workload| beyond(workload.feature(feature))).count()
    }

    /// Pins every condition to the value of the anchor; the second time every feature.
    pub(super) fn narrow(&mut self) {
        self.wide.get_or_insert_with(|| self.conditions.clone());
        self.pin(if self.reach == Reach::Wide { Reach::Pinned } else { Reach::Exact });
        self.failures = 0;
        self.changed();
    }

    /// Pins what has a condition to the value of the anchor, or every feature that the space has if the region is to be
    /// exact.
    pub(super) fn pin(&mut self, reach: Reach) {
        self.reach = reach;
        let space = self.search.space;
        let matters = |feature: &Feature| match reach {
            Reach::Exact => !space.is_off(Dimension::of(*feature)),
            Reach::Wide | Reach::Pinned => self.conditions.get(*feature).is_some(),
        };
        let features: Vec<Feature> = Feature::ALL.into_iter().filter(matters).collect();
        self.conditions.pin(self.anchor, &features);
    }

    /// What later search takes for the same weakness: the conditions before it was pinned, with each bound moved out to
    /// the points beyond it that showed the symptom while all but one or two of the conditions held, or the other
    /// symptom while all but one did.
    pub(super) fn neighbourhood(&self) -> Region {
        let mut conditions = self.wide.as_ref().unwrap_or(&self.conditions).clone();
        let region = conditions.region();
        for (workload, symptom) in &self.met {
            let most = if *symptom == self.symptom { self.tuning().broken_by_neighbours } else { 1 };
            for condition in region.missed_bounds(workload, most).unwrap_or_default() {
                conditions.admit(condition.feature, workload);
            }
        }
        conditions.region()
    }
}

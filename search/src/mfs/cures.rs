//! Cures: each condition, broken alone on the anchor, and whether that makes it healthy.

use kelpie_spaces::{Condition, FeatureValue, Test, Workload};

use super::Builder;
use super::ordered::ladder;
use super::refine::Reach;
use crate::finding::Cure;
use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};

impl<O: Oracle> Builder<'_, '_, O> {
    /// Breaks each condition on its own; most of it is remembered from finding the condition.
    pub(super) fn cures(&mut self) -> Result<Vec<Cure>, O::Error> {
        if self.reach != Reach::Wide {
            // A narrowed region says where the symptom was validated, not what triggers it.
            return Ok(Vec::new());
        }
        let mut cures = Vec::new();
        for condition in self.conditions.region().conditions {
            cures.push(Cure { cured: self.is_cured(&condition)?, condition });
        }
        Ok(cures)
    }

    fn is_cured(&mut self, condition: &Condition) -> Result<Option<bool>, O::Error> {
        let others = self.conditions.region();
        let keeps_others = |workload: &Workload| {
            others.conditions.iter().all(|other| other.feature == condition.feature || other.holds(workload))
        };
        let mut broken: Vec<Workload> = self
            .broken_values(condition)
            .iter()
            .filter_map(|value| self.search.space.with_feature(self.anchor, condition.feature, value))
            .filter(|workload| !condition.holds(workload))
            .collect();
        // Points that break nothing else come first; if rules tie features together there may be none.
        broken.sort_by_key(|workload| !keeps_others(workload));
        let mut cured = None;
        for workload in broken.iter().take(self.tuning().breaks) {
            match self.ask(workload, Purpose::Mfs)? {
                Outcome::Healthy => return Ok(Some(true)),
                Outcome::Anomalous(_) => cured = Some(false),
                Outcome::Inconclusive => {}
            }
        }
        Ok(cured)
    }

    /// Values that break the condition, the most telling first: next to a bound, then the extremes.
    fn broken_values(&self, condition: &Condition) -> Vec<FeatureValue> {
        let Test::Range { min, max } = &condition.test else {
            let values = self.search.space.feature_values(condition.feature);
            return values.into_iter().filter(|value| !condition.admits(value)).collect();
        };
        let ladder = ladder(self.search.space, condition.feature);
        let below = || ladder.iter().filter(|value| min.is_some_and(|min| **value < min));
        let above = || ladder.iter().filter(|value| max.is_some_and(|max| **value > max));
        let chosen = [below().next_back(), above().next(), below().next(), above().next_back()];
        chosen.into_iter().flatten().map(|value| FeatureValue::Number(*value)).collect()
    }
}

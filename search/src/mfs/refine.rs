//! Refinement: every healthy point inside the region tightens it, until a run of random points inside is anomalous.

use kelpie_spaces::{FeatureValue, Workload};

use super::Builder;
use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};

/// Steps of the random walk from the anchor that stands in where the space has no sample inside a region.
const WALK_STEPS: u32 = 40;

impl<O: Oracle> Builder<'_, '_, O> {
    /// Tightens the region until it is validated, or as narrow as it gets.
    pub(super) fn refine(&mut self) -> Result<(), O::Error> {
        loop {
            let region = self.conditions.region();
            if let Some(healthy) = self.session.history.nearest_healthy(&region, self.anchor, &self.inseparable) {
                self.exclude(&healthy)?;
            } else if self.is_validated() {
                return Ok(());
            } else {
                self.sample()?;
            }
            // Each narrowing may cost a third of what came before the first.
            let limit = u64::from(self.session.config.mfs.experiments) * u64::from(self.narrowed + 3) / 3;
            if self.asked() >= limit && !self.is_validated() && !self.narrow() {
                return Ok(());
            }
        }
    }

    /// Enough points since the last change; or two thirds, where one and a half times as many are inside in
    /// all, because then what was shut out last was rare.
    fn is_validated(&self) -> bool {
        let run = self.session.config.mfs.validation_run;
        self.fresh >= run || (self.fresh >= run * 2 / 3 && self.inside.len() as u64 >= u64::from(run) * 3 / 2)
    }

    /// Questions about this region so far, answered from memory or not.
    fn asked(&self) -> u64 {
        self.session.experiments() - self.started + u64::from(self.remembered)
    }

    /// One random point inside; a healthy one is in the history then, and an inconclusive one shows nothing.
    fn sample(&mut self) -> Result<(), O::Error> {
        let region = self.conditions.region();
        let drawn = self.session.space.sample_in(&region, &mut self.session.rng);
        let workload = drawn.unwrap_or_else(|| self.wander());
        let before = self.session.experiments();
        let outcome = self.session.outcome(&workload, Purpose::Validate)?;
        if self.session.experiments() == before {
            self.remembered += 1;
        }
        if let Outcome::Anomalous(symptom) = outcome {
            if symptom == self.symptom {
                self.showing.push(workload.clone());
            }
            self.inside.push(workload);
            self.fresh += 1;
        }
        Ok(())
    }

    /// A random walk from the anchor that stays inside the region.
    fn wander(&mut self) -> Workload {
        let region = self.conditions.region();
        let mut here = self.anchor.clone();
        for _ in 0..WALK_STEPS {
            let next = self.session.space.mutate(&here, &mut self.session.rng);
            if region.contains(&next) {
                here = next;
            }
        }
        here
    }

    /// Shuts a healthy point out: finds the feature to blame on the way from the anchor and tightens it.
    fn exclude(&mut self, healthy: &Workload) -> Result<(), O::Error> {
        let (shown, lost) = self.border(healthy)?;
        if let Some(feature) = self.blame(&shown, &lost)? {
            match (shown.feature(feature), lost.feature(feature)) {
                (FeatureValue::Number(near), FeatureValue::Number(far)) => {
                    self.tighten_ordered(feature, &shown, near, far)?;
                }
                (_, far) => self.tighten_categorical(feature, &shown, &far)?,
            }
        }
        if self.conditions.region().contains(healthy) && !self.cut(healthy) {
            self.inseparable.push(healthy.clone());
        }
        self.prune();
        self.changed();
        Ok(())
    }

    /// Drops conditions that no known healthy point needs, unless narrowing put them there.
    fn prune(&mut self) {
        if self.narrowed > 0 {
            return;
        }
        let (history, inseparable) = (&self.session.history, &self.inseparable);
        self.conditions.prune(|region| history.healthy_in(region).all(|workload| inseparable.contains(workload)));
    }

    /// The region changed: the run of anomalous points starts again.
    pub(super) fn changed(&mut self) {
        let region = self.conditions.region();
        self.inside.retain(|workload| region.contains(workload));
        self.fresh = 0;
    }
}

//! Refinement: every healthy point inside the region tightens it, until a run of random points inside is anomalous.

use kelpie_spaces::{Feature, FeatureValue, Region, Test, Workload};
use rand::RngExt;

use super::Builder;
use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};

/// How far a region reaches. One that cannot be validated is narrowed to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// To whatever known healthy points leave.
    Wide,
    /// Every condition is pinned to the value of the anchor.
    Pinned,
    /// Every feature is.
    Exact,
}

impl<O: Oracle> Builder<'_, '_, O> {
    /// Tightens the region until it is validated, or as narrow as it gets.
    pub(super) fn refine(&mut self) -> Result<(), O::Error> {
        loop {
            let region = self.conditions.region();
            if self.asked() >= u64::from(self.tuning().most_limits) * self.limit() {
                // Most answers are inconclusive.
                self.fresh = 0;
                return Ok(());
            }
            if let Some(healthy) = self.search.history.nearest_healthy(&region, self.anchor, &self.inseparable) {
                if !self.is_over_limit() {
                    self.exclude(&healthy)?;
                } else if self.reach < Reach::Exact {
                    self.narrow();
                } else {
                    self.fresh = 0;
                    return Ok(());
                }
            } else if !self.cornered {
                self.probe_corner()?;
            } else if self.is_validated() {
                return Ok(());
            } else {
                self.sample()?;
            }
        }
    }

    /// Whether a healthy point inside is one too many. What is pinned may ask for more.
    fn is_over_limit(&self) -> bool {
        let tuning = self.tuning();
        let (most, failures) = match self.reach {
            Reach::Wide => (self.limit(), tuning.wide_failures),
            Reach::Pinned => (self.limit() + self.limit() / u64::from(tuning.pinned_part), tuning.pinned_failures),
            Reach::Exact => (u64::MAX, tuning.pinned_failures),
        };
        self.asked() >= most || self.failures > failures
    }

    /// Experiments that a wide region may take.
    fn limit(&self) -> u64 {
        self.search.config.tuning.mfs.experiments.into()
    }

    /// Whether there were enough points since the last change; more are needed if validation has found healthy ones.
    /// Fewer by a part are enough if more by that part were seen inside a wide region, because then whatever was shut
    /// out last was rare.
    fn is_validated(&self) -> bool {
        let (tuning, run) = (self.tuning(), self.search.config.tuning.mfs.validation_run);
        let run = run.saturating_add((run / tuning.doubt_part).saturating_mul(self.failures));
        let part = run / tuning.well_known_part;
        let is_known_well = self.reach == Reach::Wide && self.seen_inside() >= run.saturating_add(part) as usize;
        self.fresh >= if is_known_well { run - run.div_ceil(tuning.well_known_part) } else { run }
    }

    /// Anomalies inside: random points of this validation, and of the search's beginning.
    fn seen_inside(&self) -> usize {
        let region = self.conditions.region();
        let random = self.search.config.warm_up().min(self.started);
        self.inside.len() + self.search.sightings.within(&region, random).count()
    }

    /// Questions about this region so far, answered from memory or not.
    fn asked(&self) -> u64 {
        self.search.experiments() - self.started + u64::from(self.remembered)
    }

    /// The point where every condition holds only just: if the symptom grows with each of them, it is the first to lose
    /// it.
    fn probe_corner(&mut self) -> Result<(), O::Error> {
        self.cornered = true;
        let region = self.conditions.region();
        let mut corner = self.anchor.clone();
        for condition in &region.conditions {
            if let Test::Range { min: Some(bound), .. } | Test::Range { max: Some(bound), .. } = condition.test {
                let moved = self.search.space.with_feature(&corner, condition.feature, &FeatureValue::Number(bound));
                corner = moved.filter(|moved| region.contains(moved)).unwrap_or(corner);
            }
        }
        self.search.outcome(&corner, Purpose::Mfs).map(|_| ())
    }

    /// One random point inside; a healthy one is in the history then, and an inconclusive one shows nothing.
    fn sample(&mut self) -> Result<(), O::Error> {
        let region = self.conditions.region();
        let edge = self.edge(&region);
        let mut sampled = self.search.space.sample_in(&edge, &mut self.search.rng);
        if sampled.is_none() {
            sampled = self.search.space.sample_in(&region, &mut self.search.rng);
        }
        let workload = sampled.unwrap_or_else(|| self.wander());
        let before = self.search.experiments();
        let outcome = self.ask(&workload, Purpose::Validate)?;
        if self.search.experiments() == before {
            self.remembered += 1;
        }
        if let Outcome::Anomalous(_) = outcome {
            self.inside.push(workload);
            self.fresh += 1;
        } else if outcome == Outcome::Healthy {
            self.failures += 1;
        }
        Ok(())
    }

    /// Every other time a part of the region where some conditions hold only just: what is healthy inside is mostly
    /// there.
    fn edge(&mut self, region: &Region) -> Region {
        let mut edge = region.clone();
        if self.fresh.is_multiple_of(2) {
            return edge;
        }
        for condition in &mut edge.conditions {
            if let Test::Range { min, max } = &mut condition.test
                && self.search.rng.random_bool(0.5)
            {
                let bound =
                    if max.is_none() || (min.is_some() && self.search.rng.random_bool(0.5)) { *min } else { *max };
                (*min, *max) = (bound, bound);
            }
        }
        edge
    }

    /// A random walk from the anchor that stays inside the region.
    fn wander(&mut self) -> Workload {
        let region = self.conditions.region();
        let mut here = self.anchor.clone();
        for _ in 0..self.tuning().walk_steps {
            let next = self.search.space.mutate(&here, &mut self.search.rng);
            if region.contains(&next) {
                here = next;
            }
        }
        here
    }

    /// Shuts a healthy point out, if need be from known points alone.
    fn exclude(&mut self, healthy: &Workload) -> Result<(), O::Error> {
        if !self.is_nudged(healthy)? {
            self.condition(healthy)?;
        }
        if self.conditions.region().contains(healthy) && !self.cut(healthy) {
            self.inseparable.push(healthy.clone());
        }
        self.prune();
        self.changed();
        Ok(())
    }

    /// Finds the feature to blame on the way from the anchor to a healthy point, and tightens it.
    fn condition(&mut self, healthy: &Workload) -> Result<(), O::Error> {
        let (shown, lost) = self.border(healthy)?;
        if let Some(feature) = self.blame(&shown, &lost)? {
            match (shown.feature(feature), lost.feature(feature)) {
                (FeatureValue::Number(near), FeatureValue::Number(far)) => {
                    self.tighten_ordered(feature, &shown, near, far)?;
                }
                (_, far) if self.is_indifferent(feature, &far)? && self.cut(healthy) => {}
                (_, far) => self.tighten_categorical(feature, &shown, &far)?,
            }
            if self.pruned.contains(&feature) && self.conditions.get(feature).is_some() {
                self.needed.insert(feature);
            }
        }
        Ok(())
    }

    /// Whether the anchor shows the symptom with this word too: then the word matters only near some bound.
    ///
    /// A word that is blamed a second time matters after all.
    pub(super) fn is_indifferent(&mut self, feature: Feature, word: &FeatureValue) -> Result<bool, O::Error> {
        if self.conditions.get(feature).is_some() || !self.forgiven.insert((feature, word.clone())) {
            return Ok(false);
        }
        match self.search.space.with_feature(self.anchor, feature, word) {
            Some(workload) => self.shows(&workload),
            None => Ok(false),
        }
    }

    /// Drops conditions that no known healthy point needs, unless narrowing put them there.
    fn prune(&mut self) {
        if self.reach != Reach::Wide {
            return;
        }
        let (history, inseparable) = (&self.search.history, &self.inseparable);
        let nothing_needs = |region: &Region| history.healthy_in(region).all(|healthy| inseparable.contains(healthy));
        self.pruned.extend(self.conditions.prune(&self.needed, nothing_needs));
    }

    /// The region changed: the run of anomalous points starts again.
    pub(super) fn changed(&mut self) {
        let region = self.conditions.region();
        self.inside.retain(|workload| region.contains(workload));
        self.fresh = 0;
        self.cornered = false;
    }
}

//! Refinement: every healthy point inside the region tightens it, until a run of random points inside is anomalous.

use kelpie_spaces::{Feature, FeatureValue, Region, Test, Workload};
use rand::RngExt;

use super::Builder;
use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};

/// Steps of the random walk from the anchor that stands in where the space has no sample inside a region.
const WALK_STEPS: u32 = 40;

/// Part of the validation run that is added for each healthy point that validation has found.
///
/// Source: our choice, because a run that may be tried again after each of them passes more often than one that may not.
const DOUBT: usize = 6;

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

impl Reach {
    /// Healthy points that validation may find before the region is narrowed, or in the end given up.
    ///
    /// Source: our choice, because wide regions of subsystem F that could be validated had 0 to 3, few of them more.
    fn most_failures(self) -> u32 {
        match self {
            Self::Wide => 3,
            Self::Pinned | Self::Exact => 1,
        }
    }
}

impl<O: Oracle> Builder<'_, '_, O> {
    /// Tightens the region until it is validated, or as narrow as it gets.
    pub(super) fn refine(&mut self) -> Result<(), O::Error> {
        loop {
            let region = self.conditions.region();
            if self.asked() >= 3 * u64::from(self.session.config.mfs.experiments) {
                // Most answers are inconclusive.
                self.fresh = 0;
                return Ok(());
            }
            if let Some(healthy) = self.session.history.nearest_healthy(&region, self.anchor, &self.inseparable) {
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

    /// Whether a healthy point inside is one too many. What is pinned may ask for half as much again.
    fn is_over_limit(&self) -> bool {
        let experiments = u64::from(self.session.config.mfs.experiments);
        let most = match self.reach {
            Reach::Wide => experiments,
            Reach::Pinned => experiments * 3 / 2,
            Reach::Exact => u64::MAX,
        };
        self.asked() >= most || self.failures > self.reach.most_failures()
    }

    /// Enough points since the last change, more where validation has found healthy ones before; or two thirds where four
    /// thirds as many random ones were seen inside a wide region, because then what was shut out last was rare.
    fn is_validated(&self) -> bool {
        let run = self.session.config.mfs.validation_run as usize;
        let run = run + run / DOUBT * self.failures as usize;
        let is_known_well = self.reach == Reach::Wide && self.seen_inside() >= run * 4 / 3;
        self.fresh as usize >= if is_known_well { run * 2 / 3 } else { run }
    }

    /// Anomalies inside: random points of this validation, and of the search's beginning.
    fn seen_inside(&self) -> usize {
        let region = self.conditions.region();
        let random = self.session.config.warm_up().min(self.started);
        self.inside.len() + self.session.sightings.within(&region, random).count()
    }

    /// Questions about this region so far, answered from memory or not.
    fn asked(&self) -> u64 {
        self.session.experiments() - self.started + u64::from(self.remembered)
    }

    /// The point where every condition holds only just: if the symptom grows with each of them, it is the first to lose it.
    fn probe_corner(&mut self) -> Result<(), O::Error> {
        self.cornered = true;
        let region = self.conditions.region();
        let mut corner = self.anchor.clone();
        for condition in &region.conditions {
            if let Test::Range { min: Some(bound), .. } | Test::Range { max: Some(bound), .. } = condition.test {
                let moved = self.session.space.with_feature(&corner, condition.feature, &FeatureValue::Number(bound));
                corner = moved.filter(|moved| region.contains(moved)).unwrap_or(corner);
            }
        }
        self.session.outcome(&corner, Purpose::Mfs).map(|_| ())
    }

    /// One random point inside; a healthy one is in the history then, and an inconclusive one shows nothing.
    fn sample(&mut self) -> Result<(), O::Error> {
        let region = self.conditions.region();
        let edge = self.edge(&region);
        let mut drawn = self.session.space.sample_in(&edge, &mut self.session.rng);
        if drawn.is_none() {
            drawn = self.session.space.sample_in(&region, &mut self.session.rng);
        }
        let workload = drawn.unwrap_or_else(|| self.wander());
        let before = self.session.experiments();
        let outcome = self.ask(&workload, Purpose::Validate)?;
        if self.session.experiments() == before {
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

    /// Every other time a part of the region where some conditions hold only just: what is healthy inside is mostly there.
    fn edge(&mut self, region: &Region) -> Region {
        let mut edge = region.clone();
        if self.fresh.is_multiple_of(2) {
            return edge;
        }
        for condition in &mut edge.conditions {
            if let Test::Range { min, max } = &mut condition.test
                && self.session.rng.random_bool(0.5)
            {
                let bound =
                    if max.is_none() || (min.is_some() && self.session.rng.random_bool(0.5)) { *min } else { *max };
                (*min, *max) = (bound, bound);
            }
        }
        edge
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
        match self.session.space.with_feature(self.anchor, feature, word) {
            Some(workload) => self.shows(&workload),
            None => Ok(false),
        }
    }

    /// Drops conditions that no known healthy point needs, unless narrowing put them there.
    fn prune(&mut self) {
        if self.reach != Reach::Wide {
            return;
        }
        let (history, inseparable) = (&self.session.history, &self.inseparable);
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

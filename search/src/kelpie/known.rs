//! A finding while the search goes on: its witness, its factors, and the region that they span so far.

use std::rc::Rc;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Space, Test, Workload};

use super::factors::TRANSPORT;
use super::lab::{Past, Seen};
use crate::discovery::{Believed, FindingState};
use crate::finding::{Cure, Finding, FindingEvidence, wilson_lower_bound};
use crate::outcome::Outcome;

/// Explorations that came upon a finding, from which on its removals are confirmed. Source: our choice.
const SETTLED_AT: u32 = 3;

/// Share of a region that may be healthy, by random points and what trees say, before points are cut off. Source: our choice.
const MOST_HEALTHY: f64 = 0.13;

/// Plausibility that a finding explains an anomaly which stresses its factors hardly at all. Source: our choice.
const AT_ALL: f64 = 0.3;
/// Part of its plausibility that is left if counters of its witness are silent in the anomaly. Source: our choice.
const MISSES_OWN: f64 = 0.3;
/// Part that is left if the anomaly has counters that are silent in its witness. Source: our choice.
const SHOWS_MORE: f64 = 0.7;

/// A random point by which a region is judged.
#[derive(Debug)]
struct Trial {
    point: Workload,
    is_anomalous: bool,
    /// Whether it lies in the region as it is now.
    is_inside: bool,
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) symptom: Symptom,
    /// The simplified anomaly.
    pub(super) witness: Workload,
    pub(super) seen: Rc<Seen>,
    /// Plain traffic of the witness's transport.
    pub(super) plain: Workload,
    /// Features of the witness without which the symptom is gone: the removal of each was measured.
    pub(super) factors: Vec<Feature>,
    pub(super) region: Region,
    /// Experiment that showed it first.
    pub(super) found_at: u64,
    pub(super) spent: u64,
    /// Explorations that came upon it.
    pub(super) visits: u32,
    /// Random points that were inside when they were measured.
    trials: Vec<Trial>,
    /// How many of them came before the region was last read.
    old: usize,
    /// Random points inside that had been measured before, in a row.
    pub(super) repeats: u32,
    /// Whether its removals were confirmed.
    pub(super) is_settled: bool,
    /// What trees say of its region; `None` if it was not read from experiments, but put together from its own.
    believed: Option<Believed>,
    /// Whether no random points of its region are left.
    pub(super) is_spent: bool,
}

impl Known {
    /// A finding whose region is all that stresses its factors at least as much as the witness does.
    pub(super) fn new(
        symptom: Symptom,
        witness: Workload,
        seen: Rc<Seen>,
        plain: Workload,
        factors: Vec<Feature>,
    ) -> Self {
        let mut known = Self {
            symptom,
            found_at: seen.number,
            witness,
            seen,
            plain,
            factors,
            region: Region::default(),
            spent: 0,
            visits: 1,
            trials: Vec::new(),
            old: 0,
            repeats: 0,
            is_settled: false,
            believed: None,
            is_spent: false,
        };
        known.region = known.beyond();
        known
    }

    /// All that stresses its factors at least as much as the witness does, with the same transport.
    pub(super) fn beyond(&self) -> Region {
        let features = self.factors.iter().copied().chain(TRANSPORT);
        let conditions = features.map(|feature| self.at_least_as_far(feature, &self.witness.feature(feature)));
        let mut region = Region { conditions: conditions.collect() };
        region.conditions.sort();
        region
    }

    /// As it is now; `number` says of a workload which experiment it was.
    pub(super) fn state(&self, number: impl Fn(&Workload) -> Option<u64>) -> FindingState {
        FindingState {
            symptom: self.symptom,
            witness: self.seen.number,
            plain: self.plain.clone(),
            factors: self.factors.clone(),
            region: self.region.clone(),
            found_at: self.found_at,
            spent: self.spent,
            visits: self.visits,
            trials: self.trials.iter().map(|trial| number(&trial.point).expect("it was measured")).collect(),
            old: self.old,
            repeats: self.repeats,
            is_settled: self.is_settled,
            believed: self.believed,
            is_spent: self.is_spent,
        }
    }

    pub(super) fn of(state: &FindingState, past: &Past<'_>) -> Self {
        let (witness, seen) = past.get(state.witness);
        let trial = |number: &u64| {
            let (point, seen) = past.get(*number);
            let is_inside = state.region.contains(&point);
            Trial { point, is_anomalous: matches!(seen.outcome, Outcome::Anomalous(_)), is_inside }
        };
        let trials = state.trials.iter().map(trial).collect();
        let FindingState { symptom, found_at, spent, visits, old, repeats, believed, .. } = *state;
        Self {
            symptom,
            witness,
            seen,
            plain: state.plain.clone(),
            factors: state.factors.clone(),
            region: state.region.clone(),
            found_at,
            spent,
            visits,
            trials,
            old,
            repeats,
            is_settled: state.is_settled,
            believed,
            is_spent: state.is_spent,
        }
    }

    /// All workloads that stress its factors the same way.
    pub(super) fn hull(&self, space: &Space) -> Region {
        let beyond_plain = |feature: &Feature| {
            let test = match (self.witness.feature(*feature).number(), self.plain.feature(*feature).number()) {
                (Some(witness), Some(plain)) => {
                    let values = space.feature_values(*feature).into_iter().filter_map(|value| value.number());
                    if witness > plain {
                        let first = values.filter(|value| (plain + 1..=witness).contains(value)).min();
                        Test::Range { min: first, max: None }
                    } else {
                        let first = values.filter(|value| (witness..plain).contains(value)).max();
                        Test::Range { min: None, max: first }
                    }
                }
                _ => Test::In(vec![self.witness.feature(*feature).to_string()]),
            };
            Condition { feature: *feature, test }
        };
        let mut conditions: Vec<Condition> = self.factors.iter().map(beyond_plain).collect();
        conditions.sort();
        Region { conditions }
    }

    /// Takes a region that was read from experiments, and what trees say of it.
    pub(super) fn become_region(&mut self, region: Region, believed: Option<Believed>) {
        self.believed = believed.or(self.believed);
        if self.region != region {
            self.region = region;
            self.old = self.trials.len();
            (self.repeats, self.is_spent) = (0, false);
            for trial in &mut self.trials {
                trial.is_inside = self.region.contains(&trial.point);
            }
        }
    }

    /// A random point inside that was healthy.
    pub(super) fn healthy(&self) -> Option<&Workload> {
        let mut inside = self.trials.iter().filter(|trial| trial.is_inside);
        inside.find(|trial| !trial.is_anomalous).map(|trial| &trial.point)
    }

    /// Whether more of its region is healthy than it may be, by random points and what trees say.
    pub(super) fn is_impure(&self) -> bool {
        let (share, belief) = self.belief();
        let [points, healthy] = count(&self.trials);
        healthy + (1.0 - share) * belief > MOST_HEALTHY * (points + belief)
    }

    /// The condition that a feature is at this value or farther from plain.
    fn at_least_as_far(&self, feature: Feature, value: &FeatureValue) -> Condition {
        let test = match (value, self.plain.feature(feature).number()) {
            (FeatureValue::Number(value), Some(plain)) if *value > plain => {
                Test::Range { min: Some(*value), max: None }
            }
            (FeatureValue::Number(value), _) => Test::Range { min: None, max: Some(*value) },
            (FeatureValue::Category(word), _) => Test::In(vec![word.clone()]),
        };
        Condition { feature, test }
    }

    /// How far the workload stresses the factor that it stresses least, against the witness. Shape: 0 to 1; 0 if it does
    /// not stress them all.
    pub(super) fn level(&self, workload: &Workload) -> f64 {
        let of = |feature: &Feature| {
            let value = workload.feature(*feature);
            match (value.number(), self.witness.feature(*feature).number(), self.plain.feature(*feature).number()) {
                (Some(value), Some(witness), Some(plain)) => {
                    let way = |to: u64| ((1.0 + to as f64) / (1.0 + plain as f64)).ln();
                    (way(value) / way(witness)).clamp(0.0, 1.0)
                }
                _ => f64::from(u8::from(
                    self.region.condition(*feature).is_none_or(|condition| condition.admits(&value)),
                )),
            }
        };
        self.factors.iter().map(of).fold(1.0, f64::min)
    }

    /// How plausible it is that this explains an anomaly: the more, the farther all its factors are stressed, and the less,
    /// the more the counters say otherwise. Shape: 0 to 1.
    pub(super) fn plausible(&self, workload: &Workload, symptom: Symptom, seen: &Seen) -> f64 {
        let level = if self.symptom == symptom { self.level(workload) } else { 0.0 };
        if level == 0.0 {
            return 0.0;
        }
        let shows_own = if seen.accounts_for(&self.seen) { 1.0 } else { MISSES_OWN };
        let shows_more = if self.seen.accounts_for(seen) { 1.0 } else { SHOWS_MORE };
        (1.0 - (1.0 - AT_ALL) * (1.0 - level)) * shows_own * shows_more
    }

    /// Whether so many explorations came upon it that its removals are to be confirmed.
    pub(super) fn is_due(&self) -> bool {
        !self.is_settled && self.visits >= SETTLED_AT
    }

    pub(super) fn contains(&self, workload: &Workload) -> bool {
        self.region.contains(workload)
    }

    /// Drops a factor that the symptom does not need after all, and what went back to plain with it: features that hang
    /// together move together.
    pub(super) fn simplify(&mut self, factor: Feature, witness: Workload, seen: Rc<Seen>) {
        (self.witness, self.seen) = (witness, seen);
        let plain = &self.plain;
        self.factors.retain(|other| *other != factor && self.witness.feature(*other) != plain.feature(*other));
        let witness = &self.witness;
        self.region
            .conditions
            .retain(|condition| condition.feature != factor && condition.admits(&witness.feature(condition.feature)));
        self.forget_trials();
    }

    /// Takes in an anomaly that its factors explain; a region that was not read yet reaches to there.
    pub(super) fn take_in(&mut self, anomaly: &Workload) {
        for feature in self.factors.clone().into_iter().chain(TRANSPORT) {
            self.widen_to(feature, &anomaly.feature(feature));
        }
    }

    /// Takes in a random point inside.
    pub(super) fn tried(&mut self, point: Workload, is_anomalous: bool) {
        self.trials.push(Trial { point, is_anomalous, is_inside: true });
    }

    /// Random points of what the region was say nothing of what it is.
    fn forget_trials(&mut self) {
        self.trials.clear();
        self.old = 0;
    }

    /// Widens the region to where the workload lies in this feature.
    pub(super) fn widen_to(&mut self, feature: Feature, value: &FeatureValue) {
        if self.believed.is_some() {
            return;
        }
        let Some(old) = self.region.condition(feature).filter(|condition| !condition.admits(value)) else { return };
        let test = match (&old.test, value) {
            (Test::In(words), FeatureValue::Category(word)) => {
                Test::In(words.iter().cloned().chain([word.clone()]).collect())
            }
            (Test::Range { min, max }, FeatureValue::Number(value)) => {
                Test::Range { min: min.map(|min| min.min(*value)), max: max.map(|max| max.max(*value)) }
            }
            (test, _) => test.clone(),
        };
        self.region.set(Condition { feature, test });
        // Random points of a part say nothing of the whole.
        self.forget_trials();
    }

    /// How little is known of the share of its region that is healthy. Source: the variance of Jeffreys' posterior.
    pub(super) fn doubt(&self) -> f64 {
        let (share, belief) = self.belief();
        let [points, healthy] = count(&self.trials);
        let all = points + belief + 1.0;
        let mean = (healthy + (1.0 - share) * belief + 0.5) / all;
        mean * (1.0 - mean) / (all + 1.0)
    }

    /// Whether its region was read from experiments.
    pub(super) fn has_read(&self) -> bool {
        self.believed.is_some()
    }

    /// What trees say: the share that is anomalous, and how many random points that is worth.
    fn belief(&self) -> (f64, f64) {
        self.believed.map_or((0.0, 0.0), |believed| (believed.share, believed.worth))
    }

    /// Share of the region that is anomalous, at least, after random points inside and what trees say.
    fn confidence(&self, anomalous: f64, points: f64) -> f64 {
        let (share, belief) = self.belief();
        wilson_lower_bound(anomalous + share * belief, points + belief)
    }

    /// As it is now; `cures` says what the removal of each factor did.
    pub(super) fn finding(&self, cures: Vec<Cure>) -> Finding {
        let [points, healthy] = count(&self.trials[self.old..]);
        Finding {
            symptom: self.symptom,
            workload: self.witness.clone(),
            mfs: self.region.clone(),
            found_at: self.found_at,
            experiments_for_mfs: self.spent,
            confidence: self.confidence(points - healthy, points),
            evidence: FindingEvidence {
                symptoms: self.seen.observation.assessment.symptoms.clone(),
                signals: self.seen.observation.signals.clone(),
                validated: points as u64,
                healthy_inside: healthy as u64,
                narrowed: false,
                cures,
            },
        }
    }

    /// Whether both need the same of a transport.
    pub(super) fn is_like(&self, other: &Known) -> bool {
        let transport = |known: &Known| TRANSPORT.map(|feature| known.witness.feature(feature));
        self.symptom == other.symptom
            && transport(self) == transport(other)
            && self.factors.len() == other.factors.len()
            && self.level(&other.witness) > 0.0
    }

    pub(super) fn shows(&self, seen: &Seen) -> bool {
        seen.outcome == Outcome::Anomalous(self.symptom)
    }
}

/// How many of these random points lie inside, and how many of those are healthy.
fn count(trials: &[Trial]) -> [f64; 2] {
    let inside = trials.iter().filter(|trial| trial.is_inside);
    let healthy = inside.clone().filter(|trial| !trial.is_anomalous);
    [inside.count() as f64, healthy.count() as f64]
}

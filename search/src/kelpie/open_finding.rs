//! A finding while the search goes on: its witness, its factors, and what is known of its conditions.

use std::collections::BTreeMap;
use std::rc::Rc;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Test, Workload};

use super::conditions::Needed;
use super::experiments::{Past, SearchExperiment, keeps};
use super::factors::is_telling;
use super::signature::Signature;
use crate::discovery::FindingState;
use crate::finding::{Cure, Finding, FindingEvidence, TriedTransport, wilson_lower_bound};
use crate::outcome::Outcome;

/// Explorations that came upon a finding, from which on its removals are confirmed. Source: our choice.
const SETTLED_AT: u32 = 3;

/// Random workloads by which the share is known that shows a finding's symptom, at first and at last. Source: our
/// choice; if all of 10 do, at least 79 % do, with 95 % confidence, and if all of 20 do, 88 %.
const TRIALS: [usize; 2] = [10, 20];

/// Plausibility that a finding explains an anomaly which stresses its factors hardly at all. Source: our choice.
const AT_ALL: f64 = 0.3;
/// Part of its plausibility that is left if counters of its witness are silent in the anomaly. Source: our choice.
const MISSES_OWN: f64 = 0.3;
/// Part that is left if the anomaly has counters that are silent in its witness. Source: our choice.
const SHOWS_MORE: f64 = 0.7;

/// A random workload that meets the conditions of a finding.
#[derive(Debug)]
struct Trial {
    /// Its experiment.
    number: u64,
    outcome: Outcome,
    /// Whether it shows the finding's symptom, also beside others.
    shows: bool,
}

impl Trial {
    fn of(symptom: Symptom, seen: &SearchExperiment) -> Self {
        let is_there = seen.observation.assessment.symptoms.contains(&symptom);
        let shows = is_there && matches!(seen.outcome, Outcome::Anomalous(_));
        Self { number: seen.number, outcome: seen.outcome, shows }
    }
}

#[derive(Debug)]
pub(super) struct OpenFinding {
    pub(super) symptom: Symptom,
    /// The simplified anomaly.
    pub(super) witness: Workload,
    pub(super) seen: Rc<SearchExperiment>,
    /// Plain traffic of the witness's transport.
    pub(super) plain: Workload,
    /// Features of the witness without which the symptom is gone: the removal of each was measured.
    pub(super) factors: Vec<Feature>,
    /// Its conditions; until they are measured, all that is known to show the symptom.
    pub(super) region: Region,
    /// Experiment that showed it first.
    pub(super) found_at: u64,
    pub(super) spent: u64,
    /// Explorations that came upon it.
    pub(super) visits: u32,
    /// Whether its removals were confirmed.
    pub(super) is_settled: bool,
    /// What its witness needs, once that was measured.
    pub(super) needed: Option<Needed>,
    /// The finding of which it is a variant.
    pub(super) variant_of: Option<usize>,
    trials: Vec<Trial>,
    /// Whether no random workloads that meet its conditions are left.
    pub(super) is_spent: bool,
}

impl OpenFinding {
    /// A finding whose conditions are that a workload stresses its factors at least as much as the witness does.
    pub(super) fn new(
        symptom: Symptom,
        witness: Workload,
        seen: Rc<SearchExperiment>,
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
            is_settled: false,
            needed: None,
            variant_of: None,
            trials: Vec::new(),
            is_spent: false,
        };
        let features = known.factors.iter().copied().chain(TriedTransport::FEATURES);
        let conditions = features.map(|feature| known.at_least_as_far(feature, &known.witness.feature(feature)));
        known.region.conditions = conditions.collect();
        known.region.conditions.sort();
        known
    }

    /// As it is now.
    pub(super) fn state(&self) -> FindingState {
        FindingState {
            symptom: self.symptom,
            witness: self.seen.number,
            plain: self.plain.clone(),
            factors: self.factors.clone(),
            region: self.region.clone(),
            found_at: self.found_at,
            spent: self.spent,
            visits: self.visits,
            is_settled: self.is_settled,
            cures: self.needed.as_ref().map_or_else(Vec::new, |needed| needed.cures.clone()),
            transports: self.needed.as_ref().map_or_else(Vec::new, |needed| needed.transports.clone()),
            variant_of: self.variant_of,
            trials: self.trials.iter().map(|trial| trial.number).collect(),
            is_spent: self.is_spent,
        }
    }

    pub(super) fn of(state: &FindingState, past: &Past<'_>) -> Self {
        let (witness, seen) = past.get(state.witness);
        let trial = |number: &u64| Trial::of(state.symptom, &past.get(*number).1);
        let FindingState { symptom, found_at, spent, visits, is_settled, variant_of, is_spent, .. } = *state;
        let needed = Needed { cures: state.cures.clone(), transports: state.transports.clone() };
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
            is_settled,
            // What was measured has at least the witness's own transport.
            needed: (!needed.transports.is_empty()).then_some(needed),
            variant_of,
            trials: state.trials.iter().map(trial).collect(),
            is_spent,
        }
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

    /// How far the workload stresses the factor that it stresses least, against the witness. Shape: 0 to 1; 0 if it
    /// does not stress them all.
    pub(super) fn level(&self, workload: &Workload) -> f64 {
        self.factors.iter().map(|factor| self.stress(*factor, workload)).fold(1.0, f64::min)
    }

    /// How far the workload stresses a factor, against the witness, or against the bound if that was measured. Shape:
    /// as above.
    fn stress(&self, factor: Feature, workload: &Workload) -> f64 {
        let (value, condition) = (workload.feature(factor), self.region.condition(factor));
        match (value.number(), self.witness.feature(factor).number(), self.plain.feature(factor).number()) {
            (Some(value), Some(witness), Some(plain)) => {
                let nearest = match condition.filter(|_| self.needed.is_some()).map(|condition| &condition.test) {
                    Some(Test::Range { min, max }) => {
                        if witness > plain {
                            *min
                        } else {
                            *max
                        }
                    }
                    _ => None,
                };
                let way = |to: u64| ((1.0 + to as f64) / (1.0 + plain as f64)).ln();
                (way(value) / way(nearest.unwrap_or(witness))).clamp(0.0, 1.0)
            }
            _ => f64::from(u8::from(condition.is_none_or(|condition| condition.admits(&value)))),
        }
    }

    /// How plausible it is that this explains an anomaly: the more, the farther all its factors are stressed, and the
    /// less, the more the counters say otherwise. Shape: 0 to 1.
    pub(super) fn plausible(&self, workload: &Workload, symptom: Symptom, seen: &SearchExperiment) -> f64 {
        let level = if self.symptom == symptom { self.level(workload) } else { 0.0 };
        if level == 0.0 {
            return 0.0;
        }
        let shows_own = if seen.accounts_for(&self.seen) { 1.0 } else { MISSES_OWN };
        let shows_more = if self.seen.accounts_for(seen) { 1.0 } else { SHOWS_MORE };
        (1.0 - (1.0 - AT_ALL) * (1.0 - level)) * shows_own * shows_more
    }

    /// Whether a workload with this symptom has all factors away from plain, and a transport that shows it.
    pub(super) fn covers(&self, symptom: Symptom, workload: &Workload) -> bool {
        self.symptom == symptom && self.level(workload) > 0.0 && self.admits_transport(workload)
    }

    /// Whether the transport of one shows both.
    pub(super) fn shares_transport(&self, other: &OpenFinding) -> bool {
        self.admits_transport(&other.witness) || other.admits_transport(&self.witness)
    }

    fn admits_transport(&self, workload: &Workload) -> bool {
        let mut conditions = TriedTransport::FEATURES.iter().filter_map(|feature| self.region.condition(*feature));
        conditions.all(|condition| condition.holds(workload))
    }

    /// Whether one of its factors is away from plain in the other, too, and needed there.
    pub(super) fn shares_factor(&self, other: &OpenFinding) -> bool {
        self.factors.iter().any(|factor| is_telling(*factor) && self.shares(*factor, other))
    }

    /// Whether the other needs each of its words, such as the place of memory, too: a word names a part of a host.
    pub(super) fn shares_words(&self, other: &OpenFinding) -> bool {
        let mut words = self.factors.iter().filter(|factor| !factor.is_ordered() && is_telling(**factor));
        words.all(|factor| self.shares(*factor, other))
    }

    /// Whether a number is to be large in one and small in the other.
    pub(super) fn opposes(&self, other: &OpenFinding) -> bool {
        let common = self.factors.iter().filter(|factor| factor.is_ordered() && other.factors.contains(factor));
        common.copied().any(|factor| !self.shares(factor, other))
    }

    /// Whether both say the same, so that nobody could tell one from the other.
    pub(super) fn says_as_much_as(&self, other: &OpenFinding) -> bool {
        let both_measured = self.needed.is_some() && other.needed.is_some();
        self.symptom == other.symptom && (self.witness == other.witness || both_measured && self.region == other.region)
    }

    fn shares(&self, factor: Feature, other: &OpenFinding) -> bool {
        other.factors.contains(&factor) && self.stress(factor, &other.witness) > 0.0
    }

    /// Whether so many explorations came upon it that its removals are to be confirmed.
    pub(super) fn is_due(&self) -> bool {
        !self.is_settled && self.visits >= SETTLED_AT
    }

    pub(super) fn contains(&self, workload: &Workload) -> bool {
        self.region.contains(workload)
    }

    /// Becomes a simpler witness; what went back to plain is no factor any more.
    pub(super) fn simplify(&mut self, witness: Workload, seen: Rc<SearchExperiment>) {
        (self.witness, self.seen) = (witness, seen);
        let Self { witness, plain, factors, region, .. } = self;
        factors.retain(|factor| witness.feature(*factor) != plain.feature(*factor));
        let is_left = |feature: &Feature| factors.contains(feature) || TriedTransport::FEATURES.contains(feature);
        region.conditions.retain(|condition| is_left(&condition.feature) && condition.holds(witness));
    }

    /// Takes in an anomaly that its factors explain, unless its conditions were measured.
    pub(super) fn take_in(&mut self, anomaly: &Workload) {
        if self.needed.is_none() {
            for feature in self.factors.clone().into_iter().chain(TriedTransport::FEATURES) {
                self.widen_to(feature, &anomaly.feature(feature));
            }
        }
    }

    /// Widens the conditions to where the workload lies in this feature.
    fn widen_to(&mut self, feature: Feature, value: &FeatureValue) {
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
    }

    /// Takes what its witness was measured to need.
    pub(super) fn take_needed(&mut self, needed: Needed) {
        self.region = needed.region();
        self.needed = Some(needed);
    }

    /// Takes in a random workload that meets its conditions.
    pub(super) fn tried(&mut self, seen: &SearchExperiment) {
        self.trials.push(Trial::of(self.symptom, seen));
    }

    /// How badly random workloads are wanted that meet its conditions: 0 for the worst finding, then up; `None` if not
    /// at all.
    pub(super) fn wants_trials(&self) -> Option<f64> {
        let wanted = self.needed.is_some() && self.variant_of.is_none() && !self.is_spent;
        let round = TRIALS.iter().position(|trials| self.trials.len() < *trials).filter(|_| wanted)?;
        Some(round as f64 + 1.0 - self.seen.lost())
    }

    /// As it is now; `is_cured` says whether the removal of a factor rids it of the symptom.
    pub(super) fn finding(&self, is_cured: &BTreeMap<Feature, bool>, signature: Signature) -> Finding {
        let count = |is: &dyn Fn(&Trial) -> bool| self.trials.iter().filter(|trial| is(trial)).count();
        let conclusive = count(&|trial| trial.outcome != Outcome::Inconclusive);
        let shows = count(&|trial| trial.shows);
        let (cures, transports) = match &self.needed {
            Some(needed) => (needed.cures.clone(), needed.transports.clone()),
            None => (self.factors.iter().filter_map(|factor| self.removal(*factor, is_cured)).collect(), Vec::new()),
        };
        Finding {
            symptom: self.symptom,
            workload: self.witness.clone(),
            mfs: self.region.clone(),
            found_at: self.found_at,
            experiments_for_mfs: self.spent,
            confidence: wilson_lower_bound(shows as f64, conclusive as f64),
            evidence: FindingEvidence {
                symptoms: self.seen.observation.assessment.symptoms.clone(),
                signals: self.seen.observation.signals.clone(),
                validated: conclusive as u64,
                shows_inside: shows as u64,
                healthy_inside: count(&|trial| trial.outcome == Outcome::Healthy) as u64,
                narrowed: false,
                cures,
                transports,
                signature: signature.into(),
                is_candidate: self.needed.is_none(),
                variant_of: self.variant_of.map(|index| index as u64 + 1),
            },
        }
    }

    fn removal(&self, factor: Feature, cured: &BTreeMap<Feature, bool>) -> Option<Cure> {
        let condition = self.region.condition(factor)?.clone();
        Some(Cure { condition, cured: cured.get(&factor).copied(), sides: Vec::new() })
    }

    /// Whether both need the same of a transport.
    pub(super) fn is_like(&self, other: &OpenFinding) -> bool {
        let transport = |known: &OpenFinding| TriedTransport::FEATURES.map(|feature| known.witness.feature(feature));
        self.symptom == other.symptom
            && transport(self) == transport(other)
            && self.factors.len() == other.factors.len()
            && self.level(&other.witness) > 0.0
    }

    /// Whether its anomaly is still there.
    pub(super) fn keeps(&self, seen: &SearchExperiment) -> bool {
        keeps(self.symptom, &self.seen, seen)
    }

    pub(super) fn shows(&self, seen: &SearchExperiment) -> bool {
        seen.outcome == Outcome::Anomalous(self.symptom)
    }
}

//! What a search has measured, and the oracle that measures the rest.

use std::collections::HashMap;
use std::rc::Rc;

use kelpie_belief::{BeliefModel, WorkloadOutcome as Learnt};
use kelpie_monitor::{Inconclusive, Symptom};
use kelpie_spaces::{Space, Workload};
use rand_pcg::Pcg64;

use crate::checkpoint::Checkpoint;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;
use crate::signals::{Observation, UTILISATION};

/// One experiment.
#[derive(Debug)]
pub(super) struct SearchExperiment {
    pub(super) outcome: Outcome,
    pub(super) observation: Observation,
    /// Number of the experiment, from 1.
    pub(super) number: u64,
    /// What it was for.
    purpose: Purpose,
}

impl SearchExperiment {
    /// Counters of random points that are not anomalous are compared with nothing, so they are not kept. A finding
    /// whose anomaly may not show on another day helps nobody, so that such an anomaly leads to none.
    fn new(mut observation: Observation, number: u64, purpose: Purpose) -> Self {
        let outcome = match Outcome::from(&observation.assessment) {
            Outcome::Anomalous(_) if !observation.shows_again => Outcome::Inconclusive,
            outcome => outcome,
        };
        let is_random = matches!(purpose, Purpose::Search | Purpose::Rank | Purpose::Survey | Purpose::Validate);
        if is_random && !matches!(outcome, Outcome::Anomalous(_)) {
            observation.signals.clear();
        }
        Self { outcome, observation, number, purpose }
    }

    /// Whether traffic ran: not if the workload is not supported, or if a host fails under it.
    pub(super) fn is_sampled(&self) -> bool {
        self.observation.assessment.inconclusive != Some(Inconclusive::NoSamples)
    }

    /// Share of its bounds that the worst direction uses; 1 if it is not known.
    pub(super) fn utilisation(&self) -> f64 {
        self.observation.signals.get(UTILISATION).copied().unwrap_or(1.0)
    }

    /// How bad it is: what is lost of the bounds, or the time paused, whichever is more.
    pub(super) fn lost(&self) -> f64 {
        self.observation.lost.max(self.observation.pause)
    }

    /// Logarithm of what it uses of its bounds.
    pub(super) fn used(&self) -> f64 {
        (self.utilisation() + LEAST_USED).ln()
    }

    pub(super) fn counter(&self, name: &str) -> f64 {
        self.observation.signals.get(name).copied().unwrap_or(0.0)
    }

    /// Logarithm of a counter's rate for each share of the bounds that is used. Units: decades.
    pub(super) fn decades(&self, name: &str) -> f64 {
        (self.counter(name) / self.utilisation().max(LEAST_USED) + STILL).log10()
    }

    /// Whether no counter of one is apart from that of the other.
    pub(super) fn is_like(&self, other: &SearchExperiment) -> bool {
        let is_near = |one: f64, other: f64| !is_apart(one, other) && !is_apart(other, one);
        self.counters().all(|(name, rate)| is_near(rate, other.counter(name)))
    }

    /// Whether no counter of the other is far above this one's.
    pub(super) fn accounts_for(&self, other: &SearchExperiment) -> bool {
        other.counters().all(|(name, rate)| !is_apart(rate, self.counter(name)))
    }

    /// How far what two experiments show is apart: decades between their counters, all added up, and the logarithm of
    /// what they use of their bounds. Shape: 0 and up.
    pub(super) fn distance(&self, other: &SearchExperiment) -> f64 {
        let decades = |name: &str| times(self.counter(name), other.counter(name)).log10().abs();
        let own = self.counters().map(|(name, _)| decades(name));
        let others = other.counters().filter(|(name, _)| !self.observation.signals.contains_key(*name));
        own.chain(others.map(|(name, _)| decades(name))).sum::<f64>() + (self.used() - other.used()).abs()
    }

    pub(super) fn counters(&self) -> impl Iterator<Item = (&str, f64)> {
        let all = self.observation.signals.iter().map(|(name, value)| (name.as_str(), *value));
        all.filter(|(name, _)| *name != UTILISATION)
    }
}

/// Experiments in order, from number 1 on.
pub(super) struct Past<'p>(Vec<(&'p Workload, &'p Rc<SearchExperiment>)>);

impl Past<'_> {
    /// The experiment of this number.
    pub(super) fn get(&self, number: u64) -> (Workload, Rc<SearchExperiment>) {
        let (workload, seen) = self.0[number as usize - 1];
        (workload.clone(), Rc::clone(seen))
    }
}

/// How many times more experiments there are when the model is learnt again. Source: our choice, because the time that
/// it takes is then linear in all experiments.
const GROWTH: f64 = 1.2;
/// Experiments of which a model is learnt, at least. Source: our choice.
const LEAST: u64 = 60;

/// What was measured, and what was learnt of it.
#[derive(Default)]
pub(super) struct Notes {
    seen: HashMap<Workload, Rc<SearchExperiment>>,
    experiments: u64,
    /// What trees learnt, and from how many experiments.
    model: Option<(Rc<BeliefModel>, u64)>,
}

impl Notes {
    pub(super) fn experiments(&self) -> u64 {
        self.experiments
    }

    /// Of how many experiments the model was learnt.
    pub(super) fn learnt(&self) -> Option<u64> {
        self.model.as_ref().map(|(_, learnt)| *learnt)
    }

    /// Number of the experiment that measured this workload.
    pub(super) fn number(&self, workload: &Workload) -> Option<u64> {
        self.seen.get(workload).map(|seen| seen.number)
    }

    /// Its experiments by number.
    pub(super) fn past(&self) -> Past<'_> {
        let mut all: Vec<(&Workload, &Rc<SearchExperiment>)> = self.seen.iter().collect();
        all.sort_unstable_by_key(|(_, seen)| seen.number);
        Past(all)
    }

    /// Takes in the next experiment; the one that measured this workload before, if there is one.
    fn add(&mut self, workload: &Workload, observation: Observation, purpose: Purpose) -> Option<Rc<SearchExperiment>> {
        self.experiments += 1;
        // A copy, because what was read has room for more flows and requests than it has.
        self.seen.insert(workload.clone(), Rc::new(SearchExperiment::new(observation, self.experiments, purpose)))
    }

    /// Learns from the first so many experiments.
    fn learn(&mut self, last: u64) {
        let until = self.seen.iter().filter(|(_, seen)| seen.number <= last);
        let learnt = until.filter_map(|(workload, seen)| {
            let is_anomalous = seen.outcome.is_anomalous()?;
            Some((workload, Learnt { is_anomalous, is_aimed: seen.purpose.is_aimed() }))
        });
        self.model = BeliefModel::learn(&learnt.collect()).map(|model| (Rc::new(model), last));
    }
}

/// The measured part of a space.
pub(super) struct Experiments<'a, O: Oracle> {
    pub(super) space: &'a Space,
    pub(super) rng: Pcg64,
    oracle: &'a mut O,
    notes: Notes,
}

impl<'a, O: Oracle> Experiments<'a, O> {
    pub(super) fn new(space: &'a Space, rng: Pcg64, oracle: &'a mut O) -> Self {
        Self { space, rng, oracle, notes: Notes::default() }
    }

    pub(super) fn experiments(&self) -> u64 {
        self.notes.experiments
    }

    pub(super) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Takes in the experiments before a checkpoint, and learns again from those from which the model was learnt; says
    /// whether there are as many.
    pub(super) fn has_read_past(&mut self, experiments: u64, learnt: Option<u64>) -> Result<bool, O::Error> {
        let notes = &mut self.notes;
        self.oracle.past(&mut |workload, observation, purpose| notes.add(&workload, observation, purpose).is_none())?;
        if notes.experiments != experiments {
            *notes = Notes::default();
            return Ok(false);
        }
        if let Some(learnt) = learnt {
            notes.learn(learnt);
        }
        Ok(true)
    }

    /// Tells the oracle that the search can go on from here.
    pub(super) fn between_steps(&mut self, checkpoint: impl Fn(&Pcg64, &Notes) -> Checkpoint) -> Result<(), O::Error> {
        let Self { rng, oracle, notes, .. } = self;
        oracle.between_steps(&|| checkpoint(rng, notes))
    }

    /// What the workload shows; nothing is measured twice.
    pub(super) fn look(&mut self, workload: &Workload, purpose: Purpose) -> Result<Rc<SearchExperiment>, O::Error> {
        if let Some(seen) = self.recall(workload) {
            return Ok(Rc::clone(seen));
        }
        let observation = self.oracle.measure(workload, purpose)?;
        self.notes.add(workload, observation, purpose);
        Ok(Rc::clone(&self.notes.seen[workload]))
    }

    /// What the workload showed, if it was measured.
    pub(super) fn recall(&self, workload: &Workload) -> Option<&Rc<SearchExperiment>> {
        self.notes.seen.get(workload)
    }

    /// What the trees have learnt; `None` if there was too little.
    pub(super) fn model(&self) -> Option<Rc<BeliefModel>> {
        self.notes.model.as_ref().map(|(model, _)| Rc::clone(model))
    }

    /// Learns from all experiments if there are many more than before.
    pub(super) fn learn_if_much_is_new(&mut self) {
        let experiments = self.notes.experiments;
        let enough = self.notes.learnt().map_or(LEAST as f64, |learnt| learnt as f64 * GROWTH);
        if experiments as f64 >= enough {
            self.notes.learn(experiments);
        }
    }

    /// The random points of the space, in the order of their experiments.
    pub(super) fn surveyed(&self) -> Vec<Workload> {
        let all = self.notes.past().0.into_iter().filter(|(_, seen)| seen.purpose == Purpose::Survey);
        all.map(|(workload, _)| workload.clone()).collect()
    }

    pub(super) fn oracle(&mut self) -> &mut O {
        self.oracle
    }
}

/// Factor between two rates of a counter, from which on they are apart. Source: our choice, because one weakness shows
/// a counter more or less strongly, and without it the counter is nearly still.
const APART: f64 = 30.0;
/// Rate that counts as still. Units: events per second. Source: our choice.
const STILL: f64 = 1e4;

/// Share of the bounds below which two experiments are alike. Source: our choice.
const LEAST_USED: f64 = 0.02;

/// How many times more one rate is than another.
fn times(rate: f64, other: f64) -> f64 {
    (rate + STILL) / (other + STILL)
}

/// Whether the rate is of another kind than the other, which is at most as high.
pub(super) fn is_apart(rate: f64, other: f64) -> bool {
    times(rate, other) > APART
}

/// Part of the lost throughput, or of the pauses, that has to stay. Source: our choice, because the witness should not
/// lie on the border.
const KEPT_LOSS: f64 = 0.5;
/// Distance of one step from which on it may lead to another weakness, and what such a step gains at least. Units: of
/// the second, logarithm of the share of the bounds. Source: our choice; of 1,003 steps on model F and 688 on model H
/// on which the symptom stayed, 44 % and 56 % of those that are farther and gain as much led to another limiting part,
/// and these are 55 % and 61 % of all that did.
const ANOTHER: f64 = 2.0;
const GAINED: f64 = 0.1;

/// Whether one step leads from a weakness to another one.
pub(super) fn is_another(from: &SearchExperiment, to: &SearchExperiment) -> bool {
    from.distance(to) > ANOTHER && to.used() - from.used() > GAINED
}

/// Part of what is lost from which on pauses are an anomaly of their own. Source: our choice; shorter ones come with
/// low throughput, and say little.
const OWN_PAUSE: f64 = 0.5;

/// Whether what is seen is still the anomaly of which another experiment showed more: with its symptom, and no stronger
/// one, which would be another anomaly. `None` if nobody can tell, because there is no verdict.
pub(super) fn shows(symptom: Symptom, anomaly: &SearchExperiment, seen: &SearchExperiment) -> Option<bool> {
    seen.outcome.is_anomalous()?;
    let Observation { assessment, lost, pause, .. } = &seen.observation;
    let is_first = seen.outcome == Outcome::Anomalous(symptom);
    let is_there = is_first || assessment.symptoms.contains(&symptom) && *pause < OWN_PAUSE * lost;
    Some(is_there && is_as_bad(symptom, anomaly, seen))
}

/// The same, as the first of its symptoms; not if nobody can tell.
pub(super) fn keeps(symptom: Symptom, anomaly: &SearchExperiment, seen: &SearchExperiment) -> bool {
    seen.outcome == Outcome::Anomalous(symptom) && is_as_bad(symptom, anomaly, seen)
}

fn is_as_bad(symptom: Symptom, anomaly: &SearchExperiment, seen: &SearchExperiment) -> bool {
    match symptom {
        Symptom::LowThroughput => seen.observation.lost >= KEPT_LOSS * anomaly.observation.lost,
        Symptom::Pause => seen.observation.pause >= KEPT_LOSS * anomaly.observation.pause,
        Symptom::HostFailure => true,
    }
}

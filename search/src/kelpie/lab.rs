//! What a search has measured, and the oracle that measures the rest.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use kelpie_belief::Model;
use kelpie_spaces::{Space, Workload};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;
use crate::signals::{Observation, UTILISATION};

/// One experiment.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) outcome: Outcome,
    pub(super) observation: Observation,
    /// Number of the experiment, from 1.
    pub(super) number: u64,
}

impl Seen {
    /// Share of its bounds that the worst direction uses; 1 if it is not known.
    pub(super) fn utilisation(&self) -> f64 {
        self.observation.signals.get(UTILISATION).copied().unwrap_or(1.0)
    }

    /// Logarithm of what it uses of its bounds.
    pub(super) fn used(&self) -> f64 {
        (self.utilisation() + LEAST_USED).ln()
    }

    pub(super) fn counter(&self, name: &str) -> f64 {
        self.observation.signals.get(name).copied().unwrap_or(0.0)
    }

    /// Whether no counter of one is apart from that of the other.
    pub(super) fn is_like(&self, other: &Seen) -> bool {
        let is_near = |one: f64, other: f64| !is_apart(one, other) && !is_apart(other, one);
        self.counters().all(|(name, rate)| is_near(rate, other.counter(name)))
    }

    /// Whether no counter of the other is far above this one's.
    pub(super) fn accounts_for(&self, other: &Seen) -> bool {
        other.counters().all(|(name, rate)| !is_apart(rate, self.counter(name)))
    }

    /// How far what two experiments show is apart: decades between their counters, all added up, and the logarithm of what
    /// they use of their bounds. Shape: 0 and up.
    pub(super) fn distance(&self, other: &Seen) -> f64 {
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

/// How many times more experiments there are when the model is learnt again. Source: our choice, because the time that
/// it takes is then linear in all experiments.
const GROWTH: f64 = 1.2;
/// Experiments of which a model is learnt, at least. Source: our choice.
const LEAST: u64 = 60;

/// The measured part of a space.
pub(super) struct Lab<'a, O: Oracle> {
    pub(super) space: &'a Space,
    pub(super) rng: Pcg64,
    oracle: &'a mut O,
    seen: HashMap<Workload, Rc<Seen>>,
    experiments: u64,
    /// What trees learnt, and from how many experiments.
    model: Option<(Rc<Model>, u64)>,
}

impl<'a, O: Oracle> Lab<'a, O> {
    pub(super) fn new(space: &'a Space, seed: u64, oracle: &'a mut O) -> Self {
        let rng = Pcg64::seed_from_u64(seed);
        Self { space, rng, oracle, seen: HashMap::new(), experiments: 0, model: None }
    }

    pub(super) fn experiments(&self) -> u64 {
        self.experiments
    }

    /// What the workload shows; nothing is measured twice.
    pub(super) fn look(&mut self, workload: &Workload, purpose: Purpose) -> Result<Rc<Seen>, O::Error> {
        if let Some(seen) = self.seen.get(workload) {
            return Ok(Rc::clone(seen));
        }
        let observation = self.oracle.measure(workload, purpose)?;
        self.experiments += 1;
        let outcome = Outcome::from(&observation.assessment);
        let seen = Rc::new(Seen { outcome, observation, number: self.experiments });
        self.seen.insert(workload.clone(), Rc::clone(&seen));
        Ok(seen)
    }

    /// What the workload showed, if it was measured.
    pub(super) fn recall(&self, workload: &Workload) -> Option<&Rc<Seen>> {
        self.seen.get(workload)
    }

    /// Every workload with a verdict: whether it was anomalous.
    pub(super) fn outcomes(&self) -> BTreeMap<&Workload, bool> {
        let outcome = |seen: &Seen| match seen.outcome {
            Outcome::Healthy => Some(false),
            Outcome::Anomalous(_) => Some(true),
            Outcome::Inconclusive => None,
        };
        self.seen.iter().filter_map(|(workload, seen)| Some((workload, outcome(seen)?))).collect()
    }

    /// What the trees have learnt; `None` if there was too little.
    pub(super) fn model(&self) -> Option<Rc<Model>> {
        self.model.as_ref().map(|(model, _)| Rc::clone(model))
    }

    /// Learns from all experiments if there are many more than before; says whether.
    pub(super) fn has_learnt(&mut self) -> bool {
        let enough = self.model.as_ref().map_or(LEAST as f64, |(_, learnt)| *learnt as f64 * GROWTH);
        if (self.experiments as f64) < enough {
            return false;
        }
        let model = Model::learn(&self.outcomes()).map(|model| (Rc::new(model), self.experiments));
        self.model = model;
        true
    }

    pub(super) fn oracle(&mut self) -> &mut O {
        self.oracle
    }
}

/// Factor between two rates of a counter, from which on they are apart. Source: our choice, because one weakness shows a
/// counter more or less strongly, and without it the counter is nearly still.
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

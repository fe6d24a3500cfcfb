//! What a search has measured, and the oracle that measures the rest.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use kelpie_spaces::{Space, Workload};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::outcome::Outcome;
use crate::oracle::{Oracle, Purpose};
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

    pub(super) fn counter(&self, name: &str) -> f64 {
        self.observation.signals.get(name).copied().unwrap_or(0.0)
    }

    pub(super) fn counters(&self) -> impl Iterator<Item = (&str, f64)> {
        let all = self.observation.signals.iter().map(|(name, value)| (name.as_str(), *value));
        all.filter(|(name, _)| *name != UTILISATION)
    }
}

/// The measured part of a space.
pub(super) struct Lab<'a, O: Oracle> {
    pub(super) space: &'a Space,
    pub(super) rng: Pcg64,
    oracle: &'a mut O,
    seen: HashMap<Workload, Rc<Seen>>,
    experiments: u64,
    anomalies: Vec<Workload>,
    /// The most of each counter that a healthy workload showed.
    healthy_most: BTreeMap<String, f64>,
}

impl<'a, O: Oracle> Lab<'a, O> {
    pub(super) fn new(space: &'a Space, seed: u64, oracle: &'a mut O) -> Self {
        let rng = Pcg64::seed_from_u64(seed);
        Self { space, rng, oracle, seen: HashMap::new(), experiments: 0, anomalies: Vec::new(), healthy_most: BTreeMap::new() }
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
        if matches!(outcome, Outcome::Anomalous(_)) {
            self.anomalies.push(workload.clone());
        }
        if outcome == Outcome::Healthy {
            for (name, value) in seen.counters() {
                let most = self.healthy_most.entry(name.to_owned()).or_insert(0.0);
                *most = most.max(value);
            }
        }
        self.seen.insert(workload.clone(), Rc::clone(&seen));
        Ok(seen)
    }

    /// What the workload showed, if it was measured.
    pub(super) fn recall(&self, workload: &Workload) -> Option<&Rc<Seen>> {
        self.seen.get(workload)
    }

    /// The counter that is farthest above what healthy workloads show.
    pub(super) fn most_raised(&self, seen: &Seen) -> Option<(String, f64)> {
        let raised = seen.counters().filter(|(name, value)| self.rise(name, *value) > RAISED);
        let most = raised.max_by(|a, b| self.rise(a.0, a.1).total_cmp(&self.rise(b.0, b.1)));
        most.map(|(name, value)| (name.to_owned(), value))
    }

    fn rise(&self, name: &str, value: f64) -> f64 {
        value / self.healthy_most.get(name).copied().unwrap_or(0.0).max(FLOOR)
    }

    /// Every workload that was anomalous.
    pub(super) fn anomalies(&self) -> impl Iterator<Item = &Workload> {
        self.anomalies.iter()
    }

    pub(super) fn oracle(&mut self) -> &mut O {
        self.oracle
    }
}

/// Times the most of healthy workloads from which a counter is raised. Source: our choice.
const RAISED: f64 = 2.0;
/// What a counter may always show. Units: events per second. Source: our choice.
const FLOOR: f64 = 5e3;

//! What was measured so far, so that nothing is asked twice and known healthy points test every region for free.

use std::collections::HashMap;

use kelpie_monitor::{Assessment, Symptom, Verdict};
use kelpie_spaces::{Region, Workload};

/// What an experiment showed, as far as regions care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No symptom.
    Healthy,
    /// Anomalous; the first symptom, pause before low throughput.
    Anomalous(Symptom),
    /// Neither shown.
    Inconclusive,
}

impl From<&Assessment> for Outcome {
    fn from(assessment: &Assessment) -> Self {
        match (assessment.verdict, assessment.symptoms.iter().min()) {
            (Verdict::Anomalous, Some(symptom)) => Outcome::Anomalous(*symptom),
            (Verdict::Healthy, _) => Outcome::Healthy,
            _ => Outcome::Inconclusive,
        }
    }
}

/// Conclusive outcomes by workload, in the order in which they were seen.
#[derive(Debug)]
pub(crate) struct History {
    /// Points that are remembered; the oldest half is forgotten beyond that.
    capacity: usize,
    order: Vec<Workload>,
    outcomes: HashMap<Workload, Outcome>,
}

impl History {
    /// Nothing yet, and room for this many.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, order: Vec::new(), outcomes: HashMap::new() }
    }

    /// Remembers a conclusive outcome; a later one replaces an earlier one.
    pub(crate) fn remember(&mut self, workload: &Workload, outcome: Outcome) {
        if outcome == Outcome::Inconclusive {
            return;
        }
        if self.outcomes.insert(workload.clone(), outcome).is_none() {
            self.order.push(workload.clone());
        }
        if self.order.len() > self.capacity {
            for old in self.order.drain(..self.capacity / 2) {
                self.outcomes.remove(&old);
            }
        }
    }

    /// What this workload showed, if it was measured.
    pub(crate) fn recall(&self, workload: &Workload) -> Option<Outcome> {
        self.outcomes.get(workload).copied()
    }

    /// Healthy points inside `region`, oldest first.
    pub(crate) fn healthy_in<'a>(&'a self, region: &'a Region) -> impl Iterator<Item = &'a Workload> {
        let healthy = |workload: &&Workload| self.outcomes.get(*workload) == Some(&Outcome::Healthy);
        self.order.iter().filter(move |workload| region.contains(workload)).filter(healthy)
    }

    /// The healthy point inside `region` that shares most features with `anchor`; the oldest of equals.
    pub(crate) fn nearest_healthy(&self, region: &Region, anchor: &Workload, ignored: &[Workload]) -> Option<Workload> {
        self.healthy_in(region)
            .filter(|workload| !ignored.contains(workload))
            .min_by_key(|workload| anchor.differing(workload).len())
            .cloned()
    }
}

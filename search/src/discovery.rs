//! What the default search knows between two steps, beside its experiments, which are named by their numbers. What each
//! part means lives with the search.

use std::collections::BTreeMap;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, Region, Workload};
use serde::{Deserialize, Serialize};

use crate::finding::{Cure, TriedTransport};

/// All of it, beside random numbers and counts that every search has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Discovery {
    pub(crate) explored: Explored,
    pub(crate) needs: BTreeMap<Feature, [u32; 2]>,
    pub(crate) findings: Vec<FindingState>,
    pub(crate) touched: Vec<TouchedState>,
    pub(crate) yields: Yields,
    pub(crate) spent: RefiningExperiments,
    /// Steps in a row without an experiment.
    pub(crate) idle: u32,
    /// Experiments of which a model was learnt.
    pub(crate) learnt: Option<u64>,
}

/// Where was looked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explored {
    /// Placements that are left.
    pub(crate) placements: Vec<Workload>,
    /// How often was looked.
    pub(crate) looked: u64,
    /// The last looks, in order.
    pub(crate) latest: Vec<Looked>,
}

/// A workload that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Looked {
    /// The one of this experiment.
    Experiment(u64),
    /// One that lies in a region known beforehand, and was skipped.
    Skipped(Box<Workload>),
}

/// A finding while the search goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindingState {
    pub(crate) symptom: Symptom,
    /// Experiment of its witness.
    pub(crate) witness: u64,
    pub(crate) plain: Workload,
    pub(crate) factors: Vec<Feature>,
    pub(crate) region: Region,
    pub(crate) found_at: u64,
    pub(crate) spent: u64,
    pub(crate) visits: u32,
    pub(crate) is_settled: bool,
    /// What its witness needs; no transports as long as that was not measured.
    pub(crate) cures: Vec<Cure>,
    pub(crate) transports: Vec<TriedTransport>,
    /// Place of the finding of which it is a variant.
    pub(crate) variant_of: Option<usize>,
    /// Experiments of its random workloads.
    pub(crate) trials: Vec<u64>,
    pub(crate) is_spent: bool,
}

/// An anomaly that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TouchedState {
    pub(crate) experiment: u64,
    pub(crate) symptom: Symptom,
    pub(crate) known: f64,
    pub(crate) shows_more: bool,
}

/// How much is found by each way of going on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Yields {
    /// Anomalies that were accounted for, and the experiments for that.
    pub(crate) accounted: u64,
    pub(crate) spent: u64,
    /// Anomalies that were relieved, and how many of them showed something new.
    pub(crate) relieved: u64,
    pub(crate) relieved_new: u64,
    /// Share of the last explorations that showed something new.
    pub(crate) novelty: f64,
}

/// Experiments of refining.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefiningExperiments {
    /// On points of the space.
    pub(crate) surveys: u64,
    /// On conditions of findings.
    pub(crate) conditions: u64,
    /// On random workloads that meet them.
    pub(crate) trials: u64,
}

impl RefiningExperiments {
    pub(crate) fn all(self) -> u64 {
        self.surveys + self.conditions + self.trials
    }
}

impl Discovery {
    /// Whether everything that it names is among so many experiments.
    pub(crate) fn is_of(&self, experiments: u64) -> bool {
        let latest = self.explored.latest.iter().filter_map(|looked| match looked {
            Looked::Experiment(number) => Some(number),
            Looked::Skipped(_) => None,
        });
        let of_findings = self.findings.iter().flat_map(|finding| finding.trials.iter().chain([&finding.witness]));
        let touched = self.touched.iter().map(|touched| &touched.experiment);
        let mut named = latest.chain(of_findings).chain(touched);
        named.all(|number| (1..=experiments).contains(number))
            && self.learnt.is_none_or(|learnt| learnt <= experiments)
            && self.findings.iter().all(|finding| finding.variant_of.is_none_or(|first| first < self.findings.len()))
    }
}

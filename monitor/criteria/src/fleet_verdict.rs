//! What is said of a fleet and its nodes: in, out or unknown, and why. Data alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::learn::Criteria;

/// Whether a node may take jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetState {
    /// Something of it is slow, or it does not answer.
    Out,
    /// Nobody can say.
    Unknown,
    /// All that was measured is as it should be.
    In,
}

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeFault {
    /// The check.
    pub check: String,
    /// Which of several equal parts; empty if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// The metric; none of a host that did not do its part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredFault>,
    /// In words: which way, how often, or why it failed.
    pub detail: String,
}

impl NodeFault {
    /// How good what is wrong is, from 0 to 1; below that of a host that did not do its part.
    pub fn goodness(&self) -> f64 {
        self.measured.as_ref().map_or(-1.0, |measured| measured.similarity)
    }
}

/// A value that is worse than it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFault {
    /// The metric.
    pub metric: String,
    /// What was measured, typically.
    pub got: f64,
    /// What the criterion is, typically.
    pub want: f64,
    /// What both are measured in.
    pub unit: String,
    /// How good it is against the criterion, from 0 to 1.
    pub similarity: f64,
}

/// What is said of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeQualification {
    /// Whether it may take jobs.
    pub state: FleetState,
    /// What is wrong, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<NodeFault>,
    /// Why it is unknown, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<String>,
    /// Values that speak of it.
    pub values: usize,
}

/// Two nodes that are fast with others and slow with each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowPath {
    /// Both.
    pub hosts: [String; 2],
    /// Which of their parts; empty if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// What was measured.
    #[serde(flatten)]
    pub measured: MeasuredFault,
}

/// What is said of a fleet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FleetVerdict {
    /// By name.
    pub nodes: BTreeMap<String, NodeQualification>,
    /// Paths that are slow though both ends are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<SlowPath>,
    /// What nodes were held against.
    pub criteria: Criteria,
    /// Metrics that nothing is said of, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub without: BTreeMap<String, String>,
    /// Metrics that vary between nodes so much that a smaller deficit than this share does not show.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noisy: BTreeMap<String, f64>,
}

impl FleetVerdict {
    /// Says of a node that was judged well that so many units of it were not done, and why.
    pub fn lacks(&mut self, node: &str, units: usize, why: &str) {
        if let Some(node) = self.nodes.get_mut(node).filter(|node| node.state != FleetState::Out) {
            node.state = FleetState::Unknown;
            node.unsure.push(format!("{units} of its units were not done: {why}"));
        }
    }

    /// How many nodes are so.
    pub fn count(&self, state: FleetState) -> usize {
        self.nodes.values().filter(|node| node.state == state).count()
    }
}

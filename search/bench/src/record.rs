//! What one campaign came to: which weaknesses it touched and found, at which experiment first.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_monitor::Symptom;
use kelpie_search::{Algorithm, Config, SignalSet};
use serde::{Deserialize, Serialize};

use super::quality::Quality;
use super::weakness::{Stored, Weakness};

/// The first time that a weakness was seen with this traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    #[serde(flatten)]
    pub weakness: Weakness,
    /// Transport and operation, such as `UD_SEND`.
    pub traffic: String,
    /// Experiments until then.
    pub at: u64,
}

/// First sightings, in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sightings(Vec<Sighting>);

impl Sightings {
    pub fn add(&mut self, symptom: Symptom, limiting: &str, at: u64) {
        let (weakness, traffic) = Weakness::split(symptom, limiting);
        if !self.0.iter().any(|seen| (&seen.weakness, &seen.traffic) == (&weakness, &traffic)) {
            self.0.push(Sighting { weakness, traffic, at });
        }
    }

    /// Experiments until each weakness was seen with whatever traffic, ascending.
    pub fn firsts(&self) -> Vec<u64> {
        let mut seen = BTreeSet::new();
        self.0.iter().filter(|sighting| seen.insert(&sighting.weakness)).map(|sighting| sighting.at).collect()
    }

    /// Weaknesses seen by then.
    pub fn weaknesses(&self, by: u64) -> BTreeSet<&Weakness> {
        self.0.iter().filter(|sighting| sighting.at <= by).map(|sighting| &sighting.weakness).collect()
    }

    /// Weaknesses with traffic of different transport or operation counted apart.
    pub fn witnesses(&self) -> usize {
        self.0.len()
    }
}

/// Experiments, and the value of a counter at each.
pub type Course = Vec<(u64, f64)>;

/// A campaign that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of what was searched.
    pub subsystem: String,
    /// Which search.
    pub algorithm: Algorithm,
    /// What guided it.
    pub signal: SignalSet,
    /// Of its random decisions.
    pub seed: u64,
    /// How many it asked for.
    pub experiments: u64,
    /// How many of them each stage of the search asked for.
    #[serde(default)]
    pub purposes: BTreeMap<String, u64>,
    /// How many it has, with candidates and variants.
    pub findings: u64,
    /// By some experiment.
    pub touched: Sightings,
    /// By the workload of some finding with a minimal feature set.
    pub found: Sightings,
    /// Every diagnostic counter over the experiments that searched and had it; of one campaign of each kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<BTreeMap<String, Course>>,
    /// The findings, in the order of their numbers.
    pub stored: Vec<Stored>,
    /// How good they are, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
}

impl Record {
    /// Nothing yet.
    pub fn new(subsystem: &str, config: &Config) -> Self {
        Self {
            subsystem: subsystem.to_owned(),
            algorithm: config.algorithm,
            signal: config.signal,
            seed: config.seed,
            experiments: 0,
            purposes: BTreeMap::new(),
            findings: 0,
            touched: Sightings::default(),
            found: Sightings::default(),
            course: None,
            stored: Vec::new(),
            quality: None,
        }
    }
}

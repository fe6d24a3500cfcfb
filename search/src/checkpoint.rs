//! Where a search can go on without its beginning: all that it needs to know of what came before.

use kelpie_spaces::Region;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use crate::config::{Algorithm, Config};
use crate::discovery::Discovery;
use crate::energy::Target;

/// What the state means. Raise it whenever an algorithm that has checkpoints decides otherwise than before.
const FORMAT: u32 = 7;

/// The state of a search between two of its steps. No experiment is in it; the default search names those that it goes
/// on from by their numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    pub(crate) format: u32,
    pub(crate) algorithm: Algorithm,
    pub(crate) rng: Pcg64,
    pub(crate) experiments: u64,
    pub(crate) findings: u64,
    /// Regions that are skipped.
    pub(crate) known: Vec<Region>,
    /// The targets in order, and which of them comes next; nothing if the algorithm has none.
    pub(crate) targets: Vec<Target>,
    pub(crate) next: usize,
    /// What the default search knows besides.
    pub(crate) discovery: Option<Discovery>,
}

impl Checkpoint {
    pub(crate) fn new(algorithm: Algorithm, rng: Pcg64, known: Vec<Region>) -> Self {
        let (targets, discovery) = (Vec::new(), None);
        Self { format: FORMAT, algorithm, rng, experiments: 0, findings: 0, known, targets, next: 0, discovery }
    }

    /// Experiments before it.
    pub fn experiments(&self) -> u64 {
        self.experiments
    }

    /// Findings before it.
    pub fn findings(&self) -> u64 {
        self.findings
    }

    /// Whether this version of the search, set so, can go on from it.
    pub fn is_of(&self, config: &Config) -> bool {
        let is_whole = match self.algorithm {
            Algorithm::Random => self.targets.is_empty(),
            Algorithm::Collie | Algorithm::Anneal => self.next < self.targets.len(),
            Algorithm::Kelpie => self.discovery.as_ref().is_some_and(|known| known.is_of(self.experiments)),
            Algorithm::Bayes => false,
        };
        self.format == FORMAT && self.algorithm == config.algorithm && is_whole
    }
}

//! How far a campaign is, as it is kept so that a resumed one need not go through all of its experiments.

use kelpie_search::{Checkpoint, Config};
use kelpie_spaces::Workload;
use kelpie_store::StoredCheckpoint;
use serde::{Deserialize, Serialize};

/// A checkpoint of the search with what the campaign itself has to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignCheckpoint {
    /// Whose search it is of.
    kelpie: String,
    pub search: Checkpoint,
    /// Workloads skipped since the last experiment.
    pub skipped: u64,
    /// Anomalous experiments.
    pub anomalies: u64,
    /// The last workload that the hosts survived.
    pub survived: Option<Workload>,
}

impl CampaignCheckpoint {
    pub fn new(search: Checkpoint, skipped: u64, anomalies: u64, survived: Option<Workload>) -> Self {
        Self { kelpie: env!("CARGO_PKG_VERSION").to_owned(), search, skipped, anomalies, survived }
    }

    /// What is stored; `None` if another Kelpie stored it, of another search, or it makes no sense.
    pub fn read(stored: &StoredCheckpoint, config: &Config) -> Option<Self> {
        let standing: Self = serde_json::from_str(&stored.state).ok()?;
        let is_ours = standing.kelpie == env!("CARGO_PKG_VERSION") && standing.search.is_of(config);
        (is_ours && standing.search.experiments() == stored.experiments).then_some(standing)
    }

    /// As it is stored.
    pub fn stored(&self) -> StoredCheckpoint {
        let state = serde_json::to_string(self).expect("its keys are text");
        StoredCheckpoint { experiments: self.search.experiments(), state }
    }
}

//! What the search asks of the world: measure a workload, take a finding. How it is done lives with the campaign.

use kelpie_spaces::Workload;
use serde::{Deserialize, Serialize};

use crate::checkpoint::Checkpoint;
use crate::finding::Finding;
use crate::signals::Observation;

/// What a measurement is for; stored with each experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A step of the search.
    Search,
    /// One of the random points by which diagnostic counters are ranked.
    Rank,
    /// A workload behind a known weakness: without something that the weakness needs.
    Relieve,
    /// Whether a finding explains an anomaly.
    Explain,
    /// A question about the conditions of an anomaly.
    Mfs,
    /// A random point of the space, to draw regions.
    Survey,
    /// A random point inside a region that is being validated.
    Validate,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Purpose; 7] = [
        Purpose::Search,
        Purpose::Rank,
        Purpose::Relieve,
        Purpose::Explain,
        Purpose::Mfs,
        Purpose::Survey,
        Purpose::Validate,
    ];

    /// Its name in JSON and the store.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Search => "search",
            Purpose::Rank => "rank",
            Purpose::Relieve => "relieve",
            Purpose::Explain => "explain",
            Purpose::Mfs => "mfs",
            Purpose::Survey => "survey",
            Purpose::Validate => "validate",
        }
    }

    /// Whether it is aimed at an anomaly that is known: to explain or reduce it, or at random inside its region.
    pub fn is_aimed(self) -> bool {
        matches!(self, Purpose::Explain | Purpose::Mfs | Purpose::Validate)
    }
}

/// The world as the search sees it.
pub trait Oracle {
    /// Why the search must stop: budget spent, someone asked, or measuring failed.
    type Error;

    /// Measures one workload.
    ///
    /// # Errors
    /// Ends the search at once; an anomaly whose conditions are being looked for is then not stored.
    fn measure(&mut self, workload: &Workload, purpose: Purpose) -> Result<Observation, Self::Error>;

    /// Told of a workload that lies in a region already found and is not measured.
    fn skipped(&mut self, workload: &Workload);

    /// Told of a finding. Findings count from 1; a later call with the same number replaces the finding.
    ///
    /// # Errors
    /// Ends the search at once.
    fn found(&mut self, number: u64, finding: &Finding) -> Result<(), Self::Error>;

    /// Gives `visit` every experiment before the checkpoint that the search goes on from, in order, each with what it
    /// showed and what it was for. If `visit` says no, they are not those of this search, and no more come. Only a
    /// search that needs them asks, and starts anew if it gets none.
    ///
    /// # Errors
    /// Ends the search at once.
    fn past(&mut self, visit: &mut dyn FnMut(Workload, Observation, Purpose) -> bool) -> Result<(), Self::Error> {
        let _ = visit;
        Ok(())
    }

    /// Told between two steps that the search can go on from here by `checkpoint`, which takes some time to make. Not
    /// every algorithm has such moments.
    ///
    /// # Errors
    /// Ends the search at once.
    fn between_steps(&mut self, checkpoint: &dyn Fn() -> Checkpoint) -> Result<(), Self::Error> {
        let _ = checkpoint;
        Ok(())
    }
}

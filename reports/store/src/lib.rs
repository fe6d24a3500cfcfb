//! The experiment store: campaigns, experiments and findings, in SQLite or PostgreSQL. All SQL is here; no reports, no
//! searching.

mod anomaly;
mod checksum;
mod database;
mod error;
mod holder;
mod json;
mod link;
mod lock;
#[cfg(test)]
mod place;
mod postgres;
mod purpose;
mod records;
mod sqlite;
mod store;
#[cfg(test)]
mod testing;

// What tests of reports share with tests of the store names this crate as they do.
#[cfg(test)]
extern crate self as kelpie_store;

pub use anomaly::Anomaly;
pub use database::Database;
pub use error::StoreError;
pub use holder::Holder;
pub use lock::WriterLock;
pub use purpose::StoredPurpose;
pub use records::{
    Campaign, CampaignDefinition, CampaignId, CampaignState, Ended, Experiment, ExperimentClock, ExperimentOutcome,
    FindingRecord, QualificationId, Subject, unix_ms,
};
pub use store::Store;
pub use store::checkpoints::StoredCheckpoint;
pub use store::follow::{self, Brief, CampaignFollower, CampaignNews};
pub use store::labels::{CampaignClock, Label};
pub use store::measured_again::MeasuredAgain;
pub use store::qualifications::StoredQualification;

//! What is kept of campaigns, and how it leaves Kelpie again: the experiment store, reports and recipes. No measuring, no searching.

pub mod absence;
pub mod compare;
pub mod coverage;
pub mod digest;
mod error;
pub mod folder;
mod json;
mod junit;
mod lock;
mod open;
pub mod recipe;
mod records;
pub mod site;
mod store;
mod summary;
#[cfg(test)]
mod testing;
mod words;

pub use digest::Digest;
pub use error::StoreError;
pub use lock::CampaignLock;
pub use records::{
    Campaign, CampaignId, CampaignState, Experiment, ExperimentClock, FindingRecord, NewCampaign, Outcome, unix_ms,
};
pub use store::Store;
pub use store::follow::{self, Brief, Follower, News};

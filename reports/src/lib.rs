//! What is kept of campaigns, and how it leaves Kelpie again: the experiment store. No measuring, no searching.

pub mod compare;
mod error;
mod json;
mod lock;
mod open;
mod records;
mod store;

pub use error::StoreError;
pub use lock::CampaignLock;
pub use records::{
    Campaign, CampaignId, CampaignState, Experiment, ExperimentClock, FindingRecord, NewCampaign, Outcome,
};
pub use store::Store;

//! Reports, recipes and comparisons: how stored campaigns leave Kelpie. No SQL, no measuring, no searching.

pub mod absence;
pub mod answer;
pub mod baseline;
pub mod brief;
pub mod compare;
pub mod coverage;
pub mod explained;
pub mod export;
mod feature_codes;
pub mod folder;
pub mod for_operators;
pub mod gate;
pub mod identity;
mod junit;
mod markdown;
pub mod qualification;
pub mod recipe;
pub mod repeats;
pub mod side_by_side;
mod signal_history;
pub mod site;
pub mod stored_campaign;
pub mod subsystem_history;
mod summary;
#[cfg(test)]
mod testing;
pub mod times;
pub mod ways_out;
mod wording;

pub use stored_campaign::StoredCampaign;

//! Reports, recipes and comparisons: how stored campaigns leave Kelpie. No SQL, no measuring, no searching.

pub mod absence;
pub mod again;
pub mod answer;
pub mod baseline;
pub mod brief;
mod codes;
pub mod compare;
mod course;
pub mod coverage;
pub mod explained;
pub mod export;
pub mod folder;
pub mod gate;
pub mod identity;
mod junit;
pub mod known;
mod markdown;
pub mod recipe;
pub mod site;
pub mod stored_campaign;
mod summary;
#[cfg(test)]
mod testing;
pub mod times;
pub mod ways_out;
mod wording;

pub use stored_campaign::StoredCampaign;

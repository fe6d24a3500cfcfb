//! Recipes: findings made portable, format `recipe/1`. Content, reading, writing and description; no measuring.

mod archive;
mod check;
mod error;
mod export;
mod format;
mod import;
mod limits;
mod readme;
mod replay;
mod scrub;
mod write;

pub use archive::{read, unpack};
pub use check::{parse, shown};
pub use error::RecipeError;
pub use export::{MeasuredAnomaly, entries, of_anomaly, of_finding, perftest_of, without_names};
pub use format::{
    Background, ENTRIES, Environment, ExpectedVerdict, HealthyNeighbour, PERFTEST, README, RECIPE, Recipe,
    RecipeMeasurement,
};
pub use import::{IMPORT, import};
pub use readme::{perftest_text, readme};
pub use replay::Replayed;
pub use scrub::scrub;
pub use write::{archive, write};

/// JSON schema (draft 2020-12) of `recipe.json`; [`parse`] checks more, such as that the conditions hold for the
/// workload.
pub const SCHEMA: &str = include_str!("../../schemas/recipe-1.schema.json");

#[cfg(test)]
mod tests;

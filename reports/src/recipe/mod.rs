//! Recipes: findings made portable, format `recipe/1`. What they hold, how they are read, written and told; no measuring.

mod archive;
mod check;
mod error;
mod format;
mod readme;
mod scrub;
mod write;

pub use archive::{read, unpack};
pub use check::{parse, shown};
pub use error::RecipeError;
pub use format::{Background, Environment, Expected, Neighbour, Recipe, Seen};
pub use readme::{perftest_text, readme};
pub use scrub::scrub;
pub use write::{archive, write};

/// JSON schema (draft 2020-12) of `recipe.json`; [`parse`] checks more, such as that the conditions hold for the workload.
pub const SCHEMA: &str = include_str!("../../schemas/recipe-1.schema.json");

/// The machine-readable entry.
pub const RECIPE: &str = "recipe.json";
/// The entry for people.
pub const README: &str = "README.md";
/// The perftest command lines, where there are any.
pub const PERFTEST: &str = "perftest.txt";

/// Every entry of a recipe with the most bytes that it may have. Source: our choice, because a recipe of 400 counters and two
/// hundred conditions is a tenth of it.
pub const ENTRIES: [(&str, u64); 3] = [(RECIPE, 1 << 20), (README, 256 << 10), (PERFTEST, 64 << 10)];

#[cfg(test)]
mod tests;

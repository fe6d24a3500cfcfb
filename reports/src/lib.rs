//! Reports, recipes and comparisons: how stored campaigns leave Kelpie. No SQL, no measuring, no searching.

pub mod absence;
pub mod compare;
pub mod coverage;
pub mod digest;
pub mod folder;
mod junit;
pub mod lookup;
pub mod recipe;
pub mod site;
mod summary;
#[cfg(test)]
mod testing;
mod wording;

pub use digest::Digest;

//! The seam between search and subsystems: one trait, and what both sides of a real pair share. No verbs, no model.

pub mod agent;
mod chain;
pub mod host;
pub mod lab;
pub mod latency;
pub mod meminfo;
pub mod pair;
pub mod plan;
pub mod readings;
pub mod session;
pub mod storm;
pub mod subsystem;

#[cfg(test)]
mod testing;

pub use chain::chain;
pub use pair::{PairError, PairFile, PairFileError, PairSubsystem};
pub use subsystem::{MeasureError, Subsystem};

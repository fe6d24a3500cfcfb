//! The seam between search and subsystems: one trait, and what both sides of a real pair share. No verbs, no model.

pub mod bond;
mod bounded;
mod chain;
pub mod latency;
pub mod loopback;
pub mod meminfo;
pub mod plan;
pub mod rank;
pub mod readings;
pub mod session;
pub mod simple;
pub mod storm;
pub mod subsystem;
pub mod timing;
pub mod verbs_host;

#[cfg(test)]
mod testing;

pub use chain::chain;
pub use subsystem::{MeasureError, Subsystem, measured_or_nothing};

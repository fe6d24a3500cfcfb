//! The seam between search and subsystems: one trait, and what both sides of a real pair share. No verbs, no model.

pub mod subsystem;

pub use subsystem::{MeasureError, Subsystem};

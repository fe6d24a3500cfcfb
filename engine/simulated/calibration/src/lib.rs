//! Calibration: the physical parameters of a model, fitted to measurements of simple traffic. No command line.

mod columns;
mod conflicts;
mod descent;
mod error;
pub mod expectation;
pub mod fit;
pub mod generate;
pub mod generated_model;
pub mod in_words;
pub mod model_file;
pub mod parameters;
pub mod plan;
pub mod problem;
pub mod row;
mod search;
pub mod simulator;
pub mod table;
pub mod traffic;
mod uncertainty;

pub use conflicts::{Conflict, Wish};
pub use error::{CalibrationError, MOST_MISTAKES, TableMistake};
pub use uncertainty::Determinacy;

//! Which checks of a fleet are worth their time: how likely an incident of each node is, learnt from the past of all
//! nodes, and the fewest minutes of checks after which it is as unlikely as was asked for. Pure.
//!
//! Source: SuperBench (Xiong et al., ATC 2024), section 3.3.

mod cox;
mod hazard;
mod history;
mod outlook;
mod problem;
mod status;

pub use cox::{Cox, Sample};
pub use hazard::{CumulativeHazard, Gap};
pub use history::{Found, History, HistoryError};
pub use outlook::{Choice, Model, Outlook};
pub use problem::{MOST_EXACT, Problem, ProblemError, Reason, Selection, SelectionStep, Subset};
pub use status::{Fleet, Past};

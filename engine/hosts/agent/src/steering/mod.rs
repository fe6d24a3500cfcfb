//! Steering: programs ask the agent of their host for source ports, and agents ask the planner that they share.
//!
//! `door` is where programs ask, `ledger` what the agent knows of them, `link` its connection to the planner, `planner`
//! the planner itself.

mod crowd;
mod door;
mod ends;
mod journal;
mod ledger;
mod link;
pub mod planner;
mod processes;
mod words;

pub use door::{Door, DoorError};
pub use ends::end;
pub use link::PlannerAddress;

#[cfg(test)]
mod tests;

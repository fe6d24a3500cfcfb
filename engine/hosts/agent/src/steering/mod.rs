//! Steering: programs ask the agent of their host for source ports, and agents ask the planner that they share.
//!
//! `socket` is where programs ask, `ledger` what the agent knows of them, `link` its connection to the planner,
//! `planner` the planner itself.

mod ends;
mod journal;
mod ledger;
mod link;
pub mod planner;
mod processes;
mod program_limits;
mod socket;
mod words;

pub use ends::end;
pub use link::PlannerAddress;
pub use socket::{SteeringSocket, SteeringSocketError};

#[cfg(test)]
mod tests;

//! Who takes which path through a fabric, after C4P (Dong et al., HPCA 2025, section III-B): the planner and the source
//! ports that lead where it wants. Pure: no clock, no I/O, no randomness.

pub mod apart;
pub mod balance;
pub mod catalog;
mod faults;
pub mod followed;
pub mod leases;
mod level;
mod planner;
mod ports;
pub mod probe;
pub mod request;

pub use planner::{Planner, QpId, Route};
pub use ports::{Leaving, PortSearch};

#[cfg(test)]
mod tests;

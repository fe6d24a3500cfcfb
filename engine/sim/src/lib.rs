//! The simulated subsystem: a discrete-event model of two hosts and a lossless switch. No clock, no threads.

mod blame;
mod caches;
mod check;
mod costs;
mod counters;
mod event;
mod explain;
mod load;
mod memory;
mod model;
mod posting;
mod receive;
mod receive_wqe;
mod resolved;
mod run;
mod subsystem;
mod transmit;
mod wire;
mod world;

pub use load::ModelError;
pub use subsystem::SimSubsystem;

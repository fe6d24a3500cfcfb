//! The simulated subsystem: two hosts, a lossless switch, and NICs made of the parts of `kelpie-nic`. Deterministic: no
//! clock, no threads.

mod bond;
mod check;
mod config;
mod control_thread;
mod counters;
pub mod host;
mod limiting;
mod load;
mod model;
mod network;
mod pair;
mod pair_models;
pub mod parameters;
mod path_part;
mod relief;
mod rings;
mod run;
mod steady;
mod subsystem;
mod waits;

pub use load::ModelError;
pub use relief::{Relief, Reliefs};
pub use subsystem::{PortsSeen, SimSubsystem, SimulatedTraffic};

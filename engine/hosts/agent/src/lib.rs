//! Controller and agents: protocol, both ends, and the pair of real hosts behind the seam. No verbs, no model.

mod absent;
pub mod cert;
pub mod client;
pub mod crowd;
mod gate;
mod identity;
pub mod lab;
mod lease;
mod limited_log;
mod limits;
pub mod listener;
pub mod loopback;
mod memory_watch;
mod netem;
pub mod pair;
pub mod ranks;
mod runtime;
pub mod security;
pub mod server;
mod service;
mod socket;
pub mod steering;
pub mod steps;
mod strangers;
pub mod wire;

#[cfg(test)]
mod fake;
#[cfg(test)]
#[path = "../../../src/testing.rs"]
mod testing;
#[cfg(test)]
mod tests;

pub use absent::AbsentHost;
pub use limits::Limits;
pub use netem::Netem;
pub use pair::{PairError, PairFile, PairFileError, PairSubsystem};
pub use runtime::{most_files, with_one_worker};
pub use security::{Security, TlsFiles};

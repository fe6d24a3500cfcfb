//! Files of the open simulators of HPCC and of `SimAI`: topologies, flows, configurations. What they mean there, they
//! mean here, to the nanosecond and to the hash.

mod answer;
mod config;
mod flows;
mod lines;
mod run;
mod topology;

pub use answer::{FlowAnswer, FlowsAnswer};
pub use config::read as settings;
pub use flows::PeerFlow;
pub use lines::{Peer, PeerError, Words};
pub use run::PeerRun;
pub use topology::PeerTopology;

//! Files of the open simulators of HPCC and of SimAI: topologies, flows, configurations. What they mean there, they mean
//! here, to the nanosecond and to the hash.

mod config;
mod flows;
mod lines;
mod topology;

use kelpie_packets::Settings;

pub use config::read as settings;
pub use flows::PeerFlow;
pub use lines::PeerError;
pub use topology::PeerTopology;

/// Whose files they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// HPCC's simulator.
    Hpcc,
    /// SimAI's.
    SimAi,
}

/// A run as the files of a simulator describe it.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerRun {
    /// Nodes and links.
    pub topology: PeerTopology,
    /// What is sent.
    pub flows: Vec<PeerFlow>,
    /// How hosts and switches behave.
    pub settings: Settings,
}

impl PeerRun {
    /// Reads the three files, given as name and text.
    ///
    /// # Errors
    /// Names file and line of what is not understood, or not simulated.
    pub fn read(peer: Peer, topology: [&str; 2], flows: [&str; 2], config: [&str; 2]) -> Result<Self, PeerError> {
        let topology = PeerTopology::read(peer, topology[0], topology[1])?;
        let flows = flows::read(flows[0], flows[1], &topology)?;
        let settings = config::read(peer, config[0], config[1])?;
        Ok(Self { topology, flows, settings })
    }

    /// What it is to the simulation.
    pub fn traffic(&self) -> kelpie_packets::Traffic {
        flows::traffic(&self.flows)
    }
}

//! A run as the three files of a simulator describe it.

use kelpie_packets::{Settings, Traffic};

use super::config;
use super::flows::{self, PeerFlow};
use super::lines::{Peer, PeerError};
use super::topology::PeerTopology;

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
    pub fn traffic(&self) -> Traffic {
        flows::traffic(&self.flows)
    }
}

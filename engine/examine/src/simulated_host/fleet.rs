//! Agents of many simulated hosts in one process.

use std::net::SocketAddr;

use anyhow::Context as _;
use kelpie_agent::crowd::{AgentLife, Crowd};
use kelpie_agent::server::AgentConfig;
use kelpie_agent::{Limits, Security};
use kelpie_sim::SimSubsystem;

use super::{SimulatedFault, SimulatedHost};

/// An agent of a fleet.
#[derive(Debug, Clone)]
pub struct FleetAgent {
    /// Where it listens: an address of loopback, 127.0.0.0/8. Port 0 is any.
    pub listen: SocketAddr,
    /// Its host.
    pub model: SimSubsystem,
    /// What is wrong with it.
    pub fault: Option<SimulatedFault>,
}

/// Agents that end with this value.
#[derive(Debug)]
pub struct SimulatedFleet {
    _crowd: Crowd,
    agents: Vec<(SocketAddr, AgentLife)>,
}

impl SimulatedFleet {
    /// Has all of them serve.
    ///
    /// # Errors
    /// An address cannot be listened on.
    pub fn serve(agents: impl IntoIterator<Item = FleetAgent>) -> anyhow::Result<Self> {
        let crowd = Crowd::new().context("cannot start the runtime")?;
        let mut served = Vec::new();
        for FleetAgent { listen, model, fault } in agents {
            let life = AgentLife::default();
            let death = life.clone();
            let host = SimulatedHost::new(model, listen)?.with_fault(fault).dying_by(move || death.end());
            // Nothing is registered, however much a workload asks for.
            let limits = Limits { memory_bytes: u64::MAX, ..Limits::default() };
            let config = AgentConfig { name: listen.to_string(), security: Security::Loopback, limits, door: None };
            let address = crowd.serve(listen, config, &life, Box::new(host))?;
            served.push((address, life));
        }
        Ok(Self { _crowd: crowd, agents: served })
    }

    /// Where they listen, in the order given.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.agents.iter().map(|(address, _)| *address)
    }

    /// Ends one, as `kill -9` ends a process.
    pub fn kill(&self, agent: usize) {
        if let Some((_, life)) = self.agents.get(agent) {
            life.end();
        }
    }
}

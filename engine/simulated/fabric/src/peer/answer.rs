//! What came of flows, as the simulators of HPCC and `SimAI` say it.

use kelpie_packets::{Outcome, RunError};
use serde::Serialize;

use super::run::PeerRun;

/// A flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlowAnswer {
    /// Host that sends.
    pub src: u32,
    /// Host that receives.
    pub dst: u32,
    /// Size. Units: bytes.
    pub bytes: u64,
    /// When it began. Units: ns.
    pub start_ns: u64,
    /// Time until its sender knew that all had arrived; nothing if that was never. Units: ns.
    pub fct_ns: Option<u64>,
}

/// All flows, and what the network did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlowsAnswer {
    /// Flows, in the order of the file.
    pub flows: Vec<FlowAnswer>,
    /// Frames that paused.
    pub pfc_pauses: u64,
    /// Most that waited at a port of a switch. Units: bytes.
    pub max_queue_bytes: u64,
    /// Marks.
    pub ecn_marks: u64,
    /// Packets times the links that they crossed.
    pub hop_packets: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Packets that found no room, and that links lost.
    pub lost_packets: u64,
    /// Packets that were sent again.
    pub retransmissions: u64,
}

impl FlowsAnswer {
    /// Simulates a run.
    ///
    /// # Errors
    /// If the network cannot be.
    pub fn of(run: &PeerRun, threads: usize) -> Result<Self, RunError> {
        let outcome = kelpie_packets::run(&run.topology.network, &run.settings, &run.traffic(), &[], threads)?;
        Ok(Self::of_outcome(run, &outcome))
    }

    fn of_outcome(run: &PeerRun, outcome: &Outcome) -> Self {
        let flows = run.flows.iter().zip(&outcome.messages).map(|(flow, times)| FlowAnswer {
            src: flow.from,
            dst: flow.to,
            bytes: flow.bytes,
            start_ns: flow.start_ns,
            fct_ns: times.done.map(|done| done - flow.start_ns),
        });
        let counters = &outcome.counters;
        Self {
            flows: flows.collect(),
            pfc_pauses: counters.pfc_pauses,
            max_queue_bytes: counters.max_queue_bytes,
            ecn_marks: counters.ecn_marks,
            hop_packets: counters.hop_packets,
            events: counters.events,
            lost_packets: counters.drops + counters.losses,
            retransmissions: counters.retransmissions,
        }
    }

    /// Completion times of flows that ended, the shortest first. Units: ns.
    pub fn completions(&self) -> Vec<u64> {
        let mut times: Vec<u64> = self.flows.iter().filter_map(|flow| flow.fct_ns).collect();
        times.sort_unstable();
        times
    }
}

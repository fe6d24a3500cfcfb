//! Flows: how many, then a line `source destination priority port bytes start_s` for each.

use std::collections::BTreeMap;

use kelpie_packets::{MessageForm, NodeKind, QpForm, Traffic};

use super::lines::{PeerError, Words};
use super::topology::PeerTopology;

/// Most flows. Source: our choice.
const MOST: usize = 1 << 24;
/// UDP port of the first flow of a pair of hosts; its next ones have the next. Source: HPCC's and `SimAI`'s simulators.
const FIRST_PORT: u16 = 10_000;

/// A flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerFlow {
    /// Host that sends.
    pub from: u32,
    /// Host that receives.
    pub to: u32,
    /// Priority.
    pub class: u8,
    /// UDP destination port.
    pub port: u16,
    /// Size. Units: bytes.
    pub bytes: u64,
    /// Units: ns.
    pub start_ns: u64,
}

/// Reads a file.
pub fn read(file: &str, text: &str, topology: &PeerTopology) -> Result<Vec<PeerFlow>, PeerError> {
    let nodes = &topology.network.nodes;
    let mut words = Words::new(file, text);
    let count = words.below("the number of flows", MOST)?;
    let mut flows = Vec::new();
    for _ in 0..count {
        let (from, to) =
            (words.below("a flow's source", nodes.len())?, words.below("a flow's destination", nodes.len())?);
        let class = words.below("a flow's priority", 8)? as u8;
        let port = words.below("a flow's port", 1 << 16)? as u16;
        let bytes: u64 = words.number("a flow's size")?;
        let start: f64 = words.number("a flow's start")?;
        let are_hosts = [from, to].iter().all(|node| nodes[*node as usize] == NodeKind::Host);
        if !are_hosts || from == to || bytes == 0 || !(0.0..=1e6).contains(&start) {
            return Err(words.wrong("a flow leads from a host to another one, has bytes, and starts after 0 to 1e6 s"));
        }
        flows.push(PeerFlow { from, to, class, port, bytes, start_ns: (start * 1e9).round() as u64 });
    }
    Ok(flows)
}

/// Each flow has a QP of its own.
pub fn traffic(flows: &[PeerFlow]) -> Traffic {
    let mut traffic = Traffic::default();
    let mut used: BTreeMap<(u32, u32), u16> = BTreeMap::new();
    for (qp, flow) in (0..).zip(flows) {
        let next = used.entry((flow.from, flow.to)).or_insert(FIRST_PORT);
        traffic.qps.push(QpForm { from: flow.from, to: flow.to, class: flow.class, ports: [*next, flow.port] });
        traffic.messages.push(MessageForm { qp, bytes: flow.bytes, start_ns: flow.start_ns });
        *next = next.wrapping_add(1);
    }
    traffic
}

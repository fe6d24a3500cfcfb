//! Programs on a fabric, as the simulation at the level of packets takes them.

use std::collections::HashMap;

use kelpie_collectives::dag::{Dag, Wait};
use kelpie_packets::{Link, MessageForm, Network, NodeKind, QpForm, Traffic, Trigger};
use kelpie_topology::{FabricGraph, FabricNode};

/// Priority of data. Source: the usual choice for RoCE, IEEE 802.1Q priority 3.
const CLASS: u8 = 3;
/// UDP ports of a connection. Source: as the simulators of HPCC and `SimAI` number them.
const PORTS: [u16; 2] = [10_000, 100];

/// How transfers use QPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpUse {
    /// Each connection has one, which lasts.
    Lasting,
    /// Each transfer has a new one, as in `SimAI`'s simulator.
    PerTransfer,
}

/// The nodes and links of a fabric.
pub fn network(graph: &FabricGraph) -> Network {
    let kind = |node: &FabricNode| match node {
        FabricNode::Gpu => NodeKind::Host,
        FabricNode::NvSwitch => NodeKind::Crossbar,
        FabricNode::Leaf | FabricNode::Spine | FabricNode::Core => NodeKind::Switch,
    };
    let links = graph.cables.iter().map(|cable| Link {
        ends: cable.ends,
        gbps: cable.gbps,
        delay_ns: cable.delay_ns,
        loss: cable.loss,
    });
    Network { nodes: graph.nodes.iter().map(kind).collect(), links: links.collect() }
}

/// The QPs and messages of a program; a transfer is the message of the same number.
pub fn traffic(dag: &Dag, used: QpUse) -> Traffic {
    let mut traffic = Traffic::default();
    let mut counts: HashMap<(u32, u32), u16> = HashMap::new();
    let mut port = |from: u32, to: u32| {
        let count = counts.entry((from, to)).or_default();
        *count = count.wrapping_add(1);
        PORTS[0].wrapping_add(*count - 1)
    };
    let qp = |from: u32, to: u32, port: u16| QpForm { from, to, class: CLASS, ports: [port, PORTS[1]] };
    if used == QpUse::Lasting {
        traffic.qps.extend(dag.connections.iter().map(|one| qp(one.from, one.to, port(one.from, one.to))));
    }
    for task in &dag.tasks {
        let number = if used == QpUse::Lasting {
            task.connection
        } else {
            let one = dag.connections[task.connection as usize];
            traffic.qps.push(qp(one.from, one.to, port(one.from, one.to)));
            traffic.qps.len() as u32 - 1
        };
        traffic.messages.push(MessageForm { qp: number, bytes: task.bytes, start_ns: task.delay_ns });
    }
    let trigger = |wait: Wait| if wait == Wait::Received { Trigger::Received } else { Trigger::Sent };
    traffic.waits.extend(dag.waits.iter().map(|(cause, wait, effect)| (*cause, trigger(*wait), *effect)));
    traffic
}

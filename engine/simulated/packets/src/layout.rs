//! A network as the simulation walks it: ports in the order of nodes, and what does not change while it runs.

use std::ops::Range;

use crate::error::RunError;
use crate::marks::EcnCurve;
use crate::network::{Network, NodeKind};
use crate::settings::Settings;

/// Nothing.
pub const NONE: u32 = u32::MAX;

/// A kind of link, of which a fabric has few.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkClass {
    /// Time of a byte. Units: fs.
    pub femtos_per_byte: u64,
    /// Units: ns.
    pub delay: u32,
    /// Units: bit/s.
    pub bps: f64,
    /// Share of packets that are lost.
    pub loss: f64,
    /// Marks of what leaves by it, if a switch sends.
    pub ecn: Option<EcnCurve>,
}

/// One end of a link.
#[derive(Debug, Clone, Copy)]
pub struct PortPlace {
    /// The port at the other end.
    pub peer: u32,
    /// Its node.
    pub node: u32,
    /// Its link.
    pub link: u32,
    /// Kind of its link.
    pub class: u16,
}

/// What does not change.
#[derive(Debug)]
pub struct Layout {
    /// Kind of each node.
    pub nodes: Vec<NodeKind>,
    /// The first port of each node, and one past the last of all.
    first: Vec<u32>,
    /// Ports, those of a node beside each other.
    pub ports: Vec<PortPlace>,
    /// Kinds of links.
    pub classes: Vec<LinkClass>,
    /// Ports of each link, in the order of its ends.
    link_ports: Vec<[u32; 2]>,
}

impl Layout {
    /// Numbers the ports of a network.
    ///
    /// # Errors
    /// If a link leads nowhere or has no rate, or if its rate needs an entry for ECN that is missing.
    pub fn new(network: &Network, settings: &Settings) -> Result<Self, RunError> {
        let mut first = vec![0; network.nodes.len() + 1];
        for (number, link) in network.links.iter().enumerate() {
            let are_nodes = link.ends.iter().all(|end| (*end as usize) < network.nodes.len());
            let is_rate = link.gbps > 0.0 && link.gbps <= 1e5;
            if !are_nodes || link.ends[0] == link.ends[1] || !is_rate || !(0.0..=1.0).contains(&link.loss) {
                return Err(RunError::Link { link: number });
            }
            link.ends.iter().for_each(|end| first[*end as usize + 1] += 1);
        }
        for node in 0..network.nodes.len() {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let empty = PortPlace { peer: NONE, node: NONE, link: NONE, class: 0 };
        let mut ports = vec![empty; 2 * network.links.len()];
        let mut classes: Vec<LinkClass> = Vec::new();
        let mut link_ports = Vec::with_capacity(network.links.len());
        for (number, link) in network.links.iter().enumerate() {
            let [a, b] = link.ends.map(|end| {
                next[end as usize] += 1;
                next[end as usize] - 1
            });
            link_ports.push([a, b]);
            for (port, peer, node) in [(a, b, link.ends[0]), (b, a, link.ends[1])] {
                let is_switch = network.nodes[node as usize] == NodeKind::Switch;
                let ecn = if is_switch && !settings.ecn.is_empty() {
                    let entry = settings.ecn.iter().find(|(gbps, _)| (gbps - link.gbps).abs() < 1e-6);
                    Some(entry.ok_or(RunError::NoEcn { gbps: link.gbps })?.1)
                } else {
                    None
                };
                let class = LinkClass {
                    femtos_per_byte: (8e6 / link.gbps).round() as u64,
                    delay: link.delay_ns,
                    bps: link.gbps * 1e9,
                    loss: link.loss,
                    ecn,
                };
                let known = classes.iter().position(|one| *one == class);
                let class = known.unwrap_or_else(|| {
                    classes.push(class);
                    classes.len() - 1
                });
                let class = u16::try_from(class).map_err(|_| RunError::Link { link: number })?;
                ports[port as usize] = PortPlace { peer, node, link: number as u32, class };
            }
        }
        Ok(Self { nodes: network.nodes.clone(), first, ports, classes, link_ports })
    }

    /// Ports of a node.
    pub fn ports_of(&self, node: u32) -> Range<u32> {
        self.first[node as usize]..self.first[node as usize + 1]
    }

    /// Ports at the ends of a link.
    pub fn ports_of_link(&self, link: u32) -> [u32; 2] {
        self.link_ports[link as usize]
    }

    /// Number of a port among those of its node.
    #[inline]
    pub fn place_in_node(&self, port: u32) -> u32 {
        port - self.first[self.ports[port as usize].node as usize]
    }

    /// Kind of a port's link.
    #[inline]
    pub fn class(&self, port: u32) -> &LinkClass {
        &self.classes[usize::from(self.ports[port as usize].class)]
    }

    /// Node at the other end of a port's link.
    #[inline]
    pub fn neighbour(&self, port: u32) -> u32 {
        self.ports[self.ports[port as usize].peer as usize].node
    }

    /// Whether a node forwards.
    pub fn forwards(&self, node: u32) -> bool {
        self.nodes[node as usize] != NodeKind::Host
    }
}

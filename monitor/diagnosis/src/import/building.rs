//! A host that is put together from a text. Who reads which text is elsewhere.

use std::collections::BTreeMap;

use kelpie_topology::HostTopology;
use kelpie_topology::host::{HostLink, Node, NodeKind};

/// Most devices of a text. Source: our choice, as of nodes of a topology.
pub(super) const MOST: usize = 1024;

/// A host that was imported, and what its source does not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The host.
    pub topology: HostTopology,
    /// What is to be known of it, a line each.
    pub notes: Vec<String>,
}

/// A host that is put together.
#[derive(Default)]
pub(super) struct Host {
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<HostLink>,
    /// Per NUMA node, its socket.
    pub(super) homes: BTreeMap<u32, usize>,
}

impl Host {
    pub(super) fn add(&mut self, name: String, kind: NodeKind, pci: Option<String>) -> Result<usize, String> {
        if self.nodes.len() >= MOST {
            return Err(format!("more than {MOST} devices"));
        }
        if self.nodes.iter().any(|node| node.name == name) {
            return Err(format!("`{}` is there twice", crate::matrix::shown(&name)));
        }
        self.nodes.push(Node { name, kind, pci, port_gbps: None });
        Ok(self.nodes.len() - 1)
    }

    /// The socket of a NUMA node, with its memory.
    pub(super) fn home(&mut self, numa: u32) -> Result<usize, String> {
        if let Some(home) = self.homes.get(&numa) {
            return Ok(*home);
        }
        let socket = self.add(format!("cpu{numa}"), NodeKind::Socket, None)?;
        let memory = self.add(format!("mem{numa}"), NodeKind::Memory, None)?;
        self.join(memory, socket, None);
        let others: Vec<usize> = self.homes.values().copied().collect();
        for other in others {
            self.join(other, socket, None);
        }
        self.homes.insert(numa, socket);
        Ok(socket)
    }

    pub(super) fn join(&mut self, a: usize, b: usize, gbps: Option<f64>) {
        self.links.push(HostLink { a, b, gbps, ..HostLink::default() });
    }

    pub(super) fn done(self, notes: Vec<String>) -> Result<Imported, String> {
        if !self.nodes.iter().any(|node| node.kind == NodeKind::Rnic) {
            return Err("no RDMA NIC in it".to_owned());
        }
        let topology = HostTopology::new(self.nodes, self.links).map_err(|broken| {
            let said: Vec<String> = broken.iter().map(|(path, rule)| format!("{path}: {rule}")).collect();
            said.join("; ")
        })?;
        // What a file may say is what this one says: names have their rule there.
        let yaml = topology.to_yaml();
        let topology = HostTopology::from_yaml("the imported host", &yaml).map_err(|error| error.to_string())?;
        Ok(Imported { topology, notes })
    }
}

/// What so many lanes of a speed carry one way, as a topology has it. Units: GT/s, Gbit/s.
pub(super) fn gbps(lanes: u32, gt_per_sec: f64) -> Option<f64> {
    let rate = kelpie_monitor::machine::PcieRate { width: lanes, gt_per_sec };
    Some((rate.bits_per_sec() / 1e8).round() / 10.0).filter(|gbps| gbps.is_finite() && *gbps > 0.0)
}

/// A PCI address with its domain, in lower case.
pub(super) fn address(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split([':', '.']).collect();
    let hex = |text: &&str| (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let full = match parts[..] {
        [_, _, _] => format!("0000:{text}"),
        // Some programs write eight digits of the domain.
        [domain, ..] if parts.len() == 4 && domain.len() == 8 && domain.starts_with("0000") => text[4..].to_owned(),
        [_, _, _, _] => text.to_owned(),
        _ => return None,
    };
    parts.iter().all(hex).then(|| full.to_ascii_lowercase())
}

//! The inside of a host from what other programs write of it: NCCL's topology XML, `lspci -vvv`, `nvidia-smi topo -m`;
//! and NCCL's XML from it. Files of the machine itself are read in `discover`.

mod lspci;
mod nccl;
mod relations;

use std::collections::BTreeMap;

use kelpie_topology::HostTopology;
use kelpie_topology::host::{HostLink, Node, NodeKind};

pub use nccl::to_nccl;

/// Most devices of a text. Source: our choice, as of nodes of a topology.
const MOST: usize = 1024;

/// A host that was imported, and what its source does not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The host.
    pub topology: HostTopology,
    /// What is to be known of it, a line each.
    pub notes: Vec<String>,
}

/// Reads a host from what one of these programs wrote; which one it was is told by the text. `file` stands for it.
///
/// # Errors
/// If the text is of none of them, or describes no host.
pub fn import(file: &str, bytes: &[u8]) -> Result<Imported, String> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| format!("{file}: no UTF-8 from byte {}", error.valid_up_to()))?;
    // nvidia-smi underlines its heading, also into a file.
    let plain = text.replace("\u{1b}[4m", "").replace("\u{1b}[0m", "");
    let text = plain.as_str();
    let read = if text.trim_start().starts_with('<') {
        nccl::read(text)
    } else if relations::is_like(text) {
        relations::read(text)
    } else if lspci::is_like(text) {
        lspci::read(text)
    } else {
        Err("neither NCCL's topology XML, nor of `lspci -vvv`, nor of `nvidia-smi topo -m`".to_owned())
    };
    read.map_err(|problem| format!("{file}: {}", crate::matrix::shown(&problem)))
}

/// A host that is put together.
#[derive(Default)]
struct Host {
    nodes: Vec<Node>,
    links: Vec<HostLink>,
    /// Per NUMA node, its socket.
    homes: BTreeMap<u32, usize>,
}

impl Host {
    fn add(&mut self, name: String, kind: NodeKind, pci: Option<String>) -> Result<usize, String> {
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
    fn home(&mut self, numa: u32) -> Result<usize, String> {
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

    fn join(&mut self, a: usize, b: usize, gbps: Option<f64>) {
        self.links.push(HostLink { a, b, gbps, ..HostLink::default() });
    }

    fn done(self, notes: Vec<String>) -> Result<Imported, String> {
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
fn gbps(lanes: u32, gt_per_sec: f64) -> Option<f64> {
    let rate = kelpie_monitor::machine::PcieRate { width: lanes, gt_per_sec };
    Some((rate.bits_per_sec() / 1e8).round() / 10.0).filter(|gbps| gbps.is_finite() && *gbps > 0.0)
}

/// A PCI address with its domain, in lower case.
fn address(text: &str) -> Option<String> {
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

//! The way of an RNIC's traffic through its host, as ways and places of the parts. Settings decide whether peers below
//! one switch reach each other there or through the root.

use kelpie_events::{Picos, Rate};
use kelpie_nic::memory::{MemoryPath, MemoryUnit};
use kelpie_topology::HostTopology;
use kelpie_topology::host::NodeKind;

use super::parts::{HostPart, HostParts};

/// What a GPU's memory reads and writes. Units: Gbit/s. Source: NVIDIA's A100 has 1555 GB/s; far above any PCIe link.
const GPU_MEMORY: f64 = 12_440.0;

/// A step of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hop {
    /// Over a link; as traffic between PCIe peers where the link slows that.
    Link { link: usize, is_peer: bool },
    /// Back over a link that was crossed before.
    Turned { link: usize },
    /// Through a socket, from one PCIe peer to another.
    Peer { socket: usize },
}

/// Ways and places of one RNIC.
#[derive(Debug, Default)]
pub struct Routes {
    /// The places, in the order in which they were asked for.
    pub places: Vec<MemoryUnit>,
    /// The ways between the RNIC's link and them.
    pub ways: Vec<MemoryPath>,
    hops: Vec<Hop>,
}

impl Routes {
    /// Adds a place, that of a memory or of a GPU; its number.
    ///
    /// # Errors
    /// When there is no way to it.
    pub fn add(&mut self, host: &HostTopology, parts: &HostParts, rnic: usize, to: usize) -> Result<usize, String> {
        let nowhere = || format!("no way from {} to {}", host.nodes()[rnic].name, host.nodes()[to].name);
        let links = host.route(rnic, to).ok_or_else(nowhere)?;
        let is_memory = host.nodes()[to].kind == NodeKind::Memory;
        let (hops, rate) = if is_memory {
            let (own, others) = links.split_last().ok_or_else(nowhere)?;
            (plain(host, parts, rnic, others, false), parts.links[*own].rate())
        } else {
            let direct = plain(host, parts, rnic, &links, true);
            (redirected(host, parts, rnic, &links).unwrap_or(direct), GPU_MEMORY)
        };
        let mut behind = None;
        // The first link is the RNIC's own, which is no way behind it.
        for hop in hops.into_iter().skip(1) {
            behind = Some(self.way(parts, behind, hop));
        }
        let latency = Picos::from_nanos(parts.nodes[to].get("latency_ns"));
        self.places.push(MemoryUnit { rate: Rate::gbps(rate), latency, partial: latency, way: behind });
        Ok(self.places.len() - 1)
    }

    /// The way of a hop behind another one, made if it is not there.
    fn way(&mut self, parts: &HostParts, behind: Option<usize>, hop: Hop) -> usize {
        let known = |(index, known): (usize, &Hop)| *known == hop && self.ways[index].behind == behind;
        if let Some(found) = self.hops.iter().enumerate().position(known) {
            return found;
        }
        let turned = |link: usize| self.hops.iter().position(|hop| *hop == Hop::Link { link, is_peer: false });
        let of = |part: &HostPart, rate: f64, latency: &str| {
            let (rate, latency) = (Rate::gbps(rate), Picos::from_nanos(part.get(latency)));
            MemoryPath { behind, load: part.get("load"), ..MemoryPath::new(rate, rate, latency) }
        };
        let way = match hop {
            Hop::Link { link, is_peer } => {
                let part = &parts.links[link];
                let peer = part.get("peer_gbps") * part.get("width");
                of(part, if is_peer { peer } else { part.rate() }, "latency_ns")
            }
            Hop::Turned { link } => {
                let part = &parts.links[link];
                MemoryPath { turns: turned(link), ..of(part, part.rate(), "latency_ns") }
            }
            Hop::Peer { socket } => of(&parts.nodes[socket], parts.nodes[socket].get("peer_gbps"), "peer_latency_ns"),
        };
        self.ways.push(way);
        self.hops.push(hop);
        self.ways.len() - 1
    }
}

/// The hops along a route; what a peer sends passes sockets as peer traffic.
fn plain(host: &HostTopology, parts: &HostParts, rnic: usize, links: &[usize], is_peer: bool) -> Vec<Hop> {
    let (mut hops, mut at, mut is_below) = (Vec::new(), rnic, true);
    for &link in links {
        // The socket where traffic comes up from PCIe turns it towards the peer.
        if is_peer && is_below && host.nodes()[at].kind == NodeKind::Socket {
            hops.push(Hop::Peer { socket: at });
            is_below = false;
        }
        hops.push(Hop::Link { link, is_peer: is_peer && parts.links[link].get("peer_gbps") > 0.0 });
        at = host.other_end(link, at);
    }
    hops
}

/// The hops to a peer below the RNIC's own switch if a setting sends them through the root: Access Control Services of
/// the switch (PCIe base specification, section 6.12), or an RNIC that does not translate (section 10).
fn redirected(host: &HostTopology, parts: &HostParts, rnic: usize, links: &[usize]) -> Option<Vec<Hop>> {
    let nodes = host.nodes_on(rnic, links);
    let is_through_root =
        nodes.iter().any(|node| matches!(host.nodes()[*node].kind, NodeKind::Socket | NodeKind::RootPort));
    let switches: Vec<usize> =
        nodes.iter().copied().filter(|node| host.nodes()[*node].kind == NodeKind::PcieSwitch).collect();
    let is_set =
        switches.iter().any(|switch| parts.nodes[*switch].get("acs") > 0.0) || parts.nodes[rnic].get("ats") == 0.0;
    if is_through_root || switches.is_empty() || !is_set {
        return None;
    }
    // Where the way is nearest to the root, it goes up from there and comes back.
    let up = switches.iter().filter_map(|switch| {
        let sockets = (0..host.nodes().len()).filter(|node| host.nodes()[*node].kind == NodeKind::Socket);
        let ways = sockets.filter_map(|socket| Some((socket, host.route(*switch, socket)?)));
        ways.min_by_key(|(_, links)| links.len()).map(|(socket, links)| (*switch, socket, links))
    });
    let (top, socket, up) = up.min_by_key(|(_, _, links)| links.len())?;
    let place = nodes.iter().position(|node| *node == top)?;
    let over = |link: &usize| Hop::Link { link: *link, is_peer: false };
    let mut hops: Vec<Hop> = links[..place].iter().chain(&up).map(over).collect();
    hops.push(Hop::Peer { socket });
    hops.extend(up.iter().rev().map(|link| Hop::Turned { link: *link }));
    hops.extend(links[place..].iter().map(over));
    Some(hops)
}

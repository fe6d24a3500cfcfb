//! Ways through a network: shortest ones, among which a hash chooses at each node (ECMP).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::hash::{mix, murmur3};
use crate::layout::Layout;
use crate::network::{NodeKind, QpForm};
use crate::settings::EcmpHash;

/// Not reachable.
const FAR: u16 = u16::MAX;

/// Finds ways, and keeps how far nodes are from what hosts hang on.
pub struct Routes<'l> {
    layout: &'l Layout,
    /// Whether each link works.
    works: &'l [bool],
    hash: EcmpHash,
    /// Links that a packet crosses from each forwarding node to a host on these switches.
    distances: BTreeMap<Vec<u32>, Vec<u16>>,
}

impl<'l> Routes<'l> {
    /// None is known yet.
    pub fn new(layout: &'l Layout, works: &'l [bool], hash: EcmpHash) -> Self {
        Self { layout, works, hash, distances: BTreeMap::new() }
    }

    /// The ports by which a packet of a QP leaves each node, there and back; nothing if there is no way.
    pub fn of_qp(&mut self, qp: &QpForm) -> Option<[Vec<u32>; 2]> {
        let back = QpForm { from: qp.to, to: qp.from, class: qp.class, ports: [qp.ports[1], qp.ports[0]] };
        Some([self.way(qp)?, self.way(&back)?])
    }

    fn way(&mut self, qp: &QpForm) -> Option<Vec<u32>> {
        let (layout, works) = (self.layout, self.works);
        let working = |node: u32| {
            let works = |port: &u32| works[layout.ports[*port as usize].link as usize];
            layout.ports_of(node).filter(works)
        };
        let mut roots: Vec<u32> =
            working(qp.to).map(|port| layout.neighbour(port)).filter(|node| layout.forwards(*node)).collect();
        roots.sort_unstable();
        roots.dedup();
        let distances = match self.distances.entry(roots) {
            std::collections::btree_map::Entry::Occupied(entry) => &*entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let distances = distances(layout, works, entry.key());
                &*entry.insert(distances)
            }
        };
        let far = |node: u32| if layout.forwards(node) { distances[node as usize] } else { FAR };
        let (mut node, mut way) = (qp.from, Vec::new());
        while node != qp.to {
            let ends = working(node).filter(|port| layout.neighbour(*port) == qp.to).count() > 0;
            let nearest = working(node).map(|port| far(layout.neighbour(port))).min().filter(|near| *near < FAR);
            let is_next = |port: &u32| {
                let next = layout.neighbour(*port);
                if ends { next == qp.to } else { nearest.is_some_and(|near| far(next) == near) }
            };
            let mut choices: Vec<u32> = working(node).filter(is_next).collect();
            // Of equal ways, one inside of the host is taken.
            let is_inside = |port: &u32| layout.nodes[layout.neighbour(*port) as usize] == NodeKind::Crossbar;
            if choices.iter().any(is_inside) {
                choices.retain(is_inside);
            }
            if self.hash == EcmpHash::Peers {
                choices.sort_by_key(|port| std::cmp::Reverse(layout.neighbour(*port)));
            }
            let chosen = choices.get(choose(self.hash, node, qp, choices.len())?)?;
            way.push(*chosen);
            node = layout.neighbour(*chosen);
        }
        Some(way)
    }
}

/// Round trip and product of it with the rate, the largest of all pairs of hosts, for packets of this payload. Units:
/// ns, bytes.
pub fn largest(layout: &Layout, payload: u64) -> [f64; 2] {
    let mut most = [0.0_f64; 2];
    let mut seen: BTreeSet<Vec<u32>> = BTreeSet::new();
    for host in (0..layout.nodes.len() as u32).filter(|node| layout.nodes[*node as usize] == NodeKind::Host) {
        let roots: Vec<u32> = layout.ports_of(host).map(|port| layout.neighbour(port)).collect();
        if !seen.insert(roots) {
            continue;
        }
        // Round trip and slowest link to what a search in breadth comes to first.
        let mut known: Vec<Option<(f64, f64)>> = vec![None; layout.nodes.len()];
        known[host as usize] = Some((0.0, f64::INFINITY));
        let mut queue = VecDeque::from([host]);
        while let Some(node) = queue.pop_front() {
            let Some((rtt, bps)) = known[node as usize] else { continue };
            for port in layout.ports_of(node) {
                let (next, class) = (layout.neighbour(port), layout.class(port));
                if known[next as usize].is_some() {
                    continue;
                }
                let rtt = rtt + 2.0 * f64::from(class.delay) + (payload as f64 * 8e9 / class.bps).floor();
                let bps = bps.min(class.bps);
                known[next as usize] = Some((rtt, bps));
                if layout.forwards(next) {
                    queue.push_back(next);
                } else {
                    most = [most[0].max(rtt), most[1].max((rtt * bps / 8e9).floor())];
                }
            }
        }
    }
    most
}

/// Which of so many ways a QP takes at a node.
fn choose(hash: EcmpHash, node: u32, qp: &QpForm, ways: usize) -> Option<usize> {
    let key = match hash {
        EcmpHash::Seeded(seed) => {
            let ports = u64::from(qp.ports[0]) << 16 | u64::from(qp.ports[1]);
            mix(mix(seed ^ u64::from(node)) ^ mix(u64::from(qp.from) << 32 | u64::from(qp.to)) ^ ports)
        }
        EcmpHash::Peers => {
            let address = |node: u32| 0x0b00_0001 + ((node / 256) << 16) + ((node % 256) << 8);
            let ports = u32::from(qp.ports[0]) | u32::from(qp.ports[1]) << 16;
            u64::from(murmur3([address(qp.from), address(qp.to), ports], node))
        }
    };
    (ways > 0).then(|| (key % ways as u64) as usize)
}

/// Links to a host that hangs on all of `roots`.
fn distances(layout: &Layout, works: &[bool], roots: &[u32]) -> Vec<u16> {
    let mut distances = vec![FAR; layout.nodes.len()];
    let mut queue: VecDeque<u32> = roots.iter().copied().collect();
    for root in roots {
        distances[*root as usize] = 1;
    }
    while let Some(node) = queue.pop_front() {
        for port in layout.ports_of(node).filter(|port| works[layout.ports[*port as usize].link as usize]) {
            let next = layout.neighbour(port);
            if layout.forwards(next) && distances[next as usize] == FAR {
                distances[next as usize] = distances[node as usize] + 1;
                queue.push_back(next);
            }
        }
    }
    distances
}

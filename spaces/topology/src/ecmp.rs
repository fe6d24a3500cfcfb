//! Where a flow goes: the hash of its bond, its leaf and its spine over what works. Pure functions.

use crate::cluster::{Cluster, FabricLink, PortSide, Working};

/// Share of lost packets from which on a path is faulty. Source: our choice: RoCE's go-back-N loses far more than this
/// share of throughput.
pub const FAULTY_LOSS: f64 = 0.001;

/// A flow between two NICs, as a switch sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// NIC that sends.
    pub from: u32,
    /// NIC that receives.
    pub to: u32,
    /// UDP source port.
    pub source_port: u16,
}

/// The way of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EcmpPath {
    /// Port by which it leaves.
    pub out: PortSide,
    /// Planes to the spine and from it, if it crosses one; both of the same spine.
    pub planes: Option<(u32, u32)>,
    /// Port at which it arrives.
    pub arrives: PortSide,
}

impl EcmpPath {
    /// Its links in order.
    pub fn links(&self, cluster: &Cluster, from: u32, to: u32) -> Vec<FabricLink> {
        let mut links = vec![FabricLink::NicOut(from), FabricLink::PortOut(from, self.out)];
        if let Some((up, down)) = self.planes {
            links.push(FabricLink::Up(cluster.leaf(from, self.out), up));
            links.push(FabricLink::Down(cluster.leaf(to, self.arrives), down));
        }
        links.extend([FabricLink::PortIn(to, self.arrives), FabricLink::NicIn(to)]);
        links
    }
}

impl Cluster {
    /// The port that a bond with `layer3+4` hashes a flow to, if one works.
    pub fn transmit(&self, working: &Working, flow: FlowKey) -> Option<PortSide> {
        let salt = 1 << 40 | u64::from(flow.from);
        let works =
            self.sides().iter().copied().filter(|side| working.has(self, FabricLink::PortOut(flow.from, *side)));
        choose(self.hash(salt, flow), works)
    }

    /// Where a flow that leaves by port `out` goes; nowhere if nothing that works leads there.
    pub fn route(&self, working: &Working, flow: FlowKey, out: PortSide) -> Option<EcmpPath> {
        if !working.has(self, FabricLink::PortOut(flow.from, out)) {
            return None;
        }
        let leaf = self.leaf(flow.from, out);
        let at_leaf = self.hash(2 << 40 | u64::from(leaf), flow);
        let here = self.arrivals(working, flow.to).filter(|side| self.leaf(flow.to, *side) == leaf);
        if let Some(arrives) = choose(at_leaf, here) {
            return Some(EcmpPath { out, planes: None, arrives });
        }
        let works = |side: &PortSide| {
            working.has(self, FabricLink::PortIn(flow.to, *side)) && working.has_all_down(self.leaf(flow.to, *side))
        };
        if working.has_all_up(leaf) && self.sides().iter().all(works) {
            self.route_of_all(flow, out, at_leaf)
        } else {
            self.route_of_some(working, flow, out, at_leaf)
        }
    }

    /// Ports at which a NIC can receive.
    fn arrivals<'c>(&'c self, working: &'c Working, to: u32) -> impl Iterator<Item = PortSide> + Clone + 'c {
        self.sides().iter().copied().filter(move |side| working.has(self, FabricLink::PortIn(to, *side)))
    }

    /// Over spines, by what works.
    fn route_of_some(&self, working: &Working, flow: FlowKey, out: PortSide, at_leaf: u64) -> Option<EcmpPath> {
        let leaf = self.leaf(flow.from, out);
        // A spine announces a NIC's address to the leaves if one of its own cables leads to a port of it.
        let down = |spine: u32| {
            let cables = spine * self.cables..(spine + 1) * self.cables;
            let ends =
                self.arrivals(working, flow.to).flat_map(move |side| cables.clone().map(move |plane| (side, plane)));
            ends.filter(move |(side, plane)| working.has(self, FabricLink::Down(self.leaf(flow.to, *side), *plane)))
        };
        let reaches = |plane: &u32| {
            working.has(self, FabricLink::Up(leaf, *plane)) && down(*plane / self.cables).next().is_some()
        };
        let up = choose(at_leaf, (0..self.planes()).filter(reaches))?;
        let spine = up / self.cables;
        let (arrives, plane) = choose(self.hash(3 << 40 | u64::from(spine), flow), down(spine))?;
        Some(EcmpPath { out, planes: Some((up, plane)), arrives })
    }

    /// The same over spines while all links between both leaves work: what is chosen among can be counted.
    fn route_of_all(&self, flow: FlowKey, out: PortSide, at_leaf: u64) -> Option<EcmpPath> {
        let up = at_leaf.checked_rem(u64::from(self.planes()))? as u32;
        let spine = up / self.cables;
        let ends = u64::from(self.ports_per_nic) * u64::from(self.cables);
        let end = (self.hash(3 << 40 | u64::from(spine), flow) % ends) as u32;
        let arrives = PortSide::BOTH[(end / self.cables) as usize];
        Some(EcmpPath { out, planes: Some((up, spine * self.cables + end % self.cables)), arrives })
    }

    /// A hash of a flow, of its own for each switch and bond. Source: our choice; the hashes of switches are secret.
    /// The mixing is `SplitMix64`'s (Steele, Lea, Flood, OOPSLA 2014).
    fn hash(&self, salt: u64, flow: FlowKey) -> u64 {
        let ends = u64::from(flow.from) << 40 | u64::from(flow.to) << 16 | u64::from(flow.source_port);
        mix(ends ^ mix(self.hash_seed ^ mix(salt)))
    }
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn choose<T>(hash: u64, mut among: impl Iterator<Item = T> + Clone) -> Option<T> {
    let count = among.clone().count() as u64;
    among.nth(hash.checked_rem(count)? as usize)
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::flow_label::FIRST_PORT;

    use super::*;

    fn cluster(leaves: u32, spines: u32) -> Cluster {
        let text = format!(
            "kelpie: topology/1\ncluster: {{hosts: 4, nics_per_host: 2, port_gbps: 200, leaves: {leaves}, \
             spines: {spines}, cables: 2, cable_gbps: 400, hash_seed: 7}}"
        );
        Cluster::from_yaml("t", &text).expect("a valid file")
    }

    #[test]
    fn links_have_places_of_their_own_in_order() {
        let cluster = cluster(4, 3);
        for (place, link) in cluster.links().enumerate() {
            assert_eq!(cluster.index(link), place, "{}", cluster.name(link));
        }
    }

    #[test]
    fn counting_is_choosing() {
        let (short, working) = (cluster(4, 3), Working::of(&cluster(4, 3)));
        for source_port in FIRST_PORT..=u16::MAX {
            let flow = FlowKey { from: 1, to: 6, source_port };
            for out in PortSide::BOTH {
                let at_leaf = short.hash(2 << 40 | u64::from(short.leaf(1, out)), flow);
                let by_search = short.route_of_some(&working, flow, out, at_leaf);
                assert_eq!(short.route_of_all(flow, out, at_leaf), by_search);
            }
        }
    }

    #[test]
    fn what_fails_elsewhere_changes_no_way_and_what_fails_here_is_avoided() {
        let short = cluster(4, 3);
        let (all, mut some) = (Working::of(&short), Working::of(&short));
        // Host 1 is at leaves 0 and 1, and host 3 at leaves 2 and 3.
        some.set(&short, crate::FabricPart::Cable { leaf: 0, spine: 1, cable: Some(1) }, false);
        let mut changed = 0;
        for source_port in FIRST_PORT..=u16::MAX {
            let flow = FlowKey { from: 1, to: 6, source_port };
            let [before, after] = [&all, &some].map(|working| short.route(working, flow, PortSide::Right));
            assert_eq!(before, after, "leaf 0 is not on the way");
            let [before, after] = [&all, &some].map(|working| short.route(working, flow, PortSide::Left));
            assert!(after.is_some_and(|way| way.planes.is_some_and(|(up, _)| up != 3)), "{after:?}");
            changed += u32::from(before != after);
        }
        assert!(changed > 0);
    }

    #[test]
    fn what_is_repaired_is_as_it_was() {
        let short = cluster(4, 3);
        let mut some = Working::of(&short);
        let part = crate::FabricPart::Cable { leaf: 0, spine: 1, cable: None };
        some.set(&short, part, false);
        some.set(&short, part, false);
        assert!(!some.has_all_up(0) && !some.has_all_down(0) && some.has_all_up(1));
        some.set(&short, part, true);
        assert_eq!(some, Working::of(&short));
    }

    #[test]
    fn flows_take_all_ways_that_work_and_no_other() {
        let (cluster, [from, to]) = (cluster(4, 3), [0, 6]);
        let mut working = Working::of(&cluster);
        let paths = |working: &Working| -> std::collections::HashSet<EcmpPath> {
            let flows = (FIRST_PORT..=u16::MAX).map(|source_port| FlowKey { from, to, source_port });
            flows.filter_map(|flow| cluster.route(working, flow, cluster.transmit(working, flow)?)).collect()
        };
        // Two ports, six cables up, two ports with two cables each down.
        assert_eq!(paths(&working).len(), 2 * 6 * 4);
        working.set(&cluster, crate::FabricPart::Cable { leaf: 0, spine: 1, cable: Some(0) }, false);
        working.set(&cluster, crate::FabricPart::Port { host: 3, nic: 0, port: PortSide::Right }, false);
        let left = paths(&working);
        assert_eq!(left.len(), (5 + 6) * 2);
        for path in left {
            let links = path.links(&cluster, from, to);
            assert!(links.iter().all(|link| working.has(&cluster, *link)), "{path:?}");
        }
        working.set(&cluster, crate::FabricPart::Port { host: 3, nic: 0, port: PortSide::Left }, false);
        assert!(paths(&working).is_empty());
    }
}

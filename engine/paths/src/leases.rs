//! Who has which source port: QPs of real hosts ask for one when they connect, and give it back when they go. Ports
//! come from catalogs; a QP that has one keeps it, because no application moves a QP that it has connected.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_topology::PortSide;
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, CatalogEnd};

/// Most leases at a time. Source: our choice, 10,000 NICs with 64 QPs each.
const MOST: usize = 640_000;

/// Most leases of one agent. Source: our choice, above the paper's 20,000 QPs of a host; also what an agent keeps
/// itself.
pub const MOST_OF_ONE: usize = 1 << 16;

/// Part of what is free that one agent may have once half is taken. Source: our choice: 40 agents that take all they
/// can leave a tenth of that half.
const SHARE: usize = 16;

/// A QP that has a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortHolder {
    /// The agent that asked for it.
    pub agent: String,
    /// Its process on that host.
    pub process: String,
    /// Its number.
    pub qp: u32,
}

/// A source port that a QP has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Address of the QP's NIC.
    pub from: String,
    /// Address of its peer's.
    pub to: String,
    /// The source port.
    pub source_port: u16,
    /// Port by which it leaves and the one at which it arrives.
    pub side: PortSide,
}

/// Why a QP gets no port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseRefusal {
    /// No catalog has these two.
    #[error("no catalog has a way from {from} to {to}")]
    Unknown {
        /// Address of the QP's NIC.
        from: String,
        /// Address of its peer's.
        to: String,
    },
    /// All its paths are faulty or cross sides.
    #[error("no path from {from} to {to} is straight and without fault")]
    NoPath {
        /// Address of the QP's NIC.
        from: String,
        /// Address of its peer's.
        to: String,
    },
    /// There are too many leases.
    #[error("{MOST} QPs have a source port already")]
    Full,
    /// One agent has too many.
    #[error("{0} QPs of this agent have a source port already, its share of the planner")]
    Share(usize),
    /// A host is not as it was when its catalog was measured.
    #[error("the catalog of {address} is stale, probe again: {what}")]
    Stale {
        /// Address of the host's NIC.
        address: String,
        /// What changed.
        what: String,
    },
}

/// One port of one NIC, one way.
type PortDirection = (String, PortSide, bool);

/// What leads from one address to another: the source ports of both sides.
type SourcePorts = [Vec<u16>; 2];

/// Straight paths from one address to another without fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPaths {
    /// Address of one NIC.
    pub from: String,
    /// Address of its peer's.
    pub to: String,
    /// Source ports that lead left, and right.
    pub ports: SourcePorts,
    /// The side of a first QP, if nothing else decides; of those who send to one receiver every other one begins right,
    /// so that they are level though none knows of the others.
    #[serde(default = "left")]
    pub first: PortSide,
}

fn left() -> PortSide {
    PortSide::Left
}

/// What leads from one address to another, and which side comes first.
#[derive(Debug, Clone)]
struct AddressPorts {
    ports: SourcePorts,
    first: PortSide,
}

/// All leases, and the paths that they are of.
#[derive(Debug)]
pub struct Leases {
    /// Most of all, and of one agent.
    most: [usize; 2],
    /// Hosts as they were measured, by address.
    measured: BTreeMap<String, CatalogEnd>,
    ways: BTreeMap<(String, String), AddressPorts>,
    held: BTreeMap<PortHolder, Lease>,
    /// QPs on each port of a NIC.
    loads: BTreeMap<PortDirection, u32>,
    /// QPs of each source port between two addresses.
    uses: BTreeMap<(String, String, u16), u32>,
    /// Leases of each certificate, or agent without one.
    of: BTreeMap<String, usize>,
    /// Addresses whose hosts have changed since they were measured, with the change.
    stale: BTreeMap<String, String>,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            most: [MOST, MOST_OF_ONE],
            measured: BTreeMap::new(),
            ways: BTreeMap::new(),
            held: BTreeMap::new(),
            loads: BTreeMap::new(),
            uses: BTreeMap::new(),
            of: BTreeMap::new(),
            stale: BTreeMap::new(),
        }
    }
}

impl Leases {
    /// No leases yet, on the paths of these catalogs; of two for the same hosts the later one counts.
    pub fn new(catalogs: &[Catalog]) -> Self {
        let mut leases = Self::default();
        for catalog in catalogs {
            leases.measured.extend(catalog.ends.iter().map(|end| (end.gid.clone(), end.clone())));
            for direction in &catalog.directions {
                let address = |host| catalog.ends.iter().find(|end| end.host == host).map(|end| end.gid.clone());
                let (Some(from), Some(to)) = (address(direction.from), address(direction.from.peer())) else {
                    continue;
                };
                let ports = PortSide::BOTH.map(|side| catalog.straight(direction.from, side));
                leases.ways.insert((from, to), AddressPorts { ports, first: PortSide::Left });
            }
        }
        let mut senders: BTreeMap<&str, usize> = BTreeMap::new();
        for ((_, to), known) in &mut leases.ways {
            let nth = senders.entry(to).or_default();
            known.first = PortSide::BOTH[*nth % 2];
            *nth += 1;
        }
        leases
    }

    /// Other paths from now on; what is leased stays.
    pub fn set_ways(&mut self, ways: Vec<AddressPaths>) {
        let known = |way: AddressPaths| ((way.from, way.to), AddressPorts { ports: way.ports, first: way.first });
        self.ways = ways.into_iter().map(known).collect();
    }

    /// Whether a host with this address was measured.
    pub fn measures(&self, address: &str) -> bool {
        self.measured.contains_key(address)
    }

    /// Compares a host with what was measured; what changed. Until it is as it was, no QP gets a path to or from it;
    /// leases stay.
    pub fn compare(&mut self, now: &CatalogEnd) -> Option<String> {
        let changes = self.measured.get(&now.gid)?.changes(now).join("; ");
        if changes.is_empty() {
            self.stale.remove(&now.gid);
            return None;
        }
        self.stale.insert(now.gid.clone(), changes.clone());
        Some(changes)
    }

    /// Whether an agent may have one lease more: while half of the planner is free, as many as one host needs, and
    /// after that a part of what is free, so that something is left for whoever comes.
    ///
    /// # Errors
    /// It has its share.
    fn has_room(&self, agent: &str) -> Result<(), LeaseRefusal> {
        let own = self.of.get(payer(agent)).copied().unwrap_or(0);
        let [most, of_one] = self.most;
        let free = most.saturating_sub(self.held.len());
        let share = if free > most / 2 { of_one } else { of_one.min(free / SHARE).max(1) };
        if self.held.len() >= most {
            Err(LeaseRefusal::Full)
        } else if own >= share {
            Err(LeaseRefusal::Share(own))
        } else {
            Ok(())
        }
    }

    /// The paths from these addresses, at most so many ways of so many ports a side.
    pub fn ways_from(&self, addresses: &[String], most_ways: usize, most_ports: usize) -> Vec<AddressPaths> {
        let holds = |address: &String| !self.stale.contains_key(address);
        let addresses: BTreeSet<&String> = addresses.iter().filter(|address| holds(address)).collect();
        let mut own = Vec::new();
        for from in addresses {
            let first = (from.clone(), String::new());
            let of_one = self.ways.range(first..).take_while(|((one, _), _)| one == from);
            own.extend(of_one.filter(|((_, to), _)| holds(to)).take(most_ways - own.len()));
        }
        let cut = |ports: &SourcePorts| ports.clone().map(|ports| ports.into_iter().take(most_ports).collect());
        let way = |((from, to), known): (&(String, String), &AddressPorts)| AddressPaths {
            from: from.clone(),
            to: to.clone(),
            ports: cut(&known.ports),
            first: known.first,
        };
        own.into_iter().map(way).collect()
    }

    /// Whether a path between these two is known.
    pub fn has_way(&self, from: &str, to: &str) -> bool {
        self.ways.contains_key(&(from.to_owned(), to.to_owned()))
    }

    /// Whether a lease is of a path that is known.
    pub fn leads(&self, lease: &Lease) -> bool {
        let known = self.ways.get(&(lease.from.clone(), lease.to.clone()));
        known.is_some_and(|known| known.ports[lease.side.index()].contains(&lease.source_port))
    }

    /// Gives a QP a source port, on the side with fewer QPs at both ends together; one that it had is given back,
    /// whether or not it gets another.
    ///
    /// # Errors
    /// Where there is none for it.
    pub fn grant(&mut self, holder: &PortHolder, from: &str, to: &str) -> Result<Lease, LeaseRefusal> {
        self.release(holder);
        let (from, to) = (from.to_owned(), to.to_owned());
        let Some(AddressPorts { ports, first }) = self.ways.get(&(from.clone(), to.clone())) else {
            return Err(LeaseRefusal::Unknown { from, to });
        };
        if let Some(address) = [&from, &to].into_iter().find(|address| self.stale.contains_key(*address)) {
            return Err(LeaseRefusal::Stale { address: address.clone(), what: self.stale[address].clone() });
        }
        self.has_room(&holder.agent)?;
        let load = |side: PortSide| {
            let ends = [(from.clone(), side, true), (to.clone(), side, false)];
            let [out, into] = ends.map(|link| self.loads.get(&link).copied().unwrap_or(0));
            (out.max(into), out + into, side != *first)
        };
        let sides = PortSide::BOTH.into_iter().filter(|side| !ports[side.index()].is_empty());
        let Some(side) = sides.min_by_key(|side| load(*side)) else { return Err(LeaseRefusal::NoPath { from, to }) };
        let uses = |port: &u16| self.uses.get(&(from.clone(), to.clone(), *port)).copied().unwrap_or(0);
        let source_port = *ports[side.index()].iter().min_by_key(|port| uses(port)).expect("it is not empty");
        let lease = Lease { from, to, source_port, side };
        self.restore(holder.clone(), lease.clone());
        Ok(lease)
    }

    /// Takes in a lease as it was.
    pub fn restore(&mut self, holder: PortHolder, lease: Lease) {
        self.release(&holder);
        for link in links(&lease) {
            *self.loads.entry(link).or_default() += 1;
        }
        *self.uses.entry(used(&lease)).or_default() += 1;
        *self.of.entry(payer(&holder.agent).to_owned()).or_default() += 1;
        self.held.insert(holder, lease);
    }

    /// Takes in a lease that an agent chose itself; whether there is room for it. One of a path that is not known, any
    /// more or at all, is not counted.
    pub fn take_in(&mut self, holder: &PortHolder, lease: &Lease) -> bool {
        let fits = self.leads(lease) && (self.held.contains_key(holder) || self.has_room(&holder.agent).is_ok());
        if fits {
            self.restore(holder.clone(), lease.clone());
        }
        fits
    }

    /// A QP is gone; whether it had a port.
    pub fn release(&mut self, holder: &PortHolder) -> bool {
        let Some(lease) = self.held.remove(holder) else { return false };
        for link in links(&lease) {
            less(&mut self.loads, &link);
        }
        less(&mut self.uses, &used(&lease));
        let payer = payer(&holder.agent);
        if let Some(count) = self.of.get_mut(payer) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(payer);
            }
        }
        true
    }

    /// All leases.
    pub fn held(&self) -> impl ExactSizeIterator<Item = (&PortHolder, &Lease)> {
        self.held.iter()
    }

    /// The lease of a QP.
    pub fn of(&self, holder: &PortHolder) -> Option<&Lease> {
        self.held.get(holder)
    }

    /// Who holds leases for this agent.
    pub fn of_agent(&self, agent: &str) -> Vec<(PortHolder, Lease)> {
        let first = PortHolder { agent: agent.to_owned(), process: String::new(), qp: 0 };
        let own = self.held.range(first..).take_while(|(holder, _)| holder.agent == agent);
        own.map(|(holder, lease)| (holder.clone(), lease.clone())).collect()
    }
}

/// Whose share a lease counts for: the certificate's, so that more names are no larger share.
fn payer(agent: &str) -> &str {
    agent.split(", ").next().unwrap_or(agent)
}

fn links(lease: &Lease) -> [PortDirection; 2] {
    [(lease.from.clone(), lease.side, true), (lease.to.clone(), lease.side, false)]
}

fn used(lease: &Lease) -> (String, String, u16) {
    (lease.from.clone(), lease.to.clone(), lease.source_port)
}

fn less<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::Host;

    use super::*;
    use crate::catalog::{BondPort, CatalogDirection, CatalogEnd, QpPort, SourcePortPath};

    /// Host `a` has address `name` and `b` has `peer`; every other port leads left.
    fn catalog(name: &str, peer: &str, is_right_faulty: bool) -> Catalog {
        let end = |host, gid: &str| CatalogEnd {
            host,
            device: String::new(),
            gid: gid.to_owned(),
            mode: String::new(),
            policy: String::new(),
            selection: String::new(),
            ports: vec![BondPort { name: "p".to_owned(), mac: String::new() }],
            down: Vec::new(),
        };
        let path = |port: u16| {
            let side = PortSide::BOTH[usize::from(port % 2)];
            let fault = (is_right_faulty && side == PortSide::Right).then(|| "dead".to_owned());
            let (leaves, arrives) = (Some(side), Some(side));
            SourcePortPath {
                leaves,
                arrives,
                sent: 9,
                received: 9,
                fault,
                ..SourcePortPath::unknown(QpPort::hashed(port))
            }
        };
        let direction =
            |from| CatalogDirection { from, lag: None, paths: (50_000..50_008).map(path).collect(), ways: Vec::new() };
        Catalog {
            subsystem: "pair".to_owned(),
            measured: String::new(),
            measured_unix_s: 0,
            ends: vec![end(Host::A, name), end(Host::B, peer)],
            directions: vec![direction(Host::A), direction(Host::B)],
        }
    }

    fn holder(qp: u32) -> PortHolder {
        PortHolder { agent: "a".to_owned(), process: "7".to_owned(), qp }
    }

    #[test]
    fn qps_are_dealt_to_both_sides_and_given_back() {
        let mut leases = Leases::new(&[catalog("x", "y", false)]);
        let granted: Vec<Lease> = (0..9).map(|qp| leases.grant(&holder(qp), "x", "y").expect("a port")).collect();
        let sides: Vec<usize> = granted.iter().map(|lease| lease.side.index()).collect();
        assert_eq!(sides, [0, 1, 0, 1, 0, 1, 0, 1, 0]);
        let mut ports: Vec<u16> = granted[..8].iter().map(|lease| lease.source_port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 8, "each its own while there are enough");
        assert!(leases.release(&holder(6)));
        let next = leases.grant(&holder(6), "x", "y").expect("a port");
        assert_eq!(next, granted[6], "the port that nobody has");
        for qp in [0, 2, 4] {
            assert!(leases.release(&holder(qp)));
        }
        assert!(!leases.release(&holder(0)), "once");
        let next: Vec<usize> =
            (20..22).map(|qp| leases.grant(&holder(qp), "x", "y").expect("a port").side.index()).collect();
        assert_eq!(next, [0, 0], "where fewer are");
        // Asking again moves nothing else, and gives the old one back.
        let before = leases.held().count();
        leases.grant(&holder(20), "x", "y").expect("a port");
        assert_eq!(leases.held().count(), before);
    }

    #[test]
    fn one_agent_leaves_room_for_others_and_all_leave_room_for_those_that_come() {
        let mut leases = Leases { most: [16_000, 1_600], ..Leases::new(&[catalog("x", "y", false)]) };
        let of = |agent: u32, qp| PortHolder { agent: format!("agent{agent:03}"), ..holder(qp) };
        let lease = leases.grant(&of(0, 0), "x", "y").expect("a port");
        let taken = (1..1_000_000).take_while(|qp| leases.take_in(&of(0, *qp), &lease)).count();
        assert_eq!(taken + 1, 1_600);
        assert!(matches!(leases.grant(&of(0, u32::MAX), "x", "y"), Err(LeaseRefusal::Share(1_600))));
        assert!(leases.take_in(&of(0, 7), &lease), "one that it has");
        (1..30).for_each(|liar| (0..2_000).for_each(|qp| _ = leases.take_in(&of(liar, qp), &lease)));
        assert!(leases.held().len() < 15_000, "liars took all: {}", leases.held().len());
        for honest in 100..120 {
            (0..4).for_each(|qp| _ = leases.grant(&of(honest, qp), "x", "y").expect("room for all that come"));
        }
        for (holder, _) in leases.of_agent("agent000") {
            leases.release(&holder);
        }
        assert_eq!((leases.of_agent("agent000").len(), leases.of.contains_key("agent000")), (0, false));
        assert_eq!(leases.of_agent("agent100").len(), 4);
    }

    #[test]
    fn a_host_that_changed_gets_nothing_until_it_is_as_it_was() {
        let catalog = catalog("x", "y", false);
        let mut leases = Leases::new(std::slice::from_ref(&catalog));
        leases.grant(&holder(1), "x", "y").expect("a port");
        let was = &catalog.ends[1];
        let now =
            CatalogEnd { host: Host::A, down: vec!["p".to_owned()], mode: "active-backup".to_owned(), ..was.clone() };
        let changes = leases.compare(&now).expect("a port is down");
        assert_eq!(changes, "bond's mode none, now active-backup; ports that are down none, now p");
        let refused = leases.grant(&holder(2), "x", "y").expect_err("its peer changed").to_string();
        assert!(refused.contains("the catalog of y is stale") && refused.contains("now p"), "{refused}");
        assert!(leases.ways_from(&["x".to_owned()], 9, 9).is_empty());
        assert_eq!(leases.compare(was), None);
        leases.grant(&holder(2), "x", "y").expect("a port");
        assert_eq!((leases.ways_from(&["x".to_owned()], 9, 9).len(), leases.held().len()), (1, 2));
        assert_eq!(leases.compare(&CatalogEnd { gid: "z".to_owned(), ..now }), None, "nobody measured it");
    }

    #[test]
    fn a_receiver_of_two_senders_has_both_in_mind() {
        let mut leases = Leases::new(&[catalog("x", "y", false), catalog("z", "y", false)]);
        let first = leases.grant(&holder(1), "x", "y").expect("a port").side;
        let second = leases.grant(&PortHolder { agent: "z".to_owned(), ..holder(1) }, "z", "y").expect("a port").side;
        assert_eq!((first, second), (PortSide::Left, PortSide::Right));
    }

    #[test]
    fn faulty_and_unknown_ways_are_refused_or_avoided() {
        let mut leases = Leases::new(&[catalog("x", "y", true)]);
        assert!((0..5).all(|qp| leases.grant(&holder(qp), "x", "y").expect("a port").side == PortSide::Left));
        assert!(matches!(leases.grant(&holder(9), "x", "w"), Err(LeaseRefusal::Unknown { .. })));
        let mut catalog = catalog("x", "y", true);
        catalog.directions[0].paths.retain(|path| path.fault.is_some());
        let mut leases = Leases::new(&[catalog]);
        assert!(matches!(leases.grant(&holder(9), "x", "y"), Err(LeaseRefusal::NoPath { .. })));
        assert_eq!(leases.held().count(), 0);
    }

    #[test]
    fn what_was_stored_comes_back_with_its_loads() {
        let mut leases = Leases::new(&[catalog("x", "y", false)]);
        (0..3).for_each(|qp| drop(leases.grant(&holder(qp), "x", "y").expect("a port")));
        let mut again = Leases::new(&[catalog("x", "y", false)]);
        leases.held().for_each(|(holder, lease)| again.restore(holder.clone(), lease.clone()));
        assert_eq!(again.grant(&holder(3), "x", "y"), leases.grant(&holder(3), "x", "y"));
        assert_eq!(again.of_agent("a").len(), 4);
    }

    /// So many hosts send to one receiver, each knows of itself alone, and each has so many QPs.
    fn left_and_right(qps: &[u32]) -> [u32; 2] {
        let names: Vec<String> = (0..qps.len()).map(|host| format!("host{host:03}")).collect();
        let catalogs: Vec<Catalog> = names.iter().map(|name| catalog(name, "y", false)).collect();
        let planner = Leases::new(&catalogs);
        let mut sides = [0; 2];
        for (name, qps) in names.iter().zip(qps) {
            let mut agent = Leases::default();
            agent.set_ways(planner.ways_from(std::slice::from_ref(name), 9, 9));
            for qp in 0..*qps {
                sides[agent.grant(&holder(qp), name, "y").expect("a port").side.index()] += 1;
            }
        }
        sides
    }

    #[test]
    fn hosts_that_know_nothing_of_each_other_are_level_at_a_receiver_if_they_have_as_many_qps() {
        for hosts in 1..20 {
            for qps in 1..10 {
                let [left, right] = left_and_right(&vec![qps; hosts]);
                assert!(left.abs_diff(right) <= 1, "{hosts} hosts, {qps} QPs: {left} {right}");
            }
        }
        // Else they are off by one for each host at most: where all with an odd number begin at one side.
        for hosts in 2..20_u32 {
            let qps: Vec<u32> = (0..hosts).map(|host| 8 - host % 2).collect();
            let [left, right] = left_and_right(&qps);
            assert!(left.abs_diff(right) <= hosts.div_ceil(2), "{hosts} hosts: {left} {right}");
        }
    }

    #[test]
    fn an_agent_that_was_told_the_ways_chooses_as_the_planner_would() {
        let planner = Leases::new(&[catalog("x", "y", true), catalog("z", "y", false)]);
        let ways = planner.ways_from(&["x".to_owned(), "z".to_owned()], 9, 2);
        assert_eq!(ways.len(), 2, "what others send is none of its business");
        let mut own = Leases::default();
        own.set_ways(ways);
        let granted: Vec<Lease> = (0..4).map(|qp| own.grant(&holder(qp), "z", "y").expect("a port")).collect();
        assert_eq!(granted.iter().map(|lease| lease.side.index()).collect::<Vec<_>>(), [1, 0, 1, 0]);
        assert!(granted.iter().all(|lease| planner.leads(lease)));
        assert!(
            own.grant(&holder(9), "x", "y").is_ok_and(|lease| lease.side == PortSide::Left),
            "the other side is faulty"
        );
        assert!(matches!(own.grant(&holder(9), "y", "x"), Err(LeaseRefusal::Unknown { .. })));
        let forged = Lease { source_port: 50_000, ..granted[0].clone() };
        assert!(!planner.leads(&forged), "it leads to the other side");
        own.set_ways(Vec::new());
        assert_eq!((own.held().count(), own.of(&holder(0))), (4, Some(&granted[0])));
    }
}

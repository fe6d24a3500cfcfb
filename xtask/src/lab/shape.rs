//! Which guests a lab has and how they are linked: the plain pair, or hosts with two ports each behind a leaf.

/// MTU of all links: an RDMA path MTU of 4096 and all below it.
pub const LINK_MTU: u32 = 4200;

/// Memory of a guest; what of it is never touched takes none of the machine's. Units: MiB.
pub const MEMORY_MIB: u64 = 1024;

/// Hosts behind the leaf unless more are asked for.
pub const FEWEST: usize = 2;

/// A lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Two hosts and a link.
    Pair,
    /// So many hosts, two links from each to a leaf.
    DualPort(usize),
}

/// An end of a link: the file of this guest's socket, and guest and file of the other's.
pub type End = (&'static str, &'static str, &'static str);

/// What sets a guest apart from the others of its lab.
#[derive(Debug, Clone)]
pub struct Role {
    pub name: &'static str,
    /// Counts from 1 in the lab.
    number: usize,
    pub links: Vec<End>,
    /// The agent's port on 127.0.0.1, if it is free; the leaf has none.
    pub port: Option<u16>,
    /// Its address for the other hosts.
    pub address: &'static str,
}

/// A host behind the leaf: name, the leaf's ends of its left and its right link, both ends of its link to the first
/// host, its agent's port, its address.
type Host = (&'static str, [&'static str; 2], &'static str, u16, &'static str);

/// The third link of the hosts is beside the leaf: agents ask their planner over it, which runs on the first host.
const HOSTS: [Host; 4] = [
    ("a", ["a-left", "a-right"], "side", 7473, "10.9.1.1"),
    ("b", ["b-left", "b-right"], "side", 7474, "10.9.2.1"),
    ("c", ["c-left", "c-right"], "side-c", 7475, "10.9.3.1"),
    ("d", ["d-left", "d-right"], "side-d", 7476, "10.9.4.1"),
];

/// Most hosts behind the leaf.
pub const MOST: usize = HOSTS.len();

fn pair() -> Vec<Role> {
    let role = |name, number, peer, port, address| Role {
        name,
        number,
        links: vec![("link", peer, "link")],
        port: Some(port),
        address,
    };
    vec![role("a", 1, "b", 7471, "10.77.0.1"), role("b", 2, "a", 7472, "10.77.0.2")]
}

fn dual_port(hosts: usize) -> Vec<Role> {
    let hosts = &HOSTS[..hosts.clamp(FEWEST, MOST)];
    let (first, others) = hosts.split_first().expect("there are hosts");
    let mut leaf = Role { name: "leaf", number: 9, links: Vec::new(), port: None, address: "" };
    let mut roles = Vec::new();
    for (at, (name, ports, side, port, address)) in hosts.iter().copied().enumerate() {
        let mut links: Vec<End> =
            ["left", "right"].into_iter().zip(ports).map(|(own, port)| (own, "leaf", port)).collect();
        if at == 0 {
            links.extend(others.iter().map(|(other, _, side, ..)| (*side, *other, *side)));
        } else {
            links.push((side, first.0, side));
        }
        leaf.links.extend(ports.into_iter().zip(["left", "right"]).map(|(port, theirs)| (port, name, theirs)));
        roles.push(Role { name, number: at + 1, links, port: Some(port), address });
    }
    roles.push(leaf);
    roles
}

impl Shape {
    pub fn roles(self) -> Vec<Role> {
        match self {
            Self::Pair => pair(),
            Self::DualPort(hosts) => dual_port(hosts),
        }
    }

    /// Whether hosts have two ports.
    pub fn is_dual(self) -> bool {
        matches!(self, Self::DualPort(_))
    }

    /// The shipped pair file.
    pub fn pair_file(self) -> &'static str {
        if self.is_dual() { "tests/guests/dual-port.yaml" } else { "tests/guests/pair.yaml" }
    }
}

impl Role {
    /// What the guest's kernel is started with, for `tests/guests/init`.
    pub fn arguments(&self, shape: Shape) -> String {
        let Self { name, number, address, links, .. } = self;
        let role = match (shape, self.port) {
            (Shape::Pair, _) => format!("kelpie.address={address}"),
            // The interface of the agent comes after those of the links.
            (_, Some(_)) => format!("kelpie.role=host kelpie.number={number} kelpie.control=eth{}", links.len()),
            (_, None) => "kelpie.role=leaf".to_owned(),
        };
        format!("kelpie.name={name} {role} kelpie.mtu={LINK_MTU}")
    }

    /// MAC of its interface for the link at this place.
    pub fn link_mac(&self, place: usize) -> String {
        format!("52:54:00:4b:{place:02x}:0{}", self.number)
    }

    /// MAC of the interface over which the agent is reached.
    pub fn control_mac(&self) -> String {
        format!("52:54:00:4b:0f:0{}", self.number)
    }
}

/// A port of a leaf of so many hosts: the guest at its other end, that one's interface, and the leaf's own.
pub fn leaf_port(hosts: usize, name: &str) -> Option<(&'static str, &'static str, String)> {
    let leaf = dual_port(hosts).pop()?;
    let place = leaf.links.iter().position(|(own, ..)| *own == name)?;
    let (_, host, side) = leaf.links[place];
    Some((host, if side == "left" { "eth0" } else { "eth1" }, format!("eth{place}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_has_two_ends_that_name_each_other() {
        for (shape, guests, links) in
            [(Shape::Pair, 2, 1), (Shape::DualPort(2), 3, 5), (Shape::DualPort(3), 4, 8), (Shape::DualPort(4), 5, 11)]
        {
            let roles = shape.roles();
            let ends: Vec<_> = (roles.iter())
                .flat_map(|role| role.links.iter().map(|(own, peer, theirs)| [(role.name, *own), (*peer, *theirs)]))
                .collect();
            for [own, other] in &ends {
                assert!(ends.contains(&[*other, *own]), "{own:?} {other:?}");
            }
            assert_eq!((roles.len(), ends.len()), (guests, 2 * links), "{shape:?}");
        }
    }

    #[test]
    fn ports_of_the_leaf_are_those_of_its_hosts() {
        assert_eq!(leaf_port(2, "b-right"), Some(("b", "eth1", "eth3".to_owned())));
        assert_eq!(leaf_port(4, "d-left"), Some(("d", "eth0", "eth6".to_owned())));
        assert_eq!((leaf_port(2, "c-left"), leaf_port(4, "a-top")), (None, None));
    }
}

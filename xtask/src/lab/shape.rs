//! Which guests a lab has and how they are linked: the plain pair, or two hosts with two ports each behind a leaf.

/// MTU of all links: an RDMA path MTU of 4096 and all below it.
const LINK_MTU: u32 = 4200;

/// A lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Two hosts and a link.
    Pair,
    /// Two hosts, two links from each to a leaf.
    DualPort,
}

/// What sets a guest apart from the others of its lab.
#[derive(Debug, Clone, Copy)]
pub struct Role {
    pub name: &'static str,
    /// Counts from 1 in the lab.
    number: u32,
    /// Ends of links: the file of this guest's socket, and guest and file of the other's.
    links: &'static [(&'static str, &'static str, &'static str)],
    /// The agent's port on 127.0.0.1, if it is free; the leaf has none.
    pub port: Option<u16>,
    /// Its address for the other hosts.
    pub address: &'static str,
}

const PAIR: [Role; 2] = [
    Role { name: "a", number: 1, links: &[("link", "b", "link")], port: Some(7471), address: "10.77.0.1" },
    Role { name: "b", number: 2, links: &[("link", "a", "link")], port: Some(7472), address: "10.77.0.2" },
];

/// The third link of the hosts is beside the leaf: agents ask their planner over it.
const DUAL_PORT: [Role; 3] = [
    Role {
        name: "a",
        number: 1,
        links: &[("left", "leaf", "a-left"), ("right", "leaf", "a-right"), ("side", "b", "side")],
        port: Some(7473),
        address: "10.9.1.1",
    },
    Role {
        name: "b",
        number: 2,
        links: &[("left", "leaf", "b-left"), ("right", "leaf", "b-right"), ("side", "a", "side")],
        port: Some(7474),
        address: "10.9.2.1",
    },
    Role {
        name: "leaf",
        number: 3,
        links: &[
            ("a-left", "a", "left"),
            ("a-right", "a", "right"),
            ("b-left", "b", "left"),
            ("b-right", "b", "right"),
        ],
        port: None,
        address: "",
    },
];

impl Shape {
    pub fn roles(self) -> &'static [Role] {
        match self {
            Self::Pair => &PAIR,
            Self::DualPort => &DUAL_PORT,
        }
    }

    /// The shipped pair file.
    pub fn pair_file(self) -> &'static str {
        match self {
            Self::Pair => "lab/pair.yaml",
            Self::DualPort => "lab/dual-port.yaml",
        }
    }
}

impl Role {
    /// What the guest's kernel is started with, for `lab/init`.
    pub fn arguments(&self, shape: Shape) -> String {
        let Role { name, number, address, .. } = self;
        let role = match (shape, self.port) {
            (Shape::Pair, _) => format!("kelpie.address={address}"),
            (Shape::DualPort, Some(_)) => format!("kelpie.role=host kelpie.number={number}"),
            (Shape::DualPort, None) => "kelpie.role=leaf".to_owned(),
        };
        format!("kelpie.name={name} {role} kelpie.mtu={LINK_MTU}")
    }

    /// QEMU's options for its links; `socket` says where a guest's socket of a name is.
    pub fn link_options(&self, socket: impl Fn(&str, &str) -> Option<String>) -> Option<Vec<String>> {
        let mut options = Vec::new();
        for (place, (own, peer, theirs)) in self.links.iter().enumerate() {
            let (local, remote) = (socket(self.name, own)?, socket(peer, theirs)?);
            let mac = format!("52:54:00:4b:{place:02x}:0{}", self.number);
            options.extend([
                "-netdev".to_owned(),
                format!("dgram,id={own},local.type=unix,local.path={local},remote.type=unix,remote.path={remote}"),
                "-device".to_owned(),
                format!("virtio-net-pci,netdev={own},mac={mac},host_mtu={LINK_MTU},romfile="),
            ]);
        }
        Some(options)
    }

    /// MAC of the interface over which the agent is reached.
    pub fn control_mac(&self) -> String {
        format!("52:54:00:4b:0f:0{}", self.number)
    }
}

/// A port of the leaf: the guest at its other end, that one's interface, and the leaf's own.
pub fn leaf_port(name: &str) -> Option<(&'static str, &'static str, &'static str)> {
    Some(match name {
        "a-left" => ("a", "eth0", "eth0"),
        "a-right" => ("a", "eth1", "eth1"),
        "b-left" => ("b", "eth0", "eth2"),
        "b-right" => ("b", "eth1", "eth3"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_has_two_ends_that_name_each_other() {
        for shape in [Shape::Pair, Shape::DualPort] {
            let ends: Vec<_> = (shape.roles().iter())
                .flat_map(|role| role.links.iter().map(|(own, peer, theirs)| [(role.name, *own), (*peer, *theirs)]))
                .collect();
            for [own, other] in &ends {
                assert!(ends.contains(&[*other, *own]), "{own:?} {other:?}");
            }
        }
    }
}

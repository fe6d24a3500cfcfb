//! A host as `topology/1`: its PCIe tree, sockets, memory and GPUs, read from YAML, and routes through it. What is
//! measured on a host is elsewhere.

use std::collections::VecDeque;

use indexmap::IndexMap;
use kelpie_spaces::document::utf8;
use kelpie_spaces::{DocumentError, read_tagged};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// Tag of the format.
pub const FORMAT: &str = "topology/1";
/// Most nodes of a host. Source: our choice, because a host of 16 GPUs and 16 NICs has under 100.
const MAX_NODES: usize = 1024;
/// Most links of a host. Source: our choice; a tree has one less than it has nodes, and hosts are nearly trees.
const MAX_LINKS: usize = 4096;
/// Longest name of a node. Units: characters. Source: our choice, because a PCI address has 12.
const MAX_NAME: usize = 64;
/// Most lanes, and the highest speed in GT/s. Source: our choice, above what the PCI Express Base Specification has.
const MAX_LANES: u32 = 64;
const MAX_SPEED: f64 = 1024.0;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// An RDMA NIC.
    Rnic,
    /// A PCIe switch.
    PcieSwitch,
    /// A root port, where one is told from its socket.
    RootPort,
    /// A CPU socket with its root complex.
    Socket,
    /// One of several NUMA nodes of a socket.
    NumaNode,
    /// The memory of a socket or of a NUMA node.
    Memory,
    /// A GPU.
    Gpu,
    /// An `NVMe` drive.
    Nvme,
    /// A switch of the network, to which ports of RNICs are cabled.
    NetworkSwitch,
}

impl NodeKind {
    /// Whether loopback traffic may end here.
    pub fn is_endpoint(self) -> bool {
        matches!(self, Self::Rnic | Self::Memory | Self::Gpu | Self::Nvme)
    }
}

/// A node with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name, unique in the host.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its PCI address, `domain:bus:device.function`, if the file has one.
    pub pci: Option<String>,
    /// Rate of an RNIC's port, if the file has one. Units: Gbit/s.
    pub port_gbps: Option<f64>,
}

/// A link between two nodes, given by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostLink {
    /// The node that the file names first.
    pub a: usize,
    /// The other one.
    pub b: usize,
    /// What it carries one way, if the file says. Units: Gbit/s.
    pub gbps: Option<f64>,
    /// What it would carry if it had trained as wide and as fast as both of its ends can. Units: Gbit/s.
    pub able_gbps: Option<f64>,
    /// Lanes that it trained to, and that both ends have; only where these differ.
    pub lanes: Option<[u32; 2]>,
    /// The same of the speed. Units: GT/s.
    pub gt_per_sec: Option<[f64; 2]>,
}

impl HostLink {
    /// What it carries, or would carry if it had trained as it could. Units: Gbit/s.
    pub fn best_gbps(&self) -> Option<f64> {
        self.able_gbps.or(self.gbps)
    }

    /// How it trained, if that is less than it could: such as `x4 of x16`.
    pub fn trained(&self) -> Option<String> {
        let lanes = self.lanes.map(|[now, most]| format!("x{now} of x{most}"));
        let speed = self.gt_per_sec.map(|[now, most]| format!("{now} of {most} GT/s"));
        let parts: Vec<String> = lanes.into_iter().chain(speed).collect();
        (!parts.is_empty()).then(|| parts.join(" at "))
    }
}

/// Rules that are broken: the path of the key, and the rule.
pub type BrokenRules = Vec<(String, String)>;

/// The inside of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTopology {
    nodes: Vec<Node>,
    links: Vec<HostLink>,
    /// Per node, its neighbours as `(link, node)`, in the order of the file.
    neighbours: Vec<Vec<(usize, usize)>>,
}

/// What follows the tag.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    host: HostContent,
    /// What only a simulation of the host needs to know, and reads by itself.
    #[serde(default, rename = "simulation")]
    _simulation: IgnoredAny,
}

/// The file as it is written.
#[derive(Serialize)]
struct WrittenHost {
    kelpie: &'static str,
    host: HostContent,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostContent {
    nodes: IndexMap<String, NodeKind>,
    links: Vec<LinkEntry>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pci: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    ports: IndexMap<String, f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    a: String,
    b: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gbps: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    able_gbps: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lanes: Option<[u32; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gt_per_sec: Option<[f64; 2]>,
}

impl HostTopology {
    /// Reads a host from YAML.
    ///
    /// # Errors
    /// Names file, line, key and rule of each mistake; `file` stands for the file.
    ///
    /// # Examples
    /// ```
    /// let text = "kelpie: topology/1\nhost:\n  nodes: {rnic0: rnic, cpu0: socket}\n  links: [{a: rnic0, b: cpu1}]\n";
    /// let error = kelpie_topology::HostTopology::from_yaml("t.yaml", text).unwrap_err();
    /// let first = "t.yaml:4:25: host.links[0].b: no node `cpu1`; name it under `nodes`";
    /// assert!(error.to_string().starts_with(first), "{error}");
    /// ```
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, DocumentError> {
        let (document, HostFile { host, .. }) = read_tagged(file, text, FORMAT)?;
        Self::of(&host).map_err(|broken| document.refuse_each(broken))
    }

    /// As [`HostTopology::from_yaml`], from bytes that may not be text.
    ///
    /// # Errors
    /// Also [`DocumentError::NotUtf8`] with the offset.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        Self::from_yaml(file, utf8(file, bytes)?)
    }

    /// A host of these nodes and links; links name nodes by index.
    ///
    /// # Errors
    /// The paths of the keys that break rules, as a file would have them, and the rules.
    pub fn new(nodes: Vec<Node>, links: Vec<HostLink>) -> Result<Self, BrokenRules> {
        let sizes = [("host.nodes", nodes.len(), MAX_NODES), ("host.links", links.len(), MAX_LINKS)];
        let mut broken: BrokenRules = sizes.into_iter().filter_map(broken_size).collect();
        let mut neighbours = vec![Vec::new(); nodes.len()];
        for (index, link) in links.iter().enumerate().take(MAX_LINKS) {
            let mut refuse =
                |key: &str, rule: &str| broken.push((format!("host.links[{index}].{key}"), rule.to_owned()));
            if link.a == link.b {
                refuse("b", "a link joins two different nodes");
            }
            if links[..index].iter().any(|other| [(link.a, link.b), (link.b, link.a)].contains(&(other.a, other.b))) {
                refuse("a", "these two nodes have a link already; write one with the sum of both");
            }
            if link.gbps.is_some_and(|gbps| !(gbps.is_finite() && gbps > 0.0)) {
                refuse("gbps", "write a bandwidth above 0 Gbit/s, or leave it out");
            }
            if link.able_gbps.is_some_and(|able| !(able.is_finite() && able >= link.gbps.unwrap_or(0.0) && able > 0.0))
            {
                refuse("able_gbps", "write a bandwidth of at least `gbps`, or leave it out");
            }
            if link.lanes.is_some_and(|[now, most]| !(1..=most).contains(&now) || most > MAX_LANES) {
                refuse("lanes", "write the lanes that are in use, and those that there are: at most 64");
            }
            if link.gt_per_sec.is_some_and(|[now, most]| !(now > 0.0 && now <= most && most <= MAX_SPEED)) {
                refuse("gt_per_sec", "write the speed in use, and the best one: at most 1024 GT/s");
            }
            neighbours[link.a].push((index, link.b));
            neighbours[link.b].push((index, link.a));
        }
        for node in &nodes {
            if let Some(gbps) = node.port_gbps {
                let refuse = |rule: &str| (format!("host.ports.{}", node.name), rule.to_owned());
                if node.kind != NodeKind::Rnic {
                    broken.push(refuse("only an RNIC has a port"));
                } else if !(gbps.is_finite() && gbps > 0.0) {
                    broken.push(refuse("write a rate above 0 Gbit/s, or leave it out"));
                }
            }
        }
        if broken.is_empty() { Ok(Self { nodes, links, neighbours }) } else { Err(broken) }
    }

    fn of(content: &HostContent) -> Result<Self, BrokenRules> {
        let mut broken = BrokenRules::new();
        for name in content.nodes.keys() {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:/".contains(letter);
            if name.is_empty() || name.chars().count() > MAX_NAME || !name.chars().all(is_plain) {
                let rule = format!("a name has 1 to {MAX_NAME} letters, digits and any of _ - . : /");
                broken.push(("host.nodes".to_owned(), rule));
            }
        }
        let mut find = |name: &str, path: String| {
            let found = content.nodes.get_index_of(name);
            if found.is_none() {
                let name: String = name.chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect();
                broken.push((path, format!("no node `{name}`; name it under `nodes`")));
            }
            found
        };
        let mut links = Vec::with_capacity(content.links.len().min(MAX_LINKS));
        for (index, edge) in content.links.iter().enumerate() {
            let ends =
                [("a", &edge.a), ("b", &edge.b)].map(|(key, name)| find(name, format!("host.links[{index}].{key}")));
            if let [Some(a), Some(b)] = ends {
                let LinkEntry { gbps, able_gbps, lanes, gt_per_sec, .. } = *edge;
                links.push(HostLink { a, b, gbps, able_gbps, lanes, gt_per_sec });
            }
        }
        for name in content.pci.keys() {
            find(name, format!("host.pci.{name}"));
        }
        for name in content.ports.keys() {
            find(name, format!("host.ports.{name}"));
        }
        if !broken.is_empty() {
            return Err(broken);
        }
        let nodes = content.nodes.iter().map(|(name, kind)| Node {
            name: name.clone(),
            kind: *kind,
            pci: content.pci.get(name).cloned(),
            port_gbps: content.ports.get(name).copied(),
        });
        Self::new(nodes.collect(), links)
    }

    /// Writes the host; [`HostTopology::from_yaml`] reads the same host back.
    pub fn to_yaml(&self) -> String {
        let name = |index: usize| self.nodes[index].name.clone();
        let edge = |link: &HostLink| {
            let HostLink { a, b, gbps, able_gbps, lanes, gt_per_sec } = *link;
            LinkEntry { a: name(a), b: name(b), gbps, able_gbps, lanes, gt_per_sec }
        };
        let pci = |node: &Node| node.pci.clone().map(|address| (node.name.clone(), address));
        let content = HostContent {
            nodes: self.nodes.iter().map(|node| (node.name.clone(), node.kind)).collect(),
            links: self.links.iter().map(edge).collect(),
            pci: self.nodes.iter().filter_map(pci).collect(),
            ports: self.nodes.iter().filter_map(|node| Some((node.name.clone(), node.port_gbps?))).collect(),
        };
        serde_yaml::to_string(&WrittenHost { kelpie: FORMAT, host: content })
            .expect("a host holds only words and numbers, which YAML can write")
    }

    /// The nodes, in the order of the file.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The links, in the order of the file.
    pub fn links(&self) -> &[HostLink] {
        &self.links
    }

    /// The index of a node.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The name of a link: its two nodes as the file has them, such as `psw0|cpu0`.
    pub fn link_name(&self, link: usize) -> String {
        let HostLink { a, b, .. } = self.links[link];
        format!("{}|{}", self.nodes[a].name, self.nodes[b].name)
    }

    /// The links of a shortest path inside of the host, from one node to the other; of several the one whose links the
    /// file has first. `None` if there is none. Endpoints do not forward.
    pub fn route(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        self.shortest(from, to, |link| !self.is_cable(link))
    }

    /// As [`HostTopology::route`], over cables and switches of the network alone: from an RNIC's port to that of
    /// another.
    pub fn cable_route(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        self.shortest(from, to, |link| self.is_cable(link))
    }

    /// Whether a link is a cable of the network: between RNICs, between their switches, or from one to the other.
    pub fn is_cable(&self, link: usize) -> bool {
        let HostLink { a, b, .. } = self.links[link];
        [a, b].iter().all(|node| matches!(self.nodes[*node].kind, NodeKind::Rnic | NodeKind::NetworkSwitch))
    }

    /// The memory to which an RNIC has the fewest links, and these.
    pub fn nearest_memory(&self, rnic: usize) -> Option<(usize, Vec<usize>)> {
        let memories = (0..self.nodes.len()).filter(|node| self.nodes[*node].kind == NodeKind::Memory);
        let reached = memories.filter_map(|memory| Some((memory, self.route(rnic, memory)?)));
        reached.min_by_key(|(_, links)| links.len())
    }

    fn shortest(&self, from: usize, to: usize, may_use: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let mut came: Vec<Option<(usize, usize)>> = vec![None; self.nodes.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                break;
            }
            if node != from && self.nodes[node].kind.is_endpoint() {
                continue;
            }
            for &(link, next) in self.neighbours[node].iter().filter(|(link, _)| may_use(*link)) {
                if next != from && came[next].is_none() {
                    came[next] = Some((link, node));
                    queue.push_back(next);
                }
            }
        }
        let (mut path, mut node) = (Vec::new(), to);
        while node != from {
            let (link, before) = came[node]?;
            path.push(link);
            node = before;
        }
        path.reverse();
        Some(path)
    }

    /// The node at the other end of a link.
    pub fn other_end(&self, link: usize, node: usize) -> usize {
        let HostLink { a, b, .. } = self.links[link];
        if a == node { b } else { a }
    }

    /// The nodes along a route from `from`, both ends included.
    pub fn nodes_on(&self, from: usize, route: &[usize]) -> Vec<usize> {
        let mut nodes = vec![from];
        for &link in route {
            nodes.push(self.other_end(link, nodes[nodes.len() - 1]));
        }
        nodes
    }

    /// The kinds of the nodes along a route from `from`, both ends included.
    pub fn kinds(&self, from: usize, route: &[usize]) -> Vec<NodeKind> {
        self.nodes_on(from, route).into_iter().map(|node| self.nodes[node].kind).collect()
    }
}

/// Whether the RNIC alone limits a healthy path through nodes of these kinds: to any memory, and to what is below its
/// own switch. Source: Hostping (Liu et al., NSDI 2023), "affinitive". Another RNIC is not: the port limits what goes
/// there.
pub fn is_affinitive(kinds: &[NodeKind]) -> bool {
    let is_root = |kind: &NodeKind| matches!(kind, NodeKind::Socket | NodeKind::NumaNode | NodeKind::RootPort);
    match kinds.last() {
        Some(NodeKind::Memory) => true,
        Some(NodeKind::Rnic) => false,
        _ => !kinds.iter().any(is_root),
    }
}

fn broken_size((path, count, most): (&str, usize, usize)) -> Option<(String, String)> {
    (!(1..=most).contains(&count)).then(|| (path.to_owned(), format!("{count} entries; write 1 to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "\
kelpie: topology/1
host:
  nodes: {rnic0: rnic, psw0: pcie_switch, cpu0: socket, mem0: memory, gpu0: gpu}
  links:
  - {a: rnic0, b: psw0, gbps: 252}
  - {a: gpu0, b: psw0, gbps: 252}
  - {a: psw0, b: cpu0}
  - {a: mem0, b: cpu0}
";

    #[test]
    fn a_host_is_read_routed_and_written() {
        let host = HostTopology::from_yaml("t.yaml", SMALL).expect("it keeps the rules");
        let node = |name| host.node(name).expect("it is there");
        let route = host.route(node("rnic0"), node("mem0")).expect("a tree is connected");
        let names: Vec<String> = route.iter().map(|link| host.link_name(*link)).collect();
        assert_eq!(names, ["rnic0|psw0", "psw0|cpu0", "mem0|cpu0"]);
        assert_eq!(
            host.kinds(node("rnic0"), &route),
            [NodeKind::Rnic, NodeKind::PcieSwitch, NodeKind::Socket, NodeKind::Memory]
        );
        assert_eq!(host.route(node("gpu0"), node("gpu0")), Some(Vec::new()));
        assert_eq!(HostTopology::from_yaml("t.yaml", &host.to_yaml()), Ok(host));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (from, to, expected) in [
            ("topology/1", "topology/9", "t.yaml:1: kelpie: this is format `topology/9`"),
            ("host:", "cluster:", "t.yaml:1: the document: key `host` is missing"),
            ("gpu0: gpu", "gpu0: toaster", "t.yaml:3: host.nodes"),
            (
                "b: psw0, gbps: 252}\n  - {a: gpu0",
                "b: psw9, gbps: 252}\n  - {a: gpu0",
                "t.yaml:5: host.links[0].b: no node `psw9`",
            ),
            ("{a: psw0, b: cpu0}", "{a: psw0, b: psw0}", "t.yaml:7: host.links[2].b: a link joins two different"),
            ("{a: psw0, b: cpu0}", "{a: psw0, b: gpu0}", "t.yaml:7: host.links[2].a: these two nodes have a link"),
            ("gbps: 252", "gbps: -1", "t.yaml:5: host.links[0].gbps: write a bandwidth above 0"),
            ("gbps: 252", "gbits: 252", "t.yaml:5: host.links[0]"),
            ("gbps: 252", "gbps: 252, able_gbps: 126", "t.yaml:5: host.links[0].able_gbps: write a bandwidth of at"),
            ("gbps: 252", "lanes: [16, 4]", "t.yaml:5: host.links[0].lanes: write the lanes"),
            ("gbps: 252", "gt_per_sec: [0, 32]", "t.yaml:5: host.links[0].gt_per_sec: write the speed"),
            ("rnic0: rnic", "\"a|b\": rnic", "t.yaml:3: host.nodes: a name has"),
        ] {
            assert!(SMALL.contains(from), "{from}");
            let error = HostTopology::from_yaml("t.yaml", &SMALL.replacen(from, to, 1)).expect_err(to).to_string();
            let (place, rule) = expected.split_once(": ").expect("a line and a rule");
            assert!(error.starts_with(&format!("{place}:")) && error.contains(rule), "{to}: {error}");
        }
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let text = SMALL
            .replace("b: psw0, gbps: 252", "b: psw0, gbps: -1")
            .replace("{a: psw0, b: cpu0}", "{a: psw0, b: psw0}");
        let error = HostTopology::from_yaml("t.yaml", &text).expect_err("two mistakes").to_string();
        assert!(error.contains("links[0].gbps") && error.contains("links[2].b"), "{error}");
        let text = SMALL.replace("a: gpu0", "a: gpu7").replace("{a: psw0, b: cpu0}", "{a: psw0, b: cpu8}");
        let error = HostTopology::from_yaml("t.yaml", &text).expect_err("two mistakes").to_string();
        assert!(error.contains("`gpu7`") && error.contains("`cpu8`"), "{error}");
    }

    #[test]
    fn cables_lead_from_port_to_port_and_nothing_else_goes_over_them() {
        let text = SMALL
            .replace("gpu0: gpu}", "gpu0: gpu, rnic1: rnic, leaf0: network_switch}")
            .replace("  - {a: psw0, b: cpu0}\n", "  - {a: psw0, b: cpu0}\n  - {a: rnic1, b: cpu0}\n")
            + "  - {a: rnic0, b: leaf0, gbps: 200}\n  - {a: rnic1, b: leaf0}\n";
        let host = HostTopology::from_yaml("t.yaml", &text).expect("it keeps the rules");
        let node = |name| host.node(name).expect("it is there");
        let names = |route: Option<Vec<usize>>| -> Vec<String> {
            route.unwrap_or_default().iter().map(|link| host.link_name(*link)).collect()
        };
        assert_eq!(names(host.cable_route(node("rnic1"), node("rnic0"))), ["rnic1|leaf0", "rnic0|leaf0"]);
        assert_eq!(names(host.route(node("rnic1"), node("rnic0"))), ["rnic1|cpu0", "psw0|cpu0", "rnic0|psw0"]);
        assert_eq!(host.route(node("rnic1"), node("leaf0")), None, "a switch of the network is outside");
        assert_eq!(host.cable_route(node("rnic0"), node("mem0")), None);
        assert_eq!(
            host.nearest_memory(node("rnic1")).map(|(memory, links)| (memory, links.len())),
            Some((node("mem0"), 2))
        );
        assert!(!is_affinitive(&[NodeKind::Rnic, NodeKind::NetworkSwitch, NodeKind::Rnic]));
    }

    #[test]
    fn what_is_not_connected_has_no_route_and_endpoints_do_not_forward() {
        let text = SMALL.replace("  - {a: mem0, b: cpu0}\n", "  - {a: mem0, b: gpu0}\n");
        let host = HostTopology::from_yaml("t.yaml", &text).expect("it keeps the rules");
        let node = |name| host.node(name).expect("it is there");
        assert_eq!(host.route(node("rnic0"), node("mem0")), None);
    }
}

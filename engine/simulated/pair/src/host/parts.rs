//! The parameters of a host's parts: what each kind of link and node has, its default, and changing one by its name.

use kelpie_spaces::suggestion;
use kelpie_topology::HostTopology;
use kelpie_topology::host::NodeKind;

/// A parameter of a kind of part: its key, its default, and what it may be.
type PartParameter = (&'static str, f64, [f64; 2]);

/// A share of lanes or channels that are left.
const SHARE: [f64; 2] = [0.001, 1.0];
/// Rates of any link. Units: Gbit/s.
const RATE: [f64; 2] = [0.001, 1e6];
/// Latencies of any part. Units: nanoseconds.
const TIME: [f64; 2] = [0.0, 1e6];
/// Off or on.
const SWITCH: [f64; 2] = [0.0, 1.0];
/// What others use of a link; all of it would leave nothing.
const LOAD: [f64; 2] = [0.0, 0.95];

/// A PCIe link. Source: PCIe base specification 4.0, 16 lanes of 16 GT/s; latency: our choice, with it and those below
/// the classes of Hostping's slide come out (docs/measured/host-matrix.md has both).
static PCIE: &[PartParameter] =
    &[("gbps", 252.0, RATE), ("width", 1.0, SHARE), ("latency_ns", 75.0, TIME), ("load", 0.0, LOAD)];
/// The channels of a memory, reads and writes together. Source: our choice, half of eight channels of DDR4-3200.
const MEMORY_LINK: &[PartParameter] = &[("gbps", 900.0, RATE), ("width", 1.0, SHARE)];
/// The interconnect of two sockets, in each direction, and what PCIe peers get of it. Source: Hostping's slide: remote
/// memory has 196 Gbit/s, a GPU of the other socket 72.
const SOCKETS: &[PartParameter] = &[
    ("gbps", 400.0, RATE),
    ("peer_gbps", 76.0, RATE),
    ("width", 1.0, SHARE),
    ("latency_ns", 20.0, TIME),
    ("load", 0.0, LOAD),
];
/// Between the NUMA nodes of a socket. Source: our choice, wider than what a NIC needs.
const INTERNAL: &[PartParameter] =
    &[("gbps", 1200.0, RATE), ("width", 1.0, SHARE), ("latency_ns", 20.0, TIME), ("load", 0.0, LOAD)];
/// A port with its cable, each way: what both ends were trained to. Source: ports of 200 Gbit/s as in Hostping's hosts;
/// latency: our choice, that of the pair's links (`port.link_delay_ns`).
static CABLE: &[PartParameter] = &[("gbps", 200.0, RATE), ("width", 1.0, SHARE), ("latency_ns", 250.0, TIME)];
/// A switch of the network. Source: our choice, the cut-through latency of switches for data centres is 0.3 to 0.9 us.
const NETWORK_SWITCH: &[PartParameter] = &[("latency_ns", 500.0, TIME)];
/// A socket, which passes traffic between PCIe peers more slowly than to memory. Source: Hostping's slide, 92 Gbit/s to
/// a GPU of the same socket and 3.48 us.
const SOCKET: &[PartParameter] = &[("peer_gbps", 96.0, RATE), ("peer_latency_ns", 70.0, TIME)];
/// Whether Access Control Services redirect what peers send each other.
const SWITCH_NODE: &[PartParameter] = &[("acs", 0.0, SWITCH)];
/// Whether it translates addresses itself, so that what it sends to peers need not go through the root; and what
/// applications receive through it from other hosts, of which all goes to the nearest memory. Units: Gbit/s.
const RNIC: &[PartParameter] = &[("ats", 1.0, SWITCH), ("service_gbps", 0.0, [0.0, 1e6])];
/// DRAM. Source: our choice, with the link: a read takes 0.8 us, as in model F.
const MEMORY: &[PartParameter] = &[("latency_ns", 500.0, TIME)];
/// A GPU's memory. Source: Hostping's slide: 0.29 us later than DRAM.
const GPU: &[PartParameter] = &[("latency_ns", 790.0, TIME)];

/// A link or node with its parameters.
#[derive(Debug, Clone)]
pub struct HostPart {
    name: String,
    rows: &'static [PartParameter],
    values: Vec<f64>,
}

impl HostPart {
    fn new(name: String, rows: &'static [PartParameter]) -> Self {
        Self { name, rows, values: rows.iter().map(|row| row.1).collect() }
    }

    fn place(&self, key: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.0 == key)
    }

    /// A parameter that parts of this kind have.
    pub fn get(&self, key: &str) -> f64 {
        self.place(key).map_or(0.0, |place| self.values[place])
    }

    /// What a link of this kind carries now.
    pub fn rate(&self) -> f64 {
        self.get("gbps") * self.get("width")
    }
}

/// All parts of a host: links and nodes, each by its index in the topology.
#[derive(Debug, Clone)]
pub struct HostParts {
    /// The links.
    pub links: Vec<HostPart>,
    /// The nodes.
    pub nodes: Vec<HostPart>,
}

impl HostParts {
    /// Parts with their defaults, and links as fast as the topology says.
    pub fn new(host: &HostTopology) -> Self {
        let kind = |node: usize| host.nodes()[node].kind;
        let is_cpu = |node: usize| matches!(kind(node), NodeKind::Socket | NodeKind::NumaNode);
        let link = |(index, link): (usize, &kelpie_topology::host::HostLink)| {
            let rows = if host.is_cable(index) {
                CABLE
            } else if [kind(link.a), kind(link.b)].contains(&NodeKind::Memory) {
                MEMORY_LINK
            } else if is_cpu(link.a) && is_cpu(link.b) {
                if kind(link.a) == kind(link.b) { SOCKETS } else { INTERNAL }
            } else {
                PCIE
            };
            let mut part = HostPart::new(host.link_name(index), rows);
            if let Some(gbps) = link.gbps {
                part.values[0] = gbps;
            }
            part
        };
        let node = |node: &kelpie_topology::host::Node| {
            let rows = match node.kind {
                NodeKind::Rnic => RNIC,
                NodeKind::PcieSwitch => SWITCH_NODE,
                NodeKind::Socket | NodeKind::NumaNode => SOCKET,
                NodeKind::Memory => MEMORY,
                NodeKind::Gpu => GPU,
                NodeKind::NetworkSwitch => NETWORK_SWITCH,
                NodeKind::RootPort | NodeKind::Nvme => &[],
            };
            HostPart::new(node.name.clone(), rows)
        };
        Self {
            links: host.links().iter().enumerate().map(link).collect(),
            nodes: host.nodes().iter().map(node).collect(),
        }
    }

    /// PCIe links with fewer lanes than they have in the topology, and ports that were trained to less, as their status
    /// shows it.
    pub fn narrow_links(&self) -> Vec<String> {
        let has_status = |part: &&HostPart| std::ptr::eq(part.rows, PCIE) || std::ptr::eq(part.rows, CABLE);
        let is_narrow = |part: &&HostPart| has_status(part) && part.get("width") < 1.0;
        self.links.iter().filter(is_narrow).map(|part| part.name.clone()).collect()
    }

    /// Changes a parameter of a part; a link is named by its nodes in either order.
    ///
    /// # Errors
    /// What is wrong with the name, the key or the value, and what there is instead.
    pub fn set(&mut self, name: &str, key: &str, value: f64) -> Result<(), String> {
        let swapped = name.split_once('|').map(|(a, b)| format!("{b}|{a}"));
        let is_it = |part: &HostPart| part.name == name || Some(&part.name) == swapped.as_ref();
        if !self.links.iter().chain(&self.nodes).any(is_it) {
            let all = self.links.iter().chain(&self.nodes).map(|part| part.name.as_str());
            let hint = suggestion(name, all).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return Err(format!("no part `{}` in this host{hint}", shown(name)));
        }
        let part = self.links.iter_mut().chain(&mut self.nodes).find(|part| is_it(part)).expect("looked for above");
        let Some(place) = part.place(key) else {
            let keys: Vec<&str> = part.rows.iter().map(|row| row.0).collect();
            let keys = if keys.is_empty() { "no parameters".to_owned() } else { keys.join(", ") };
            return Err(format!("`{}` has no parameter `{}`: it has {keys}", part.name, shown(key)));
        };
        let (_, _, [least, most]) = part.rows[place];
        if !(least..=most).contains(&value) {
            return Err(format!("{}.{key}: {value} is outside {least} to {most}", part.name));
        }
        part.values[place] = value;
        Ok(())
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(64).collect()
}

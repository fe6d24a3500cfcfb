//! A cluster as `topology/1`: hosts whose NICs have one or two ports, leaves and spines, which links there are, and
//! which have failed. How a flow is hashed over them is in `ecmp`.

use std::collections::BTreeSet;

use kelpie_spaces::{DocumentError, read_tagged};
use serde::{Deserialize, Serialize};

/// Most NICs of a cluster. Source: our choice, six times the largest cluster that was planned here.
const MAX_NICS: u32 = 65_536;
/// Most leaves, spines or cables between two of them. Source: our choice, above the radix of today's switches.
const MAX_SWITCHES: u32 = 4096;
/// Most cables between leaves and spines. Source: our choice, which bounds what a file of a few lines can ask for.
const MAX_CABLES: u64 = 1 << 20;
/// Most entries of `failed`. Source: our choice.
const MAX_FAILED: usize = 4096;
/// Longest name of a host. Source: RFC 1123, section 2.1.
const MAX_NAME: usize = 255;

/// A port of a NIC; the ports of one side lead to the same leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortSide {
    /// The first port.
    Left,
    /// The second port.
    Right,
}

impl PortSide {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    /// 0 or 1.
    pub fn index(self) -> usize {
        usize::from(self == Self::Right)
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        Self::BOTH[1 - self.index()]
    }

    /// Its name in files and messages.
    pub fn name(self) -> &'static str {
        ["left", "right"][self.index()]
    }
}

/// Which leaves a NIC is cabled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Attach {
    /// All NICs of a host to the same leaves; hosts fill the leaves in order.
    #[default]
    Host,
    /// The n-th NICs of all hosts to the same leaves, as in rail-optimised fabrics.
    Rail,
}

/// What a file says under `cluster`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Hosts.
    pub hosts: u32,
    /// NICs of each host.
    pub nics_per_host: u32,
    /// Ports of each NIC: 1 or 2.
    #[serde(default = "two")]
    pub ports_per_nic: u32,
    /// What a port carries each way. Units: Gbit/s.
    pub port_gbps: f64,
    /// What a host can move through one NIC each way, if that is less than its ports. Units: Gbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_gbps: Option<f64>,
    /// Leaves: a multiple of the ports, where those of one side and those of the other take turns; or 1 for all ports.
    pub leaves: u32,
    /// Which leaves a NIC is cabled to.
    #[serde(default)]
    pub attach: Attach,
    /// Spines, each cabled to all leaves.
    #[serde(default)]
    pub spines: u32,
    /// Cables between a leaf and a spine.
    #[serde(default = "one")]
    pub cables: u32,
    /// What such a cable carries each way. Units: Gbit/s.
    #[serde(default)]
    pub cable_gbps: f64,
    /// Seed of every switch's and every bond's hash.
    #[serde(default)]
    pub hash_seed: u64,
    /// What has failed from the beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FabricPart>,
    /// What the hosts are called, in their order; none or all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_names: Vec<String>,
    /// The NIC of each rank of a job, counted through the cluster; the n-th rank has the n-th NIC if it is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_nics: Vec<u32>,
}

fn one() -> u32 {
    1
}

fn two() -> u32 {
    2
}

/// What can fail: a port of a NIC, or cables between a leaf and a spine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a part has the keys host, nic and port (left or right), or leaf, spine and, for one cable, cable; all but the \
                 port are whole numbers from 0"
)]
pub enum FabricPart {
    /// A port of a NIC.
    Port {
        /// Host, from 0.
        host: u32,
        /// NIC of the host, from 0.
        nic: u32,
        /// Which port.
        port: PortSide,
    },
    /// One cable, or all between a leaf and a spine.
    Cable {
        /// Leaf, from 0.
        leaf: u32,
        /// Spine, from 0.
        spine: u32,
        /// Which of them, from 0; all if it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cable: Option<u32>,
    },
}

/// One direction of something that carries bits. NICs, leaves and planes count from 0 through the cluster; a plane is a
/// cable of a spine, `spine x cables + cable`, so that each leaf has one link of each plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FabricLink {
    /// From a host's memory into the NIC.
    NicOut(u32),
    /// From the NIC into the host's memory.
    NicIn(u32),
    /// From a port to its leaf.
    PortOut(u32, PortSide),
    /// From the leaf to a port.
    PortIn(u32, PortSide),
    /// From a leaf to a spine: leaf and plane.
    Up(u32, u32),
    /// From a spine to a leaf: leaf and plane.
    Down(u32, u32),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    cluster: Cluster,
}

#[derive(Serialize)]
struct WrittenCluster<'c> {
    kelpie: &'static str,
    cluster: &'c Cluster,
}

impl Cluster {
    /// Tag of the format.
    pub const FORMAT: &'static str = "topology/1";

    /// Reads a cluster from YAML.
    ///
    /// # Errors
    /// Names file, line, key and rule of each mistake; `file` stands for the file.
    ///
    /// # Examples
    /// ```
    /// let text = "kelpie: topology/1\ncluster:\n  hosts: 2\n  nics_per_host: 1\n  port_gbps: 200\n  leaves: 3\n";
    /// let error = kelpie_topology::Cluster::from_yaml("t.yaml", text).unwrap_err();
    /// assert!(error.to_string().contains("cluster.leaves: 3 leaves"), "{error}");
    /// ```
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, DocumentError> {
        let (document, ClusterFile { cluster }) = read_tagged::<ClusterFile>(file, text, Self::FORMAT)?;
        document.refuse_all(cluster.broken_rules().into_iter().map(|(key, rule)| (format!("cluster.{key}"), rule)))?;
        Ok(cluster)
    }

    /// The file again.
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(&WrittenCluster { kelpie: Self::FORMAT, cluster: self })
            .expect("numbers and words are YAML")
    }

    fn broken_rules(&self) -> Vec<(String, String)> {
        let mut broken: Vec<(String, String)> = Vec::new();
        let mut refuse = |key: &str, rule: String| broken.push((key.to_owned(), rule));
        let nics = u64::from(self.hosts) * u64::from(self.nics_per_host);
        if nics == 0 || nics > u64::from(MAX_NICS) {
            refuse("hosts", format!("{nics} NICs; 1 to {MAX_NICS} are accepted"));
        }
        let has_ports = (1..=2).contains(&self.ports_per_nic);
        if !has_ports {
            refuse("ports_per_nic", "write 1 or 2".to_owned());
        }
        let speeds = [("port_gbps", Some(self.port_gbps)), ("nic_gbps", self.nic_gbps)];
        let cables = [("cable_gbps", (self.spines > 0).then_some(self.cable_gbps))];
        for (key, speed) in speeds.into_iter().chain(cables) {
            if speed.is_some_and(|speed| !(speed > 0.0 && speed <= 1e6)) {
                refuse(key, "write Gbit/s above 0, at most 1000000".to_owned());
            }
        }
        let (leaves, ports) = (self.leaves, self.ports_per_nic);
        if has_ports && (leaves == 0 || leaves > MAX_SWITCHES || (leaves > 1 && !leaves.is_multiple_of(ports))) {
            refuse("leaves", format!("{leaves} leaves; write 1, or a multiple of {ports} up to {MAX_SWITCHES}"));
        } else if has_ports && self.groups() > 1 && self.spines == 0 {
            refuse("spines", "leaves of different hosts need a spine".to_owned());
        }
        if self.spines > MAX_SWITCHES || self.cables == 0 || self.cables > MAX_SWITCHES {
            refuse("cables", format!("write 1 to {MAX_SWITCHES}"));
        } else if u64::from(leaves) * u64::from(self.spines) * u64::from(self.cables) > MAX_CABLES {
            refuse("spines", format!("more than {MAX_CABLES} cables between leaves and spines"));
        }
        if self.failed.len() > MAX_FAILED {
            refuse("failed", format!("at most {MAX_FAILED} entries are accepted"));
        }
        // Names, ranks and what failed are counted against the rest.
        if broken.is_empty() {
            broken.extend(self.broken_names());
            broken.extend(self.broken_ranks(nics));
            let unknown =
                |(index, part): (usize, &FabricPart)| Some((format!("failed[{index}]"), self.unknown(*part)?));
            broken.extend(self.failed.iter().enumerate().filter_map(unknown));
        }
        broken
    }

    fn broken_names(&self) -> Option<(String, String)> {
        if self.host_names.is_empty() {
            return None;
        }
        if self.host_names.len() != self.hosts as usize {
            let rule = format!("{} names for {} hosts; write one for each", self.host_names.len(), self.hosts);
            return Some(("host_names".to_owned(), rule));
        }
        let is_name = |name: &String| {
            let letters = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
            (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(letters) && !name.starts_with('-')
        };
        let mut seen = BTreeSet::new();
        let wrong = self.host_names.iter().position(|name| !is_name(name) || !seen.insert(name));
        let rule = "write a name of letters, digits, `-`, `.` and `_` that no other host has";
        wrong.map(|place| (format!("host_names[{place}]"), rule.to_owned()))
    }

    fn broken_ranks(&self, nics: u64) -> Option<(String, String)> {
        if self.rank_nics.len() > MAX_NICS as usize {
            return Some(("rank_nics".to_owned(), format!("more than {MAX_NICS} ranks")));
        }
        let wrong = self.rank_nics.iter().position(|nic| u64::from(*nic) >= nics);
        wrong.map(|place| (format!("rank_nics[{place}]"), format!("no such NIC; write 0 to {}", nics - 1)))
    }

    /// The NIC of a rank of a job; none if the cluster has no such rank.
    pub fn nic_of_rank(&self, rank: u32) -> Option<u32> {
        if self.rank_nics.is_empty() {
            (rank < self.nics()).then_some(rank)
        } else {
            self.rank_nics.get(rank as usize).copied()
        }
    }

    /// Ranks that the cluster has room for.
    pub fn ranks(&self) -> u32 {
        if self.rank_nics.is_empty() { self.nics() } else { self.rank_nics.len() as u32 }
    }

    /// What a host is called: its name, else its number.
    pub fn host_name(&self, host: u32) -> String {
        self.host_names.get(host as usize).cloned().unwrap_or_else(|| host.to_string())
    }

    /// Why there is no such part, if there is none.
    pub fn unknown(&self, part: FabricPart) -> Option<String> {
        match part {
            FabricPart::Port { host, nic, port } => {
                let there = host < self.hosts && nic < self.nics_per_host && (port.index() as u32) < self.ports_per_nic;
                let (hosts, nics, ports) = (self.hosts, self.nics_per_host, self.ports_per_nic);
                (!there)
                    .then(|| format!("no such port: {hosts} hosts with {nics} NICs of {ports} ports, counted from 0"))
            }
            FabricPart::Cable { leaf, spine, cable } => {
                let there = leaf < self.leaves && spine < self.spines && cable.unwrap_or(0) < self.cables;
                let (leaves, spines, cables) = (self.leaves, self.spines, self.cables);
                let rule =
                    || format!("no such cable: {leaves} leaves, {spines} spines, {cables} cables, counted from 0");
                (!there).then(rule)
            }
        }
    }

    /// NICs of the cluster.
    pub fn nics(&self) -> u32 {
        self.hosts * self.nics_per_host
    }

    /// The n-th NIC of a host.
    pub fn nic(&self, host: u32, nic: u32) -> u32 {
        host * self.nics_per_host + nic
    }

    /// Ports that a NIC has.
    pub fn sides(&self) -> &'static [PortSide] {
        &PortSide::BOTH[..self.ports_per_nic as usize]
    }

    /// Sets of leaves that NICs share: one leaf per side, or one for all ports.
    fn groups(&self) -> u32 {
        if self.leaves == 1 { 1 } else { self.leaves / self.ports_per_nic }
    }

    /// The leaf at a port of a NIC.
    pub fn leaf(&self, nic: u32, side: PortSide) -> u32 {
        if self.leaves == 1 {
            return 0;
        }
        let (host, of_host) = (nic / self.nics_per_host, nic % self.nics_per_host);
        let group = match self.attach {
            Attach::Host => host / self.hosts.div_ceil(self.groups()),
            Attach::Rail => of_host % self.groups(),
        };
        group * self.ports_per_nic + side.index() as u32
    }

    /// Planes: cables from a leaf to all spines.
    pub fn planes(&self) -> u32 {
        self.spines * self.cables
    }

    /// All links, in the order of [`Cluster::index`].
    pub fn links(&self) -> impl Iterator<Item = FabricLink> + '_ {
        let nics = 0..self.nics();
        let ports = move || (0..self.nics()).flat_map(|nic| self.sides().iter().map(move |side| (nic, *side)));
        let cables = move || (0..self.leaves).flat_map(|leaf| (0..self.planes()).map(move |plane| (leaf, plane)));
        let own = nics.clone().map(FabricLink::NicOut).chain(nics.map(FabricLink::NicIn));
        let out = ports().map(|(nic, side)| FabricLink::PortOut(nic, side));
        let own = own.chain(out).chain(ports().map(|(nic, side)| FabricLink::PortIn(nic, side)));
        let up = cables().map(|(leaf, plane)| FabricLink::Up(leaf, plane));
        own.chain(up).chain(cables().map(|(leaf, plane)| FabricLink::Down(leaf, plane)))
    }

    /// Place of a link among all.
    pub fn index(&self, link: FabricLink) -> usize {
        let [nics, ports, planes] = [self.nics(), self.ports_per_nic, self.planes()].map(|count| count as usize);
        let cables = self.leaves as usize * planes;
        let ends = 2 * nics;
        let port = |nic: u32, side: PortSide| nic as usize * ports + side.index();
        let cable = |leaf: u32, plane: u32| leaf as usize * planes + plane as usize;
        match link {
            FabricLink::NicOut(nic) => nic as usize,
            FabricLink::NicIn(nic) => nics + nic as usize,
            FabricLink::PortOut(nic, side) => ends + port(nic, side),
            FabricLink::PortIn(nic, side) => ends + nics * ports + port(nic, side),
            FabricLink::Up(leaf, plane) => ends + 2 * nics * ports + cable(leaf, plane),
            FabricLink::Down(leaf, plane) => ends + 2 * nics * ports + cables + cable(leaf, plane),
        }
    }

    /// What a link carries. Units: Gbit/s.
    pub fn capacity_gbps(&self, link: FabricLink) -> f64 {
        match link {
            FabricLink::NicOut(_) | FabricLink::NicIn(_) => {
                self.nic_gbps.unwrap_or(self.port_gbps * f64::from(self.ports_per_nic))
            }
            FabricLink::PortOut(..) | FabricLink::PortIn(..) => self.port_gbps,
            FabricLink::Up(..) | FabricLink::Down(..) => self.cable_gbps,
        }
    }

    /// A name for people, such as `host 3 nic 0 left out`.
    pub fn name(&self, link: FabricLink) -> String {
        let nic = |nic: u32| format!("host {} nic {}", nic / self.nics_per_host, nic % self.nics_per_host);
        let side = |side: PortSide| if side == PortSide::Left { "left" } else { "right" };
        let cable = |plane: u32| format!("spine {} cable {}", plane / self.cables, plane % self.cables);
        match link {
            FabricLink::NicOut(n) => format!("{} out", nic(n)),
            FabricLink::NicIn(n) => format!("{} in", nic(n)),
            FabricLink::PortOut(n, s) => format!("{} {} out", nic(n), side(s)),
            FabricLink::PortIn(n, s) => format!("{} {} in", nic(n), side(s)),
            FabricLink::Up(leaf, plane) => format!("leaf {leaf} to {}", cable(plane)),
            FabricLink::Down(leaf, plane) => format!("{} to leaf {leaf}", cable(plane)),
        }
    }

    /// The links of a part, both directions.
    pub fn links_of(&self, part: FabricPart) -> Vec<FabricLink> {
        match part {
            FabricPart::Port { host, nic, port } => {
                let nic = self.nic(host, nic);
                vec![FabricLink::PortOut(nic, port), FabricLink::PortIn(nic, port)]
            }
            FabricPart::Cable { leaf, spine, cable } => {
                let cables = cable.map_or(0..self.cables, |cable| cable..cable + 1);
                let planes = cables.map(|cable| spine * self.cables + cable);
                planes.flat_map(|plane| [FabricLink::Up(leaf, plane), FabricLink::Down(leaf, plane)]).collect()
            }
        }
    }
}

/// Which links work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Working {
    works: Vec<bool>,
    /// Cables of each leaf that do not, up and down.
    failed_cables: Vec<[u32; 2]>,
}

impl Working {
    /// All but what the file says has failed.
    pub fn of(cluster: &Cluster) -> Self {
        let failed_cables = vec![[0; 2]; cluster.leaves as usize];
        let mut working = Self { works: vec![true; cluster.links().count()], failed_cables };
        cluster.failed.iter().for_each(|part| working.set(cluster, *part, false));
        working
    }

    /// A part fails, or works again.
    pub fn set(&mut self, cluster: &Cluster, part: FabricPart, works: bool) {
        for link in cluster.links_of(part) {
            let now = &mut self.works[cluster.index(link)];
            let of_leaf = match link {
                FabricLink::Up(leaf, _) => Some(&mut self.failed_cables[leaf as usize][0]),
                FabricLink::Down(leaf, _) => Some(&mut self.failed_cables[leaf as usize][1]),
                _ => None,
            };
            if let Some(failed) = of_leaf {
                *failed = *failed + u32::from(*now) - u32::from(works);
            }
            *now = works;
        }
    }

    /// Whether a link works.
    pub fn has(&self, cluster: &Cluster, link: FabricLink) -> bool {
        self.works[cluster.index(link)]
    }

    /// Whether all cables from a leaf to the spines work.
    pub fn has_all_up(&self, leaf: u32) -> bool {
        self.failed_cables[leaf as usize][0] == 0
    }

    /// Whether all cables from the spines to a leaf work.
    pub fn has_all_down(&self, leaf: u32) -> bool {
        self.failed_cables[leaf as usize][1] == 0
    }
}

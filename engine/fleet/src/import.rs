//! Inventories of what others know of a cluster: Slurm and Kubernetes name the hosts, a topology says where they are.
//! The formats differ between versions, so each key is read for what it has, and what is not understood is named.

pub mod hostlist;
mod infiniband;
mod kubernetes;
mod lldp;
pub mod slurm;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use kelpie_engine::verbs_host::Port;

use crate::inventory::{AGENT_PORT, Inventory, InventoryError, InventoryHost, InventoryNic, MOST_HOSTS};

/// Longest source. Units: bytes. Source: our choice; `kubectl get nodes -o json` has some 16 KiB of each node.
pub const LONGEST_SOURCE: u64 = 128 << 20;
/// Names of hosts that a note shows. Source: our choice.
const SHOWN: usize = 5;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name, for errors.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What an inventory is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources {
    /// `sinfo --json`, or `scontrol show nodes --json`.
    pub slurm: Option<Source>,
    /// `kubectl get nodes -o json`.
    pub kubernetes: Option<Source>,
    /// Slurm's `topology.conf`.
    pub topology: Option<Source>,
    /// `ibnetdiscover`.
    pub ibnetdiscover: Option<Source>,
    /// `lldpctl -f json` or `json0`, by host and interface.
    pub lldp: Vec<(LldpPort, Source)>,
}

/// An interface of a host whose neighbour is the host's leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LldpPort {
    /// The host.
    pub host: String,
    /// The interface.
    pub interface: String,
}

/// What is wanted of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// Where the agents listen, if not on the port that they choose themselves.
    pub agent_port: Option<u16>,
    /// The devices that are measured of each host; those that a source names if there is none.
    pub devices: Vec<String>,
    /// Only nodes of this partition.
    pub partition: Option<String>,
    /// Only nodes in one of these states, such as `idle` or `drained`; all if there is none.
    pub states: Vec<String>,
    /// The label that has the leaf, if it is none of those that are known.
    pub leaf_label: Option<String>,
    /// The label that has the pod.
    pub pod_label: Option<String>,
}

/// An inventory, and what was left open.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The inventory.
    pub inventory: Inventory,
    /// In words, one line each.
    pub notes: Vec<String>,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A source is not what it should be.
    #[error("{file}:{line}: {what}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and the next step.
        what: String,
    },
    /// A source as a whole.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// What is wrong, and the next step.
        what: String,
    },
    /// What came of it is no inventory.
    #[error("what the sources come to is no inventory")]
    Inventory(#[from] InventoryError),
    /// It cannot be written.
    #[error("the inventory cannot be written")]
    Yaml(#[from] serde_yaml::Error),
}

impl Source {
    fn at(&self, line: usize, what: impl Into<String>) -> ImportError {
        ImportError::Line { file: self.name.clone(), line, what: what.into() }
    }

    fn whole(&self, what: impl Into<String>) -> ImportError {
        ImportError::File { file: self.name.clone(), what: what.into() }
    }

    /// Reads JSON, and names the command that makes it if it is none.
    fn json<T: serde::de::DeserializeOwned>(&self, command: &str) -> Result<T, ImportError> {
        serde_json::from_str(&self.text).map_err(|error| {
            let text = error.to_string();
            let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
            self.at(error.line().max(1), format!("{what}: give what `{command}` prints"))
        })
    }
}

/// A host as a source that names hosts has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Named {
    name: String,
    /// Where it is reached, if that is not its name.
    address: Option<String>,
    leaf: Option<String>,
    pod: Option<String>,
    labels: BTreeMap<String, String>,
}

/// Where a host is, as a topology has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Place {
    leaf: Option<String>,
    pod: Option<String>,
    /// Devices and their ports.
    nics: Vec<(String, u8)>,
}

/// The hosts of a topology by name, and what it left open.
#[derive(Debug, Default)]
struct Places {
    hosts: BTreeMap<String, Place>,
    notes: Vec<String>,
}

impl Places {
    /// A host by its name, or by its first part, as node descriptions have it.
    fn of(&self, host: &str) -> Option<(&String, &Place)> {
        let short = || self.hosts.get_key_value(host.split('.').next().unwrap_or(host));
        self.hosts.get_key_value(host).or_else(short)
    }
}

/// Makes an inventory.
///
/// # Errors
/// A source is not what it should be, no host is left, or the inventory breaks a rule.
pub fn import(sources: &Sources, options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut notes = Vec::new();
    let named = match (&sources.slurm, &sources.kubernetes) {
        (Some(source), _) => Some((source, slurm::hosts(source, options)?)),
        (None, Some(source)) => Some((source, kubernetes::hosts(source, options)?)),
        (None, None) => None,
    };
    let wanted: Option<BTreeSet<&str>> =
        named.as_ref().map(|(_, hosts)| hosts.iter().map(|host| host.name.as_str()).collect());
    let mut topologies: Vec<(&str, Places)> = Vec::new();
    if let Some(source) = &sources.topology {
        topologies.push((&source.name, topology::places(source)?));
    }
    if let Some(source) = &sources.ibnetdiscover {
        topologies.push((&source.name, infiniband::places(source, wanted.as_ref())?));
    }
    if let Some((_, first)) = sources.lldp.first() {
        topologies.push((&first.name, lldp::places(&sources.lldp)?));
    }
    let mut hosts = match named {
        Some((source, hosts)) if hosts.is_empty() => {
            return Err(source.whole("no node is left: look at --partition and --state, and at what it lists"));
        }
        Some((_, hosts)) => hosts,
        None => {
            let all: BTreeSet<&String> = topologies.iter().flat_map(|(_, places)| places.hosts.keys()).collect();
            all.into_iter().map(|name| Named { name: name.clone(), ..Named::default() }).collect()
        }
    };
    if hosts.len() > MOST_HOSTS {
        let file = topologies.first().map_or_else(String::new, |(name, _)| (*name).to_owned());
        let what =
            format!("{} hosts, and an inventory has {MOST_HOSTS} at most: choose some by --partition", hosts.len());
        return Err(ImportError::File { file, what });
    }
    hosts.sort_by_cached_key(|host| natural(&host.name));
    let mut nics: BTreeMap<String, Vec<(String, u8)>> = BTreeMap::new();
    for (name, places) in &mut topologies {
        notes.append(&mut places.notes);
        let mut met = BTreeSet::new();
        let mut absent = Vec::new();
        for host in &mut hosts {
            let Some((key, place)) = places.of(&host.name) else {
                absent.push(host.name.as_str());
                continue;
            };
            met.insert(key.clone());
            if place.leaf.is_some() {
                (host.leaf, host.pod) = (place.leaf.clone(), place.pod.clone());
            }
            if !place.nics.is_empty() {
                nics.insert(host.name.clone(), place.nics.clone());
            }
        }
        let without: Vec<&str> = places.hosts.keys().filter(|host| !met.contains(*host)).map(String::as_str).collect();
        notes.extend(some(&absent, &format!("not in {name}, so their place is unknown")));
        notes.extend(some(&without, &format!("in {name} alone, and left out")));
    }
    let hosts = hosts.into_iter().map(|host| inventory_host(host, &nics, options)).collect();
    let inventory = Inventory { hosts, tls: None, plain: false };
    // The rules are those of the file.
    let text = inventory.to_yaml()?;
    let inventory = Inventory::from_bytes(Path::new("the inventory"), text.as_bytes())?;
    Ok(Imported { inventory, notes })
}

fn inventory_host(host: Named, nics: &BTreeMap<String, Vec<(String, u8)>>, options: &ImportOptions) -> InventoryHost {
    let of_topology = nics.get(&host.name).cloned().unwrap_or_default();
    let devices: Vec<(String, u8)> = match &options.devices[..] {
        [] => of_topology,
        devices => devices.iter().map(|device| (device.clone(), Port::default().port)).collect(),
    };
    let port = options.agent_port.unwrap_or(AGENT_PORT);
    let agent = match host.address {
        Some(address) if address.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) => Some(format!("[{address}]:{port}")),
        Some(address) => Some(format!("{address}:{port}")),
        None => options.agent_port.map(|port| format!("{}:{port}", host.name)),
    };
    let nic =
        |(device, port)| InventoryNic { port: Port { device: Some(device), port, ..Port::default() }, rail: None };
    InventoryHost {
        agent,
        nics: devices.into_iter().map(nic).collect(),
        pod: host.pod.filter(|_| host.leaf.is_some()),
        leaf: host.leaf,
        labels: host.labels,
        name: host.name,
    }
}

/// Names of a note, the first few.
fn some(names: &[&str], what: &str) -> Option<String> {
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        count if count <= SHOWN => Some(format!("{shown}: {what}")),
        count => Some(format!("{shown} and {} more: {what}", count - SHOWN)),
    }
}

/// A name in the order of people: n2 before n10.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut was_digit = false;
    for letter in name.chars() {
        let digit = letter.to_digit(10).map(u64::from);
        if digit.is_none() && was_digit {
            parts.push((String::new(), 0));
        }
        if let Some(last) = parts.last_mut() {
            match digit {
                Some(digit) => last.1 = last.1.saturating_mul(10).saturating_add(digit),
                None => last.0.push(letter),
            }
        }
        was_digit = digit.is_some();
    }
    parts.push((name.to_owned(), 0));
    parts
}

/// A name that an inventory takes: without spaces and control characters.
fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() || letter == ' ' { '_' } else { letter }).take(255).collect()
}

/// Groups of leaves that share a switch above them, by leaf: the name of the first of these switches.
fn pods(above: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, String> {
    let mut pods: BTreeMap<String, String> = BTreeMap::new();
    let mut of_switch: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (leaf, switches) in above {
        for switch in switches {
            of_switch.entry(switch).or_default().push(leaf);
        }
    }
    for (leaf, switches) in above {
        let Some(first) = switches.first().filter(|_| !pods.contains_key(leaf)) else { continue };
        let mut next = vec![leaf.as_str()];
        while let Some(leaf) = next.pop() {
            if pods.insert(leaf.to_owned(), first.clone()).is_none() {
                next.extend(above[leaf].iter().flat_map(|switch| &of_switch[switch.as_str()]).copied());
            }
        }
    }
    pods
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn source(name: &str, text: &str) -> Source {
        Source { name: name.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn names_are_in_the_order_of_people() {
        let mut names = ["n10", "n2", "gpu-2-1", "gpu-1-10", "gpu-1-9", "n02"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["gpu-1-9", "gpu-1-10", "gpu-2-1", "n02", "n2", "n10"]);
    }

    #[test]
    fn leaves_that_share_a_switch_are_a_pod() {
        let above = [("l1", ["s1", "s2"]), ("l2", ["s2", "s3"]), ("l3", ["s4", "s5"])];
        let above = above
            .iter()
            .map(|(leaf, switches)| ((*leaf).to_owned(), switches.iter().map(|switch| (*switch).to_owned()).collect()));
        let pods = pods(&above.collect());
        assert_eq!([&pods["l1"], &pods["l2"], &pods["l3"]], ["s1", "s1", "s4"]);
    }

    #[test]
    fn slurm_names_the_hosts_and_the_fabric_their_places_and_devices() {
        let sources = Sources {
            slurm: Some(source("sinfo.json", include_str!("../tests/recorded/sinfo-22.05.json"))),
            ibnetdiscover: Some(source("ib.txt", include_str!("../tests/recorded/ibnetdiscover.txt"))),
            ..Sources::default()
        };
        let options = ImportOptions { agent_port: Some(28000), ..ImportOptions::default() };
        let imported = import(&sources, &options).expect("both are sound");
        let hosts = &imported.inventory.hosts;
        let seen: Vec<_> = hosts
            .iter()
            .map(|host| (host.name.as_str(), host.agent.as_deref(), host.leaf.as_deref(), host.pod.as_deref()))
            .collect();
        let expected = [
            ("node1", Some("127.0.1.1:28000"), Some("IBLEAF-01"), Some("IBSPINE-01")),
            ("node2", Some("127.0.1.2:28000"), Some("IBLEAF-01"), Some("IBSPINE-01")),
            ("node3", Some("127.0.1.3:28000"), Some("IBLEAF-02"), Some("IBSPINE-01")),
            ("node4", Some("127.0.1.4:28000"), None, None),
        ];
        assert_eq!(seen, expected);
        let devices: Vec<Option<&str>> = hosts[0].nics.iter().map(|nic| nic.port.device.as_deref()).collect();
        assert_eq!(devices, [Some("mlx5_0"), Some("mlx5_1")]);
        let notes = [
            "node3: the fabric does not know the names of their devices: give --device",
            "node4: not in ib.txt, so their place is unknown",
            "ufm1: in ib.txt alone, and left out",
        ];
        assert_eq!(imported.notes, notes);
        let yaml = imported.inventory.to_yaml().expect("YAML");
        assert!(!yaml.contains("tuning"), "what everybody has is not written: {yaml}");
        let one = import(&sources, &ImportOptions { devices: vec!["mlx5_2".to_owned()], ..options }).expect("sound");
        assert_eq!(one.inventory.hosts[3].nics.len(), 1);
    }

    #[test]
    fn a_topology_alone_names_the_hosts() {
        let text = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[10,9]\nSwitchName=top Switches=s[1-2]\n";
        let sources = Sources { topology: Some(source("t.conf", text)), ..Sources::default() };
        let imported = import(&sources, &ImportOptions::default()).expect("sound");
        let hosts: Vec<&str> = imported.inventory.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(hosts, ["n1", "n2", "n9", "n10"]);
        assert_eq!(imported.inventory.hosts[3].leaf.as_deref(), Some("s2"));
        assert!(imported.notes.is_empty() && imported.inventory.hosts[0].agent.is_none());
    }

    #[test]
    fn two_nodes_of_one_address_are_refused_by_the_rules_of_inventories() {
        let text = r#"{"nodes": [{"name": "a", "address": "10.0.0.1"}, {"name": "b", "address": "10.0.0.1"}]}"#;
        let sources = Sources { slurm: Some(source("sinfo.json", text)), ..Sources::default() };
        let error = import(&sources, &ImportOptions::default()).expect_err("twice");
        assert!(kelpie_engine::chain(&error).contains("10.0.0.1:7471 is the agent of another host"), "{error:?}");
    }
}

//! Inventories of what others know of a cluster: Slurm and Kubernetes name the hosts, a topology says where they are.
//! The formats differ between versions, so each key is read for what it has, and what is not understood is named.

pub mod hostlist;
mod infiniband;
mod kubernetes;
mod lldp;
pub mod slurm;
mod source;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use kelpie_engine::verbs_host::Port;
use kelpie_text::natural;

use crate::inventory::{AGENT_PORT, Inventory, InventoryHost, InventoryNic, MOST_HOSTS};

pub use source::{ImportError, ImportOptions, LONGEST_SOURCE, LldpPort, Source, Sources};
use source::{Named, Places, some};

/// An inventory, and what was left open.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The inventory.
    pub inventory: Inventory,
    /// In words, one line each.
    pub notes: Vec<String>,
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
    let inventory = Inventory { hosts, tls: None, plain: false, session: None };
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

#[cfg(test)]
mod tests {
    use super::source::tests::source;
    use super::*;

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

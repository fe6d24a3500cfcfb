//! What imports share: sources and their mistakes, hosts and places as a source has them, and their names.

use std::collections::{BTreeMap, BTreeSet};

use crate::inventory::InventoryError;

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
    pub(super) fn at(&self, line: usize, what: impl Into<String>) -> ImportError {
        ImportError::Line { file: self.name.clone(), line, what: what.into() }
    }

    pub(super) fn whole(&self, what: impl Into<String>) -> ImportError {
        ImportError::File { file: self.name.clone(), what: what.into() }
    }

    /// Reads JSON, and names the command that makes it if it is none.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, command: &str) -> Result<T, ImportError> {
        serde_json::from_str(&self.text).map_err(|error| {
            let text = error.to_string();
            let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
            self.at(error.line().max(1), format!("{what}: give what `{command}` prints"))
        })
    }
}

/// A host as a source that names hosts has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Named {
    pub name: String,
    /// Where it is reached, if that is not its name.
    pub address: Option<String>,
    pub leaf: Option<String>,
    pub pod: Option<String>,
    pub labels: BTreeMap<String, String>,
}

/// Where a host is, as a topology has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub leaf: Option<String>,
    pub pod: Option<String>,
    /// Devices and their ports.
    pub nics: Vec<(String, u8)>,
}

/// The hosts of a topology by name, and what it left open.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub hosts: BTreeMap<String, Place>,
    pub notes: Vec<String>,
}

impl Places {
    /// A host by its name, or by its first part, as node descriptions have it.
    pub(super) fn of(&self, host: &str) -> Option<(&String, &Place)> {
        let short = || self.hosts.get_key_value(host.split('.').next().unwrap_or(host));
        self.hosts.get_key_value(host).or_else(short)
    }
}

/// Names of a note, the first few.
pub(super) fn some(names: &[&str], what: &str) -> Option<String> {
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        count if count <= SHOWN => Some(format!("{shown}: {what}")),
        count => Some(format!("{shown} and {} more: {what}", count - SHOWN)),
    }
}

/// A name that an inventory takes: without spaces and control characters.
pub(super) fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() || letter == ' ' { '_' } else { letter }).take(255).collect()
}

/// Groups of leaves that share a switch above them, by leaf: the name of the first of these switches.
pub(super) fn pods(above: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, String> {
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
pub(super) mod tests {
    use super::*;

    pub fn source(name: &str, text: &str) -> Source {
        Source { name: name.to_owned(), text: text.to_owned() }
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
}

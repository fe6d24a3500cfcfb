//! `sinfo --json` and `scontrol show nodes --json`. Of 22.05, and of `scontrol` since 23.02, a node is a part of
//! `nodes`; of `sinfo` since 23.02 nodes that are alike are a group of `sinfo`. The state is a word and its flags, or
//! a list.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::source::{ImportError, ImportOptions, Named, Source};

/// What makes the file.
const COMMAND: &str = "sinfo --json";

/// A node as Slurm knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlurmNode {
    /// Its name.
    pub name: String,
    /// `NodeAddr`; empty if it is not known.
    pub address: String,
    /// State and flags in small letters, such as `idle` and `drain`.
    pub states: Vec<String>,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// Why jobs are kept from it; empty if nobody said.
    pub reason: String,
    /// Who said so; empty if it is not known.
    pub reason_by: String,
    /// When. Units: s since 1970. 0 if it is not known.
    pub reason_at: u64,
}

impl SlurmNode {
    /// Whether jobs are kept from it, or will be as soon as the present one is over.
    pub fn is_drained(&self) -> bool {
        self.is("drain") || self.is("drained") || self.is("draining")
    }

    /// Whether it has a state or a flag.
    pub fn is(&self, state: &str) -> bool {
        self.states.iter().any(|one| one.eq_ignore_ascii_case(state))
    }

    /// As `sinfo --states` has it: a node that is drained is not idle, too.
    fn is_any(&self, states: &[String]) -> bool {
        let is = |state: &String| match state.to_lowercase().as_str() {
            "drain" | "drained" | "draining" => self.is_drained(),
            state => self.is(state) && !self.is_drained(),
        };
        states.is_empty() || states.iter().any(is)
    }
}

#[derive(Deserialize)]
struct Document {
    nodes: Option<Vec<Node>>,
    sinfo: Option<Vec<Group>>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    state: Words,
    #[serde(default)]
    state_flags: Words,
    #[serde(default)]
    partitions: Words,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    reason_set_by_user: Option<String>,
    #[serde(default)]
    reason_changed_at: Number,
}

/// Nodes that are alike.
#[derive(Deserialize)]
struct Group {
    nodes: GroupNodes,
    #[serde(default)]
    node: GroupState,
    #[serde(default)]
    partition: GroupPartition,
    #[serde(default)]
    reason: GroupReason,
}

#[derive(Deserialize)]
struct GroupNodes {
    nodes: Vec<String>,
    #[serde(default)]
    addresses: Vec<String>,
}

#[derive(Deserialize, Default)]
struct GroupState {
    #[serde(default)]
    state: Words,
}

#[derive(Deserialize, Default)]
struct GroupPartition {
    #[serde(default)]
    name: Option<String>,
}

/// A text, or a text with who and when.
#[derive(Deserialize)]
#[serde(untagged)]
enum GroupReason {
    Text(Option<String>),
    Full {
        #[serde(default)]
        description: Option<String>,
        #[serde(default)]
        user: Option<String>,
        #[serde(default)]
        time: Number,
    },
}

impl Default for GroupReason {
    fn default() -> Self {
        Self::Text(None)
    }
}

/// One word, or a list of them.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Words {
    #[default]
    None,
    One(String),
    List(Vec<String>),
}

impl Words {
    fn list(self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::One(word) => vec![word],
            Self::List(words) => words,
        }
    }
}

/// A number, or one with whether it is set.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(untagged)]
enum Number {
    #[default]
    None,
    Plain(u64),
    Full {
        #[serde(default)]
        set: bool,
        #[serde(default)]
        number: u64,
    },
}

impl Number {
    fn value(self) -> u64 {
        match self {
            Self::Plain(number) | Self::Full { set: true, number } => number,
            _ => 0,
        }
    }
}

/// The nodes of a document, each once.
///
/// # Errors
/// It is none of the known documents.
pub fn nodes(source: &Source) -> Result<Vec<SlurmNode>, ImportError> {
    let document: Document = source.json(COMMAND)?;
    let mut nodes: BTreeMap<String, SlurmNode> = BTreeMap::new();
    match (document.nodes, document.sinfo) {
        (Some(list), _) => {
            for node in list {
                nodes.insert(node.name.clone(), node.into());
            }
        }
        (None, Some(groups)) => {
            for group in groups {
                add(source, &mut nodes, group)?;
            }
        }
        (None, None) => {
            return Err(source.whole(format!("neither `nodes` nor `sinfo` is in it: give what `{COMMAND}` prints")));
        }
    }
    Ok(nodes.into_values().collect())
}

impl From<Node> for SlurmNode {
    fn from(node: Node) -> Self {
        let states = node.state.list().into_iter().chain(node.state_flags.list());
        Self {
            name: node.name,
            address: node.address.unwrap_or_default(),
            states: states.map(|state| state.to_lowercase()).collect(),
            partitions: node.partitions.list(),
            reason: node.reason.unwrap_or_default(),
            reason_by: node.reason_set_by_user.unwrap_or_default(),
            reason_at: node.reason_changed_at.value(),
        }
    }
}

/// A group has the nodes of one partition in one state; a node of several partitions is in several groups.
fn add(source: &Source, nodes: &mut BTreeMap<String, SlurmNode>, group: Group) -> Result<(), ImportError> {
    let (reason, by, at) = match group.reason {
        GroupReason::Text(text) => (text, None, Number::None),
        GroupReason::Full { description, user, time } => (description, user, time),
    };
    let states: Vec<String> = group.node.state.list().iter().map(|state| state.to_lowercase()).collect();
    // Addresses are in order of the nodes, if each has one.
    let addresses = Some(group.nodes.addresses).filter(|addresses| addresses.len() == group.nodes.nodes.len());
    let partition = group.partition.name;
    for (place, name) in group.nodes.nodes.into_iter().enumerate() {
        for name in super::hostlist::expand(&name).map_err(|why| source.whole(why))? {
            let node = nodes.entry(name.clone()).or_insert_with(|| SlurmNode {
                name,
                address: addresses.as_ref().map(|addresses| addresses[place].clone()).unwrap_or_default(),
                states: states.clone(),
                reason: reason.clone().unwrap_or_default(),
                reason_by: by.clone().unwrap_or_default(),
                reason_at: at.value(),
                partitions: Vec::new(),
            });
            node.partitions.extend(partition.clone());
        }
    }
    Ok(())
}

pub(super) fn hosts(source: &Source, options: &ImportOptions) -> Result<Vec<Named>, ImportError> {
    let mut nodes = nodes(source)?;
    if let Some(partition) = &options.partition {
        if !nodes.iter().any(|node| node.partitions.contains(partition)) {
            let mut known: Vec<&str> = nodes.iter().flat_map(|node| &node.partitions).map(String::as_str).collect();
            known.sort_unstable();
            known.dedup();
            return Err(source.whole(format!("no node is in partition {partition}: there are {}", known.join(", "))));
        }
        nodes.retain(|node| node.partitions.contains(partition));
    }
    nodes.retain(|node| node.is_any(&options.states));
    let named = nodes.into_iter().map(|node| Named {
        address: Some(node.address).filter(|address| !address.is_empty() && *address != node.name),
        labels: Some(node.partitions.join(","))
            .filter(|partitions| !partitions.is_empty())
            .map(|partitions| ("partitions".to_owned(), partitions))
            .into_iter()
            .collect(),
        name: node.name,
        ..Named::default()
    });
    Ok(named.collect())
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::source;
    use super::*;

    fn recorded(name: &str) -> Source {
        let text = match name {
            "22.05" => include_str!("../../tests/recorded/sinfo-22.05.json"),
            "scontrol" => include_str!("../../tests/recorded/scontrol-24.11.json"),
            _ => include_str!("../../tests/recorded/sinfo-24.11.json"),
        };
        source(name, text)
    }

    #[test]
    fn three_versions_say_the_same_of_states_reasons_and_addresses() {
        for version in ["22.05", "scontrol", "sinfo"] {
            let nodes = nodes(&recorded(version)).expect(version);
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            assert_eq!(names, ["node1", "node2", "node3", "node4"], "{version}");
            let drained: Vec<bool> = nodes.iter().map(SlurmNode::is_drained).collect();
            assert_eq!(drained, [false, true, false, false], "{version}");
            assert!(nodes[1].reason.starts_with("kelpie: run=7 "), "{version}: {}", nodes[1].reason);
            assert_eq!((nodes[1].reason_by.as_str(), nodes[1].reason_at > 0), ("root", true), "{version}");
            assert!(nodes[0].is("idle") && nodes[0].reason.is_empty() && nodes[0].partitions == ["test"], "{version}");
            assert_eq!(nodes[2].address, "127.0.1.3", "{version}");
        }
    }

    #[test]
    fn nodes_are_chosen_by_partition_and_state() {
        let hosts = |states: &[&str]| {
            let states = states.iter().map(|state| (*state).to_owned()).collect();
            let options = ImportOptions { states, ..ImportOptions::default() };
            let hosts = hosts(&recorded("22.05"), &options).expect("sound");
            hosts.into_iter().map(|host| host.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(hosts(&[]), "node1 node2 node3 node4");
        assert_eq!(hosts(&["drained"]), "node2");
        assert_eq!(hosts(&["idle"]), "node1 node3 node4");
        assert_eq!(hosts(&["IDLE", "drained"]), "node1 node2 node3 node4");
        assert_eq!(hosts(&["down"]), "");
        let options = ImportOptions { partition: Some("gpu".to_owned()), ..ImportOptions::default() };
        let error = super::hosts(&recorded("22.05"), &options).expect_err("no such partition");
        assert_eq!(error.to_string(), "22.05: no node is in partition gpu: there are test");
    }

    #[test]
    fn what_is_none_of_these_documents_is_named_by_line() {
        let error = nodes(&source("x.json", "{\n  \"nodes\": [\n {\"nam\": 1}]}")).expect_err("no name");
        let text = error.to_string();
        assert!(text.starts_with("x.json:3: missing field `name`: give what `sinfo --json` prints"), "{text}");
        assert!(nodes(&source("x.json", "{}")).expect_err("nothing").to_string().contains("neither"));
        assert!(nodes(&source("x.json", "PARTITION AVAIL")).is_err());
    }
}

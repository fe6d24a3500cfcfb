//! `kubectl get nodes -o json`: names, internal addresses, and labels that say where a node is.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::source::{ImportError, ImportOptions, Named, Source, plain};

/// What makes the file.
const COMMAND: &str = "kubectl get nodes -o json";
/// Labels with the switch of a node, the first that it has counts. Source: NVIDIA Topograph, versions 0.x and 1.x;
/// AWS, whose third layer is next to the node.
const LEAVES: [&str; 3] =
    ["network.topology.nvidia.com/leaf", "fabric.topograph.run/tier-0", "topology.k8s.aws/network-node-layer-3"];
/// Labels with the switch above.
const PODS: [&str; 3] =
    ["network.topology.nvidia.com/spine", "fabric.topograph.run/tier-1", "topology.k8s.aws/network-node-layer-2"];
/// Labels that are kept.
const KEPT: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "network.topology.nvidia.com/accelerator",
];

#[derive(Deserialize)]
struct List {
    items: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    kind: Option<String>,
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    addresses: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

pub(super) fn hosts(source: &Source, options: &ImportOptions) -> Result<Vec<Named>, ImportError> {
    let list: List = source.json(COMMAND)?;
    let label = |node: &Node, asked: Option<&String>, known: &[&str]| {
        let keys = asked.map_or_else(|| known.to_vec(), |key| vec![key.as_str()]);
        let found = keys.iter().find_map(|key| node.metadata.labels.get(*key));
        found.filter(|value| !value.is_empty()).map(|value| plain(value))
    };
    let mut hosts = Vec::new();
    for node in list.items {
        if let Some(kind) = node.kind.as_ref().filter(|kind| *kind != "Node") {
            return Err(
                source.whole(format!("{} is a {kind} and no node: give what `{COMMAND}` prints", node.metadata.name))
            );
        }
        let address = node.status.addresses.iter().find(|address| address.kind == "InternalIP");
        hosts.push(Named {
            address: address.map(|address| address.address.clone()),
            leaf: label(&node, options.leaf_label.as_ref(), &LEAVES),
            pod: label(&node, options.pod_label.as_ref(), &PODS),
            labels: node
                .metadata
                .labels
                .iter()
                .filter(|(key, _)| KEPT.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            name: node.metadata.name,
        });
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::source;
    use super::*;

    fn recorded() -> Source {
        source("nodes.json", include_str!("../../tests/recorded/nodes.json"))
    }

    #[test]
    fn nodes_have_their_internal_address_and_the_place_that_labels_say() {
        let hosts = hosts(&recorded(), &ImportOptions::default()).expect("sound");
        let seen: Vec<_> = hosts
            .iter()
            .map(|host| (host.name.as_str(), host.address.as_deref(), host.leaf.as_deref(), host.pod.as_deref()))
            .collect();
        let expected = [
            ("gpu-a", Some("10.1.0.11"), Some("leaf1"), Some("spine1")),
            ("gpu-b", Some("10.1.0.12"), Some("leaf2"), Some("spine1")),
            ("gpu-c", Some("fd00::13"), None, None),
        ];
        assert_eq!(seen, expected);
        assert_eq!(hosts[2].labels["topology.kubernetes.io/zone"], "west-1a");
        assert!(!hosts[2].labels.contains_key("kubernetes.io/os"));
    }

    #[test]
    fn a_label_of_the_site_counts_if_it_is_named() {
        let options = ImportOptions {
            leaf_label: Some("example.org/rack".to_owned()),
            pod_label: Some("topology.kubernetes.io/zone".to_owned()),
            ..ImportOptions::default()
        };
        let hosts = hosts(&recorded(), &options).expect("sound");
        assert_eq!((hosts[2].leaf.as_deref(), hosts[2].pod.as_deref()), (Some("rack_7"), Some("west-1a")));
    }

    #[test]
    fn another_list_is_refused() {
        let pods = source("p.json", r#"{"items": [{"kind": "Pod", "metadata": {"name": "x"}}]}"#);
        let error = hosts(&pods, &ImportOptions::default()).expect_err("pods").to_string();
        assert!(error.contains("x is a Pod and no node: give what `kubectl get nodes -o json` prints"), "{error}");
    }
}

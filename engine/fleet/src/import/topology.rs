//! Slurm's `topology.conf`, plugin `topology/tree`: switches with nodes are leaves, and leaves below one switch are a
//! pod.

use std::collections::{BTreeMap, BTreeSet};

use super::hostlist::expand;
use super::source::{ImportError, Place, Places, Source, pods, some};

pub(super) fn places(source: &Source) -> Result<Places, ImportError> {
    let mut nodes: Vec<(String, Vec<String>)> = Vec::new();
    let mut above: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut switches = BTreeSet::new();
    for (number, line) in lines(&source.text) {
        let line = line.split('#').next().unwrap_or_default();
        let keys = line.split_whitespace().map(|word| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            (key.to_lowercase(), value.trim_matches('"'))
        });
        let keys: BTreeMap<String, &str> = keys.collect();
        if keys.is_empty() {
            continue;
        }
        let Some(switch) = keys.get("switchname").filter(|name| !name.is_empty()) else {
            let what = if keys.contains_key("blockname") || keys.contains_key("blocksizes") {
                "blocks say nothing of switches: give a file with lines SwitchName=... (topology/tree)"
            } else {
                "write SwitchName=... and Nodes=... or Switches=..."
            };
            return Err(source.at(number, what));
        };
        if switch.contains('[') || !switches.insert((*switch).to_owned()) {
            return Err(source.at(number, format!("{switch} is not the name of one new switch")));
        }
        let list = |key: &str| match keys.get(key) {
            Some(list) => expand(list).map_err(|why| source.at(number, format!("{why}: write {key}=name[1-8,11]"))),
            None => Ok(Vec::new()),
        };
        let (its_nodes, its_switches) = (list("nodes")?, list("switches")?);
        if its_nodes.is_empty() && its_switches.is_empty() {
            return Err(source.at(number, format!("{switch} has neither Nodes=... nor Switches=...")));
        }
        nodes.push(((*switch).to_owned(), its_nodes));
        for below in its_switches {
            above.entry(below).or_default().insert((*switch).to_owned());
        }
    }
    if let Some(unknown) = above.keys().find(|below| !switches.contains(*below)) {
        return Err(source.whole(format!("switch {unknown} is below another and has no line SwitchName={unknown}")));
    }
    let leaves: BTreeSet<&String> = nodes.iter().filter(|(_, nodes)| !nodes.is_empty()).map(|(leaf, _)| leaf).collect();
    let of_leaves = above.iter().filter(|(below, _)| leaves.contains(below));
    let pods = pods(&of_leaves.map(|(leaf, above)| (leaf.clone(), above.clone())).collect());
    let mut places = Places::default();
    let mut twice = Vec::new();
    for (leaf, nodes) in &nodes {
        for node in nodes {
            let place = Place { leaf: Some(leaf.clone()), pod: pods.get(leaf).cloned(), nics: Vec::new() };
            if places.hosts.contains_key(node) {
                twice.push(node.as_str());
            }
            places.hosts.entry(node.clone()).or_insert(place);
        }
    }
    places.notes.extend(some(&twice, "below several switches, of which the first is the leaf"));
    Ok(places)
}

/// Lines with their numbers; one that ends in a backslash goes on in the next.
fn lines(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (number, line) = lines.next()?;
        let mut whole = line.trim_end().to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            let Some((_, more)) = lines.next() else { break };
            whole = format!("{begun}{}", more.trim_end());
        }
        Some((number + 1, whole))
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::source;
    use super::*;

    #[test]
    fn leaves_and_pods_are_the_switches_of_nodes_and_those_above() {
        let places =
            places(&source("topology.conf", include_str!("../../tests/recorded/topology.conf"))).expect("sound");
        let place = |host: &str| {
            let place = &places.hosts[host];
            (place.leaf.as_deref().unwrap_or("-"), place.pod.as_deref().unwrap_or("-"))
        };
        assert_eq!(places.hosts.len(), 13);
        let hosts = ["node1", "node4", "node5", "node11", "gpu07", "login"];
        let expected = [
            ("leaf1", "spine1"),
            ("leaf1", "spine1"),
            ("leaf2", "spine1"),
            ("leaf3", "spine2"),
            ("leaf3", "spine2"),
            ("edge", "-"),
        ];
        assert_eq!(hosts.map(place), expected);
    }

    #[test]
    fn what_is_wrong_is_named_by_line() {
        for (text, expected) in [
            ("\nBlockName=b1 Nodes=n[1-2]", "t:2: blocks say nothing of switches"),
            ("SwitchName=s1 Nodes=n[1-", "t:1: `n[1-` has a bracket that is not closed: write nodes=name[1-8,11]"),
            ("SwitchName=s1 Nodes=n1\nSwitchName=s1 Nodes=n2", "t:2: s1 is not the name of one new switch"),
            ("SwitchName=s1", "t:1: s1 has neither"),
            ("SwitchName=s1 Nodes=n1\nSwitchName=s2 Switches=s[1-3]", "t: switch s3 is below another"),
            ("Nodes=n1", "t:1: write SwitchName="),
        ] {
            let error = places(&source("t", text)).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}

//! `ibnetdiscover`: channel adapters of hosts, the switch that each is connected to, and the groups of switches that
//! share switches above them. Source of the format: ibnetdiscover(8), "Topology file format".

use std::collections::{BTreeMap, BTreeSet};

use super::source::{ImportError, Places, Source, plain, pods, some};
use kelpie_text::natural;

/// Most switches and adapters. Source: our choice; the largest subnet has 48 Ki local identifiers.
const MOST_NODES: usize = 1 << 16;
/// What adapters inside of switches that add up for hosts (SHARP) call themselves.
const AGGREGATION: &str = "Aggregation Node";

#[derive(Default)]
struct Fabric {
    /// Descriptions by GUID, with its letter: `S-` and `H-`.
    described: BTreeMap<String, String>,
    /// Both ends of each cable by GUID, with the port of the first.
    links: BTreeSet<(String, u8, String)>,
}

/// Names next to each name.
type Neighbours<'n> = BTreeMap<&'n str, BTreeSet<&'n str>>;

pub(super) fn places(source: &Source, wanted: Option<&BTreeSet<&str>>) -> Result<Places, ImportError> {
    let fabric = read(source)?;
    let names = fabric.switch_names();
    // Of each adapter: host, device.
    let adapters: BTreeMap<&str, (&str, Option<&str>)> = fabric
        .described
        .iter()
        .filter(|(guid, description)| guid.starts_with("H-") && !description.contains(AGGREGATION))
        .filter_map(|(guid, description)| Some((guid.as_str(), host_and_device(description)?)))
        .collect();
    let short: Option<BTreeSet<&str>> =
        wanted.map(|wanted| wanted.iter().flat_map(|name| [*name, name.split('.').next().unwrap_or(name)]).collect());
    let is_wanted = |host: &str| short.as_ref().is_none_or(|wanted| wanted.contains(host));
    // Hosts that are wanted make a switch a leaf: others may be connected to switches above.
    let (mut hosts_of, mut next_to): (Neighbours<'_>, Neighbours<'_>) = Default::default();
    for (from, _, to) in &fabric.links {
        if let Some((host, _)) = adapters.get(from.as_str()).filter(|(host, _)| is_wanted(host)) {
            hosts_of.entry(to).or_default().insert(host);
        } else if from.starts_with("S-") && to.starts_with("S-") {
            next_to.entry(from).or_default().insert(to);
            next_to.entry(to).or_default().insert(from);
        }
    }
    let none = BTreeSet::new();
    let is_above = |switch: &str| {
        let Some(hosts) = hosts_of.get(switch) else { return true };
        let beside = next_to.get(switch).unwrap_or(&none);
        let leaves = beside.iter().filter(|switch| hosts_of.contains_key(**switch)).count();
        // A switch above that has a host of its own: a manager of the fabric, a gateway.
        leaves * 2 >= beside.len() && hosts.len() < leaves
    };
    let leaves = hosts_of.keys().filter(|switch| !is_above(switch));
    let above = leaves.map(|leaf| {
        let above = next_to.get(leaf).unwrap_or(&none).iter().filter(|switch| is_above(switch));
        (names[*leaf].clone(), above.map(|switch| names[*switch].clone()).collect())
    });
    let pods = pods(&above.collect());
    let mut places = Places::default();
    let mut nameless = BTreeSet::new();
    for (guid, (host, device)) in &adapters {
        let cables = fabric.links.range(((*guid).to_owned(), 0, String::new())..);
        for (_, port, switch) in cables.take_while(|(from, ..)| from == guid) {
            let Some(switch) = names.get(switch) else { continue };
            let place = places.hosts.entry((*host).to_owned()).or_default();
            match device {
                Some(device) => place.nics.push(((*device).to_owned(), *port)),
                None => _ = nameless.insert(*host),
            }
            // The leaf is that of the first device.
            let is_first =
                place.nics.iter().all(|(other, _)| device.is_none_or(|device| natural(device) <= natural(other)));
            if place.leaf.is_none() || is_first {
                (place.leaf, place.pod) = (Some(switch.clone()), pods.get(switch).cloned());
            }
        }
    }
    for place in places.hosts.values_mut() {
        place.nics.sort_by_key(|(device, port)| (natural(device), *port));
        place.nics.dedup();
    }
    let nameless: Vec<&str> = nameless.into_iter().filter(|host| is_wanted(host)).collect();
    places.notes.extend(some(&nameless, "the fabric does not know the names of their devices: give --device"));
    if places.hosts.is_empty() {
        return Err(source.whole("no host with a cable is in it: give what `ibnetdiscover` prints, without --list"));
    }
    Ok(places)
}

/// `node1 mlx5_0` is a host and its device; `node1 HCA-1` is a host.
fn host_and_device(description: &str) -> Option<(&str, Option<&str>)> {
    let mut words = description.split_whitespace();
    let host = words.next()?;
    let is_device = |word: &&str| {
        word.starts_with(|letter: char| letter.is_ascii_lowercase())
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    match (words.next(), words.next()) {
        (Some(word), None) if word.starts_with("HCA-") || is_device(&word) => {
            Some((host, Some(word).filter(is_device)))
        }
        _ => None,
    }
}

impl Fabric {
    /// The name of a switch is what people gave it, as far as that is the name of one: else its GUID.
    fn switch_names(&self) -> BTreeMap<String, String> {
        let named: Vec<(&String, Option<String>)> = (self.described.iter())
            .filter(|(guid, _)| guid.starts_with("S-"))
            .map(|(guid, description)| (guid, switch_name(description)))
            .collect();
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        named.iter().filter_map(|(_, name)| name.as_deref()).for_each(|name| *count.entry(name).or_default() += 1);
        let name = |(guid, name): &(&String, Option<String>)| {
            let name = name.clone().filter(|name| count[name.as_str()] == 1);
            ((*guid).clone(), name.unwrap_or_else(|| (*guid).clone()))
        };
        named.iter().map(name).collect()
    }
}

/// `MF0;leaf-1:MQM9700/U1` is leaf-1, and a chip of a director switch `MF0;core:CS7500/L01/U1` is core/L01/U1.
fn switch_name(description: &str) -> Option<String> {
    let Some((name, model)) = description.strip_prefix("MF0;").and_then(|rest| rest.split_once(':')) else {
        return (!description.is_empty() && !description.contains(' ')).then(|| plain(description));
    };
    let chip = model.split_once('/').map_or("", |(_, chip)| chip);
    Some(plain(&if chip.is_empty() || chip == "U1" { name.to_owned() } else { format!("{name}/{chip}") }))
}

fn read(source: &Source) -> Result<Fabric, ImportError> {
    let mut fabric = Fabric::default();
    let mut section: Option<String> = None;
    for (number, line) in source.text.lines().enumerate() {
        let number = number + 1;
        let line = line.trim();
        let (text, comment) = line.split_once('#').map_or((line, ""), |(text, comment)| (text.trim_end(), comment));
        if text.is_empty() || !text.contains('"') {
            // Blank, a comment, vendid=..., or the heading of a chassis.
            if text.is_empty() {
                continue;
            }
            if ["Switch", "Ca", "Rt", "["].iter().any(|word| text.starts_with(word)) && !text.starts_with("Chassis") {
                return Err(source.at(number, "no GUID in quotes: the file may be cut"));
            }
            continue;
        }
        let guid = quoted(text).ok_or_else(|| source.at(number, "a quote is not closed: the file may be cut"))?;
        let guid = guid.replacen("-0x", "-", 1);
        if let Some(inside) = text.strip_prefix('[') {
            let from =
                section.clone().ok_or_else(|| source.at(number, "a cable before the first switch or adapter"))?;
            let port = inside.split(']').next().and_then(|port| port.parse::<u8>().ok());
            let port = port.ok_or_else(|| source.at(number, "no number of a port in brackets"))?;
            let rest = text.split_once('"').and_then(|(_, rest)| rest.split_once('"')).map_or("", |(_, rest)| rest);
            let far =
                rest.strip_prefix('[').and_then(|rest| rest.split(']').next()).and_then(|port| port.parse::<u8>().ok());
            let far = far.ok_or_else(|| source.at(number, "no port of the other end in brackets"))?;
            if let Some(description) = quoted(comment) {
                fabric.described.entry(guid.clone()).or_insert_with(|| description.to_owned());
            }
            fabric.links.insert((from.clone(), port, guid.clone()));
            fabric.links.insert((guid, far, from));
        } else {
            let description = quoted(comment).unwrap_or_default();
            fabric.described.insert(guid.clone(), description.to_owned());
            section = Some(guid);
        }
        if fabric.described.len() > MOST_NODES {
            return Err(source.at(number, format!("more than {MOST_NODES} switches and adapters")));
        }
    }
    Ok(fabric)
}

/// What is between the first two quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split_once('"')?.1.split_once('"').map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::source;
    use super::*;

    #[test]
    fn hosts_have_the_switch_of_their_first_device_and_leaves_that_share_spines_are_a_pod() {
        let fabric = source("ib.txt", include_str!("../../tests/recorded/ibnetdiscover.txt"));
        let places = places(&fabric, None).expect("sound");
        let place = |host: &str| {
            let place = &places.hosts[host];
            (place.leaf.as_deref().unwrap_or("-"), place.pod.as_deref().unwrap_or("-"))
        };
        assert_eq!(places.hosts.keys().collect::<Vec<_>>(), ["node1", "node2", "node3", "ufm1"], "no aggregation node");
        assert_eq!(
            ["node1", "node2", "node3"].map(place),
            [("IBLEAF-01", "IBSPINE-01"), ("IBLEAF-01", "IBSPINE-01"), ("IBLEAF-02", "IBSPINE-01")]
        );
        assert_eq!(places.hosts["node1"].nics, [("mlx5_0".to_owned(), 1), ("mlx5_1".to_owned(), 1)]);
        assert!(
            places.hosts["node3"].nics.is_empty() && places.notes[0].starts_with("node3: the fabric"),
            "{:?}",
            places.notes
        );
    }

    #[test]
    fn a_host_on_a_spine_makes_it_no_leaf_of_others() {
        let fabric = source("ib.txt", include_str!("../../tests/recorded/ibnetdiscover.txt"));
        let places = places(&fabric, None).expect("sound");
        assert_eq!(places.hosts["ufm1"].leaf.as_deref(), Some("IBSPINE-01"));
        assert_eq!(places.hosts["ufm1"].pod, None);
    }

    #[test]
    fn switches_are_called_what_tells_them_apart() {
        for (description, expected) in [
            ("MF0;leaf-1:MQM9700/U1", Some("leaf-1")),
            ("MF0;core:CS7500/L01/U1", Some("core/L01/U1")),
            ("leaf1", Some("leaf1")),
            ("SwitchIB Mellanox Technologies", None),
            ("", None),
        ] {
            assert_eq!(switch_name(description).as_deref(), expected, "{description}");
        }
    }

    #[test]
    fn a_file_that_is_cut_is_named_by_line() {
        for (text, expected) in [
            ("Switch\t40 \"S-1\" # \"a\"\n[1]\t\"H-2", "x:2: a quote is not closed"),
            ("[1] \"H-2\"[1] # \"n mlx5_0\"", "x:1: a cable before"),
            ("Switch\t40 \"S-1\" # \"a\"\n[1]\t\"H-2\"", "x:2: no port of the other end"),
            ("Switch\t40", "x:1: no GUID in quotes"),
            ("Switch\t40 \"S-1\" # \"a\"", "x: no host with a cable"),
        ] {
            let error = places(&source("x", text), None).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}

//! What `nvidia-smi topo -m` prints: how near devices are to each other, in words.
//!
//! Source: the legend that it prints: PIX (one bridge), PXB (several bridges), PHB (a host bridge), NODE (within a NUMA
//! node), SYS (between NUMA nodes), NV# (`NVLink`).

use std::collections::BTreeMap;

use kelpie_topology::host::NodeKind;

use super::building::{Host, Imported, MOST};

/// Whether a text looks like it: a heading of devices, and a row with an X.
pub fn is_like(text: &str) -> bool {
    heading(text).is_some()
}

/// The names of the columns, by the first line that begins with a device's name and has no relations.
fn heading(text: &str) -> Option<(usize, Vec<&str>)> {
    text.lines().take(100).enumerate().find_map(|(index, line)| {
        let names: Vec<&str> = line.split_whitespace().take_while(|word| device(word).is_some()).collect();
        (names.len() > 1).then_some((index, names))
    })
}

/// The kind of a device by its name in the table.
fn device(name: &str) -> Option<NodeKind> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if name.strip_prefix("GPU").is_some_and(is_number) {
        Some(NodeKind::Gpu)
    } else if name.strip_prefix("NIC").is_some_and(is_number) || name.starts_with("mlx") {
        Some(NodeKind::Rnic)
    } else {
        None
    }
}

/// Reads it.
pub fn read(text: &str) -> Result<Imported, String> {
    let (first, names) = heading(text).ok_or("no heading of devices")?;
    if names.len() > MOST {
        return Err(format!("more than {MOST} devices"));
    }
    let mut rows: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut called: BTreeMap<&str, &str> = BTreeMap::new();
    let titles: Vec<&str> = text.lines().nth(first).unwrap_or_default().split('\t').map(str::trim).collect();
    let numa_at = titles.iter().position(|title| *title == "NUMA Affinity");
    let mut numa: BTreeMap<usize, u32> = BTreeMap::new();
    for line in text.lines().skip(first + 1) {
        if let Some((nic, name)) = line.trim().split_once(": ").filter(|(nic, _)| device(nic) == Some(NodeKind::Rnic)) {
            called.insert(nic, name.trim());
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(row) = words.first().and_then(|word| names.iter().position(|name| name == word)) else { continue };
        if words.len() <= names.len() {
            return Err(format!("row `{}` has {} columns of {}", names[row], words.len() - 1, names.len()));
        }
        // Cells of affinity may be empty, so that only tabs tell which one it is.
        let node = numa_at
            .and_then(|at| line.split('\t').nth(at))
            .and_then(|cell| cell.trim().split(['-', ',']).next()?.parse().ok());
        if let Some(node) = node {
            numa.insert(row, node);
        }
        rows.insert(row, words[1..=names.len()].to_vec());
    }
    let relation = |one: usize, other: usize| rows.get(&one).map_or("", |row| row[other]);
    if let Some(missing) = (0..names.len()).find(|row| relation(*row, *row) != "X") {
        return Err(format!("no row `{}`, or no X in it", names[missing]));
    }
    // Whoever shares a bridge is below one switch.
    let mut group: Vec<usize> = (0..names.len()).collect();
    for one in 0..names.len() {
        for other in (0..one).filter(|other| matches!(relation(one, *other), "PIX" | "PXB")) {
            let [from, to] = [group[one].max(group[other]), group[one].min(group[other])];
            group.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
        }
    }
    // A NIC has no affinity of its own: it is where a GPU is to which no way leads between NUMA nodes.
    let home_of = |device: usize| {
        let own = (0..names.len()).filter(|other| group[*other] == group[device]).find_map(|other| numa.get(&other));
        let near = || (0..names.len()).filter(|other| matches!(relation(device, *other), "PHB" | "NODE"));
        own.or_else(|| near().find_map(|other| numa.get(&other))).copied()
    };
    let mut host = Host::default();
    let mut switches: BTreeMap<usize, usize> = BTreeMap::new();
    let mut lost = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let kind = device(name).unwrap_or(NodeKind::Gpu);
        let name = match kind {
            NodeKind::Gpu => name.to_ascii_lowercase(),
            _ => called.get(name).map_or_else(|| name.to_ascii_lowercase(), |name| (*name).to_owned()),
        };
        let numa = home_of(index);
        if numa.is_none() {
            lost.push(name.clone());
        }
        let mut at = host.home(numa.unwrap_or(0))?;
        let beside = group.iter().filter(|of| **of == group[index]).count();
        if beside > 1 {
            at = if let Some(node) = switches.get(&group[index]) {
                *node
            } else {
                let node = host.add(format!("psw{}", switches.len()), NodeKind::PcieSwitch, None)?;
                host.join(node, at, None);
                switches.insert(group[index], node);
                node
            };
        }
        let node = host.add(name, kind, None)?;
        host.join(node, at, None);
    }
    let mut notes = vec![
        "nvidia-smi prints no rates and no addresses: siblings and a baseline are all that paths are compared with"
            .to_owned(),
        "gpuN is nvidia-smi's number, which counts PCI addresses; CUDA counts so with CUDA_DEVICE_ORDER=PCI_BUS_ID alone"
            .to_owned(),
    ];
    if !lost.is_empty() {
        notes.push(format!("NUMA node not printed, 0 taken: {}", lost.join(", ")));
    }
    host.done(notes)
}

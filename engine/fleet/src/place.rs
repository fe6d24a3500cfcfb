//! Where the hosts of an inventory stand: hosts without a leaf are at one that has no name.

use std::collections::BTreeMap;

use crate::inventory::Inventory;
use crate::rounds::Position;

/// The position of each host.
pub fn positions(inventory: &Inventory) -> Vec<Position> {
    let mut leaves: BTreeMap<(Option<&str>, Option<&str>), usize> = BTreeMap::new();
    let mut pods: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut positions = Vec::new();
    for host in &inventory.hosts {
        let (pod, leaf) = (host.pod.as_deref(), host.leaf.as_deref());
        let (next_leaf, next_pod) = (leaves.len(), pods.len());
        let leaf = *leaves.entry((pod, leaf)).or_insert(next_leaf);
        positions.push(Position { leaf, pod: *pods.entry(pod).or_insert(next_pod) });
    }
    positions
}

/// Hosts in order of pod and leaf, so that neighbours stand side by side.
pub fn by_place(inventory: &Inventory) -> Vec<usize> {
    let positions = positions(inventory);
    let mut hosts: Vec<usize> = (0..inventory.hosts.len()).collect();
    hosts.sort_by_key(|host| (positions[*host], *host));
    hosts
}

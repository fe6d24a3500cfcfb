//! Two binary trees over hosts, each for half of the data, so that each host is a leaf of one of them; inside of a host
//! a chain leads to its first GPU.

use std::collections::HashMap;

use crate::dag::{DagBuilder, DagEvent, Wait, parts};
use crate::group::Group;

/// What GPUs wait for before the step.
type Ready = HashMap<u32, Vec<DagEvent>>;

/// Most parts of a message that follow each other through a tree.
pub(super) const MOST_CHUNKS: u64 = 16;
/// Least size of such a part. Units: bytes.
const LEAST_CHUNK: u64 = 128 << 10;

/// The parent of a place in a binary tree of so many, whose root is 0: the place with its lowest bit moved up, or left
/// out if there is no such place.
fn parent(place: usize, places: usize) -> Option<usize> {
    let bit = place & place.wrapping_neg();
    let up = (place ^ bit) | (bit << 1);
    (place > 0).then_some(if up < places { up } else { place ^ bit })
}

/// Parents in the second tree: that of the mirrored place, so that leaves change with inner nodes.
fn parent_of(tree: usize, place: usize, places: usize) -> Option<usize> {
    if tree == 0 {
        return parent(place, places);
    }
    let turned = (place + 1) % places;
    parent(turned, places).map(|up| (up + places - 1) % places)
}

/// All-reduce.
pub(super) fn add(dag: &mut DagBuilder, group: &Group, bytes: u64) {
    let hosts = group.hosts();
    let ready: Vec<Vec<DagEvent>> = group.gpus.iter().map(|gpu| dag.ready(*gpu)).collect();
    let ready: Ready = group.gpus.iter().copied().zip(ready).collect();
    for (tree, half) in parts(bytes, 2).enumerate() {
        let channel = tree as u16;
        let children: Vec<Vec<usize>> = (0..hosts.len())
            .map(|up| (0..hosts.len()).filter(|place| parent_of(tree, *place, hosts.len()) == Some(up)).collect())
            .collect();
        let root = (0..hosts.len()).find(|place| parent_of(tree, *place, hosts.len()).is_none()).unwrap_or(0);
        let order = downwards(root, &children);
        for chunk in parts(half, (half / LEAST_CHUNK).clamp(1, MOST_CHUNKS)) {
            let mut at_head: Vec<Vec<DagEvent>> =
                hosts.iter().map(|host| chain_up(dag, host, channel, chunk, &ready)).collect();
            for place in order.iter().rev().filter(|place| **place != root) {
                let up = parent_of(tree, *place, hosts.len()).unwrap_or(root);
                let task = dag.transfer([hosts[*place][0], hosts[up][0]], channel, chunk, &at_head[*place]);
                at_head[up].push((task, Wait::Received));
            }
            for place in &order {
                for child in &children[*place] {
                    let task = dag.transfer([hosts[*place][0], hosts[*child][0]], channel, chunk, &at_head[*place]);
                    dag.ends(task);
                    at_head[*child] = vec![(task, Wait::Received)];
                }
                let mut has = at_head[*place].clone();
                for pair in hosts[*place].windows(2) {
                    let task = dag.transfer([pair[0], pair[1]], channel, chunk, &has);
                    dag.ends(task);
                    has = vec![(task, Wait::Received)];
                }
            }
            // The root goes on when it has the sum.
            for event in &at_head[root] {
                if event.1 == Wait::Received && hosts.len() > 1 {
                    dag.ends_if_at(event.0, hosts[root][0]);
                }
            }
        }
    }
}

/// From the last GPU of a host to its first; gives what the first waits for.
fn chain_up(dag: &mut DagBuilder, host: &[u32], channel: u16, bytes: u64, ready: &Ready) -> Vec<DagEvent> {
    let mut has: Vec<DagEvent> = Vec::new();
    for pair in host.windows(2).rev() {
        has.extend(&ready[&pair[1]]);
        let task = dag.transfer([pair[1], pair[0]], channel, bytes, &has);
        has = vec![(task, Wait::Received)];
    }
    has.extend(&ready[&host[0]]);
    has
}

/// Places from the root down.
fn downwards(root: usize, children: &[Vec<usize>]) -> Vec<usize> {
    let mut order = vec![root];
    let mut next = 0;
    while next < order.len() {
        order.extend(&children[order[next]]);
        next += 1;
    }
    order
}

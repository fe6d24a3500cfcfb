//! Settings that send local GPU traffic through the root: Access Control Services (ACS) on, or address translation
//! services (ATS) off. They raise the latency of small messages too, which a narrow link does not.

use std::collections::BTreeMap;

use kelpie_topology::HostTopology;
use kelpie_topology::host::NodeKind;

use super::expected::ExpectedPaths;
use super::paths::LoopbackPath;

/// How much longer a small message takes through the root than below its switch, at least.
/// Source: Hostping's slide has 3.48 against 2.82 us (1.23), and up to 1.06 within a class; ours is between.
const DETOUR: f64 = 1.12;

/// A switch whose local GPU traffic takes the way through the root, and the paths that show it.
pub struct Rerouted {
    /// The switch.
    pub switch: usize,
    /// The paths, all abnormal.
    pub paths: Vec<usize>,
}

/// Switches below which every measured path to a local GPU is slow in bandwidth and in latency, while memory is not.
pub fn rerouted(
    host: &HostTopology,
    paths: &[LoopbackPath],
    expected: &ExpectedPaths,
    abnormal: &[usize],
) -> Vec<Rerouted> {
    let mut local: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, path) in paths.iter().enumerate() {
        let switch = first_switch(host, path).filter(|_| path.is_local_gpu() && path.bandwidth.is_some());
        if let Some(switch) = switch {
            local.entry(switch).or_default().push(index);
        }
    }
    let is_slow = |index: &usize| abnormal.contains(index);
    let is_late = |index: &usize| matches!((paths[*index].latency, expected.latency[*index]), (Some(latency), Some(usual)) if latency >= DETOUR * usual);
    let memory_is_clean = |rnics: &[usize]| {
        let to_memory =
            |path: &&LoopbackPath| rnics.contains(&path.from) && path.kinds.last() == Some(&NodeKind::Memory);
        let all = paths.iter().enumerate().filter(|(_, path)| to_memory(path));
        all.filter(|(_, path)| path.bandwidth.is_some()).any(|(index, _)| !abnormal.contains(&index))
    };
    local
        .into_iter()
        .filter(|(_, paths_below)| paths_below.iter().all(|index| is_slow(index) && is_late(index)))
        .filter(|(_, below)| memory_is_clean(&below.iter().map(|index| paths[*index].from).collect::<Vec<_>>()))
        .map(|(switch, paths)| Rerouted { switch, paths })
        .collect()
}

/// The first switch on the way.
fn first_switch(host: &HostTopology, path: &LoopbackPath) -> Option<usize> {
    let link = host.links()[*path.links.first()?];
    let next = if link.a == path.from { link.b } else { link.a };
    (host.nodes()[next].kind == NodeKind::PcieSwitch).then_some(next)
}

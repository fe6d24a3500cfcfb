//! What a path should carry: its own history, else its siblings in the classes of the topology.

use std::collections::BTreeMap;

use kelpie_topology::HostTopology;
use kelpie_topology::host::Kind;

use super::paths::Path;
use crate::matrix::{Cells, Matrix};
use kelpie_monitor::statistics::median;

/// Values of a class below this share of its best do not count for what the class should carry.
/// Source: our choice, because noise of 5 % (one standard deviation) leaves the most of a healthy class above it.
const UPPER_GROUP: f64 = 0.8;

/// How much longer a small message to a GPU below the RNIC's switch takes than one to memory, at most.
/// Source: Hostping's slide has 2.82 against 2.53 us (1.11); through the root it is 3.48 (1.38).
const LOCAL_GPU_LATENCY: f64 = 1.15;

/// Per path what is expected of it, from a baseline where that has the cell, else from its class.
pub struct Expected {
    /// Units: Gbit/s.
    pub bandwidth: Vec<Option<f64>>,
    /// Units: microseconds.
    pub latency: Vec<Option<f64>>,
}

/// What decides how fast a healthy path is: the nodes on its way, and the width of the RNIC's own link, or of its
/// cables.
type Class = (Vec<Kind>, Option<u64>);

/// What is expected of each path.
pub fn expected(host: &HostTopology, matrix: &Matrix, paths: &[Path], baseline: Option<&Matrix>) -> Expected {
    let classes: Vec<Class> = paths.iter().map(|path| class(host, path)).collect();
    let history = |cells: fn(&Matrix) -> Option<&Cells>, path: &Path| {
        let baseline = baseline?;
        baseline.find(cells(baseline), &matrix.rows[path.row], &matrix.columns[path.column])
    };
    let bandwidth_of = class_bandwidth(paths, &classes);
    let latency_of = class_latency(paths, &classes);
    let of = |index: usize, path: &Path| {
        let bandwidth = history(|matrix| matrix.bandwidth_gbps.as_ref(), path);
        let latency = history(|matrix| matrix.latency_us.as_ref(), path);
        (
            bandwidth.or_else(|| bandwidth_of.get(&classes[index]).copied()),
            latency.or_else(|| latency_of.get(&classes[index]).copied()),
        )
    };
    let (bandwidth, latency) = paths.iter().enumerate().map(|(index, path)| of(index, path)).unzip();
    Expected { bandwidth, latency }
}

fn class(host: &HostTopology, path: &Path) -> Class {
    let gbps = |link: &usize| host.links()[*link].gbps;
    let cables = path.links.iter().filter(|link| path.is_between_rnics() && host.is_cable(**link));
    let narrowest = cables.filter_map(gbps).min_by(f64::total_cmp);
    (path.kinds.clone(), narrowest.or_else(|| gbps(path.links.first()?)).map(f64::to_bits))
}

/// Siblings: what most of the better half of a class carries. Affinitive classes of equal RNICs are held against the
/// best of them, because each is limited by the RNIC alone; so a class that is slow as a whole is seen. Of a single
/// path without siblings nothing is known, because it would be compared with itself.
fn class_bandwidth(paths: &[Path], classes: &[Class]) -> BTreeMap<Class, f64> {
    let mut values: BTreeMap<&Class, Vec<f64>> = BTreeMap::new();
    let mut is_affinitive: BTreeMap<&Class, bool> = BTreeMap::new();
    for (path, class) in paths.iter().zip(classes) {
        is_affinitive.insert(class, path.is_affinitive());
        values.entry(class).or_default().extend(path.bandwidth);
    }
    let usual = |values: &Vec<f64>| {
        let best = values.iter().copied().fold(0.0, f64::max);
        median(&values.iter().copied().filter(|value| *value >= UPPER_GROUP * best).collect::<Vec<_>>())
    };
    let own: BTreeMap<&Class, f64> =
        values.iter().filter_map(|(class, values)| usual(values).map(|value| (*class, value))).collect();
    let mut best: BTreeMap<Option<u64>, f64> = BTreeMap::new();
    for (class, value) in own.iter().filter(|(class, _)| is_affinitive[*class]) {
        let best = best.entry(class.1).or_insert(0.0);
        *best = best.max(*value);
    }
    let of = |(class, value): (&&Class, &f64)| {
        let best = best.get(&class.1).copied().unwrap_or(0.0);
        let raised = is_affinitive[*class] && *value < UPPER_GROUP * best;
        ((*class).clone(), if raised { best } else { *value })
    };
    let has_peer = |class: &Class| {
        let is_peer = |other: &&Class| *other != class && is_affinitive[*other] && other.1 == class.1;
        values[class].len() > 1 || is_affinitive[class] && own.keys().any(is_peer)
    };
    own.iter().filter(|(class, _)| has_peer(class)).map(of).collect()
}

/// The lower half of a class is what its healthy paths take, because faults only add latency. Local GPUs are held
/// against memory too, so a setting that makes all of them slow is seen.
fn class_latency(paths: &[Path], classes: &[Class]) -> BTreeMap<Class, f64> {
    let mut values: BTreeMap<&Class, Vec<f64>> = BTreeMap::new();
    let mut local_gpus: Vec<&Class> = Vec::new();
    for (path, class) in paths.iter().zip(classes) {
        values.entry(class).or_default().extend(path.latency);
        if path.is_local_gpu() {
            local_gpus.push(class);
        }
    }
    let lower = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        median(&values[..values.len().div_ceil(2)])
    };
    let own: BTreeMap<&Class, f64> =
        values.iter_mut().filter_map(|(class, values)| lower(values).map(|value| (*class, value))).collect();
    let to_memory = own.iter().filter(|(class, _)| class.0.last() == Some(&Kind::Memory));
    let memory = to_memory.map(|(_, value)| *value).min_by(f64::total_cmp);
    let of = |(class, value): (&&Class, &f64)| {
        let most =
            memory.filter(|_| local_gpus.contains(class)).map_or(f64::INFINITY, |memory| LOCAL_GPU_LATENCY * memory);
        ((*class).clone(), value.min(most))
    };
    own.iter().map(of).collect()
}

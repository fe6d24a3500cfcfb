//! What a path should carry: its own history, else its siblings in the classes of the topology, and at least what the
//! rates that the topology declares leave.

use std::collections::BTreeMap;

use kelpie_topology::HostTopology;
use kelpie_topology::host::NodeKind;
use serde::Serialize;

use super::paths::LoopbackPath;
use crate::matrix::{Cells, Matrix};
use kelpie_monitor::statistics::median;

/// Values of a class below this share of its best do not count for what the class should carry.
/// Source: our choice, because noise of 5 % (one standard deviation) leaves the most of a healthy class above it.
const UPPER_GROUP: f64 = 0.8;

/// How much longer a small message to a GPU below the RNIC's switch takes than one to memory, at most.
/// Source: Hostping's slide has 2.82 against 2.53 us (1.11); through the root it is 3.48 (1.38).
const LOCAL_GPU_LATENCY: f64 = 1.15;

/// Share of a PCIe link's rate that loopback reaches at least. Source: PCI Express Base Specification, section 2.2:
/// headers of 20 to 28 bytes beside completions and writes of 128 or 256 bytes leave 0.82 to 0.93.
const OF_PCIE: f64 = 0.8;
/// Share of its port's rate that an RNIC's loopback reaches at least.
/// Source: Hostping's slide, 190 of 200 to GPUs; Azure's node health checks, 380 of 400.
const OF_PORT: f64 = 0.95;
/// Below this share of the links' rate a path is slow, whatever the port. Source: our choice: ports of 100 Gbit/s
/// behind links of 252, which are 0.38, are common, and ports of a quarter are not.
const LOW: f64 = 0.35;
/// From this share of the links' rate on a path is as it should be, whatever the port.
/// Source: our choice: ports that fit their links are at 0.77 (200 of 252, 400 of 504).
const HIGH: f64 = 0.6;
/// A path below this share of what is expected is abnormal.
/// Source: our choice: noise of one standard deviation `s` is `0.15/s` away from it on the healthy side, and
/// `0.13/s` where 75 % are left, so both mistakes are about equally rare.
pub const ABNORMAL: f64 = 0.85;

/// What an expectation rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    /// The path's own past.
    Baseline,
    /// Paths of the same kind.
    Siblings,
    /// The rate of the RNIC's port.
    Port,
    /// The rates of links in the topology.
    Topology,
}

/// Per path what is expected of it.
pub struct ExpectedPaths {
    /// Units: Gbit/s.
    pub bandwidth: Vec<Option<f64>>,
    /// Units: microseconds.
    pub latency: Vec<Option<f64>>,
    /// What the bandwidth rests on, and the rate that was declared if that is it.
    pub reference: Vec<Option<(Reference, f64)>>,
    /// Paths that carry so much less than the links' rates that only the port's rate, which nobody declared, could
    /// explain it.
    pub doubtful: Vec<usize>,
}

/// What decides how fast a healthy path is: the nodes on its way, what the RNIC's own link or its cables could carry,
/// and the rate of the port. What a link trained to is no part of it, because that is a fault.
type PathClass = (Vec<NodeKind>, [Option<u64>; 2]);

/// What is expected of each path.
pub fn expected(
    host: &HostTopology,
    matrix: &Matrix,
    paths: &[LoopbackPath],
    baseline: Option<&Matrix>,
    all_busy: bool,
) -> ExpectedPaths {
    let classes: Vec<PathClass> = paths.iter().map(|path| class(host, path)).collect();
    let history = |cells: fn(&Matrix) -> Option<&Cells>, path: &LoopbackPath| {
        let baseline = baseline?;
        baseline.find(cells(baseline), &matrix.rows[path.row], &matrix.columns[path.column])
    };
    let rows_with_traffic: Vec<bool> = matrix.rows.iter().map(|row| all_busy || matrix.busy.contains(row)).collect();
    let bandwidth_of = class_bandwidth(paths, &classes);
    let latency_of = class_latency(paths, &classes);
    let mut found = ExpectedPaths { bandwidth: vec![], latency: vec![], reference: vec![], doubtful: vec![] };
    for (index, path) in paths.iter().enumerate() {
        let latency = history(|matrix| matrix.latency_us.as_ref(), path);
        found.latency.push(latency.or_else(|| latency_of.get(&classes[index]).copied()));
        let past = history(|matrix| matrix.bandwidth_gbps.as_ref(), path);
        // Load differs from RNIC to RNIC, so that one with other traffic is no sibling of another; what it alone limits
        // is alike in its own row.
        let siblings = if rows_with_traffic[path.row] {
            let row = paths.iter().filter(|other| other.row == path.row && other.is_affinitive());
            row.filter_map(|other| other.bandwidth)
                .max_by(f64::total_cmp)
                .filter(|best| *best > 0.0 && path.is_affinitive())
        } else {
            bandwidth_of.get(&classes[index]).copied()
        };
        // Others take their part of a busy RNIC, so that no rate is left to be reached.
        let declared = if rows_with_traffic[path.row] { None } else { Declared::of(host, path) };
        let floor = declared.as_ref().map(|declared| declared.least);
        let reference = match (past, siblings, &declared) {
            (Some(past), ..) => Some((Reference::Baseline, past)),
            (None, Some(usual), declared) if floor.is_none_or(|floor| usual >= ABNORMAL * floor) => {
                found.doubtful.extend(declared.iter().filter(|declared| declared.is_doubtful(path)).map(|_| index));
                Some((Reference::Siblings, usual))
            }
            (None, _, Some(declared)) => {
                found.doubtful.extend(declared.is_doubtful(path).then_some(index));
                Some((declared.by, declared.rate))
            }
            (None, ..) => None,
        };
        let value = match reference {
            Some((Reference::Port | Reference::Topology, _)) => floor,
            other => other.map(|(_, value)| value),
        };
        found.bandwidth.push(value);
        found.reference.push(reference);
    }
    found
}

/// What the declared rates say of a path that the RNIC alone limits, or its cables.
struct Declared {
    by: Reference,
    /// The rate that the words name. Units: Gbit/s.
    rate: f64,
    /// What a healthy path carries at least. Units: Gbit/s.
    least: f64,
    /// Whether the port's rate is known.
    is_sure: bool,
}

impl Declared {
    fn of(host: &HostTopology, path: &LoopbackPath) -> Option<Self> {
        if !path.is_affinitive() && !path.is_between_rnics() {
            return None;
        }
        // Loopback reads and writes a memory, and each takes its part of what that does.
        let is_memory = |node: usize| host.nodes()[node].kind == NodeKind::Memory;
        let rates = |cables: bool| {
            let links = path.links.iter().filter(move |link| host.is_cable(**link) == cables);
            let rate = |link: &usize| {
                let link = host.links()[*link];
                Some(link.best_gbps()? / if is_memory(link.a) || is_memory(link.b) { 2.0 } else { 1.0 })
            };
            links.filter_map(rate).min_by(f64::total_cmp)
        };
        let links = rates(false)?;
        let port = [host.nodes()[path.from].port_gbps, rates(true)];
        let port = port.into_iter().flatten().min_by(f64::total_cmp);
        Some(match port {
            Some(port) if OF_PORT * port < OF_PCIE * links => {
                Self { by: Reference::Port, rate: port, least: OF_PORT * port, is_sure: true }
            }
            Some(_) => Self { by: Reference::Topology, rate: links, least: OF_PCIE * links, is_sure: true },
            None => Self { by: Reference::Topology, rate: links, least: LOW / ABNORMAL * links, is_sure: false },
        })
    }

    fn is_doubtful(&self, path: &LoopbackPath) -> bool {
        !self.is_sure && path.bandwidth.is_some_and(|seen| seen < HIGH * self.rate && seen >= LOW * self.rate)
    }
}

fn class(host: &HostTopology, path: &LoopbackPath) -> PathClass {
    let best = |link: &usize| host.links()[*link].best_gbps();
    let cables = path.links.iter().filter(|link| path.is_between_rnics() && host.is_cable(**link));
    let narrowest = cables.filter_map(best).min_by(f64::total_cmp);
    let own = narrowest.or_else(|| best(path.links.first()?));
    (path.kinds.clone(), [own, host.nodes()[path.from].port_gbps].map(|gbps| gbps.map(f64::to_bits)))
}

/// Siblings: what most of the better half of a class carries. Affinitive classes of equal RNICs are held against the
/// best of them, because each is limited by the RNIC alone; so a class that is slow as a whole is seen. Of a single
/// path without siblings nothing is known, because it would be compared with itself.
fn class_bandwidth(paths: &[LoopbackPath], classes: &[PathClass]) -> BTreeMap<PathClass, f64> {
    let mut values: BTreeMap<&PathClass, Vec<f64>> = BTreeMap::new();
    let mut is_affinitive: BTreeMap<&PathClass, bool> = BTreeMap::new();
    for (path, class) in paths.iter().zip(classes) {
        is_affinitive.insert(class, path.is_affinitive());
        values.entry(class).or_default().extend(path.bandwidth);
    }
    let usual = |values: &Vec<f64>| {
        let best = values.iter().copied().fold(0.0, f64::max);
        median(&values.iter().copied().filter(|value| *value >= UPPER_GROUP * best).collect::<Vec<_>>())
    };
    let own: BTreeMap<&PathClass, f64> =
        values.iter().filter_map(|(class, values)| usual(values).map(|value| (*class, value))).collect();
    let mut best: BTreeMap<[Option<u64>; 2], f64> = BTreeMap::new();
    for (class, value) in own.iter().filter(|(class, _)| is_affinitive[*class]) {
        let best = best.entry(class.1).or_insert(0.0);
        *best = best.max(*value);
    }
    let of = |(class, value): (&&PathClass, &f64)| {
        let best = best.get(&class.1).copied().unwrap_or(0.0);
        let raised = is_affinitive[*class] && *value < UPPER_GROUP * best;
        ((*class).clone(), if raised { best } else { *value })
    };
    let has_peer = |class: &PathClass| {
        let is_peer = |other: &&PathClass| *other != class && is_affinitive[*other] && other.1 == class.1;
        values[class].len() > 1 || is_affinitive[class] && own.keys().any(is_peer)
    };
    own.iter().filter(|(class, _)| has_peer(class)).map(of).collect()
}

/// The lower half of a class is what its healthy paths take, because faults only add latency. Local GPUs are held
/// against memory too, so a setting that makes all of them slow is seen.
fn class_latency(paths: &[LoopbackPath], classes: &[PathClass]) -> BTreeMap<PathClass, f64> {
    let mut values: BTreeMap<&PathClass, Vec<f64>> = BTreeMap::new();
    let mut local_gpus: Vec<&PathClass> = Vec::new();
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
    let own: BTreeMap<&PathClass, f64> =
        values.iter_mut().filter_map(|(class, values)| lower(values).map(|value| (*class, value))).collect();
    let to_memory = own.iter().filter(|(class, _)| class.0.last() == Some(&NodeKind::Memory));
    let memory = to_memory.map(|(_, value)| *value).min_by(f64::total_cmp);
    let of = |(class, value): (&&PathClass, &f64)| {
        let most =
            memory.filter(|_| local_gpus.contains(class)).map_or(f64::INFINITY, |memory| LOCAL_GPU_LATENCY * memory);
        ((*class).clone(), value.min(most))
    };
    own.iter().map(of).collect()
}

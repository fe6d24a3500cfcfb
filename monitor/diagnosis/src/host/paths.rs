//! The paths of a matrix through the links of a host.

use std::collections::BTreeMap;

use kelpie_topology::HostTopology;
use kelpie_topology::host::{NodeKind, is_affinitive};
use serde::Serialize;

use super::error::HostDiagnosisError;
use crate::matrix::Matrix;

/// What is known of a path or of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// As fast as it should be.
    Normal,
    /// Slower than it should be.
    Abnormal,
    /// Not known.
    Undecided,
}

/// One cell of the matrix and the way its traffic takes.
#[derive(Debug, Clone)]
pub struct LoopbackPath {
    /// Row of the matrix.
    pub row: usize,
    /// Column of the matrix.
    pub column: usize,
    /// Node of the RNIC.
    pub from: usize,
    /// Links on the way.
    pub links: Vec<usize>,
    /// Kinds of nodes on the way, both ends included.
    pub kinds: Vec<NodeKind>,
    /// Units: Gbit/s.
    pub bandwidth: Option<f64>,
    /// Units: microseconds.
    pub latency: Option<f64>,
}

impl LoopbackPath {
    /// Whether the RNIC alone limits a healthy path of this kind: to any memory, and to what is under the same switch.
    /// Only such paths can show that their links are normal (Hostping, "affinitive").
    pub fn is_affinitive(&self) -> bool {
        is_affinitive(&self.kinds)
    }

    /// Whether it leads over cables, to another RNIC.
    pub fn is_between_rnics(&self) -> bool {
        self.kinds.last() == Some(&NodeKind::Rnic)
    }

    /// Whether what it carries says how much a link carries. Loopback reads and writes one memory, and what goes to
    /// another RNIC only reads or writes it: so that carries more of a memory than loopback can.
    pub fn is_bound_of(&self, host: &HostTopology, link: usize) -> bool {
        let kelpie_topology::host::HostLink { a, b, .. } = host.links()[link];
        !self.is_between_rnics() || [a, b].iter().all(|node| host.nodes()[*node].kind != NodeKind::Memory)
    }

    /// Whether it ends at a GPU below the RNIC's own switch.
    pub fn is_local_gpu(&self) -> bool {
        self.kinds.last() == Some(&NodeKind::Gpu) && self.is_affinitive()
    }
}

/// The paths of all cells of a matrix.
pub fn paths(host: &HostTopology, matrix: &Matrix) -> Result<Vec<LoopbackPath>, HostDiagnosisError> {
    let node = |name: &String| host.node(name).ok_or_else(|| HostDiagnosisError::Unknown { name: name.clone() });
    let rows: Vec<usize> = matrix.rows.iter().map(node).collect::<Result<_, _>>()?;
    let columns: Vec<usize> = matrix.columns.iter().map(node).collect::<Result<_, _>>()?;
    let mut paths = Vec::with_capacity(rows.len() * columns.len());
    for (row, &from) in rows.iter().enumerate() {
        if host.nodes()[from].kind != NodeKind::Rnic {
            return Err(HostDiagnosisError::NotAnRnic { name: matrix.rows[row].clone() });
        }
        for (column, &to) in columns.iter().enumerate().filter(|(_, to)| **to != from) {
            let nowhere =
                || HostDiagnosisError::NoRoute { from: matrix.rows[row].clone(), to: matrix.columns[column].clone() };
            let (links, kinds) = way(host, from, to).ok_or_else(nowhere)?;
            let value = |cells: &Option<Vec<Vec<Option<f64>>>>| cells.as_ref().and_then(|cells| cells[row][column]);
            let (bandwidth, latency) = (value(&matrix.bandwidth_gbps), value(&matrix.latency_us));
            paths.push(LoopbackPath { row, column, from, links, kinds, bandwidth, latency });
        }
    }
    Ok(paths)
}

/// The links on the way of a cell's traffic, and the kinds of nodes between RNIC and endpoint. To another RNIC they are
/// those from the memory that is nearest to the first, over cables, to that which is nearest to the other.
fn way(host: &HostTopology, from: usize, to: usize) -> Option<(Vec<usize>, Vec<NodeKind>)> {
    if host.nodes()[to].kind != NodeKind::Rnic {
        let links = host.route(from, to)?;
        let kinds = host.kinds(from, &links);
        return Some((links, kinds));
    }
    let cables = host.cable_route(from, to)?;
    let kinds = host.kinds(from, &cables);
    let [own, theirs] = [from, to].map(|rnic| host.nearest_memory(rnic).map(|(_, links)| links));
    let mut links: Vec<usize> = Vec::new();
    for link in own?.into_iter().chain(cables).chain(theirs?) {
        if !links.contains(&link) {
            links.push(link);
        }
    }
    Some((links, kinds))
}

/// Per link that some path crosses, the indices of these paths.
pub fn crossing(paths: &[LoopbackPath]) -> BTreeMap<usize, Vec<usize>> {
    let mut crossing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, path) in paths.iter().enumerate() {
        for &link in &path.links {
            crossing.entry(link).or_default().push(index);
        }
    }
    crossing
}

//! The inside of a host by its loopback: one matrix, or as many as a verdict takes.

use std::path::Path;

use anyhow::{Context as _, bail};
use kelpie_agent::loopback::AgentHost;
use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::host::{HostDiagnosis, HostQuestion, HostVerdict, diagnose};
use kelpie_diagnosis::matrix::FORMAT;
use kelpie_engine::loopback::{Activity, HostMatrices, LoopbackHost, LoopbackRounds, measure};
use kelpie_sim::host::SimHost;
use kelpie_spaces::Host;
use kelpie_topology::HostTopology;
use kelpie_topology::host::{NodeKind, is_affinitive};

/// Matrices of a round that is not healthy by its first. Source: docs/explained/host-diagnosis.md, the repeat rule.
const REPEATED: usize = 5;

/// A host that can be measured, and what it consists of.
pub struct OpenedHost {
    /// The host.
    pub host: Box<dyn LoopbackHost>,
    /// What it consists of; rows and columns have the names of its nodes.
    pub topology: HostTopology,
}

/// How a round is measured.
pub struct RoundPlan<'r> {
    /// Whether others use the host.
    pub is_busy: bool,
    /// Share of the time for which an RNIC may be loaded, above 0 and up to 1.
    pub share: f64,
    /// Who measures.
    pub by: &'r str,
    /// What the host was like before.
    pub baseline: Option<&'r Matrix>,
    /// Says before each cell whether to go on.
    pub goes_on: &'r dyn Fn() -> bool,
}

impl OpenedHost {
    /// One of the hosts of a pair file.
    ///
    /// # Errors
    /// When there is nothing to measure, or the pair file cannot be read.
    pub fn real(pair: &Path, host: Host, topology: HostTopology) -> anyhow::Result<Self> {
        let names = |wanted: &[NodeKind]| -> Vec<String> {
            let nodes = topology.nodes().iter().filter(|node| wanted.contains(&node.kind));
            nodes.map(|node| node.name.clone()).collect()
        };
        let (rnics, endpoints) = (names(&[NodeKind::Rnic]), names(&[NodeKind::Memory, NodeKind::Gpu]));
        if rnics.is_empty() || endpoints.is_empty() {
            bail!("the topology of a host to measure has an RNIC and a memory at least");
        }
        let node = |name: &String| topology.node(name).expect("it was listed above");
        let is_cabled =
            |rnic: &&String| rnics.iter().any(|to| to != *rnic && topology.cable_route(node(rnic), node(to)).is_some());
        let endpoints = endpoints.into_iter().chain(rnics.iter().filter(is_cabled).cloned()).collect();
        let host = Box::new(AgentHost::open(pair, host, rnics.clone(), endpoints)?);
        Ok(Self { host, topology })
    }

    /// A simulated host with these changes.
    ///
    /// # Errors
    /// When there is none, or a change does not fit.
    pub fn simulated(name: &str, set: &[(String, String)], seed: Option<u64>) -> anyhow::Result<Self> {
        let mut host = SimHost::load(name)?;
        for (path, value) in set {
            host.set(path, value).with_context(|| format!("--set {path}={value}"))?;
        }
        if let Some(seed) = seed {
            host.set_seed(seed);
        }
        let topology = host.topology().clone();
        Ok(Self { host: Box::new(host), topology })
    }

    /// The cells to measure: all, or on a busy host those that the RNIC alone limits.
    pub fn cells(&self, is_busy: bool) -> Vec<(usize, usize)> {
        let node = |name: &String| self.topology.node(name);
        let is_wanted = |from: Option<usize>, to: Option<usize>| {
            let (Some(from), Some(to)) = (from, to) else { return false };
            if self.topology.nodes()[to].kind == NodeKind::Rnic {
                return !is_busy && from != to && self.topology.cable_route(from, to).is_some();
            }
            let route = self.topology.route(from, to);
            route.is_some_and(|route| !is_busy || is_affinitive(&self.topology.kinds(from, &route)))
        };
        let rows = self.host.rnics().iter().map(node).enumerate();
        let columns: Vec<Option<usize>> = self.host.endpoints().iter().map(node).collect();
        rows.flat_map(|(row, from)| {
            let wanted = columns.iter().enumerate().filter(move |(_, to)| is_wanted(from, **to));
            wanted.map(move |(column, _)| (row, column)).collect::<Vec<_>>()
        })
        .collect()
    }

    /// Measures a round, and again until it is healthy or the rule of repeats is met; the median of its matrices, or
    /// why it did not come to its end.
    ///
    /// # Errors
    /// The host does not answer, or its matrix cannot be judged.
    pub fn round(&mut self, plan: &RoundPlan<'_>) -> anyhow::Result<Result<(Matrix, HostDiagnosis), String>> {
        let mut matrices = Vec::new();
        let found = loop {
            match self.measured(plan)? {
                Ok(matrix) => matrices.push(matrix),
                Err(why) => return Ok(Err(why)),
            }
            let (matrix, repeats) = matrices.split_first().context("one was measured")?;
            let found =
                diagnose(HostQuestion { host: &self.topology, matrix, repeats, baseline: plan.baseline, busy: false })?;
            // On a busy host no answer is healthy, and each look costs its applications.
            if found.verdict == HostVerdict::Healthy || plan.is_busy || matrices.len() == REPEATED {
                break found;
            }
        };
        let (first, repeats) = matrices.split_first().context("one was measured")?;
        Ok(Ok((first.median_with(repeats), found)))
    }

    /// A matrix, or why it did not come to its end.
    fn measured(&mut self, plan: &RoundPlan<'_>) -> anyhow::Result<Result<Matrix, String>> {
        let rounds = LoopbackRounds { share: plan.share, cells: self.cells(plan.is_busy), beside_others: plan.is_busy };
        let measured = measure(self.host.as_mut(), &rounds, &mut |_, _, _| (plan.goes_on)())?;
        match measured.stopped.clone() {
            Some(why) => Ok(Err(why)),
            None => Ok(Ok(matrix_of(self.host.as_ref(), &measured, plan.by.to_owned()))),
        }
    }
}

/// What was measured, as the file has it.
pub fn matrix_of(host: &dyn LoopbackHost, measured: &HostMatrices, measured_by: String) -> Matrix {
    let is_busy = |activity: &Option<Activity>| activity.is_some_and(|activity| activity.is_busy());
    let rows = host.rnics();
    let busy = rows.iter().zip(&measured.activity).filter(|(_, activity)| is_busy(activity));
    Matrix {
        kelpie: FORMAT.to_owned(),
        rows: rows.to_vec(),
        columns: host.endpoints().to_vec(),
        bandwidth_gbps: Some(rounded(&measured.bandwidth_gbps, 10.0)),
        latency_us: Some(rounded(&measured.latency_us, 1000.0)),
        completion_us: None,
        busy: busy.map(|(row, _)| row.clone()).collect(),
        measured_by: Some(measured_by),
        measured_at: None,
    }
}

/// No more digits than mean something.
fn rounded(cells: &[Vec<Option<f64>>], parts: f64) -> Vec<Vec<Option<f64>>> {
    let round = |value: &Option<f64>| value.map(|value| (value * parts).round() / parts);
    cells.iter().map(|row| row.iter().map(round).collect()).collect()
}

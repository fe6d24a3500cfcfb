//! `kelpie host matrix`: loopback of a host's RNICs to its memories and GPUs, as `matrix/1`. What it means is for
//! `host diagnose`.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use kelpie_agent::loopback::AgentHost;
use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::matrix::FORMAT;
use kelpie_engine::loopback::{Activity, LoopbackHost, Measured, Rounds, measure};
use kelpie_reports::folder::write_file;
use kelpie_sim::host::SimHost;
use kelpie_topology::HostTopology;
use kelpie_topology::host::{Kind as NodeKind, is_affinitive};

use crate::args::Common;
use crate::cli::{MatrixArgs, MeasuredHostArgs};
use crate::exit;
use crate::inputs::{Kind, kind, read_file};
use crate::output::{Table, note, print, print_json};
use crate::progress::Progress;
use crate::stop;

/// A host that can be measured, and what it consists of.
pub struct Opened {
    /// The host.
    pub host: Box<dyn LoopbackHost>,
    /// What it consists of; rows and columns have the names of its nodes.
    pub topology: HostTopology,
}

impl Opened {
    /// Opens the host that the arguments name.
    ///
    /// # Errors
    /// When there is none, or a change does not fit.
    pub fn open(args: &MeasuredHostArgs, seed: Option<u64>) -> anyhow::Result<Self> {
        let path = match kind(&args.subsystem)? {
            Kind::Simulated(_) if args.topology.is_some() => {
                bail!("--topology is for real hosts; a simulated one brings its own, or is one: sim:path.yaml")
            }
            Kind::Simulated(name) => return Self::simulated(name, &args.set, seed),
            Kind::Pair(_) if !args.set.is_empty() => {
                bail!("--set changes the parts of a simulated host; `{}` is real", args.subsystem)
            }
            Kind::Pair(path) => path,
        };
        let file = args.topology.as_ref().context(
            "name the inside of the host with --topology T.yaml; `kelpie host topology > T.yaml` on that host writes it",
        )?;
        let topology = HostTopology::from_bytes(&file.display().to_string(), &read_file(file)?)?;
        let names = |wanted: &[NodeKind]| -> Vec<String> {
            let nodes = topology.nodes().iter().filter(|node| wanted.contains(&node.kind));
            nodes.map(|node| node.name.clone()).collect()
        };
        let (rnics, endpoints) = (names(&[NodeKind::Rnic]), names(&[NodeKind::Memory, NodeKind::Gpu]));
        if rnics.is_empty() || endpoints.is_empty() {
            bail!("{}: a host to measure has an RNIC and a memory at least", file.display());
        }
        let node = |name: &String| topology.node(name).expect("it was listed above");
        let is_cabled =
            |rnic: &&String| rnics.iter().any(|to| to != *rnic && topology.cable_route(node(rnic), node(to)).is_some());
        let endpoints = endpoints.into_iter().chain(rnics.iter().filter(is_cabled).cloned()).collect();
        let host = Box::new(AgentHost::open(&path, args.host, rnics.clone(), endpoints)?);
        Ok(Self { host, topology })
    }

    /// A simulated host, as it is.
    ///
    /// # Errors
    /// When there is none.
    pub fn by_name(subsystem: &str) -> anyhow::Result<Self> {
        match kind(subsystem)? {
            Kind::Simulated(name) => Self::simulated(name, &[], None),
            Kind::Pair(_) => bail!("`{subsystem}` is real: run `kelpie host topology` on it"),
        }
    }

    fn simulated(name: &str, set: &[(String, String)], seed: Option<u64>) -> anyhow::Result<Self> {
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
}

/// What was measured, as the file has it.
pub fn matrix_of(host: &dyn LoopbackHost, measured: &Measured, measured_by: String) -> Matrix {
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

/// Runs `kelpie host matrix`.
pub fn run(args: &MatrixArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut opened = Opened::open(&args.host, common.seed)?;
    let rounds = Rounds { share: args.host.share.0, cells: opened.cells(args.busy), beside_others: args.busy };
    let stopped = stop::on_signals("stopping after this cell; once more ends at once")?;
    let progress = Progress::of_cells(rounds.cells.len());
    let measured = measure(opened.host.as_mut(), &rounds, &mut |done, rnic, endpoint| {
        progress.cell(done, rnic, endpoint);
        !stopped.load(Ordering::Relaxed)
    })?;
    drop(progress);
    let by = format!("kelpie {} on {}", env!("CARGO_PKG_VERSION"), args.host.subsystem);
    let matrix = matrix_of(opened.host.as_ref(), &measured, by);
    if let Some(path) = &args.out {
        let text = serde_json::to_string(&matrix)? + "\n";
        write_file(path, text.as_bytes(), args.force).with_context(|| path.display().to_string())?;
    }
    if common.json { print_json(&matrix) } else { print(&text(&matrix)) }?;
    measured.notes.iter().for_each(|line| note(&format!("note: {line}")));
    if let Some(why) = &measured.stopped {
        note(&format!("error: stopped before the end: {why}; what was measured until then is in the matrix"));
        return Ok(exit::failed());
    }
    Ok(exit::HEALTHY)
}

fn text(matrix: &Matrix) -> String {
    let mut text = String::new();
    for (what, cells, digits) in
        [("bandwidth, Gbit/s", &matrix.bandwidth_gbps, 1), ("latency, us", &matrix.latency_us, 2)]
    {
        let Some(cells) = cells else { continue };
        let _ = writeln!(text, "{what}");
        let heading: Vec<&str> = std::iter::once("").chain(matrix.columns.iter().map(String::as_str)).collect();
        let mut table = Table::new(&heading, RIGHT);
        for (name, row) in matrix.rows.iter().zip(cells) {
            let name = if matrix.busy.contains(name) { format!("{name} (busy)") } else { name.clone() };
            let cell = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
            table.row(std::iter::once(name).chain(row.iter().map(cell)).collect());
        }
        text.push_str(&table.render("  "));
    }
    text
}

/// All columns but the first are numbers.
const RIGHT: &[usize] = &{
    let mut columns = [0; 64];
    let mut column = 0;
    while column < columns.len() {
        columns[column] = column + 1;
        column += 1;
    }
    columns
};

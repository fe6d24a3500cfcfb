//! `kelpie host matrix`: loopback of a host's RNICs to its memories and GPUs, as `matrix/1`. What it means is for
//! `host diagnose`.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use kelpie_diagnosis::Matrix;
use kelpie_engine::loopback::{LoopbackRounds, measure};
use kelpie_examine::files::read_file;
use kelpie_examine::host::{OpenedHost, matrix_of};
use kelpie_examine::subsystem::{SubsystemKind, kind};
use kelpie_reports::folder::write_file;
use kelpie_topology::HostTopology;

use crate::args::Common;
use crate::cli::{MatrixArgs, MeasuredHostArgs};
use crate::exit;
use crate::output::{Table, note, print, print_json};
use crate::progress::ProgressDisplay;
use crate::stop;

/// Opens the host that the arguments name.
pub fn open(args: &MeasuredHostArgs, seed: Option<u64>) -> anyhow::Result<OpenedHost> {
    let path = match kind(&args.subsystem)? {
        SubsystemKind::Simulated(_) if args.topology.is_some() => {
            bail!("--topology is for real hosts; a simulated one brings its own, or is one: sim:path.yaml")
        }
        SubsystemKind::Simulated(name) => return OpenedHost::simulated(name, &args.set, seed),
        SubsystemKind::Pair(_) if !args.set.is_empty() => {
            bail!("--set changes the parts of a simulated host; `{}` is real", args.subsystem)
        }
        SubsystemKind::Pair(path) => path,
    };
    let file = args.topology.as_ref().context(
        "name the inside of the host with --topology T.yaml; `kelpie host topology > T.yaml` on that host writes it",
    )?;
    let topology = HostTopology::from_bytes(&file.display().to_string(), &read_file(file)?)?;
    OpenedHost::real(&path, args.host, topology)
}

/// A simulated host, as it is.
pub fn by_name(subsystem: &str) -> anyhow::Result<OpenedHost> {
    match kind(subsystem)? {
        SubsystemKind::Simulated(name) => OpenedHost::simulated(name, &[], None),
        SubsystemKind::Pair(_) => bail!("`{subsystem}` is real: run `kelpie host topology` on it"),
    }
}

/// Runs `kelpie host matrix`.
pub fn run(args: &MatrixArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut opened = open(&args.host, common.seed)?;
    let rounds = LoopbackRounds { share: args.host.share.0, cells: opened.cells(args.busy), beside_others: args.busy };
    let stopped = stop::on_signals("stopping after this cell; once more ends at once")?;
    let progress = ProgressDisplay::of_cells(rounds.cells.len());
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

//! What a qualification says of a fleet: in words, one line a node for machines, reasons for schedulers, and reports.

mod history;
mod html;
mod junit;
mod metrics;
mod reason;
mod steps;
mod text;

use std::io;
use std::path::Path;

use kelpie_criteria::{FleetVerdict, Unit};

pub use history::EarlierRun;
pub use metrics::open_metrics;
pub use reason::{health_reason, nhc_line, node_line, reason, run_of_reason};
pub use steps::{NodeAct, NodeStep, steps};
pub use text::text;

/// Writes a report into a new or empty folder: all of it, or nothing. `earlier` are the runs before, the oldest first.
///
/// # Errors
/// Something is there, or it cannot be written.
pub fn write(
    folder: &Path,
    run: i64,
    verdict: &FleetVerdict,
    units: &[Unit],
    earlier: &[EarlierRun],
) -> io::Result<()> {
    let mut lines = String::new();
    for (name, node) in &verdict.nodes {
        lines += &node_line(run, name, node).map_err(io::Error::other)?;
        lines.push('\n');
    }
    let nhc: String = verdict.nodes.iter().map(|(name, node)| nhc_line(verdict, name, node) + "\n").collect();
    let files = [
        ("index.html", html::html(run, verdict, units, earlier)),
        ("junit.xml", junit::junit(run, verdict).map_err(io::Error::other)?),
        ("kelpie.prom", open_metrics(run, verdict)),
        ("nhc.txt", nhc),
        ("nodes.jsonl", lines),
    ];
    crate::folder::write(folder, &files)
}

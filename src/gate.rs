//! `--gate` of several commands. What stops is decided in `kelpie_reports::gate`.

use std::process::ExitCode;

use kelpie_examine::files::read_file;
use kelpie_reports::baseline::Baseline;
use kelpie_reports::gate::{Gate, GateColour, Ruling};

use crate::cli::GateArgs;
use crate::exit;

use crate::output::{note, plural};

impl GateArgs {
    /// What is let through. To be read before anything is measured, because the file may be wrong.
    pub fn read(&self) -> anyhow::Result<Gate> {
        let baseline = match &self.gate_baseline {
            Some(path) => Baseline::from_bytes(&path.display().to_string(), &read_file(path)?)?,
            None => Baseline::default(),
        };
        Ok(Gate { least: self.gate_severity.unwrap_or(0.0), baseline })
    }
}

/// The exit status of a ruling, said why: 0 for green, 1 for red, 2 for unknown, then with what to do next.
pub fn exit_of(ruling: &Ruling, next: Option<&str>) -> ExitCode {
    if let Some(reason) = &ruling.reason {
        let next = next.map_or_else(String::new, |next| format!("; {next}"));
        note(&format!("gate: unknown, because {reason}{next}"));
        return exit::failed();
    }
    let worst = ruling.worst.as_ref().map_or_else(String::new, |worst| format!("; the worst is {worst}"));
    let findings = match ruling.stopped_by_findings.len() {
        0 => String::new(),
        more => format!(" and {} without one", plural(more as u64, "finding")),
    };
    let stopped = plural(ruling.stopped_by.len() as u64, "anomalous experiment") + &findings;
    let (colour, passed) = (ruling.colour, ruling.let_through);
    note(&format!("gate: {colour}, stopped by {stopped}, {passed} let through{worst}"));
    if colour == GateColour::Red { exit::anomalous() } else { exit::HEALTHY }
}

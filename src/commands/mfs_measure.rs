//! `kelpie mfs measure`: one anomalous workload in its simplest form, with what it needs, measured.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_campaign::UnstoredOracle;
use kelpie_campaign::text::conditions_table;
use kelpie_monitor::Severity;
use kelpie_reports::folder;
use kelpie_search::{Cure, Distilled, TriedTransport, distil};
use kelpie_spaces::{Space, Workload, workload_to_yaml};
use serde_json::{Value, json};

use crate::args::Common;
use crate::cli::MfsMeasureArgs;
use crate::exit;
use crate::inputs;
use crate::output::{note, plural, print, print_json};

/// Runs the command.
pub fn measure(args: &MfsMeasureArgs, common: Common) -> anyhow::Result<ExitCode> {
    let workload = inputs::read_workload(&args.workload)?;
    let space = Space::catalog("full").expect("a space of the catalogue");
    let mut opened = args.subsystem.open()?;
    let mut asked = UnstoredOracle::new(opened.subsystem());
    let distilled = distil(&space, &workload, &mut asked)?;
    let Some(distilled) = distilled else {
        if common.json {
            print_json(&json!({"symptom": null}))?;
        } else {
            print(&format!("{}: not anomalous, so that it needs nothing\n", args.subsystem.subsystem))?;
        }
        return Ok(exit::HEALTHY);
    };
    let severity = asked.severity(&distilled.witness);
    if let Some(path) = &args.out {
        folder::write_file(path, workload_to_yaml(&distilled.witness).as_bytes(), args.force)
            .with_context(|| format!("{} (--force replaces a file)", path.display()))?;
        note(&format!("the witness is in {}", path.display()));
    }
    if common.json {
        print_json(&document(&distilled, severity))?;
    } else {
        print(&text(&distilled, severity, &args.subsystem.subsystem))?;
    }
    Ok(exit::anomalous())
}

/// Words of transports and operations that show the symptom, and of those that do not.
fn transports(distilled: &Distilled, shows: bool) -> Vec<String> {
    let told = distilled.transports.iter().filter(|transport| transport.shows == shows);
    told.map(|TriedTransport { qp_type, opcode, .. }| format!("{qp_type} {opcode}")).collect()
}

fn document(distilled: &Distilled, severity: Option<Severity>) -> Value {
    let cure = |Cure { condition, sides, .. }: &Cure| {
        let side = |[shows, gone]: &[Workload; 2]| json!({"anomalous": shows, "gone": gone});
        json!({"condition": condition, "sides": sides.iter().map(side).collect::<Vec<_>>()})
    };
    json!({
        "symptom": distilled.symptom, "severity": severity, "witness": distilled.witness,
        "conditions": distilled.cures.iter().map(cure).collect::<Vec<_>>(),
        "shows_with": transports(distilled, true), "not_with": transports(distilled, false),
        "experiments": distilled.experiments,
    })
}

fn text(distilled: &Distilled, severity: Option<Severity>, subsystem: &str) -> String {
    let mut text = format!(
        "{subsystem}: {}, {}\n  {}\n",
        distilled.symptom.name(),
        Severity::in_words(severity),
        distilled.witness.summary()
    );
    if distilled.cures.is_empty() {
        text += "  plain traffic of this transport shows it\n";
    } else {
        text += &conditions_table(&distilled.cures, |_| None);
    }
    let _ = writeln!(text, "  shows with {}", transports(distilled, true).join(", "));
    let without = transports(distilled, false);
    if !without.is_empty() {
        let _ = writeln!(text, "  not with {}", without.join(", "));
    }
    let _ = writeln!(text, "  {}", plural(distilled.experiments, "experiment"));
    text
}

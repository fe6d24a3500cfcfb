//! `kelpie mfs measure`: one anomalous workload in its simplest form, with what it needs, measured.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_engine::{MeasureError, measured_or_nothing};
use kelpie_monitor::{Bounds, Severity};
use kelpie_reports::folder;
use kelpie_search::{Cure, Distilled, Observation, Oracle, Purpose, Transport, distil};
use kelpie_spaces::{Space, Workload, workload_to_yaml};
use serde_json::{Value, json};

use crate::args::Common;
use crate::cli::MfsMeasureArgs;
use crate::commands::findings_text::conditions_table;
use crate::exit;
use crate::inputs;
use crate::output::{note, plural, print, print_json};
use crate::subsystems::Opened;

/// A subsystem that is asked until the form is found.
struct Asked<'a> {
    opened: &'a mut Opened,
    bounds: Bounds,
    /// How bad what was measured is.
    severities: HashMap<Workload, Option<Severity>>,
}

impl Asked<'_> {
    fn new(opened: &mut Opened) -> Asked<'_> {
        let bounds = opened.subsystem().bounds();
        Asked { opened, bounds, severities: HashMap::new() }
    }
}

impl Oracle for Asked<'_> {
    type Error = MeasureError;

    fn measure(&mut self, workload: &Workload, _: Purpose) -> Result<Observation, MeasureError> {
        let Self { opened, bounds, severities } = self;
        let (measurement, assessment) = measured_or_nothing(opened.subsystem(), workload, bounds)?;
        severities.insert(workload.clone(), Severity::of(workload, bounds, &measurement));
        Ok(Observation::new(workload, &measurement, assessment, bounds))
    }

    fn skipped(&mut self, _: &Workload) {}

    fn found(&mut self, _: u64, _: &kelpie_search::Finding) -> Result<(), MeasureError> {
        Ok(())
    }
}

/// Runs the command.
pub fn measure(args: &MfsMeasureArgs, common: Common) -> anyhow::Result<ExitCode> {
    let workload = inputs::read_workload(&args.workload)?;
    let space = Space::catalog("full").expect("a space of the catalogue");
    let mut opened = Opened::open(&args.subsystem)?;
    let mut asked = Asked::new(&mut opened);
    let distilled = distil(&space, &workload, &mut asked)?;
    let Some(distilled) = distilled else {
        if common.json {
            print_json(&json!({"symptom": null}))?;
        } else {
            print(&format!("{}: not anomalous, so that it needs nothing\n", args.subsystem.subsystem))?;
        }
        return Ok(exit::HEALTHY);
    };
    let severity = asked.severities.get(&distilled.witness).copied().flatten();
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
    told.map(|Transport { qp_type, opcode, .. }| format!("{qp_type} {opcode}")).collect()
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

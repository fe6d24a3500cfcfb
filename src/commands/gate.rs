//! `--gate` of several commands, and `kelpie campaign baseline`. What stops is decided in `kelpie_reports::gate`.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use kelpie_reports::baseline::Baseline;
use kelpie_reports::explained::{self, Explained};
use kelpie_reports::folder;
use kelpie_reports::gate::{Colour, Course, Gate, Ruling};
use kelpie_store::{Campaign, CampaignState, Store};
use serde_json::json;

use crate::args::Common;
use crate::cli::{BaselineArgs, GateArgs};
use crate::commands::campaign;
use crate::exit;
use crate::inputs;
use crate::output::{note, plural, print, print_json};

impl GateArgs {
    /// What is let through. To be read before anything is measured, because the file may be wrong.
    pub fn read(&self) -> anyhow::Result<Gate> {
        let baseline = match &self.gate_baseline {
            Some(path) => Baseline::from_bytes(&path.display().to_string(), &inputs::read_file(path)?)?,
            None => Baseline::default(),
        };
        Ok(Gate { least: self.gate_severity.unwrap_or(0.0), baseline })
    }

    /// What the gate says of a campaign; `None` if nobody asked for a gate.
    pub fn rule(&self, gate: &Gate, explained: &Explained<'_>, course: Course<'_>) -> Option<Ruling> {
        self.gate.then(|| gate.rule(explained, course))
    }
}

/// The exit status of a ruling, said why: 0 for green, 1 for red, 2 for unknown, then with what to do next.
pub fn exit_of(ruling: &Ruling, explained: &Explained<'_>, next: Option<&str>) -> ExitCode {
    if let Some(reason) = &ruling.reason {
        let next = next.map_or_else(String::new, |next| format!("; {next}"));
        note(&format!("gate: unknown, because {reason}{next}"));
        return exit::failed();
    }
    let first = ruling.stopped_by.first();
    let worst = first.and_then(|first| explained.anomalies.iter().find(|anomaly| anomaly.number == *first));
    let worst = worst.map_or_else(String::new, |worst| {
        format!("; the worst is experiment {}, {}, {}", worst.number, worst.symptom.name(), worst.severity)
    });
    let findings = match ruling.stopped_by_findings.len() {
        0 => String::new(),
        more => format!(" and {} without one", plural(more as u64, "finding")),
    };
    let stopped = plural(ruling.stopped_by.len() as u64, "anomalous experiment") + &findings;
    let (colour, passed) = (ruling.colour, ruling.let_through);
    note(&format!("gate: {colour}, stopped by {stopped}, {passed} let through{worst}"));
    if colour == Colour::Red { exit::anomalous() } else { exit::HEALTHY }
}

/// What to do if the gate is unknown.
pub fn next_step(campaign: &Campaign, database: &Path) -> Option<String> {
    match (campaign.state, campaign.definition.budget) {
        (CampaignState::Finished, _) => Some("`kelpie watch` shows how experiments ended".to_owned()),
        (CampaignState::Stopped, Some(_)) => {
            Some(format!("`{}` goes on", campaign::resume_command(database, campaign.id, None)))
        }
        (CampaignState::Stopped, None) | (CampaignState::Running, _) => None,
    }
}

/// Writes the findings of a campaign as accepted.
pub fn write_baseline(args: &BaselineArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_read(&args.database.path()?)?;
    let id = campaign::chosen(&mut store, args.id)?;
    let (findings, anomalies) = explained::read(&mut store, id)?;
    let findings = store.campaign(id)?.definition.in_whole_space(findings)?;
    let explained = Explained::new(&findings, &anomalies);
    let baseline = Baseline::of(&explained, args.unexplained);
    folder::write_file(&args.out, baseline.to_yaml().as_bytes(), args.force).map_err(|error| {
        let hint = if error.kind() == ErrorKind::AlreadyExists { " (--force replaces it)" } else { "" };
        anyhow::anyhow!(error).context(format!("{}{hint}", args.out.display()))
    })?;
    let stopping = Gate { least: 0.0, baseline: baseline.clone() }.stopping(&explained).len();
    if common.json {
        print_json(&json!({"campaign": id, "out": args.out, "accepted": baseline.len(), "not_accepted": stopping}))?;
    } else {
        let accepted = plural(baseline.len() as u64, "region");
        let left = plural(stopping as u64, "anomalous experiment");
        print(&format!("campaign {id}: {accepted} accepted, {left} not\n{}\n", args.out.display()))?;
    }
    Ok(exit::HEALTHY)
}

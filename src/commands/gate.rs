//! `--gate` of several commands, and `kelpie campaign baseline`. What stops is decided in `kelpie_reports::gate`.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use kelpie_reports::baseline::Baseline;
use kelpie_reports::explained::{self, Explained};
use kelpie_reports::folder;
use kelpie_reports::gate::Gate;
use kelpie_store::{Campaign, Store};
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

    /// The exit status of a campaign with these anomalies, said why; 0 if nobody asked for a gate, and 2 if nothing has a
    /// verdict, or if nothing stops of a campaign that has not reached its budget.
    pub fn exit(
        &self,
        gate: &Gate,
        explained: &Explained<'_>,
        campaign: &Campaign,
        has_verdict: bool,
        database: &Path,
    ) -> ExitCode {
        if !self.gate {
            return exit::HEALTHY;
        }
        let is_red = gate.is_red(explained);
        if !is_red && !has_verdict {
            note("gate: no experiment has a verdict, so nothing is known; `kelpie watch` shows how they ended");
            return exit::failed();
        }
        if !is_red && let Some(budget) = campaign.stopped_before() {
            let (id, done) = (campaign.id, campaign.experiments);
            note(&format!(
                "gate: campaign {id} stopped after {done} of {budget} experiments, so the others are unknown; \
                 go on with `{}`",
                campaign::resume_command(database, id, None)
            ));
            return exit::failed();
        }
        let stopping = gate.stopping(explained);
        let passed = explained.anomalies.len() - stopping.len();
        let worst = stopping.first().map_or_else(String::new, |worst| {
            format!("; the worst is experiment {}, {}, {}", worst.number, worst.symptom.name(), worst.severity)
        });
        let unmeasured = explained.findings.iter().filter(|found| gate.stops_unmeasured(found)).count();
        let findings = match unmeasured {
            0 => String::new(),
            more => format!(" and {} without one", plural(more as u64, "finding")),
        };
        let stopped = plural(stopping.len() as u64, "anomalous experiment") + &findings;
        note(&format!("gate: stopped by {stopped}, {passed} let through{worst}"));
        if is_red { exit::anomalous() } else { exit::HEALTHY }
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

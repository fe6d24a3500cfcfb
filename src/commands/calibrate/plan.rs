//! `kelpie calibrate plan`: the rows, as text, as a table, as workload files, and measured.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use kelpie_calibration::expectation::expected;
use kelpie_calibration::fit::{FittedParameter, NOISE};
use kelpie_calibration::in_words::{interval, state};
use kelpie_calibration::parameters::Parameter;
use kelpie_calibration::plan::{Planned, plan};
use kelpie_calibration::problem::MeasuredTarget;
use kelpie_calibration::simulator::{TrafficResult, settings_of};
use kelpie_calibration::table;
use kelpie_engine::{MeasureError, Subsystem as _};
use kelpie_reports::folder;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Workload, workload_to_yaml};
use serde_json::json;

use super::base::embedded;
use crate::args::Common;
use crate::cli::calibrate::PlanCalibrationArgs;
use crate::exit;
use crate::inputs::open_subsystem;
use crate::output::{Table, note, print, print_json};
use crate::progress::ProgressDisplay;
use crate::stop;

/// Line of a table at which the first row stands.
const FIRST_LINE: usize = 2;

/// Runs the command.
pub fn run(args: &PlanCalibrationArgs, common: Common) -> anyhow::Result<ExitCode> {
    let base = embedded(&args.base)?;
    let rows = plan(&base);
    if let Some(subsystem) = &args.subsystem {
        let measured = measure(&rows, subsystem)?;
        print(&table::write(&rows, &measured))?;
    } else if args.csv {
        print(&table::write(&rows, &[]))?;
    } else if let Some(folder) = &args.workloads {
        write_workloads(&rows, folder)?;
    } else {
        show(&base, &rows, common)?;
    }
    Ok(exit::HEALTHY)
}

/// Measures each row; what the subsystem cannot run stays empty.
fn measure(rows: &[Planned], name: &str) -> anyhow::Result<Vec<Option<MeasuredTarget>>> {
    let mut opened = open_subsystem(name)?;
    let progress = ProgressDisplay::new(Some(rows.len() as u64));
    let mut measured = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let workload = valid(row)?;
        let mut changed = opened.simulated().map(|simulated| simulated.clone());
        if let Some(simulated) = &mut changed {
            simulated.set_numbers(&settings_of(&row.traffic))?;
        }
        let measurement = match &mut changed {
            Some(simulated) => simulated.measure(&workload),
            None if row.traffic.cores.is_some() => {
                let reason = "it needs an agent on one core, or perftest: fill it in by hand".to_owned();
                Err(MeasureError::Unsupported { reason })
            }
            None => opened.subsystem().measure(&workload),
        };
        let seen = match measurement {
            Ok(measurement) => TrafficResult::of(&measurement),
            Err(MeasureError::Unsupported { reason }) => {
                progress.say(&format!("line {} stays without a rate: {reason}", at + FIRST_LINE));
                None
            }
            Err(error) => return Err(error).with_context(|| format!("line {}", at + FIRST_LINE)),
        };
        measured.push(
            seen.map(|seen| MeasuredTarget { goodput_bps: seen.goodput_bps, pause_ratio: Some(seen.pause_ratio) }),
        );
        progress.reached(at as u64 + 1);
    }
    progress.close();
    Ok(measured)
}

/// The workload of a row.
fn valid(row: &Planned) -> anyhow::Result<Workload> {
    row.traffic.workload().context("a row of the plan breaks a rule of verbs")
}

fn write_workloads(rows: &[Planned], out: &Path) -> anyhow::Result<()> {
    let shown = out.display().to_string();
    if std::fs::symlink_metadata(out).is_ok() {
        bail!("{shown} exists; name a new directory");
    }
    let named = |(at, row): (usize, &Planned)| {
        valid(row).map(|workload| (format!("{:02}.yaml", at + FIRST_LINE), workload_to_yaml(&workload)))
    };
    let files: Vec<(String, String)> = rows.iter().enumerate().map(named).collect::<anyhow::Result<_>>()?;
    let files: Vec<(&str, String)> = files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    folder::write(out, &files).with_context(|| shown.clone())?;
    let one_core = rows.iter().enumerate().filter(|(_, row)| row.traffic.cores.is_some());
    let lines: Vec<String> = one_core.map(|(at, _)| format!("{:02}", at + FIRST_LINE)).collect();
    note(&format!(
        "{shown}: {} workloads; {} post from one core, which the agent has to be kept to",
        rows.len(),
        lines.join(", ")
    ));
    Ok(())
}

fn show(base: &SimSubsystem, rows: &[Planned], common: Common) -> anyhow::Result<()> {
    let stop = stop::on_signals("stopping")?;
    let progress = ProgressDisplay::of_experiments();
    let estimates =
        expected(base, rows, &Parameter::fitted(), NOISE, &stop, &mut |experiments| progress.reached(experiments));
    progress.close();
    let estimates = estimates?;
    if common.json {
        return print_json(&json!({
            "base": base.model_name(), "noise": NOISE, "rows": rows, "parameters": estimates,
        }));
    }
    print(&text(base.model_name(), rows, &estimates))
}

fn text(base: &str, rows: &[Planned], estimates: &[FittedParameter]) -> String {
    let mut text = format!("{} measurements for a NIC like {base}:\n", rows.len());
    let heading = ["line", "operation", "size", "QPs", "MTU", "depth", "batch", "MRs", "directions", "cores", "for"];
    let mut table = Table::new(&heading, &[0, 2, 3, 4, 5, 6, 7]);
    for (at, Planned { traffic, determines }) in rows.iter().enumerate() {
        let purpose = if determines.is_empty() {
            "check".to_owned()
        } else {
            determines.iter().map(|parameter| parameter.path()).collect::<Vec<_>>().join(", ")
        };
        table.row(vec![
            (at + FIRST_LINE).to_string(),
            format!("{} {}", traffic.transport, traffic.operation),
            traffic.size_bytes.to_string(),
            traffic.qps.to_string(),
            traffic.mtu.bytes().to_string(),
            traffic.depth.to_string(),
            traffic.batch.to_string(),
            traffic.mrs_per_qp.to_string(),
            traffic.path.name().to_owned(),
            traffic.cores.map_or_else(|| "-".to_owned(), |cores| cores.to_string()),
            purpose,
        ]);
    }
    text += &table.render("  ");
    let _ =
        writeln!(text, "If the NIC is {base} and rates scatter by {} %, they say of its parameters:", 100.0 * NOISE);
    let mut table = Table::new(&["parameter", "value", "interval", "state"], &[1, 2]);
    for estimate in estimates {
        table.row(vec![
            estimate.parameter.path().to_owned(),
            format!("{:.4} {}", estimate.base, estimate.parameter.row().unit),
            interval(estimate),
            state(estimate),
        ]);
    }
    text += &table.render("  ");
    text
}

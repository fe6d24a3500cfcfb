//! `kelpie calibrate`: a model fitted to measurements, and which measurements are worth taking. The fit is in
//! `kelpie_calibration`.

mod base;
mod plan;

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use kelpie_calibration::fit::{self, Fit, FitSettings, MOST_EXPERIMENTS, NOISE};
use kelpie_calibration::in_words::text;
use kelpie_calibration::parameters::{Based, named};
use kelpie_calibration::table::MeasuredTable;
use kelpie_calibration::{model_file, table};
use kelpie_examine::files::open;
use kelpie_examine::subsystem::contradictions;
use kelpie_reports::folder;
use kelpie_sim::SimSubsystem;
use serde_json::json;

use crate::args::Common;
use crate::cli::calibrate::{CalibrateArgs, CalibrateCommand, FitArgs};
use crate::exit;
use crate::output::{note, plural, print, print_json};
use crate::progress::ProgressDisplay;
use crate::stop;

/// Error of held-back rows from which on a model does not predict, relative. Source: our choice, what a calibration is
/// to reach.
const MOST_ERROR: f64 = 0.1;

/// Runs the command.
pub fn run(args: &CalibrateArgs, common: Common) -> anyhow::Result<ExitCode> {
    match (&args.command, &args.fit) {
        (Some(CalibrateCommand::Plan(args)), _) => plan::run(args, common),
        (None, Some(args)) => calibrate(args, common),
        (None, None) => bail!("name a table: kelpie calibrate TABLE.csv --base F --out mine.yaml"),
    }
}

fn calibrate(args: &FitArgs, common: Common) -> anyhow::Result<ExitCode> {
    let base = base::embedded(&args.base)?;
    let parameters = named(&args.parameters)?;
    if args.out.exists() && !args.force {
        bail!("{} exists; --force replaces it", args.out.display());
    }
    let MeasuredTable { rows, unmeasured } = read_table(&args.table)?;
    if !unmeasured.is_empty() {
        let lines: Vec<String> = unmeasured.iter().map(u64::to_string).collect();
        note(&format!(
            "{} without a rate left out: lines {}",
            plural(unmeasured.len() as u64, "row"),
            lines.join(", ")
        ));
    }
    let settings =
        FitSettings { parameters, seed: common.seed_or_default(), noise: NOISE, most_experiments: MOST_EXPERIMENTS };
    let stop = stop::on_signals("stopping with what fits best so far; interrupt again to stop now")?;
    let progress = ProgressDisplay::of_experiments();
    let fit = fit::fit(&base, &rows, &settings, &stop, &mut |experiments| progress.reached(experiments));
    progress.close();
    let fit = fit?;
    let is_whole = !fit.stopped && !fit.exhausted;
    if is_whole {
        write_model(args, &base, &fit, &settings)?;
    }
    let out = is_whole.then_some(args.out.as_path());
    if common.json {
        print_json(&json!({"table": args.table, "base": base.model_name(), "out": out, "fit": fit}))?;
    } else {
        print(&text(&fit, out))?;
    }
    Ok(if !is_whole {
        note("error: the fit did not come to its end, so no model was written");
        exit::failed()
    } else if fit.converged && fit.held_back_error.is_none_or(|error| error <= MOST_ERROR) {
        exit::HEALTHY
    } else {
        exit::anomalous()
    })
}

fn read_table(path: &Path) -> anyhow::Result<MeasuredTable> {
    let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
    let reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(open(path).with_context(|| name.clone())?)
    };
    Ok(table::read(&name, reader)?)
}

/// Writes the model in one step, so that nobody sees half of it.
fn write_model(args: &FitArgs, base: &SimSubsystem, fit: &Fit, settings: &FitSettings) -> anyhow::Result<()> {
    let based: Vec<Based> = settings.parameters.iter().map(|parameter| Based::over(*parameter, base)).collect();
    let name = args.out.file_stem().map_or_else(|| "calibrated".into(), |stem| stem.to_string_lossy());
    let table = args.table.file_name().map_or_else(|| "stdin".into(), |name| name.to_string_lossy());
    let text = model_file::write(fit, base.model_name(), &based, &name, &table);
    let shown = args.out.display().to_string();
    let model = SimSubsystem::from_yaml(&shown, &text).context("the calibrated model breaks a rule of models")?;
    for line in contradictions(&model) {
        note(&line);
    }
    folder::write_file(&args.out, text.as_bytes(), args.force).context(shown)
}

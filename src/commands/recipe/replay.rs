//! `kelpie recipe replay`: measures a recipe's workload and compares; nothing is stored, nothing of the recipe is run.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, bail};
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_monitor::{Bounds, JudgedMeasurement, Sample, Symptom, Verdict, measure_judged};
use kelpie_reports::recipe::{self, Recipe, Replayed};
use kelpie_sim::SimSubsystem;
use serde_json::json;

use crate::args::Common;
use crate::cli::recipe::ReplayArgs;
use crate::exit;
use crate::inputs::open_subsystem;
use crate::output::{Table, note, percent, print, print_json, si};

/// Most events that a stranger's model may take for one measurement. Source: our choice, ten times what the embedded
/// models take, which is some seconds.
const MOST_EVENTS: u64 = 4_000_000;

/// Runs the command.
pub fn run(args: &ReplayArgs, common: Common) -> anyhow::Result<ExitCode> {
    let recipe = recipe::read(&args.path).with_context(|| args.path.display().to_string())?;
    let (name, mut opened) = open(args, &recipe)?;
    if let (Some(seed), Some(simulated)) = (common.seed, opened.simulated()) {
        simulated.set("sampling.seed", &seed.to_string()).context("--seed")?;
    }
    let bounds = opened.subsystem().bounds();
    let judged = measure_judged(&recipe.workload, &bounds, |workload, attempt| {
        opened.subsystem().measure_again(workload, attempt)
    })?;
    let verdict = judged.assessment.verdict;
    let outcome = Replayed::of(verdict, &judged.assessment.symptoms, &recipe.expected.symptoms);
    if common.json {
        print_json(&json!({
            "finding": recipe.finding, "subsystem": name, "outcome": outcome,
            "expected": {
                "verdict": recipe.expected.verdict, "symptoms": recipe.expected.symptoms,
                "bounds": recipe.expected.bounds, "mean": recipe.anomalous.mean,
            },
            "measured": {
                "verdict": verdict, "symptoms": judged.assessment.symptoms, "bounds": bounds,
                "mean": judged.measurement.mean(), "hardware_events": judged.measurement.hardware_events,
                "capacity": judged.measurement.capacity,
            },
        }))?;
    } else {
        print(&text(&recipe, &name, outcome, &judged, bounds))?;
    }
    Ok(match verdict {
        Verdict::Healthy => exit::HEALTHY,
        Verdict::Anomalous => exit::anomalous(),
        Verdict::Inconclusive => {
            note("error: inconclusive, so the anomaly may be reproduced or not; replay again, or look at --json");
            exit::failed()
        }
    })
}

fn open(args: &ReplayArgs, recipe: &Recipe) -> anyhow::Result<(String, OpenedSubsystem)> {
    if let Some(name) = &args.subsystem {
        return Ok((name.clone(), open_subsystem(name)?));
    }
    let environment = &recipe.environment;
    let Some(model) = &environment.model else {
        bail!("this recipe was made on a real pair; name the pair that replays it with --subsystem S");
    };
    let subsystem = SimSubsystem::from_yaml(&environment.subsystem, model)
        .map_err(|error| anyhow::anyhow!("recipe.json: environment.model: {}", recipe::shown(&error.to_string())))?;
    let events = subsystem.most_events();
    if events > MOST_EVENTS {
        bail!(
            "recipe.json: environment.model: a measurement may take {events} events, and at most {MOST_EVENTS} are \
             accepted; lower sampling.max_events, or name a subsystem with --subsystem"
        );
    }
    Ok((environment.subsystem.clone(), OpenedSubsystem::Simulated(Box::new(subsystem))))
}

fn text(recipe: &Recipe, name: &str, outcome: Replayed, judged: &JudgedMeasurement, bounds: Bounds) -> String {
    let words = |symptoms: &[Symptom]| symptoms.iter().map(|symptom| symptom.name()).collect::<Vec<_>>().join(", ");
    let symptoms = &judged.assessment.symptoms;
    let headline = match outcome {
        Replayed::Reproduced => console::style("reproduced".to_owned()).red().bold(),
        Replayed::NotReproduced if symptoms.is_empty() => console::style("not reproduced".to_owned()).green(),
        Replayed::NotReproduced => {
            console::style(format!("not reproduced, but anomalous otherwise: {}", words(symptoms))).red().bold()
        }
        Replayed::Inconclusive => console::style("inconclusive".to_owned()).yellow(),
    };
    let mut text = format!("{} on {name}: {headline}\n", recipe.finding);
    let mut table = Table::new(&["", "expected", "measured"], &[1, 2]);
    let none = |words: String| if words.is_empty() { "-".to_owned() } else { words };
    let expected_bounds = recipe.expected.bounds;
    table.row(vec!["symptoms".to_owned(), words(&recipe.expected.symptoms), none(words(symptoms))]);
    let rate = |bps: f64| format!("{}bit/s", si(bps));
    table.row(vec!["bound".to_owned(), rate(expected_bounds.max_bps), rate(bounds.max_bps)]);
    let capacities = [recipe.anomalous.capacity, judged.measurement.capacity];
    if capacities.iter().any(Option::is_some) {
        let [expected, measured] = capacities.map(|capacity| none(capacity.map(percent).unwrap_or_default()));
        table.row(vec!["of it meanwhile".to_owned(), expected, measured]);
    }
    let measured = judged.measurement.mean();
    for (name, value) in rows() {
        let [expected, measured] = [Some(&recipe.anomalous.mean), measured.as_ref()].map(|mean| mean.and_then(&value));
        if expected.is_some() || measured.is_some() {
            let shown = |value: Option<String>| none(value.unwrap_or_default());
            table.row(vec![name, shown(expected), shown(measured)]);
        }
    }
    text += &table.render("  ");
    for event in &judged.measurement.hardware_events {
        let _ = writeln!(text, "  hardware: {event}");
    }
    text
}

/// A line of the comparison: its name, and its value if a measurement has it.
type ReplayLine = (String, Box<dyn Fn(&Sample) -> Option<String>>);

fn rows() -> Vec<ReplayLine> {
    let mut rows: Vec<ReplayLine> = Vec::new();
    for from in kelpie_spaces::Host::BOTH {
        for to in kelpie_spaces::Host::BOTH {
            let goodput = move |mean: &Sample| Some(format!("{}bit/s", si(mean.direction(from, to)?.goodput_bps)));
            rows.push((format!("{from} -> {to}"), Box::new(goodput)));
        }
    }
    for host in kelpie_spaces::Host::BOTH {
        let sent = move |mean: &Sample| Some(percent(mean.pause.as_ref()?.get(host).tx));
        let held = move |mean: &Sample| Some(percent(mean.pause.as_ref()?.get(host).rx));
        rows.push((format!("{host} sent pause"), Box::new(sent)));
        rows.push((format!("{host} was paused"), Box::new(held)));
    }
    rows
}

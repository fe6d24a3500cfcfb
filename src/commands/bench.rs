//! `kelpie bench search`: its arguments and its table. The searches are in `crate::bench`.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use kelpie_search::{Algorithm, Config, SignalSet};
use kelpie_sim::SimSubsystem;
use serde_json::{Value, json};

use crate::args::{Common, DEFAULT_BUDGET};
use crate::bench::{self, Job, Outcome, Spread};
use crate::exit;
use crate::inputs::{self, Kind};
use crate::output::{Table, note, plural, print, print_json};
use crate::progress::Progress;
use crate::stop;

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Score algorithms side by side on simulated subsystems
    #[command(
        after_help = "A weakness is a symptom with the part of the subsystem that limits the traffic; the search \
        does not see\nthat part. An experiment that shows a weakness touches it. A finding whose workload shows it \
        finds it.\nNothing is stored.\n\n\
        Exit status: 0 every campaign ended, 2 one could not run, or was stopped.\n\n\
        Examples:\n  \
        kelpie bench search --subsystem sim:F sim:H --seeds 4\n  \
        kelpie bench search --subsystem sim:F --algorithms collie random --seeds 8 --budget 500 --json"
    )]
    Search(SearchArgs),
}

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// `sim:F` or `sim:path.yaml`
    #[arg(long = "subsystem", short = 's', value_name = "S", num_args = 1.., required = true)]
    pub subsystems: Vec<String>,
    /// Which algorithms [default: all]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub algorithms: Vec<Algorithm>,
    /// Which signals guide them: perf, diag or both
    #[arg(long, value_name = "NAME", default_value = "both")]
    pub signal: SignalSet,
    /// Space to search: a catalog name or a file (space/1)
    #[arg(long, value_name = "X", default_value = "full")]
    pub space: String,
    /// How many seeds, counted up from --seed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// Experiments of each campaign
    #[arg(long, value_name = "B", default_value_t = DEFAULT_BUDGET,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub budget: u64,
}

/// Scores of one algorithm on one subsystem.
struct Score {
    subsystem: String,
    algorithm: Algorithm,
    outcomes: Vec<Outcome>,
}

/// Runs the command.
pub fn run(args: &SearchArgs, common: Common) -> anyhow::Result<ExitCode> {
    let space = inputs::read_space(&args.space)?;
    let first = common.seed_or_default();
    let Some(last) = first.checked_add(args.seeds - 1) else {
        bail!("--seed {first} leaves no room for {} seeds counted up from it", args.seeds)
    };
    let algorithms = if args.algorithms.is_empty() { &Algorithm::ALL[..] } else { &args.algorithms };
    let (mut groups, mut jobs) = (Vec::new(), Vec::new());
    for name in &args.subsystems {
        let subsystem = simulated(name)?;
        for algorithm in algorithms {
            groups.push((name.clone(), *algorithm));
            jobs.extend((first..=last).map(|seed| {
                let config = Config { budget: Some(args.budget), ..Config::new(*algorithm, args.signal, seed) };
                Job { subsystem: subsystem.clone(), config }
            }));
        }
    }
    let stop = stop::on_signals("stopping; interrupt again to stop now")?;
    note(&format!("{} of {}", plural(jobs.len() as u64, "campaign"), plural(args.budget, "experiment")));
    let progress = Progress::of_campaigns(jobs.len() as u64, args.budget * jobs.len() as u64);
    let outcomes = bench::run(&space, args.budget, &jobs, &stop, &|| progress.step());
    progress.close();
    let outcomes = outcomes?;
    let missing = outcomes.iter().filter(|outcome| outcome.is_none()).count() as u64;
    let of_groups = outcomes.chunks(args.seeds as usize).map(|outcomes| outcomes.iter().flatten().copied().collect());
    let scores: Vec<Score> = groups
        .into_iter()
        .zip(of_groups)
        .map(|((subsystem, algorithm), outcomes)| Score { subsystem, algorithm, outcomes })
        .collect();
    if common.json { print_json(&document(args, &scores)) } else { print(&table(&scores)) }?;
    if missing > 0 {
        note(&format!("stopped: {} of {} did not end", plural(missing, "campaign"), jobs.len()));
        return Ok(exit::failed());
    }
    Ok(exit::HEALTHY)
}

fn simulated(name: &str) -> anyhow::Result<SimSubsystem> {
    match inputs::kind(name)? {
        Kind::Simulated(model) => Ok(SimSubsystem::load(model)?),
        Kind::Pair(_) => bail!("`{name}` is real; only a simulated subsystem says what limits it, so name a sim:..."),
    }
}

impl Score {
    fn touched(&self) -> Option<Spread> {
        Spread::of(self.outcomes.iter().map(|outcome| outcome.touched))
    }

    fn found(&self) -> Option<Spread> {
        Spread::of(self.outcomes.iter().map(|outcome| outcome.found))
    }

    fn findings(&self) -> Option<Spread> {
        Spread::of(self.outcomes.iter().map(|outcome| outcome.findings))
    }
}

fn document(args: &SearchArgs, scores: &[Score]) -> Value {
    let row = |score: &Score| {
        json!({
            "subsystem": score.subsystem, "algorithm": score.algorithm, "touched": score.touched(),
            "found": score.found(), "findings": score.findings(), "campaigns": score.outcomes,
        })
    };
    json!({
        "space": args.space, "signal": args.signal, "budget": args.budget, "seeds": args.seeds,
        "scores": scores.iter().map(row).collect::<Vec<_>>(),
    })
}

fn table(scores: &[Score]) -> String {
    let shown = |spread: Option<Spread>| match spread {
        Some(Spread { mean, deviation: Some(deviation) }) => format!("{mean:.1} ± {deviation:.1}"),
        Some(Spread { mean, deviation: None }) => format!("{mean:.1}"),
        None => "-".to_owned(),
    };
    let heading = ["subsystem", "algorithm", "campaigns", "touched", "found", "findings"];
    let mut table = Table::new(&heading, &[2, 3, 4, 5]);
    for score in scores {
        table.row(vec![
            score.subsystem.clone(),
            score.algorithm.to_string(),
            score.outcomes.len().to_string(),
            shown(score.touched()),
            shown(score.found()),
            shown(score.findings()),
        ]);
    }
    table.render("")
}

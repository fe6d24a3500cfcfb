//! `kelpie bench search`: what runs. The searches, scores and figures are in `kelpie-bench`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::bail;
use kelpie_bench::{self as bench, Archive, Job, Known, Points, Record, Score, Settings};
use kelpie_calibration::generated_model;
use kelpie_engine::Subsystem as _;
use kelpie_examine::subsystem::{SubsystemKind, kind, load_simulated};
use kelpie_search::{Algorithm, Config, SignalSet};
use kelpie_sim::SimSubsystem;

use crate::args::Common;
use crate::cli::bench::SearchArgs;
use crate::exit;
use crate::inputs;
use crate::output::{note, plural, print, print_json};
use crate::progress::ProgressDisplay;
use crate::stop;

/// An algorithm with its signals on a subsystem.
struct Contestant<'s> {
    subsystem: &'s SimSubsystem,
    algorithm: Algorithm,
    signal: Option<SignalSet>,
}

/// Runs the command.
pub fn run(args: &SearchArgs, common: Common) -> anyhow::Result<ExitCode> {
    let space = inputs::read_space(&args.space)?;
    let first = common.seed_or_default();
    let Some(last) = first.checked_add(args.seeds - 1) else {
        bail!("--seed {first} leaves no room for {} seeds counted up from it", args.seeds)
    };
    let subsystems = subsystems(args)?;
    let contestants = contestants(args, &subsystems);
    let jobs: Vec<Job> = contestants
        .iter()
        .flat_map(|one| (first..=last).map(|seed| one.job(seed, args.budget, seed == first)))
        .collect();
    let archive = match &args.out {
        None => Archive::nowhere(),
        Some(folder) => Archive::open(
            folder,
            &Settings {
                kelpie_version: env!("CARGO_PKG_VERSION").to_owned(),
                space: space.to_yaml(),
                budget: args.budget,
                subsystems: subsystems.iter().map(|one| (one.name().to_owned(), one.yaml())).collect(),
            },
        )?,
    };
    let stop = stop::on_signals("stopping; interrupt again to stop now")?;
    note(&format!("{} of {}", plural(jobs.len() as u64, "campaign"), plural(args.budget, "experiment")));
    let count = args.known.max(args.quality).unwrap_or(0);
    let progress = ProgressDisplay::of_campaigns(
        jobs.len() as u64,
        args.budget * jobs.len() as u64 + count * subsystems.len() as u64,
    );
    let points = bench::points(&space, &subsystems, count, &archive, &stop, &|| progress.step())?;
    let records = bench::run(&space, &jobs, &archive, &stop, &|| progress.step());
    progress.close();
    let mut records = records?;
    let mut is_judged = true;
    if let Some((points, count)) = points.as_ref().zip(args.quality) {
        let findings: usize = records.iter().flatten().map(|record| record.stored.len()).sum();
        let progress = ProgressDisplay::of_campaigns(jobs.len() as u64, findings as u64 * bench::INSIDE);
        let judged = bench::judge(&space, &jobs, &mut records, &bench::first(points, count), &archive, &stop, &|| {
            progress.step();
        });
        progress.close();
        is_judged = judged?;
    }
    let known: Option<Vec<Known>> = match (&points, args.known) {
        (Some(points), Some(count)) => Some(known(&subsystems, &bench::first(points, count))?),
        (points, _) => points.as_ref().map(|_| Vec::new()),
    };
    let missing = records.iter().filter(|record| record.is_none()).count() as u64;
    let of_each = records.chunks(args.seeds as usize).map(|records| records.iter().flatten().cloned().collect());
    let scores: Vec<Score> =
        contestants.iter().zip(of_each).map(|(one, records)| one.score(args.budget, records)).collect();
    let is_whole = missing == 0 && known.is_some() && is_judged;
    show(args, common, &archive, &scores, &known.unwrap_or_default())?;
    if is_whole {
        return Ok(exit::HEALTHY);
    }
    note(&format!("stopped: {} of {} did not end", plural(missing, "campaign"), jobs.len()));
    Ok(exit::failed())
}

fn known(subsystems: &[SimSubsystem], points: &Points) -> anyhow::Result<Vec<Known>> {
    subsystems.iter().map(|one| Ok(Known::of(one, &points[one.name()])?)).collect()
}

/// Prints the scores, and keeps them with the figures.
fn show(args: &SearchArgs, common: Common, archive: &Archive, scores: &[Score], known: &[Known]) -> anyhow::Result<()> {
    let with_means = bench::with_means(scores);
    let document = bench::document(&args.space, args.budget, &with_means, known);
    archive.write("results.json", &format!("{document:#}\n"))?;
    if args.out.is_some() {
        for (name, svg) in bench::figures(&with_means)? {
            archive.write(&name, &svg)?;
        }
    }
    if common.json { print_json(&document) } else { print(&bench::table(args.budget, &with_means, known)) }
}

fn subsystems(args: &SearchArgs) -> anyhow::Result<Vec<SimSubsystem>> {
    let seeds = args.generated_seed..args.generated_seed + args.generated.unwrap_or(0);
    let named = args.subsystems.iter().map(|name| simulated(name));
    let drawn = seeds.map(|seed| {
        let name = format!("generated:{seed}");
        Ok(SimSubsystem::from_yaml(&name, &generated_model::model(seed))?)
    });
    let mut all = named.chain(drawn).collect::<anyhow::Result<Vec<SimSubsystem>>>()?;
    let mut seen = BTreeSet::new();
    all.retain(|one| seen.insert(one.name().to_owned()));
    Ok(all)
}

/// Every algorithm with every set of signals on every subsystem; what no signal guides, once.
fn contestants<'s>(args: &SearchArgs, subsystems: &'s [SimSubsystem]) -> Vec<Contestant<'s>> {
    let is_wanted = |algorithm: &Algorithm| args.algorithms.is_empty() || args.algorithms.contains(algorithm);
    let mut contestants = Vec::new();
    for subsystem in subsystems {
        for algorithm in Algorithm::ALL.into_iter().filter(is_wanted) {
            let signals = SignalSet::ALL.into_iter().filter(|signal| args.signal.contains(signal)).map(Some);
            let signals: Vec<Option<SignalSet>> = if algorithm.is_guided() { signals.collect() } else { vec![None] };
            contestants.extend(signals.into_iter().map(|signal| Contestant { subsystem, algorithm, signal }));
        }
    }
    contestants
}

impl Contestant<'_> {
    fn job(&self, seed: u64, budget: u64, keeps_course: bool) -> Job {
        let signal = self.signal.unwrap_or(SignalSet::Perf);
        let config = Config::new(self.algorithm, signal, seed);
        Job { subsystem: self.subsystem.clone(), config, budget, keeps_course }
    }

    fn score(&self, budget: u64, records: Vec<Record>) -> Score {
        let subsystem = self.subsystem.name().to_owned();
        Score { subsystem, algorithm: self.algorithm, signal: self.signal, budget, records }
    }
}

fn simulated(name: &str) -> anyhow::Result<SimSubsystem> {
    match kind(name)? {
        SubsystemKind::Simulated(model) => load_simulated(model),
        SubsystemKind::Pair(_) => {
            bail!("`{name}` is real; only a simulated subsystem says what limits it, so name a sim:...")
        }
    }
}

//! `kelpie fabric`: rates of jobs on a simulated fabric. How they come about lives in `kelpie_fabric`.

mod packets;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_collectives::Jobs;
use kelpie_examine::files::read_file;
use kelpie_fabric::{RateProblem, Solver, TimelineRun};
use kelpie_spaces::document::utf8;
use kelpie_spaces::from_json;
use serde_json::json;

use crate::args::Common;
use crate::cli::fabric::{FabricCommand, Motion, RatesArgs, Routing};
use crate::exit;
use crate::inputs::read_cluster;
use crate::output::{print, print_json};

/// Runs the command.
pub fn run(command: &FabricCommand, common: Common) -> anyhow::Result<ExitCode> {
    let args = match command {
        FabricCommand::Rates(args) => args,
        FabricCommand::Run(args) => return packets::run(args, common),
        FabricCommand::Compare(args) => return packets::compare(args, common),
        FabricCommand::Flows(args) => return packets::flows(args, common),
        FabricCommand::Topology(args) => return packets::topology(args, common),
    };
    match (&args.problem, &args.topology, &args.jobs) {
        (Some(problem), ..) => solve(problem, common)?,
        (None, Some(topology), Some(jobs)) => rates(topology, jobs, args, common)?,
        _ => anyhow::bail!("name TOPOLOGY.yaml and JOBS.yaml, or a file with --problem"),
    }
    Ok(exit::HEALTHY)
}

fn solve(path: &Path, common: Common) -> anyhow::Result<()> {
    let bytes = read_file(path)?;
    let name = || path.display().to_string();
    let problem: RateProblem = from_json(&name(), &bytes)?;
    let answer = problem.solve().with_context(name)?;
    if common.json {
        return print_json(&answer);
    }
    print(&answer.text())
}

fn rates(topology: &Path, jobs: &Path, args: &RatesArgs, common: Common) -> anyhow::Result<()> {
    let cluster = read_cluster(topology)?;
    let name = jobs.display().to_string();
    let jobs = Jobs::from_yaml(&name, utf8(&name, &read_file(jobs)?)?, &cluster)?;
    let solver = match args.solver {
        Motion::Lockstep => Solver::Lockstep,
        Motion::Independent => Solver::Independent,
    };
    let seed = common.seed_or_default();
    let random = kelpie_fabric::unsteered(&jobs.connections(&cluster), seed);
    let run = TimelineRun::of(&cluster, &jobs, solver, |working, connections| match args.routing {
        Routing::Ecmp => random.clone(),
        Routing::Planned => kelpie_fabric::planned(&cluster, working, connections),
    });
    let first = &run.moments[0];
    if common.json {
        return print_json(&json!({
            "busbw_gbps": first.busbw_gbps,
            "rate_gbps": first.rate_gbps,
            "seed": seed,
            "ended_s": run.ended_s,
            "moments": run.moments,
        }));
    }
    let names: Vec<&str> = jobs.jobs.iter().map(|job| job.name.as_str()).collect();
    print(&run.text(&names))
}

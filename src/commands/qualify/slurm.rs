//! `kelpie qualify slurm`: what a qualification and the checks of a host come to in Slurm. The rules live in
//! `kelpie_fleet`.

use std::process::ExitCode;

use kelpie_fleet::apply::{Applied, act, slurm_nodes};
use kelpie_fleet::health::examine_node;
use kelpie_monitor::machine::Machine;
use kelpie_reports::qualification::{NodeAct, steps as text};
use kelpie_store::{QualificationId, Store};
use serde_json::json;

use crate::args::Common;
use crate::cli::qualify::{ApplyArgs, HealthArgs, SlurmCommand};
use crate::exit;
use crate::output::{print, print_json};

/// Runs `kelpie qualify slurm`.
pub fn run(command: &SlurmCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        SlurmCommand::Apply(args) => apply(args, common),
        SlurmCommand::Health(args) => health(args, common),
    }
}

fn apply(args: &ApplyArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_read(args.database.database()?)?;
    let applied = Applied::read(&mut store, args.id.map(QualificationId))?;
    let mut steps = applied.steps(&slurm_nodes(None)?, args.drain_at_most);
    if args.act {
        act(&mut steps);
    }
    if common.json {
        print_json(&json!({"qualification": applied.run, "acted": args.act, "steps": steps}))?;
    } else {
        print(&text(applied.run, &steps))?;
    }
    let has = |done: Option<bool>| steps.iter().any(|step| step.act != NodeAct::Leave && step.is_done == done);
    Ok(if has(Some(false)) {
        exit::failed()
    } else if has(None) {
        exit::anomalous()
    } else {
        exit::HEALTHY
    })
}

fn health(args: &HealthArgs, common: Common) -> anyhow::Result<ExitCode> {
    let machine = args.root.as_ref().map_or_else(Machine::live, Machine::recorded);
    let health = examine_node(&machine, args.node.as_deref(), args.act);
    if common.json {
        print_json(&health)?;
    } else {
        print(&health.text())?;
    }
    Ok(match (health.is_failed(), health.is_known()) {
        (true, _) => exit::anomalous(),
        (false, true) => exit::HEALTHY,
        _ => exit::failed(),
    })
}

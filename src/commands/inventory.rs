//! `kelpie inventory`: the hosts of a cluster, and whether their agents answer.

use std::path::PathBuf;
use std::process::ExitCode;

use kelpie_examine::files::{read_file, read_file_up_to};
use kelpie_fleet::import::{ImportOptions, LONGEST_SOURCE, Source, Sources, import};
use kelpie_fleet::inventory::Inventory;
use kelpie_fleet::roll_call::{HostAnswer, roll_call};
use serde_json::json;

use crate::args::Common;
use crate::cli::inventory::{CheckInventoryArgs, ImportInventoryArgs, InventoryCommand};
use crate::exit;
use crate::output::{Table, note, print, print_json};
use crate::progress::ProgressDisplay;

/// Runs `kelpie inventory`.
pub fn run(command: &InventoryCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        InventoryCommand::Check(args) => check(args, common),
        InventoryCommand::Import(args) => import_sources(args, common),
    }
}

fn import_sources(args: &ImportInventoryArgs, common: Common) -> anyhow::Result<ExitCode> {
    let source = |path: &PathBuf| -> anyhow::Result<Source> {
        let text = String::from_utf8_lossy(&read_file_up_to(path, LONGEST_SOURCE)?).into_owned();
        Ok(Source { name: path.display().to_string(), text })
    };
    let optional = |path: &Option<PathBuf>| path.as_ref().map(source).transpose();
    let sources = Sources {
        slurm: optional(&args.slurm)?,
        kubernetes: optional(&args.kubernetes)?,
        topology: optional(&args.topology)?,
        ibnetdiscover: optional(&args.ibnetdiscover)?,
        lldp: args.lldp.iter().map(|(port, path)| Ok((port.clone(), source(path)?))).collect::<anyhow::Result<_>>()?,
    };
    let options = ImportOptions {
        agent_port: args.agent_port,
        devices: args.device.clone(),
        partition: args.partition.clone(),
        states: args.state.clone(),
        leaf_label: args.leaf_label.clone(),
        pod_label: args.pod_label.clone(),
    };
    let imported = import(&sources, &options)?;
    imported.notes.iter().for_each(|line| note(line));
    if common.json {
        print_json(&imported.inventory.to_json()?)?;
    } else {
        print(&imported.inventory.to_yaml()?)?;
    }
    Ok(exit::HEALTHY)
}

fn check(args: &CheckInventoryArgs, common: Common) -> anyhow::Result<ExitCode> {
    let inventory = Inventory::from_bytes(&args.inventory, &read_file(&args.inventory)?)?;
    let bar = ProgressDisplay::of_units();
    let answers = roll_call(&inventory, |heard| bar.units(heard, inventory.hosts.len(), 0))?;
    bar.close();
    let silent: Vec<&HostAnswer> = answers.iter().filter(|answer| answer.error.is_some()).collect();
    if common.json {
        print_json(&json!({"answered": answers.len() - silent.len(), "silent": silent.len(), "hosts": answers}))?;
    } else {
        let mut table = Table::new(&["host", "agent", "why"], &[]);
        for answer in &silent {
            table.row(vec![answer.host.clone(), answer.agent.clone(), answer.error.clone().unwrap_or_default()]);
        }
        let table = if silent.is_empty() { String::new() } else { table.render("") };
        print(&format!("{} of {} agents answer\n{table}", answers.len() - silent.len(), answers.len()))?;
    }
    Ok(if silent.is_empty() { exit::HEALTHY } else { exit::anomalous() })
}

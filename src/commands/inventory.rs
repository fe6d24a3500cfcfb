//! `kelpie inventory`: the hosts of a cluster, and whether their agents answer.

use std::process::ExitCode;

use kelpie_examine::files::read_file;
use kelpie_fleet::inventory::Inventory;
use kelpie_fleet::roll_call::{HostAnswer, roll_call};
use serde_json::json;

use crate::args::Common;
use crate::cli::inventory::{CheckInventoryArgs, InventoryCommand};
use crate::exit;
use crate::output::{Table, print, print_json};
use crate::progress::ProgressDisplay;

/// Runs `kelpie inventory`.
pub fn run(command: &InventoryCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        InventoryCommand::Check(args) => check(args, common),
    }
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

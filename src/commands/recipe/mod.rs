//! `kelpie recipe`: the commands that need no measurement. Export and replay have files of their own.

mod export;
mod replay;

use std::process::ExitCode;

use kelpie_campaign::recipes;
use kelpie_reports::recipe;
use kelpie_spaces::{Workload, perftest};
use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::cli::recipe::{FindingOrAnomaly, PerftestArgs, RecipeCommand};
use crate::exit;
use crate::inputs;
use crate::output::{print, print_json};

/// Runs the command.
pub fn run(command: &RecipeCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        RecipeCommand::Export(args) => export::run(args, common),
        RecipeCommand::Replay(args) => replay::run(args, common),
        RecipeCommand::Perftest(args) => show_perftest(args, common),
        RecipeCommand::Schema => {
            print(recipe::SCHEMA)?;
            Ok(exit::HEALTHY)
        }
    }
}

fn show_perftest(args: &PerftestArgs, common: Common) -> anyhow::Result<ExitCode> {
    let workload: Workload = match args.what.parse() {
        Ok(FindingOrAnomaly::Finding(campaign, number)) => {
            recipes::finding(&mut Store::open_to_read(&args.database.database()?)?, campaign, number)?.workload
        }
        Ok(FindingOrAnomaly::Anomaly(id)) => recipes::known(id)?.trigger.workload(),
        Err(_) => inputs::read_workload(args.what.as_ref())?,
    };
    let lines = perftest::lines(&workload);
    if common.json {
        print_json(&match &lines {
            Ok(lines) => json!({
                "server": lines.server, "client": lines.client, "hosts": lines.hosts, "differences": lines.differences,
            }),
            Err(reason) => json!({"reason": reason.to_string()}),
        })?;
        return Ok(if lines.is_ok() { exit::HEALTHY } else { exit::failed() });
    }
    match lines {
        Ok(lines) => {
            print(&recipe::perftest_text(&lines))?;
            Ok(exit::HEALTHY)
        }
        Err(reason) => anyhow::bail!("perftest cannot send this workload: {reason}"),
    }
}

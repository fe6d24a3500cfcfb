//! `kelpie recipe`: its arguments, and the commands that need no measurement. Export and replay have files of their own.

mod environment;
mod export;
mod replay;
mod source;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Subcommand};
use kelpie_reports::recipe;
use kelpie_spaces::{Workload, perftest};
use kelpie_store::CampaignId;
use serde_json::json;

use crate::cli::{Common, DatabaseArgs};
use crate::exit;
use crate::inputs;
use crate::output::{print, print_json};

pub use export::archives;

#[derive(Debug, Subcommand)]
pub enum RecipeCommand {
    /// Write a finding as a directory or a .tar.gz that others can read and replay
    #[command(
        after_help = "FINDING is CAMPAIGN.NUMBER as `campaign show` prints it, or anomaly:N for one of the 18 of the \
        Collie paper.\n\nExamples:\n  \
        kelpie recipe export 3.2 --out pause.tar.gz\n  \
        kelpie recipe export anomaly:4 --out anomaly-4\n  \
        kelpie recipe export 3.2 --out r --doctor-a a.json --doctor-b b.json   (from `kelpie doctor DEVICE --json`)"
    )]
    Export(ExportArgs),
    /// Measure a recipe's workload and say whether the anomaly is reproduced
    #[command(after_help = "Exit status: 1 anomalous (reproduced, or another symptom than expected), 0 healthy (not \
        reproduced), 2 inconclusive or could not run.\n\nExamples:\n  \
        kelpie recipe replay pause.tar.gz\n  \
        kelpie recipe replay pause.tar.gz --subsystem pair.yaml --json")]
    Replay(ReplayArgs),
    /// Print the perftest command lines of a finding or workload, or why there are none
    #[command(after_help = "Exit status: 0 printed, 2 perftest cannot send it.\n\nExamples:\n  \
        kelpie recipe perftest anomaly:1\n  \
        kelpie recipe perftest workload.yaml")]
    Perftest(PerftestArgs),
    /// Print the JSON schema of recipe.json
    #[command(after_help = "Example:\n  kelpie recipe schema > recipe-1.schema.json")]
    Schema,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Which finding: CAMPAIGN.NUMBER or anomaly:N
    #[arg(value_name = "FINDING")]
    pub finding: FindingName,
    /// Where to: an archive where it ends in .tar.gz, else a directory; must not exist, or be an empty directory
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// What `kelpie doctor DEVICE --json` printed on host a, for the environment of a real pair
    #[arg(long, value_name = "FILE")]
    pub doctor_a: Option<PathBuf>,
    /// The same of host b
    #[arg(long, value_name = "FILE")]
    pub doctor_b: Option<PathBuf>,
    /// Keep host names, addresses and the like, which are left out otherwise
    #[arg(long)]
    pub with_identities: bool,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Directory or archive of the recipe
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Where to measure, as in `measure` [default: the model in the recipe]
    #[arg(long, short = 's', value_name = "S")]
    pub subsystem: Option<String>,
}

#[derive(Debug, Args)]
pub struct PerftestArgs {
    /// CAMPAIGN.NUMBER, anomaly:N, or a workload file (workload/1), `-` for stdin
    #[arg(value_name = "FINDING|WORKLOAD.yaml")]
    pub what: String,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

/// Which finding is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingName {
    /// One of a campaign of the database.
    Kept(CampaignId, u64),
    /// One of the paper's.
    Known(u32),
}

impl FromStr for FindingName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused =
            || "write CAMPAIGN.NUMBER, as `kelpie campaign show` prints it, or anomaly:1 to anomaly:18".to_owned();
        if let Some(number) = text.strip_prefix("anomaly:") {
            let known = number.parse().ok().filter(|id| (1..=18).contains(id));
            return known.map(Self::Known).ok_or_else(refused);
        }
        let (campaign, number) = text.split_once('.').ok_or_else(refused)?;
        match (campaign.parse(), number.parse()) {
            (Ok(campaign @ CampaignId(1..)), Ok(number @ 1..)) => Ok(Self::Kept(campaign, number)),
            _ => Err(refused()),
        }
    }
}

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
        Ok(FindingName::Kept(campaign, number)) => source::finding(&args.database, campaign, number)?.workload,
        Ok(FindingName::Known(id)) => source::known(id)?.trigger.workload(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_findings() {
        for (text, expected) in [
            ("3.2", Some(FindingName::Kept(CampaignId(3), 2))),
            ("anomaly:18", Some(FindingName::Known(18))),
            ("anomaly:19", None),
            ("anomaly:0", None),
            ("0.1", None),
            ("1.0", None),
            ("-1.1", None),
            ("3", None),
            ("3.2.1", None),
            ("workload.yaml", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}

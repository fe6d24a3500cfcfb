//! Arguments of `kelpie recipe`, and the names of findings. What it does lives in `commands::recipe`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use kelpie_store::CampaignId;

use crate::args::DatabaseArgs;

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
    Export(ExportRecipeArgs),
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
pub struct ExportRecipeArgs {
    /// Which finding: CAMPAIGN.NUMBER or anomaly:N
    #[arg(value_name = "FINDING")]
    pub finding: FindingOrAnomaly,
    /// File or directory to write: an archive if the name ends in .tar.gz, else a new or an empty directory
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
    /// Keep host names, addresses and the like; otherwise they are left out
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

/// The subject of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingOrAnomaly {
    /// A finding of a campaign of the database.
    Finding(CampaignId, u64),
    /// A known anomaly of the paper.
    Anomaly(u32),
}

impl FromStr for FindingOrAnomaly {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused =
            || "write CAMPAIGN.NUMBER, as `kelpie campaign show` prints it, or anomaly:1 to anomaly:18".to_owned();
        if let Some(number) = text.strip_prefix("anomaly:") {
            let known = number.parse().ok().filter(|id| (1..=18).contains(id));
            return known.map(Self::Anomaly).ok_or_else(refused);
        }
        let (campaign, number) = text.split_once('.').ok_or_else(refused)?;
        match (campaign.parse(), number.parse()) {
            (Ok(campaign @ CampaignId(1..)), Ok(number @ 1..)) => Ok(Self::Finding(campaign, number)),
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_findings_and_anomalies() {
        for (text, expected) in [
            ("3.2", Some(FindingOrAnomaly::Finding(CampaignId(3), 2))),
            ("anomaly:18", Some(FindingOrAnomaly::Anomaly(18))),
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

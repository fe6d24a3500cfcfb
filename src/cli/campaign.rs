//! The arguments of campaigns: how one is run, when it ends, when it fails a pipeline.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use kelpie_monitor::Symptom;
use kelpie_reports::export::ExportFormat;
use kelpie_search::{Algorithm, SignalSet};
use kelpie_store::CampaignId;

use crate::args::{DatabaseArgs, SubsystemArgs, algorithm, parse_id, signal};

#[derive(Debug, Subcommand)]
pub enum CampaignCommand {
    /// Search a space for anomalies and store everything
    #[command(
        after_help = "Exit status: 0 it ended, whatever it found; 1 the gate is red (--gate), also if it was interrupted; 2 it was \
        interrupted or could not go on, or the gate has nothing to judge by: no verdict, or an end before the budget.\n\n\
        Examples:\n  \
        kelpie campaign run --subsystem sim:F\n  \
        kelpie campaign run --subsystem sim:H --space rpc-library --algorithm random --time 5m\n  \
        kelpie campaign run --subsystem pair.yaml --budget 2000 --gate --json > findings.json\n  \
        kelpie campaign run --subsystem hosts.yaml --time 30m   (an inventory: each pair of its hosts)\n  \
        kelpie campaign run --subsystem pair.yaml --gate --gate-severity 0.3 --gate-baseline accepted.yaml"
    )]
    Run(RunArgs),
    /// Go on with a campaign that was stopped or killed
    #[command(
        after_help = "Exit status: 0 it ended, whatever it found; 1 the gate is red (--gate), also if it was interrupted; 2 it was \
        interrupted or could not go on, or the gate has nothing to judge by: no verdict, or an end before the budget.\n\n\
        Examples:\n  \
        kelpie campaign resume\n  \
        kelpie campaign resume 3 --budget 2000   (also extends a finished campaign)"
    )]
    Resume(ResumeArgs),
    /// List the campaigns of a database
    #[command(after_help = "Example:\n  kelpie campaign list --db campaigns.db")]
    List(DatabaseArgs),
    /// Copy a database, also while a campaign runs
    #[command(after_help = "A copy of the file alone lacks what is in its -wal file.\n\n\
        Example:\n  kelpie campaign backup --out /backup/kelpie.db")]
    Backup(BackupArgs),
    /// Show a campaign and its findings
    #[command(after_help = "Examples:\n  \
        kelpie campaign show\n  \
        kelpie campaign show 3.22   (one finding in full)\n  \
        kelpie campaign show 3 --symptom pause --all\n  \
        kelpie campaign show 3 --json --experiments")]
    Show(ShowArgs),
    /// Write the findings of a campaign as a baseline: what `--gate` is to accept from now on
    #[command(
        after_help = "The file holds regions with their symptoms; edit it as you like. An anomaly passes the gate \
        if it lies\nin a region and shows its symptom (pause if it shows both).\n\n\
        Examples:\n  \
        kelpie campaign baseline --out accepted.yaml\n  \
        kelpie campaign baseline 3 --unexplained --out accepted.yaml --force\n  \
        kelpie campaign run --subsystem pair.yaml --gate --gate-baseline accepted.yaml"
    )]
    Baseline(BaselineArgs),
    /// Say what a campaign is called and why it ran
    #[command(after_help = "Example:\n  kelpie campaign label 3 --name \"firmware 28.40\" --note \"after the recall\"")]
    Label(LabelCommandArgs),
    /// Take a campaign with all its experiments out of the database
    #[command(after_help = "Nothing brings it back. A campaign that runs is refused.\n\n\
        Examples:\n  kelpie campaign rm 3\n  kelpie campaign rm 3 --yes   (in a script)")]
    Rm(RmArgs),
    /// Write the experiments and findings of a campaign as tables, for other programs
    #[command(after_help = "The directory gets experiments.csv and findings.csv, or the same as .parquet. \
        docs/reference/exports.md names the columns.\n\n\
        Examples:\n  \
        kelpie campaign export --out tables\n  \
        kelpie campaign export 3 --format parquet --out tables")]
    Export(ExportCampaignArgs),
}

#[derive(Debug, Args)]
pub struct LabelArgs {
    /// What the campaign is called
    #[arg(long, value_name = "TEXT", value_parser = parse_label)]
    pub name: Option<String>,
    /// Why it runs, or anything else worth knowing
    #[arg(long, value_name = "TEXT", value_parser = parse_label)]
    pub note: Option<String>,
}

#[derive(Debug, Args)]
pub struct LabelCommandArgs {
    /// Campaign
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: CampaignId,
    #[command(flatten)]
    pub label: LabelArgs,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub struct RmArgs {
    /// Campaign
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: CampaignId,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub struct ExportCampaignArgs {
    /// Campaign [default: the latest]
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: Option<CampaignId>,
    /// Directory to write: a new or an empty one
    #[arg(long, short = 'o', value_name = "DIR")]
    pub out: PathBuf,
    /// How the tables are written
    #[arg(long, value_name = "NAME", default_value = "csv", value_parser = format())]
    pub format: ExportFormat,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// File to write; there must be none
    #[arg(long, short = 'o', value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub struct BaselineArgs {
    /// Campaign [default: the latest]
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: Option<CampaignId>,
    /// File to write
    #[arg(long, short = 'o', value_name = "FILE")]
    pub out: PathBuf,
    /// Replace the file
    #[arg(long)]
    pub force: bool,
    /// Also accept each anomaly that the findings do not cover, exactly as it was measured
    #[arg(long)]
    pub unexplained: bool,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub subsystem: SubsystemArgs,
    /// Space to search: a catalog name or a file (space/1)
    #[arg(long, value_name = "X", default_value = "full")]
    pub space: String,
    /// How to search
    #[arg(long, value_name = "NAME", default_value = "kelpie", value_parser = algorithm())]
    pub algorithm: Algorithm,
    /// Which signals guide the search
    #[arg(long, value_name = "NAME", default_value = "both", value_parser = signal())]
    pub signal: SignalSet,
    #[command(flatten)]
    pub label: LabelArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub database: DatabaseArgs,
    #[command(flatten)]
    pub gate: GateArgs,
    /// Skip the regions of the database's findings, imported ones too, so that they are not found again
    #[arg(long)]
    pub seed_findings: bool,
    /// Also reduce workloads under which a host fails to their conditions, which makes it fail many times more
    #[arg(long)]
    pub reduce_host_failures: bool,
    /// Also check the ports between the hosts of a pair with bonds before it begins, as `paths check` does
    #[arg(long)]
    pub paths: bool,
}

/// When anomalies fail a pipeline.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// Exit with 1 on any confirmed anomaly, whether it lies in a finding or not
    #[arg(long)]
    pub gate: bool,
    /// Let anomalies pass that take away less than this share of the port, 0 to 1 [default: 0]
    #[arg(long, value_name = "X", requires = "gate", value_parser = parse_share)]
    pub gate_severity: Option<f64>,
    /// Let anomalies pass that this file (baseline/1) accepts; `kelpie campaign baseline` writes it
    #[arg(long, value_name = "FILE", requires = "gate")]
    pub gate_baseline: Option<PathBuf>,
}

/// When a campaign ends.
#[derive(Debug, Clone, Copy, Args)]
pub struct LimitArgs {
    /// Experiments in all [default: 1500, or no limit if --time is given]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub budget: Option<u64>,
    /// Stop after this long, such as 30s, 5m or 1h30m; the campaign can be resumed
    #[arg(long, value_name = "T", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// How long a host that failed may take to come back, such as 10m
    #[arg(long, value_name = "T", value_parser = parse_time, default_value = "10m")]
    pub host_patience: Duration,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Campaign [default: the latest that can be resumed]
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: Option<CampaignId>,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub database: DatabaseArgs,
    #[command(flatten)]
    pub gate: GateArgs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Campaign, or one finding of it as CAMPAIGN.NUMBER [default: the latest campaign]
    #[arg(value_name = "ID")]
    pub id: Option<CampaignOrFinding>,
    /// Only findings with this symptom
    #[arg(long, value_name = "NAME", value_parser = symptom())]
    pub symptom: Option<Symptom>,
    /// At most so many findings
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub top: Option<u64>,
    /// All findings, with their variants
    #[arg(long, conflicts_with = "top")]
    pub all: bool,
    /// Add every experiment with its workload, samples and verdict
    #[arg(long)]
    pub experiments: bool,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignOrFinding {
    Campaign(CampaignId),
    Finding(CampaignId, u64),
}

impl FromStr for CampaignOrFinding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (campaign, finding) = text.split_once('.').map_or((text, None), |(id, number)| (id, Some(number)));
        let campaign = parse_id(campaign)?;
        Ok(match finding {
            None => Self::Campaign(campaign),
            Some(number) => {
                let number = number.parse().map_err(|_| "write a finding as CAMPAIGN.NUMBER, such as 3.22")?;
                Self::Finding(campaign, number)
            }
        })
    }
}

fn symptom() -> impl TypedValueParser<Value = Symptom> {
    let named = |name: String| Symptom::ALL.into_iter().find(|symptom| symptom.name() == name).ok_or("no such symptom");
    PossibleValuesParser::new(Symptom::ALL.map(Symptom::name)).try_map(named)
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a share from 0 to 1, such as 0.3".to_owned()),
    }
}

fn format() -> impl TypedValueParser<Value = ExportFormat> {
    let named =
        |name: String| ExportFormat::ALL.into_iter().find(|format| format.name() == name).ok_or("no such format");
    PossibleValuesParser::new(ExportFormat::ALL.map(ExportFormat::name)).try_map(named)
}

/// Longest name or note. Units: characters. Source: our choice, because lists show them.
const MAX_LABEL: usize = 1000;

fn parse_label(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0 => Err("write something".to_owned()),
        count if count > MAX_LABEL => Err(format!("{count} characters; at most {MAX_LABEL} are kept")),
        _ if text.chars().any(char::is_control) => Err("it has control characters".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let refused = || "write a time such as 30s, 5m or 1h30m".to_owned();
    let time = humantime::parse_duration(text).map_err(|_| refused())?;
    if time < Duration::from_secs(1) { Err("it is less than a second".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        for (text, expected) in [("0.3", Some(0.3)), ("0", Some(0.0)), ("1", Some(1.0)), ("1.1", None), ("NaN", None)] {
            assert_eq!(parse_share(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("30s", Some(30)),
            ("5m", Some(300)),
            ("2h", Some(7200)),
            ("1h30m", Some(5400)),
            ("1 day", Some(86_400)),
            ("0s", None),
            ("300ms", None),
            ("5", None),
            ("", None),
            ("m", None),
            ("-1s", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(parse_time(text).ok(), expected.map(Duration::from_secs), "{text}");
        }
    }
}

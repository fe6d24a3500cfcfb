//! The arguments of `kelpie qualify`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use crate::args::DatabaseArgs;

use crate::cli::job::fault::parse_share;

#[derive(Debug, Subcommand)]
pub enum QualifyCommand {
    /// Learn what a healthy node measures from the results of many
    #[command(
        after_help = "RESULTS are JSON lines, one for each node and metric: {\"node\": \"n1\", \"metric\": \"loopback_write\", \
        \"unit\": \"GB/s\",\n\"better\": \"higher\", \"samples\": [23.7]}; `component` names one of several equal parts of a \
        node.\n\nExit status: 0 learnt, 2 not.\n\n\
        Examples:\n  \
        kelpie qualify learn results.jsonl --out criteria.json\n  \
        kelpie qualify learn results/*.jsonl --floor loopback_write=20 --out criteria.json"
    )]
    Learn(LearnArgs),
    /// Say which nodes measure less than the criteria
    #[command(
        after_help = "Exit status: 0 all nodes pass, 1 a node fails, 2 none fails and a node has no result of a metric.\n\n\
        Examples:\n  \
        kelpie qualify judge results.jsonl --criteria criteria.json\n  \
        kelpie qualify judge today.jsonl --criteria criteria.json --json\n  \
        kelpie qualify judge results-summary.jsonl --rules rules.yaml --baseline baseline.json"
    )]
    Judge(JudgeArgs),
    /// Measure the hosts of an inventory, and say which may take jobs
    #[command(after_help = "Results are stored at once; a run that was ended goes on by `kelpie qualify resume`.\n\n\
        Exit status: 0 all nodes are in, 1 a node is out, 2 nobody can say of some.\n\n\
        Examples:\n  \
        kelpie qualify run hosts.yaml\n  \
        kelpie qualify run hosts.yaml --plan full --time 30m --report report\n  \
        kelpie qualify run hosts.yaml --plan auto --time 30m\n  \
        kelpie qualify run hosts.yaml --criteria criteria.json --floor pair_bandwidth=380")]
    Run(RunArgs),
    /// Go on with a qualification that was ended
    #[command(after_help = "Example:\n  kelpie qualify resume 7")]
    Resume(StoredArgs),
    /// Say again what a stored qualification found
    #[command(after_help = "Examples:\n  kelpie qualify show\n  kelpie qualify show 7 --report report\n  \
        kelpie qualify show 7 --floor pair_bandwidth=180")]
    Show(StoredArgs),
    /// Take what a qualification says to Slurm, and watch the health of one node
    #[command(subcommand)]
    Slurm(SlurmCommand),
    /// Say which checks are worth their time
    #[command(
        after_help = "HISTORY is JSON lines, with times in hours:\n\n  {\"kind\": \"observed\", \"node\": \"n1\", \"begin\": 0, \
        \"end\": 2400}\n  {\"kind\": \"incident\", \"node\": \"n1\", \"time\": 312.5, \"category\": \"hca\", \"until\": 340}\n  \
        {\"kind\": \"check\", \"check\": \"loopback\", \"minutes\": 2}\n  {\"kind\": \"found\", \"check\": \"loopback\", \
        \"defect\": \"d17\"}\n\nFILE is JSON: {\"p\": [0.01, 0.02], \"p0\": 0.02, \"minutes\": {\"loopback\": 2}, \
        \"found\": {\"loopback\": [1, 7]}}.\n\n\
        Exit status: 0 the checks are enough, 1 they are not.\n\n\
        Examples:\n  \
        kelpie qualify select --history fleet.jsonl --target 0.05 --within 24h --nodes n1,n2\n  \
        kelpie qualify select --problem problem.json --json"
    )]
    Select(SelectArgs),
    /// Say how many steps of a benchmark to skip and to measure
    #[command(after_help = "Exit status: 0 all metrics have steps to measure, 1 one has none.\n\n\
        Example:\n  kelpie qualify steps series.jsonl")]
    Steps {
        /// Results as for `learn`, with `samples` in the order of the steps, `-` for stdin
        results: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct LearnArgs {
    /// Results (JSON lines), `-` for stdin
    #[arg(value_name = "RESULTS", required = true)]
    pub results: Vec<PathBuf>,
    /// Where to write the criteria; an older file is replaced
    #[arg(long, value_name = "CRITERIA.json")]
    pub out: PathBuf,
    /// What distances are divided by
    #[arg(long, value_enum, default_value_t = NormArg::Xmax)]
    pub norm: NormArg,
    /// What is no more alike than this is defective
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub alpha: f64,
    /// What the typical value of a metric must reach, whatever most nodes measure; several times for several metrics
    #[arg(long, value_name = "METRIC=VALUE", value_parser = parse_floor)]
    pub floor: Vec<(String, f64)>,
}

#[derive(Debug, Args)]
pub struct JudgeArgs {
    /// Results (JSON lines), `-` for stdin
    #[arg(value_name = "RESULTS", required = true)]
    pub results: Vec<PathBuf>,
    /// What `kelpie qualify learn` wrote
    #[arg(long, value_name = "CRITERIA.json", required_unless_present = "rules", conflicts_with = "rules")]
    pub criteria: Option<PathBuf>,
    /// Rules of `SuperBench`, for its results
    #[arg(long, value_name = "RULES.yaml")]
    pub rules: Option<PathBuf>,
    /// Baseline of `SuperBench`'s rules of variance
    #[arg(long, value_name = "BASELINE.json", requires = "rules")]
    pub baseline: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The hosts, format inventory/1 (`kelpie inventory` makes one)
    #[arg(value_name = "INVENTORY.yaml", value_hint = ValueHint::FilePath)]
    pub inventory: PathBuf,
    /// Which checks: `quick` has one pair of each host for each distance, `full` all pairs and incasts, `auto` those of
    /// `full` that earlier qualifications say are worth their time; or checks by their names, such as
    /// `loopback_write,all_pairs`; or a file of format plan/1, which can run programs too
    #[arg(long, value_name = "PLAN", default_value = "quick")]
    pub plan: String,
    /// For `--plan auto`: more of the past, as for `kelpie qualify select`, with checks of `full` and hours since 1970
    #[arg(long, value_name = "HISTORY", value_hint = ValueHint::FilePath)]
    pub history: Option<PathBuf>,
    /// For `--plan auto`: how likely an incident of any node may be, such as 0.05 or 5%
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_share)]
    pub target: f64,
    /// For `--plan auto`: within which time from now
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub within: humantime::Duration,
    /// What `kelpie qualify learn` wrote; of other metrics, what most nodes measure counts
    #[arg(long, value_name = "CRITERIA.json", value_hint = ValueHint::FilePath)]
    pub criteria: Option<PathBuf>,
    /// What the typical value of a metric must reach, whatever most nodes measure; several times for several metrics
    #[arg(long, value_name = "METRIC=VALUE", value_parser = parse_floor)]
    pub floor: Vec<(String, f64)>,
    /// What is no more alike than this is defective
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub alpha: f64,
    #[command(flatten)]
    pub how: HowArgs,
}

#[derive(Debug, Args)]
pub struct StoredArgs {
    /// Its number; the latest if it is left out
    pub id: Option<i64>,
    /// Judge by other floors than it was begun with; several times for several metrics
    #[arg(long, value_name = "METRIC=VALUE", value_parser = parse_floor)]
    pub floor: Vec<(String, f64)>,
    #[command(flatten)]
    pub how: HowArgs,
}

/// How a qualification is made and told.
#[derive(Debug, Args)]
pub struct HowArgs {
    /// How long it may take; nodes that are not done by then are unknown
    #[arg(long, value_name = "T", value_parser = humantime::parse_duration)]
    pub time: Option<Duration>,
    /// Units of traffic at a time at most: fewer load a fabric less that others use
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub at_once: u16,
    /// Folder for a report: HTML, `JUnit`, JSON lines, metrics and lines as NHC has them; it must be new or empty
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Subcommand)]
pub enum SlurmCommand {
    /// Drain nodes that are out, and resume nodes that are in and were drained by a qualification
    #[command(after_help = "Nodes of other reasons are left alone, and nodes of which nobody can say.\n\n\
        Exit status: 0 nothing is left to do, 1 something is, 2 a command failed.\n\n\
        Examples:\n  kelpie qualify slurm apply\n  kelpie qualify slurm apply 7 --act --drain-at-most 3")]
    Apply(ApplyArgs),
    /// Examine this host as Slurm's `HealthCheckProgram` does, and drain its node if a check fails
    #[command(after_help = "Exit status: 0 no check fails, 1 one fails, 2 nobody can say.\n\n\
        Examples:\n  kelpie qualify slurm health\n  kelpie qualify slurm health --node gpu07 --act")]
    Health(HealthArgs),
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Its number; the latest if it is left out
    pub id: Option<i64>,
    /// Do it, instead of printing the commands
    #[arg(long)]
    pub act: bool,
    /// Nodes that Kelpie keeps drained at most, with those of before [default: 5 % of the nodes, at least 1]
    #[arg(long, value_name = "N")]
    pub drain_at_most: Option<usize>,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub struct HealthArgs {
    /// The node that this host is [default: `$SLURMD_NODENAME`, or the first part of the host's name]
    #[arg(long, value_name = "NAME", env = "SLURMD_NODENAME")]
    pub node: Option<String>,
    /// Drain it if a check fails, instead of printing the command
    #[arg(long)]
    pub act: bool,
    /// Look at the files of a host below this directory, instead of at this machine
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SelectArgs {
    /// The problem, `-` for stdin
    #[arg(long, value_name = "FILE", required_unless_present = "history", conflicts_with = "history")]
    pub problem: Option<PathBuf>,
    /// What nodes went through and what checks found, `-` for stdin
    #[arg(long, value_name = "HISTORY", requires_all = ["target", "within"])]
    pub history: Option<PathBuf>,
    /// How likely an incident of any node may be, such as 0.05 or 5%
    #[arg(long, value_name = "SHARE", requires = "history", value_parser = parse_share)]
    pub target: Option<f64>,
    /// Within which time from now, such as 24h
    #[arg(long, value_name = "TIME", requires = "history")]
    pub within: Option<humantime::Duration>,
    /// The nodes that are to be used [default: all]
    #[arg(long, value_name = "NODES", requires = "history", value_delimiter = ',')]
    pub nodes: Vec<String>,
}

/// What distances of distributions are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NormArg {
    /// The largest value: for pooled components, because one slow value counts much
    Xmax,
    /// The area: for time series of one component, because one slow step counts little
    Area,
}

fn parse_floor(text: &str) -> Result<(String, f64), String> {
    let rule = || "write METRIC=VALUE, such as loopback_write=20".to_owned();
    // A metric's name may have a `=`.
    let (metric, value) = text.rsplit_once('=').ok_or_else(rule)?;
    let value: f64 = value.parse().map_err(|_| rule())?;
    if metric.is_empty() || !value.is_finite() { Err(rule()) } else { Ok((metric.to_owned(), value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_name_metric_and_value() {
        assert_eq!(parse_floor("bw[mlx5_0]=390.5"), Ok(("bw[mlx5_0]".to_owned(), 390.5)));
        for bad in ["bw", "=1", "bw=", "bw=x", "bw=inf"] {
            assert!(parse_floor(bad).is_err(), "{bad}");
        }
    }
}

//! The arguments of `kelpie qualify`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

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
        kelpie qualify judge today.jsonl --criteria criteria.json --json"
    )]
    Judge(JudgeArgs),
    /// Say which checks are worth their time
    #[command(
        after_help = "FILE is JSON: {\"p\": [0.01, 0.02], \"p0\": 0.02, \"minutes\": {\"loopback\": 2}, \"found\": {\"loopback\": \
        [1, 7]}}: how likely\nan incident of each node is, the most that is accepted for all of them together, how long each \
        check takes,\nand which defects it found in the past.\n\n\
        Exit status: 0 the checks are enough, 1 they are not.\n\n\
        Examples:\n  \
        kelpie qualify select --problem problem.json\n  \
        kelpie qualify select --problem problem.json --json"
    )]
    Select(SelectArgs),
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
    #[arg(long, value_name = "CRITERIA.json")]
    pub criteria: PathBuf,
}

#[derive(Debug, Args)]
pub struct SelectArgs {
    /// The problem, `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub problem: PathBuf,
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

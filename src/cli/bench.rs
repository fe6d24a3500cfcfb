//! Arguments of `kelpie bench`. What it does lives in `commands::bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kelpie_search::{Algorithm, SignalSet};

use crate::args::{DEFAULT_BUDGET, algorithm, signal};

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Score algorithms side by side on simulated subsystems
    #[command(
        after_help = "A weakness is a symptom with the part of the subsystem that limits the traffic; the search \
        does not see\nthat part. An experiment that shows a weakness touches it. A finding with \
        conditions\nwhose workload shows it finds it; `anneal` has no conditions, so that it only touches.\n\n\
        With --out, each campaign that ends is kept, another start runs only what is missing, and the directory gets\n\
        results.json and Figures 4 to 6 of the Collie paper as figure-*.svg. A hollow point is a lower bound: some\n\
        campaigns had not found so many weaknesses when their budget was spent.\n\n\
        Exit status: 0 every campaign ended, 2 one could not run, or was stopped.\n\n\
        Examples:\n  \
        kelpie bench search --subsystem sim:F sim:H --seeds 4\n  \
        kelpie bench search --subsystem sim:F --algorithms collie random --seeds 8 --budget 500 --json\n  \
        kelpie bench search --subsystem sim:F --algorithms collie anneal --signal perf diag --out bench-f\n  \
        kelpie bench search --subsystem sim:F --known 50000 --out bench-f\n  \
        kelpie bench search --subsystem sim:F --algorithms kelpie --budget 1000 --quality 1000 --out bench-q\n  \
        kelpie bench search --generated 20 --seeds 3 --budget 500 --out bench-generated"
    )]
    Search(SearchArgs),
}

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// `sim:F` or `sim:path.yaml`
    #[arg(long = "subsystem", short = 's', value_name = "S", num_args = 1.., required_unless_present = "generated")]
    pub subsystems: Vec<String>,
    /// Also so many subsystems that `kelpie subsystem generate` draws, with seeds counted up from --generated-seed
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub generated: Option<u64>,
    /// Seed of the first of them
    #[arg(long, value_name = "SEED", default_value_t = 1000, requires = "generated",
        value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    pub generated_seed: u64,
    /// Which algorithms [default: all]
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = algorithm())]
    pub algorithms: Vec<Algorithm>,
    /// Which signals guide them, one campaign for each
    #[arg(long, value_name = "NAME", num_args = 1.., default_value = "both", value_parser = signal())]
    pub signal: Vec<SignalSet>,
    /// Space to search: a catalog name or a file (space/1)
    #[arg(long, value_name = "X", default_value = "full")]
    pub space: String,
    /// How many seeds, counted up from --seed
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// Experiments of each campaign
    #[arg(long, value_name = "B", default_value_t = DEFAULT_BUDGET,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub budget: u64,
    /// Say also which weaknesses so many random points and the triggers of the paper's anomalies show
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub known: Option<u64>,
    /// Judge findings: how many there are for each weakness, which of their conditions are necessary, what random
    /// workloads show that meet them, and how many of N random points they explain
    #[arg(long, value_name = "N", allow_negative_numbers = true, num_args = 0..=1, default_missing_value = "300",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub quality: Option<u64>,
    /// Directory that keeps results and figures
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

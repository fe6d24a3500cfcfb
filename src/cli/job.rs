//! Arguments of `kelpie job`. What it does lives in `commands::job`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Say which rank or connection of a job is slow or hangs, from what its operations took
    #[command(
        after_help = "FILE is CSV with the heading iteration,source,destination,bytes,begin,end,entered (times in \
        microseconds,\nan empty end is what never completed), the same as JSON, what NCCL's Inspector writes, or matrix/1 \
        with\ncompletion_us. Exit status: 0 healthy, 1 slow or hanging, 2 undecided or could not run.\n\n\
        Examples:\n  \
        kelpie job diagnose operations.csv\n  \
        kelpie job diagnose inspector.log --json | jq '.verdict, .rank'\n  \
        kelpie job diagnose operations.csv --now 95000000   (the job goes on, and its clock shows 95 s)"
    )]
    Diagnose(JobArgs),
}

#[derive(Debug, Args)]
pub struct JobArgs {
    /// What operations took, `-` for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The job goes on, and this is its clock: what is open for under 30 s does not hang [default: it was given up]
    #[arg(long, value_name = "MICROSECONDS")]
    pub now: Option<f64>,
}

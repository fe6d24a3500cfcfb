//! `kelpie paths`: probing, steering, checks, plans, the comparison with C4P, advice. How paths are planned lives in
//! `kelpie_paths`.

mod advise;
mod check;
mod compare;
mod plan;
mod probe;
mod serve;
mod steer;

use std::process::ExitCode;

use crate::args::Common;
use crate::cli::paths::PathsCommand;

/// Runs the command.
pub fn run(command: &PathsCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        PathsCommand::Probe(args) => probe::run(args, common),
        PathsCommand::Steer(args) => steer::run(args, common),
        PathsCommand::Serve(args) => serve::run(args),
        PathsCommand::Plan(args) => plan::run(args, common),
        PathsCommand::Check(args) => check::run(args, common),
        PathsCommand::Compare(args) => compare::run(args, common),
        PathsCommand::Advise(args) => advise::run(args, common),
    }
}

//! The `kelpie` command: reads arguments, runs one command, turns its outcome into an exit status.

mod args;
mod bench;
mod campaign;
mod cli;
mod commands;
mod errors;
mod exit;
mod inputs;
mod output;
mod progress;
mod stop;
mod subsystems;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_env("KELPIE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    commands::run(&cli).unwrap_or_else(|error| {
        // If stderr is gone, nobody can read an error.
        let _ = writeln!(std::io::stderr(), "{}", errors::text(&error, cli.common.json));
        exit::failed()
    })
}

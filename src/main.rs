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
mod safe_text;
mod stop;
mod subsystems;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    // Who came and went is what an agent is asked about.
    let level = if matches!(cli.command, cli::Command::Agent(_)) { "warn,kelpie_agent=info" } else { "warn" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("KELPIE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| output::Log)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    stop::survive_file_limit();
    commands::run(&cli).unwrap_or_else(|error| {
        let text = errors::text(&error, cli.common.json);
        output::note(&if cli.common.json { safe_text::clean_json(&text) } else { text });
        exit::failed()
    })
}

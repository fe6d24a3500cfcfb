//! The `kelpie` command: reads arguments, runs one command, turns its outcome into an exit status.

mod args;
mod campaigns;
mod cli;
mod commands;
mod errors;
mod exit;
mod gate;
mod inputs;
mod output;
mod preloaded;
mod progress;
mod settings;
mod stop;

use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser as _};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use args::{ColourChoice, Common};
use cli::Cli;
use settings::ConfigFile;

/// How much is said, and in which colours.
fn begin(common: Common, is_agent: bool) {
    if let Some(is_coloured) = match common.color {
        ColourChoice::Auto => None,
        ColourChoice::Always => Some(true),
        ColourChoice::Never => Some(false),
    } {
        console::set_colors_enabled(is_coloured);
        console::set_colors_enabled_stderr(is_coloured);
    }
    output::set_quiet(common.quiet);
    let level = match (common.quiet, common.verbose) {
        (true, _) => "error",
        // Who came and went is what an agent is asked about.
        (false, 0) if is_agent => "warn,kelpie_agent=info",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let log = fmt::layer().with_writer(|| output::Log).with_ansi(console::colors_enabled_stderr());
    tracing_subscriber::registry().with(log).with(logged(level)).init();
}

/// What is logged: what `KELPIE_LOG` says, or else this.
fn logged(level: &str) -> Targets {
    let asked = std::env::var("KELPIE_LOG").ok().filter(|asked| !asked.is_empty());
    match asked.map(|asked| asked.parse()) {
        Some(Ok(targets)) => return targets,
        Some(Err(error)) => output::note(&format!("KELPIE_LOG: {error}; write `debug`, or `warn,kelpie_agent=debug`")),
        None => {}
    }
    level.parse().expect("the levels above are written as targets are")
}

/// The arguments, over what the user's configuration file says.
fn arguments() -> Result<Cli, ExitCode> {
    let settings = ConfigFile::read().map_err(|error| {
        // Help and version are printed all the same.
        if let Err(asked) = Cli::try_parse()
            && !asked.use_stderr()
        {
            asked.exit();
        }
        failed(&error, std::env::args_os().any(|arg| arg == "--json"))
    })?;
    let command = settings.apply(cli::command());
    let matches = command.try_get_matches().unwrap_or_else(|error| errors::in_words(error).exit());
    Ok(Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()))
}

/// Says what went wrong.
fn failed(error: &anyhow::Error, json: bool) -> ExitCode {
    let text = errors::text(error, json);
    output::note(&if json { kelpie_text::clean_json(text) } else { text });
    exit::failed()
}

fn main() -> ExitCode {
    let cli = match arguments() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    begin(cli.common, cli.command.is_a_server());
    stop::survive_file_limit();
    commands::run(&cli).unwrap_or_else(|error| failed(&error, cli.common.json))
}

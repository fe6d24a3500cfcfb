//! Arguments that several commands take.

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use kelpie_search::{Algorithm, SignalSet};
use kelpie_store::{CampaignId, Database};

/// Seed of every random decision if `--seed` is not given. Source: our choice, because it is the first day of
/// the conference of Collie (NSDI 2022).
pub const DEFAULT_SEED: u64 = 20_220_404;

/// Experiments of a campaign without `--budget` and `--time`. Source: our choice, because a finding
/// costs about a hundred, and it is what the paper's ten hours allow at 24 s each.
pub const DEFAULT_BUDGET: u64 = 1500;

/// When output has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColourChoice {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Also in pipes and files
    Always,
    /// Never
    Never,
}

/// Where they stand in a command's help: behind its own options.
const GLOBAL: &str = "Global options";

/// What every command takes.
#[derive(Debug, Clone, Copy, Args)]
pub struct Common {
    /// Print one JSON document on stdout instead of text
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Seed of every random decision [default: 20220404]; in `measure`, of a simulated subsystem's noise
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Say less on stderr: errors only
    #[arg(long, short = 'q', global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more: evidence of what passes (doctor), and on stderr what happens; twice for every step
    #[arg(long, short = 'v', global = true, help_heading = GLOBAL, action = ArgAction::Count)]
    pub verbose: u8,
    /// When output has colours
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "WHEN", default_value = "auto")]
    pub color: ColourChoice,
}

impl Common {
    /// The seed, or the constant that stands for none.
    pub fn seed_or_default(self) -> u64 {
        self.seed.unwrap_or(DEFAULT_SEED)
    }
}

/// Which subsystem, and what is changed in its model.
#[derive(Debug, Args)]
pub struct SubsystemArgs {
    /// `sim:F`, `sim:path.yaml`, `lab`, or a file that names two agents
    #[arg(long, short = 's', value_name = "S")]
    pub subsystem: String,
    /// Override a parameter of the model (simulated subsystems); may be repeated
    #[arg(long, value_name = "path.to.key=value", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
    /// Apply the model's fix for anomaly N (simulated subsystems); may be repeated
    #[arg(long, value_name = "N")]
    pub fix: Vec<u32>,
}

/// Where campaigns are kept.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// Database: a file, or postgres://… [default: kelpie/kelpie.db in `$XDG_DATA_HOME` or `~/.local/share`]
    #[arg(long, value_name = "F", env = "KELPIE_DB", hide_env_values = true, value_parser = database(),
        value_hint = ValueHint::FilePath)]
    pub db: Option<Database>,
}

/// Reads the name of a database, which need not be text.
pub fn database() -> impl TypedValueParser<Value = Database> {
    OsStringValueParser::new().try_map(Database::try_from)
}

/// `KEY=VALUE`, split.
pub fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() && !value.is_empty() => Ok((path.to_owned(), value.to_owned())),
        _ => Err("write it as key=value".to_owned()),
    }
}

/// Reads the number of a campaign.
pub fn parse_id(text: &str) -> Result<CampaignId, String> {
    match text.parse() {
        Ok(id @ CampaignId(1..)) => Ok(id),
        _ => Err("write the number of a campaign; `kelpie campaign list` shows all".to_owned()),
    }
}

/// Reads an algorithm; `--help` lists all.
pub fn algorithm() -> impl clap::builder::TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::name)).try_map(|name| name.parse::<Algorithm>())
}

/// Reads signals; `--help` lists all.
pub fn signal() -> impl clap::builder::TypedValueParser<Value = SignalSet> {
    PossibleValuesParser::new(SignalSet::ALL.map(SignalSet::name)).try_map(|name| name.parse::<SignalSet>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings() {
        for (text, expected) in [
            ("nic.cache=4", Some(("nic.cache", "4"))),
            ("a=b=c", Some(("a", "b=c"))),
            ("=4", None),
            ("nic", None),
            ("nic=", None),
        ] {
            let got = parse_setting(text).ok();
            assert_eq!(got.as_ref().map(|(path, value)| (path.as_str(), value.as_str())), expected, "{text}");
        }
    }
}

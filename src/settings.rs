//! The user's configuration file (config/1): what arguments are if neither the command line nor the environment says.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Arg, Command, ValueEnum as _};
use kelpie_examine::files::read_file_up_to;
use kelpie_spaces::document::utf8;
use kelpie_spaces::read_tagged;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::args::ColourChoice;
use crate::inputs::home_folder;

/// The format tag of this version.
const FORMAT: &str = "config/1";

/// Longest configuration file. Units: bytes. Source: our choice.
const MAX_FILE: u64 = 64 << 10;

/// What the file says.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    #[serde(deserialize_with = "anywhere")]
    db: Option<PathBuf>,
    subsystem: Option<String>,
    #[serde(deserialize_with = "color")]
    color: Option<ColourChoice>,
}

/// A path that does not depend on the directory; `~` is the home folder.
fn anywhere<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let path = match text.strip_prefix("~/") {
        Some(below) => std::env::home_dir().map(|home| home.join(below)),
        None => Some(PathBuf::from(&text)),
    };
    let wrong = || D::Error::custom(format!("`{text}` depends on the directory; begin it with / or ~/"));
    path.filter(|path| path.is_absolute()).ok_or_else(wrong).map(Some)
}

fn color<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ColourChoice>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let wrong = |_| D::Error::custom(format!("`{word}` is not one of auto, always, never"));
    ColourChoice::from_str(&word, false).map_err(wrong).map(Some)
}

impl ConfigFile {
    /// Reads the user's file; one that is not there says nothing.
    pub fn read() -> anyhow::Result<Self> {
        let path = match std::env::var_os("KELPIE_CONFIG") {
            Some(path) if path.is_empty() => return Ok(Self::default()),
            Some(path) => PathBuf::from(path),
            // Source: XDG Base Directory Specification.
            None => match home_folder("XDG_CONFIG_HOME", ".config") {
                Some(folder) if folder.join("kelpie/config.yaml").exists() => folder.join("kelpie/config.yaml"),
                _ => return Ok(Self::default()),
            },
        };
        Self::from_bytes(&path, &read_file_up_to(&path, MAX_FILE)?).context("the configuration file")
    }

    fn from_bytes(path: &Path, bytes: &[u8]) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let (_, settings) = read_tagged(&name, utf8(&name, bytes)?, FORMAT)?;
        Ok(settings)
    }

    /// The command line with these defaults.
    pub fn apply(self, command: Command) -> Command {
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = self.color.filter(|_| !is_plain).and_then(|color| color.to_possible_value());
        let defaults = [
            ("db", self.db.map(PathBuf::into_os_string)),
            ("subsystem", self.subsystem.map(OsString::from)),
            ("color", color.map(|value| OsString::from(value.get_name()))),
        ];
        // clap keeps what lives as long as the process does.
        let given = defaults.into_iter().filter_map(|(id, value)| Some((id, &*Box::leak(value?.into_boxed_os_str()))));
        given.fold(command, |command, (id, value)| with_default(command, id, value))
    }
}

/// Gives an option a default, in the command and in all below it.
fn with_default(command: Command, id: &'static str, value: &'static OsStr) -> Command {
    // `mfs check --subsystem` is a filter, and `subsystem show S` an argument without a name.
    let is_meant = |arg: &Arg| arg.get_id() == id && (id != "subsystem" || arg.get_short() == Some('s'));
    let has = command.get_arguments().any(is_meant);
    let command = if has { command.mut_arg(id, |arg| arg.required(false).default_value(value)) } else { command };
    let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    below.iter().fold(command, |command, name| command.mut_subcommand(name, |below| with_default(below, id, value)))
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;
    use crate::cli::{self, CampaignCommand, Cli};

    fn read(text: &str) -> anyhow::Result<ConfigFile> {
        ConfigFile::from_bytes(Path::new("config.yaml"), text.as_bytes())
    }

    #[test]
    fn arguments_win_over_the_file() {
        let text = "kelpie: config/1\ndb: /data/k.db\nsubsystem: sim:H\ncolor: never\n";
        for (args, expected) in [
            (&["kelpie", "campaign", "run"][..], ("/data/k.db", "sim:H", ColourChoice::Never)),
            (
                &["kelpie", "campaign", "run", "-s", "sim:F", "--db", "x.db", "--color", "always"],
                ("x.db", "sim:F", ColourChoice::Always),
            ),
        ] {
            let command = read(text).unwrap().apply(cli::command());
            command.clone().debug_assert();
            let cli = Cli::from_arg_matches(&command.try_get_matches_from(args).unwrap()).unwrap();
            let cli::Command::Campaign(CampaignCommand::Run(run)) = cli.command else { panic!("a run") };
            assert_eq!(run.database.db, Some(Path::new(expected.0).into()));
            assert_eq!((run.subsystem.subsystem.as_str(), cli.common.color), (expected.1, expected.2));
        }
    }

    #[test]
    fn what_is_no_default_stays_as_it_is() {
        let command = read("kelpie: config/1\nsubsystem: sim:H\n").unwrap().apply(cli::command());
        let cli = command.try_get_matches_from(["kelpie", "mfs", "check", "w.yaml"]).unwrap();
        let cli::Command::Mfs(cli::MfsCommand::Check(check)) = Cli::from_arg_matches(&cli).unwrap().command else {
            panic!("a check")
        };
        assert_eq!(check.subsystem, None);
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, expected) in [
            ("db: /k.db\n", "config.yaml:1:1: the document: key `kelpie` is missing; begin with `kelpie: config/1`"),
            ("kelpie: config/2\n", "config.yaml:1:9: kelpie: this is format `config/2`; write `kelpie: config/1`"),
            (
                "kelpie: config/1\ncolour: never\n",
                "config.yaml:2:1: colour: unknown key `colour`; did you mean `color`?",
            ),
            ("kelpie: config/1\ncolor: blue\n", "config.yaml:2:8: color: `blue` is not one of auto, always, never"),
            ("kelpie: config/1\nsubsystem:\n", "config.yaml:2:10: subsystem: a value is missing"),
            ("kelpie: config/1\ncolor: ~\n", "config.yaml:2:8: color: a value is missing; write text"),
            ("kelpie: config/1\ndb: k.db\n", "config.yaml:2:5: db: `k.db` depends on the directory"),
            ("kelpie: config/1\ndb: [x]\n", "config.yaml:2:5: db: a list is not text"),
            ("- 1\n", "config.yaml:1:1: the document: this is no `config/1`"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.starts_with(expected), "{error}");
        }
        let all = format!("{:#}", read("kelpie: config/1\ncolour: never\ncolor: blue\ndb: k.db\n").unwrap_err());
        for expected in ["2:1: colour: unknown key `colour`", "3:8: color: `blue`", "4:5: db: `k.db`"] {
            assert!(all.contains(expected), "{all}");
        }
    }
}

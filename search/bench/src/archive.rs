//! The directory of a benchmark: its settings, and a file for each part of it that is done.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelpie_reports::folder::write_file;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What must not change between two runs into one directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The version that ran it.
    pub kelpie_version: String,
    /// The space as YAML.
    pub space: String,
    /// Experiments of each campaign.
    pub budget: u64,
    /// Each subsystem's model as YAML; later runs may add to them.
    pub subsystems: BTreeMap<String, String>,
}

/// Where results are kept, if anywhere.
#[derive(Debug)]
pub struct Archive(Option<PathBuf>);

const SETTINGS: &str = "settings.json";

impl Archive {
    /// One that keeps nothing.
    pub fn nowhere() -> Self {
        Self(None)
    }

    /// Opens the directory, which is made if it is missing, for these settings.
    ///
    /// # Errors
    /// It belongs to other settings, or cannot be used.
    pub fn open(path: &Path, settings: &Settings) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("{}", path.display()))?;
        let archive = Self(Some(path.to_owned()));
        let mut all = settings.clone();
        let stored = archive.get::<Settings>(SETTINGS)?;
        if stored.is_none() && holds_results(path)? {
            bail!("{} holds JSON files, but no {SETTINGS}: name another directory with --out", path.display());
        }
        if let Some(stored) = stored {
            let differs = if stored.kelpie_version != settings.kelpie_version {
                Some("another version of Kelpie".to_owned())
            } else if stored.space != settings.space {
                Some("another space".to_owned())
            } else if stored.budget != settings.budget {
                Some(format!("a budget of {} experiments", stored.budget))
            } else {
                let other =
                    |(name, yaml): &(&String, &String)| settings.subsystems.get(*name).is_some_and(|own| own != *yaml);
                stored.subsystems.iter().find(other).map(|(name, _)| format!("another model of {name}"))
            };
            if let Some(what) = differs {
                bail!("{} holds campaigns with {what}: name another directory with --out", path.display());
            }
            all.subsystems.extend(stored.subsystems);
        }
        archive.put(SETTINGS, &all)?;
        Ok(archive)
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        let name = if key == SETTINGS { key.to_owned() } else { format!("{}.json", escaped(key)) };
        self.0.as_ref().map(|folder| folder.join(name))
    }

    /// What was stored under this key.
    ///
    /// # Errors
    /// It cannot be read.
    fn get<T: DeserializeOwned>(&self, key: &str) -> anyhow::Result<Option<T>> {
        let Some(path) = self.path(key) else { return Ok(None) };
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("{}", path.display()))?,
        };
        let value = serde_json::from_slice(&text);
        Ok(Some(
            value
                .with_context(|| format!("{}: this is no whole result; remove it to have it again", path.display()))?,
        ))
    }

    /// Stores it as a whole.
    ///
    /// # Errors
    /// It cannot be written.
    fn put<T: Serialize>(&self, key: &str, value: &T) -> anyhow::Result<()> {
        let Some(path) = self.path(key) else { return Ok(()) };
        write_file(&path, &serde_json::to_vec(value)?, true).with_context(|| format!("{}", path.display()))
    }

    /// What was stored under this key, or else what `work` comes to, which is stored then.
    ///
    /// # Errors
    /// Those of `work`, or it cannot be read or written, or is of something else.
    pub fn once<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        is_own: impl FnOnce(&T) -> bool,
        work: impl FnOnce() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<Option<T>> {
        if let Some(stored) = self.get(key)? {
            if !is_own(&stored) {
                bail!(
                    "{} holds another result than {key}: remove it to have that",
                    self.path(key).unwrap_or_default().display()
                );
            }
            return Ok(Some(stored));
        }
        let done = work()?;
        done.iter().try_for_each(|done| self.put(key, done))?;
        Ok(done)
    }

    /// Stores a text under its own name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let Some(folder) = &self.0 else { return Ok(()) };
        let path = folder.join(name);
        write_file(&path, text.as_bytes(), true).with_context(|| format!("{}", path.display()))
    }
}

/// Whether a directory holds what looks like a benchmark's.
fn holds_results(folder: &Path) -> anyhow::Result<bool> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries: Vec<fs::DirEntry> = entries.with_context(|| format!("{}", folder.display()))?;
    Ok(entries.iter().any(|entry| Path::new(&entry.file_name()).extension().is_some_and(|end| end == "json")))
}

/// A key as the name of a file: letters, digits, dots and dashes stay, so that no two keys share one.
pub fn escaped(key: &str) -> String {
    key.bytes().fold(String::new(), |mut name, byte| {
        match byte {
            b' ' => name.push('_'),
            byte if byte.is_ascii_alphanumeric() || b".-".contains(&byte) => name.push(byte as char),
            byte => _ = write!(name, "%{byte:02X}"),
        }
        name
    })
}

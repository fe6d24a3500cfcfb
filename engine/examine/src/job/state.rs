//! What a watcher keeps across restarts, in one file that is replaced as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::files::{read_file_up_to, replace};
use crate::tail::Position;
use anyhow::Context as _;
use kelpie_diagnosis::job::{JobKey, Said, Window};
use serde::{Deserialize, Serialize};

use crate::outbox::PendingEvent;

const FORMAT: &str = "job-watch/1";
/// Longest state. Units: bytes. Source: our choice, above what the operations that are kept need.
const MAX_STATE: u64 = 1 << 29;

/// The state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchState {
    kelpie: String,
    /// Where reading stands in each file, and its heading.
    pub files: Vec<(Position, Option<String>)>,
    /// What is kept of each communicator's job, and what was said of it.
    pub jobs: Vec<(Window, Said)>,
    /// Events so far.
    pub events: u64,
    /// Events that did not get everywhere; now in a queue of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<PendingEvent>,
    /// Hosts that were drained.
    pub drained: BTreeSet<String>,
    /// Hosts that an event accused, and the communicator and function of its job.
    #[serde(default)]
    pub accused: BTreeMap<String, JobKey>,
}

impl Default for WatchState {
    fn default() -> Self {
        Self {
            kelpie: FORMAT.to_owned(),
            files: Vec::new(),
            jobs: Vec::new(),
            events: 0,
            waiting: Vec::new(),
            drained: BTreeSet::new(),
            accused: BTreeMap::new(),
        }
    }
}

/// A file beside the state.
pub fn beside(state: &Path, ending: &str) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Keeps other watchers from a state for as long as it lives; they are refused, and told by whom.
///
/// # Errors
/// Another watcher keeps its state there, or the file beside it cannot be written.
pub fn lock(state: &Path) -> anyhow::Result<File> {
    let path = beside(state, ".lock");
    let name = || path.display().to_string();
    // It is not removed at the end: whoever opened it before would lock a file that nobody else sees.
    let mut file =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).with_context(name)?;
    match file.try_lock() {
        Ok(()) => {
            // The number is for people: on a disk that is full the lock holds without it.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            let _ = (&file).take(16).read_to_string(&mut process);
            let process =
                process.trim().parse::<u32>().map_or_else(|_| String::new(), |process| format!(" (process {process})"));
            anyhow::bail!(
                "{}: another watcher{process} keeps its state there; give each one its own --state",
                state.display()
            )
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(name),
    }
}

impl WatchState {
    /// The state, if there is one.
    ///
    /// # Errors
    /// The file is unreadable, too long or no state of this version.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let name = || format!("{}: no state of a watcher; remove it to begin anew", path.display());
        let stored: Self = serde_json::from_slice(&read_file_up_to(path, MAX_STATE)?).with_context(name)?;
        anyhow::ensure!(stored.kelpie == FORMAT, "{}: of another version ({})", path.display(), stored.kelpie);
        Ok(Some(stored))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The folder or the disk does not take it.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        replace(path, |writer| Ok(serde_json::to_writer(writer, self)?))
    }
}

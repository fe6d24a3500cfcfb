//! What a watcher keeps across restarts, in one file that is replaced as a whole.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use kelpie_diagnosis::job::{Said, Window};
use kelpie_examine::files::read_file_up_to;
use kelpie_examine::tail::Position;
use serde::{Deserialize, Serialize};

use crate::notify::Waiting;

const FORMAT: &str = "job-watch/1";
/// Longest state. Units: bytes. Source: our choice, above what the operations that are kept need.
const MAX_STATE: u64 = 1 << 29;

/// The state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    kelpie: String,
    /// Where reading stands in each file, and its heading.
    pub files: Vec<(Position, Option<String>)>,
    /// What is kept of each communicator's job, and what was said of it.
    pub jobs: Vec<(Window, Said)>,
    /// Events so far.
    pub events: u64,
    /// Events that did not get everywhere.
    pub waiting: Vec<Waiting>,
    /// Hosts that were drained.
    pub drained: BTreeSet<String>,
}

impl Default for Stored {
    fn default() -> Self {
        Self {
            kelpie: FORMAT.to_owned(),
            files: Vec::new(),
            jobs: Vec::new(),
            events: 0,
            waiting: Vec::new(),
            drained: BTreeSet::new(),
        }
    }
}

impl Stored {
    /// The state, if there is one.
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
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let mut writer = std::io::BufWriter::new(file.as_file_mut());
        serde_json::to_writer(&mut writer, self)?;
        writer.flush()?;
        drop(writer);
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }
}

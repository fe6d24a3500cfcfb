//! Where counters are read from: one trait, one file per source. Differences and rates live in `rates`.

mod scripted;
mod sysfs;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use scripted::ScriptedSource;
pub use sysfs::SysfsSource;

/// One reading: counters by their public names, raw. A counter that could not be read is missing.
pub type Reading = BTreeMap<String, u64>;

/// Why no reading was possible at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A directory of counters could not be listed.
    #[error("cannot list the counters in {path}: is the device there, and is its driver loaded?")]
    List {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The device or port has no directory of counters.
    #[error("{path} has neither `counters` nor `hw_counters`")]
    NoCounters {
        /// Directory of the port.
        path: PathBuf,
    },
    /// A script has no further reading.
    #[error("the scripted source has no reading left")]
    Exhausted,
}

/// Something that has counters.
pub trait CounterSource {
    /// Reads every counter once.
    ///
    /// # Errors
    /// Only when nothing can be read; a single missing counter is missing in the reading.
    fn read(&mut self) -> Result<Reading, SourceError>;
}

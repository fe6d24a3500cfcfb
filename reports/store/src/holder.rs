//! Who writes a campaign or a qualification, for those who are refused meanwhile.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::records::unix_ms;

/// The process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Name of its host.
    pub host: String,
    /// Its number there.
    pub process: u32,
    /// When it took the lock. Units: seconds since 1970.
    pub since: u64,
}

impl Holder {
    /// This process, from now on.
    pub(crate) fn this_process() -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let since = unix_ms().unsigned_abs() / 1000;
        Self { host: host.trim().to_owned(), process: std::process::id(), since }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whatever a file or a row says: times that humans have no calendar for are left out.
        const LAST: u64 = 253_402_300_799;
        let since = UNIX_EPOCH + Duration::from_secs(self.since.min(LAST));
        write!(f, "process {} on {} since {}", self.process, self.host, humantime::format_rfc3339_seconds(since))
    }
}

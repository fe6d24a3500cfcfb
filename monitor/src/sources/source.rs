//! What every source of counters gives: one reading, or why there is none. Where from is up to each source.

use std::collections::BTreeMap;
use std::path::PathBuf;

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
    /// The driver of an interface has no counters, or the interface is gone.
    #[error("cannot read the driver's counters of {netdev} (`ethtool -S {netdev}` shows whether it has any)")]
    Driver {
        /// Network interface.
        netdev: String,
    },
    /// The kernel gave no counters over netlink.
    #[error("cannot read the counters of {device} over RDMA netlink")]
    Netlink {
        /// RDMA device.
        device: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A script has no further reading.
    #[error("the scripted source has no reading left")]
    Exhausted,
}

/// What the names of the counters of a bond's slaves begin with, before their number (from 0) and a dot.
pub const SLAVE: &str = "slave";

/// A counter's name without the slave of a bond that it is of.
pub fn without_slave(name: &str) -> &str {
    let is_slave = |start: &str| start.strip_prefix(SLAVE).is_some_and(|number| number.parse::<u32>().is_ok());
    name.split_once('.').filter(|(start, _)| is_slave(start)).map_or(name, |(_, rest)| rest)
}

/// Something that has counters.
pub trait CounterSource {
    /// Reads every counter once.
    ///
    /// # Errors
    /// Only when nothing can be read; a single missing counter is missing in the reading.
    fn read(&mut self) -> Result<Reading, SourceError>;
}

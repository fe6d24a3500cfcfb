//! The network interface of a port: its speed, and what it dropped.

use super::{CounterSource, Reading, SourceError};
use crate::machine::Machine;

/// Speed of the link. A level, not a count. Units: million bits per second.
pub const SPEED: &str = "net.speed_megabits";

/// Counters that are read. Source: kernel `Documentation/ABI/testing/sysfs-class-net-statistics`.
const STATISTICS: [&str; 6] =
    ["rx_dropped", "rx_errors", "rx_fifo_errors", "rx_missed_errors", "tx_dropped", "tx_errors"];

/// `sys/class/net/NETDEV`.
#[derive(Debug, Clone)]
pub struct NetdevSource {
    machine: Machine,
    directory: String,
}

impl NetdevSource {
    /// The interface of this name.
    pub fn new(machine: &Machine, netdev: &str) -> Self {
        Self { machine: machine.clone(), directory: format!("sys/class/net/{netdev}") }
    }
}

impl CounterSource for NetdevSource {
    fn read(&mut self) -> Result<Reading, SourceError> {
        let mut reading = Reading::new();
        for name in STATISTICS {
            let value = self.machine.number(&format!("{}/statistics/{name}", self.directory));
            reading.extend(value.map(|value| (format!("net.{name}"), value)));
        }
        // A link that is down, or reports no speed, has -1 or nothing.
        let speed = self.machine.number::<u64>(&format!("{}/speed", self.directory)).filter(|speed| *speed > 0);
        reading.extend(speed.map(|speed| (SPEED.to_owned(), speed)));
        Ok(reading)
    }
}

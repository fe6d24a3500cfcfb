//! The bounds of throughput by name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A bound of throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Bits/s of the port.
    Wire,
    /// Packets/s of the port.
    Packets,
    /// Bits/s of the PCIe link of a host, for the elements of the workload.
    PcieLink,
    /// Reads/s of the memory of a host, for the elements of the workload.
    PcieReads,
    /// What queues of this depth, and pauses between posts, carry over the round trip.
    Queues,
    /// What so many QPs carry, each as fast as one is alone.
    Qps,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wire => "the wire",
            Self::Packets => "the port's packets/s",
            Self::PcieLink => "the PCIe link",
            Self::PcieReads => "PCIe's reads/s",
            Self::Queues => "what its queues allow",
            Self::Qps => "what its QPs can do",
        })
    }
}

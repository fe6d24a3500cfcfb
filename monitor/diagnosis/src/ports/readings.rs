//! What is read of both ends of traffic through dual-port NICs, format `ports/1`. Judging is elsewhere.

use kelpie_monitor::check::CheckState;
use kelpie_topology::PortSide;
use serde::{Deserialize, Serialize};

/// How the bond chooses the port by which a QP leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// There is one port.
    SinglePort,
    /// By a hash of addresses and ports.
    Hash,
    /// By the QP's affinity.
    QueueAffinity,
    /// One port at a time.
    ActiveBackup,
}

/// A QP or a probed source port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QpReading {
    /// UDP source port, if it is known.
    #[serde(default)]
    pub source_port: Option<u16>,
    /// Port by which it leaves, if it was seen.
    #[serde(default)]
    pub leaves: Option<PortSide>,
    /// Port at which it arrives, if it was seen.
    #[serde(default)]
    pub arrives: Option<PortSide>,
    /// Share of its packets that were lost, if it was measured.
    #[serde(default)]
    pub loss: Option<f64>,
}

/// A port that went down during traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failover {
    /// How long no traffic moved; none if it never went on. Units: milliseconds.
    pub gap_ms: Option<u64>,
    /// Whether the port had traffic again after it came back; unknown if it was not waited for.
    #[serde(default)]
    pub came_back: Option<bool>,
}

/// A port of an end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PortReading {
    /// Network interface.
    pub name: Option<String>,
    /// Speed that its link trained to. Units: bits/s.
    pub speed_bps: Option<f64>,
    /// Speed of the fastest link that it could have. Units: bits/s.
    pub capable_bps: Option<f64>,
    /// Speed of the fastest link that its partner offers as well, or that the network is built for. Units: bits/s.
    pub agreed_bps: Option<f64>,
    /// Whether it is virtual, and has no speed.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
    /// Errors that it counted while traffic ran.
    pub errors: Option<u64>,
    /// Share of the time for which it was paused or paused its switch, the longer.
    pub paused: Option<f64>,
    /// Largest packet. Units: bytes.
    pub mtu: Option<u64>,
    /// Address of the switch that its LACP talks to.
    pub lacp_partner: Option<String>,
}

/// The NIC at one end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EndReading {
    /// What its narrowest PCIe link carries. Units: bits/s.
    pub pcie_bps: Option<f64>,
    /// Whether its bond uses LACP.
    pub lacp: Option<bool>,
    /// Its ports, the left one first.
    pub ports: Vec<PortReading>,
}

fn yes() -> bool {
    true
}

/// What was read of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readings {
    /// Whose traffic, such as `a to b`.
    pub about: String,
    /// How the sender's bond chooses.
    pub mode: Mode,
    /// The NIC that sends.
    #[serde(default)]
    pub sender: Option<EndReading>,
    /// The NIC that receives.
    #[serde(default)]
    pub receiver: Option<EndReading>,
    /// Whether the traffic is of a kind that fills a port: large messages of several QPs.
    #[serde(default = "yes")]
    pub fills_ports: bool,
    /// Its QPs.
    #[serde(default)]
    pub qps: Vec<QpReading>,
    /// Bytes of the sender's ports, left and right.
    #[serde(default)]
    pub sent_bytes: Option<[u64; 2]>,
    /// Bytes of the receiver's ports.
    #[serde(default)]
    pub received_bytes: Option<[u64; 2]>,
    /// Goodput of one port alone. Units: bits/s.
    #[serde(default)]
    pub alone_bps: Option<f64>,
    /// Goodput of both together. Units: bits/s.
    #[serde(default)]
    pub together_bps: Option<f64>,
    /// What came of a port that went down.
    #[serde(default)]
    pub failover: Option<Failover>,
    /// Ports that were down while all this was read; none is an empty list.
    #[serde(default)]
    pub down: Option<Vec<String>>,
    /// If the mode is queue affinity: why no QP can be put on a LAG port; none if it can, or if nobody tried.
    #[serde(default)]
    pub lag_refused: Option<String>,
}

/// Pass, warn or fail for a value that is worse the larger it is.
pub(super) fn graded(value: f64, [warn, fail]: [f64; 2]) -> CheckState {
    if value >= fail {
        CheckState::Fail
    } else if value >= warn {
        CheckState::Warn
    } else {
        CheckState::Pass
    }
}

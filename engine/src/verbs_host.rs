//! What an agent asks of the machine it runs on: one trait, implemented over libibverbs and by a fake in tests.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_spaces::Opcode;
use kelpie_spaces::flow_label::FIRST_PORT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::latency::Took;
use crate::plan::{GroupId, HostPlan};
use crate::rank::{RankJob, RankReading};

/// Which port of which RDMA device to use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Device name, such as `mlx5_0`; the agent's own choice if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Port number, from 1.
    #[serde(default = "first_port")]
    pub port: u8,
    /// GID index; if it is absent, `RoCEv2` over IPv4 comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u8>,
    /// Marks of its packets, and the like.
    #[serde(default)]
    pub tuning: Tuning,
}

/// How a host sends and where it keeps data, beyond what a workload says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tuning {
    /// Traffic class of the global route; of an IP packet its DSCP (upper six bits) and ECN.
    pub traffic_class: u8,
    /// `InfiniBand` service level, 0 to 15; on Ethernet it chooses the priority of packets with a VLAN tag.
    pub service_level: u8,
    /// Routers that a packet may pass.
    pub hop_limit: u8,
    /// UDP source port of all packets, 49152 to 65535; if it is absent, the device's choice for each QP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_source_port: Option<u16>,
    /// Local acknowledgement timeout: 4.096 us times 2 to this power, 1 to 31; the device may wait up to four times as
    /// long.
    pub ack_timeout: u8,
    /// Whether MRs are made of huge pages, which the host has to have reserved.
    pub huge_pages: bool,
    /// Whether MRs ask for relaxed ordering of PCIe writes, if libibverbs, kernel and device have it.
    pub relaxed_ordering: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        // Source of hop limit, timeout (67 ms) and relaxed ordering: the defaults of perftest.
        Self {
            traffic_class: 0,
            service_level: 0,
            hop_limit: 64,
            udp_source_port: None,
            ack_timeout: 14,
            huge_pages: false,
            relaxed_ordering: true,
        }
    }
}

impl Tuning {
    /// The longest that a requester may wait for an acknowledgement: four times what it was told. Units: seconds.
    ///
    /// Source: IBTA volume 1, section 9.9.2.1.1.
    pub fn longest_ack_timeout_seconds(&self) -> f64 {
        4.0 * 4.096e-6 * f64::from(self.ack_timeout).exp2()
    }

    /// The key and the rule that it breaks, if one does.
    pub fn broken_rule(&self) -> Option<(&'static str, &'static str)> {
        if self.service_level > 15 {
            return Some(("service_level", "write 0 to 15"));
        }
        if self.hop_limit == 0 {
            return Some(("hop_limit", "write 1 to 255"));
        }
        // Source: IBTA volume 1, section 9.9.2.1.1: five bits, and 0 is for ever, which no experiment is.
        if !(1..=31).contains(&self.ack_timeout) {
            return Some(("ack_timeout", "write 1 to 31"));
        }
        // Source: IBTA annex A17.9.2 leaves the choice; RFC 6335 has dynamic ports from 49152, as the kernel uses.
        if self.udp_source_port.is_some_and(|port| port < FIRST_PORT) {
            return Some(("udp_source_port", "write 49152 to 65535"));
        }
        None
    }
}

impl Default for Port {
    fn default() -> Self {
        Self { device: None, port: first_port(), gid_index: None, tuning: Tuning::default() }
    }
}

fn first_port() -> u8 {
    1
}

/// What a port is and can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReport {
    /// Device name.
    #[serde(deserialize_with = "bounded::text")]
    pub device: String,
    /// Chosen GID index.
    pub gid_index: u8,
    /// Largest path MTU of the port as it is configured. Units: bytes.
    pub active_mtu: u64,
}

/// A memory region that the peer may address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteMr(
    /// Virtual address.
    pub u64,
    /// Remote key.
    pub u32,
);

/// One QP, as its peer needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QpEndpoint {
    /// QP number.
    pub qpn: u32,
    /// First packet sequence number that it sends.
    pub psn: u32,
    /// Memory at a responder; empty at a requester.
    pub mrs: Vec<RemoteMr>,
}

/// One end of a flow, ready to be connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupEndpoint {
    /// Which end of which flow.
    pub id: GroupId,
    /// GID of the port.
    pub gid: [u8; 16],
    /// LID of the port; 0 on Ethernet.
    pub lid: u16,
    /// Whether packets to the port need a global route even within its subnet, as those to virtual ports of a card do.
    pub needs_grh: bool,
    /// READs and atomics that a QP can have outstanding at a requester, and can answer at a responder.
    pub reads: u8,
    /// Its QPs, in order.
    pub qps: Vec<QpEndpoint>,
}

/// UDP source ports of the QPs of one end of a flow, in turn, and the ports of the device's LAG by which they leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPorts {
    /// Which end of which flow.
    pub id: GroupId,
    /// Source ports, from 49152.
    pub ports: Vec<u16>,
    /// LAG ports, from 1; none leaves them to the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lag_ports: Vec<u8>,
}

/// What came of the LAG ports that the QPs of one end of a flow were to leave by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLag {
    /// Which end of which flow.
    pub id: GroupId,
    /// The LAG port by which each QP leaves, as the device says; or why they leave as the device has it.
    pub leaves: Result<Vec<u8>, HostError>,
}

/// Completed work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CompletedWork {
    /// Messages.
    pub messages: u64,
    /// Payload. Units: bytes.
    pub bytes: u64,
    /// Payload packets at the path MTU.
    pub packets: u64,
}

/// Work completed by one end of a flow since the start, by operation; at a responder what consumed receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCount {
    /// Which end of which flow.
    pub id: GroupId,
    /// By operation.
    pub by_op: BTreeMap<Opcode, CompletedWork>,
}

/// How long signalled requests of one end of a flow took that completed since the reading before, by operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLatency {
    /// Which end of which flow, a requester.
    pub id: GroupId,
    /// By operation.
    pub by_op: BTreeMap<Opcode, Vec<Took>>,
}

/// One reading of everything on a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostReading {
    /// Time since the start of traffic, on the host's monotonic clock. Units: nanoseconds.
    pub at_nanos: u64,
    /// Completed work.
    pub groups: Vec<GroupCount>,
    /// Part of that time in which the requesters' send queues were kept full. Units: nanoseconds.
    pub queue_full_nanos: u64,
    /// Messages that arrived while the responders' receive queues were left to run low.
    pub received_late: u64,
    /// Counters of the port, raw, by their public names.
    #[serde(deserialize_with = "bounded::counters")]
    pub counters: BTreeMap<String, u64>,
    /// What went wrong in the hardware so far, once each.
    #[serde(deserialize_with = "bounded::events")]
    pub events: Vec<String>,
    /// Work requests posted by requesters and not completed.
    pub outstanding: u64,
    /// How long requests took; empty if nobody asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<GroupLatency>,
    /// What came of LAG ports; empty if nobody chose any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lag: Vec<GroupLag>,
}

/// Why a host could not do a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostError {
    /// The machine has not what the workload asks for; another workload may run.
    #[error("{0}")]
    Unsupported(#[serde(deserialize_with = "bounded::text")] String),
    /// The step failed.
    #[error("{0}")]
    Failed(#[serde(deserialize_with = "bounded::text")] String),
}

/// A machine with an RDMA port. Steps come in the order of the methods; the last two may come at any time.
pub trait VerbsHost: Send {
    /// Opens the port and says what it is.
    ///
    /// # Errors
    /// Where the device, the port or the library is missing.
    fn inspect(&mut self, port: &Port) -> Result<PortReport, HostError>;

    /// Creates memory and QPs.
    ///
    /// # Errors
    /// Where the device refuses or lacks something.
    fn set_up(&mut self, port: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError>;

    /// Connects every group to its peer in `peers` and posts the first receives.
    ///
    /// # Errors
    /// Where a peer is missing or a QP refuses.
    fn connect(&mut self, peers: &[GroupEndpoint]) -> Result<(), HostError>;

    /// Gives QPs that are not connected yet their source ports, and has them leave by their LAG ports once they are
    /// ready to send; groups that are not named keep the device's choice. What came of LAG ports is in each reading.
    /// QPs of a rank at work, all of which are named, move there at the beginning of its next iteration.
    ///
    /// # Errors
    /// Where nothing is set up, or the machine cannot choose them.
    fn set_source_ports(&mut self, _groups: &[GroupPorts]) -> Result<(), HostError> {
        Err(HostError::Unsupported("source ports of single QPs cannot be chosen here".to_owned()))
    }

    /// Starts traffic.
    ///
    /// # Errors
    /// Where the session is not connected.
    fn start(&mut self) -> Result<(), HostError>;

    /// Reads completed work and counters.
    ///
    /// # Errors
    /// Where no traffic was started.
    fn sample(&mut self) -> Result<HostReading, HostError>;

    /// Stops posting and waits, at most `drain`, until nothing is outstanding. Responders go on.
    ///
    /// # Errors
    /// Where no traffic was started.
    fn stop(&mut self, drain: Duration) -> Result<HostReading, HostError>;

    /// Creates memory and QPs of a rank of a ring, which is then connected and started as other traffic is: the end of
    /// flow 0 that sends to the next rank, and that which receives from the one before.
    ///
    /// # Errors
    /// Where the device refuses or lacks something.
    fn set_up_rank(&mut self, _port: &Port, _job: &RankJob) -> Result<Vec<GroupEndpoint>, HostError> {
        Err(HostError::Unsupported("ranks of jobs cannot run here".to_owned()))
    }

    /// What the rank has done since the last reading, and what its clock shows.
    ///
    /// # Errors
    /// Where no rank is set up.
    fn read_rank(&mut self) -> Result<RankReading, HostError> {
        Err(HostError::Failed("no rank is set up".to_owned()))
    }

    /// Ends the session; what it had made may serve the next session of the same controller. Nothing to do is fine.
    fn recycle(&mut self);

    /// Destroys whatever was made. Nothing to do is fine.
    fn tear_down(&mut self);
}

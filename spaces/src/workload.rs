//! A workload: one point of the search space, in the terms of verbs. Rules between fields live in `constraints`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_DEPTH, MAX_LOSS_PPM, MAX_MADE_PER_SEC, MAX_MRS, MAX_PATH_DELAY_NS, MAX_QPS};
use crate::units::{Bytes, counted};

/// The bounds that errors name. Units: as the rules have them.
const DEPTH: u64 = MAX_DEPTH as u64;
const MADE_PER_SEC: u64 = MAX_MADE_PER_SEC as u64;
const LOSS_PPM: u64 = MAX_LOSS_PPM as u64;
const PATH_DELAY_NS: u64 = MAX_PATH_DELAY_NS as u64;
const PAUSE_NS: u64 = u32::MAX as u64;

/// One of the two hosts of a subsystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// Host `a`.
    A,
    /// Host `b`.
    B,
}

impl Host {
    /// Both hosts, in order.
    pub const BOTH: [Host; 2] = [Host::A, Host::B];

    /// The other host.
    #[must_use]
    pub fn peer(self) -> Host {
        match self {
            Host::A => Host::B,
            Host::B => Host::A,
        }
    }

    /// 0 for `a`, 1 for `b`.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Host::A { "a" } else { "b" })
    }
}

/// Transport service type of a queue pair (QP). Source: IBTA volume 1, section 9.7 to 9.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl QpType {
    /// Every transport.
    pub const ALL: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];
}

impl fmt::Display for QpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpType::Rc => "RC",
            QpType::Uc => "UC",
            QpType::Ud => "UD",
        })
    }
}

/// Operation of a work request (WR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Opcode {
    /// Two-sided; consumes a receive WR.
    Send,
    /// One-sided RDMA WRITE.
    Write,
    /// One-sided RDMA READ.
    Read,
    /// A WRITE that ends with 4 bytes of immediate data, for which it consumes a receive WR.
    WriteWithImm,
    /// A SEND with 4 bytes of immediate data.
    SendWithImm,
    /// Adds to 8 bytes of the responder's memory and brings back what was there.
    FetchAdd,
    /// Replaces 8 bytes of the responder's memory if they have a given value, and brings back what was there.
    CmpSwap,
}

/// By which ports of a bonded NIC with two of them the QPs of a flow leave, and at which they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ports {
    /// As the hash of their source ports has it, when nobody steers.
    #[default]
    Hashed,
    /// All by one port, and to its like.
    One,
    /// By one port, and to the other one, across the leaves.
    Crossed,
    /// As a plan has it: half by each port, and to its like.
    Planned,
}

impl Ports {
    /// All, in order.
    pub const ALL: [Ports; 4] = [Ports::Hashed, Ports::One, Ports::Crossed, Ports::Planned];

    /// The name in YAML, JSON and reports.
    pub fn name(self) -> &'static str {
        match self {
            Ports::One => "one",
            Ports::Hashed => "hashed",
            Ports::Crossed => "crossed",
            Ports::Planned => "planned",
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an atomic operation reads and writes. Units: bytes. Source: IBTA volume 1, section 9.4.5.
pub const ATOMIC_SIZE: Bytes = Bytes(8);

impl Opcode {
    /// Every operation.
    pub const ALL: [Opcode; 7] = [
        Opcode::Send,
        Opcode::Write,
        Opcode::Read,
        Opcode::WriteWithImm,
        Opcode::SendWithImm,
        Opcode::FetchAdd,
        Opcode::CmpSwap,
    ];

    /// The name in YAML, JSON and reports.
    pub fn name(self) -> &'static str {
        match self {
            Opcode::Send => "SEND",
            Opcode::Write => "WRITE",
            Opcode::Read => "READ",
            Opcode::WriteWithImm => "WRITE_WITH_IMM",
            Opcode::SendWithImm => "SEND_WITH_IMM",
            Opcode::FetchAdd => "FETCH_ADD",
            Opcode::CmpSwap => "CMP_SWAP",
        }
    }

    /// Whether its payload lands in a posted receive.
    pub fn is_send(self) -> bool {
        matches!(self, Opcode::Send | Opcode::SendWithImm)
    }

    /// Whether it consumes a receive WR at the responder, which therefore has a completion for it.
    pub fn consumes_receive(self) -> bool {
        self.is_send() || self == Opcode::WriteWithImm
    }

    /// Whether it works on 8 bytes in place.
    pub fn is_atomic(self) -> bool {
        matches!(self, Opcode::FetchAdd | Opcode::CmpSwap)
    }

    /// Whether its payload comes from the responder.
    pub fn brings_back(self) -> bool {
        self == Opcode::Read || self.is_atomic()
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Path MTU: the largest payload of one packet.
///
/// Units: bytes, one of 256, 512, 1024, 2048, 4096. Source: IBTA volume 1, `ibv_mtu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "u64")]
pub struct Mtu(u16);

impl Mtu {
    /// Every path MTU that verbs knows, ascending.
    pub const ALL: [Mtu; 5] = [Mtu(256), Mtu(512), Mtu(1024), Mtu(2048), Mtu(4096)];

    /// The MTU in bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.0)
    }
}

/// A number that is no path MTU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path MTU {0} is not one of 256, 512, 1024, 2048, 4096")]
pub struct BadMtu(pub u64);

impl TryFrom<u64> for Mtu {
    type Error = BadMtu;

    fn try_from(value: u64) -> Result<Self, Self::Error> {
        Mtu::ALL.into_iter().find(|mtu| mtu.bytes() == value).ok_or(BadMtu(value))
    }
}

impl TryFrom<Bytes> for Mtu {
    type Error = BadMtu;

    fn try_from(value: Bytes) -> Result<Self, Self::Error> {
        Mtu::try_from(value.0)
    }
}

impl From<Mtu> for u64 {
    fn from(mtu: Mtu) -> u64 {
        mtu.bytes()
    }
}

/// Where a memory region (MR) lives, from its host's view; written `dram:0` or `gpu:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// DRAM of a NUMA node.
    Dram(u8),
    /// Memory of a GPU.
    Gpu(u8),
}

/// Text that names no memory device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a memory device: write dram:N for NUMA node N or gpu:N for GPU N, N below 256")]
pub struct BadDevice(pub String);

impl FromStr for Device {
    type Err = BadDevice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || BadDevice(text.chars().take(40).collect());
        let (kind, index) = text.split_once(':').ok_or_else(refused)?;
        let index: u8 = index.parse().map_err(|_| refused())?;
        match kind {
            "dram" => Ok(Device::Dram(index)),
            "gpu" => Ok(Device::Gpu(index)),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Dram(index) => write!(f, "dram:{index}"),
            Device::Gpu(index) => write!(f, "gpu:{index}"),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = BadDevice;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl Serialize for Device {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Queue depths of each QP: `max_send_wr` and `max_recv_wr`.
///
/// Units: work requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Depths {
    /// Send queue depth.
    #[serde(deserialize_with = "counted::<_, 1, DEPTH>")]
    pub send: u32,
    /// Receive queue depth.
    #[serde(deserialize_with = "counted::<_, 1, DEPTH>")]
    pub recv: u32,
}

/// Work requests chained in one post call.
///
/// Units: work requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Batch {
    /// Per `ibv_post_send`.
    #[serde(deserialize_with = "counted::<_, 1, DEPTH>")]
    pub send: u32,
    /// Per `ibv_post_recv`.
    #[serde(deserialize_with = "counted::<_, 1, DEPTH>")]
    pub recv: u32,
}

/// One element of the request vector: an operation with its scatter-gather list (SGE sizes).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The operation.
    pub op: Opcode,
    /// Sizes of the scatter-gather elements, in order.
    pub sge: Vec<Bytes>,
}

impl Request {
    /// Message size: the sum of the elements.
    pub fn message(&self) -> Bytes {
        Bytes(self.sge.iter().map(|size| size.0).fold(0, u64::saturating_add))
    }
}

/// The memory that one side of a flow uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Where it lives.
    pub device: Device,
    /// MRs per QP.
    #[serde(deserialize_with = "counted::<_, 1, MAX_MRS>")]
    pub mrs: u32,
    /// Size of each MR.
    pub mr_size: Bytes,
}

/// Memory of the requester (`from`) and of the responder (`to`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryPair {
    /// At the requester.
    pub from: Memory,
    /// At the responder.
    pub to: Memory,
}

impl Default for Depths {
    fn default() -> Self {
        Self { send: 128, recv: 128 }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { send: 1, recv: 1 }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self { device: Device::Dram(0), mrs: 1, mr_size: Bytes(4 << 20) }
    }
}

/// What a flow has where a file leaves it out: traffic as perftest makes it, healthy on every NIC.
mod plain {
    use super::{Bytes, Mtu, Opcode, QpType, Request};

    pub(super) fn qp_type() -> QpType {
        QpType::Rc
    }

    pub(super) fn qps() -> u32 {
        8
    }

    pub(super) fn mtu() -> Mtu {
        Mtu(4096)
    }

    pub(super) fn pattern() -> Vec<Request> {
        vec![Request { op: Opcode::Write, sge: vec![Bytes(64 << 10)] }]
    }
}

/// Equal queue pairs between two hosts (or one and itself) that repeat a request vector for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Requester host.
    pub from: Host,
    /// Responder host; the same host is loopback.
    pub to: Host,
    /// Transport.
    #[serde(default = "plain::qp_type")]
    pub qp_type: QpType,
    /// Queue pairs.
    #[serde(default = "plain::qps", deserialize_with = "counted::<_, 1, MAX_QPS>")]
    pub qps: u32,
    /// Path MTU.
    #[serde(default = "plain::mtu")]
    pub mtu: Mtu,
    /// Queue depths of each QP.
    #[serde(default)]
    pub wq_depth: Depths,
    /// Work requests per post call.
    #[serde(default)]
    pub batch: Batch,
    /// Request vector, posted in order, for ever.
    #[serde(default = "plain::pattern")]
    pub pattern: Vec<Request>,
    /// Receive vector; empty is one element that fits the largest SEND, none where nothing is sent two-sided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recv_sge: Vec<Bytes>,
    /// SENDs and WRITEs up to this size are posted inline: the NIC finds their payload in the WQE. 0 is never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inline: Bytes,
    /// How long each QP pauses from one post call to the next, at least. Units: ns; 0 is not at all.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "counted::<_, 0, PAUSE_NS>")]
    pub interarrival_ns: u32,
    /// QPs that each end makes and destroys beside its traffic. Units: per second; 0 is none.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "counted::<_, 0, MADE_PER_SEC>")]
    pub qps_made_per_sec: u32,
    /// MRs that each end registers and deregisters beside its traffic. Units: per second; 0 is none.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "counted::<_, 0, MADE_PER_SEC>")]
    pub mrs_made_per_sec: u32,
    /// Packets that the path loses, of a million, in either direction.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "counted::<_, 0, LOSS_PPM>")]
    pub loss_ppm: u32,
    /// By how much the path is longer than it has to be, in either direction. Units: ns.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "counted::<_, 0, PATH_DELAY_NS>")]
    pub path_delay_ns: u32,
    /// Which ports of a bonded NIC its QPs use.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ports: Ports,
    /// Memory of both sides.
    #[serde(default)]
    pub memory: MemoryPair,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Flow {
    /// Traffic as perftest makes it, healthy on every NIC: what others are made from, and what a file may leave out.
    pub fn plain(from: Host, to: Host) -> Flow {
        Flow {
            from,
            to,
            qp_type: plain::qp_type(),
            qps: plain::qps(),
            mtu: plain::mtu(),
            wq_depth: Depths::default(),
            batch: Batch::default(),
            pattern: plain::pattern(),
            recv_sge: Vec::new(),
            inline: Bytes(0),
            interarrival_ns: 0,
            qps_made_per_sec: 0,
            mrs_made_per_sec: 0,
            loss_ppm: 0,
            path_delay_ns: 0,
            ports: Ports::Hashed,
            memory: MemoryPair::default(),
        }
    }

    /// Whether requester and responder are the same host.
    pub fn is_loopback(&self) -> bool {
        self.from == self.to
    }

    /// The flow in the other direction; each host keeps its memory.
    #[must_use]
    pub fn mirrored(&self) -> Flow {
        let mut mirror = self.clone();
        (mirror.from, mirror.to) = (self.to, self.from);
        (mirror.memory.from, mirror.memory.to) = (self.memory.to, self.memory.from);
        mirror
    }

    /// The receive vector with its default filled in; empty when nothing is sent two-sided.
    pub fn receive_elements(&self) -> Vec<Bytes> {
        if !self.recv_sge.is_empty() {
            return self.recv_sge.clone();
        }
        let largest = self.pattern.iter().filter(|request| request.op.is_send()).map(Request::message).max();
        largest.into_iter().collect()
    }
}

/// A workload, format `workload/1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Format tag, always [`Workload::FORMAT`].
    pub kelpie: String,
    /// The flows, all active at once.
    pub flows: Vec<Flow>,
}

impl Workload {
    /// The format tag of this version.
    pub const FORMAT: &'static str = "workload/1";

    /// A workload of these flows.
    pub fn new(flows: Vec<Flow>) -> Self {
        Self { kelpie: Self::FORMAT.to_owned(), flows }
    }
}

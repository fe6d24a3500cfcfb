//! Simple traffic of one kind, as a row of a table describes it, and the workload that it stands for. No rates.

use kelpie_spaces::{
    Batch, Bytes, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, QpType, Request, Violation, Workload,
    check,
};
use serde::Serialize;

/// Which hosts send to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficPattern {
    /// Host a requests of host b.
    One,
    /// Each of both requests of the other.
    Both,
    /// Host a requests of itself, through its NIC.
    Loopback,
}

impl TrafficPattern {
    /// Every path.
    pub const ALL: [TrafficPattern; 3] = [TrafficPattern::One, TrafficPattern::Both, TrafficPattern::Loopback];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            TrafficPattern::One => "one",
            TrafficPattern::Both => "both",
            TrafficPattern::Loopback => "loopback",
        }
    }
}

/// Equal requests of one size on equal QPs, as perftest makes them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Traffic {
    /// Operation.
    pub operation: Opcode,
    /// Transport.
    pub transport: QpType,
    /// Message size. Units: bytes.
    pub size_bytes: u64,
    /// QPs of each direction.
    pub qps: u32,
    /// Path MTU.
    #[serde(rename = "mtu_bytes")]
    pub mtu: Mtu,
    /// Work requests in each queue, send and receive.
    pub depth: u32,
    /// Work requests per `ibv_post_send`.
    pub batch: u32,
    /// MRs of each QP at each end.
    pub mrs_per_qp: u32,
    /// Size of each MR. Units: bytes.
    pub mr_bytes: u64,
    /// Who sends to whom.
    #[serde(rename = "directions")]
    pub path: TrafficPattern,
    /// Cores of each host that post, if not as many as the base says. perftest posts from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
}

/// A page, the shortest MR unless a row says otherwise. Units: bytes. Source: our choice, because perftest sends short
/// messages from a page in turn.
pub const PAGE: u64 = 4096;

impl Traffic {
    /// RC traffic in one direction: an MTU of 4,096, a depth of 128, no batches, and one MR per QP that fits a message.
    pub fn new(operation: Opcode, size_bytes: u64, qps: u32) -> Self {
        Self {
            operation,
            transport: QpType::Rc,
            size_bytes,
            qps,
            mtu: Mtu::ALL[4],
            depth: 128,
            batch: 1,
            mrs_per_qp: 1,
            mr_bytes: size_bytes.max(PAGE),
            path: TrafficPattern::One,
            cores: None,
        }
    }

    /// The workload.
    ///
    /// # Errors
    /// The first rule of verbs that it breaks.
    pub fn workload(&self) -> Result<Workload, Violation> {
        let memory = Memory { device: Device::Dram(0), mrs: self.mrs_per_qp, mr_size: Bytes(self.mr_bytes) };
        let to = if self.path == TrafficPattern::Loopback { Host::A } else { Host::B };
        let flow = Flow {
            qp_type: self.transport,
            qps: self.qps,
            mtu: self.mtu,
            wq_depth: Depths { send: self.depth, recv: self.depth },
            batch: Batch { send: self.batch, recv: 1 },
            pattern: vec![Request { op: self.operation, sge: vec![Bytes(self.size_bytes)] }],
            memory: MemoryPair { from: memory, to: memory },
            ..Flow::plain(Host::A, to)
        };
        let flows = if self.path == TrafficPattern::Both { vec![flow.clone(), flow.mirrored()] } else { vec![flow] };
        let workload = Workload::new(flows);
        check(&workload)?;
        Ok(workload)
    }
}

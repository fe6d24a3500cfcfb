//! The rules of verbs between the fields of a workload, and the largest accepted sizes. `space` has bounds of spaces.

pub use crate::limits::{
    MAX_DEPTH, MAX_FLOWS, MAX_INLINE, MAX_LOSS_PPM, MAX_MADE_PER_SEC, MAX_MESSAGE, MAX_MRS, MAX_PATH_DELAY_NS,
    MAX_PATTERN, MAX_PINNED, MAX_QPS, MAX_SGE,
};
use crate::units::Bytes;
use crate::workload::{ATOMIC_SIZE, Flow, Host, Memory, Opcode, QpType, Request, Workload};

const PINNED: &str = "of pinned memory";

/// A broken rule and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {rule}")]
pub struct Violation {
    /// Key path, such as `flows[0].batch.send`.
    pub path: String,
    /// The rule.
    pub rule: Rule,
}

/// A rule that a workload breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rule {
    /// Another format or version.
    #[error("this is format `{0}`; write `kelpie: workload/1`")]
    Format(String),
    /// A zero, or more than is accepted.
    #[error("{value} is outside 1 to {max}")]
    OutOfBounds {
        /// The value.
        value: u64,
        /// The largest accepted.
        max: u64,
    },
    /// A size of zero, or more than is accepted.
    #[error("{size} is outside 1B to {max}")]
    SizeOutOfBounds {
        /// The size.
        size: Bytes,
        /// Largest accepted.
        max: Bytes,
    },
    /// A list that is empty or too long.
    #[error("{len} entries; write 1 to {max}")]
    Length {
        /// Its length.
        len: usize,
        /// The longest accepted.
        max: usize,
    },
    /// Not in the transport's set of operations. Source: `ibv_post_send(3)`, table of operations.
    #[error(
        "{qp_type} cannot {op}: RC does SEND, WRITE, READ and atomics, UC does SEND and WRITE, UD does SEND; SEND and \
         WRITE also with immediate data"
    )]
    Operation {
        /// The transport.
        qp_type: QpType,
        /// The operation.
        op: Opcode,
    },
    /// Source: IBTA volume 1, section 9.4.5.
    #[error("{op} works on exactly 8 bytes: write `sge: [8B]`")]
    AtomicSize {
        /// The operation.
        op: Opcode,
    },
    /// Source: `ibv_post_send(3)` and IBTA volume 1, chapter 9: a datagram is one packet.
    #[error("a UD message of {message} is longer than the path MTU of {mtu}B: UD sends one packet per message")]
    DatagramOverMtu {
        /// Message size.
        message: Bytes,
        /// Path MTU in bytes.
        mtu: u64,
    },
    /// A chained post larger than its queue could never be posted. Source: `ibv_post_send(3)`, ENOMEM.
    #[error("a batch of {batch} work requests does not fit a queue of depth {depth}")]
    BatchOverDepth {
        /// Work requests per post call.
        batch: u32,
        /// Queue depth.
        depth: u32,
    },
    /// Source: `ibv_reg_mr(3)`: an element lies within one MR.
    #[error("an element of {element} does not fit an MR of {mr_size} at the {side}")]
    ElementOverMr {
        /// Element size.
        element: Bytes,
        /// MR size.
        mr_size: Bytes,
        /// `requester` or `responder`.
        side: &'static str,
    },
    /// Source: IBTA volume 1, chapter 9, `R_Key` checks: the remote range of a WRITE or READ lies within one MR.
    #[error("a {op} of {message} does not fit an MR of {mr_size} at the responder")]
    RemoteOverMr {
        /// The operation.
        op: Opcode,
        /// Message size.
        message: Bytes,
        /// The responder's MR size.
        mr_size: Bytes,
    },
    /// Source: `ibv_post_recv(3)`, `IBV_WC_LOC_LEN_ERR`: a message longer than the posted receive is an error.
    #[error("the receive vector holds {held}, the largest SEND has {message}")]
    ReceiveTooShort {
        /// Sum of the receive elements.
        held: Bytes,
        /// The largest SEND.
        message: Bytes,
    },
    /// More inline data than is accepted.
    #[error("{0} is more than {MAX_INLINE}, beyond what a WQE holds")]
    Inline(Bytes),
    /// More of an optional value than is accepted.
    #[error("{value} is more than {max}, the most that is accepted")]
    Above {
        /// The value.
        value: u64,
        /// The largest accepted.
        max: u64,
    },
    /// A receive vector that nothing uses.
    #[error("a receive vector without a SEND or a WRITE_WITH_IMM in the pattern is never used; remove it")]
    ReceiveWithoutSend,
    /// More of something on one host than is accepted.
    #[error("{total} {what} in all on host {host}; at most {max} are accepted")]
    Total {
        /// `QPs`, `MRs` or `of pinned memory`.
        what: &'static str,
        /// The host.
        host: Host,
        /// How many.
        total: String,
        /// The largest accepted.
        max: String,
    },
}

impl QpType {
    /// Whether the transport does this operation.
    pub fn supports(self, op: Opcode) -> bool {
        match self {
            QpType::Rc => true,
            QpType::Uc => !op.brings_back(),
            QpType::Ud => op.is_send(),
        }
    }
}

/// Checks every rule.
///
/// # Errors
/// The first violation.
pub fn check(workload: &Workload) -> Result<(), Violation> {
    violations(workload).next().map_or(Ok(()), Err)
}

/// Every rule that is broken: first those of each flow, then those of all flows together.
pub fn violations(workload: &Workload) -> impl Iterator<Item = Violation> {
    let format = (workload.kelpie != Workload::FORMAT).then(|| {
        let shown = workload.kelpie.chars().take(40).collect();
        Violation { path: "kelpie".to_owned(), rule: Rule::Format(shown) }
    });
    let flows = length(workload.flows.len(), MAX_FLOWS).err().map(|rule| Violation { path: "flows".to_owned(), rule });
    let of_flows = workload.flows.iter().enumerate().flat_map(|(index, flow)| {
        broken(flow).map(move |(key, rule)| Violation { path: format!("flows[{index}].{key}"), rule })
    });
    format
        .into_iter()
        .chain(flows)
        .chain(of_flows)
        .chain(Host::BOTH.into_iter().flat_map(|host| totals(workload, host)))
}

fn totals(workload: &Workload, host: Host) -> impl Iterator<Item = Violation> {
    let use_of = Footprint::of(workload, host);
    let limits = [
        ("qps", "QPs", use_of.qps, MAX_QPS),
        ("memory", "MRs", use_of.mrs, MAX_MRS),
        ("memory", PINNED, use_of.pinned, MAX_PINNED.0),
    ];
    limits.into_iter().filter(|(_, _, total, max)| total > max).map(move |(key, what, total, max)| {
        let written = |total: u64| if what == PINNED { Bytes(total).to_string() } else { total.to_string() };
        let first = workload.flows.iter().position(|flow| flow.from == host || flow.to == host);
        let path = format!("flows[{}].{key}", first.unwrap_or(0));
        Violation { path, rule: Rule::Total { what, host, total: written(total), max: written(max) } }
    })
}

/// What the flows of a workload take from one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Connections that end here; a loopback connection counts once.
    pub qps: u64,
    /// MRs registered, both ends of a loopback flow.
    pub mrs: u64,
    /// Units: bytes.
    pub pinned: u64,
}

impl Footprint {
    /// Adds up the flows that touch `host`.
    pub fn of(workload: &Workload, host: Host) -> Self {
        let mut sum = Footprint::default();
        for flow in &workload.flows {
            let qps = u64::from(flow.qps);
            if flow.from == host || flow.to == host {
                sum.qps = sum.qps.saturating_add(qps);
            }
            for (end, memory) in [(flow.from, &flow.memory.from), (flow.to, &flow.memory.to)] {
                if end == host {
                    let mrs = qps.saturating_mul(memory.mrs.into());
                    sum.mrs = sum.mrs.saturating_add(mrs);
                    sum.pinned = sum.pinned.saturating_add(mrs.saturating_mul(memory.mr_size.0));
                }
            }
        }
        sum
    }
}

type BrokenConstraint = (String, Rule);

/// The rules that a flow breaks.
fn broken(flow: &Flow) -> impl Iterator<Item = BrokenConstraint> {
    let queues = [("send", flow.wq_depth.send, flow.batch.send), ("recv", flow.wq_depth.recv, flow.batch.recv)];
    let queues = queues.into_iter().flat_map(|(side, depth, batch)| {
        let fits =
            if batch > depth { Err((format!("batch.{side}"), Rule::BatchOverDepth { batch, depth })) } else { Ok(()) };
        [
            bounded(&format!("wq_depth.{side}"), depth.into(), MAX_DEPTH.into()),
            bounded(&format!("batch.{side}"), batch.into(), MAX_DEPTH.into()).and(fits),
        ]
    });
    let inline = if flow.inline > MAX_INLINE { Err(("inline".to_owned(), Rule::Inline(flow.inline))) } else { Ok(()) };
    let optional = [
        ("qps_made_per_sec", flow.qps_made_per_sec, MAX_MADE_PER_SEC),
        ("mrs_made_per_sec", flow.mrs_made_per_sec, MAX_MADE_PER_SEC),
        ("loss_ppm", flow.loss_ppm, MAX_LOSS_PPM),
        ("path_delay_ns", flow.path_delay_ns, MAX_PATH_DELAY_NS),
    ];
    let optional = optional.into_iter().map(|(key, value, max)| {
        let (value, max) = (value.into(), max.into());
        if value > max { Err((key.to_owned(), Rule::Above { value, max })) } else { Ok(()) }
    });
    let memory = [("from", &flow.memory.from), ("to", &flow.memory.to)];
    let memory = memory.into_iter().map(|(side, memory)| check_memory(&format!("memory.{side}"), memory));
    let pattern = length(flow.pattern.len(), MAX_PATTERN).map_err(|rule| ("pattern".to_owned(), rule));
    let requests = flow.pattern.iter().enumerate().map(|(index, request)| {
        check_request(flow, request).map_err(|(key, rule)| (format!("pattern[{index}].{key}"), rule))
    });
    let whole = [bounded("qps", flow.qps.into(), MAX_QPS), inline, pattern, check_receive(flow)];
    whole.into_iter().chain(optional).chain(queues).chain(memory).chain(requests).filter_map(Result::err)
}

fn check_memory(key: &str, memory: &Memory) -> Result<(), BrokenConstraint> {
    bounded(&format!("{key}.mrs"), memory.mrs.into(), MAX_MRS)?;
    bounded_size(&format!("{key}.mr_size"), memory.mr_size, MAX_PINNED)
}

fn check_request(flow: &Flow, request: &Request) -> Result<(), BrokenConstraint> {
    let op = request.op;
    if !flow.qp_type.supports(op) {
        return Err(("op".to_owned(), Rule::Operation { qp_type: flow.qp_type, op }));
    }
    check_elements(&request.sge, flow.memory.from.mr_size, "requester")
        .map_err(|(index, rule)| (format!("sge{index}"), rule))?;
    if op.is_atomic() && request.sge != [ATOMIC_SIZE] {
        return Err(("sge".to_owned(), Rule::AtomicSize { op }));
    }
    let message = request.message();
    bounded_size("sge", message, MAX_MESSAGE)?;
    let mtu = flow.mtu.bytes();
    if flow.qp_type == QpType::Ud && message.0 > mtu {
        return Err(("sge".to_owned(), Rule::DatagramOverMtu { message, mtu }));
    }
    let mr_size = flow.memory.to.mr_size;
    let lands_whole = !op.is_send() || flow.recv_sge.is_empty();
    if lands_whole && message > mr_size {
        return Err(("sge".to_owned(), Rule::RemoteOverMr { op, message, mr_size }));
    }
    Ok(())
}

fn check_receive(flow: &Flow) -> Result<(), BrokenConstraint> {
    if flow.recv_sge.is_empty() {
        return Ok(());
    }
    if !flow.pattern.iter().any(|request| request.op.consumes_receive()) {
        return Err(("recv_sge".to_owned(), Rule::ReceiveWithoutSend));
    }
    let sends = flow.pattern.iter().filter(|request| request.op.is_send());
    let message = sends.map(Request::message).max().unwrap_or(Bytes(0));
    check_elements(&flow.recv_sge, flow.memory.to.mr_size, "responder")
        .map_err(|(index, rule)| (format!("recv_sge{index}"), rule))?;
    let held = Bytes(flow.recv_sge.iter().map(|size| size.0).fold(0, u64::saturating_add));
    if held < message {
        return Err(("recv_sge".to_owned(), Rule::ReceiveTooShort { held, message }));
    }
    Ok(())
}

/// An element list: its length, each element's bounds, each element against its MR. The key part is `[i]` or nothing.
fn check_elements(sge: &[Bytes], mr_size: Bytes, side: &'static str) -> Result<(), BrokenConstraint> {
    length(sge.len(), MAX_SGE).map_err(|rule| (String::new(), rule))?;
    for (index, &element) in sge.iter().enumerate() {
        bounded_size(&format!("[{index}]"), element, MAX_MESSAGE)?;
        if element > mr_size {
            return Err((format!("[{index}]"), Rule::ElementOverMr { element, mr_size, side }));
        }
    }
    Ok(())
}

fn bounded(key: &str, value: u64, max: u64) -> Result<(), BrokenConstraint> {
    if (1..=max).contains(&value) { Ok(()) } else { Err((key.to_owned(), Rule::OutOfBounds { value, max })) }
}

fn bounded_size(key: &str, size: Bytes, max: Bytes) -> Result<(), BrokenConstraint> {
    if (1..=max.0).contains(&size.0) { Ok(()) } else { Err((key.to_owned(), Rule::SizeOutOfBounds { size, max })) }
}

fn length(len: usize, max: usize) -> Result<(), Rule> {
    if (1..=max).contains(&len) { Ok(()) } else { Err(Rule::Length { len, max }) }
}

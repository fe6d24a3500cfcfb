//! A workload as command lines of perftest, or the reason why perftest cannot send it. Nothing is run.

use std::fmt;

use crate::constraints;
use crate::dimensions::{DimensionRow, TABLE};
use crate::units::Bytes;
use crate::workload::{Device, Flow, Opcode, Workload};

/// Most QPs of a run (`-q`). Source: perftest 4.5, `MAX_QP_NUM`.
const MAX_QPS: u32 = 16_384;
/// Deepest send queue (`-t`). Source: perftest 4.5, `MAX_TX`.
const MAX_SEND_DEPTH: u32 = 15_000;
/// Deepest receive queue (`-r`). Source: perftest 4.5, `MAX_RX`.
const MAX_RECV_DEPTH: u32 = 16_384;
/// Most inline data (`-I`). Units: bytes. Source: perftest 4.5, `MAX_INLINE`.
const MAX_INLINE: u64 = 912;
/// Longest message (`-s`). Units: bytes. Source: perftest 4.5, the range that its parser names.
const MAX_MESSAGE: u64 = (1 << 31) - 1;
/// Message above which a completion is asked for each request. Units: bytes. Source: perftest 4.5,
/// `MSG_SIZE_CQ_MOD_LIMIT`.
const EACH_COMPLETES: u64 = 8192;
/// Most requests of which the last alone completes (`-Q`). Source: perftest 4.5, `MAX_CQ_MOD`.
const MAX_SHARED: u32 = 1024;
/// Parts of the send queue after which a completion is asked for. Source: our choice, because a queue that is filled
/// again only when all of it is done runs empty.
const SHARED_DEPTH: u32 = 4;
/// The piece of a buffer through which short messages go round. Units: bytes. Source: perftest 4.5, `cycle_buffer`, a
/// page.
const CYCLE: u64 = 4096;

/// How long the lines run (`-D`). Units: seconds. Source: our choice, because perftest leaves out two at both ends.
const DURATION: u32 = 10;

/// The two command lines of a workload, with what remains different. The reader puts in `SERVER`, the address of the
/// server's host, and each host's `DEVICE` and `GID_INDEX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// On the responder's host, started first.
    pub server: String,
    /// On the requester's host.
    pub client: String,
    /// Which hosts these are.
    pub hosts: String,
    /// What perftest does otherwise than the workload says.
    pub differences: Vec<String>,
}

/// Why perftest cannot send a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inexpressible {
    /// Flows beyond one, or two that mirror each other.
    #[error(
        "{0} flows that are not each other's mirror image; perftest runs one kind of traffic, with -b in both \
         directions"
    )]
    Flows(usize),
    /// Loopback and other traffic.
    #[error("loopback traffic beside traffic on the wire; perftest runs one of them")]
    LoopbackBeside,
    /// A request vector with several sizes.
    #[error("messages of {0} sizes in one request vector; perftest sends one size")]
    Sizes(usize),
    /// A request vector with several operations.
    #[error("{0} in one request vector; perftest repeats one operation")]
    Operations(String),
    /// A scatter-gather list.
    #[error("scatter-gather lists of {0} elements; perftest posts one element")]
    Elements(usize),
    /// A receive vector.
    #[error("a receive vector of {0}; perftest posts one element of the message's size")]
    Receive(String),
    /// An operation that perftest lacks.
    #[error("{0}; perftest 4.5 has no such test")]
    Operation(Opcode),
    /// Several MRs per QP.
    #[error("{0} MRs per QP; perftest registers one, and one for all QPs without --mr_per_qp")]
    Mrs(u32),
    /// Memory on another node.
    #[error("memory on NUMA node {0}; perftest takes memory of the node that it runs on")]
    Node(u8),
    /// Memory of a GPU.
    #[error(
        "memory of GPU {0}; --use_cuda exists only if perftest was built with CUDA, and counts GPUs in another order"
    )]
    Gpu(u8),
    /// A receive queue that whole lists do not fill.
    #[error(
        "a receive queue of {depth} filled {batch} at a time; perftest posts whole lists, and {depth} is no multiple"
    )]
    ReceiveLists {
        /// Its depth.
        depth: u32,
        /// Receives per post call.
        batch: u32,
    },
    /// An optional dimension that perftest lacks.
    #[error("`{0}`; perftest has no such option")]
    Optional(&'static str),
    /// Beyond a range of an option.
    #[error("{what} of {value}; perftest takes at most {max}")]
    Beyond {
        /// What.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest.
        max: u64,
    },
    /// No workload at all.
    #[error(transparent)]
    Invalid(#[from] constraints::Violation),
}

/// The lines for a workload.
///
/// Source: perftest 4.5 (`ib_write_bw(1)`, `--help`, `perftest_parameters.c`).
///
/// # Errors
/// Why perftest cannot send it.
pub fn lines(workload: &Workload) -> Result<Lines, Inexpressible> {
    constraints::check(workload)?;
    let (flow, both_ways) = single_flow(workload)?;
    let (op, message) = single_request(flow)?;
    check_receive(flow, op, message)?;
    check_memory(flow)?;
    check_optional(flow)?;
    check_ranges(flow, op, message)?;
    let program = match op {
        Opcode::Send => "ib_send_bw",
        Opcode::Write => "ib_write_bw",
        Opcode::Read => "ib_read_bw",
        Opcode::FetchAdd => "ib_atomic_bw -A FETCH_AND_ADD",
        Opcode::CmpSwap => "ib_atomic_bw -A CMP_AND_SWAP",
        Opcode::WriteWithImm | Opcode::SendWithImm => return Err(Inexpressible::Operation(op)),
    };
    let mut line =
        format!("{program} -d DEVICE -x GID_INDEX -F -c {} -q {} -m {}", flow.qp_type, flow.qps, flow.mtu.bytes());
    let mut add = |option: &dyn fmt::Display| {
        line.push(' ');
        line += &option.to_string();
    };
    if !op.is_atomic() {
        add(&format_args!("-s {}", message.0));
    }
    add(&format_args!("-t {}", flow.wq_depth.send));
    if flow.batch.send > 1 {
        add(&format_args!("-l {}", flow.batch.send));
    } else if message.0 <= EACH_COMPLETES {
        add(&format_args!("-Q {}", (flow.wq_depth.send / SHARED_DEPTH).clamp(1, MAX_SHARED)));
    }
    if op.is_send() {
        add(&format_args!("-r {}", flow.wq_depth.recv));
        if flow.batch.recv > 1 {
            add(&format_args!("--recv_post_list={}", flow.batch.recv));
        }
    }
    if is_inline(flow, op, message) {
        add(&format_args!("-I {}", message.0));
    }
    if flow.qps > 1 {
        add(&"--mr_per_qp");
    }
    if both_ways {
        add(&"-b");
    }
    add(&format_args!("-D {DURATION}"));
    let server_name = if flow.is_loopback() { "localhost" } else { "SERVER" };
    Ok(Lines {
        client: format!("{line} {server_name}"),
        server: line,
        hosts: format!("server on host {}, client on host {}", flow.to, flow.from),
        differences: differences(flow, message, both_ways),
    })
}

/// The one flow of the lines, and whether its mirror image runs as well.
fn single_flow(workload: &Workload) -> Result<(&Flow, bool), Inexpressible> {
    match workload.flows.as_slice() {
        [flow] => Ok((flow, false)),
        flows if flows.iter().any(Flow::is_loopback) && !flows.iter().all(Flow::is_loopback) => {
            Err(Inexpressible::LoopbackBeside)
        }
        [first, second] if !first.is_loopback() && *second == first.mirrored() => Ok((first, true)),
        flows => Err(Inexpressible::Flows(flows.len())),
    }
}

fn single_request(flow: &Flow) -> Result<(Opcode, Bytes), Inexpressible> {
    if let Some(longest) = flow.pattern.iter().map(|request| request.sge.len()).max().filter(|longest| *longest > 1) {
        return Err(Inexpressible::Elements(longest));
    }
    let mut operations: Vec<Opcode> = flow.pattern.iter().map(|request| request.op).collect();
    operations.sort_unstable();
    operations.dedup();
    let mut sizes: Vec<Bytes> = flow.pattern.iter().map(crate::workload::Request::message).collect();
    sizes.sort_unstable();
    sizes.dedup();
    match (operations.as_slice(), sizes.as_slice()) {
        ([op], [size]) => Ok((*op, *size)),
        ([_], sizes) => Err(Inexpressible::Sizes(sizes.len())),
        (operations, _) => {
            let names: Vec<&str> = operations.iter().map(|op| op.name()).collect();
            Err(Inexpressible::Operations(names.join(" and ")))
        }
    }
}

fn check_receive(flow: &Flow, op: Opcode, message: Bytes) -> Result<(), Inexpressible> {
    if !op.is_send() {
        return Ok(());
    }
    let elements = flow.receive_elements();
    if elements != [message] {
        let words: Vec<String> = elements.iter().map(Bytes::to_string).collect();
        return Err(Inexpressible::Receive(words.join(" + ")));
    }
    let (depth, batch) = (flow.wq_depth.recv, flow.batch.recv);
    if depth.is_multiple_of(batch) { Ok(()) } else { Err(Inexpressible::ReceiveLists { depth, batch }) }
}

fn check_memory(flow: &Flow) -> Result<(), Inexpressible> {
    let mrs = flow.memory.from.mrs.max(flow.memory.to.mrs);
    if mrs > 1 {
        return Err(Inexpressible::Mrs(mrs));
    }
    for memory in [flow.memory.from, flow.memory.to] {
        match memory.device {
            Device::Dram(0) => {}
            Device::Dram(node) => return Err(Inexpressible::Node(node)),
            Device::Gpu(gpu) => return Err(Inexpressible::Gpu(gpu)),
        }
    }
    Ok(())
}

/// Optional values that no option of perftest stands for; it has `-I` for inline data.
fn check_optional(flow: &Flow) -> Result<(), Inexpressible> {
    let is_set =
        |row: &&DimensionRow| row.name != "inline" && row.optional().is_some_and(|(get, _)| get(flow) != row.limit.0);
    match TABLE.iter().find(is_set) {
        Some(row) => Err(Inexpressible::Optional(row.name)),
        None => Ok(()),
    }
}

fn check_ranges(flow: &Flow, op: Opcode, message: Bytes) -> Result<(), Inexpressible> {
    let inline = if is_inline(flow, op, message) { message.0 } else { 0 };
    let ranges = [
        ("QPs", u64::from(flow.qps), u64::from(MAX_QPS)),
        ("a send queue", flow.wq_depth.send.into(), MAX_SEND_DEPTH.into()),
        ("a receive queue", if op.is_send() { flow.wq_depth.recv.into() } else { 0 }, MAX_RECV_DEPTH.into()),
        ("a message", message.0, MAX_MESSAGE),
        ("inline data", inline, MAX_INLINE),
    ];
    match ranges.into_iter().find(|(_, value, max)| value > max) {
        Some((what, value, max)) => Err(Inexpressible::Beyond { what, value, max }),
        None => Ok(()),
    }
}

fn is_inline(flow: &Flow, op: Opcode, message: Bytes) -> bool {
    !op.brings_back() && message <= flow.inline
}

fn differences(flow: &Flow, message: Bytes, both_ways: bool) -> Vec<String> {
    let mut differences = Vec::new();
    let buffer = Bytes(2 * message.0.max(CYCLE));
    let sizes = [flow.memory.from.mr_size, flow.memory.to.mr_size];
    if sizes.iter().any(|size| *size != buffer) {
        let [from, to] = sizes;
        differences.push(format!(
            "perftest's MR has {buffer} for each QP, half of it for sending; the workload has {from} at the requester \
             and {to} at the responder"
        ));
    }
    if both_ways {
        differences.push(format!(
            "with -b both directions share {qps} QPs, but the workload has {qps} for each direction. To have those, \
             run the lines without -b twice at the same time, once in each direction, the second pair with -p 18516",
            qps = flow.qps
        ));
    }
    differences.push(
        "if a host has several NUMA nodes, start perftest under `numactl --cpunodebind=0 --membind=0`".to_owned(),
    );
    differences
}

#[cfg(test)]
mod tests;

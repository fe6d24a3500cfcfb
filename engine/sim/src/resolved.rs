//! A workload resolved against a model: sizes, costs and places worked out once per flow. No state.

use kelpie_engine::MeasureError;
use kelpie_events::Picos;
use kelpie_spaces::{Bytes, Device, Flow, Host, Opcode, QpType, Request, Workload};

use crate::model::Model;

/// A cell of the transmit scheduler. Units: bytes. Source: our choice, the payload at the default Ethernet MTU.
pub const CELL: u64 = 1024;

/// What WQEs are made of. Units: bytes. Source: `struct mlx5_wqe_data_seg`.
const SEGMENT: u64 = 16;

/// What stands before inline data in a WQE. Units: bytes. Source: `struct mlx5_wqe_inl_data_seg`.
const INLINE_HEADER: u64 = 4;

/// How DMA reaches a memory device from the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Memory of the NIC's own socket.
    Local,
    /// Across the socket interconnect.
    Interconnect,
    /// Inside the PCIe switch, beside the root complex.
    PeerToPeer,
    /// Peer-to-peer turned back at the root complex.
    Redirected,
}

/// A request of the vector, with what it costs.
#[derive(Debug, Clone, Copy)]
pub struct ResolvedRequest {
    pub op: Opcode,
    pub bytes: u64,
    pub elements: u64,
    /// Elements that are read in order under strict ordering.
    pub ordered_elements: u64,
    /// The WQE. Units: 64-byte blocks.
    pub blocks: u64,
    /// Whether the SG list does not fit into the WQE's first block.
    pub spilled: bool,
    /// Scheduler cells.
    pub cells: u64,
    /// Whether its payload is in the WQE.
    pub is_inline: bool,
}

impl ResolvedRequest {
    fn new(model: &Model, request: &Request, inline: Bytes) -> Self {
        let is_inline = is_inline(request, inline);
        let elements = if is_inline { 0 } else { request.sge.len() as u64 };
        let spilled = elements > u64::from(model.transmit.inline_elements);
        let ordered = |size: u64| spilled && size <= model.pcie.barrier_element_bytes;
        let data = if is_inline {
            (INLINE_HEADER + request.message().0).next_multiple_of(SEGMENT)
        } else {
            SEGMENT * elements
        };
        // A segment of control, one of remote address for one-sided operations, then the data.
        let wqe = SEGMENT + data + if request.op == Opcode::Send { 0 } else { SEGMENT };
        Self {
            op: request.op,
            bytes: request.message().0.max(1),
            elements,
            ordered_elements: request.sge.iter().filter(|size| ordered(size.0)).count() as u64,
            blocks: wqe.div_ceil(64),
            spilled,
            cells: request.sge.iter().map(|size| size.0.div_ceil(CELL).max(1)).sum(),
            is_inline,
        }
    }
}

/// A flow.
#[derive(Debug)]
pub struct ResolvedFlow {
    pub from: Host,
    pub to: Host,
    pub qp_type: QpType,
    pub qps: u32,
    pub mtu: u64,
    pub depth: u64,
    pub batch: u64,
    pub recv_depth: u64,
    pub recv_batch: u64,
    /// A receive WQE with its records. Units: 16-byte blocks.
    pub recv_blocks: u64,
    /// Receive WQEs of each QP that are kept on the NIC ahead of use; none: chains are prefetched whole at their
    /// doorbells.
    pub recv_ahead: Option<u64>,
    /// Work requests per requested completion.
    pub signal: u64,
    /// From one post call of a QP to its next, at least.
    pub interarrival: Picos,
    /// Scheduler cells of a turn.
    pub turn: u64,
    /// Scheduler cells of a turn that answers READs.
    pub answer_turn: u64,
    pub pattern: Vec<ResolvedRequest>,
    /// Mean WQE of the vector, rounded up. Units: 64-byte blocks.
    pub blocks: u64,
    pub from_path: Path,
    pub to_path: Path,
    pub mrs_from: u64,
    pub mrs_to: u64,
    /// Whether the requester keeps remote addresses and keys for retransmission.
    pub keeps_remote_state: bool,
    /// Whether the requester keeps a cell of gathered data between turns: RC, for a list that is spilled.
    pub retains_list: bool,
    /// Whether the responder keeps a cell of the message being received: RC, for messages of several packets.
    pub retains_message: bool,
    /// First QP.
    pub first_qp: u32,
    /// First MR of this flow at the requester, and at the responder.
    pub first_local: usize,
    pub first_target: usize,
    /// The traffic's name, such as `RC_WRITE`.
    pub traffic: String,
}

impl ResolvedFlow {
    /// The request that a work request of this flow carries.
    pub fn request(&self, wr: u64) -> &ResolvedRequest {
        &self.pattern[(wr % self.pattern.len() as u64) as usize]
    }

    /// Where QP number `index` begins in the vector: the QPs are spread evenly over its bytes, so that they are not in
    /// step.
    pub fn start_of(&self, index: u32) -> (u64, u64) {
        let total: u64 = self.pattern.iter().map(|request| request.bytes).sum();
        // Multiples of the golden ratio fill the interval evenly whatever the number of QPs.
        let mut at = ((f64::from(index) * 0.618_033_988_749_895).fract() * total as f64) as u64;
        for (wr, request) in self.pattern.iter().enumerate() {
            if at < request.bytes {
                let offset = if request.op == Opcode::Read { 0 } else { at / self.mtu * self.mtu };
                return (wr as u64, offset);
            }
            at -= request.bytes;
        }
        (0, 0)
    }

    /// The MR that QP number `index` uses for work request `wr` at the requester.
    pub fn local(&self, index: u32, wr: u64) -> usize {
        self.first_local + (u64::from(index) * self.mrs_from + wr % self.mrs_from) as usize
    }

    /// The MR that QP number `index` uses for work request `wr` at the responder.
    pub fn target(&self, index: u32, wr: u64) -> usize {
        self.first_target + (u64::from(index) * self.mrs_to + wr % self.mrs_to) as usize
    }

    /// Whether the requester keeps remote address and key for retransmission.
    pub fn keeps_remote_key(&self, op: Opcode) -> bool {
        self.qp_type == QpType::Rc && op == Opcode::Write
    }
}

/// A workload as the simulation needs it, with all its flows.
#[derive(Debug)]
pub struct ResolvedWorkload {
    pub flows: Vec<ResolvedFlow>,
    pub qps: u32,
    /// MRs of all flows, both sides.
    pub mrs: usize,
}

impl ResolvedWorkload {
    /// Works a valid workload out for this model.
    ///
    /// # Errors
    /// When the hosts lack a memory device that the workload names.
    pub fn new(model: &Model, workload: &Workload) -> Result<Self, MeasureError> {
        let mut resolved = ResolvedWorkload { flows: Vec::with_capacity(workload.flows.len()), qps: 0, mrs: 0 };
        for flow in &workload.flows {
            let flow = resolved.flow(model, flow)?;
            resolved.qps += flow.qps;
            resolved.flows.push(flow);
        }
        Ok(resolved)
    }

    /// All QPs, as their applications start together: the first of each flow, then the second of each.
    pub fn in_turn(&self) -> Vec<u32> {
        let longest = self.flows.iter().map(|flow| flow.qps).max().unwrap_or(0);
        let turn = |index: u32| {
            let has_more = move |flow: &&ResolvedFlow| index < flow.qps;
            self.flows.iter().filter(has_more).map(move |flow| flow.first_qp + index)
        };
        (0..longest).flat_map(turn).collect()
    }

    fn flow(&mut self, model: &Model, flow: &Flow) -> Result<ResolvedFlow, MeasureError> {
        let modelled = [Opcode::Send, Opcode::Write, Opcode::Read];
        if let Some(other) = flow.pattern.iter().find(|request| !modelled.contains(&request.op)) {
            let reason = format!("the simulated subsystem models SEND, WRITE and READ, not {}", other.op);
            return Err(MeasureError::Unsupported { reason });
        }
        let from_gpu = matches!(flow.memory.from.device, Device::Gpu(_));
        if from_gpu && flow.pattern.iter().any(|request| is_inline(request, flow.inline)) {
            let reason = "inline data is copied by the CPU, which cannot read a GPU".to_owned();
            return Err(MeasureError::Unsupported { reason });
        }
        let mtu = model.port.force_mtu.unwrap_or(flow.mtu.bytes());
        let (depth, batch) = (u64::from(flow.wq_depth.send), u64::from(flow.batch.send));
        let (recv_depth, recv_batch) = (u64::from(flow.wq_depth.recv), u64::from(flow.batch.recv));
        let pattern: Vec<ResolvedRequest> =
            flow.pattern.iter().map(|request| ResolvedRequest::new(model, request, flow.inline)).collect();
        let any = |test: fn(&ResolvedRequest) -> bool| pattern.iter().any(test);
        let reliable = flow.qp_type == QpType::Rc;
        let signal = (depth / u64::from(model.posting.signal_divisor)).clamp(batch, depth.max(batch));
        let turn = (u64::from(model.transmit.turn_mtus) * mtu / CELL).max(1);
        let supply = &model.receive_wqe;
        let at_doorbell = supply.doorbell_prefetch_batch.is_some_and(|least| recv_batch >= u64::from(least));
        let deep = recv_depth >= u64::from(supply.deep_queue.of(flow.qp_type));
        let runs_ahead = any(|request| request.op == Opcode::Send) && deep;
        let ahead = if runs_ahead { u64::from(supply.run_ahead.of(flow.qp_type)) } else { 0 };
        let ops =
            modelled.into_iter().filter(|op| pattern.iter().any(|request| request.op == *op)).map(|op| op.to_string());
        let qps = u64::from(flow.qps);
        let mut register = |mrs: u64| {
            let first = self.mrs;
            self.mrs += (qps * mrs) as usize;
            first
        };
        let (mrs_from, mrs_to) = (u64::from(flow.memory.from.mrs), u64::from(flow.memory.to.mrs));
        Ok(ResolvedFlow {
            from: flow.from,
            to: flow.to,
            qp_type: flow.qp_type,
            qps: flow.qps,
            mtu,
            depth,
            batch,
            recv_depth,
            recv_batch,
            recv_blocks: u64::from(supply.blocks.of(flow.qp_type)),
            recv_ahead: (!at_doorbell).then_some(ahead),
            signal: signal / batch * batch,
            interarrival: Picos::from_nanos(f64::from(flow.interarrival_ns)),
            turn: turn.max(batch / u64::from(model.transmit.chain_divisor)),
            answer_turn: turn,
            blocks: pattern.iter().map(|request| request.blocks).sum::<u64>().div_ceil(pattern.len() as u64),
            from_path: path(model, flow.memory.from.device)?,
            to_path: path(model, flow.memory.to.device)?,
            mrs_from,
            mrs_to,
            keeps_remote_state: reliable && any(|request| request.op == Opcode::Write),
            retains_list: reliable && any(|request| request.spilled),
            retains_message: reliable
                && pattern.iter().any(|request| request.op != Opcode::Read && request.bytes > mtu),
            first_qp: self.qps,
            first_local: register(mrs_from),
            first_target: register(mrs_to),
            traffic: format!("{}_{}", flow.qp_type, ops.collect::<Vec<_>>().join("+")),
            pattern,
        })
    }
}

/// Whether the payload of a request is posted with its WQE.
fn is_inline(request: &Request, inline: Bytes) -> bool {
    !request.op.brings_back() && request.message() <= inline
}

fn path(model: &Model, device: Device) -> Result<Path, MeasureError> {
    let missing = |have: usize| MeasureError::Unsupported {
        reason: format!("the hosts of {} have no {device} (they have {have} of that kind)", model.name),
    };
    let host = &model.host;
    match device {
        Device::Dram(node) => {
            let node = host.dram.get(usize::from(node)).ok_or_else(|| missing(host.dram.len()))?;
            Ok(if node.socket == 0 || host.nic_per_socket { Path::Local } else { Path::Interconnect })
        }
        Device::Gpu(index) => {
            let gpu = host.gpus.get(usize::from(index)).ok_or_else(|| missing(host.gpus.len()))?;
            Ok(match (gpu.beside_nic && !host.acs_redirect, gpu.socket == 0 || host.nic_per_socket) {
                (true, _) => Path::PeerToPeer,
                (false, true) => Path::Redirected,
                (false, false) => Path::Interconnect,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::workload_from_yaml;

    use super::*;

    #[test]
    fn applications_of_unequal_flows_start_together() {
        let flow = |from: &str, to: &str, qps: u32| {
            format!(
                "  - {{from: {from}, to: {to}, qp_type: RC, qps: {qps}, mtu: 1024, wq_depth: {{send: 16, recv: 16}}, \
                 batch: {{send: 1, recv: 1}}, pattern: [{{op: WRITE, sge: [1KiB]}}], memory: \
                 {{from: {{device: \"dram:0\", mrs: 1, mr_size: 4KiB}}, \
                 to: {{device: \"dram:0\", mrs: 1, mr_size: 4KiB}}}}}}\n"
            )
        };
        let flows = [flow("a", "b", 1), flow("b", "a", 4), flow("b", "b", 2)].concat();
        let workload = workload_from_yaml("test", &format!("kelpie: workload/1\nflows:\n{flows}")).expect("valid");
        let resolved =
            ResolvedWorkload::new(&Model::load("F").expect("embedded"), &workload).expect("F has the memory");
        assert_eq!(resolved.in_turn(), [0, 1, 5, 2, 6, 3, 4]);
    }
}

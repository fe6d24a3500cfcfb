//! How a workload becomes rings: the driver creates QPs, registers regions and prepares the requests of each flow.

use kelpie_engine::MeasureError;
use kelpie_engine::plan::{GRH_SIZE, WQE_SEGMENT};
use kelpie_nic::packet::{PacketPorts, WrOperation};
use kelpie_nic::qp::{Connection, Region, TransportService};
use kelpie_spaces::{Batch, Device, Flow, Host, Opcode, QpType, Workload};

use super::{FlowRings, LINE, PAGE_BITS, REGION_BITS, RegionRotation, RingRequest, Rings};
use crate::bond::BondedHosts;
use crate::pair_models::PairModels;

/// What stands before inline data in a WQE. Units: bytes. Source: `struct mlx5_wqe_inl_data_seg`.
const INLINE_HEADER: u64 = 4;

impl Rings {
    /// What a valid workload needs on these hosts.
    ///
    /// # Errors
    /// When the hosts of the model lack a memory, or an operation is not modelled.
    pub fn new<'m>(models: impl Into<PairModels<'m>>, workload: &Workload) -> Result<Self, MeasureError> {
        let models = models.into();
        let mut rings = Self {
            flows: Vec::new(),
            qps: [const { Vec::new() }; 2],
            connections: [const { Vec::new() }; 2],
            regions: [const { Vec::new() }; 2],
            lines: [const { Vec::new() }; 2],
        };
        let ports = ports(models, &workload.flows)?;
        for (place, flow) in workload.flows.iter().enumerate() {
            rings.add(models, flow, ports.get(place).map_or(&[], Vec::as_slice))?;
        }
        Ok(rings)
    }

    #[expect(clippy::too_many_lines, reason = "a line for each property of a flow, and few branches")]
    fn add(&mut self, models: PairModels<'_>, flow: &Flow, ports: &[[PacketPorts; 2]]) -> Result<(), MeasureError> {
        // Each is named, so that the compiler asks what the driver makes of a new one.
        let &Flow {
            from,
            to,
            qp_type,
            qps,
            mtu,
            wq_depth,
            batch: Batch { send: batch, recv: receive_batch },
            pattern: _, // for the vector
            ref recv_sge,
            inline: _, // for the vector
            interarrival_ns,
            qps_made_per_sec,
            mrs_made_per_sec,
            loss_ppm,
            path_delay_ns,
            ports: _, // they are here already
            memory,
        } = flow;
        let vector = vector(flow)?;
        let elements = vector.iter().map(|request| request.list.len() as u64).sum::<u64>();
        let sends_of_vector = vector.iter().filter(|request| request.operation == WrOperation::Send).count() as u64;
        let is_datagram = qp_type == QpType::Ud;
        let longest = vector.iter().map(|request| request.bytes).max().unwrap_or(1);
        let sends = vector.iter().any(|request| request.operation == WrOperation::Send);
        let receive_list =
            if recv_sge.is_empty() { vec![longest] } else { recv_sge.iter().map(|size| size.0).collect() };
        let grh = if is_datagram { GRH_SIZE } else { 0 };
        let receive_list: Vec<u64> = receive_list.iter().map(|bytes| bytes + grh).collect();
        let mut register = |host: Host, memory: &kelpie_spaces::Memory, longest: u64| {
            let place = models.of(host).place(memory.device)?;
            let regions = &mut self.regions[host.index()];
            let first = regions.len() as u32;
            let count = qps * memory.mrs;
            regions.extend((0..count).map(|key| Region {
                base: u64::from(first + key) << REGION_BITS,
                page_bits: PAGE_BITS,
                place,
            }));
            let stride = longest.max(1).next_multiple_of(LINE);
            let places = memory.mr_size.0.saturating_sub(longest) / stride + 1;
            let rotation = RegionRotation { first, per_qp: memory.mrs.into(), stride, places };
            let all = (memory.mr_size.0.max(longest) >> PAGE_BITS).div_ceil(8).max(1) as u32;
            self.lines[host.index()].extend((0..count).map(|_| all));
            Ok(rotation)
        };
        let longest_element = vector.iter().flat_map(|request| request.list.iter().copied()).max().unwrap_or(1);
        let local = register(from, &memory.from, longest_element)?;
        let remote = register(to, &memory.to, longest)?;
        let longest_receive = receive_list.iter().copied().max().unwrap_or(1);
        let stride = longest_receive.next_multiple_of(LINE);
        let places = memory.to.mr_size.0.saturating_sub(longest_receive) / stride + 1;
        let receive = RegionRotation { stride, places, ..remote };
        let [depth, batch] = [wq_depth.send, batch].map(u64::from);
        let signal =
            (depth / u64::from(models.of(from).posting.signal_divisor)).clamp(batch, depth.max(batch)) / batch * batch;
        let stride = vector.iter().map(|request| request.lines).max().unwrap_or(1);
        let connection = Connection {
            transport: match qp_type {
                QpType::Rc => TransportService::Reliable,
                QpType::Uc => TransportService::Unreliable,
                QpType::Ud => TransportService::Datagram,
            },
            peer: 0,
            is_loopback: from == to,
            ports: PacketPorts::default(),
            mtu: Host::BOTH.iter().filter_map(|host| models.of(*host).port.force_mtu).min().unwrap_or(mtu.bytes()),
            max_reads: models.max_reads(),
            send_stride: stride,
            receive_entry: 0, // of each end
            send_slots: wq_depth.send.next_power_of_two(),
            receive_slots: wq_depth.recv.next_power_of_two(),
        };
        self.connect(models, flow, connection, ports);
        self.flows.push(FlowRings {
            from,
            to,
            qps,
            depth,
            batch,
            receive_depth: wq_depth.recv.into(),
            receive_batch: receive_batch.into(),
            signal,
            interarrival_ns,
            made_per_sec: [qps_made_per_sec, mrs_made_per_sec],
            loss_ppm,
            path_delay_ns,
            name: name(qp_type, &vector),
            sends,
            reads: vector.iter().any(|request| request.operation == WrOperation::Read),
            vector,
            elements,
            sends_of_vector,
            mtu: connection.mtu,
            longest: [longest_element, longest, longest_receive],
            receive_list,
            local,
            remote,
            receive,
        });
        Ok(())
    }

    /// Creates the QPs of the flow that comes next, at both ends.
    fn connect(&mut self, models: PairModels<'_>, flow: &Flow, connection: Connection, ports: &[[PacketPorts; 2]]) {
        let number = self.flows.len() as u32;
        let mut create = |host: Host, is_requester: bool| {
            let first = self.qps[host.index()].len() as u32;
            self.qps[host.index()].extend((0..flow.qps).map(|qp| (number, qp, is_requester)));
            first
        };
        let [first, peers] = [create(flow.from, true), create(flow.to, false)];
        let taken = |qp: u32| ports.get(qp as usize).copied().unwrap_or_default();
        for (end, (host, peers)) in [(flow.from, peers), (flow.to, first)].into_iter().enumerate() {
            let receive_entry = models.of(host).caches.receive_entry_bytes.of(flow.qp_type);
            let connect = |qp| Connection { peer: peers + qp, ports: taken(qp)[end], receive_entry, ..connection };
            self.connections[host.index()].extend((0..flow.qps).map(connect));
        }
    }
}

/// What a flow is called: its transport and its operations.
fn name(qp_type: QpType, vector: &[RingRequest]) -> String {
    let operations = [
        (WrOperation::Send, "SEND"),
        (WrOperation::Write, "WRITE"),
        (WrOperation::Read, "READ"),
        (WrOperation::Atomic, "ATOMIC"),
    ];
    let used = operations.iter().filter(|(op, _)| vector.iter().any(|request| request.operation == *op));
    format!("{qp_type}_{}", used.map(|(_, name)| *name).collect::<Vec<_>>().join("+"))
}

/// The ports of both ends of each flow's QPs; none if hosts have one port.
fn ports(models: PairModels<'_>, flows: &[Flow]) -> Result<Vec<Vec<[PacketPorts; 2]>>, MeasureError> {
    let model = models.common();
    if let Some(bond) = BondedHosts::of(model) {
        return Ok(bond.ports(flows));
    }
    match flows.iter().find(|flow| flow.ports != kelpie_spaces::Ports::Hashed) {
        None => Ok(Vec::new()),
        Some(flow) => {
            let reason = format!("the NICs of {} have one port: leave out `ports: {}`", model.name, flow.ports);
            Err(MeasureError::Unsupported { reason })
        }
    }
}

fn vector(flow: &Flow) -> Result<Vec<RingRequest>, MeasureError> {
    let from_gpu = matches!(flow.memory.from.device, Device::Gpu(_));
    let (mut before, mut sends_before) = (0, 0);
    // Which request a vector begins with makes no difference to who goes through it for long.
    let rotated = |by: usize| flow.pattern[by..].iter().chain(&flow.pattern[..by]);
    let words = |by: &usize| rotated(*by).map(|request| (request.op, &request.sge)).collect::<Vec<_>>();
    let least = (0..flow.pattern.len()).min_by_key(words).unwrap_or(0);
    let each = rotated(least).map(|request| {
        let operation = match request.op {
            Opcode::Send => WrOperation::Send,
            Opcode::Write => WrOperation::Write,
            Opcode::Read => WrOperation::Read,
            Opcode::FetchAdd | Opcode::CmpSwap => WrOperation::Atomic,
            other @ (Opcode::SendWithImm | Opcode::WriteWithImm) => {
                let reason = format!("the simulated subsystem has no immediate data, so no {other}");
                return Err(MeasureError::Unsupported { reason });
            }
        };
        let bytes = request.message().0.max(1);
        let is_inline = !operation.brings_back() && request.message() <= flow.inline;
        if is_inline && from_gpu {
            let reason = "inline data is copied by the CPU, which cannot read a GPU".to_owned();
            return Err(MeasureError::Unsupported { reason });
        }
        let list: Vec<u64> =
            if is_inline { Vec::new() } else { request.sge.iter().map(|size| size.0.max(1)).collect() };
        let data = if is_inline {
            (INLINE_HEADER + bytes).next_multiple_of(WQE_SEGMENT)
        } else {
            WQE_SEGMENT * list.len() as u64
        };
        // A segment of control, one of remote address for one-sided operations, one of operands for atomics, then the
        // data.
        let address = if operation == WrOperation::Send { 0 } else { WQE_SEGMENT };
        let wqe = WQE_SEGMENT + address + if operation == WrOperation::Atomic { WQE_SEGMENT } else { 0 } + data;
        let request = RingRequest { operation, bytes, before, sends_before, lines: wqe.div_ceil(LINE) as u32, list };
        before += request.list.len() as u64;
        sends_before += u64::from(operation == WrOperation::Send);
        Ok(request)
    });
    each.collect()
}

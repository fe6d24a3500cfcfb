//! What the driver of each host puts into rings: WQEs and their lists, computed from the flow when the NIC reads them.

use std::ops::Range;

use kelpie_engine::MeasureError;
use kelpie_nic::packet::Operation;
use kelpie_nic::qp::{Connection, Region, Segment, Transport, Wqe};
use kelpie_spaces::{Device, Flow, Host, Opcode, QpType, Workload};

use crate::model::Model;

/// What WQEs are made of. Units: bytes. Source: `struct mlx5_wqe_data_seg`.
const SEGMENT: u64 = 16;
/// What stands before inline data in a WQE. Units: bytes. Source: `struct mlx5_wqe_inl_data_seg`.
const INLINE_HEADER: u64 = 4;
/// A line of a ring. Units: bytes.
const LINE: u64 = 64;
/// What comes before the payload of a datagram in its buffer. Units: bytes. Source: IBTA volume 1, section 8.3.
const GRH: u64 = 40;
/// Pages of registered memory. Units: bits of an address. Source: Linux on x86-64 without huge pages.
const PAGE_BITS: u32 = 12;
/// From the base of a region to that of the next, which is longer than any. Units: bits of an address.
const REGION_BITS: u32 = 40;

/// Elements in regions in turn, and a place further with every round; as the verbs engine does.
#[derive(Debug, Clone, Copy)]
struct Rotation {
    /// Key of the first region of the first QP.
    first: u32,
    per_qp: u64,
    stride: u64,
    places: u64,
}

impl Rotation {
    fn segment(&self, qp: u32, number: u64, bytes: u64) -> Segment {
        let (round, region) = (number / self.per_qp, number % self.per_qp);
        let key = self.first + (u64::from(qp) * self.per_qp + region) as u32;
        Segment { key, address: (u64::from(key) << REGION_BITS) + self.offset(key, round), bytes }
    }

    /// Where a region is used in a round: all begin somewhere, as those of applications that have run for long.
    fn offset(&self, key: u32, round: u64) -> u64 {
        // Fibonacci hashing: neighbours begin far from each other.
        let begin = (u64::from(key.wrapping_mul(0x9e37_79b9)) * self.places) >> 32;
        (begin + round) % self.places * self.stride
    }
}

/// Lines of a region's translations: all that are used, and the first and the last of those that are used first.
#[derive(Debug, Clone, Copy)]
pub struct Uses {
    pub all: u32,
    pub now: [u32; 2],
}

/// A request of the vector.
#[derive(Debug, Clone)]
struct Request {
    operation: Operation,
    bytes: u64,
    /// The list; empty if the payload is inline.
    list: Vec<u64>,
    /// Elements of the requests before it in the vector.
    before: u64,
    lines: u32,
}

/// A flow as its driver sees it.
#[derive(Debug)]
pub struct FlowRings {
    pub from: Host,
    pub to: Host,
    pub qps: u32,
    pub depth: u64,
    pub batch: u64,
    pub receive_depth: u64,
    pub receive_batch: u64,
    pub signal: u64,
    pub interarrival_ns: u32,
    pub name: String,
    pub sends: bool,
    vector: Vec<Request>,
    elements: u64,
    receive_list: Vec<u64>,
    local: Rotation,
    remote: Rotation,
    receive: Rotation,
}

impl FlowRings {
    fn request(&self, index: u64) -> (&Request, u64) {
        let round = index / self.vector.len() as u64;
        (&self.vector[(index % self.vector.len() as u64) as usize], round)
    }

    /// The send WQE at `index` of QP number `qp` of the flow.
    pub fn wqe(&self, qp: u32, index: u64) -> Wqe {
        let (request, _) = self.request(index);
        let remote = self.remote.segment(qp, index, request.bytes);
        Wqe {
            operation: request.operation,
            bytes: request.bytes,
            segments: request.list.len() as u32,
            lines: request.lines,
            key: remote.key,
            address: remote.address,
            is_signaled: (index + 1).is_multiple_of(self.signal),
        }
    }

    /// What a part of its message lies in.
    pub fn portions(&self, qp: u32, index: u64, part: Range<u64>, mut each: impl FnMut(Segment)) {
        let (request, round) = self.request(index);
        let first = round * self.elements + request.before;
        overlaps(&request.list, part, |at, inside| {
            each(self.local.segment(qp, first + at, request.list[at as usize]).part(inside));
        });
    }

    /// The same by the list of a receive WQE.
    pub fn receive_portions(&self, qp: u32, index: u64, part: Range<u64>, mut each: impl FnMut(Segment)) {
        let first = index * self.receive_list.len() as u64;
        overlaps(&self.receive_list, part, |at, inside| {
            each(self.receive.segment(qp, first + at, self.receive_list[at as usize]).part(inside));
        });
    }
}

/// Which elements of a list a part of its message lies in, and where in each.
fn overlaps(list: &[u64], part: Range<u64>, mut each: impl FnMut(u64, Range<u64>)) {
    let mut begin = 0;
    for (at, bytes) in list.iter().enumerate() {
        let (from, to) = (part.start.max(begin), part.end.min(begin + bytes));
        if from < to {
            each(at as u64, from - begin..to - begin);
        }
        begin += bytes;
        if begin >= part.end {
            break;
        }
    }
}

/// Everything that a workload puts into the hosts before it begins.
#[derive(Debug)]
pub struct Rings {
    pub flows: Vec<FlowRings>,
    /// QPs of each host's NIC: the flow, the number in it, whether it is the requester.
    pub qps: [Vec<(u32, u32, bool)>; 2],
    pub connections: [Vec<Connection>; 2],
    pub regions: [Vec<Region>; 2],
    /// What is used of the translations of each region.
    pub uses: [Vec<Uses>; 2],
}

impl Rings {
    /// What a valid workload needs on these hosts.
    ///
    /// # Errors
    /// When the hosts of the model lack a memory, or an operation is not modelled.
    pub fn new(model: &Model, workload: &Workload) -> Result<Self, MeasureError> {
        let mut rings = Self {
            flows: Vec::new(),
            qps: [const { Vec::new() }; 2],
            connections: [const { Vec::new() }; 2],
            regions: [const { Vec::new() }; 2],
            uses: [const { Vec::new() }; 2],
        };
        for flow in &workload.flows {
            rings.add(model, flow)?;
        }
        Ok(rings)
    }

    fn add(&mut self, model: &Model, flow: &Flow) -> Result<(), MeasureError> {
        let [from, to] = [flow.from, flow.to];
        let vector = vector(flow)?;
        let elements = vector.iter().map(|request| request.list.len() as u64).sum::<u64>().max(1);
        let is_datagram = flow.qp_type == QpType::Ud;
        let longest = vector.iter().map(|request| request.bytes).max().unwrap_or(1);
        let sends = vector.iter().any(|request| request.operation == Operation::Send);
        let receive_list =
            if flow.recv_sge.is_empty() { vec![longest] } else { flow.recv_sge.iter().map(|size| size.0).collect() };
        let grh = if is_datagram { GRH } else { 0 };
        let receive_list: Vec<u64> = receive_list.iter().map(|bytes| bytes + grh).collect();
        let mut register = |host: Host, memory: &kelpie_spaces::Memory, longest: u64| {
            let place = model.place(memory.device)?;
            let regions = &mut self.regions[host.index()];
            let first = regions.len() as u32;
            let count = flow.qps * memory.mrs;
            regions.extend((0..count).map(|key| Region {
                base: u64::from(first + key) << REGION_BITS,
                page_bits: PAGE_BITS,
                place,
            }));
            let stride = longest.max(1).next_multiple_of(LINE);
            let places = memory.mr_size.0.saturating_sub(longest) / stride + 1;
            let rotation = Rotation { first, per_qp: memory.mrs.into(), stride, places };
            let all = (memory.mr_size.0.max(longest) >> PAGE_BITS).div_ceil(8).max(1) as u32;
            let line = |offset: u64| ((offset >> PAGE_BITS) / 8) as u32;
            self.uses[host.index()].extend((0..count).map(|region| {
                let offset = rotation.offset(first + region, 0);
                Uses { all, now: [line(offset), line(offset + longest.max(1) - 1)] }
            }));
            Ok(rotation)
        };
        let longest_element = vector.iter().flat_map(|request| request.list.iter().copied()).max().unwrap_or(1);
        let local = register(from, &flow.memory.from, longest_element)?;
        let remote = register(to, &flow.memory.to, longest)?;
        let longest_receive = receive_list.iter().copied().max().unwrap_or(1);
        let stride = longest_receive.next_multiple_of(LINE);
        let places = flow.memory.to.mr_size.0.saturating_sub(longest_receive) / stride + 1;
        let receive = Rotation { stride, places, ..remote };
        let [depth, batch] = [flow.wq_depth.send, flow.batch.send].map(u64::from);
        let signal = (depth / u64::from(model.posting.signal_divisor)).clamp(batch, depth.max(batch)) / batch * batch;
        let stride = vector.iter().map(|request| request.lines).max().unwrap_or(1);
        let connection = Connection {
            transport: match flow.qp_type {
                QpType::Rc => Transport::Reliable,
                QpType::Uc => Transport::Unreliable,
                QpType::Ud => Transport::Datagram,
            },
            peer: 0,
            is_loopback: from == to,
            mtu: model.port.force_mtu.unwrap_or(flow.mtu.bytes()),
            max_reads: model.processing.max_reads,
            send_stride: stride,
            receive_entry: model.caches.receive_entry_bytes.of(flow.qp_type),
            send_slots: flow.wq_depth.send.next_power_of_two(),
            receive_slots: flow.wq_depth.recv.next_power_of_two(),
        };
        let flow_number = self.flows.len() as u32;
        let mut create = |host: Host, is_requester: bool| {
            let first = self.qps[host.index()].len() as u32;
            self.qps[host.index()].extend((0..flow.qps).map(|qp| (flow_number, qp, is_requester)));
            first
        };
        let first = [create(from, true), create(to, false)];
        for qp in 0..flow.qps {
            self.connections[from.index()].push(Connection { peer: first[1] + qp, ..connection });
        }
        for qp in 0..flow.qps {
            self.connections[to.index()].push(Connection { peer: first[0] + qp, ..connection });
        }
        let operations = [(Operation::Send, "SEND"), (Operation::Write, "WRITE"), (Operation::Read, "READ")];
        let used = operations.iter().filter(|(op, _)| vector.iter().any(|request| request.operation == *op));
        let names: Vec<&str> = used.map(|(_, name)| *name).collect();
        self.flows.push(FlowRings {
            from,
            to,
            qps: flow.qps,
            depth,
            batch,
            receive_depth: flow.wq_depth.recv.into(),
            receive_batch: flow.batch.recv.into(),
            signal,
            interarrival_ns: flow.interarrival_ns,
            name: format!("{}_{}", flow.qp_type, names.join("+")),
            sends,
            vector,
            elements,
            receive_list,
            local,
            remote,
            receive,
        });
        Ok(())
    }
}

fn vector(flow: &Flow) -> Result<Vec<Request>, MeasureError> {
    let from_gpu = matches!(flow.memory.from.device, Device::Gpu(_));
    let mut before = 0;
    let each = flow.pattern.iter().map(|request| {
        let operation = match request.op {
            Opcode::Send => Operation::Send,
            Opcode::Write => Operation::Write,
            Opcode::Read => Operation::Read,
            other => {
                let reason = format!("the simulated subsystem models SEND, WRITE and READ, not {other}");
                return Err(MeasureError::Unsupported { reason });
            }
        };
        let bytes = request.message().0.max(1);
        let is_inline = operation != Operation::Read && request.message() <= flow.inline;
        if is_inline && from_gpu {
            let reason = "inline data is copied by the CPU, which cannot read a GPU".to_owned();
            return Err(MeasureError::Unsupported { reason });
        }
        let list: Vec<u64> =
            if is_inline { Vec::new() } else { request.sge.iter().map(|size| size.0.max(1)).collect() };
        let data =
            if is_inline { (INLINE_HEADER + bytes).next_multiple_of(SEGMENT) } else { SEGMENT * list.len() as u64 };
        // A segment of control, one of remote address for one-sided operations, then the data.
        let wqe = SEGMENT + data + if operation == Operation::Send { 0 } else { SEGMENT };
        let request = Request { operation, bytes, before, lines: wqe.div_ceil(LINE) as u32, list };
        before += request.list.len() as u64;
        Ok(request)
    });
    each.collect()
}

//! What the driver of each host puts into rings: WQEs and their lists, computed from the flow when the NIC reads them.

use std::ops::Range;

use kelpie_engine::MeasureError;
use kelpie_nic::packet::{Operation, Ports};
use kelpie_nic::qp::{Connection, Region, Segment, Transport, Wqe};
use kelpie_spaces::{Device, Flow, Host, Opcode, QpType, Workload};
use rand::RngExt;

use crate::bond::Bond;
use crate::control_thread::ControlThread;
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

/// Where the requester of a QP is: at a message, of whose packets it has sent some.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    pub message: u64,
    pub packets: [u64; 2],
}

/// A request of the vector.
#[derive(Debug, Clone)]
struct Request {
    operation: Operation,
    bytes: u64,
    /// The list; empty if the payload is inline.
    list: Vec<u64>,
    /// Elements of the requests before it in the vector, and how many of these are SENDs.
    before: u64,
    sends_before: u64,
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
    /// QPs and MRs that each end makes beside traffic. Units: per second.
    made_per_sec: [u32; 2],
    pub loss_ppm: u32,
    pub path_delay_ns: u32,
    pub name: String,
    pub sends: bool,
    pub reads: bool,
    vector: Vec<Request>,
    elements: u64,
    sends_of_vector: u64,
    mtu: u64,
    receive_list: Vec<u64>,
    /// The longest element at each end, and of a receive.
    longest: [u64; 3],
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

    /// Somewhere in round `round` of the vector, each packet of which is as likely as another, because a QP is in its long
    /// messages for most of the time.
    pub fn place(&self, round: u64, random: &mut impl RngExt) -> Place {
        let packets = |request: &Request| request.bytes.div_ceil(self.mtu);
        let mut packet = random.random_range(0..self.vector.iter().map(packets).sum::<u64>());
        let mut at = 0;
        while packet >= packets(&self.vector[at]) {
            packet -= packets(&self.vector[at]);
            at += 1;
        }
        let message = round * self.vector.len() as u64 + at as u64;
        Place { message, packets: [packet, packets(&self.vector[at])] }
    }

    /// Packets and messages of a turn at most.
    pub fn most_of_turn(&self, packets: u32, max_reads: u32) -> [u64; 2] {
        let only_reads = self.vector.iter().all(|request| request.operation == Operation::Read);
        [packets.into(), if only_reads { self.depth.min(max_reads.into()) } else { self.depth }]
    }

    /// Messages that a turn of at most so many packets and messages begins, in the mean, at least 1.
    pub fn messages_of_turn(&self, [packets, messages]: [u64; 2]) -> u64 {
        let all = self.packets_of(self.vector.len() as u64);
        (packets * self.vector.len() as u64 / all).clamp(1, messages)
    }

    /// Whether turns end because all that was posted is sent.
    pub fn ends_turns_empty(&self, [packets, messages]: [u64; 2]) -> bool {
        self.packets_of(self.depth) <= packets && self.depth <= messages
    }

    /// The beginning of the batch that a QP is in.
    pub fn batch_of(&self, place: Place) -> Place {
        let message = place.message - place.message % self.signal;
        Place { message, packets: [0, self.packets_at(message)] }
    }

    /// Where a QP was so many turns ago, each of at most so many packets and messages.
    pub fn turns_before(&self, place: Place, [packets, messages]: [u64; 2], turns: u64) -> Place {
        let mut at = place;
        for _ in 0..turns {
            let mut left = packets;
            for _ in 0..messages {
                if at.packets[0] == 0 {
                    let message = at.message - 1;
                    let of_message = self.packets_at(message);
                    at = Place { message, packets: [of_message; 2] };
                }
                let sent = left.min(at.packets[0]);
                at.packets[0] -= sent;
                left -= sent;
                if left == 0 {
                    break;
                }
            }
        }
        at
    }

    /// Where a QP is after so many packets more of its message.
    pub fn after(&self, at: Place, packets: u64) -> Place {
        let sent = at.packets[0] + packets;
        if sent < at.packets[1] {
            Place { packets: [sent, at.packets[1]], ..at }
        } else {
            Place { message: at.message + 1, packets: [0, self.packets_at(at.message + 1)] }
        }
    }

    /// What the next so many packets carry of their message.
    pub fn part(&self, at: Place, packets: u64) -> Range<u64> {
        let bytes = self.request(at.message).0.bytes;
        at.packets[0] * self.mtu..((at.packets[0] + packets) * self.mtu).min(bytes)
    }

    fn packets_at(&self, message: u64) -> u64 {
        self.request(message).0.bytes.div_ceil(self.mtu)
    }

    /// Packets of so many messages in the mean, at least 1.
    pub fn packets_of(&self, messages: u64) -> u64 {
        let all: u64 = self.vector.iter().map(|request| request.bytes.div_ceil(self.mtu)).sum();
        (messages * all / self.vector.len() as u64).max(1)
    }

    /// SENDs before a message.
    pub fn sends_before(&self, message: u64) -> u64 {
        let (request, round) = self.request(message);
        round * self.sends_of_vector + request.sends_before
    }

    /// What the SEND at a message has filled of its receive once so many packets were sent.
    pub fn filled(&self, place: Place) -> u64 {
        if self.is_send(place.message) { place.packets[0] * self.mtu } else { 0 }
    }

    /// Whether a message is a SEND.
    pub fn is_send(&self, message: u64) -> bool {
        self.request(message).0.operation == Operation::Send
    }

    /// Where a message that is no SEND goes to, or comes from.
    pub fn remote_segment(&self, qp: u32, message: u64) -> Segment {
        self.remote.segment(qp, message, self.request(message).0.bytes)
    }

    /// Lines that translate what a QP uses in turn, at its requester and at its responder, and those of a message at both
    /// in the mean.
    pub fn translations(&self) -> [u64; 3] {
        let of_segment = |bytes: u64| 2 + (bytes >> PAGE_BITS) / 8;
        let [element, whole, receive] = self.longest;
        let bytes = self.vector.iter().map(|request| request.bytes).sum::<u64>() / self.vector.len() as u64;
        let segments = self.elements.div_ceil(self.vector.len() as u64)
            + if self.sends { self.receive_list.len() as u64 } else { 1 };
        [
            self.local.per_qp * of_segment(element),
            self.remote.per_qp * of_segment(if self.sends { receive } else { whole }),
            2 * segments + 2 * (bytes >> PAGE_BITS) / 8,
        ]
    }

    /// Whether the next message is a READ.
    pub fn reads_next(&self, message: u64) -> bool {
        self.request(message).0.operation == Operation::Read
    }

    /// What a QP uses next of each of its regions, at its requester and at its responder.
    pub fn in_use(&self, qp: u32, message: u64) -> impl Iterator<Item = (Host, Segment)> {
        let (request, round) = self.request(message);
        let elements = round * self.elements + request.before;
        let receives = self.sends_before(message) * self.receive_list.len() as u64;
        let [element, whole, receive] = self.longest;
        let reaches = self.vector.iter().any(|request| request.operation != Operation::Send);
        let takes = |rotation: &Rotation, is_used: bool| if is_used { rotation.per_qp } else { 0 };
        let local = takes(&self.local, self.elements > 0);
        let at_local = (0..local).map(move |at| (self.from, self.local.segment(qp, elements + at, element)));
        let remote = takes(&self.remote, reaches);
        let at_remote = (0..remote).map(move |at| (self.to, self.remote.segment(qp, message + at, whole)));
        let of_sends = takes(&self.receive, self.sends);
        let at_receive = (0..of_sends).map(move |at| (self.to, self.receive.segment(qp, receives + at, receive)));
        at_local.chain(at_remote).chain(at_receive)
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
    /// Lines of the translations of each region that are ever used.
    pub lines: [Vec<u32>; 2],
}

impl Rings {
    /// The hosts, first the one from which the first flow comes: equal traffic the other way round is an equal run.
    pub fn hosts(&self) -> [Host; 2] {
        let first = self.flows.first().map_or(Host::A, |flow| flow.from);
        [first, first.peer()]
    }

    /// What makes and destroys objects on a host beside its traffic: a thread for all flows that end there.
    pub fn control_thread(&self, host: Host) -> Option<ControlThread> {
        let ends = |flow: &FlowRings| u64::from(flow.from == host) + u64::from(flow.to == host);
        let rate = |at: usize| self.flows.iter().map(|flow| ends(flow) * u64::from(flow.made_per_sec[at])).sum();
        let rates: [u64; 2] = [rate(0), rate(1)];
        let free = [self.qps[host.index()].len() as u32, self.regions[host.index()].len() as u32];
        (rates != [0, 0]).then(|| ControlThread::new(rates, free))
    }

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
            lines: [const { Vec::new() }; 2],
        };
        let ports = ports(model, &workload.flows)?;
        for (place, flow) in workload.flows.iter().enumerate() {
            rings.add(model, flow, ports.get(place).map_or(&[], Vec::as_slice))?;
        }
        Ok(rings)
    }

    fn add(&mut self, model: &Model, flow: &Flow, ports: &[[Ports; 2]]) -> Result<(), MeasureError> {
        let [from, to] = [flow.from, flow.to];
        let vector = vector(flow)?;
        let elements = vector.iter().map(|request| request.list.len() as u64).sum::<u64>();
        let sends_of_vector = vector.iter().filter(|request| request.operation == Operation::Send).count() as u64;
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
            self.lines[host.index()].extend((0..count).map(|_| all));
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
            ports: Ports::default(),
            mtu: model.port.force_mtu.unwrap_or(flow.mtu.bytes()),
            max_reads: model.processing.max_reads,
            send_stride: stride,
            receive_entry: model.caches.receive_entry_bytes.of(flow.qp_type),
            send_slots: flow.wq_depth.send.next_power_of_two(),
            receive_slots: flow.wq_depth.recv.next_power_of_two(),
        };
        self.connect(flow, connection, ports);
        let operations = [
            (Operation::Send, "SEND"),
            (Operation::Write, "WRITE"),
            (Operation::Read, "READ"),
            (Operation::Atomic, "ATOMIC"),
        ];
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
            made_per_sec: [flow.qps_made_per_sec, flow.mrs_made_per_sec],
            loss_ppm: flow.loss_ppm,
            path_delay_ns: flow.path_delay_ns,
            name: format!("{}_{}", flow.qp_type, names.join("+")),
            sends,
            reads: vector.iter().any(|request| request.operation == Operation::Read),
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
    fn connect(&mut self, flow: &Flow, connection: Connection, ports: &[[Ports; 2]]) {
        let number = self.flows.len() as u32;
        let mut create = |host: Host, is_requester: bool| {
            let first = self.qps[host.index()].len() as u32;
            self.qps[host.index()].extend((0..flow.qps).map(|qp| (number, qp, is_requester)));
            first
        };
        let [first, peers] = [create(flow.from, true), create(flow.to, false)];
        let taken = |qp: u32| ports.get(qp as usize).copied().unwrap_or_default();
        for qp in 0..flow.qps {
            let connection = Connection { peer: peers + qp, ports: taken(qp)[0], ..connection };
            self.connections[flow.from.index()].push(connection);
        }
        for qp in 0..flow.qps {
            let connection = Connection { peer: first + qp, ports: taken(qp)[1], ..connection };
            self.connections[flow.to.index()].push(connection);
        }
    }
}

/// The ports of both ends of each flow's QPs; none if hosts have one port.
fn ports(model: &Model, flows: &[Flow]) -> Result<Vec<Vec<[Ports; 2]>>, MeasureError> {
    if let Some(bond) = Bond::of(model) {
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

fn vector(flow: &Flow) -> Result<Vec<Request>, MeasureError> {
    let from_gpu = matches!(flow.memory.from.device, Device::Gpu(_));
    let (mut before, mut sends_before) = (0, 0);
    // Which request a vector begins with makes no difference to who goes through it for long.
    let rotated = |by: usize| flow.pattern[by..].iter().chain(&flow.pattern[..by]);
    let words = |by: &usize| rotated(*by).map(|request| (request.op, &request.sge)).collect::<Vec<_>>();
    let least = (0..flow.pattern.len()).min_by_key(words).unwrap_or(0);
    let each = rotated(least).map(|request| {
        let operation = match request.op {
            Opcode::Send => Operation::Send,
            Opcode::Write => Operation::Write,
            Opcode::Read => Operation::Read,
            Opcode::FetchAdd | Opcode::CmpSwap => Operation::Atomic,
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
        let data =
            if is_inline { (INLINE_HEADER + bytes).next_multiple_of(SEGMENT) } else { SEGMENT * list.len() as u64 };
        // A segment of control, one of remote address for one-sided operations, one of operands for atomics, then the data.
        let address = if operation == Operation::Send { 0 } else { SEGMENT };
        let wqe = SEGMENT + address + if operation == Operation::Atomic { SEGMENT } else { 0 } + data;
        let request = Request { operation, bytes, before, sends_before, lines: wqe.div_ceil(LINE) as u32, list };
        before += request.list.len() as u64;
        sends_before += u64::from(operation == Operation::Send);
        Ok(request)
    });
    each.collect()
}

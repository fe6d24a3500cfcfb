//! What the driver of each host puts into rings: WQEs and their lists, computed from the flow when the NIC reads them.

mod build;

use std::ops::Range;

use kelpie_nic::packet::WrOperation;
use kelpie_nic::qp::{Connection, Region, Segment, Wqe};
use kelpie_spaces::Host;
use rand::RngExt;

use crate::control_thread::ControlThread;

/// A line of a ring. Units: bytes.
const LINE: u64 = 64;
/// Pages of registered memory. Units: bits of an address. Source: Linux on x86-64 without huge pages.
const PAGE_BITS: u32 = 12;
/// From the base of a region to that of the next, which is longer than any. Units: bits of an address.
const REGION_BITS: u32 = 40;

/// Elements in regions in turn, and a place further with every round; as the verbs engine does.
#[derive(Debug, Clone, Copy)]
struct RegionRotation {
    /// Key of the first region of the first QP.
    first: u32,
    per_qp: u64,
    stride: u64,
    places: u64,
}

impl RegionRotation {
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
pub struct SendPosition {
    pub message: u64,
    pub packets: [u64; 2],
}

/// A request of the vector.
#[derive(Debug, Clone)]
struct RingRequest {
    operation: WrOperation,
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
    vector: Vec<RingRequest>,
    elements: u64,
    sends_of_vector: u64,
    mtu: u64,
    receive_list: Vec<u64>,
    /// The longest element at each end, and of a receive.
    longest: [u64; 3],
    local: RegionRotation,
    remote: RegionRotation,
    receive: RegionRotation,
}

impl FlowRings {
    fn request(&self, index: u64) -> (&RingRequest, u64) {
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

    /// Somewhere in round `round` of the vector, each packet of which is as likely as another, because a QP is in its
    /// long messages for most of the time.
    pub fn place(&self, round: u64, random: &mut impl RngExt) -> SendPosition {
        let packets = |request: &RingRequest| request.bytes.div_ceil(self.mtu);
        let mut packet = random.random_range(0..self.vector.iter().map(packets).sum::<u64>());
        let mut at = 0;
        while packet >= packets(&self.vector[at]) {
            packet -= packets(&self.vector[at]);
            at += 1;
        }
        let message = round * self.vector.len() as u64 + at as u64;
        SendPosition { message, packets: [packet, packets(&self.vector[at])] }
    }

    /// Packets and messages of a turn at most.
    pub fn most_of_turn(&self, packets: u32, max_reads: u32) -> [u64; 2] {
        let only_reads = self.vector.iter().all(|request| request.operation == WrOperation::Read);
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
    pub fn batch_of(&self, place: SendPosition) -> SendPosition {
        let message = place.message - place.message % self.signal;
        SendPosition { message, packets: [0, self.packets_at(message)] }
    }

    /// Where a QP was so many turns ago, each of at most so many packets and messages.
    pub fn turns_before(&self, place: SendPosition, [packets, messages]: [u64; 2], turns: u64) -> SendPosition {
        let mut at = place;
        for _ in 0..turns {
            let mut left = packets;
            for _ in 0..messages {
                if at.packets[0] == 0 {
                    let message = at.message - 1;
                    let of_message = self.packets_at(message);
                    at = SendPosition { message, packets: [of_message; 2] };
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
    pub fn after(&self, at: SendPosition, packets: u64) -> SendPosition {
        let sent = at.packets[0] + packets;
        if sent < at.packets[1] {
            SendPosition { packets: [sent, at.packets[1]], ..at }
        } else {
            SendPosition { message: at.message + 1, packets: [0, self.packets_at(at.message + 1)] }
        }
    }

    /// What the next so many packets carry of their message.
    pub fn part(&self, at: SendPosition, packets: u64) -> Range<u64> {
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
    pub fn filled(&self, place: SendPosition) -> u64 {
        if self.is_send(place.message) { place.packets[0] * self.mtu } else { 0 }
    }

    /// Whether a message is a SEND.
    pub fn is_send(&self, message: u64) -> bool {
        self.request(message).0.operation == WrOperation::Send
    }

    /// Where a message that is no SEND goes to, or comes from.
    pub fn remote_segment(&self, qp: u32, message: u64) -> Segment {
        self.remote.segment(qp, message, self.request(message).0.bytes)
    }

    /// Lines that translate what a QP uses in turn, at its requester and at its responder, and those of a message at
    /// both in the mean.
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
        self.request(message).0.operation == WrOperation::Read
    }

    /// What a QP uses next of each of its regions, at its requester and at its responder.
    pub fn in_use(&self, qp: u32, message: u64) -> impl Iterator<Item = (Host, Segment)> {
        let (request, round) = self.request(message);
        let elements = round * self.elements + request.before;
        let receives = self.sends_before(message) * self.receive_list.len() as u64;
        let [element, whole, receive] = self.longest;
        let reaches = self.vector.iter().any(|request| request.operation != WrOperation::Send);
        let takes = |rotation: &RegionRotation, is_used: bool| if is_used { rotation.per_qp } else { 0 };
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
}

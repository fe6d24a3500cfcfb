//! What a workload itself allows: the most that its QPs can carry, by their queues, by how fast one QP is, and by the
//! mix of their vectors.

use kelpie_spaces::headers::PACKET_OVERHEAD;
use kelpie_spaces::{Direction, Flow, Opcode, Request, Workload};

use crate::counters::{ACK_TIMEOUT, OUTSTANDING_READS};
use crate::limit::Limit;
use crate::lossy_path::{loss, round_trip};
use crate::measurement::{Bounds, LOW_SHARE, QpTimes, Sample};

/// READs and atomics that a QP keeps outstanding on the wire, whatever its send queue holds, if no counter says how
/// many.
///
/// Units: requests. Source: `max_qp_rd_atom` of mlx5; `bnxt_re` has up to 126, Soft-RoCE 128.
const USUAL_READS: f64 = 16.0;

/// Completions that a requester asks for while it posts as much as its queue holds. Source: `SHARED_DEPTH` of the
/// engine.
const REFILLS: u32 = 4;

/// The most that the QPs of a workload can carry in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Payload. Units: bits/s; infinite if nothing is known that bounds it.
    pub goodput_bps: f64,
    /// What bounds the flow that may carry most of it; the wire or packets are those of the other direction.
    pub limit: Limit,
}

/// What the QPs of all flows that pay into `direction` can carry. `sample` says how many READs a QP can have
/// outstanding, and whether the other direction is full.
pub fn demand(workload: &Workload, direction: Direction, bounds: &Bounds, sample: &Sample) -> Demand {
    let mut most = 0.0;
    let none = Demand { goodput_bps: 0.0, limit: Limit::Queues };
    workload.flows.iter().filter(|flow| pays(flow, direction)).fold(none, |sum, flow| {
        let back = direction.reversed();
        let part = if is_full(back, bounds, sample) { part_of(workload, flow, back) } else { 1.0 };
        let (vectors_per_sec, limit) = vectors_per_sec(flow, direction, part, bounds, sample);
        let goodput_bps = payload_bits(flow, direction) * vectors_per_sec;
        let is_most = goodput_bps > most;
        most = f64::max(most, goodput_bps);
        Demand { goodput_bps: sum.goodput_bps + goodput_bps, limit: if is_most { limit } else { sum.limit } }
    })
}

/// Whether some of a flow's payload goes this way.
pub(crate) fn pays(flow: &Flow, direction: Direction) -> bool {
    flow.pattern.iter().any(|request| Direction::of(flow, request.op) == direction)
}

/// Whether a direction is as fast as its port.
fn is_full(direction: Direction, bounds: &Bounds, sample: &Sample) -> bool {
    let rates = sample.direction(direction.from, direction.to);
    rates.is_some_and(|rates| bounds.utilisation(rates) >= LOW_SHARE)
}

/// What is a flow's part of a direction, if all QPs that pay into it take turns.
fn part_of(workload: &Workload, flow: &Flow, direction: Direction) -> f64 {
    let all = workload.flows.iter().filter(|other| pays(other, direction)).map(|other| f64::from(other.qps));
    f64::from(flow.qps) / all.sum::<f64>().max(f64::from(flow.qps))
}

/// How often all QPs of a flow together can go through their vector in a second, and what bounds that.
fn vectors_per_sec(flow: &Flow, direction: Direction, part: f64, bounds: &Bounds, sample: &Sample) -> (f64, Limit) {
    let requests = flow.pattern.len().max(1) as f64;
    let all_qps = f64::from(flow.qps) / requests;
    let qp_seconds = bounds.qp.map_or(0.0, |qp| flow.pattern.iter().map(|request| time_of_qp(flow, request, qp)).sum());
    let by_queues = requests_per_sec(flow, bounds, sample, qp_seconds / requests) * all_qps;
    let by_qps = f64::from(flow.qps) / qp_seconds;
    [(by_queues, Limit::Queues), (by_qps, Limit::Qps)]
        .into_iter()
        .chain(other_way(flow, direction, part, bounds))
        .fold((f64::INFINITY, Limit::Queues), |least, next| if next.0 < least.0 { next } else { least })
}

/// What one QP takes for a request if its queue is never empty. Units: seconds.
fn time_of_qp(flow: &Flow, request: &Request, qp: QpTimes) -> f64 {
    // Inline data is one piece in the WQE.
    let is_inline = !request.op.brings_back() && request.message().0 <= flow.inline.0;
    let elements = if is_inline { 0.0 } else { (request.sge.len().max(1) - 1) as f64 };
    let packets = packets(flow, request) - 1.0;
    qp.message_seconds + elements * qp.element_seconds + packets * qp.packet_seconds
}

/// What the port lets through of the other direction, or of this part of it: no QP goes on with its vector while that
/// is full.
fn other_way(flow: &Flow, direction: Direction, part: f64, bounds: &Bounds) -> impl Iterator<Item = (f64, Limit)> {
    let back = flow.pattern.iter().filter(|request| Direction::of(flow, request.op) != direction);
    let (bits, packets) = back
        .fold((0.0, 0.0), |(bits, count), request| (bits + wire_bits(flow, request), count + packets(flow, request)));
    let of_port = [(part * bounds.max_bps / bits, Limit::Wire), (part * bounds.max_pps / packets, Limit::Packets)];
    of_port.into_iter().filter(move |_| bits > 0.0)
}

/// The payload that a vector brings into a direction. Units: bits.
fn payload_bits(flow: &Flow, direction: Direction) -> f64 {
    let paying = flow.pattern.iter().filter(|request| Direction::of(flow, request.op) == direction);
    paying.map(|request| 8.0 * request.message().0 as f64).sum()
}

fn packets(flow: &Flow, request: &Request) -> f64 {
    request.message().0.div_ceil(flow.mtu.bytes()).max(1) as f64
}

/// Extension headers are left out, so that the rate is not overestimated.
fn wire_bits(flow: &Flow, request: &Request) -> f64 {
    (request.message().0 as f64 + PACKET_OVERHEAD as f64 * packets(flow, request)) * 8.0
}

/// What the queues of one QP, and its pauses, allow over the round trip. Units: requests/s.
///
/// A queue of `d` requests that is refilled `b` at a time holds `b ⌊d / b⌋` of them, and turns over once in a round
/// trip and the time that `b` requests take on the wire, or on the QP: exact for stop-and-wait (`b = d`) and for a
/// queue that is refilled one by one (`b = 1`).
fn requests_per_sec(flow: &Flow, bounds: &Bounds, sample: &Sample, qp_seconds: f64) -> f64 {
    // Each is named, so that the compiler asks of a new one whether it bounds the rate of a QP.
    let &Flow {
        from,
        to: _,
        qp_type: _,
        qps: _, // for all QPs together
        mtu: _, // for packets
        wq_depth,
        batch,
        ref pattern,
        recv_sge: _,
        inline: _, // for the time of a QP
        interarrival_ns,
        qps_made_per_sec: _,
        mrs_made_per_sec: _,
        loss_ppm: _, // for the round trip
        path_delay_ns: _,
        ports: _,
        memory: _,
    } = flow;
    let pauses =
        if interarrival_ns > 0 { f64::from(batch.send) * 1e9 / f64::from(interarrival_ns) } else { f64::INFINITY };
    let Some(base_rtt) = bounds.base_rtt_seconds else { return pauses };
    let counter = |name: &str| sample.counters.get(from).get(name).copied();
    // A queue stands still for a timer if its last packet is lost, or the last acknowledgement.
    let trip = round_trip(flow, base_rtt) + 2.0 * loss(flow) * counter(ACK_TIMEOUT).unwrap_or(0.0);
    let requests = pattern.len().max(1) as f64;
    let count = |of: fn(Opcode) -> bool| pattern.iter().filter(|request| of(request.op)).count() as f64;
    let (receives, reads) = (count(Opcode::consumes_receive), count(Opcode::brings_back));
    let on_wire = pattern.iter().map(|request| wire_bits(flow, request)).sum::<f64>() / requests / bounds.max_bps;
    let turnover = |depth: f64, refill: u32| depth / (trip + f64::from(refill.max(1)) * on_wire.max(qp_seconds));

    // A call posts a whole batch or waits, and asks for a completion when a part of the queue is posted, unless it
    // pauses; receive queues are filled to the last request.
    let call = batch.send.max(1);
    let whole = wq_depth.send / call * call;
    let refill = if pauses.is_finite() { call } else { call.max(whole / REFILLS / call * call) };
    let mut per_qp = turnover(f64::from(whole), refill).min(pauses);
    // Of a mixed vector only some requests use a limit, so the limit holds for proportionally more of them.
    if receives > 0.0 {
        let depth = f64::from(wq_depth.recv) * requests / receives;
        per_qp = per_qp.min(turnover(depth, batch.recv));
    }
    if reads > 0.0 {
        let outstanding = counter(OUTSTANDING_READS).unwrap_or(USUAL_READS);
        per_qp = per_qp.min(turnover(outstanding * requests / reads, 1));
    }
    per_qp
}

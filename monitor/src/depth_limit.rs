//! What a workload itself allows: the rate that its outstanding requests can carry.

use kelpie_spaces::headers::PACKET_OVERHEAD;
use kelpie_spaces::{Direction, Flow, Opcode, Workload};

use crate::counters::{ACK_TIMEOUT, OUTSTANDING_READS};
use crate::lossy_path::{loss, round_trip};
use crate::measurement::{Bounds, Sample};

/// READs and atomics that a QP keeps outstanding on the wire, whatever its send queue holds, if no counter says how
/// many.
///
/// Units: requests. Source: `max_qp_rd_atom` of mlx5; `bnxt_re` has up to 126, Soft-RoCE 128.
const USUAL_READS: f64 = 16.0;

/// The most that the outstanding requests of a workload can carry in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DepthLimit {
    /// Units: bits/s on the wire.
    pub wire_bps: f64,
    /// Units: packets/s.
    pub packets_per_sec: f64,
}

/// What the outstanding requests of all flows that pay into `direction` carry over a round trip of `base_rtt` seconds.
/// `sample` says how many READs a QP can have outstanding.
///
/// A queue of `d` requests that is refilled `b` at a time holds `b ⌊d / b⌋` of them, and turns over once in a round trip
/// and the time that `b` requests take on the wire: exact for stop-and-wait (`b = d`) and for a queue that is refilled one
/// by one (`b = 1`).
/// It is never faster than the application, which may pause between its posts.
pub fn depth_limit(
    workload: &Workload,
    direction: Direction,
    bounds: &Bounds,
    base_rtt: f64,
    sample: &Sample,
) -> DepthLimit {
    let reads = |flow: &Flow| sample.counters.get(flow.from).get(OUTSTANDING_READS).copied().unwrap_or(USUAL_READS);
    let timeout = |flow: &Flow| sample.counters.get(flow.from).get(ACK_TIMEOUT).copied().unwrap_or(0.0);
    // A queue stands still for a timer if its last packet is lost, or the last acknowledgement.
    let trip = |flow: &Flow| round_trip(flow, base_rtt) + 2.0 * loss(flow) * timeout(flow);
    workload.flows.iter().map(|flow| flow_rates(flow, direction, bounds, trip(flow), reads(flow))).fold(
        DepthLimit::default(),
        |sum, rates| DepthLimit {
            wire_bps: sum.wire_bps + rates.wire_bps,
            packets_per_sec: sum.packets_per_sec + rates.packets_per_sec,
        },
    )
}

fn flow_rates(flow: &Flow, direction: Direction, bounds: &Bounds, base_rtt: f64, outstanding_reads: f64) -> DepthLimit {
    let requests = flow.pattern.len() as f64;
    if requests == 0.0 {
        return DepthLimit::default();
    }
    let count = |of: fn(Opcode) -> bool| flow.pattern.iter().filter(|request| of(request.op)).count() as f64;
    let (receives, reads) = (count(Opcode::consumes_receive), count(Opcode::brings_back));
    let packets = |size: u64| size.div_ceil(flow.mtu.bytes()).max(1) as f64;
    // Extension headers are left out, so that the rate is not overestimated.
    let wire_bits = |size: u64| (size as f64 + PACKET_OVERHEAD as f64 * packets(size)) * 8.0;
    let mean_seconds =
        flow.pattern.iter().map(|request| wire_bits(request.message().0)).sum::<f64>() / requests / bounds.max_bps;
    let turnover = |depth: f64, refill: u32| depth / (base_rtt + f64::from(refill.max(1)) * mean_seconds);

    // A call posts a whole batch or waits; receive queues are filled to the last request.
    let whole = flow.wq_depth.send / flow.batch.send.max(1) * flow.batch.send;
    let mut per_qp = turnover(f64::from(whole), flow.batch.send);
    // Of a mixed vector only some requests use a limit, so the limit holds for proportionally more of them.
    if receives > 0.0 {
        let depth = f64::from(flow.wq_depth.recv) * requests / receives;
        per_qp = per_qp.min(turnover(depth, flow.batch.recv));
    }
    if reads > 0.0 {
        per_qp = per_qp.min(turnover(outstanding_reads * requests / reads, 1));
    }
    if flow.interarrival_ns > 0 {
        per_qp = per_qp.min(f64::from(flow.batch.send) * 1e9 / f64::from(flow.interarrival_ns));
    }
    let vectors_per_sec = per_qp * f64::from(flow.qps) / requests;

    let paying = flow.pattern.iter().filter(|request| Direction::of(flow, request.op) == direction);
    paying.map(|request| request.message().0).fold(DepthLimit::default(), |sum, size| DepthLimit {
        wire_bps: sum.wire_bps + wire_bits(size) * vectors_per_sec,
        packets_per_sec: sum.packets_per_sec + packets(size) * vectors_per_sec,
    })
}

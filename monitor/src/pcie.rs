//! What a workload's scatter-gather lists need of the PCIe link of its hosts at the rates that were seen.

use kelpie_spaces::{Flow, Host, Request, Workload};

use crate::measurement::Sample;
use crate::window::Direction;

/// Least that a packet of the link adds to its payload.
///
/// Units: bytes. Source: PCIe base specification, section 2.2: header of 12, sequence number 2, LCRC 4, framing 2.
const TLP_OVERHEAD: u64 = 20;

/// Most payload of one packet of the link. Units: bytes. Source: our choice, the largest common setting, so that the
/// need is not overestimated.
const TLP_PAYLOAD: u64 = 512;

/// The largest need of the two links that a direction's payload crosses: read at its sender, written at its receiver.
/// All other payload that is read or written there counts too. Units: bits/s.
///
/// Each element is a transfer of its own; what the NIC reads beside payload (WQEs, translations) is left out.
pub fn needed_bps(workload: &Workload, way: Direction, sample: &Sample) -> f64 {
    at(workload, way.from, End::Read, sample).max(at(workload, way.to, End::Written, sample))
}

/// Whether payload is read from a host's memory or written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Read,
    Written,
}

fn at(workload: &Workload, host: Host, end: End, sample: &Sample) -> f64 {
    let of_host = |from: Host, to: Host| if end == End::Read { from == host } else { to == host };
    let rates = sample.directions.iter().filter(|rates| of_host(rates.from, rates.to));
    let bits = |way: Direction| 8.0 * bytes_per_message(workload, way, end);
    rates.map(|rates| rates.messages_per_sec * bits(Direction { from: rates.from, to: rates.to })).sum()
}

/// The mean over the requests that pay into a direction, QPs taking turns.
fn bytes_per_message(workload: &Workload, way: Direction, end: End) -> f64 {
    let (mut bytes, mut messages) = (0.0, 0.0);
    for flow in &workload.flows {
        for request in flow.pattern.iter().filter(|request| Direction::of(flow, request.op) == way) {
            bytes += f64::from(flow.qps) * on_link(flow, request, end) as f64;
            messages += f64::from(flow.qps);
        }
    }
    if messages > 0.0 { bytes / messages } else { 0.0 }
}

/// The list is the requester's; at the other end a message is one piece.
fn on_link(flow: &Flow, request: &Request, end: End) -> u64 {
    let transfer = |bytes: u64, most: u64| bytes + bytes.div_ceil(most) * TLP_OVERHEAD;
    if (end == End::Written) == request.op.brings_back() {
        request.sge.iter().map(|size| transfer(size.0, TLP_PAYLOAD)).sum()
    } else {
        transfer(request.message().0, TLP_PAYLOAD.min(flow.mtu.bytes()))
    }
}

//! What a workload's scatter-gather lists need of the PCIe link of its hosts at the rates that were seen.

use kelpie_spaces::{Direction, Flow, Host, Request, Workload};

use crate::measurement::Sample;

/// Least that a packet of the link adds to its payload.
///
/// Units: bytes. Source: PCIe base specification, section 2.2: header of 12, sequence number 2, LCRC 4, framing 2.
const TLP_OVERHEAD: u64 = 20;

/// Most payload of one packet of the link. Units: bytes. Source: our choice, the largest common setting, so that the
/// need is not overestimated.
const TLP_PAYLOAD: u64 = 512;

/// Most that one read request asks for. Units: bytes. Source: PCIe base specification, the largest
/// `Max_Read_Request_Size`, so that the need is not overestimated.
const READ_REQUEST: u64 = 4096;

/// What the elements of a workload need of PCIe.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Need {
    /// Of the link, headers included. Units: bits/s.
    pub bps: f64,
    /// Of the host's memory. Units: reads/s.
    pub reads_per_sec: f64,
}

/// The need of a direction: of the two links that its payload crosses the larger, read at its sender and written at its
/// receiver, and the reads at its sender. All other payload that is read or written there counts too.
///
/// Each element is a transfer of its own; what the NIC reads beside payload (WQEs with what is inline in them,
/// translations) is left out.
pub fn need(workload: &Workload, way: Direction, sample: &Sample) -> Need {
    let read = at(workload, way.from, DmaDirection::Read, sample);
    Need { bps: read.bps.max(at(workload, way.to, DmaDirection::Written, sample).bps), ..read }
}

/// Whether payload is read from a host's memory or written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DmaDirection {
    Read,
    Written,
}

fn at(workload: &Workload, host: Host, end: DmaDirection, sample: &Sample) -> Need {
    let of_host = |from: Host, to: Host| if end == DmaDirection::Read { from == host } else { to == host };
    let rates = sample.directions.iter().filter(|rates| of_host(rates.from, rates.to));
    rates.fold(Need::default(), |sum, rates| {
        let way = Direction { from: rates.from, to: rates.to };
        let mean = rates.goodput_bps / 8.0 / rates.messages_per_sec.max(f64::MIN_POSITIVE);
        let flows: Vec<PerMessage> = workload.flows.iter().filter_map(|flow| per_message(flow, way, end)).collect();
        let least = |of: fn(&PerMessage) -> f64| rates.messages_per_sec * least(&flows, mean, of);
        Need {
            bps: sum.bps + 8.0 * least(|message| message.bytes),
            reads_per_sec: sum.reads_per_sec + least(|message| message.reads),
        }
    })
}

/// Means over the messages of a flow in one direction.
#[derive(Debug, Clone, Copy)]
struct PerMessage {
    /// Units: bytes.
    payload: f64,
    /// On the link. Units: bytes.
    bytes: f64,
    /// Transfers.
    reads: f64,
}

/// The least need of a message in the mean, if messages have so many bytes in the mean: how many are of which flow is
/// not known. Of all mixes that have this mean one of two flows needs the least (a vertex of the linear program).
fn least(flows: &[PerMessage], mean: f64, of: fn(&PerMessage) -> f64) -> f64 {
    let pairs = flows.iter().flat_map(|one| flows.iter().map(move |other| (one, other)));
    let mixes = pairs.filter(|(one, other)| one.payload < mean && mean <= other.payload).map(|(one, other)| {
        let part = (mean - one.payload) / (other.payload - one.payload);
        of(one) + part * (of(other) - of(one))
    });
    let least = mixes.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        return least;
    }
    // Shorter or longer than all, as counts of a moment are, or all alike.
    let apart = |flow: &PerMessage| (flow.payload - mean).abs();
    flows.iter().min_by(|one, other| apart(one).total_cmp(&apart(other))).map_or(0.0, of)
}

fn per_message(flow: &Flow, way: Direction, end: DmaDirection) -> Option<PerMessage> {
    let paying: Vec<&Request> = flow.pattern.iter().filter(|request| Direction::of(flow, request.op) == way).collect();
    let count = paying.len() as f64;
    let mean = |of: &dyn Fn(&Request) -> u64| paying.iter().map(|request| of(request) as f64).sum::<f64>() / count;
    (count > 0.0).then(|| PerMessage {
        payload: mean(&|request| request.message().0),
        bytes: mean(&|request| on_link(flow, request, end)[0]),
        reads: mean(&|request| on_link(flow, request, end)[1]),
    })
}

/// The list is the requester's; at the other end a message is one piece.
fn on_link(flow: &Flow, request: &Request, end: DmaDirection) -> [u64; 2] {
    let transfer =
        |bytes: u64, most: u64| [bytes + bytes.div_ceil(most) * TLP_OVERHEAD, bytes.div_ceil(READ_REQUEST).max(1)];
    let message = request.message().0;
    if (end == DmaDirection::Written) != request.op.brings_back() {
        return transfer(message, TLP_PAYLOAD.min(flow.mtu.bytes()));
    }
    if end == DmaDirection::Read && message <= flow.inline.0 {
        return [0; 2];
    }
    let elements = request.sge.iter().map(|size| transfer(size.0, TLP_PAYLOAD));
    elements.fold([0; 2], |sum, element| [sum[0] + element[0], sum[1] + element[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{DirectionRates, PerHost};

    fn sample(directions: &[(Host, Host, f64)]) -> Sample {
        let rates = |(from, to, messages_per_sec): &(Host, Host, f64)| DirectionRates {
            from: *from,
            to: *to,
            goodput_bps: 0.0,
            wire_bps: 0.0,
            packets_per_sec: 0.0,
            messages_per_sec: *messages_per_sec,
        };
        Sample {
            seconds: 1.0,
            directions: directions.iter().map(rates).collect(),
            pause: None,
            counters: PerHost::default(),
        }
    }

    fn flow(op: &str, ends: [&str; 2]) -> String {
        format!(
            "  - {{from: {}, to: {}, qp_type: RC, qps: 4, mtu: 256, wq_depth: {{send: 16, recv: 16}}, \
             batch: {{send: 1, recv: 1}}, pattern: [{{op: {op}, sge: [8B, 8B, 1024B]}}], \
             memory: {{from: {{device: \"dram:0\", mrs: 1, mr_size: 4KiB}}, \
             to: {{device: \"dram:0\", mrs: 1, mr_size: 4KiB}}}}}}\n",
            ends[0], ends[1]
        )
    }

    fn workload(flows: &[String]) -> Workload {
        let text = format!("kelpie: workload/1\nflows:\n{}", flows.concat());
        kelpie_spaces::workload_from_yaml("test", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Three elements: 1040 B in 1 + 1 + 2 packets; one piece at MTU 256: five packets.
    const LIST: f64 = 8.0 * (1040.0 + 4.0 * 20.0);
    const PIECE: f64 = 8.0 * (1040.0 + 5.0 * 20.0);

    #[test]
    fn the_larger_end_counts() {
        let way = Direction { from: Host::A, to: Host::B };
        let seen = sample(&[(Host::A, Host::B, 1e6)]);
        let needed = need(&workload(&[flow("WRITE", ["a", "b"])]), way, &seen).bps;
        assert!((needed / (PIECE * 1e6) - 1.0).abs() < 1e-9, "{needed}");
        // A READ scatters at its requester.
        let needed = at(&workload(&[flow("READ", ["b", "a"])]), Host::B, DmaDirection::Written, &seen).bps;
        assert!((needed / (LIST * 1e6) - 1.0).abs() < 1e-9, "{needed}");
    }

    #[test]
    fn of_all_mixes_with_the_mean_that_was_seen_the_least_counts() {
        let long = flow("WRITE", ["a", "b"])
            .replace("}], memory", "}, {op: WRITE, sge: [8B]}, {op: WRITE, sge: [8B]}], memory");
        let both = workload(&[long, flow("WRITE", ["a", "b"])]);
        let mut seen = sample(&[(Host::A, Host::B, 1e6)]);
        // Vectors of 1040 B and twice 8 B, and of 1040 B: 352 and 1040 B in the mean.
        let short = (LIST + 2.0 * 8.0 * 28.0) / 3.0;
        for (mean, expected) in [(352.0, short), (696.0, f64::midpoint(LIST, short)), (1040.0, LIST), (2000.0, LIST)] {
            seen.directions[0].goodput_bps = mean * 8e6;
            let needed = at(&both, Host::A, DmaDirection::Read, &seen).bps;
            assert!((needed / (expected * 1e6) - 1.0).abs() < 1e-9, "{mean}: {needed}");
        }
    }

    #[test]
    fn loopback_is_read_over_the_same_link() {
        let both = workload(&[flow("WRITE", ["a", "b"]), flow("WRITE", ["a", "a"])]);
        let seen = sample(&[(Host::A, Host::B, 1e6), (Host::A, Host::A, 2e6)]);
        let needed = at(&both, Host::A, DmaDirection::Read, &seen).bps;
        assert!((needed / (LIST * 3e6) - 1.0).abs() < 1e-9, "{needed}");
    }
}

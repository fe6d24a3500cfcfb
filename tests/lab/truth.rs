//! Every kind of workload against two witnesses: the devices' own counters, and a packet capture in a guest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use super::capture::{Capture, CapturedPacket, Message, QpStream, streams};
use super::shapes::{FlowShape, MARKED, MARKS, WORKLOADS, requests, yaml};
use super::{FLOODS, Lab, in_lab};

/// Short, so that all of them take less than a minute; but however slow the machine is, what was posted completes.
const SESSION: &str = "{warm_up_ms: 0, sample_ms: 100, samples: 1, drain_ms: 10000}";

/// Counters of a device that are read, in this order; those from the fifth on are why something is sent again.
const COUNTERS: &str = "sent_pkts rcvd_pkts rdma_sends rdma_recvs completer_retry_err duplicate_request rcvd_rnr_err \
                        rcvd_seq_err out_of_seq_request";

/// Between two experiments: the clock of guest `a`, and what each device has counted so far.
struct GuestReading {
    time: f64,
    counters: [Vec<u64>; 2],
}

impl GuestReading {
    fn of(lab: &Lab) -> Self {
        let of = |guest| {
            let command = format!("cd /sys/class/infiniband/rxe0/ports/1/hw_counters; cat {COUNTERS}; date +%s.%N");
            let text = lab.in_guest(guest, &command);
            let (counters, time) = text.trim().rsplit_once('\n').unwrap_or_else(|| panic!("{text}"));
            let counters = counters.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{text}"))).collect();
            (counters, time.parse().unwrap_or_else(|_| panic!("{text}")))
        };
        let ((a, time), (b, _)) = std::thread::scope(|scope| {
            let a = scope.spawn(|| of("a"));
            let b = of("b");
            (a.join().expect("the guest answers"), b)
        });
        Self { time, counters: [a, b] }
    }
}

/// What both devices counted during an experiment.
struct Counted([Vec<u64>; 2]);

impl Counted {
    fn between(ends: &[GuestReading]) -> Self {
        let minus = |host: usize| {
            let (before, after) = (&ends[0].counters[host], &ends[1].counters[host]);
            after.iter().zip(before).map(|(after, before)| after - before).collect()
        };
        Self([minus(0), minus(1)])
    }

    fn of(&self, host: usize, counter: usize) -> u64 {
        self.0[host][counter]
    }

    fn has_retries(&self) -> bool {
        self.0.iter().flat_map(|counters| &counters[4..]).any(|count| *count > 0)
    }
}

/// What went wrong, all of it, so that one run shows everything.
#[derive(Default)]
struct Faults {
    about: String,
    found: Vec<String>,
}

impl Faults {
    fn check(&mut self, holds: bool, fault: impl Display) {
        if !holds {
            self.found.push(format!("{}: {fault}", self.about));
        }
    }
}

#[test]
#[ignore = "needs the lab"]
fn counters_and_a_capture_agree_with_what_ten_workloads_ask_for() {
    const { assert!(WORKLOADS.len().div_ceil(STEP) == 10) };
    agree_with(&WORKLOADS.iter().step_by(STEP).copied().collect::<Vec<_>>());
}

#[test]
#[ignore = "needs the lab"]
fn counters_and_a_capture_agree_with_what_every_workload_asks_for() {
    const { assert!(WORKLOADS.len() >= 40) };
    agree_with(WORKLOADS);
}

/// Every so many workloads one, of each part of the table: operations, transports, MTUs, batches, lists and directions.
const STEP: usize = 7;

fn agree_with(workloads: &[&[FlowShape]]) {
    in_lab(|lab| {
        let pair = lab.pair_with(SESSION);
        let capture = Capture::start(lab);
        let mut readings = vec![GuestReading::of(lab)];
        let mut reports = Vec::new();
        for flows in workloads {
            let mut tries = 0..FLOODS;
            let report = tries.find_map(|_| {
                let report = lab.measure_in_all(&yaml(flows), pair);
                if report.is_none() {
                    // What the flood moved is not of the next try.
                    *readings.last_mut().expect("the first") = GuestReading::of(lab);
                }
                report
            });
            reports.push(report.expect("guests get CPU at times"));
            readings.push(GuestReading::of(lab));
        }
        let marked = std::fs::read_to_string(lab.bench.path(pair)).expect("just written");
        let marked = marked.replace("tuning: {", &format!("tuning: {{{MARKS}, "));
        lab.measure(&yaml(MARKED), lab.bench.write("marked.yaml", marked));
        lab.is_clean();
        let packets = capture.packets();
        let last = readings.last().map_or(0.0, |reading| reading.time);
        let (unmarked, marked) = packets.split_at(packets.partition_point(|packet| packet.time < last));
        let mut faults = Faults { about: format!("{MARKED:?} with {MARKS}"), ..Faults::default() };
        marks(&mut faults, unmarked, marked);
        for ((flows, (report, log)), ends) in workloads.iter().zip(&reports).zip(readings.windows(2)) {
            faults.about = format!("{flows:?}");
            let from = packets.partition_point(|packet| packet.time < ends[0].time);
            let to = packets.partition_point(|packet| packet.time < ends[1].time);
            let packets = &packets[from..to];
            let events = &report["hardware_events"];
            faults.check(events.is_null(), events);
            let (counted, completed) = (Counted::between(ends), in_all(log));
            counters_against_the_engine(&mut faults, flows, &counted, &completed);
            if flows.iter().all(|flow| flow.ends[0] != flow.ends[1]) {
                counters_against_the_capture(&mut faults, flows, &counted, packets);
            }
            for (index, flow) in flows.iter().enumerate().filter(|(_, flow)| flow.ends[0] != flow.ends[1]) {
                let of = |role: &str| -> BTreeMap<String, Total> {
                    let ours = completed.iter().filter(|((flow, of, _), _)| *flow == index && of == role);
                    ours.map(|((.., op), total)| (op.clone(), *total)).collect()
                };
                against_the_capture(
                    &mut faults,
                    flow,
                    packets,
                    counted.has_retries(),
                    [of("Requester"), of("Responder")],
                );
            }
        }
        assert!(faults.found.is_empty(), "{} faults:\n{}", faults.found.len(), faults.found.join("\n"));
    });
}

/// Traffic class and UDP source port as [`MARKS`] say, on requests and on what answers them.
fn marks(faults: &mut Faults, unmarked: &[CapturedPacket], marked: &[CapturedPacket]) {
    for (transport, port) in [("RC", Some(50123)), ("UD", None)] {
        let ours: Vec<&CapturedPacket> = marked.iter().filter(|packet| packet.transport() == transport).collect();
        // Soft-RoCE takes the port of datagrams from the QP alone.
        let good = |packet: &&&CapturedPacket| {
            packet.traffic_class == 104 && port.is_none_or(|port| packet.source_port == port)
        };
        let count = ours.iter().filter(good).count();
        faults.check(count == ours.len() && count > 10, format_args!("{count} of {} {transport} packets", ours.len()));
    }
    let wrong = unmarked.iter().find(|packet| packet.traffic_class != 0);
    faults.check(wrong.is_none(), format_args!("this should not be marked: {wrong:?}"));
    // Without a mark the port is a hash of 14 bits, so that one QP or another has this one by chance.
    let all: BTreeSet<u32> = unmarked.iter().map(|packet| packet.to_qp).collect();
    let by_chance: BTreeSet<u32> =
        unmarked.iter().filter(|packet| packet.source_port == 50123).map(|packet| packet.to_qp).collect();
    faults.check(by_chance.len() * 20 < all.len(), format_args!("{by_chance:?} of {} QPs have the port", all.len()));
}

/// Messages and bytes.
type Total = (u64, u64);

/// By flow, role and operation: what was completed from the start to the end of the drain.
fn in_all(log: &str) -> BTreeMap<(usize, String, String), Total> {
    let entry = |line: &str| {
        let value = |key: &str| {
            let words = line.split_whitespace();
            let word = words.filter_map(|word| word.split_once('=')).find(|(name, _)| *name == key);
            word.map_or_else(|| panic!("no {key} in {line}"), |(_, value)| value.to_owned())
        };
        let number = |key: &str| value(key).parse().unwrap_or_else(|_| panic!("{key} in {line}"));
        ((number("flow") as usize, value("role"), value("op")), (number("messages"), number("bytes")))
    };
    log.lines().filter(|line| line.contains("in all host=")).map(entry).collect()
}

/// Every SEND that was requested, and every message that consumed a receive, as the devices count them.
fn counters_against_the_engine(
    faults: &mut Faults,
    flows: &[FlowShape],
    counted: &Counted,
    completed: &BTreeMap<(usize, String, String), Total>,
) {
    let (mut sends, mut receives) = ([0; 2], [0; 2]);
    for ((flow, role, op), (messages, _)) in completed {
        let [from, to] = flows[*flow].ends.map(|host| usize::from(host == "b"));
        if role == "Requester" {
            sends[from] += if op.starts_with("SEND") { *messages } else { 0 };
            receives[to] += if consumes_a_receive(op) { *messages } else { 0 };
        }
    }
    for (host, name) in ["a", "b"].into_iter().enumerate() {
        let (out, taken) = (counted.of(host, 2), counted.of(host, 3));
        faults.check(out == sends[host], format_args!("{} SENDs of {name}, its device says {out}", sends[host]));
        // Unreliable messages that find no receive posted are lost without a trace.
        faults.check(
            if is_reliable(flows) { taken == receives[host] } else { taken <= receives[host] },
            format_args!("{} messages consumed receives of {name}, its device says {taken}", receives[host]),
        );
    }
    let [a, b] = [0, 1].map(|host| (counted.of(host, 0), counted.of(host, 1)));
    let is_whole = if none_is_late(flows, counted) { a.0 + b.0 == a.1 + b.1 } else { a.0 + b.0 >= a.1 + b.1 };
    faults.check(is_whole, format_args!("packets sent and received: {a:?} by a, {b:?} by b"));
}

fn is_reliable(flows: &[FlowShape]) -> bool {
    flows.iter().all(|flow| flow.qp_type == "RC")
}

/// Whether every packet finds its QP: the last of those that nobody acknowledges, and of those that were sent again
/// though they had arrived, may come when it is gone.
fn none_is_late(flows: &[FlowShape], counted: &Counted) -> bool {
    is_reliable(flows) && !counted.has_retries()
}

fn consumes_a_receive(op: &str) -> bool {
    op.starts_with("SEND") || op == "WRITE_WITH_IMM"
}

/// Each packet that a device counted was seen on the link, and no other.
fn counters_against_the_capture(
    faults: &mut Faults,
    flows: &[FlowShape],
    counted: &Counted,
    packets: &[CapturedPacket],
) {
    for (index, host) in ['a', 'b'].into_iter().enumerate() {
        let seen = packets.iter().filter(|packet| packet.from == host).count() as u64;
        let (sent, received) = (counted.of(index, 0), counted.of(1 - index, 1));
        faults.check(
            seen == sent && if none_is_late(flows, counted) { seen == received } else { seen >= received },
            format_args!("{seen} packets from {host} captured, it counted {sent}, its peer {received}"),
        );
    }
}

/// Operations, sizes and their sequence, QPs, addresses and ports of one flow.
fn against_the_capture(
    faults: &mut Faults,
    flow: &FlowShape,
    packets: &[CapturedPacket],
    may_repeat: bool,
    [requested, received]: [BTreeMap<String, Total>; 2],
) {
    let [from, to] = flow.ends.map(|host| host.chars().next().expect("a or b"));
    let requests = requests(flow.pattern);
    let sent = streams(packets, flow.mtu, |packet| {
        packet.from == from
            && packet.transport() == flow.qp_type
            && !packet.is_acknowledgement()
            && !packet.is_response()
    });
    faults.check(sent.len() == flow.qps as usize, format_args!("requests to {} QPs", sent.len()));
    let vector: Vec<(&str, u64)> = requests.iter().map(|(op, sizes)| (*op, sizes.iter().sum())).collect();
    for stream in sent.values() {
        sequence(faults, stream, &vector);
        ports(faults, stream);
        addresses(faults, flow, stream);
    }
    let repeated: usize = sent.values().map(|stream| stream.repeated).sum();
    faults.check(may_repeat || repeated == 0, format_args!("{repeated} packets came again, and no device says why"));
    let mut seen: BTreeMap<String, Total> = BTreeMap::new();
    for message in sent.values().flat_map(|stream| &stream.messages) {
        let (messages, bytes) = seen.entry(message.op.to_owned()).or_default();
        (*messages, *bytes) = (*messages + 1, *bytes + message.bytes);
    }
    faults.check(requested == seen, format_args!("{requested:?} requested and {seen:?} captured"));
    // The responder was read before the last messages of the drain arrived; its device, above, was not.
    for (op, (messages, bytes)) in seen.into_iter().filter(|(op, _)| consumes_a_receive(op)) {
        let (arrived, held) = received.get(&op).copied().unwrap_or_default();
        let is_whole = arrived <= messages && held <= bytes && (flow.qp_type != "RC" || 2 * arrived >= messages);
        faults.check(
            is_whole,
            format_args!("{arrived} {op} with {held} bytes received, {messages} with {bytes} captured"),
        );
    }
    let keys =
        |stream: &QpStream| stream.messages.iter().filter_map(|message| message.remote).map(|at| at.key).collect();
    let keys: Vec<BTreeSet<u32>> = sent.values().map(keys).collect();
    let distinct: BTreeSet<u32> = keys.iter().flatten().copied().collect();
    faults.check(distinct.len() == keys.iter().map(BTreeSet::len).sum::<usize>(), "QPs share MRs");

    let reads: Vec<(&str, u64)> =
        vector.iter().filter(|(op, _)| *op == "READ").map(|(_, bytes)| ("RESPONSE", *bytes)).collect();
    let brought = streams(packets, flow.mtu, |packet| packet.from == to && packet.is_response());
    let expected = if reads.is_empty() { 0 } else { flow.qps as usize };
    faults.check(brought.len() == expected, format_args!("data of READs to {} QPs", brought.len()));
    for stream in brought.values() {
        let repeated = stream.repeated;
        faults.check(may_repeat || repeated == 0, format_args!("{repeated} packets of READs came again"));
        sequence(faults, stream, &reads);
        ports(faults, stream);
    }
    let acknowledged: BTreeSet<u32> = packets
        .iter()
        .filter(|packet| packet.from == to && packet.is_acknowledgement())
        .map(|packet| packet.to_qp)
        .collect();
    let is_acknowledged = flow.qp_type == "RC" && vector.iter().any(|(op, _)| *op != "READ");
    let expected = if is_acknowledged { flow.qps as usize } else { 0 };
    faults.check(acknowledged.len() == expected, format_args!("acknowledgements to {} QPs", acknowledged.len()));
}

/// The vector, again and again from its beginning.
fn sequence(faults: &mut Faults, stream: &QpStream, vector: &[(&str, u64)]) {
    if stream.messages.first().is_some_and(|message| message.op == "RESPONSE") && stream.repeated > 0 {
        // A READ that is tried again asks for the rest only, so its data come in other pieces.
        return;
    }
    faults
        .check(stream.messages.len() >= vector.len(), format_args!("only {} messages on a QP", stream.messages.len()));
    for (index, (message, expected)) in stream.messages.iter().zip(vector.iter().cycle()).enumerate() {
        let Message { op, bytes, .. } = message;
        if (*op, *bytes) != *expected {
            faults.check(false, format_args!("message {index} is {op} of {bytes}, not {expected:?}"));
            return;
        }
    }
}

/// One port for each QP, in the range that routers balance by. Source: RoCEv2 annex A17.9.2; Linux
/// `rdma_get_udp_sport`.
fn ports(faults: &mut Faults, stream: &QpStream) {
    let [port] = stream.ports[..] else {
        faults.check(false, format_args!("source ports {:?} on one QP", stream.ports));
        return;
    };
    faults.check(port >= 0xc000, format_args!("source port {port}"));
}

/// One-sided requests take the responder's MRs in turn and stay inside them.
fn addresses(faults: &mut Faults, flow: &FlowShape, stream: &QpStream) {
    let one_sided: Vec<_> =
        stream.messages.iter().filter_map(|message| Some((message.remote?, message.bytes))).collect();
    let keys: BTreeSet<u32> = one_sided.iter().map(|(remote, _)| remote.key).collect();
    let expected = one_sided.len().min(flow.mrs[1] as usize);
    faults.check(keys.len() == expected, format_args!("{} MRs of {expected} are used", keys.len()));
    let turns = one_sided.iter().zip(one_sided.iter().skip(flow.mrs[1] as usize));
    faults.check(turns.into_iter().all(|(now, later)| now.0.key == later.0.key), "MRs do not take turns");
    for key in keys {
        let of_key = || one_sided.iter().filter(|(remote, _)| remote.key == key);
        let first = of_key().map(|(remote, _)| remote.address).min().unwrap_or(0);
        let last = of_key().map(|(remote, _)| remote.address + remote.length).max().unwrap_or(0);
        let used = last - first;
        faults.check(used <= flow.mr_size.into(), format_args!("{used} bytes of an MR of {}", flow.mr_size));
        let most = of_key().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let has_room = 2 * most.next_multiple_of(64) <= flow.mr_size.into() && of_key().count() > 1;
        faults.check(!has_room || used > most, "an MR is not walked through");
    }
}

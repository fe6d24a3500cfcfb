//! From readings of both hosts to a measurement: differences, rates, directions. Judgement lives in the monitor.

use std::collections::BTreeMap;

use kelpie_monitor::counters::{
    OUTSTANDING_READS, PAUSE_IS_UPPER_BOUND, RECEIVE_QUEUE_FULL, RECEIVED, REQUESTED, SEND_QUEUE_FULL,
};
use kelpie_monitor::pause::{HostPause, host_pause};
use kelpie_monitor::rates::{Rates, rates};
use kelpie_monitor::{DirectionLatency, DirectionRates, Measurement, PauseRatios, PerHost, Sample};
use kelpie_spaces::headers::PACKET_OVERHEAD;
use kelpie_spaces::{Direction, Flow, Host, Opcode, Workload, loaded_directions};

use crate::latency::Latencies;
use crate::plan::{GroupId, Role};
use crate::verbs_host::{CompletedWork, GroupEndpoint, HostReading};

/// What the readings at the ends of successive samples say about `workload`; `last` was taken after the end, when late
/// errors had come.
pub fn measurement(
    workload: &Workload,
    endpoints: &PerHost<Vec<GroupEndpoint>>,
    readings: &[PerHost<HostReading>],
    last: &PerHost<HostReading>,
) -> Measurement {
    let mut samples: Vec<Sample> =
        readings.windows(2).filter_map(|ends| sample(workload, &ends[0], &ends[1])).collect();
    let named = |host: Host| last.get(host).events.iter().map(move |event| format!("host {host}: {event}"));
    let hardware_events = Host::BOTH.into_iter().flat_map(named).collect();
    for host in Host::BOTH {
        let Some(reads) = outstanding_reads(workload, host, endpoints) else { continue };
        for sample in &mut samples {
            sample.counters.get_mut(host).insert(OUTSTANDING_READS.to_owned(), reads.into());
        }
    }
    Measurement { samples, hardware_events, latency: latency(workload, readings), ..Measurement::default() }
}

/// READs and atomics that a QP of the host's requesters can have outstanding; the fewest if flows differ.
fn outstanding_reads(workload: &Workload, host: Host, endpoints: &PerHost<Vec<GroupEndpoint>>) -> Option<u8> {
    let reads = |flow: &Flow| flow.pattern.iter().any(|request| request.op.brings_back());
    let requesters = endpoints.get(host).iter().filter(|end| end.id.role == Role::Requester);
    let requesters = requesters.filter(|end| workload.flows.get(end.id.flow).is_some_and(reads));
    let answered = |id| endpoints.a.iter().chain(&endpoints.b).find(|end| end.id == id).map(|end| end.reads);
    requesters.map(|end| answered(end.id.peer()).map_or(end.reads, |answered| answered.min(end.reads))).min()
}

/// How long the requests took that completed within the samples, by the direction of their payload.
///
/// Both hosts may have requesters for one direction (a WRITE and a READ), so it is here that histograms come together.
fn latency(workload: &Workload, readings: &[PerHost<HostReading>]) -> Vec<DirectionLatency> {
    let mut ways: BTreeMap<Direction, Latencies> = BTreeMap::new();
    // What completed before the first reading did so in the warm-up.
    for group in readings.iter().skip(1).flat_map(|reading| reading.a.latency.iter().chain(&reading.b.latency)) {
        let Some(flow) = workload.flows.get(group.id.flow) else { continue };
        for (op, took) in &group.by_op {
            let way = ways.entry(Direction::of(flow, *op)).or_default();
            for took in took {
                way.record_all(*took);
            }
        }
    }
    let known = |(Direction { from, to }, latencies): (Direction, Latencies)| {
        latencies.percentiles().map(|latency_ns| DirectionLatency { from, to, latency_ns })
    };
    ways.into_iter().filter_map(known).collect()
}

/// Pause of both ports between two readings; missing if a host counts none, or frames instead of time.
pub fn pause(before: &PerHost<HostReading>, after: &PerHost<HostReading>) -> PerHost<Option<PauseRatios>> {
    let of = |host: Host| {
        let slice = Slice::between(before.get(host), after.get(host))?;
        slice.pause().filter(|pause| !pause.is_upper_bound).map(|pause| pause.ratios)
    };
    PerHost { a: of(Host::A), b: of(Host::B) }
}

/// One slice; `None` if a host's clock did not advance.
fn sample(workload: &Workload, before: &PerHost<HostReading>, after: &PerHost<HostReading>) -> Option<Sample> {
    let slice = |host: Host| Slice::between(before.get(host), after.get(host));
    let slices = PerHost { a: slice(Host::A)?, b: slice(Host::B)? };
    let directions = loaded_directions(workload).into_iter().map(|way| direction(workload, way, &slices)).collect();
    Some(Sample {
        seconds: f64::midpoint(slices.a.seconds, slices.b.seconds),
        directions,
        pause: slices.a.pause().zip(slices.b.pause()).map(|(a, b)| PerHost { a: a.ratios, b: b.ratios }),
        counters: PerHost { a: slices.a.counters(), b: slices.b.counters() },
    })
}

fn direction(workload: &Workload, way: Direction, slices: &PerHost<Slice<'_>>) -> DirectionRates {
    let mut sum = DirectionRates {
        from: way.from,
        to: way.to,
        goodput_bps: 0.0,
        wire_bps: 0.0,
        packets_per_sec: 0.0,
        messages_per_sec: 0.0,
    };
    for (index, flow) in workload.flows.iter().enumerate() {
        for op in Opcode::ALL {
            if Direction::of(flow, op) != way {
                continue;
            }
            let (host, role) = observer(flow, op);
            let slice = slices.get(host);
            let count = slice.count(GroupId { flow: index, role }, op);
            let per_sec = |amount: u64| amount as f64 / slice.seconds;
            sum.goodput_bps += per_sec(count.bytes) * 8.0;
            sum.wire_bps += (per_sec(count.bytes) + per_sec(count.packets) * PACKET_OVERHEAD as f64) * 8.0;
            sum.packets_per_sec += per_sec(count.packets);
            sum.messages_per_sec += per_sec(count.messages);
        }
    }
    sum
}

/// Who knows that a message was delivered: its receiver if it has a completion, else its requester.
fn observer(flow: &Flow, op: Opcode) -> (Host, Role) {
    if op.consumes_receive() { (flow.to, Role::Responder) } else { (flow.from, Role::Requester) }
}

/// Two readings of one host and the time between them.
struct Slice<'a> {
    seconds: f64,
    before: &'a HostReading,
    after: &'a HostReading,
    rates: Rates,
}

impl<'a> Slice<'a> {
    fn between(before: &'a HostReading, after: &'a HostReading) -> Option<Self> {
        let nanos = after.at_nanos.checked_sub(before.at_nanos).filter(|nanos| *nanos > 0)?;
        let seconds = nanos as f64 / 1e9;
        Some(Self { seconds, before, after, rates: rates(&before.counters, &after.counters, seconds) })
    }

    fn pause(&self) -> Option<HostPause> {
        host_pause(&self.rates)
    }

    fn count(&self, id: GroupId, op: Opcode) -> CompletedWork {
        let of = |reading: &HostReading| {
            let group = reading.groups.iter().find(|group| group.id == id);
            group.and_then(|group| group.by_op.get(&op)).copied().unwrap_or_default()
        };
        minus(of(self.after), of(self.before))
    }

    /// Everything that this role completed.
    fn total(&self, role: Role) -> Option<CompletedWork> {
        let of = |reading: &HostReading| {
            let ends = reading.groups.iter().filter(|group| group.id.role == role);
            ends.flat_map(|group| group.by_op.values()).copied().reduce(plus)
        };
        of(self.after).map(|after| minus(after, of(self.before).unwrap_or_default()))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let mut counters = self.rates.per_sec.clone();
        if self.pause().is_some_and(|pause| pause.is_upper_bound) {
            counters.insert(PAUSE_IS_UPPER_BOUND.to_owned(), 1.0);
        }
        for (role, names) in [(Role::Requester, REQUESTED), (Role::Responder, RECEIVED)] {
            if let Some(total) = self.total(role) {
                for (name, amount) in names.into_iter().zip([total.messages, total.bytes, total.packets]) {
                    counters.insert(name.to_owned(), amount as f64 / self.seconds);
                }
            }
        }
        if self.total(Role::Requester).is_some() {
            let full = self.after.queue_full_nanos.saturating_sub(self.before.queue_full_nanos) as f64 / 1e9;
            counters.insert(SEND_QUEUE_FULL.to_owned(), (full / self.seconds).min(1.0));
        }
        if let Some(received) = self.total(Role::Responder).filter(|received| received.messages > 0) {
            let late = self.after.received_late.saturating_sub(self.before.received_late);
            let in_time = 1.0 - late as f64 / received.messages as f64;
            counters.insert(RECEIVE_QUEUE_FULL.to_owned(), in_time.max(0.0));
        }
        counters
    }
}

fn plus(a: CompletedWork, b: CompletedWork) -> CompletedWork {
    CompletedWork { messages: a.messages + b.messages, bytes: a.bytes + b.bytes, packets: a.packets + b.packets }
}

fn minus(a: CompletedWork, b: CompletedWork) -> CompletedWork {
    CompletedWork {
        messages: a.messages.saturating_sub(b.messages),
        bytes: a.bytes.saturating_sub(b.bytes),
        packets: a.packets.saturating_sub(b.packets),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kelpie_monitor::Latency;
    use kelpie_monitor::counters::{self, ACK_TIMEOUT, MADE};
    use kelpie_monitor::sources::LINK_SPEED;

    use super::*;
    use crate::latency::Took;
    use crate::testing::{flow, workload};
    use crate::verbs_host::{GroupCount, GroupLatency};

    fn measured(workload: &Workload, readings: &[PerHost<HostReading>]) -> Measurement {
        measurement(workload, &PerHost::default(), readings, readings.last().expect("a reading"))
    }

    fn reading(seconds: u64, role: Role, op: Opcode, messages: u64) -> HostReading {
        let count = CompletedWork { messages, bytes: messages * 1000, packets: messages * 2 };
        HostReading {
            at_nanos: seconds * 1_000_000_000,
            groups: vec![GroupCount { id: GroupId { flow: 0, role }, by_op: [(op, count)].into() }],
            queue_full_nanos: seconds * 750_000_000,
            received_late: messages / 4,
            counters: [("sent_pkts".to_owned(), messages * 3)].into(),
            ..HostReading::default()
        }
    }

    /// Readings at 1 s and 3 s on `a`, 1 s and 5 s on `b`; `a` completes 100 requests and `b` 80.
    fn readings(op: Opcode) -> Vec<PerHost<HostReading>> {
        let at = |a, b, done: u64| PerHost {
            a: reading(a, Role::Requester, op, 100 * done),
            b: reading(b, Role::Responder, op, 80 * done),
        };
        vec![at(1, 1, 1), at(3, 5, 2)]
    }

    #[test]
    fn a_write_is_counted_by_its_requester_and_a_send_by_its_receiver() {
        for (op, text, messages_per_sec) in [(Opcode::Write, "WRITE", 50.0), (Opcode::Send, "SEND", 20.0)] {
            let seen = measured(&workload(vec![flow("a", "b", text)]), &readings(op));
            let [sample] = &seen.samples[..] else { panic!("one sample: {seen:?}") };
            let [way] = &sample.directions[..] else { panic!("one direction: {sample:?}") };
            assert_eq!((way.from, way.to), (Host::A, Host::B), "{op}");
            assert!((way.messages_per_sec - messages_per_sec).abs() < 1e-9, "{op}: {way:?}");
            assert!((way.goodput_bps - messages_per_sec * 8000.0).abs() < 1e-6, "{op}: {way:?}");
            assert!((way.wire_bps - messages_per_sec * (8000.0 + 2.0 * 82.0 * 8.0)).abs() < 1e-6, "{op}: {way:?}");
        }
    }

    #[test]
    fn a_read_pays_into_the_other_direction() {
        let seen = measured(&workload(vec![flow("a", "b", "READ")]), &readings(Opcode::Read));
        let way = &seen.samples[0].directions[0];
        assert_eq!((way.from, way.to), (Host::B, Host::A));
        assert!((way.messages_per_sec - 50.0).abs() < 1e-9);
    }

    #[test]
    fn engine_counters_say_who_requested_and_who_kept_queues_full() {
        let seen = measured(&workload(vec![flow("a", "b", "SEND")]), &readings(Opcode::Send));
        let counters = &seen.samples[0].counters;
        assert!((counters.a[SEND_QUEUE_FULL] - 0.75).abs() < 1e-9);
        assert!((counters.a["engine_requested_messages"] - 50.0).abs() < 1e-9);
        assert!((counters.a["sent_pkts"] - 150.0).abs() < 1e-9);
        assert!((counters.b["engine_received_packets"] - 40.0).abs() < 1e-9);
        assert!(!counters.b.contains_key(SEND_QUEUE_FULL), "b has no requester");
        assert!((counters.b[RECEIVE_QUEUE_FULL] - 0.75).abs() < 1e-9);
        assert!(!counters.a.contains_key(RECEIVE_QUEUE_FULL), "a has no responder");
    }

    #[test]
    fn every_engine_counter_of_the_table_is_counted_and_every_other_has_a_row() {
        let end = GroupEndpoint {
            id: GroupId { flow: 0, role: Role::Requester },
            gid: [0; 16],
            lid: 0,
            needs_grh: false,
            reads: 16,
            qps: Vec::new(),
        };
        let endpoints = PerHost { a: vec![end], b: Vec::new() };
        let mut counted: BTreeSet<String> = BTreeSet::new();
        for (op, text) in [(Opcode::Send, "SEND"), (Opcode::Read, "READ")] {
            let mut readings = readings(op);
            for (at, reading) in (0..).zip(&mut readings) {
                // Frames of pause, and no time.
                for host in [&mut reading.a, &mut reading.b] {
                    let names = ["ethtool.tx_pause_frames", "ethtool.rx_pause_frames"];
                    host.counters.extend(names.map(|name| (name.to_owned(), at)));
                    host.counters.insert(LINK_SPEED.to_owned(), 100_000);
                }
            }
            let seen = measurement(&workload(vec![flow("a", "b", text)]), &endpoints, &readings, &readings[1]);
            let counters = &seen.samples[0].counters;
            counted
                .extend(counters.a.keys().chain(counters.b.keys()).filter(|name| name.starts_with("engine_")).cloned());
        }
        // The agent and the devices count these.
        counted.extend([ACK_TIMEOUT, MADE[0], MADE[1]].map(str::to_owned));
        let rows = counters::TABLE.iter().map(|row| row.name).filter(|name| name.starts_with("engine_"));
        assert_eq!(counted.iter().map(String::as_str).collect::<BTreeSet<_>>(), rows.collect());
    }

    #[test]
    fn reads_outstanding_are_what_both_devices_allow() {
        let end = |flow, role, reads| GroupEndpoint {
            id: GroupId { flow, role },
            gid: [0; 16],
            lid: 0,
            needs_grh: false,
            reads,
            qps: Vec::new(),
        };
        let endpoints = PerHost {
            a: vec![end(0, Role::Requester, 255), end(1, Role::Responder, 127), end(2, Role::Requester, 16)],
            b: vec![end(0, Role::Responder, 127), end(1, Role::Requester, 16), end(2, Role::Responder, 127)],
        };
        let workload = workload(vec![flow("a", "b", "READ"), flow("b", "a", "READ"), flow("a", "b", "WRITE")]);
        let readings = readings(Opcode::Read);
        let seen = measurement(&workload, &endpoints, &readings, &readings[1]);
        let counters = &seen.samples[0].counters;
        let told = [&counters.a, &counters.b].map(|host| host[OUTSTANDING_READS].to_string());
        assert_eq!(told, ["127", "16"]);
        assert!(!measured(&workload, &readings).samples[0].counters.a.contains_key(OUTSTANDING_READS), "nobody says");
    }

    #[test]
    fn what_fails_after_the_last_sample_is_told() {
        let readings = readings(Opcode::Write);
        let mut last = readings[1].clone();
        last.a.events.push("flow 0 Requester: transport retry counter exceeded".to_owned());
        let seen = measurement(&workload(vec![flow("a", "b", "WRITE")]), &PerHost::default(), &readings, &last);
        assert_eq!(seen.hardware_events, ["host a: flow 0 Requester: transport retry counter exceeded"]);
    }

    #[test]
    fn pause_is_per_host_and_missing_where_one_host_has_no_counter() {
        let mut readings = readings(Opcode::Write);
        let count = |reading: &mut HostReading, tx: u64, rx: u64| {
            for (name, value) in [("tx_prio3_pause_duration", tx), ("rx_prio3_pause_duration", rx)] {
                reading.counters.insert(format!("ethtool.{name}"), value);
            }
        };
        count(&mut readings[0].a, 0, 5);
        count(&mut readings[1].a, 0, 500_005);
        let workload = workload(vec![flow("a", "b", "WRITE")]);
        assert_eq!(measured(&workload, &readings).samples[0].pause, None);
        count(&mut readings[0].b, 7, 0);
        count(&mut readings[1].b, 1_000_007, 0);
        let pause = measured(&workload, &readings).samples[0].pause.expect("both count");
        assert!((pause.a.rx - 0.25).abs() < 1e-9, "half a second of two: {pause:?}");
        assert!((pause.b.tx - 0.25).abs() < 1e-9, "a second of four: {pause:?}");
        assert!(pause.a.tx == 0.0 && pause.b.rx == 0.0, "{pause:?}");
    }

    #[test]
    fn latency_is_of_the_samples_only_and_merges_both_hosts_by_direction() {
        let workload = workload(vec![flow("a", "b", "WRITE"), flow("b", "a", "READ"), flow("a", "a", "WRITE")]);
        let group = |flow, op, took: &[Took]| GroupLatency {
            id: GroupId { flow, role: Role::Requester },
            by_op: [(op, took.to_vec())].into(),
        };
        let reading = |a, b| PerHost {
            a: HostReading { latency: a, ..HostReading::default() },
            b: HostReading { latency: b, ..HostReading::default() },
        };
        let warm_up = reading(vec![group(0, Opcode::Write, &[Took(1, 1_000)])], Vec::new());
        let first = reading(
            vec![group(0, Opcode::Write, &[Took(100, 50)]), group(2, Opcode::Write, &[])],
            vec![group(1, Opcode::Read, &[Took(900, 49)]), group(9, Opcode::Read, &[Took(5, 5)])],
        );
        let second = reading(Vec::new(), vec![group(1, Opcode::Read, &[Took(1_500, 1)])]);
        let seen = measured(&workload, &[warm_up.clone(), first, second]).latency;
        let [way] = &seen[..] else { panic!("nothing completed on the loopback: {seen:?}") };
        assert_eq!((way.from, way.to), (Host::A, Host::B));
        let Latency { count, p50, p90, p99, p999, max } = way.latency_ns;
        assert_eq!((count, p50, p90, p99, p999, max), (100, 100, 900, 900, 1_500, 1_500));
        assert_eq!(measured(&workload, &[warm_up]).latency, [], "a warm-up alone");
        assert_eq!(measured(&workload, &readings(Opcode::Write)).latency, [], "nobody asked");
    }

    #[test]
    fn events_name_their_host_and_a_stopped_clock_gives_no_sample() {
        let mut readings = readings(Opcode::Write);
        readings[1].b.events.push("flow 0: a QP failed".to_owned());
        readings[1].b.at_nanos = readings[0].b.at_nanos;
        let seen = measured(&workload(vec![flow("a", "b", "WRITE")]), &readings);
        assert_eq!(seen.hardware_events, ["host b: flow 0: a QP failed"]);
        assert!(seen.samples.is_empty());
    }
}

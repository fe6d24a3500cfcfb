//! Tables of measurements with the verdict that each must get.

use std::collections::BTreeMap;

use kelpie_spaces::{Bytes, Depths, Flow, Mtu, Opcode, Request};

use super::*;
use crate::attained::held_against;
use crate::counters::{OUTSTANDING_READS, RECEIVE_QUEUE_FULL, SEND_QUEUE_FULL};
use crate::latency::{DirectionLatency, Latency};
use crate::limit::Limit;
use crate::measurement::{PauseRatios, PerHost, QpTimes};

const A_TO_B: (Host, Host) = (Host::A, Host::B);
const B_TO_A: (Host, Host) = (Host::B, Host::A);
const LOOP_A: (Host, Host) = (Host::A, Host::A);
const LOW: &[Symptom] = &[Symptom::LowThroughput];
const PAUSE: &[Symptom] = &[Symptom::Pause];

/// 200 Gbit/s and 100 million packets a second.
fn bounds() -> Bounds {
    Bounds::new(200e9, 100e6)
}

fn flow((from, to): (Host, Host), op: Opcode, qps: u32, depth: u32, message: u64) -> Flow {
    Flow {
        qps,
        mtu: Mtu::ALL[2],
        wq_depth: Depths { send: depth, recv: depth },
        pattern: vec![Request { op, sge: vec![Bytes(message)] }],
        ..Flow::plain(from, to)
    }
}

fn write(way: (Host, Host)) -> Workload {
    Workload::new(vec![flow(way, Opcode::Write, 8, 128, 65536)])
}

fn both_ways() -> Workload {
    Workload::new(vec![flow(A_TO_B, Opcode::Write, 8, 128, 65536), flow(B_TO_A, Opcode::Write, 8, 128, 65536)])
}

/// A sample with (direction, gigabits per second on the wire, million packets per second).
fn sample(directions: &[((Host, Host), f64, f64)]) -> Sample {
    let rates = |&((from, to), gbps, mpps): &((Host, Host), f64, f64)| DirectionRates {
        from,
        to,
        // 82 B around each packet.
        goodput_bps: (gbps * 1e9 - mpps * 656e6).max(0.0),
        wire_bps: gbps * 1e9,
        packets_per_sec: mpps * 1e6,
        messages_per_sec: mpps * 1e6,
    };
    Sample {
        seconds: 1.0,
        directions: directions.iter().map(rates).collect(),
        pause: None,
        counters: PerHost::default(),
    }
}

fn of(samples: Vec<Sample>) -> Measurement {
    Measurement { samples, ..Measurement::default() }
}

fn steady(sample: &Sample) -> Measurement {
    of(vec![sample.clone(); 4])
}

fn counting(mut sample: Sample, host: Host, counter: &str, value: f64) -> Sample {
    sample.counters.get_mut(host).insert(counter.to_owned(), value);
    sample
}

fn queue_full(sample: Sample, host: Host, ratio: f64) -> Sample {
    counting(sample, host, SEND_QUEUE_FULL, ratio)
}

fn check(name: &str, workload: &Workload, bounds: &Bounds, measurement: &Measurement, expected: &[Symptom]) {
    let assessment = assess(workload, bounds, measurement);
    assert_eq!(assessment, Assessment::of_symptoms(expected.to_vec()), "{name}");
}

#[test]
fn a_rate_is_low_only_below_both_bounds() {
    let one = write(A_TO_B);
    let two = both_ways();
    let read = Workload::new(vec![flow(A_TO_B, Opcode::Read, 8, 128, 65536)]);
    let looped =
        Workload::new(vec![flow(B_TO_A, Opcode::Write, 8, 128, 65536), flow(LOOP_A, Opcode::Write, 8, 128, 65536)]);
    let table: &[(&str, &Workload, Sample, &[Symptom])] = &[
        ("line rate", &one, sample(&[(A_TO_B, 198.0, 23.0)]), &[]),
        ("at 80 %", &one, sample(&[(A_TO_B, 160.0, 18.0)]), &[]),
        ("below 80 %", &one, sample(&[(A_TO_B, 159.9, 18.0)]), LOW),
        ("packet rate", &one, sample(&[(A_TO_B, 60.0, 81.0)]), &[]),
        ("neither", &one, sample(&[(A_TO_B, 60.0, 79.0)]), LOW),
        ("hang", &one, sample(&[(A_TO_B, 0.0, 0.0)]), LOW),
        ("one collapsed direction", &two, sample(&[(A_TO_B, 195.0, 22.0), (B_TO_A, 5.0, 0.6)]), LOW),
        ("both full", &two, sample(&[(A_TO_B, 195.0, 22.0), (B_TO_A, 190.0, 22.0)]), &[]),
        ("READ pays backwards", &read, sample(&[(B_TO_A, 190.0, 22.0)]), &[]),
        ("READ pays backwards, low", &read, sample(&[(B_TO_A, 90.0, 11.0)]), LOW),
        ("acknowledgements are no load", &one, sample(&[(A_TO_B, 190.0, 22.0), (B_TO_A, 1.0, 5.0)]), &[]),
        ("loopback crosses no port", &looped, sample(&[(B_TO_A, 190.0, 22.0), (LOOP_A, 50.0, 6.0)]), &[]),
        ("loopback holds back the port", &looped, sample(&[(B_TO_A, 90.0, 11.0), (LOOP_A, 90.0, 11.0)]), LOW),
    ];
    for (name, workload, sample, expected) in table {
        check(name, workload, &bounds(), &steady(sample), expected);
    }
}

#[test]
fn latency_decides_nothing() {
    let latency_ns = Latency { count: 1, p50: 59_000_000_000, p90: 0, p99: 0, p999: 0, max: 60_000_000_000 };
    let latency = vec![DirectionLatency { from: Host::A, to: Host::B, latency_ns }];
    for (gbps, expected) in [(198.0, &[][..]), (60.0, LOW)] {
        let measurement = Measurement { latency: latency.clone(), ..steady(&sample(&[(A_TO_B, gbps, 23.0)])) };
        check("an awful latency", &write(A_TO_B), &bounds(), &measurement, expected);
    }
}

#[test]
fn pause_of_any_host_and_sense_counts() {
    let zero = PauseRatios::default();
    let tx = |ratio| PauseRatios { tx: ratio, rx: 0.0 };
    let rx = |ratio| PauseRatios { tx: 0.0, rx: ratio };
    let table: &[(&str, PerHost<PauseRatios>, f64, &[Symptom])] = &[
        ("none", PerHost { a: zero, b: zero }, 198.0, &[]),
        ("at the threshold", PerHost { a: zero, b: tx(0.001) }, 198.0, &[]),
        ("sent by b", PerHost { a: zero, b: tx(0.0011) }, 198.0, PAUSE),
        ("received by a", PerHost { a: rx(0.2), b: zero }, 198.0, PAUSE),
        ("both symptoms", PerHost { a: zero, b: tx(0.5) }, 90.0, &[Symptom::Pause, Symptom::LowThroughput]),
    ];
    for (name, pause, gbps, expected) in table {
        let seen = Sample { pause: Some(*pause), ..sample(&[(A_TO_B, *gbps, 12.0)]) };
        check(name, &write(A_TO_B), &bounds(), &steady(&seen), expected);
    }
}

#[test]
fn pause_is_judged_on_the_mean_of_the_samples() {
    let with = |ratio| Sample {
        pause: Some(PerHost { a: PauseRatios::default(), b: PauseRatios { tx: ratio, rx: 0.0 } }),
        ..sample(&[(A_TO_B, 198.0, 23.0)])
    };
    let burst = of(vec![with(0.003), with(0.0), with(0.0), with(0.0)]);
    check("0.075 % on average", &write(A_TO_B), &bounds(), &burst, &[]);
    let more = of(vec![with(0.005), with(0.0), with(0.0), with(0.0)]);
    check("0.125 % on average", &write(A_TO_B), &bounds(), &more, PAUSE);
}

#[test]
fn an_application_that_does_not_keep_injecting_is_no_anomaly() {
    let slow = sample(&[(A_TO_B, 90.0, 11.0)]);
    let read = Workload::new(vec![flow(B_TO_A, Opcode::Read, 8, 128, 65536)]);
    let shared =
        Workload::new(vec![flow(A_TO_B, Opcode::Write, 8, 128, 65536), flow(B_TO_A, Opcode::Read, 8, 128, 65536)]);
    let one = write(A_TO_B);
    let sends = Workload::new(vec![flow(A_TO_B, Opcode::Send, 8, 128, 65536)]);
    let received = |ratio| counting(slow.clone(), Host::B, RECEIVE_QUEUE_FULL, ratio);
    let mixed = Workload::new(vec![sends.flows[0].clone(), one.flows[0].clone()]);
    let table: &[(&str, &Workload, Sample, &[Symptom])] = &[
        ("no counter", &one, slow.clone(), LOW),
        ("full queues", &one, queue_full(slow.clone(), Host::A, 0.9), LOW),
        ("full more than half of the time", &one, queue_full(slow.clone(), Host::A, 0.51), LOW),
        ("full half of the time", &one, queue_full(slow.clone(), Host::A, 0.5), &[]),
        ("empty queues", &one, queue_full(slow.clone(), Host::A, 0.0), &[]),
        ("the responder's queues say nothing", &one, queue_full(slow.clone(), Host::B, 0.0), LOW),
        ("the requester of a READ", &read, queue_full(slow.clone(), Host::B, 0.1), &[]),
        ("one of two requesters injects", &shared, queue_full(slow.clone(), Host::A, 0.1), LOW),
        ("receivers do not keep up", &sends, received(0.5), &[]),
        ("receivers keep up", &sends, received(0.6), LOW),
        ("nobody receives a WRITE", &one, received(0.0), LOW),
        ("nor the WRITEs beside SENDs", &mixed, received(0.0), LOW),
        ("none of two injects", &shared, queue_full(queue_full(slow.clone(), Host::A, 0.1), Host::B, 0.2), &[]),
    ];
    for (name, workload, sample, expected) in table {
        check(name, workload, &bounds(), &steady(sample), expected);
    }
}

#[test]
fn lists_that_fill_the_pcie_link_are_no_anomaly() {
    let pcie = Bounds { max_pcie_bps: Some(252e9), ..bounds() };
    let mut many = flow(A_TO_B, Opcode::Write, 8, 128, 128);
    many.pattern[0].sge = vec![Bytes(8); 16];
    // Each message takes 16 x 28 B of the link of its sender: 3584 bits; 0.8 of it is full at 56.25 million a second.
    let at = |mpps: f64| {
        let mut sample = sample(&[(A_TO_B, 40.0, mpps)]);
        sample.directions[0].messages_per_sec = mpps * 1e6;
        sample
    };
    let paused = |mut sample: Sample| {
        sample.pause = Some(PerHost { a: PauseRatios { tx: 0.0, rx: 0.1 }, b: PauseRatios { tx: 0.1, rx: 0.0 } });
        sample
    };
    let workload = Workload::new(vec![many]);
    let table: &[(&str, &Bounds, Sample, &[Symptom])] = &[
        ("the link is full", &pcie, at(56.3), &[]),
        ("it is not", &pcie, at(56.2), LOW),
        ("nobody knows", &bounds(), at(56.3), LOW),
        ("a pause is a pause", &pcie, paused(at(56.3)), &[Symptom::Pause]),
    ];
    for (name, bounds, sample, expected) in table {
        check(name, &workload, bounds, &steady(sample), expected);
    }
}

#[test]
fn lists_that_take_all_reads_are_no_anomaly() {
    let reads = Bounds { max_pcie_reads_per_sec: Some(300e6), ..bounds() };
    let of = |elements, bytes, inline| {
        let mut flow = flow(A_TO_B, Opcode::Write, 8, 128, 8);
        (flow.pattern[0].sge, flow.inline) = (vec![Bytes(bytes); elements], Bytes(inline));
        Workload::new(vec![flow])
    };
    let table: &[(&str, Workload, Sample, &[Symptom])] = &[
        ("sixteen reads each", of(16, 8, 0), sample(&[(A_TO_B, 20.0, 15.1)]), &[]),
        ("sixteen reads each, slower", of(16, 8, 0), sample(&[(A_TO_B, 20.0, 14.9)]), LOW),
        ("one read each", of(1, 128, 0), sample(&[(A_TO_B, 20.0, 15.1)]), LOW),
        ("inline data is not read", of(16, 8, 128), sample(&[(A_TO_B, 20.0, 15.1)]), LOW),
        ("two reads of 4 KiB for each element", of(4, 8192, 0), sample(&[(A_TO_B, 20.0, 30.1)]), &[]),
    ];
    for (name, workload, sample, expected) in table {
        check(name, workload, &reads, &steady(sample), expected);
    }
    let read = Workload::new(vec![flow(A_TO_B, Opcode::Read, 8, 128, 128)]);
    check("a READ scatters", &read, &reads, &steady(&sample(&[(B_TO_A, 20.0, 15.1)])), LOW);
}

#[test]
fn few_qps_are_no_anomaly_if_each_is_as_fast_as_one_alone() {
    // 20 million messages a second, and 10 million of 13 elements or of four packets.
    let qp = QpTimes { message_seconds: 50e-9, element_seconds: 50e-9 / 12.0, packet_seconds: 50e-9 / 3.0 };
    let one = Bounds { qp: Some(qp), ..bounds() };
    let short = |qps| Workload::new(vec![flow(A_TO_B, Opcode::Write, qps, 128, 64)]);
    let lists = {
        let mut flow = flow(A_TO_B, Opcode::Write, 2, 128, 8);
        flow.pattern[0].sge = vec![Bytes(8); 13];
        Workload::new(vec![flow])
    };
    let inline = {
        let mut flow = lists.flows[0].clone();
        flow.inline = Bytes(104);
        Workload::new(vec![flow])
    };
    let packets = {
        let flow = flow(A_TO_B, Opcode::Write, 1, 128, 1024);
        Workload::new(vec![Flow { mtu: Mtu::ALL[0], ..flow }])
    };
    let of = |mpps: f64, bytes: f64| sample(&[(A_TO_B, mpps * (bytes + 82.0) * 8e-3, mpps)]);
    let to_b = |mpps: f64| of(mpps, 64.0);
    let fast = write(A_TO_B).flows[0].clone();
    let unequal = Workload::new(vec![fast.clone(), flow(B_TO_A, Opcode::Write, 1, 128, 64)]);
    let back = |mpps: f64| sample(&[(A_TO_B, 195.0, 22.0), (B_TO_A, mpps * 1.168, mpps)]);
    let beside = Workload::new(vec![fast, flow(A_TO_B, Opcode::Write, 1, 128, 64)]);
    let table: &[(&str, &Workload, Sample, &[Symptom])] = &[
        ("one QP", &short(1), to_b(16.1), &[]),
        ("one QP, slower than that", &short(1), to_b(15.9), LOW),
        ("three QPs", &short(3), to_b(48.1), &[]),
        ("three QPs, slower than that", &short(3), to_b(47.9), LOW),
        ("five QPs could fill the port", &short(5), to_b(79.9), LOW),
        ("lists", &lists, of(16.1, 104.0), &[]),
        ("lists, slower than that", &lists, of(15.9, 104.0), LOW),
        ("an inline list is one piece", &inline, of(16.1, 104.0), LOW),
        ("packets", &packets, of(32.1, 256.0), &[]),
        ("packets, slower than that", &packets, of(31.9, 256.0), LOW),
        ("one QP against a full port", &unequal, back(16.1), &[]),
        ("one QP against a full port, slower", &unequal, back(15.9), LOW),
        ("one QP beside others that could fill the port", &beside, to_b(40.0), LOW),
    ];
    for (name, workload, sample, expected) in table {
        check(name, workload, &one, &steady(sample), expected);
    }
    check("nobody knows", &short(1), &bounds(), &steady(&to_b(16.1)), LOW);
}

#[test]
fn a_vector_that_fills_one_direction_is_not_low_in_the_other() {
    let request = |op, bytes| Request { op, sge: vec![Bytes(bytes)] };
    let mixed = |way| {
        let pattern = vec![request(Opcode::Read, 65536), request(Opcode::Send, 1 << 20)];
        Flow { pattern, ..flow(way, Opcode::Write, 8, 128, 64) }
    };
    let pure = flow(B_TO_A, Opcode::Write, 8, 128, 65536);
    let alone = Workload::new(vec![mixed(A_TO_B)]);
    let opposed = Workload::new(vec![mixed(A_TO_B), mixed(B_TO_A)]);
    let beside = Workload::new(vec![mixed(A_TO_B), pure]);
    let filled = Workload::new(vec![mixed(A_TO_B), flow(A_TO_B, Opcode::Write, 8, 128, 65536)]);
    let both = |there: f64, back: f64| sample(&[(A_TO_B, there, there * 0.03), (B_TO_A, back, back * 0.03)]);
    let received = |sample: Sample, ratio| counting(sample, Host::B, RECEIVE_QUEUE_FULL, ratio);
    let table: &[(&str, &Workload, Sample, &[Symptom])] = &[
        ("SENDs fill one way", &alone, both(161.0, 10.0), &[]),
        ("nothing is full", &alone, both(159.0, 9.0), LOW),
        ("WRITEs beside could fill the other way", &beside, both(161.0, 10.0), LOW),
        ("WRITEs beside fill the way of SENDs", &filled, both(161.0, 5.5), &[]),
        ("WRITEs beside fill it, and READs hang", &filled, both(161.0, 0.0), LOW),
        ("both ways are full", &opposed, both(161.0, 161.0), &[]),
        ("one of two", &opposed, both(161.0, 40.0), &[]),
        ("SENDs find no receive, so READs wait", &alone, received(both(50.0, 3.0), 0.4), &[]),
        ("SENDs find one", &alone, received(both(50.0, 3.0), 0.6), LOW),
        ("WRITEs beside wait for no receive", &beside, received(both(50.0, 3.0), 0.4), LOW),
    ];
    for (name, workload, sample, expected) in table {
        check(name, workload, &bounds(), &steady(sample), expected);
    }
}

#[test]
fn a_verdict_names_the_bound_that_a_direction_is_nearest_to() {
    let qp = QpTimes { message_seconds: 50e-9, element_seconds: 0.0, packet_seconds: 0.0 };
    let all = Bounds {
        max_pcie_bps: Some(252e9),
        max_pcie_reads_per_sec: Some(300e6),
        qp: Some(qp),
        ..bounds().with_base_rtt(2e-6)
    };
    let of = |qps, depth, bytes: u64, elements| {
        let mut flow = flow(A_TO_B, Opcode::Write, qps, depth, bytes);
        flow.pattern[0].sge = vec![Bytes(bytes); elements];
        flow
    };
    let request = |op, bytes| Request { op, sge: vec![Bytes(bytes)] };
    let pattern = vec![request(Opcode::Read, 64), request(Opcode::Write, 1 << 20)];
    let there = Direction { from: Host::A, to: Host::B };
    let mixed = Flow { pattern, ..of(8, 128, 64, 1) };
    let long = |directions: &[_]| {
        let mut seen = sample(directions);
        seen.directions.iter_mut().for_each(|rates| rates.messages_per_sec = 20e3);
        seen
    };
    let table = [
        (of(8, 128, 65536, 1), long(&[(A_TO_B, 190.0, 22.0)]), Limit::Wire),
        (of(8, 128, 64, 1), sample(&[(A_TO_B, 110.0, 95.0)]), Limit::Packets),
        (of(8, 128, 8, 16), sample(&[(A_TO_B, 30.0, 18.0)]), Limit::PcieReads),
        (of(8, 128, 250, 16), sample(&[(A_TO_B, 60.0, 7.0)]), Limit::PcieLink),
        (of(1, 1, 64, 1), sample(&[(A_TO_B, 0.5, 0.45)]), Limit::Queues),
        (of(2, 128, 64, 1), sample(&[(A_TO_B, 40.0, 38.0)]), Limit::Qps),
        (mixed, long(&[(A_TO_B, 190.0, 22.0), (B_TO_A, 0.1, 0.02)]), Limit::Wire),
    ];
    for (flow, sample, expected) in table {
        let held = held_against(&Workload::new(vec![flow]), &all, &steady(&sample));
        assert!(!held.is_empty());
        for (way, attained) in held {
            assert_eq!((attained.limit, attained.of), (expected, there), "{way:?} {attained:?}");
        }
    }
}

#[test]
fn a_shallow_queue_is_no_anomaly() {
    let rtt = bounds().with_base_rtt(2e-6);
    let of_flow = |op, qps, depth, message| Workload::new(vec![flow(A_TO_B, op, qps, depth, message)]);
    let stop_and_wait = {
        let mut flow = flow(A_TO_B, Opcode::Write, 1, 16, 65536);
        flow.batch.send = 16;
        Workload::new(vec![flow])
    };
    let by_twelve = {
        let mut flow = flow(A_TO_B, Opcode::Write, 1, 16, 512);
        flow.batch.send = 12;
        Workload::new(vec![flow])
    };
    let to_b = |gbps, mpps| sample(&[(A_TO_B, gbps, mpps)]);
    let to_a = |gbps, mpps| sample(&[(B_TO_A, gbps, mpps)]);
    let reads = |host| counting(to_a(35.0, 7.4), host, OUTSTANDING_READS, 126.0);
    // One 512 B message at a time and 2 us for each: 2.35 Gbit/s, 0.49 million packets a second.
    let table: &[(&str, &Workload, Sample, &[Symptom])] = &[
        ("one outstanding", &of_flow(Opcode::Write, 1, 1, 512), to_b(2.2, 0.45), &[]),
        ("one outstanding, slower than that", &of_flow(Opcode::Write, 1, 1, 512), to_b(1.5, 0.32), LOW),
        ("128 outstanding", &of_flow(Opcode::Write, 1, 128, 512), to_b(60.0, 13.0), LOW),
        // 64 KiB take 2.8 us on the wire: one at a time reaches 117 Gbit/s, two reach the line.
        ("a long message, one outstanding", &of_flow(Opcode::Write, 1, 1, 65536), to_b(110.0, 12.0), &[]),
        ("long messages, two outstanding", &of_flow(Opcode::Write, 1, 2, 65536), to_b(110.0, 12.0), LOW),
        // 16 long messages and then a round trip: 192 Gbit/s instead of 200.
        ("a whole queue at a time", &stop_and_wait, to_b(155.0, 18.0), &[]),
        ("a whole queue at a time, slower than that", &stop_and_wait, to_b(150.0, 17.0), LOW),
        // 12 of the 16 that the queue might hold: 25 Gbit/s.
        ("whole batches", &by_twelve, to_b(21.0, 4.4), &[]),
        ("whole batches, slower than that", &by_twelve, to_b(19.0, 4.0), LOW),
        // 16 READs of 512 B in 2 us: 38 Gbit/s, whatever the send queue holds.
        ("READs outstanding", &of_flow(Opcode::Read, 1, 128, 512), to_a(35.0, 7.4), &[]),
        ("READs outstanding, slower than that", &of_flow(Opcode::Read, 1, 128, 512), to_a(25.0, 5.5), LOW),
        // Where 126 may be outstanding they fill the link.
        ("as many READs as the device has", &of_flow(Opcode::Read, 1, 128, 512), reads(Host::A), LOW),
        ("the other host's READs", &of_flow(Opcode::Read, 1, 128, 512), reads(Host::B), &[]),
        ("many QPs fill the link", &of_flow(Opcode::Read, 16, 128, 512), to_a(35.0, 7.4), LOW),
    ];
    for (name, workload, sample, expected) in table {
        check(name, workload, &rtt, &steady(sample), expected);
    }
    let mut short_receive = of_flow(Opcode::Send, 1, 128, 512);
    short_receive.flows[0].wq_depth.recv = 1;
    check("one receive", &short_receive, &rtt, &steady(&to_b(2.2, 0.45)), &[]);
    check("without a calibrated round trip", &short_receive, &bounds(), &steady(&to_b(2.2, 0.45)), LOW);
}

#[test]
fn unstable_traffic_says_nothing_unless_every_sample_agrees() {
    let at = |rates: &[f64]| of(rates.iter().map(|gbps| sample(&[(A_TO_B, *gbps, 10.0)])).collect());
    let one = write(A_TO_B);
    check("steady", &one, &bounds(), &at(&[190.0, 192.0, 188.0, 191.0]), &[]);
    check("10 % around the line is stable", &one, &bounds(), &at(&[150.0, 175.0, 180.0, 185.0]), &[]);
    check("always low", &one, &bounds(), &at(&[20.0, 90.0, 40.0, 120.0]), LOW);
    for rates in [[190.0, 100.0, 190.0, 190.0], [190.0, 190.0, 190.0, 0.0], [300.0, 170.0, 190.0, 165.0]] {
        let assessment = assess(&one, &bounds(), &at(&rates));
        assert_eq!(assessment.verdict, Verdict::Inconclusive, "{rates:?}");
        assert!(
            matches!(assessment.inconclusive, Some(Inconclusive::Unstable { deviation }) if deviation > 0.1),
            "{rates:?}"
        );
    }
}

#[test]
fn a_gap_in_the_measurement_is_no_anomaly() {
    let table = [
        of(Vec::new()),
        steady(&sample(&[])),
        steady(&sample(&[(A_TO_B, 198.0, 23.0)])),
        of(vec![sample(&[(A_TO_B, 1.0, 1.0), (B_TO_A, 1.0, 1.0)]), sample(&[(A_TO_B, 1.0, 1.0)])]),
    ];
    for measurement in &table {
        let assessment = assess(&both_ways(), &bounds(), measurement);
        assert_eq!(assessment, Assessment::of_nothing(Inconclusive::NoSamples), "{measurement:?}");
    }
}

#[test]
fn assessments_have_a_stable_json_shape() {
    let anomalous = Assessment::of_symptoms(vec![Symptom::Pause, Symptom::LowThroughput]);
    let unstable = Assessment::of_nothing(Inconclusive::Unstable { deviation: 0.5 });
    let table = [
        (anomalous, r#"{"verdict":"anomalous","symptoms":["pause","low_throughput"]}"#),
        (unstable, r#"{"verdict":"inconclusive","symptoms":[],"inconclusive":{"why":"unstable","deviation":0.5}}"#),
    ];
    for (assessment, expected) in table {
        let text = serde_json::to_string(&assessment).expect("plain data");
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Assessment>(&text).expect("its own output"), assessment);
    }
    let counters: BTreeMap<String, f64> = BTreeMap::new();
    let text = serde_json::to_string(&PerHost { a: counters.clone(), b: counters }).expect("plain data");
    assert_eq!(text, r#"{"a":{},"b":{}}"#);
}

#[test]
fn an_application_that_pauses_is_no_anomaly() {
    let mut workload = write(A_TO_B);
    // 8 QPs with a message of 64 KiB every 50 us: 84 Gbit/s.
    workload.flows[0].interarrival_ns = 50_000;
    for (gbps, expected) in [(84.0, &[][..]), (60.0, LOW)] {
        let seen = steady(&sample(&[(A_TO_B, gbps, gbps * 0.122)]));
        check("a pause", &workload, &bounds().with_base_rtt(2e-6), &seen, expected);
    }
}

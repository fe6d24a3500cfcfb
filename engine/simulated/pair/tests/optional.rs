//! Optional dimensions: what inline data and pauses change in the simulated subsystem, and what they leave alone.

use kelpie_engine::{MeasureError, Subsystem as _};
use kelpie_monitor::{Measurement, Verdict, assess};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Bytes, Device, Flow, Host, Opcode, Request, Workload};

/// One QP that waits for each of its messages.
fn one_by_one(op: Opcode, message: u64) -> Flow {
    let mut flow = Flow::plain(Host::A, Host::B);
    (flow.qps, flow.wq_depth.send) = (1, 1);
    flow.pattern = vec![Request { op, sge: vec![Bytes(message)] }];
    flow
}

fn measured(flow: &Flow) -> Result<Measurement, MeasureError> {
    let mut subsystem = SimSubsystem::load("F").expect("an embedded model");
    subsystem.measure(&Workload::new(vec![flow.clone()]))
}

/// Units: messages/s.
fn rate(flow: &Flow) -> f64 {
    let sample = measured(flow).expect("F has this memory").mean().expect("there are samples");
    sample.directions[0].packets_per_sec
}

#[test]
fn inline_data_come_with_the_wqe() {
    for op in [Opcode::Write, Opcode::Send] {
        let plain = one_by_one(op, 64);
        let inline = Flow { inline: Bytes(64), ..plain.clone() };
        let gained = 1e9 / rate(&plain) - 1e9 / rate(&inline);
        assert!((500.0..650.0).contains(&gained), "{op}: {gained} ns are no PCIe read, which takes 550 ns");
    }
}

#[test]
fn what_is_longer_or_comes_back_is_not_inline() {
    for (op, message) in [(Opcode::Write, 65), (Opcode::Read, 64)] {
        let plain = one_by_one(op, message);
        let inline = Flow { inline: Bytes(64), ..plain.clone() };
        assert_eq!(measured(&plain).expect("F has it"), measured(&inline).expect("F has it"), "{op} of {message} B");
    }
}

#[test]
fn the_memory_of_a_gpu_cannot_be_copied_into_a_wqe() {
    let mut flow = one_by_one(Opcode::Write, 64);
    flow.memory.from.device = Device::Gpu(0);
    assert!(measured(&flow).is_ok());
    flow.inline = Bytes(64);
    assert!(matches!(measured(&flow), Err(MeasureError::Unsupported { .. })));
}

#[test]
fn a_pause_bounds_the_rate_of_each_qp_and_is_no_anomaly() {
    let mut subsystem = SimSubsystem::load("F").expect("an embedded model");
    for (qps, batch, interarrival_ns, expected) in [(1, 1, 10_000, 0.1), (16, 1, 10_000, 1.6), (16, 8, 40_000, 3.2)] {
        let mut flow = Flow { qps, interarrival_ns, ..one_by_one(Opcode::Write, 4096) };
        (flow.wq_depth.send, flow.batch.send) = (64, batch);
        let workload = Workload::new(vec![flow]);
        let measurement = subsystem.measure(&workload).expect("F has this memory");
        let millions = measurement.mean().expect("there are samples").directions[0].packets_per_sec / 1e6;
        assert!((millions / expected - 1.0).abs() < 0.05, "{qps} QPs, batches of {batch}: {millions} M/s");
        let assessment = assess(&workload, &subsystem.bounds(), &measurement);
        assert_eq!(assessment.verdict, Verdict::Healthy, "{assessment:?}");
    }
}

#[test]
fn a_pause_shorter_than_posting_changes_nothing() {
    let plain = Flow { qps: 4, ..one_by_one(Opcode::Write, 64) };
    let paced = Flow { interarrival_ns: 1, ..plain.clone() };
    assert_eq!(measured(&plain).expect("F has it"), measured(&paced).expect("F has it"));
}

/// Atomics of so many QPs whose MRs have this size.
fn atomics(qps: u32, mr_size: u64) -> Flow {
    let mut flow = Flow { qps, ..one_by_one(Opcode::FetchAdd, 8) };
    (flow.wq_depth.send, flow.memory.from.mr_size, flow.memory.to.mr_size) = (64, Bytes(mr_size), Bytes(mr_size));
    flow
}

#[test]
fn an_atomic_takes_as_long_as_a_read_of_as_many_bytes() {
    let [atomic, read] = [Opcode::CmpSwap, Opcode::Read].map(|op| 1e9 / rate(&one_by_one(op, 8)));
    assert!((atomic - read).abs() < 10.0, "{atomic} ns, a READ {read} ns");
}

#[test]
fn atomics_of_one_lock_come_one_after_the_other_whoever_asks() {
    // All MRs begin at the same place of a page, which is one lock: a read of memory, and a write of a part of a line.
    let one = rate(&atomics(1, 64));
    assert!((1.0e6..2.0e6).contains(&one), "{one}/s are not one each read and write of memory");
    let many = rate(&atomics(64, 64));
    assert!((many / one - 1.0).abs() < 0.1, "64 QPs: {many}/s, one: {one}/s");
    // Spread over a page, and over more QPs than share a lock.
    let spread = rate(&atomics(64, 4096));
    assert!(spread > 10.0 * one, "spread over a page: {spread}/s, one lock: {one}/s");
}

#[test]
fn atomics_on_their_way_count_as_reads() {
    // As many QPs as spread over all locks.
    let [atomic, read] = [Opcode::FetchAdd, Opcode::Read].map(|op| {
        let mut flow = atomics(1, 1 << 20);
        flow.pattern[0].op = op;
        rate(&flow)
    });
    // Responses of READs look their lists up again, which those of atomics do not: a quarter of the rate of one QP.
    assert!((1.0..1.4).contains(&(atomic / read)), "{atomic}/s atomics, {read}/s READs");
}

#[test]
fn atomics_and_other_requests_of_a_vector_all_go_on() {
    let mut flow = Flow { qps: 4, ..one_by_one(Opcode::FetchAdd, 8) };
    (flow.wq_depth.send, flow.batch.send) = (64, 4);
    for op in [Opcode::Read, Opcode::Write, Opcode::Send] {
        flow.pattern.push(Request { op, sge: vec![Bytes(2048), Bytes(100)] });
    }
    let measurement = measured(&flow).expect("F has this memory").mean().expect("there are samples");
    assert!(measurement.directions.iter().all(|way| way.messages_per_sec > 1e5), "{measurement:?}");
}

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
        assert!((700.0..900.0).contains(&gained), "{op}: {gained} ns are no PCIe read, which takes 800 ns");
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

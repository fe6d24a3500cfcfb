//! Traffic that a NIC could leave standing still, or reading the same lines again and again.

use kelpie_engine::Subsystem as _;
use kelpie_monitor::Sample;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Batch, Bytes, Depths, Flow, Host, Mtu, Opcode, QpType, Request, Workload};

/// Flows of so many QPs, with a path MTU, a depth and a batch of both queues, and messages.
fn flow([from, to]: [Host; 2], qps: u32, mtu: u64, [depth, batch]: [u32; 2], messages: &[(Opcode, u64)]) -> Flow {
    let request = |(op, bytes): &(Opcode, u64)| Request { op: *op, sge: vec![Bytes(*bytes)] };
    Flow {
        qps,
        mtu: Mtu::try_from(mtu).expect("a path MTU"),
        wq_depth: Depths { send: depth, recv: depth },
        batch: Batch { send: batch, recv: batch },
        pattern: messages.iter().map(request).collect(),
        ..Flow::plain(from, to)
    }
}

fn sample(flows: Vec<Flow>) -> Sample {
    let mut subsystem = SimSubsystem::load("F").expect("embedded");
    let workload = Workload::new(flows);
    kelpie_spaces::check(&workload).expect("a valid workload");
    subsystem.measure(&workload).expect("F has this memory").mean().expect("samples")
}

const A_TO_B: [Host; 2] = [Host::A, Host::B];

#[test]
fn what_comes_behind_a_read_at_the_end_of_a_batch_is_acknowledged() {
    let messages = [(Opcode::Read, 81_024), (Opcode::Write, 7000)];
    let sample = sample(vec![flow(A_TO_B, 1, 1024, [5, 5], &messages)]);
    let messages: f64 = sample.directions.iter().map(|direction| direction.messages_per_sec).sum();
    assert!(messages > 1e5, "{sample:?}");
}

#[test]
fn a_timer_of_requests_that_left_before_all_began_begins_when_one_is_seen() {
    let lossy = Flow { loss_ppm: 1, ..flow(A_TO_B, 1, 1024, [4, 4], &[(Opcode::Read, 100_000), (Opcode::Send, 64)]) };
    assert!(sample(vec![lossy]).directions.iter().all(|direction| direction.messages_per_sec > 1e4));
}

#[test]
fn room_for_payload_is_given_in_the_order_in_which_it_was_asked_for() {
    let small = flow(A_TO_B, 8, 256, [128, 1], &[(Opcode::Write, 5000)]);
    let large = Flow { qp_type: QpType::Ud, ..flow([Host::A; 2], 2, 4096, [3, 1], &[(Opcode::Send, 4096)]) };
    let sample = sample(vec![small, large]);
    let looped = sample.directions.iter().find(|direction| direction.from == direction.to).expect("it is loaded");
    assert!(looped.goodput_bps > 10e9, "{sample:?}");
}

#[test]
fn a_ring_that_fits_is_read_once() {
    for (qp_type, depth) in [(QpType::Ud, 4), (QpType::Ud, 16), (QpType::Rc, 64)] {
        let mut traffic = Flow { qp_type, ..flow(A_TO_B, 4, 1024, [depth, 1], &[(Opcode::Send, 512)]) };
        // No receive is used as soon as it is posted.
        traffic.wq_depth.send = depth / 2;
        let sample = sample(vec![traffic]);
        let (missed, messages) = (sample.counters.b["receive_wqe_cache_miss"], sample.directions[0].messages_per_sec);
        assert!(missed < 0.01 * messages, "{qp_type} of depth {depth}: {missed}/s of {messages}/s");
    }
}

#[test]
fn lists_that_are_read_ahead_are_those_of_reads() {
    let messages = [(Opcode::Read, 512), (Opcode::Write, 64)];
    let sample = sample(vec![flow(A_TO_B, 64, 1024, [128, 8], &messages)]);
    let read = sample.directions.iter().find(|direction| direction.from == Host::B).expect("READs load it");
    assert!(read.goodput_bps > 120e9, "{sample:?}");
}

//! Verdicts of traffic that a bound of its own limits: few QPs, lists, a vector that fills one direction.

use kelpie_agent::PairSubsystem;
use kelpie_engine::Subsystem;
use kelpie_monitor::{Symptom, held_against, measure_judged};
use kelpie_spaces::{Batch, Bytes, Flow, Host, Opcode, Request, Workload};

use super::in_lab;

/// Posted in such batches that its queues are full.
fn flow(qps: u32, pattern: Vec<Request>) -> Workload {
    let batch = Batch { send: 16, recv: 16 };
    Workload::new(vec![Flow { qps, pattern, batch, ..Flow::plain(Host::A, Host::B) }])
}

fn request(op: Opcode, elements: usize, element: u64) -> Request {
    Request { op, sge: vec![Bytes(element); elements] }
}

#[test]
#[ignore = "needs the lab"]
fn traffic_at_a_bound_is_not_low() {
    in_lab(|lab| {
        let mut pair = PairSubsystem::open(&lab.dir.join("pair.yaml")).expect("the lab calibrates its bounds");
        let bounds = pair.bounds();
        for workload in [
            flow(1, vec![request(Opcode::Write, 1, 64)]),
            flow(1, vec![request(Opcode::Send, 1, 2048)]),
            flow(1, vec![request(Opcode::Write, 16, 8)]),
            flow(8, vec![request(Opcode::Write, 12, 16)]),
            flow(4, vec![request(Opcode::Read, 1, 64), request(Opcode::Write, 1, 256 << 10)]),
        ] {
            let judged = measure_judged(&workload, &bounds, |workload, attempt| pair.measure_again(workload, attempt));
            let judged = judged.expect("the lab measures");
            let held = held_against(&workload, &bounds, &judged.measurement);
            let is_low = judged.assessment.symptoms.contains(&Symptom::LowThroughput);
            assert!(!is_low, "{workload:?}: {held:?} of {bounds:?}");
        }
        // A pair keeps what it may measure with next.
        drop(pair);
        lab.is_clean();
    });
}

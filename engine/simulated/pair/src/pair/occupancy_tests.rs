//! Time that work waits, and how much of it waits: Little's law at each queue, and times that add up.

use std::collections::BTreeMap;

use kelpie_nic::nic::Nic;
use kelpie_spaces::{Bytes, Flow, Opcode, Workload, known};

use super::*;
use crate::model::Model;
use crate::rings::Rings;
use crate::waits::Waits;

fn at_work(model: &Model, workload: &Workload) -> SimulatedPair {
    let rings = Rings::new(model, workload).expect("the hosts have this memory");
    let mut pair = SimulatedPair::new(model, rings, &vec![Queues::default(); workload.flows.len()]);
    run(&mut pair, 100_000);
    pair
}

/// Units: ns.
fn run(pair: &mut SimulatedPair, span: u64) {
    let mut events_left = u64::MAX;
    pair.run_until(pair.now + Picos::new(1000 * span), &mut events_left);
}

type Occupancy = BTreeMap<(String, String), f64>;

/// Waits at hosts since before by side and cause. Units: ns.
fn waited(pair: &SimulatedPair, hosts: &[Host], before: &[Waits; 2]) -> Occupancy {
    let mut all = Occupancy::new();
    for host in hosts.iter().map(|host| host.index()) {
        for (_, side, cause, span) in pair.around.waits[host].since(&before[host]) {
            *all.entry((format!("{side:?}"), format!("{cause:?}"))).or_default() += span.as_seconds() * 1e9;
        }
    }
    all
}

#[test]
fn as_much_waits_at_a_queue_as_comes_there_times_how_long_it_stays() {
    /// Units: ns.
    const STEP: u64 = 50;
    const STEPS: u64 = 20_000;
    for id in [2, 4, 6, 7, 8, 15, 16, 17] {
        let model = Model::load(if id <= 13 { "F" } else { "H" }).expect("embedded");
        let mut pair = at_work(&model, &known::anomaly(id).expect("18 anomalies").trigger.workload());
        let (before, mut seen) = (pair.around.waits.clone(), Occupancy::new());
        for _ in 0..STEPS {
            run(&mut pair, STEP);
            for (side, cause) in pair.nics.iter().flat_map(Nic::waiting) {
                *seen.entry((format!("{side:?}"), format!("{cause:?}"))).or_default() += STEP as f64;
            }
        }
        let booked = waited(&pair, &Host::BOTH, &before);
        let all: f64 = seen.values().sum();
        // A wait is booked when it ends, and with 500 QPs that READ it takes longer than is looked on here.
        let ends = |queue: &str| id != 16 || queue != "ReadWindow";
        for (queue, seen) in seen.iter().filter(|(queue, seen)| **seen > 0.02 * all && ends(&queue.1)) {
            let booked = booked.get(queue).copied().unwrap_or_default();
            assert!((booked / seen - 1.0).abs() < 0.05, "{id} {queue:?}: {seen:.0} ns seen, {booked:.0} ns booked");
        }
    }
}

#[test]
fn the_times_of_a_message_add_up_to_the_time_from_one_to_the_next() {
    let model = Model::load("F").expect("embedded");
    for (op, bytes) in [(Opcode::Write, 64), (Opcode::Write, 4096), (Opcode::Send, 64), (Opcode::Read, 64)] {
        let mut flow = Flow { qps: 1, ..Flow::plain(Host::A, Host::B) };
        (flow.wq_depth.send, flow.batch.send, flow.pattern[0].op) = (1, 1, op);
        flow.pattern[0].sge = vec![Bytes(bytes)];
        let mut pair = at_work(&model, &Workload::new(vec![flow]));
        let (before, seen) = (pair.around.waits.clone(), pair.around.apps[0][0].seen);
        run(&mut pair, 1_000_000);
        let messages = (pair.around.apps[0][0].seen - seen) as f64;
        let each = 1e6 / messages;
        let waits = waited(&pair, &[Host::A], &before);
        let turn: f64 =
            waits.iter().filter(|((side, cause), _)| side == "Send" && in_turn(cause)).map(|row| row.1).sum();
        assert!((turn / messages / each - 1.0).abs() < 0.002, "{op} of {bytes} B: {each} ns, of which {waits:?}");
    }
}

/// What a QP waits for in its turn, and between its turns; the rest is work of bursts that left it.
fn in_turn(cause: &str) -> bool {
    !cause.starts_with("Gather") && !cause.starts_with("Wire")
}

//! Traffic that is at a bound is never low, and every bound of a model can be reached.
//!
//! `KELPIE_POINTS=200 KELPIE_SEED=7 cargo test --release -p kelpie-sim --test bounds -- --ignored --nocapture` draws
//! others.

use std::fmt::Write as _;

use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Limit, Symptom, held_against, measure_judged};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Batch, Bytes, Flow, Host, Mtu, Opcode, QpType, Request, Workload, check, workload_to_yaml};
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_pcg::Pcg32;

/// Draws traffic that some bound limits on every sound NIC.
type Draw = fn(&mut Pcg32) -> Workload;

const KINDS: [(&str, Draw); 4] =
    [("mixes", mixes), ("unequal flows", unequal_flows), ("few QPs", few_qps), ("lists", lists)];

fn plain(from: Host, qps: u32) -> Flow {
    Flow { qps, batch: Batch { send: 16, recv: 16 }, ..Flow::plain(from, from.peer()) }
}

fn one_of<T: Copy>(random: &mut impl Rng, all: &[T]) -> T {
    all[random.random_range(0..all.len())]
}

/// READs beside SENDs or WRITEs in one vector, of any lengths.
fn mixes(random: &mut Pcg32) -> Workload {
    let other = one_of(random, &[Opcode::Send, Opcode::Write]);
    let mut request = |op| Request { op, sge: vec![Bytes(1 << random.random_range(12..=20))] };
    let pattern = vec![request(Opcode::Read), request(other), request(other)];
    Workload::new(vec![Flow { pattern, ..plain(Host::A, 8) }])
}

/// A full port one way, and few QPs of short messages back.
fn unequal_flows(random: &mut Pcg32) -> Workload {
    let few = few_qps(random).flows.remove(0);
    Workload::new(vec![plain(Host::B, 8), few])
}

/// Too few QPs to fill the port.
fn few_qps(random: &mut Pcg32) -> Workload {
    let op = one_of(random, &[Opcode::Send, Opcode::Write]);
    let flow = Flow {
        qp_type: one_of(random, &[QpType::Rc, QpType::Uc]),
        mtu: one_of(random, &Mtu::ALL),
        pattern: vec![Request { op, sge: vec![Bytes(1 << random.random_range(3..=13))] }],
        ..plain(Host::A, random.random_range(1..=4))
    };
    Workload::new(vec![flow])
}

/// Lists of short elements.
fn lists(random: &mut Pcg32) -> Workload {
    let sge = vec![Bytes(1 << random.random_range(3..=8)); random.random_range(2..=16)];
    let pattern = vec![Request { op: Opcode::Write, sge }];
    Workload::new(vec![Flow { pattern, ..plain(Host::A, one_of(random, &[1, 2, 4, 8, 16, 32])) }])
}

fn number(key: &str, otherwise: u64) -> u64 {
    std::env::var(key).map_or(otherwise, |value| value.parse().expect("a number"))
}

/// What is low of so many of each kind.
fn low(model: &str, each: u64, seed: u64) -> String {
    let mut subsystem = SimSubsystem::load(model).expect("embedded");
    let bounds = subsystem.bounds();
    let mut text = String::new();
    for (name, draw) in KINDS {
        let mut random = Pcg32::seed_from_u64(seed);
        for _ in 0..each {
            let workload = draw(&mut random);
            check(&workload).expect("valid");
            let judged =
                measure_judged(&workload, &bounds, |workload, attempt| subsystem.measure_again(workload, attempt))
                    .expect("it runs");
            if judged.assessment.symptoms.contains(&Symptom::LowThroughput) {
                let held = held_against(&workload, &bounds, &judged.measurement);
                let _ = writeln!(
                    text,
                    "{model}, {name}: {held:?}, limited by {}\n{}",
                    subsystem.limiting(),
                    workload_to_yaml(&workload)
                );
            }
        }
    }
    text
}

#[test]
fn traffic_at_a_bound_is_never_low() {
    let low = low("F", 4, 1);
    assert!(low.is_empty(), "{low}");
}

#[test]
#[ignore = "a minute; the long suite"]
fn traffic_at_a_bound_is_never_low_on_any_model() {
    let (points, seed) = (number("KELPIE_POINTS", 30), number("KELPIE_SEED", 20_261_128));
    let low: String = SimSubsystem::names().map(|model| low(model, points, seed)).concat();
    assert!(low.is_empty(), "{low}");
}

#[test]
fn simple_traffic_reaches_the_bounds_of_every_model_but_one_that_contradicts_itself() {
    for name in SimSubsystem::names() {
        let subsystem = SimSubsystem::load(name).expect("embedded");
        assert_eq!(subsystem.unreached(), [], "{name}");
    }
    let mut slow = SimSubsystem::load("H").expect("embedded");
    slow.set("processing.pipeline_packet_ns", "62").expect("a number");
    let unreached = slow.unreached();
    assert!(matches!(unreached[..], [(Limit::Packets, share)] if (0.6..0.8).contains(&share)), "{unreached:?}");
}

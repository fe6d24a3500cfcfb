//! Bonded hosts: what meets on one port or crosses between the leaves is slow, and the plan is its cure.

use kelpie_engine::{MeasureError, Subsystem as _};
use kelpie_monitor::{Measurement, Symptom, Verdict, assess};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Flow, Host, Opcode, Ports, Workload};

fn measured(flows: Vec<Flow>) -> (Measurement, Verdict, Vec<Symptom>) {
    let mut subsystem = SimSubsystem::load("DUAL").expect("it comes along");
    let workload = Workload::new(flows);
    let measurement = subsystem.measure(&workload).expect("it has this memory");
    let assessment = assess(&workload, &subsystem.bounds(), &measurement);
    (measurement, assessment.verdict, assessment.symptoms)
}

fn gbps(measurement: &Measurement) -> f64 {
    measurement.mean().expect("samples").directions.iter().map(|rates| rates.goodput_bps / 1e9).sum()
}

fn flow(ports: Ports, qps: u32) -> Flow {
    Flow { ports, qps, ..Flow::plain(Host::A, Host::B) }
}

#[test]
fn a_collision_and_a_crossing_are_slow_and_a_plan_is_not() {
    for qps in [2, 8, 64] {
        let (one, verdict, symptoms) = measured(vec![flow(Ports::One, qps)]);
        assert!((90.0..100.0).contains(&gbps(&one)), "{qps}: one port of two carries {} Gbit/s", gbps(&one));
        assert_eq!(verdict, Verdict::Anomalous, "{symptoms:?}");
        let (crossed, verdict, symptoms) = measured(vec![flow(Ports::Crossed, qps)]);
        // Both ways of the trunk.
        assert!((90.0..100.0).contains(&gbps(&crossed)), "{qps}: {} Gbit/s", gbps(&crossed));
        assert_eq!(verdict, Verdict::Anomalous, "{symptoms:?}");
        let pause = crossed.mean().expect("samples").pause.expect("counted");
        assert!(pause.a.rx > 0.2, "leaves hold the sender for {}", pause.a.rx);
        let (planned, verdict, symptoms) = measured(vec![flow(Ports::Planned, qps)]);
        assert!(gbps(&planned) > 185.0, "{qps}: {} Gbit/s", gbps(&planned));
        assert_eq!(verdict, Verdict::Healthy, "{symptoms:?}");
    }
}

#[test]
fn what_the_leaves_hold_is_named() {
    let mut subsystem = SimSubsystem::load("DUAL").expect("it comes along");
    let mut limiting = |ports: Ports| {
        subsystem.measure(&Workload::new(vec![flow(ports, 8)])).expect("it runs");
        subsystem.limiting().to_owned()
    };
    assert_eq!([Ports::Crossed, Ports::One].map(&mut limiting), ["leaves:RC_WRITE", "wire:RC_WRITE"]);
}

#[test]
fn a_plan_is_healthy_in_both_directions_and_with_every_operation() {
    for op in [Opcode::Write, Opcode::Send, Opcode::Read] {
        let mut there = flow(Ports::Planned, 8);
        there.pattern[0].op = op;
        let (_, verdict, symptoms) = measured(vec![there.clone(), there.mirrored()]);
        assert_eq!(verdict, Verdict::Healthy, "{op}: {symptoms:?}");
    }
}

#[test]
fn unsteered_qps_get_what_their_hashes_leave_them() {
    // Two QPs: half of all pairs of hashes collide at one end or cross; the mean is far below two ports.
    let mean = (0..8).map(|seed| {
        let mut subsystem = SimSubsystem::load("DUAL").expect("it comes along");
        subsystem.set("bond.hash_seed", &seed.to_string()).expect("a seed");
        gbps(&subsystem.measure(&Workload::new(vec![flow(Ports::Hashed, 2)])).expect("it runs"))
    });
    let all: Vec<f64> = mean.collect();
    let (least, most) = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
    assert!(least < 105.0 && most > 120.0, "{all:?}");
}

#[test]
fn equal_seeds_give_equal_bytes_and_one_port_has_no_choice() {
    let [first, second] = [0; 2].map(|_| measured(vec![flow(Ports::Hashed, 16)]).0);
    assert_eq!(first, second);
    let mut single = SimSubsystem::load("F").expect("embedded");
    let refused = single.measure(&Workload::new(vec![flow(Ports::Planned, 2)])).expect_err("one port");
    assert!(matches!(&refused, MeasureError::Unsupported { reason } if reason.contains("one port")), "{refused}");
}

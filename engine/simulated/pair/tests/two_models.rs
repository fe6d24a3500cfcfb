//! Two hosts with models of their own: the slower one limits, where it is on the way of the traffic.

use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Measurement, PerHost, Sample};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Bytes, Flow, Host, Opcode, Request, Workload};

fn f(sets: &[(&str, &str)]) -> SimSubsystem {
    let mut model = SimSubsystem::load("F").expect("embedded");
    for (path, value) in sets {
        model.set(path, value).expect("F has it");
    }
    model
}

fn pair(a: &[(&str, &str)], b: &[(&str, &str)]) -> SimSubsystem {
    f(a).with_peer(&f(b)).expect("one port each")
}

fn plain(from: Host, op: Opcode) -> Workload {
    let pattern = vec![Request { op, sge: vec![Bytes(64 << 10)] }];
    Workload::new(vec![Flow { qps: 8, pattern, ..Flow::plain(from, from.peer()) }])
}

fn measured(pair: &mut SimSubsystem, workload: &Workload) -> Measurement {
    pair.measure(workload).expect("F runs it")
}

/// Goodput of the only direction in Gbit/s, and the mean of all.
fn seen(pair: &mut SimSubsystem, from: Host, op: Opcode) -> (f64, Sample) {
    let mean = measured(pair, &plain(from, op)).mean().expect("it has samples");
    (mean.directions[0].goodput_bps / 1e9, mean)
}

const SLOW_CABLE: &[(&str, &str)] = &[("port.line_rate_gbps", "50")];
/// PCIe 3.0 x8.
const SLOW_PCIE: &[(&str, &str)] = &[("pcie.gbps", "63")];

#[test]
fn equal_models_are_one_model() {
    for from in Host::BOTH {
        let workload = plain(from, Opcode::Send);
        let (mut alone, mut two) = (f(&[]), pair(&[], &[]));
        assert_eq!(measured(&mut alone, &workload), measured(&mut two, &workload));
        assert_eq!(alone.bounds(), two.bounds());
    }
}

#[test]
fn a_slow_cable_limits_both_ways_and_the_faster_sender_is_paused() {
    let mut slow_b = pair(&[], SLOW_CABLE);
    assert!((slow_b.bounds().max_bps - 50e9).abs() < 1.0);
    for op in [Opcode::Write, Opcode::Read, Opcode::Send] {
        for from in Host::BOTH {
            let (gbps, mean) = seen(&mut slow_b, from, op);
            assert!((46.0..50.0).contains(&gbps), "{op} from {from}: {gbps}");
            let pause = mean.pause.expect("models know it");
            let payload_from = mean.directions[0].from;
            assert_eq!(pause.a.rx > 0.2, payload_from == Host::A, "the switch holds who is too fast: {op} {pause:?}");
            assert!(pause.b.rx < 0.01, "{op} {pause:?}");
        }
    }
}

#[test]
fn a_slow_pcie_link_limits_the_sender_and_makes_the_receiver_pause() {
    let mut slow_b = pair(&[], SLOW_PCIE);
    let (sends, sender) = seen(&mut slow_b, Host::B, Opcode::Write);
    let (receives, at_receiver) = seen(&mut slow_b, Host::A, Opcode::Write);
    assert!((40.0..63.0).contains(&sends) && (40.0..63.0).contains(&receives), "{sends} {receives}");
    let PerHost { a, b } = sender.pause.expect("models know it");
    assert!([a.tx, a.rx, b.tx, b.rx].iter().all(|ratio| *ratio < 0.01), "a slow sender pauses nobody: {a:?} {b:?}");
    let PerHost { a, b } = at_receiver.pause.expect("models know it");
    assert!(b.tx > 0.3 && a.tx < 0.01, "the receiver asks for silence: {a:?} {b:?}");
    let (healthy, _) = seen(&mut pair(&[], &[]), Host::A, Opcode::Write);
    assert!(healthy > 180.0, "{healthy}");
}

#[test]
fn mirrored_hosts_and_traffic_give_a_mirrored_result() {
    for slow in [SLOW_CABLE, SLOW_PCIE] {
        for op in [Opcode::Write, Opcode::Read, Opcode::Send] {
            let (there, sample) = seen(&mut pair(&[], slow), Host::A, op);
            let (back, mirrored) = seen(&mut pair(slow, &[]), Host::B, op);
            assert!((there - back).abs() < 1e-9, "{op}: {there} {back}");
            assert_eq!((sample.counters.a, sample.counters.b), (mirrored.counters.b, mirrored.counters.a));
        }
    }
}

#[test]
fn each_flow_has_its_part_of_the_traffic() {
    let mut workload = plain(Host::A, Opcode::Write);
    workload.flows.extend(plain(Host::A, Opcode::Read).flows);
    workload.flows.push(Flow { qps: 24, ..workload.flows[0].clone() });
    workload.flows.push(Flow::plain(Host::B, Host::B));
    let traffic = f(&[]).traffic(&workload).expect("F runs it");
    let of = |from, to| traffic.mean.direction(from, to).expect("it is loaded").goodput_bps / 8.0;
    let close = |sum: f64, all: f64| assert!((sum / all - 1.0).abs() < 0.01, "{sum} of {all}");
    let flows = &traffic.flows;
    close(flows[0][0] + flows[2][0], of(Host::A, Host::B));
    close(flows[1][1], of(Host::B, Host::A));
    close(flows[3][0], of(Host::B, Host::B));
    assert!([flows[0][1], flows[1][0], flows[2][1], flows[3][1]].iter().all(|nothing| *nothing <= 0.0), "{flows:?}");
    assert!(flows[2][0] > 2.0 * flows[0][0], "more QPs have more: {flows:?}");
}

#[test]
fn hosts_with_and_without_a_second_port_are_no_pair() {
    let dual = SimSubsystem::load("DUAL").expect("shipped");
    assert!(f(&[]).with_peer(&dual).is_err());
    assert!(dual.clone().with_peer(&dual).is_ok());
}

//! Agents whose hosts are models, over the real protocol on loopback: what pairs of them measure, and how they fail.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::Duration;

use kelpie_agent::{PairFile, PairSubsystem};
use kelpie_engine::plan::plan;
use kelpie_engine::verbs_host::{GroupEndpoint, HostError, Port, VerbsHost as _};
use kelpie_engine::{MeasureError, Subsystem as _, chain};
use kelpie_examine::simulated_host::{FaultKind, FleetAgent, SimulatedFault, SimulatedFleet, SimulatedHost};
use kelpie_monitor::{Measurement, Sample};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Bytes, Flow, Host, Opcode, QpType, Request, Workload};

fn f(sets: &[(&str, &str)]) -> SimSubsystem {
    let mut model = SimSubsystem::load("F").expect("embedded");
    for (path, value) in sets {
        model.set(path, value).expect("F has it");
    }
    model
}

fn agent(model: SimSubsystem, fault: Option<&str>) -> FleetAgent {
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    FleetAgent { listen, model, fault: fault.map(|fault| fault.parse().expect("a fault")) }
}

fn pair_of(a: SocketAddr, b: SocketAddr) -> PairSubsystem {
    let text = format!(
        "kelpie: pair/1\nname: simulated\nhosts:\n  a: {{agent: \"{a}\"}}\n  b: {{agent: \"{b}\"}}\n\
         bounds: {{max_bps: 2e11, max_pps: 2e8}}\nsession: {{warm_up_ms: 100, sample_ms: 20, samples: 4, drain_ms: 10}}\n"
    );
    let file = PairFile::from_yaml(Path::new("pair.yaml"), &text).expect("a pair");
    PairSubsystem::of(file).expect("both answer")
}

/// A pair of these hosts; the fleet ends with the value.
fn pair(a: FleetAgent, b: FleetAgent) -> (SimulatedFleet, PairSubsystem) {
    let fleet = SimulatedFleet::serve([a, b]).expect("loopback");
    let addresses: Vec<SocketAddr> = fleet.addresses().collect();
    let pair = pair_of(addresses[0], addresses[1]);
    (fleet, pair)
}

fn flow(from: Host, qp_type: QpType, ops: &[(Opcode, u64)]) -> Flow {
    let pattern = ops.iter().map(|(op, size)| Request { op: *op, sge: vec![Bytes(*size)] }).collect();
    Flow { qps: 8, qp_type, pattern, ..Flow::plain(from, from.peer()) }
}

fn write() -> Workload {
    Workload::new(vec![flow(Host::A, QpType::Rc, &[(Opcode::Write, 64 << 10)])])
}

fn mean(measurement: &Measurement) -> Sample {
    assert!(measurement.hardware_events.is_empty(), "{measurement:?}");
    measurement.mean().expect("it has samples")
}

fn gbps(pair: &mut PairSubsystem, workload: &Workload) -> f64 {
    mean(&pair.measure(workload).expect("it is measured")).directions[0].goodput_bps / 1e9
}

/// All rates of both, which differ by 3 % at most.
fn agree(seen: &Sample, expected: &Sample) {
    let close = |what: &str, seen: f64, expected: f64, least: f64| {
        assert!((seen - expected).abs() <= 0.03 * expected.abs() + least, "{what}: {seen}, not {expected}");
    };
    assert_eq!(seen.directions.len(), expected.directions.len());
    for (seen, expected) in seen.directions.iter().zip(&expected.directions) {
        assert_eq!((seen.from, seen.to), (expected.from, expected.to));
        close("goodput", seen.goodput_bps, expected.goodput_bps, 1e6);
        close("messages", seen.messages_per_sec, expected.messages_per_sec, 1e3);
    }
    let pauses = |sample: &Sample| {
        let pause = sample.pause.expect("it is known");
        [pause.a.tx, pause.a.rx, pause.b.tx, pause.b.rx]
    };
    for (seen, expected) in pauses(seen).into_iter().zip(pauses(expected)) {
        close("pause", seen, expected, 1e-3);
    }
    for host in Host::BOTH {
        for (name, rate) in expected.counters.get(host) {
            close(name, seen.counters.get(host)[name], *rate, if *rate < 10.0 { 0.02 } else { 100.0 });
        }
    }
}

#[test]
fn two_agents_measure_what_one_simulated_subsystem_does() {
    let (_fleet, mut pair) = pair(agent(f(&[]), None), agent(f(&[]), None));
    let both_ways = Workload::new(vec![
        flow(Host::A, QpType::Rc, &[(Opcode::Send, 4096), (Opcode::Send, 512)]),
        flow(Host::A, QpType::Rc, &[(Opcode::Read, 16 << 10), (Opcode::Write, 64)]),
        flow(Host::B, QpType::Ud, &[(Opcode::Send, 2048)]),
    ]);
    let within = Workload::new(vec![
        Flow { to: Host::B, ..flow(Host::B, QpType::Rc, &[(Opcode::Write, 4096)]) },
        flow(Host::B, QpType::Rc, &[(Opcode::Write, 64)]),
    ]);
    for workload in [write(), both_ways, within, kelpie_spaces::known::anomaly(1).expect("of 18").trigger.workload()] {
        kelpie_spaces::check(&workload).expect("valid");
        let expected = f(&[("sampling.verdict_packets", "0")]).measure(&workload).expect("F runs it");
        agree(&mean(&pair.measure(&workload).expect("it is measured")), &mean(&expected));
    }
    let immediates = Workload::new(vec![flow(Host::A, QpType::Rc, &[(Opcode::SendWithImm, 64)])]);
    let refused = pair.measure(&immediates).expect_err("models have none");
    assert!(matches!(&refused, MeasureError::Unsupported { reason } if reason.contains("immediate")), "{refused:?}");
    assert!(gbps(&mut pair, &write()) > 180.0, "the pair goes on");
}

#[test]
fn a_slow_host_is_seen_from_both_ends_and_one_that_lies_reports_ten_times_the_work() {
    let slow = f(&[("port.line_rate_gbps", "50")]);
    let (_fleet, mut pair_of_slow) = pair(agent(f(&[]), None), agent(slow, None));
    for from in Host::BOTH {
        let workload = Workload::new(vec![flow(from, QpType::Rc, &[(Opcode::Write, 64 << 10)])]);
        let seen = gbps(&mut pair_of_slow, &workload);
        assert!((46.0..50.0).contains(&seen), "{from}: {seen}");
    }
    let (_fleet, mut lying) = pair(agent(f(&[]), Some("lie:1")), agent(f(&[]), None));
    let [honest, lie] = [(); 2].map(|()| gbps(&mut lying, &write()));
    assert!((lie / honest - 10.0).abs() < 0.3, "{honest} {lie}");
}

#[test]
fn an_agent_that_dies_in_traffic_is_named_and_so_is_one_that_is_killed() {
    let (_fleet, mut dying) = pair(agent(f(&[]), None), agent(f(&[]), Some("die:1")));
    assert!(gbps(&mut dying, &write()) > 180.0);
    let error = dying.measure(&write()).expect_err("it dies");
    assert!(matches!(error, MeasureError::Host { host: Host::B, .. }), "{}", chain(&error));
    let (fleet, mut killed) = pair(agent(f(&[]), None), agent(f(&[]), None));
    let ended = thread::scope(|scope| {
        let measuring = scope.spawn(|| killed.measure(&write()));
        thread::sleep(Duration::from_millis(60));
        fleet.kill(0);
        measuring.join().expect("no panic")
    });
    let error = ended.expect_err("it is gone");
    assert!(matches!(error, MeasureError::Host { host: Host::A, .. }), "{}", chain(&error));
}

#[test]
fn a_host_that_hangs_does_not_start() {
    let mut host = SimulatedHost::new(f(&[]), (Ipv4Addr::LOCALHOST, 1).into()).expect("an address");
    host = host.with_fault(Some("hang".parse().expect("a fault")));
    let within = Workload::new(vec![Flow::plain(Host::A, Host::A)]);
    let ends = host.set_up(&Port::default(), &plan(&within, Host::A)).expect("it is set up");
    host.connect(&ends).expect("it needs nobody");
    let starting = thread::spawn(move || host.start());
    thread::sleep(Duration::from_millis(150));
    assert!(!starting.is_finished());
}

#[test]
fn runs_differ_by_the_noise_of_the_model() {
    let noisy = || f(&[("sampling.noise", "0.05")]);
    let (_fleet, mut pair) = pair(agent(noisy(), None), agent(noisy(), None));
    let runs = [(); 4].map(|()| gbps(&mut pair, &write()));
    let (least, most) = runs.iter().fold((f64::MAX, 0.0_f64), |(least, most), run| (least.min(*run), most.max(*run)));
    assert!(most / least > 1.01 && most / least < 1.5, "{runs:?}");
}

#[test]
fn a_thousand_agents_share_few_threads() {
    let listen = |number: u16| {
        let [high, low] = number.to_be_bytes();
        SocketAddr::from(([127, 77, high, low], 7471))
    };
    // One of them is slow.
    let model = |number| if number == 7 { f(&[("pcie.gbps", "63")]) } else { f(&[]) };
    let agents = (1..=1000).map(|number| FleetAgent { listen: listen(number), model: model(number), fault: None });
    let fleet = SimulatedFleet::serve(agents).expect("loopback");
    assert_eq!(fleet.addresses().last(), Some(listen(1000)));
    let threads = std::fs::read_dir("/proc/self/task").expect("this process has threads").count();
    assert!(threads < 40, "{threads} threads");
    let seen: Vec<f64> = thread::scope(|scope| {
        let one =
            |number: u16| scope.spawn(move || gbps(&mut pair_of(listen(number), listen(1000 - number)), &write()));
        let running: Vec<_> = (1..=16).map(one).collect();
        running.into_iter().map(|one| one.join().expect("it is measured")).collect()
    });
    for (at, gbps) in seen.iter().enumerate() {
        assert_eq!(*gbps < 70.0, at == 6, "{seen:?}");
    }
}

#[test]
fn what_a_simulated_host_cannot_do_is_refused_with_a_reason() {
    for bad in ["", "lies", "die:", "die:x", "die:-1"] {
        bad.parse::<SimulatedFault>().expect_err(bad);
    }
    assert_eq!("die:3".parse(), Ok(SimulatedFault { kind: FaultKind::Die, after: 3 }));
    assert!(SimulatedHost::new(f(&[]), ([0, 0, 0, 0], 7471).into()).is_err());
    let mut host = SimulatedHost::new(f(&[]), (Ipv4Addr::LOCALHOST, 1).into()).expect("an address");
    let other = Port { device: Some("mlx5_0".to_owned()), ..Port::default() };
    assert!(host.inspect(&other).expect_err("it has sim0").to_string().contains("sim0"));
    assert!(host.set_source_ports(&[]).is_err() && host.sample().is_err() && host.start().is_err());
    let planned = plan(&write(), Host::A);
    let timed = host.set_up(&Port::default(), &planned.clone().with_latency()).expect_err("no time of a request");
    assert!(matches!(timed, HostError::Unsupported(_)));
    let ends = host.set_up(&Port::default(), &planned).expect("it is set up");
    assert!(host.connect(&[]).is_err(), "nobody to connect to");
    let real = GroupEndpoint { id: ends[0].id.peer(), lid: 1, ..ends[0].clone() };
    let error = host.connect(&[real]).expect_err("nobody listens there").to_string();
    assert!(error.contains("both agents of a pair have to be simulated"), "{error}");
}

//! The protocol and the pair over fake hosts: order of steps, refusals, deaths. No device.

mod bad_input;
mod loopback;
mod ports;
mod ranks;
mod trust;

use std::path::Path;
use std::time::Duration;

use kelpie_engine::chain;
use kelpie_engine::timing::Timing;
use kelpie_engine::verbs_host::{HostError, Port};
use kelpie_engine::{MeasureError, Subsystem};
use kelpie_monitor::{Bounds, CheckState};
use kelpie_spaces::Host;

use crate::client::AgentClient;
use crate::fake::{FakeAgent, RATE, TOOK, Trouble};
use crate::steps::ExperimentStep;
use crate::testing::{flow, workload};
use crate::{AbsentHost, Security};
use crate::{PairError, PairFile, PairSubsystem};

fn pair_file(a: &FakeAgent, b: &FakeAgent) -> PairFile {
    let text = format!(
        "kelpie: pair/1\nname: fakes\nhosts:\n  a: {{agent: \"{}\"}}\n  b: {{agent: \"{}\"}}\n\
         bounds: {{max_bps: 1e9, max_pps: 1e6}}\nsession: {{warm_up_ms: 100, sample_ms: 20, drain_ms: 10}}\n",
        a.address, b.address
    );
    PairFile::from_yaml(Path::new("fakes.yaml"), &text).expect("a good file")
}

fn pair(a: &FakeAgent, b: &FakeAgent) -> PairSubsystem {
    PairSubsystem::of(pair_file(a, b)).expect("both agents are there")
}

fn host_of(error: &MeasureError) -> Option<Host> {
    match error {
        MeasureError::Host { host, .. } => Some(*host),
        MeasureError::Unsupported { .. } => None,
    }
}

#[test]
fn an_experiment_takes_four_samples_and_leaves_nothing() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let seen = pair(&a, &b).measure(&workload(vec![flow("a", "b", "SEND"), flow("b", "a", "WRITE")])).expect("runs");
    assert_eq!(seen.samples.len(), 4);
    for sample in &seen.samples {
        let rates: Vec<f64> = sample.directions.iter().map(|way| way.messages_per_sec / RATE).collect();
        assert!(rates.len() == 2 && rates.iter().all(|rate| (0.9..1.1).contains(rate)), "{rates:?}");
    }
    for agent in [&a, &b] {
        let mut log = agent.log();
        log.retain(|step| step != "sample");
        assert_eq!(log[..7], ["inspect", "inspect", "set_up", "connect", "start", "stop", "recycle"]);
    }
}

#[test]
fn latency_is_measured_where_the_session_says_so() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let both = workload(vec![flow("a", "b", "SEND"), flow("b", "a", "READ"), flow("b", "a", "WRITE")]);
    let plain = pair(&a, &b).measure(&both).expect("runs");
    assert_eq!(plain.latency, []);
    let file = pair_file(&a, &b);
    let mut pair =
        PairSubsystem::of(PairFile { session: Timing { latency: true, ..file.session }, ..file }).expect("as before");
    let seen = pair.measure(&both).expect("runs");
    let ways: Vec<(Host, Host)> = seen.latency.iter().map(|way| (way.from, way.to)).collect();
    assert_eq!(ways, [(Host::A, Host::B), (Host::B, Host::A)]);
    // Four samples, of a's SENDs and b's READs from a; neither the warm-up's readings nor the last one count.
    let of_one: u64 = TOOK.iter().map(|took| u64::from(took.1)).sum();
    let to_b = seen.latency(Host::A, Host::B).expect("timed");
    assert_eq!((to_b.count, to_b.p50, to_b.p90), (4 * 2 * of_one, 1_500, 1_500), "{to_b:?}");
    assert!(to_b.p999 == to_b.max && to_b.max.abs_diff(1_000_000) <= 1_000, "{to_b:?}");
    assert_eq!(seen.latency(Host::B, Host::A).map(|way| way.count), Some(4 * of_one));
}

#[test]
fn both_hosts_are_examined_by_their_agents_and_one_that_is_gone_stops_nothing() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let workload = workload(vec![flow("a", "b", "WRITE")]);
    let mut pair = pair(&a, &b);
    let checks = pair.checks();
    let find = |about: &str, name: &str| checks.iter().find(|check| check.about == about && check.name == name);
    for host in ["host a", "host b"] {
        assert!(find(host, "memlock").is_some(), "{checks:?}");
        let device = find(host, "device").expect("the agent's choice of a device is looked at");
        assert!(device.state == CheckState::Fail && device.summary.contains("fake0"), "{device:?}");
    }
    assert_eq!(find("pair", "kernel").map(|check| check.state), Some(CheckState::Pass), "{checks:?}");
    pair.measure(&workload).expect("runs");

    let address = b.address;
    drop(b);
    let [gone] = &pair.checks()[..] else { panic!("nothing else can be said") };
    assert_eq!((gone.name.as_str(), gone.state), ("doctor", CheckState::Unknown), "{gone:?}");
    assert!(gone.evidence[0].value.contains("host b"), "{gone:?}");
    let _reborn = FakeAgent::start(address);
    pair.measure(&workload).expect("runs once the agent is back");
}

#[test]
fn a_pair_without_bounds_is_calibrated_by_simple_traffic() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let file = PairFile { bounds: None, ..pair_file(&a, &b) };
    let bounds = PairSubsystem::of(file).expect("calibrates").bounds();
    assert!((0.9..1.1).contains(&(bounds.max_pps / RATE)), "{bounds:?}");
    assert!((0.9..1.1).contains(&(bounds.base_rtt_seconds.expect("measured") * RATE / 2.0)), "{bounds:?}");
    assert!(bounds.run_to_run.expect("clocks differ") < 0.1, "{bounds:?}");
    assert!((0.9..1.1).contains(&(bounds.reference_pps.expect("measured") / RATE)), "{bounds:?}");
}

#[test]
fn a_further_run_on_unsteady_hosts_knows_what_simple_traffic_reaches_meanwhile() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let steady = pair_file(&a, &b);
    let bounds =
        steady.bounds.map(|bounds| Bounds { run_to_run: Some(0.1), reference_pps: Some(RATE / 2.0), ..bounds });
    let mut pair = PairSubsystem::of(PairFile { bounds, ..steady.clone() }).expect("both agents are there");
    let workload = workload(vec![flow("a", "b", "SEND")]);
    let set_ups = || a.log().iter().filter(|step| *step == "set_up").count();
    for (attempt, runs, is_known) in [(0, 1, false), (1, 7, true), (2, 2, true), (3, 1, false)] {
        let before = set_ups();
        let again = pair.measure_again(&workload, attempt).expect("runs").expect("a measurement");
        assert_eq!((set_ups() - before, again.capacity.is_some()), (runs, is_known), "{attempt}");
        assert!(again.capacity.is_none_or(|capacity| (1.8..2.2).contains(&capacity)), "{:?}", again.capacity);
    }
    drop(pair);
    let mut pair = PairSubsystem::of(steady).expect("both agents are there");
    let again = pair.measure_again(&workload, 1).expect("runs").expect("a measurement");
    assert_eq!(again.capacity, None);
}

#[test]
fn calibration_is_not_slowed_down_by_timing_its_requests() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let file = pair_file(&a, &b);
    let session = Timing { latency: true, ..file.session };
    let mut pair = PairSubsystem::of(PairFile { bounds: None, session, ..file }).expect("calibrates");
    pair.measure(&workload(vec![flow("a", "b", "WRITE")])).expect("runs");
    let timed = |agent: &FakeAgent| agent.script.lock().expect("whole").timed.clone();
    let (timed_by_a, timed_by_b) = (timed(&a), timed(&b));
    assert_eq!(timed_by_a.split_last(), Some((&true, &[false; 22][..])));
    assert_eq!(timed_by_b, [false; 6]);
}

#[test]
fn a_workload_over_the_agents_limits_is_refused_by_name() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let mut pair = pair(&a, &b);
    let mut many = flow("a", "b", "WRITE");
    many.qps = 101;
    let error = pair.measure(&workload(vec![many])).expect_err("over the limit of the fakes");
    let text = error.to_string();
    assert!(text.contains("host a: 101 QPs are over the agent's limit of 100 (--max-qps)"), "{text}");
    assert!(!a.log().contains(&"set_up".to_owned()), "{:?}", a.log());
    pair.measure(&workload(vec![flow("a", "b", "WRITE")])).expect("the next one runs");
}

#[test]
fn a_host_that_lacks_something_says_what() {
    let missing = AbsentHost::new("libibverbs.so.1 is not installed".to_owned());
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::of(Box::new(missing)));
    let Err(PairError::Host(error)) = PairSubsystem::of(pair_file(&a, &b)) else { panic!("b lacks it") };
    assert_eq!(host_of(&error), Some(Host::B), "{error}");
    assert!(chain(&error).ends_with("libibverbs.so.1 is not installed"), "{}", chain(&error));
}

#[test]
fn a_controller_that_falls_silent_in_traffic_loses_the_host() {
    let agent = FakeAgent::anywhere();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let workload = workload(vec![flow("a", "a", "WRITE")]);
    let error = runtime.block_on(async {
        let client = AgentClient::connect(&agent.address.to_string(), &Security::Loopback, "sleeper").await?;
        let endpoints = client.set_up(Host::A, Port::default(), workload, false).await?;
        client.connect_to(endpoints).await?;
        client.start().await?;
        tokio::time::sleep(ExperimentStep::Start.patience() + Duration::from_secs(1)).await;
        client.sample().await
    });
    let text = chain(&error.expect_err("it was dropped"));
    assert!(text.starts_with("lost the agent at"), "{text}");
    assert_eq!(agent.log().last().map(String::as_str), Some("tear_down"), "{:?}", agent.log());
}

#[test]
fn a_failing_step_names_its_host_and_the_next_experiment_runs() {
    let workload = workload(vec![flow("a", "b", "WRITE")]);
    for step in ["set_up", "connect", "start", "sample", "stop"] {
        for trouble in [Trouble::Fails(HostError::Failed("ibv_create_qp: ENOMEM".to_owned())), Trouble::Panics] {
            let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
            let mut pair = pair(&a, &b);
            b.trouble(step, trouble.clone());
            let error = pair.measure(&workload).expect_err(step);
            assert_eq!(host_of(&error), Some(Host::B), "{step} {trouble:?}: {error}");
            pair.measure(&workload).unwrap_or_else(|error| panic!("after {step} {trouble:?}: {error}"));
        }
    }
}

#[test]
fn what_a_host_cannot_do_is_no_failure_and_keeps_the_connection() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let mut pair = pair(&a, &b);
    a.trouble("set_up", Trouble::Fails(HostError::Unsupported("no GPU 3".to_owned())));
    let error = pair.measure(&workload(vec![flow("a", "b", "WRITE")])).expect_err("unsupported");
    assert_eq!(error.to_string(), "this subsystem cannot run the workload: host a: no GPU 3");
    assert_eq!(b.log().last().map(String::as_str), Some("recycle"));
    pair.measure(&workload(vec![flow("b", "a", "WRITE")])).expect("the next one runs");
}

#[test]
fn the_death_of_an_agent_names_its_host_and_it_may_come_back() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let workload = workload(vec![flow("a", "b", "WRITE")]);
    let mut pair = pair(&a, &b);
    let address = b.address;
    let killer = std::thread::spawn(move || {
        b.wait_for("sample", 2);
        drop(b);
    });
    let error = pair.measure(&workload).expect_err("b died");
    killer.join().expect("no panic");
    assert_eq!(host_of(&error), Some(Host::B), "{error}");
    a.wait_for("tear_down", 1);
    let _reborn = FakeAgent::start(address);
    pair.measure(&workload).expect("runs once the agent is back");
}

#[test]
fn an_agent_restarted_between_experiments_is_no_failure() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let workload = workload(vec![flow("a", "b", "WRITE")]);
    let mut pair = pair(&a, &b);
    let address = a.address;
    drop(a);
    let _reborn = FakeAgent::start(address);
    pair.measure(&workload).expect("reconnects");
}

#[test]
fn a_tear_down_is_waited_for_and_another_controller_is_not() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    // Longer than a pair that is opened waits for anybody else.
    a.trouble("tear_down", Trouble::Takes(Duration::from_secs(6)));
    drop(pair(&a, &b));
    let _holder = pair(&a, &b);
    let Err(PairError::Host(error)) = PairSubsystem::of(pair_file(&a, &b)) else { panic!("both are held") };
    assert!(chain(&error).contains("it serves another controller, kelpie "), "{}", chain(&error));
}

#[test]
fn an_agent_that_is_not_there_is_named() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let file = pair_file(&a, &b);
    drop(b);
    let Err(PairError::Host(error)) = PairSubsystem::of(file) else { panic!("b is gone") };
    assert_eq!(host_of(&error), Some(Host::B), "{error}");
}

#[test]
fn a_controller_that_vanishes_in_a_step_leaves_a_free_host() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    a.trouble("connect", Trouble::Takes(Duration::from_millis(300)));
    b.trouble("connect", Trouble::Fails(HostError::Failed("no".to_owned())));
    let mut pair = pair(&a, &b);
    let _ = pair.measure(&workload(vec![flow("a", "b", "WRITE")])).expect_err("b fails");
    drop(pair);
    a.wait_for("tear_down", 1);
    let log = a.log();
    assert_eq!(log.last().map(String::as_str), Some("tear_down"), "after the slow step: {log:?}");
}

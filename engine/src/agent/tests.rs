//! The protocol and the pair over fake hosts: order of steps, refusals, deaths. No device.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use kelpie_spaces::Host;

use super::fake::{FakeAgent, RATE, Trouble};
use super::wire::{FRAME_LIMIT, HELLO_LIMIT, PROTOCOL};
use crate::host::HostError;
use crate::testing::{flow, workload};
use crate::{MeasureError, PairError, PairFile, PairSubsystem, Subsystem};

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
        assert_eq!(log[..7], ["inspect", "inspect", "set_up", "connect", "start", "stop", "tear_down"]);
    }
}

#[test]
fn a_pair_without_bounds_is_calibrated_by_simple_traffic() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let file = PairFile { bounds: None, ..pair_file(&a, &b) };
    let bounds = PairSubsystem::of(file).expect("calibrates").bounds();
    assert!((0.9..1.1).contains(&(bounds.max_pps / RATE)), "{bounds:?}");
    assert!((0.9..1.1).contains(&(bounds.base_rtt_seconds.expect("measured") * RATE)), "{bounds:?}");
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
    assert_eq!(b.log().last().map(String::as_str), Some("tear_down"));
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
fn an_agent_that_is_not_there_is_named() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let file = pair_file(&a, &b);
    drop(b);
    let Err(PairError::Host(error)) = PairSubsystem::of(file) else { panic!("b is gone") };
    assert_eq!(host_of(&error), Some(Host::B), "{error}");
}

/// Says hello by hand; the connection and the agent's answer.
fn hello(agent: &FakeAgent, protocol: &str, controller: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(agent.address).expect("the agent listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let text = format!("{{\"kelpie\":\"{protocol}\",\"controller\":\"{controller}\",\"later\":1}}");
    stream.write_all(&u32::try_from(text.len()).expect("short").to_be_bytes()).expect("sends");
    stream.write_all(text.as_bytes()).expect("sends");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    (stream, String::from_utf8(answer).expect("JSON"))
}

/// As `hello`, once whoever was there before is gone.
fn hello_when_free(agent: &FakeAgent, controller: &str) -> TcpStream {
    let started = std::time::Instant::now();
    loop {
        let (stream, answer) = hello(agent, PROTOCOL, controller);
        if !answer.contains("refused") {
            return stream;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "{answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn another_version_is_refused_with_a_reason() {
    let agent = FakeAgent::anywhere();
    let (_stream, answer) = hello(&agent, "agent/999", "tomorrow");
    assert!(answer.contains(&format!("this agent speaks {PROTOCOL}, the controller agent/999")), "{answer}");
    let (_stream, answer) = hello(&agent, PROTOCOL, "today");
    assert!(!answer.contains("refused"), "{answer}");
}

#[test]
fn a_second_controller_is_told_who_has_the_agent() {
    let agent = FakeAgent::anywhere();
    let (first, _) = hello(&agent, PROTOCOL, "first");
    let (_second, answer) = hello(&agent, PROTOCOL, "second");
    assert!(answer.contains("it serves another controller, first") && answer.contains("\"busy\":true"), "{answer}");
    drop(first);
    hello_when_free(&agent, "third");
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

#[test]
fn bytes_that_are_no_protocol_end_the_connection_and_nothing_else() {
    let too_long = |limit: usize| u32::try_from(limit + 1).expect("below 4 GiB").to_be_bytes().to_vec();
    let agent = FakeAgent::anywhere();
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), too_long(HELLO_LIMIT), b"\0\0\0\x02{}".to_vec()] {
        let mut stream = TcpStream::connect(agent.address).expect("the agent listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream.write_all(&bytes).expect("sends");
        assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)), "no answer to {bytes:?}");
    }
    for bytes in
        [too_long(FRAME_LIMIT), b"\0\0\0\x07\"reboot".to_vec(), b"\0\0\0\x07\"start\"\0\0\0\x07\"start\"".to_vec()]
    {
        let mut stream = hello_when_free(&agent, "odd");
        stream.write_all(&bytes).expect("sends");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 1024, "closed: {}", rest.len());
    }
    hello_when_free(&agent, "even");
}

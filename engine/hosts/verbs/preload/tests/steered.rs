//! A program whose QPs ask for source ports, before an agent that the test plays: one that answers, is slow, hangs,
//! goes.

#![cfg(feature = "verbs")]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What the kernel makes of a flow label.
fn port(label: u32) -> u16 {
    0xC000 | ((label & 0x3fff) ^ (label >> 14)) as u16
}

fn build(arguments: &[&str]) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-pthread"]).args(arguments).current_dir(&sources);
    let output = command.output().expect("a C compiler, which Rust links with as well");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a run of the program left.
struct SteeredRun {
    labels: Vec<u32>,
    took: Duration,
    notes: Vec<String>,
}

/// Runs the program before an agent of these manners; none if nobody listens.
fn run(what: &str, qps: u32, agent: Option<fn(UnixStream, u32)>) -> (SteeredRun, Receiver<UnixStream>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let library = path("libibverbs.so.1");
    let named = ["-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", "-Wl,--version-script,fake_verbs.map"];
    build(&[&named[..], &["fake_verbs.c", "-o", &library]].concat());
    let named = ["-shared", "-fPIC", "-Wl,-soname,libmlx5.so.1"];
    build(&[&named[..], &["../../../mlx5/tests/c/fake_mlx5.c", "-o", &path("libmlx5.so.1")]].concat());
    build(&["program.c", &library, "-o", &path("program"), "-ldl"]);
    fs::create_dir(path("notes")).expect("it is new");
    let (kept, connections) = channel();
    if let Some(agent) = agent {
        let listener = UnixListener::bind(path("socket")).expect("a socket");
        thread::spawn(move || {
            for (turn, stream) in (0..).zip(listener.incoming().flatten()) {
                let _ = kept.send(stream.try_clone().expect("a descriptor"));
                thread::spawn(move || agent(stream, turn));
            }
        });
    }
    let preload = env::current_exe().expect("this test").with_file_name("libkelpie_preload.so");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "env"]).arg(format!("LD_LIBRARY_PATH={}", folder.path().display()));
    command.arg(format!("LD_PRELOAD={}", preload.display())).args([&path("program"), what, &qps.to_string()]);
    command.env("KELPIE_STEER_SOCKET", path("socket")).env("KELPIE_STEER_DIR", path("notes"));
    let started = Instant::now();
    let output = command.output().expect("timeout and env");
    let took = started.elapsed();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let labels = text.lines().map(|line| line.parse().expect("a number")).collect();
    let notes = fs::read_dir(path("notes")).expect("a folder").flatten();
    let notes = notes.flat_map(|entry| {
        let text = fs::read_to_string(entry.path()).expect("it is ours");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    (SteeredRun { labels, took, notes: notes.collect() }, connections)
}

/// Answers each question with a port of its own.
fn answers(stream: UnixStream, _: u32) {
    let mut writing = stream.try_clone().expect("a descriptor");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["ask", qp, from, to] = words[..] {
            assert_eq!((from.len(), to.len(), &from[30..], &to[30..]), (32, 32, "01", "02"));
            let number: u16 = qp.parse().expect("a number");
            let _ = writeln!(writing, "{qp} port {} left", 50_000 + number);
        }
    }
}

fn hangs(stream: UnixStream, _: u32) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        drop(line);
    }
}

#[test]
fn qps_get_the_ports_that_the_agent_says_and_the_program_keeps_its_attributes() {
    let (ran, _) = run("connect", 20, Some(answers));
    assert_eq!(ran.labels.iter().map(|label| port(*label)).collect::<Vec<_>>(), (50_001..50_021).collect::<Vec<_>>());
    assert!(ran.labels.iter().all(|label| *label != 0));
    assert_eq!(ran.notes.len(), 20);
    assert_eq!(ran.notes[3], "4 99 port 50004 left");
}

/// Answers as `answers` does, with both sides in turn.
fn takes_sides(stream: UnixStream, _: u32) {
    let mut writing = stream.try_clone().expect("a descriptor");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let ["ask", qp, ..] = line.split(' ').collect::<Vec<_>>()[..] {
            let number: u16 = qp.parse().expect("a number");
            let side = if number.is_multiple_of(2) { "right" } else { "left" };
            let _ = writeln!(writing, "{qp} port {} {side}", 50_000 + number);
        }
    }
}

#[test]
fn a_device_that_deals_qps_out_is_told_the_port_of_the_side() {
    // A label and the port by which the QP leaves, in turn; 9 is what the device had.
    for (what, ports) in [("lag", [1, 2, 1, 2]), ("no-lag", [9; 4]), ("not-mlx5", [9; 4])] {
        let (ran, _) = run(what, 4, Some(takes_sides));
        assert_eq!(ran.labels.iter().skip(1).step_by(2).copied().collect::<Vec<_>>(), ports, "{what}");
        assert!(ran.labels.iter().step_by(2).all(|label| *label != 0), "{what}: {:?}", ran.labels);
    }
    let (ran, _) = run("lag", 4, None);
    assert_eq!(ran.labels, [0, 9, 0, 9, 0, 9, 0, 9], "whom nobody steers the device deals out");
}

#[test]
fn an_agent_that_hangs_is_waited_for_a_few_times_and_then_no_more() {
    let (ran, _) = run("connect", 200, Some(hangs));
    assert!(ran.labels.iter().all(|label| *label == 0), "{:?}", ran.labels);
    // Four waits of 50 ms, one or two after the pauses, and a busy machine's start of the program.
    assert!(ran.took < Duration::from_secs(3), "{:?}", ran.took);
    assert!(ran.notes[0].ends_with("none the agent did not answer in 50 ms"), "{:?}", ran.notes);
    assert!(ran.notes[10].ends_with("none the agent did not answer a moment ago"), "{:?}", ran.notes);
}

#[test]
fn an_agent_that_goes_and_one_that_talks_nonsense_change_nothing() {
    let goes: fn(UnixStream, u32) = |stream, _| drop(stream);
    let nonsense: fn(UnixStream, u32) = |mut stream, _| {
        let text = [b"\xff\xfe 1 port 4791 left\n".repeat(100), b"1 port 80 left\n".to_vec()].concat();
        let _ = stream.write_all(&text);
        thread::sleep(Duration::from_secs(2));
    };
    for agent in [None, Some(goes), Some(nonsense)] {
        let (ran, _) = run("connect", 50, agent);
        assert!(ran.labels.len() == 50 && ran.labels.iter().all(|label| *label == 0), "{:?}", ran.labels);
        assert!(ran.took < Duration::from_secs(3), "{:?}", ran.took);
    }
}

#[test]
fn a_device_that_refuses_the_port_gets_what_the_program_asked_for() {
    let (ran, _) = run("refused", 3, Some(answers));
    assert_eq!(ran.labels, [0, 0, 0]);
    assert!(ran.notes.iter().any(|note| note.ends_with("none the device refused it")), "{:?}", ran.notes);
}

#[test]
fn a_program_that_closes_what_it_does_not_know_goes_on() {
    let (ran, connections) = run("closed", 6, Some(answers));
    assert_eq!(ran.labels.len(), 6);
    assert!(ran.labels.iter().all(|label| *label != 0), "a new connection each time: {:?}", ran.labels);
    assert!(connections.try_iter().count() >= 6);
}

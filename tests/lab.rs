//! Real verbs between the lab's two guests. They run where `KELPIE_LAB=1` says that the lab was promised, and then
//! fail without it; `make test` brings it up before.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Bench, Ran};

/// Differences up to this between the engine's counts and those of the device are what is on the way meanwhile.
const AGREEMENT: f64 = 0.02;

/// The lab, for one test at a time: an agent serves one controller.
struct Lab {
    bench: Bench,
    dir: PathBuf,
    _alone: File,
}

impl Lab {
    /// The promised lab; `None` where none was promised.
    fn promised() -> Option<Self> {
        if std::env::var("KELPIE_LAB").as_deref() != Ok("1") {
            eprintln!("the lab was not asked for: `make test` does, or KELPIE_LAB=1 after `cargo xtask lab up`");
            return None;
        }
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/lab");
        assert!(dir.join("pair.yaml").is_file(), "the lab was promised and is not up: see `cargo xtask lab up`");
        let alone = File::create(dir.join("tests.lock")).expect("the lab's folder is writable");
        alone.lock().expect("a lock that waits for the other tests");
        Some(Self { bench: Bench::new(), dir, _alone: alone })
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.bench.command(args);
        command.env("KELPIE_LAB_DIR", &self.dir);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().expect("the binary starts"))
    }

    /// Measures; the verdict is the machine's affair, that it ran is ours.
    fn measure(&self, workload: &str, pair: &str) -> Value {
        let ran = self.run(&["measure", self.bench.write("workload.yaml", workload), "--subsystem", pair, "--json"]);
        assert!(matches!(ran.status, Some(0 | 1)), "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// A pair file of this lab with bounds, so that nothing is calibrated, and with these sample lengths.
    fn pair(&self, sample_ms: u32) -> &'static str {
        let text = std::fs::read_to_string(self.dir.join("pair.yaml")).expect("it was there");
        let (head, _) = text.split_once("session:").expect("the lab's pair file sets its session");
        let tail =
            format!("session: {{warm_up_ms: 2000, sample_ms: {sample_ms}}}\nbounds: {{max_bps: 3e8, max_pps: 1e4}}\n");
        self.bench.write("pair.yaml", format!("{head}{tail}"))
    }

    /// Runs a command in a guest and returns what it printed.
    fn in_guest(&self, guest: &str, command: &str) -> String {
        let mut stream = UnixStream::connect(self.dir.join(guest).join("control")).expect("the guest is up");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mark = format!("test-{}", std::process::id());
        writeln!(stream, "{mark} {command}").expect("the guest reads");
        let mut answer = Vec::new();
        let mut byte = [0];
        loop {
            stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("guest {guest}, `{command}`: {error}"));
            answer.push(byte[0]);
            let text = String::from_utf8_lossy(&answer);
            if let Some((output, status)) = text.split_once(&format!("{mark} "))
                && status.ends_with('\n')
            {
                return output.to_owned();
            }
        }
    }

    /// QPs and MRs that the guest's device holds; one QP is the kernel's own.
    fn resources(&self, guest: &str) -> (u64, u64) {
        let text = self.in_guest(guest, "rdma resource");
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |name: &str| {
            let after = words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
            after.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
        };
        (number("qp"), number("mr"))
    }

    /// Waits until the guest's resources satisfy `done`.
    fn wait_for(&self, guest: &str, what: &str, done: impl Fn(u64, u64) -> bool) {
        let started = Instant::now();
        loop {
            let (qps, mrs) = self.resources(guest);
            if done(qps, mrs) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "{what} in guest {guest}: {qps} QPs, {mrs} MRs");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn is_clean(&self) {
        for guest in ["a", "b"] {
            self.wait_for(guest, "nothing is left", |qps, mrs| qps == 1 && mrs == 0);
        }
    }
}

/// 4 QPs, batch 8, a message of 4 KiB in two elements and one of 256 B: five packets at MTU 1024.
fn workload(op: &str) -> String {
    format!(
        "kelpie: workload/1\nflows:\n  - from: a\n    to: b\n    qp_type: RC\n    qps: 4\n    mtu: 1024\n    \
         wq_depth: {{send: 16, recv: 64}}\n    batch: {{send: 8, recv: 8}}\n    \
         pattern: [{{op: {op}, sge: [1KiB, 3KiB]}}, {{op: {op}, sge: [256B]}}]\n    memory:\n      \
         from: {{device: \"dram:0\", mrs: 3, mr_size: 16KiB}}\n      to: {{device: \"dram:0\", mrs: 2, mr_size: 16KiB}}\n"
    )
}

/// What a counter of a host added up to over all samples.
fn total(report: &Value, host: &str, counter: &str) -> f64 {
    let samples = report["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), 4, "{report}");
    let of = |sample: &Value| {
        let rate = sample["counters"][host][counter].as_f64();
        rate.unwrap_or_else(|| panic!("no {counter} on {host}: {sample}"))
            * sample["seconds"].as_f64().expect("seconds")
    };
    samples.iter().map(of).sum()
}

/// What the direction from `a` to `b` added up to over all samples.
fn moved(report: &Value, rate: &str) -> f64 {
    let of = |sample: &Value| {
        let directions = sample["directions"].as_array().expect("directions");
        assert_eq!(directions.len(), 1, "{sample}");
        directions[0][rate].as_f64().expect(rate) * sample["seconds"].as_f64().expect("seconds")
    };
    report["samples"].as_array().expect("samples").iter().map(of).sum()
}

fn agree(what: &str, seen: f64, expected: f64) {
    let difference = (seen - expected).abs() / expected;
    assert!(difference <= AGREEMENT, "{what}: {seen:.0}, expected {expected:.0}: {:.1} % apart", difference * 100.0);
}

fn agrees_with_the_device(op: &str) {
    let Some(lab) = Lab::promised() else { return };
    let report = lab.measure(&workload(op), lab.pair(2000));
    let messages = moved(&report, "messages_per_sec");
    assert!(messages > 1000.0, "eight seconds of traffic: {messages}");
    agree("bytes of two messages", moved(&report, "goodput_bps") / 8.0, messages / 2.0 * (4096.0 + 256.0));
    let packets = messages / 2.0 * 5.0;
    agree("packets by the engine", moved(&report, "packets_per_sec"), packets);
    agree("requested on a", total(&report, "a", "engine_requested_messages"), messages);
    agree("packets sent by a", total(&report, "a", "sent_pkts"), packets);
    agree("packets received by b", total(&report, "b", "rcvd_pkts"), packets);
    agree("acknowledgements sent by b", total(&report, "b", "sent_pkts"), messages);
    agree("acknowledgements received by a", total(&report, "a", "rcvd_pkts"), messages);
    if op == "SEND" {
        agree("received on b", total(&report, "b", "engine_received_messages"), messages);
        agree("received on b by the device", total(&report, "b", "rdma_recvs"), messages);
    }
    lab.is_clean();
}

#[test]
fn writes_agree_with_the_counters_of_both_devices() {
    agrees_with_the_device("WRITE");
}

#[test]
fn sends_agree_with_the_counters_of_both_devices() {
    agrees_with_the_device("SEND");
}

#[test]
fn both_directions_and_a_loopback_run_at_once() {
    let Some(lab) = Lab::promised() else { return };
    let one_way = workload("SEND");
    let (head, flow) = one_way.split_once("  - ").expect("one flow");
    let (back, loopback) =
        (flow.replace("from: a", "from: b").replacen("to: b", "to: a", 1), flow.replacen("to: b", "to: a", 1));
    let report = lab.measure(&format!("{head}  - {flow}  - {back}  - {loopback}"), lab.pair(500));
    let directions = report["directions"].as_array().expect("directions");
    let ways: Vec<(&str, &str)> =
        directions.iter().map(|way| (way["from"].as_str().expect("a"), way["to"].as_str().expect("b"))).collect();
    assert_eq!(ways, [("a", "a"), ("a", "b"), ("b", "a")], "{report}");
    assert!(directions.iter().all(|way| way["messages_per_sec"].as_f64() > Some(10.0)), "{directions:?}");
    lab.is_clean();
}

#[test]
fn a_campaign_of_20_experiments_is_stored() {
    let Some(lab) = Lab::promised() else { return };
    let args =
        ["campaign", "run", "--subsystem", "lab", "--space", "lab", "--budget", "20", "--db", "lab.db", "--json"];
    let ran = lab.run(&args);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let shown: Value = serde_json::from_str(&lab.bench.expect(0, &["campaign", "show", "--db", "lab.db", "--json"]))
        .expect("one document");
    assert_eq!(shown["experiments"], 20, "{shown}");
    assert_eq!(shown["subsystem"], "lab", "{shown}");
    lab.is_clean();
}

#[test]
fn the_death_of_an_agent_names_its_host_and_the_next_experiment_runs() {
    let Some(lab) = Lab::promised() else { return };
    let pair = lab.pair(2000);
    lab.is_clean();
    let file = lab.bench.write("workload.yaml", workload("WRITE"));
    let mut command = lab.command(&["measure", file, "--subsystem", pair]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    lab.wait_for("b", "traffic", |qps, _| qps == 5);
    lab.in_guest("b", "sleep 1; kill -9 $(cat /run/agent.pid)");
    let killed = Instant::now();
    let ran = Ran::of(running.wait_with_output().expect("it ends"));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("host b"), "{ran:?}");
    assert!(killed.elapsed() < Duration::from_secs(10), "within seconds, not {:?}", killed.elapsed());
    lab.wait_for("a", "the survivor tears down", |qps, mrs| qps == 1 && mrs == 0);
    let agent = Instant::now();
    while !lab.in_guest("b", "grep -i ':1D2F ' /proc/net/tcp").contains(':') {
        assert!(agent.elapsed() < Duration::from_secs(30), "the agent of b is started again");
        std::thread::sleep(Duration::from_millis(200));
    }
    let report = lab.measure(&workload("WRITE"), lab.pair(500));
    assert!(moved(&report, "messages_per_sec") > 100.0, "{report}");
    lab.is_clean();
}

#[test]
fn the_death_of_the_controller_leaves_nothing_on_the_hosts() {
    let Some(lab) = Lab::promised() else { return };
    let pair = lab.pair(2000);
    let file = lab.bench.write("workload.yaml", workload("SEND"));
    let mut controller = lab.command(&["measure", file, "--subsystem", pair]).spawn().expect("the binary starts");
    lab.wait_for("a", "traffic", |qps, _| qps == 5);
    controller.kill().expect("it runs");
    controller.wait().expect("it was ours");
    let killed = Instant::now();
    lab.is_clean();
    assert!(killed.elapsed() < Duration::from_secs(10), "within seconds, not {:?}", killed.elapsed());
}

#[test]
fn what_a_guest_does_not_have_is_said_with_its_host() {
    let Some(lab) = Lab::promised() else { return };
    let gpu = workload("WRITE").replacen("dram:0", "gpu:0", 1);
    let ran = lab.run(&["measure", lab.bench.write("gpu.yaml", &gpu), "--subsystem", lab.pair(500)]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("host a: gpu:0"), "{ran:?}");
    let missing = std::fs::read_to_string(lab.bench.path("pair.yaml")).expect("just written").replace("rxe0", "mlx5_7");
    let ran = lab.run(&["measure", "gpu.yaml", "--subsystem", lab.bench.write("missing.yaml", &missing)]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("no RDMA device mlx5_7; this host has: rxe0"), "{ran:?}");
}

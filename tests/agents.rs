//! Agents as processes of their own: what a pair without devices says, certificates from the command line.

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Bench, HEALTHY, Ran};

/// A running agent, ended with the value.
struct Agent {
    process: Child,
    port: u16,
}

impl Agent {
    fn start(bench: &Bench, args: &[&str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let listen = format!("127.0.0.1:{port}");
        let mut command = bench.command(&[&["agent", "--listen", &listen], args].concat());
        let process = command.stderr(Stdio::null()).spawn().expect("the binary starts");
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(20), "no agent on {listen}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, port }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pair(a: &Agent, b: &Agent, more: &str) -> String {
    format!(
        "kelpie: pair/1\nname: two\nhosts:\n  a: {{agent: \"127.0.0.1:{}\", device: kelpie_none}}\n  \
         b: {{agent: \"127.0.0.1:{}\", device: kelpie_none}}\nbounds: {{max_bps: 1e9, max_pps: 1e6}}\n{more}",
        a.port, b.port
    )
}

fn measure(bench: &Bench, pair: &str) -> Ran {
    bench.write("workload.yaml", HEALTHY);
    bench.run(&["measure", "workload.yaml", "--subsystem", pair])
}

/// Agents whose hosts are models, and the file of their pair.
fn simulated(bench: &Bench, more_of_b: &[&str]) -> (Agent, Agent) {
    let simulated = ["--simulated", "F"];
    let (a, b) = (Agent::start(bench, &simulated), Agent::start(bench, &[&simulated, more_of_b].concat()));
    let session = "session: {warm_up_ms: 100, sample_ms: 20, samples: 4, drain_ms: 10}\n";
    let pair = pair(&a, &b, session)
        .replace("kelpie_none", "sim0")
        .replace("max_bps: 1e9, max_pps: 1e6", "max_bps: 2e11, max_pps: 2.1e8");
    bench.write("pair.yaml", pair);
    (a, b)
}

fn gbps(measured: &serde_json::Value) -> f64 {
    measured["directions"][0]["goodput_bps"].as_f64().expect("a rate") / 1e9
}

#[test]
fn simulated_agents_measure_what_their_models_do_and_a_dead_one_is_named() {
    let bench = Bench::new();
    bench.write("workload.yaml", HEALTHY);
    let measured = |status, subsystem| bench.json(status, &["measure", "workload.yaml", "--subsystem", subsystem]);
    let expected = gbps(&measured(0, "sim:F"));
    let agents = simulated(&bench, &["--set", "sampling.noise=0.001"]);
    let seen = measured(0, "pair.yaml");
    assert!((gbps(&seen) / expected - 1.0).abs() < 0.03, "{expected}: {seen}");
    drop(agents);
    let agents = simulated(&bench, &["--set", "port.line_rate_gbps=50"]);
    let seen = measured(1, "pair.yaml");
    assert!((46.0..50.0).contains(&gbps(&seen)), "{seen}");
    drop(agents);
    let _agents = simulated(&bench, &["--simulated-fault", "die"]);
    let ran = measure(&bench, "pair.yaml");
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("host b"), "{ran:?}");
    for (args, reason) in [
        (&["--simulated", "Q"][..], "A to H"),
        (&["--simulated", "F", "--set", "port.speed=1"], "no parameter"),
        (&["--simulated", "F", "--simulated-fault", "sleep"], "hang, lie or die"),
        (&["--simulated", "F", "--listen", "0.0.0.0:0", "--plain"], "have it listen on one address"),
    ] {
        let ran = bench.run(&[&["agent"], args].concat());
        assert!(ran.status == Some(2) && ran.stderr.contains(reason), "{args:?}: {ran:?}");
    }
}

/// What an agent lacks here: the feature, the library, any device, or the one that is asked for.
fn says_what_is_missing(ran: &Ran) {
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert_eq!(ran.stdout, "", "{ran:?}");
    let known = ["drives no RDMA device", "libibverbs", "no RDMA device"];
    assert!(ran.stderr.contains("host a") && known.iter().any(|text| ran.stderr.contains(text)), "{ran:?}");
}

#[test]
fn measuring_a_pair_without_devices_says_what_is_missing() {
    let bench = Bench::new();
    let (a, b) = (Agent::start(&bench, &[]), Agent::start(&bench, &[]));
    bench.write("pair.yaml", pair(&a, &b, ""));
    says_what_is_missing(&measure(&bench, "pair.yaml"));
    drop(b);
    let ran = measure(&bench, "pair.yaml");
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("host "), "{ran:?}");
}

#[test]
fn certificates_from_the_command_line_connect_both_sides_and_only_them() {
    let bench = Bench::new();
    let made =
        bench.json(0, &["agent", "cert", "--out", "pki", "--agent", "127.0.0.1,localhost", "--controller", "me"]);
    assert_eq!(made["made"][1]["identity"], "pki/me.pem", "{made}");
    let again = bench.run(&["agent", "cert", "--out", "pki", "--agent", "127.0.0.1"]);
    assert_eq!(again.status, Some(2), "{again:?}");
    assert!(again.stderr.contains("pki/127.0.0.1.pem"), "nothing is overwritten: {again:?}");
    bench.expect(0, &["agent", "cert", "--out", "other", "--controller", "them"]);

    let secured = ["--ca", "pki/ca.pem", "--identity", "pki/127.0.0.1.pem"];
    let (a, b) = (Agent::start(&bench, &secured), Agent::start(&bench, &secured));
    // Paths are relative to the pair file.
    bench.write("pki/pair.yaml", pair(&a, &b, "tls: {ca: ca.pem, identity: me.pem}\n"));
    says_what_is_missing(&measure(&bench, "pki/pair.yaml"));
    for (more, reason) in [
        ("", "closed the connection without a word"),
        ("tls: {ca: pki/ca.pem, identity: other/them.pem}\n", "UnknownCA"),
        ("tls: {ca: other/ca.pem, identity: pki/me.pem}\n", "UnknownIssuer"),
        ("tls: {ca: pki/ca.pem, identity: pki/none.pem}\n", "pki/none.pem"),
        ("tls: {ca: pki/ca.pem, identity: pki/me.pem}\nplain: true\n", "plain: `tls` is given as well"),
    ] {
        bench.write("pair.yaml", pair(&a, &b, more));
        let ran = measure(&bench, "pair.yaml");
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(reason), "{reason}: {ran:?}");
    }
    says_what_is_missing(&measure(&bench, "pki/pair.yaml"));
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let bench = Bench::new();
    bench.expect(0, &["agent", "cert", "--out", "pki", "--agent", "127.0.0.1", "--controller", "me"]);
    let secured = ["--ca", "pki/ca.pem", "--identity", "pki/127.0.0.1.pem"];
    let (a, b) = (Agent::start(&bench, &secured), Agent::start(&bench, &secured));
    let set_mode =
        |name, mode| fs::set_permissions(bench.path(name), Permissions::from_mode(mode)).expect("it is ours");
    for (mode, more, warnings) in [(0o600, "", 0), (0o640, "", 1), (0o604, ", insecure_key: true", 1)] {
        bench.write("pair.yaml", pair(&a, &b, &format!("tls: {{ca: pki/ca.pem, identity: pki/me.pem{more}}}\n")));
        set_mode("pki/me.pem", mode);
        let ran = measure(&bench, "pair.yaml");
        assert_eq!(ran.stderr.matches("pki/me.pem`").count(), warnings, "{mode:o}: {ran:?}");
        assert_eq!(ran.stderr.contains("--insecure-key"), mode == 0o640, "{mode:o}: {ran:?}");
    }
    set_mode("pki/127.0.0.1.pem", 0o644);
    let ran = bench.run(&[&["agent", "--listen", "127.0.0.1:0"][..], &secured].concat());
    assert!(ran.status == Some(2) && ran.stderr.contains("`chmod 600 pki/127.0.0.1.pem`"), "{ran:?}");
    set_mode("pki/ca.key", 0o644);
    let ran = bench.run(&["agent", "cert", "--out", "pki", "--controller", "you"]);
    assert!(ran.status == Some(2) && ran.stderr.contains("`chmod 600 pki/ca.key`"), "{ran:?}");
    bench.expect(0, &["agent", "cert", "--out", "pki", "--controller", "you", "--insecure-key"]);
}

#[test]
fn a_limit_on_the_size_of_files_is_said() {
    let bench = Bench::new();
    let binary = bench.command(&[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 600; exec \"$0\" \"$@\""]).arg(binary.get_program());
    limited.args(["campaign", "run", "--subsystem", "sim:F", "--db", "kelpie.db", "--budget", "400"]);
    let ran = Ran::of(limited.current_dir(bench.path("")).output().expect("a shell"));
    assert!(ran.status == Some(2) && ran.stderr.contains("file size limit"), "{ran:?}");
    let shown = bench.json(0, &["campaign", "show", "--db", "kelpie.db"]);
    assert!(shown["experiments"].as_u64().is_some_and(|count| count > 0), "{shown}");
}

#[test]
fn a_key_that_cannot_be_written_leaves_nothing_in_the_way() {
    let bench = Bench::new();
    let args = ["agent", "cert", "--out", "pki", "--controller", "me"];
    let binary = bench.command(&[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(binary.get_program()).args(args);
    let ran = Ran::of(limited.current_dir(bench.path("")).output().expect("a shell"));
    assert!(ran.status == Some(2) && ran.stderr.contains("cannot write pki/ca.key"), "{ran:?}");
    assert_eq!(fs::read_dir(bench.path("pki")).expect("a folder").count(), 0);
    bench.expect(0, &args);
}

#[test]
fn an_agent_does_not_serve_other_machines_in_plain_by_accident() {
    let bench = Bench::new();
    let ran = bench.run(&["agent", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("--plain") && ran.stderr.contains("kelpie agent cert"), "{ran:?}");
    for args in [&["agent", "--ca", "ca.pem"][..], &["agent", "cert"], &["agent", "cert", "--agent", "../up"]] {
        assert_eq!(bench.run(args).status, Some(2), "{args:?}");
    }
}

//! `kelpie trace` of programs whose command lines say what they do.

use std::path::PathBuf;

use kelpie_spaces::{Bytes, Opcode, Request, perftest, workload_from_yaml};
use serde_json::Value;

use super::{Lab, in_lab};

/// Somebody listens on the TCP port on which perftest's programs and libibverbs' examples meet, 18515, as
/// `/proc/net/tcp` has it. A connection of the program before, which is not forgotten yet, has the same port.
const LISTENS: &str = ":4853 0*:0000 0A ";

/// Runs of a program before the test gives up on it.
const ATTEMPTS: u32 = 8;

/// How long the client may run, and its server, which starts before it. Units: seconds. Source: our choice, because the
/// longest run takes 15 s on a machine that does something else at the same time.
const CLIENT_LIMIT: u64 = 35;
const SERVER_LIMIT: u64 = 50;

/// Runs a command line, and kills itself and all that it started once the device, which moved packets, has moved none
/// for 8 s: nothing is sent again as late as that. Source: our choice, because a program ends within 2 s of its last
/// packet, and its acknowledgement timeout is well below a second.
const WATCHED: &str = r#"
packets() {
    read -r sent </sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts
    read -r received </sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts
    echo "$sent $received"
}
first=$(packets)
"$@" &
pid=$!
(
    last=$first
    still=0
    while [ $still -lt 16 ]; do
        sleep 0.5
        now=$(packets)
        if [ "$now" = "$first" ] || [ "$now" != "$last" ]; then still=0; else still=$((still + 1)); fi
        last=$now
    done
    kill -9 0
) &
watch=$!
wait $pid
status=$?
kill $watch
exit $status
"#;

/// The two ends of a program's run, both traced.
struct TracedRun<'l> {
    lab: &'l Lab,
    /// As the guests name it, and as this machine does.
    folders: [PathBuf; 2],
}

impl<'l> TracedRun<'l> {
    /// Runs the server in guest `b` and the client in `a`.
    ///
    /// Programs that poll sometimes wait for ever for a completion, traced or not: such a run is repeated.
    fn run(lab: &'l Lab, name: &str, server: &str, client: &str) -> Self {
        for attempt in 1..=ATTEMPTS {
            if let Some(traced) = Self::run_once(lab, &format!("{name}-{attempt}"), server, client) {
                return traced;
            }
            eprintln!("{name}: its completions never came, traced or not; attempt {attempt} of {ATTEMPTS}");
        }
        panic!("{name} did not end in any of {ATTEMPTS} attempts");
    }

    /// As `run`; nothing if an end had to be ended.
    fn run_once(lab: &'l Lab, name: &str, server: &str, client: &str) -> Option<Self> {
        let below = format!("traces/{}-{name}", std::process::id());
        let folders = [PathBuf::from("/run/lab").join(&below), lab.dir.join("share").join(&below)];
        std::fs::create_dir_all(&folders[1]).expect("the guests' share is writable");
        let run = Self { lab, folders };
        // A program must not change while it runs, which it may on the share.
        let copy = "mkdir -p /run/trace && cp -u --preserve=timestamps /run/lab/kelpie \
                    /run/lab/libkelpie_preload.so /run/lab/watched.sh /run/trace/";
        std::fs::write(lab.dir.join("share/watched.sh"), WATCHED).expect("the guests' share is writable");
        let traced = |end: &str, limit: u64, command: &str| {
            let out = run.folders[0].join(end);
            let trace = format!("/run/trace/kelpie trace --out {} -- {command}", out.display());
            format!("{copy} && cd /tmp && timeout -s KILL {limit} sh /run/trace/watched.sh {trace}")
        };
        // A server that its client never reaches must not keep the port from the next one.
        let server = traced("b", SERVER_LIMIT, server);
        let server = format!("({server}; echo ended with $?) >/run/server-{name}.log 2>&1 & echo $!");
        let pid = lab.in_guest("b", &server);
        let listens =
            format!("for turn in $(seq 100); do grep -q '{LISTENS}' /proc/net/tcp* && break; sleep 0.1; done");
        lab.in_guest("b", &listens);
        let output = lab.in_guest("a", &format!("{} 2>&1; echo ended with $?", traced("a", CLIENT_LIMIT, client)));
        lab.in_guest("b", &format!("for turn in $(seq 500); do kill -0 {} || break; sleep 0.1; done", pid.trim()));
        let log = lab.in_guest("b", &format!("cat /run/server-{name}.log"));
        if [&output, &log].into_iter().any(|said| said.trim_end().ends_with("ended with 137")) {
            return None;
        }
        assert!(run.folders[1].join("a/trace.json").is_file(), "{output}\n{log}");
        assert!(run.folders[1].join("b/trace.json").is_file(), "{log}");
        Some(run)
    }

    /// A file of one end, or of both together.
    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.folders[1].join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Both ends together.
    fn both(&self) -> Value {
        let path = |end: &str| self.folders[1].join(end).display().to_string();
        let args = ["trace", "--from", &path("a"), "--peer", &path("b"), "--out", &path("both"), "--json"];
        serde_json::from_str(&self.lab.bench.expect(0, &args)).expect("one document")
    }

    fn has(&self, file: &str, lines: &[&str]) {
        let text = self.read(file);
        for line in lines {
            assert!(text.lines().any(|held| held.trim() == *line), "{file} lacks `{line}`:\n{text}");
        }
    }
}

impl Drop for TracedRun<'_> {
    fn drop(&mut self) {
        // The test may have failed for another reason than this.
        let _ = std::fs::remove_dir_all(&self.folders[1]);
    }
}

/// A run of perftest at both ends with the same options.
fn perftest<'l>(lab: &'l Lab, name: &str, line: &str) -> TracedRun<'l> {
    let line = format!("{line} -d rxe0 -x 1 -F");
    TracedRun::run(lab, name, &line, &format!("{line} 10.77.0.2"))
}

#[test]
#[ignore = "needs the lab"]
fn one_sided_programs_are_seen_at_their_requester() {
    in_lab(|lab| {
        // Little is on its way at once, because the emulated NIC sends packets again otherwise. The number of messages
        // is a multiple of the queue's depth, because `ib_write_bw` on 4 QPs otherwise waits for ever every other time.
        for (name, line, opcode, message, qps, depth) in [
            ("write", "ib_write_bw -c RC -m 1024 -s 4096 -q 4 -t 8 -n 96", "WRITE", "4KiB", 4, 8),
            ("write-uc", "ib_write_bw -c UC -m 512 -s 2048 -q 2 -t 32 -n 192", "WRITE", "2KiB", 2, 32),
            ("read", "ib_read_bw -c RC -m 4096 -s 16384 -q 2 -t 8 -n 48", "READ", "16KiB", 2, 8),
            ("batch", "ib_write_bw -c RC -m 1024 -s 512 -q 1 -t 64 -l 8 -n 384", "WRITE", "512B", 1, 64),
        ] {
            let traced = perftest(lab, name, line);
            let word = |option: &str| {
                let mut words = line.split(' ').skip_while(|word| *word != option);
                words.nth(1).unwrap_or_else(|| panic!("{line} has {option}"))
            };
            traced.has(
                "a/space.yaml",
                &[
                    &format!("qp_type: [{}]", word("-c")),
                    &format!("mtu: [{}]", word("-m")),
                    &format!("opcode: [{opcode}]"),
                    &format!("message: [{message}]"),
                    &format!("qps: [{qps}]"),
                    &format!("send_wq_depth: [{depth}]"),
                    &format!("send_batch: [{}]", if name == "batch" { 8 } else { 1 }),
                    "bidirectional: [false]",
                    "loopback: [false]",
                ],
            );
            // The server answered, so its end has no workload of its own.
            assert!(!traced.folders[1].join("b/workload.yaml").exists());
            let both = traced.both();
            assert_eq!(both["flows"].as_array().expect("flows").len(), 1, "{both}");
            assert!(!both["notes"].to_string().contains("not traced"), "{both}");
        }
    });
}

#[test]
#[ignore = "needs the lab"]
fn two_sided_programs_are_seen_with_their_receives() {
    in_lab(|lab| {
        let traced = perftest(lab, "send", "ib_send_bw -c RC -m 1024 -s 2048 -q 3 -t 16 -r 128 -n 192");
        let space =
            ["qp_type: [RC]", "mtu: [1024]", "opcode: [SEND]", "message: [2KiB]", "qps: [3]", "send_wq_depth: [16]"];
        traced.has("a/space.yaml", &space);
        traced.both();
        traced.has("both/space.yaml", &space);
        // What only the receiver knows.
        traced.has("both/space.yaml", &["recv_wq_depth: [128]", "bidirectional: [false]"]);
        // It is a workload like any other.
        let workload = std::fs::canonicalize(traced.folders[1].join("both/workload.yaml")).expect("it is there");
        let ran = lab.bench.run(&["measure", &workload.display().to_string(), "--subsystem", lab.pair(2000), "--json"]);
        let is_unsteady = ran.status == Some(2) && ran.json()["inconclusive"]["why"] == "unstable";
        assert!(matches!(ran.status, Some(0 | 1)) || is_unsteady, "{ran:?}");
        assert!(ran.json()["directions"][0]["messages_per_sec"].as_f64().expect("a rate") > 10.0, "{ran:?}");

        let pingpong = "ibv_ud_pingpong -d rxe0 -g 1 -s 1024 -r 300 -n 700";
        let traced = TracedRun::run(lab, "pingpong", pingpong, &format!("{pingpong} 10.77.0.2"));
        traced.both();
        for file in ["a/space.yaml", "both/space.yaml"] {
            traced.has(
                file,
                &[
                    "qp_type: [UD]",
                    "mtu: [4096]",
                    "opcode: [SEND]",
                    "message: [1KiB]",
                    "qps: [1]",
                    "send_wq_depth: [1]",
                ],
            );
            traced.has(file, &["recv_wq_depth: [300]", "bidirectional: [true]"]);
        }
    });
}

#[test]
#[ignore = "needs the lab"]
fn the_perftest_lines_of_recipes_do_what_their_workload_says() {
    in_lab(|lab| {
        let datagrams = ["qp_type: [UD]", "opcode: [SEND]", "bidirectional: [false]"];
        let first = ["qps: [1]", "message: [2KiB]", "send_wq_depth: [256]", "send_batch: [64]", "recv_batch: [64]"];
        let second = ["qps: [16]", "message: [1KiB]", "send_wq_depth: [1024]", "send_batch: [4]", "recv_batch: [4]"];
        for (anomaly, rest) in [(1, first), (2, second)] {
            let printed = lab.bench.expect(0, &["recipe", "perftest", &format!("anomaly:{anomaly}"), "--json"]);
            let lines: Value = serde_json::from_str(&printed).expect("one document");
            let line = |end: &str| filled_in(lines[end].as_str().expect("a line"));
            let traced = TracedRun::run(lab, &format!("anomaly-{anomaly}"), &line("server"), &line("client"));
            traced.both();
            traced.has("both/space.yaml", &datagrams);
            traced.has("both/space.yaml", &rest);
        }
        // The connected ones of the paper have more QPs than Soft-RoCE brings up in the time of a run.
        let (op, sge) = (Opcode::Send, vec![Bytes(1024)]);
        let mut workload = workload_from_yaml("test", &super::workload("SEND")).expect("a workload");
        workload.flows[0].pattern = vec![Request { op, sge }];
        let lines = perftest::lines(&workload).expect_err("several MRs per QP");
        assert!(lines.to_string().contains("MRs per QP"), "{lines}");
        (workload.flows[0].memory.from.mrs, workload.flows[0].memory.to.mrs) = (1, 1);
        let lines = perftest::lines(&workload).expect("lines");
        let traced = TracedRun::run(lab, "connected", &filled_in(&lines.server), &filled_in(&lines.client));
        traced.both();
        let expected = ["qps: [4]", "mtu: [1024]", "message: [1KiB]", "send_batch: [8]", "recv_batch: [8]"];
        traced.has("both/space.yaml", &expected);
        traced
            .has("both/space.yaml", &["qp_type: [RC]", "opcode: [SEND]", "send_wq_depth: [16]", "recv_wq_depth: [64]"]);
    });
}

/// What a reader puts in; and a shorter run.
fn filled_in(line: &str) -> String {
    let line = line.replace("DEVICE", "rxe0").replace("GID_INDEX", "1");
    line.replace("SERVER", "10.77.0.2").replace("-D 10", "-D 5")
}

#[test]
#[ignore = "needs the lab"]
fn both_ways_of_posting_look_the_same() {
    in_lab(|lab| {
        let line = "ibv_rc_pingpong -d rxe0 -g 1 -m 1024 -s 4000 -r 100 -n 300";
        let run = |name, line: &str| TracedRun::run(lab, name, line, &format!("{line} 10.77.0.2"));
        let (old, new) = (run("old", line), run("new", &format!("{line} --new_send")));
        for traced in [&old, &new] {
            traced.has("a/space.yaml", &["opcode: [SEND]", "mtu: [1024]", "message: [4000B]", "recv_wq_depth: [100]"]);
            let trace: Value = serde_json::from_str(&traced.read("a/trace.json")).expect("JSON");
            assert_eq!(trace["processes"][0]["qps"][0]["ops"][0]["messages"], 300, "{trace}");
        }
        assert_eq!(new.read("a/workload.yaml"), old.read("a/workload.yaml"));
    });
}

/// Runs a command line and kills it as soon as the device has sent or received a thousand packets.
const KILLED: &str = r#"
"$@" &
packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/"$way"_pkts; }
before=$(packets)
for turn in $(seq 300); do
    [ $(($(packets) - before)) -gt 1000 ] && break
    sleep 0.1
done
kill -9 $!
"#;

#[test]
#[ignore = "needs the lab"]
fn whatever_ends_a_program_what_it_did_is_kept() {
    in_lab(|lab| {
        std::fs::write(lab.dir.join("share/killed.sh"), KILLED).expect("the guests' share is writable");
        let line = "ib_write_bw -d rxe0 -x 1 -F -c RC -m 1024 -s 1024 -q 1 -t 16 -D 60";
        let killed = |way: &str, line: &str| format!("env way={way} sh /run/lab/killed.sh {line}");
        let client = format!("{line} 10.77.0.2");
        let traced = TracedRun::run(lab, "killed", &killed("rcvd", line), &killed("sent", &client));
        traced.has("a/space.yaml", &["opcode: [WRITE]", "message: [1KiB]", "send_wq_depth: [16]"]);
    });
}

//! Jobs that are watched while they write, and jobs that Kelpie runs itself.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::Bench;

const HEADING: &str = "iteration,source,destination,bytes,begin,end,entered\n";
/// Events are due within this.
const DUE: Duration = Duration::from_secs(10);

const TOPOLOGY: &str = "\
kelpie: topology/1
cluster:
  hosts: 8
  nics_per_host: 1
  port_gbps: 200
  leaves: 4
  spines: 4
  cable_gbps: 400
  host_names: [n0, n1, n2, n3, n4, n5, n6, n7]
";

/// Iterations of a ring of eight; rank 5 comes late by `late` in microseconds.
fn ring(iterations: std::ops::Range<u64>, late: f64) -> String {
    let mut text = String::new();
    for iteration in iterations {
        let start = iteration as f64 * 10_000.0;
        for source in 0..8_u32 {
            let noise = [-10.0, 6.0, 13.0, -2.0, -9.0, 4.0, 1.0][(iteration as usize * 3 + source as usize * 5) % 7];
            let entered = start + if source == 5 { late } else { 0.0 };
            // Each forwards what it gets, so that all begin when the late one is there.
            let begin = start + late;
            let end = start + late + 1000.0 + noise;
            let to = (source + 1) % 8;
            let _ = writeln!(text, "{iteration},{source},{to},1048576,{begin},{end},{entered}");
        }
    }
    text
}

/// A watcher, and the events that it prints.
struct Watcher {
    child: Child,
    events: Receiver<Value>,
}

impl Watcher {
    fn start(bench: &Bench, args: &[&str]) -> Self {
        let all = [&["job", "watch", "--json", "--interval", "100ms"], args].concat();
        let folder = bench.path("").display().to_string();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = bench.command(&all);
        let mut child =
            command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (send, events) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = send.send(serde_json::from_str(&line).expect("an event a line"));
            }
        });
        Self { child, events }
    }

    fn next(&self) -> Value {
        self.events.recv_timeout(DUE).expect("an event is due within 10 s")
    }

    fn stop(mut self, signal: Signal) -> (Option<i32>, String) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("it runs");
        let status = self.child.wait().expect("it ends").code();
        let mut text = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
        (status, text)
    }
}

fn append(bench: &Bench, name: &str, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(bench.path(name)).expect("writable");
    file.write_all(text.as_bytes()).expect("written");
}

/// The body of a request, as long as its head says.
fn posted_body(connection: &TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(connection);
    let head = reader.by_ref().lines().map(|line| line.expect("text")).take_while(|line| !line.is_empty());
    let lengths = head.filter_map(|line| Some(line.to_lowercase().strip_prefix("content-length:")?.trim().to_owned()));
    let length: usize = lengths.last().expect("a length").parse().expect("a number");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    body
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < DUE, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_watcher_says_what_begins_and_ends_to_all_who_are_to_hear() {
    let bench = Bench::new();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/kelpie", server.local_addr().expect("it is bound"));
    let (send, posted) = channel();
    std::thread::spawn(move || {
        // The first try is refused: it comes again.
        for (at, connection) in server.incoming().enumerate() {
            let mut connection = connection.expect("a poster");
            let body = posted_body(&connection);
            let status = if at == 0 { "503 Service Unavailable" } else { "200 OK" };
            let _ = write!(connection, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if at > 0 {
                let _ = send.send(serde_json::from_slice::<Value>(&body).expect("JSON"));
            }
        }
    });
    bench.write("t.yaml", TOPOLOGY);
    let args = ["job.csv", "--exec", "cat >> heard", "--webhook", &url, "--topology", "t.yaml"];
    let watcher = Watcher::start(&bench, &args);
    append(&bench, "job.csv", HEADING);
    append(&bench, "job.csv", &ring(0..30, 0.0));
    append(&bench, "job.csv", &ring(30..60, 3000.0));
    let slow = watcher.next();
    assert_eq!(
        (&slow["verdict"], &slow["class"], &slow["rank"][0]),
        (&"slow".into(), &"non_communication".into(), &5.into())
    );
    assert_eq!((&slow["since_iteration"], &slow["event"]), (&30.into(), &1.into()));
    assert_eq!((&slow["placement"]["host"][0], &slow["placement"]["ranks"]["5"]["leaf"][0]), (&"n5".into(), &2.into()));
    append(&bench, "job.csv", &ring(60..130, 0.0));
    let well = watcher.next();
    assert_eq!((&well["state"], &well["event"]), (&"well".into(), &2.into()));
    until("the command heard both", || {
        std::fs::read_to_string(bench.path("heard")).is_ok_and(|text| text.contains("\"event\":2"))
    });
    let heard: Vec<Value> = [DUE, DUE].iter().map(|due| posted.recv_timeout(*due).expect("posted again")).collect();
    assert_eq!(heard, [slow, well]);
    assert_eq!(watcher.stop(Signal::INT).0, Some(0));
}

/// Iterations of a ring of eight whose messages vary by half.
fn noisy_ring(iterations: std::ops::Range<u64>) -> String {
    let mut text = String::new();
    for iteration in iterations {
        let start = iteration as f64 * 10_000.0;
        for source in 0..8_u64 {
            // Source: splitmix64's finaliser, so that neighbours have nothing in common.
            let mut bits = (iteration * 8 + source + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let share = f64::from((bits >> 40) as u32) / f64::from(1 << 24);
            let end = start + 1000.0 * (2.0 * (share - 0.5)).exp();
            let to = (source + 1) % 8;
            let _ = writeln!(text, "{iteration},{source},{to},1048576,{start},{end},{start}");
        }
    }
    text
}

#[test]
fn what_noise_may_have_made_is_said_once_and_drains_nobody() {
    let bench = Bench::new();
    bench.write("t.yaml", TOPOLOGY);
    bench.write("scontrol", "#!/bin/sh\n[ \"$1\" = --oneliner ] && exit\nprintf '%s\\n' \"$@\" >> drained\n");
    std::fs::set_permissions(bench.path("scontrol"), std::fs::Permissions::from_mode(0o755)).expect("executable");
    let watcher = Watcher::start(&bench, &["job.csv", "--topology", "t.yaml", "--slurm", "--act"]);
    append(&bench, "job.csv", HEADING);
    append(&bench, "job.csv", &noisy_ring(0..5));
    std::thread::sleep(Duration::from_millis(500));
    append(&bench, "job.csv", &noisy_ring(5..6));
    let doubt = watcher.next();
    assert_eq!((&doubt["state"], &doubt["verdict"]), (&"undecided".into(), &"undecided".into()));
    assert_eq!((&doubt["class"], doubt.get("slurm")), (&Value::Null, None));
    // The job goes on, and what is news next is that a rank comes late.
    append(&bench, "job.csv", &ring(6..60, 0.0));
    std::thread::sleep(Duration::from_millis(500));
    append(&bench, "job.csv", &ring(60..120, 3000.0));
    let slow = watcher.next();
    assert_eq!((&slow["state"], &slow["event"], &slow["rank"]), (&"slow".into(), &2.into(), &serde_json::json!([5])));
    until("whoever is late is drained", || bench.path("drained").exists());
    assert_eq!(watcher.stop(Signal::INT).0, Some(1));
    let drained = std::fs::read_to_string(bench.path("drained")).expect("written");
    assert_eq!(drained.matches("NodeName").count(), 1, "{drained}");
}

#[test]
fn a_watcher_goes_on_after_a_kill_a_cut_and_a_replacement() {
    let bench = Bench::new();
    let args = ["job.csv", "--state", "state.json"];
    append(&bench, "job.csv", HEADING);
    append(&bench, "job.csv", &ring(0..30, 0.0));
    append(&bench, "job.csv", &ring(30..60, 3000.0));
    let watcher = Watcher::start(&bench, &args);
    assert_eq!(watcher.next()["event"], 1);
    until("the state is written", || bench.path("state.json").exists());
    watcher.stop(Signal::KILL);
    // What is written meanwhile, also half a record, is read afterwards, and what was said is not said again.
    append(&bench, "job.csv", &ring(60..70, 3000.0));
    let more = ring(70..140, 0.0);
    append(&bench, "job.csv", &more[..200]);
    let watcher = Watcher::start(&bench, &args);
    append(&bench, "job.csv", &more[200..]);
    let well = watcher.next();
    assert_eq!(
        (&well["state"], &well["event"], &well["evidence"]["notes"]),
        (&"well".into(), &2.into(), &serde_json::json!([]))
    );
    // The file is replaced by one without a heading that goes on, and then cut by another job.
    std::fs::rename(bench.path("job.csv"), bench.path("job.csv.1")).expect("moved");
    append(&bench, "job.csv.1", &ring(140..150, 3000.0));
    append(&bench, "job.csv", &ring(150..170, 3000.0));
    let slow = watcher.next();
    assert_eq!((&slow["state"], &slow["since_iteration"]), (&"slow".into(), &140.into()));
    std::fs::write(bench.path("job.csv"), format!("{HEADING}{}", ring(0..30, 0.0))).expect("written");
    assert_eq!(watcher.next()["state"], "well", "another job");
    let (status, stderr) = watcher.stop(Signal::TERM);
    assert_eq!(status, Some(0), "{stderr}");
    for words in ["another file is there now", "it was cut", "another job is watched"] {
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn a_hang_is_seen_by_silence_and_slurm_is_asked_only_with_act() {
    let bench = Bench::new();
    bench.write("t.yaml", TOPOLOGY);
    bench.write("scontrol", "#!/bin/sh\n[ \"$1\" = --oneliner ] && exit\nprintf '%s\\n' \"$@\" >> drained\n");
    std::fs::set_permissions(bench.path("scontrol"), std::fs::Permissions::from_mode(0o755)).expect("executable");
    append(&bench, "job.csv", HEADING);
    append(&bench, "job.csv", &ring(0..30, 0.0));
    let last = ring(30..31, 0.0);
    let without = last.lines().filter(|line| !line.starts_with("30,6,")).collect::<Vec<_>>().join("\n");
    append(&bench, "job.csv", &format!("{without}\n"));
    let args = ["job.csv", "--topology", "t.yaml", "--slurm", "--patience", "1s"];
    let watcher = Watcher::start(&bench, &args);
    let hang = watcher.next();
    assert_eq!(
        (&hang["verdict"], &hang["rank"], &hang["since_iteration"]),
        (&"hang".into(), &serde_json::json!([6]), &30.into())
    );
    let line = "scontrol update NodeName=n6 State=DRAIN Reason=\"kelpie: hang, since iteration 30, rank 6\"";
    assert_eq!(hang["slurm"], serde_json::json!([line]));
    assert_eq!(watcher.stop(Signal::INT).0, Some(1));
    assert!(!bench.path("drained").exists(), "nobody said --act");
    let watcher = Watcher::start(&bench, &[&args[..], &["--act"]].concat());
    watcher.next();
    until("it is drained", || bench.path("drained").exists());
    watcher.stop(Signal::INT);
    let drained = std::fs::read_to_string(bench.path("drained")).expect("written");
    assert_eq!(drained, "update\nNodeName=n6\nState=DRAIN\nReason=kelpie: hang, since iteration 30, rank 6\n");
}

/// What Inspector writes of messages between all pairs of sixteen ranks, two a host, of which n1 is slow to others.
fn slow_host(iterations: std::ops::Range<u64>, slow: u64) -> String {
    let mut text = String::new();
    for rank in 0..16_u64 {
        let _ = writeln!(
            text,
            "{{\"header\":{{\"id\":\"0x1\",\"rank\":{rank},\"n_ranks\":16}},\"metadata\":{{\"hostname\":\"n{}\"}}}}",
            rank / 2
        );
        for at in iterations.clone() {
            for to in (0..16).filter(|to| *to != rank) {
                let [from, host] = [rank / 2, to / 2];
                let noise = (at * 31 + rank * 17 + to * 7) % 9;
                let time = if from != host && (from == 1 || host == 1) { slow } else { 1000 } + noise;
                let _ = writeln!(
                    text,
                    "{{\"p2p_perf\":{{\"p2p\":\"Send\",\"p2p_sn\":{at},\"p2p_peer\":{to},\"p2p_msg_size_bytes\":4096,\
                     \"p2p_exec_time_us\":{time}}}}}"
                );
            }
        }
    }
    text
}

#[test]
fn a_host_that_the_verdict_names_is_drained_although_the_scheduler_failed_at_first() {
    let bench = Bench::new();
    // Fails once.
    let script = "#!/bin/sh\n[ \"$1\" = --oneliner ] && exit\nmkdir failed 2>/dev/null && exit 1\nprintf '%s ' \"$@\" >> drained\n";
    bench.write("scontrol", script);
    std::fs::set_permissions(bench.path("scontrol"), std::fs::Permissions::from_mode(0o755)).expect("executable");
    append(&bench, "job.jsonl", &slow_host(0..30, 3000));
    let watcher = Watcher::start(&bench, &["job.jsonl", "--slurm", "--act"]);
    let slow = watcher.next();
    assert_eq!((&slow["state"], &slow["host"]), (&"slow".into(), &serde_json::json!(["n1"])), "{slow}");
    let line = slow["slurm"][0].as_str().expect("a line");
    assert!(line.starts_with("scontrol update NodeName=n1 State=DRAIN"), "{line}");
    until("it is drained", || bench.path("drained").exists());
    let (_, stderr) = watcher.stop(Signal::INT);
    assert!(stderr.contains("n1 is not drained") && stderr.contains("tried again in 2s"), "{stderr}");
}

#[test]
fn a_host_that_was_never_drained_is_not_to_be_taken_back() {
    let bench = Bench::new();
    bench.write("scontrol", "#!/bin/sh\n[ \"$1\" = --oneliner ] && exit\nexit 1\n");
    std::fs::set_permissions(bench.path("scontrol"), std::fs::Permissions::from_mode(0o755)).expect("executable");
    bench.write("t.yaml", TOPOLOGY);
    append(&bench, "job.csv", HEADING);
    append(&bench, "job.csv", &ring(0..60, 0.0));
    append(&bench, "job.csv", &ring(60..120, 3000.0));
    let watcher = Watcher::start(&bench, &["job.csv", "--topology", "t.yaml", "--slurm", "--act"]);
    let slow = watcher.next();
    assert!(slow.get("slurm").is_some(), "{slow}");
    append(&bench, "job.csv", &ring(120..240, 0.0));
    let well = watcher.next();
    assert_eq!((&well["state"], well.get("slurm")), (&"well".into(), None), "{well}");
    watcher.stop(Signal::INT);
}

#[test]
fn what_a_watcher_cannot_follow_is_said() {
    let bench = Bench::new();
    bench.write("wrong.csv", "a,b\n1,2\n");
    let watcher = Watcher::start(&bench, &["wrong.csv"]);
    std::thread::sleep(Duration::from_millis(500));
    let (status, stderr) = watcher.stop(Signal::INT);
    assert_eq!(status, Some(2), "nothing is known");
    assert!(stderr.contains("wrong.csv:1: no record, left out (1 so far): no column `iteration`"), "{stderr}");
    bench.write("t.yaml", TOPOLOGY.replace("  host_names: [n0, n1, n2, n3, n4, n5, n6, n7]\n", ""));
    bench.write("state.json", "{}");
    std::fs::write(bench.path("packed.csv.gz"), [0x1f, 0x8b, 8, 0]).expect("written");
    bench.write("y.csv", format!("{HEADING}{}", ring(0..20, 0.0)));
    let watcher = Watcher::start(&bench, &["y.csv", "--state", "other.json"]);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(watcher.stop(Signal::INT).0, Some(0), "healthy");
    for (args, expected) in [
        (vec!["."], "a folder cannot be followed: name its files, as in ./*"),
        (vec!["packed.csv.gz"], "a packed file (gzip) cannot be followed: `kelpie job diagnose`"),
        (vec!["x.csv", "--slurm", "--topology", "t.yaml"], "write `host_names`"),
        (vec!["x.csv", "--webhook", "https://example.org/x"], "--exec"),
        (vec!["x.csv", "--state", "state.json"], "state.json: no state of a watcher"),
        (vec!["x.csv", "--interval", "1ms"], "write 50ms to 5s"),
        (vec!["-"], "stdin cannot be followed"),
        (vec!["x.csv", "--state", "other.json"], "other.json: it is of y.csv"),
    ] {
        let ran = bench.run(&[&["job", "watch"], &args[..]].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

/// Runs a job with a fault and diagnoses it with the topology.
fn diagnosed(bench: &Bench, status: i32, args: &[&str]) -> Value {
    let text = bench.expect(0, &[&["job", "run", "--topology", "t.yaml"], args].concat());
    bench.write("run.csv", text);
    bench.json(status, &["job", "diagnose", "run.csv", "--topology", "t.yaml"])
}

#[test]
fn a_simulated_ring_gives_the_verdict_that_its_fault_deserves() {
    let bench = Bench::new();
    bench.write("t.yaml", TOPOLOGY);
    assert_eq!(diagnosed(&bench, 0, &["--planned"])["verdict"], "healthy");
    let late = diagnosed(&bench, 1, &["--planned", "--fault", "delay:3:2ms"]);
    assert_eq!(
        (&late["class"], &late["rank"], &late["placement"]["host"][0]),
        (&"non_communication".into(), &serde_json::json!([3]), &"n3".into())
    );
    let link = diagnosed(&bench, 1, &["--planned", "--fault", "pair:6:7:0.5"]);
    assert_eq!((&link["class"], &link["ambiguous"]), (&"communication".into(), &serde_json::json!([[6, 7]])));
    assert_eq!(link["placement"]["ranks"]["6"]["host"], "n6");
    for (fault, class) in [("stop:4", "non_communication"), ("stop:4:5", "non_communication")] {
        let stopped = diagnosed(&bench, 1, &["--planned", "--fault", fault]);
        let found = (&stopped["verdict"], &stopped["class"], &stopped["rank"], &stopped["since_iteration"]);
        assert_eq!(found, (&"hang".into(), &class.into(), &serde_json::json!([4]), &30.into()), "{fault}");
    }
    let dead = diagnosed(&bench, 1, &["--planned", "--fault", "pair:1:2:0"]);
    assert_eq!((&dead["verdict"], &dead["class"]), (&"hang".into(), &"communication".into()));
    assert_eq!(dead["connection"], serde_json::json!([[1, 2]]));
}

#[test]
fn a_rank_whose_last_words_are_of_the_iteration_before_is_the_one_that_stopped() {
    let bench = Bench::new();
    bench.write("t.yaml", TOPOLOGY);
    assert_eq!(diagnosed(&bench, 1, &["--planned", "--fault", "stop:4:5"])["rank"], serde_json::json!([4]));
    // Its process was asked before it came to the last iteration, and never again.
    let text = std::fs::read_to_string(bench.path("run.csv")).expect("just written");
    let last = text.lines().filter_map(|line| line.split(',').next()?.parse::<u64>().ok()).max().expect("records");
    let gone = format!("{last},4,");
    let known: Vec<&str> = text.lines().filter(|line| !line.starts_with(&gone)).collect();
    assert!(known.len() < text.lines().count());
    bench.write("run.csv", known.join("\n") + "\n");
    let hang = bench.json(1, &["job", "diagnose", "run.csv"]);
    assert_eq!((&hang["verdict"], &hang["rank"]), (&serde_json::json!("hang"), &serde_json::json!([4])), "{hang}");
}

#[test]
fn rounds_of_all_pairs_tell_sender_receiver_and_leaf_apart() {
    let bench = Bench::new();
    bench.write("t.yaml", TOPOLOGY);
    let pairs =
        |fault: &str| diagnosed(&bench, 1, &["--collective", "pairs", "--size", "8MiB", "--planned", "--fault", fault]);
    assert_eq!(pairs("sends:2:0.4")["source"], serde_json::json!([2]));
    assert_eq!(pairs("receives:2:0.4")["destination"], serde_json::json!([2]));
    assert_eq!(pairs("pair:0:5:0.4")["connection"], serde_json::json!([[0, 5]]));
}

#[test]
fn pairs_of_subsystems_are_measured_in_rounds() {
    let bench = Bench::new();
    let text = bench.expect(0, &["job", "pairs", "sim:F", "sim:A", "--rounds", "2", "--size", "64KiB"]);
    let ends: Vec<String> =
        text.lines().skip(1).map(|line| line.split(',').take(4).collect::<Vec<_>>().join(",")).collect();
    assert_eq!(ends[..4], ["0,0,1,65536", "0,1,0,65536", "0,2,3,65536", "0,3,2,65536"]);
    assert_eq!(ends.len(), 8);
    bench.write("pairs.csv", text);
    // The pair with an eighth of the rate is the slow one of the two; nothing else was measured of its hosts.
    let found = bench.json(1, &["job", "diagnose", "pairs.csv"]);
    assert_eq!(
        (&found["ambiguous"], &found["evidence"]["cells"]),
        (&serde_json::json!([[2, 3], [3, 2]]), &4.into()),
        "{found}"
    );
}

/// Iterations of many communicators of NCCL's Inspector, of each of which a rank comes late in the second half.
fn inspected(communicators: std::ops::Range<u32>, iterations: std::ops::Range<u64>, is_late: bool) -> String {
    let mut text = String::new();
    for communicator in communicators {
        for rank in 0..4_u64 {
            let _ = writeln!(
                text,
                "{{\"header\":{{\"id\":\"{communicator:#x}\",\"rank\":{rank},\"n_ranks\":4}},\"metadata\":{{\"hostname\":\
                 \"c{communicator}n{rank}\",\"pid\":7}}}}"
            );
            for number in iterations.clone() {
                let noise = (number * 3 + rank * 5) % 7;
                let time = if is_late && rank != 2 { 9000 + noise } else { 1000 + noise };
                let _ = writeln!(
                    text,
                    "{{\"coll_perf\":{{\"coll\":\"AllReduce\",\"coll_sn\":{number},\"coll_msg_size_bytes\":1048576,\
                     \"coll_exec_time_us\":{time}}}}}"
                );
            }
        }
    }
    text
}

#[test]
fn every_event_arrives_at_a_command_that_fails_half_of_the_time() {
    events_arrive(20);
}

mod long {
    #[test]
    #[ignore = "takes a minute"]
    fn two_hundred_events_arrive_at_a_command_that_fails_half_of_the_time() {
        super::events_arrive(200);
    }
}

/// As many communicators become slow, and the watcher is killed on the way.
fn events_arrive(count: u32) {
    let bench = Bench::new();
    append(&bench, "job.log", &inspected(0..count, 0..30, false));
    append(&bench, "job.log", &inspected(0..count, 30..60, true));
    bench.write("take.sh", "if mkdir odd 2>/dev/null; then exit 1; fi\nrmdir odd\ncat >> heard\necho >> heard\n");
    let args = ["job.log", "--exec", "sh take.sh", "--state", "state.json"];
    let watcher = Watcher::start(&bench, &args);
    let first = watcher.next();
    assert_eq!((&first["state"], &first["rank"]), (&"slow".into(), &serde_json::json!([2])));
    until("some arrive", || bench.path("heard").exists());
    watcher.stop(Signal::KILL);
    let watcher = Watcher::start(&bench, &args);
    let heard = || {
        let text = std::fs::read_to_string(bench.path("heard")).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.map(|event| event["evidence"]["communicator"].to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    let begin = Instant::now();
    while (heard().len() as u32) < count {
        assert!(begin.elapsed() < Duration::from_mins(2), "{} of {count} communicators", heard().len());
        std::thread::sleep(Duration::from_millis(100));
    }
    watcher.stop(Signal::TERM);
}

#[test]
fn a_second_watcher_of_a_state_is_refused_and_a_state_that_cannot_be_written_ends_nobody() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("kept")).expect("a folder");
    append(&bench, "job.csv", &format!("{HEADING}{}", ring(0..30, 0.0)));
    let args = ["job.csv", "--state", "kept/state.json", "--exec", "cat >> heard"];
    let watcher = Watcher::start(&bench, &args);
    until("it has the lock", || bench.path("kept/state.json.lock").exists());
    let second = bench.run(&["job", "watch", "job.csv", "--state", "kept/state.json"]);
    assert_eq!(second.status, Some(2), "{second:?}");
    assert!(second.stderr.contains("kept/state.json: another watcher (process"), "{}", second.stderr);
    // Whatever it is that does not take the state: here its folder is gone for a while.
    std::fs::rename(bench.path("kept"), bench.path("away")).expect("moved");
    append(&bench, "job.csv", &ring(30..60, 3000.0));
    assert_eq!(watcher.next()["state"], "slow");
    until("it is delivered all the same", || bench.path("heard").exists());
    std::thread::sleep(Duration::from_millis(500));
    std::fs::rename(bench.path("away"), bench.path("kept")).expect("moved back");
    append(&bench, "job.csv", &ring(60..130, 0.0));
    assert_eq!(watcher.next()["state"], "well");
    until("the state is written", || bench.path("kept/state.json").exists());
    let (status, stderr) = watcher.stop(Signal::TERM);
    assert_eq!(status, Some(0), "{stderr}");
    for words in ["watching goes on", "it is written again"] {
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn an_event_that_waits_for_a_webhook_outlasts_a_start_without_it() {
    let bench = Bench::new();
    append(&bench, "job.csv", &format!("{HEADING}{}{}", ring(0..30, 0.0), ring(30..60, 3000.0)));
    let args = ["job.csv", "--state", "state.json"];
    let watcher = Watcher::start(&bench, &[&args[..], &["--webhook", "http://127.0.0.1:9/x"]].concat());
    watcher.next();
    until("it waits", || bench.path("state.json").exists());
    watcher.stop(Signal::KILL);
    let watcher = Watcher::start(&bench, &args);
    std::thread::sleep(Duration::from_millis(500));
    let (status, stderr) = watcher.stop(Signal::TERM);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("1 events wait for --webhook, which is not given"), "{stderr}");
}

#[test]
fn hosts_that_records_name_are_cordoned_and_taken_back_and_all_is_no_host() {
    let bench = Bench::new();
    let program = "#!/bin/sh\ncase \"$1\" in\nget) cat node 2>/dev/null;;\n*) echo \"$*\" >> asked\nesac\n\
        [ \"$1\" = cordon ] && printf 'true\\nTrue\\nkelpie: slow\\n' > node\nexit 0\n";
    bench.write("kubectl", program);
    std::fs::set_permissions(bench.path("kubectl"), std::fs::Permissions::from_mode(0o755)).expect("executable");
    append(&bench, "job.log", &inspected(7..8, 0..30, false));
    append(&bench, "job.log", &inspected(7..8, 30..60, true));
    let watcher = Watcher::start(&bench, &["job.log", "--kubernetes", "--act", "--resume"]);
    let slow = watcher.next();
    assert_eq!(slow["kubernetes"][0], "kubectl cordon c7n2");
    until("it is cordoned", || bench.path("node").exists());
    append(&bench, "job.log", &inspected(7..8, 60..100, false));
    append(&bench, "job.log", &inspected(7..8, 100..140, false));
    let well = watcher.next();
    assert_eq!((&well["state"], &well["kubernetes"][1]), (&"well".into(), &"kubectl uncordon c7n2".into()));
    let asked = || std::fs::read_to_string(bench.path("asked")).unwrap_or_default();
    until("it is taken back", || asked().contains("uncordon c7n2"));
    watcher.stop(Signal::TERM);
    assert!(asked().contains("--subresource=status") && asked().contains("KelpieDegraded"), "{}", asked());
    // A host may be called so, and Slurm would drain every node.
    let all = |text: String| text.replace("c7n2", "ALL");
    append(&bench, "all.log", &all(inspected(7..8, 0..30, false) + &inspected(7..8, 30..60, true)));
    let watcher = Watcher::start(&bench, &["all.log", "--slurm"]);
    let slow = watcher.next();
    assert_eq!((&slow["rank"], slow.get("slurm")), (&serde_json::json!([2]), None));
    let (_, stderr) = watcher.stop(Signal::TERM);
    assert!(stderr.contains("host `ALL` is a keyword of Slurm"), "{stderr}");
}

/// A file beside the tests of the diagnosis.
fn recorded(name: &str) -> String {
    format!("{}/monitor/diagnosis/tests/recorded/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn what_inspector_writes_is_judged_by_function_and_with_its_marker() {
    let bench = Bench::new();
    let healthy = bench.json(0, &["job", "diagnose", &recorded("inspector-v4.3.jsonl.gz")]);
    assert_eq!((&healthy["verdict"], &healthy["evidence"]["iterations"]), (&"healthy".into(), &64.into()));
    let late = bench.json(1, &["job", "diagnose", &recorded("inspector-fsdp.jsonl.gz")]);
    assert_eq!((&late["verdict"], &late["rank"]), (&"slow".into(), &serde_json::json!([5])));
}

/// Python's pickle wrote the dumps, in the shape of `PyTorch`'s version 2.9.
#[test]
fn dumps_of_flight_recorders_name_the_rank_that_did_not_come() {
    let hang = Bench::new().json(1, &["job", "diagnose", &recorded("flight")]);
    let (verdict, rank) = (&hang["verdict"], &hang["rank"]);
    assert_eq!((verdict, rank, &hang["since_iteration"]), (&"hang".into(), &serde_json::json!([1]), &31.into()));
    assert_eq!(hang["evidence"]["communicator"], "0 (default_pg)");
}

#[test]
fn a_table_of_more_rows_than_are_kept_is_refused_before_it_costs_memory() {
    let bench = Bench::new();
    let mut file = std::io::BufWriter::new(std::fs::File::create(bench.path("long.csv")).expect("writable"));
    file.write_all(HEADING.as_bytes()).expect("written");
    let rows = b"1,0,1,1,1,2,1\n".repeat(1 << 13);
    for _ in 0..=1 << 10 {
        file.write_all(&rows).expect("written");
    }
    drop(file);
    let script = format!("ulimit -v 300000; exec {} job diagnose long.csv", env!("CARGO_BIN_EXE_kelpie"));
    let ran =
        std::process::Command::new("sh").args(["-c", &script]).current_dir(bench.path("")).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("more than 8388608 operations"), "{stderr}");
}

#[test]
fn a_baseline_of_nccl_tests_shows_that_all_of_a_job_is_slow() {
    let bench = Bench::new();
    bench.write("job.log", inspected(0..1, 0..60, false));
    let printed = |time: u32| {
        format!(
            "# Collective test starting: all_reduce_perf\n# size count type redop root time algbw busbw #wrong\n\
         1048576 262144 float sum -1 {time} 1.0 1.0 0\n"
        )
    };
    for (time, status, verdict) in [(950, 0, "healthy"), (400, 1, "slow")] {
        bench.write("nccl-tests.txt", printed(time));
        let found = bench.json(status, &["job", "diagnose", "job.log", "--baseline", "nccl-tests.txt"]);
        assert_eq!(found["verdict"], verdict, "{found}");
    }
}

//! Fleets of simulated hosts behind real agents, qualified by the binary: who is out, and what that costs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use kelpie_examine::simulated_host::{FleetAgent, SimulatedFleet};
use kelpie_sim::SimSubsystem;
use kelpie_store::{QualificationId, Store};
use serde_json::Value;

use crate::support::Bench;

/// What is wrong with a host.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    /// Its cable is slower.
    Slow,
    /// Two weaknesses of its model are mended.
    Mended,
    Fault(&'static str),
    /// Nobody listens.
    Absent,
}

/// A fleet behind loopback addresses of its own, and its inventory.
fn fleet(bench: &Bench, hosts: usize, wrong: impl Fn(usize) -> Wrong) -> SimulatedFleet {
    let model = |wrong: Wrong, seed: usize| {
        let mut model = SimSubsystem::load("F").expect("embedded");
        model.set("sampling.seed", &(seed + 1).to_string()).expect("a parameter");
        model.set("sampling.noise", "0.005").expect("a parameter");
        if wrong == Wrong::Slow {
            model.set("port.line_rate_gbps", "100").expect("a parameter");
        }
        if wrong == Wrong::Mended {
            for anomaly in [11, 12] {
                model.fix(anomaly).expect("it has a fix");
            }
        }
        model
    };
    let listen = |host: usize| SocketAddr::from((Ipv4Addr::new(127, 1, (host / 250) as u8, (host % 250 + 1) as u8), 0));
    let agents = (0..hosts).map(|host| FleetAgent {
        listen: listen(host),
        model: model(wrong(host), host),
        fault: match wrong(host) {
            Wrong::Fault(fault) => Some(fault.parse().expect("a fault")),
            _ => None,
        },
    });
    let fleet = SimulatedFleet::serve(agents).expect("loopback");
    let mut file = "kelpie: inventory/1\nhosts:\n".to_owned();
    for (host, address) in fleet.addresses().enumerate() {
        if wrong(host) == Wrong::Absent {
            fleet.kill(host);
        }
        let (leaf, pod) = (host / 16, host / 64);
        let _ = writeln!(file, "  - {{name: n{host}, agent: \"{address}\", leaf: l{leaf}, pod: p{pod}}}");
    }
    bench.write("hosts.yaml", file);
    fleet
}

/// The state of each host that is not in, by its number.
fn not_in(verdict: &Value) -> Vec<(usize, String)> {
    let nodes = verdict["nodes"].as_object().expect("nodes").iter();
    let mut wrong: Vec<(usize, String)> = nodes
        .map(|(name, node)| (name[1..].parse().expect("a number"), node["state"].as_str().expect("a state").to_owned()))
        .filter(|(_, state)| state != "in")
        .collect();
    wrong.sort();
    wrong
}

fn out(hosts: impl IntoIterator<Item = usize>) -> Vec<(usize, String)> {
    hosts.into_iter().map(|host| (host, "out".to_owned())).collect()
}

#[test]
fn a_quick_scan_names_hosts_that_are_slow_hang_lie_die_or_are_absent_and_judges_the_others() {
    let bench = Bench::new();
    let wrong = |host: usize| match host {
        3 => Wrong::Slow,
        8 => Wrong::Fault("hang"),
        13 => Wrong::Fault("lie"),
        21 => Wrong::Fault("die:1"),
        26 => Wrong::Absent,
        _ => Wrong::Nothing,
    };
    let _fleet = fleet(&bench, 32, wrong);
    let checked = bench.run(&["inventory", "check", "hosts.yaml", "--json"]);
    assert_eq!((&checked.json()["silent"], checked.status), (&Value::from(1), Some(1)), "{}", checked.stdout);
    let ran = bench.run(&["qualify", "run", "hosts.yaml", "--db", "k.db", "--json", "--report", "report"]);
    let verdict = ran.json();
    assert_eq!((not_in(&verdict), ran.status), (out([3, 8, 13, 21, 26]), Some(1)), "{}", ran.stdout);
    let fault = &verdict["nodes"]["n3"]["faults"][0];
    assert!(
        fault["measured"]["got"].as_f64() < Some(105.0) && fault["measured"]["want"].as_f64() > Some(150.0),
        "{fault}"
    );
    for file in ["index.html", "junit.xml", "kelpie.prom", "nhc.txt", "nodes.jsonl"] {
        let text = std::fs::read_to_string(bench.path("report").join(file)).expect("a file of the report");
        assert!(text.contains("n26"), "{file}");
    }
    let shown = bench.run(&["qualify", "show", "--db", "k.db", "--json"]);
    assert_eq!(shown.json(), verdict);
    // A later report has what was said before; one without a run before it has no history.
    let plan = ["qualify", "run", "hosts.yaml", "--plan", "loopback_write", "--db", "k.db", "--report", "second"];
    bench.run(&plan);
    let page = |folder: &str| std::fs::read_to_string(bench.path(folder).join("index.html")).expect("a page");
    let second = page("second");
    assert!(second.contains("History") && second.contains("out: pair_bandwidth"), "{second}");
    assert!(!page("report").contains("History"));
}

#[test]
fn an_agent_that_closes_without_a_word_is_unknown_and_its_certificates_are_the_next_step() {
    let bench = Bench::new();
    let _fleet = fleet(&bench, 4, |_| Wrong::Nothing);
    let closes = TcpListener::bind("127.1.0.99:0").expect("loopback");
    let address = closes.local_addr().expect("an address");
    thread::spawn(move || closes.incoming().for_each(drop));
    let hosts = std::fs::read_to_string(bench.path("hosts.yaml")).expect("written");
    bench.write("hosts.yaml", format!("{hosts}  - {{name: n4, agent: \"{address}\", leaf: l0, pod: p0}}\n"));
    let ran = bench.run(&["qualify", "run", "hosts.yaml", "--db", "k.db", "--json"]);
    let verdict = ran.json();
    assert_eq!((not_in(&verdict), ran.status), (vec![(4, "unknown".to_owned())], Some(2)), "{}", ran.stdout);
    let why = &verdict["nodes"]["n4"]["unsure"];
    assert!(why[0].as_str().expect("words").contains("`tls` of the inventory"), "{why}");
    assert_eq!(why[1], Value::Null, "once for all checks");
}

#[test]
fn a_run_below_its_floor_is_judged_again_by_another_one_and_two_hosts_have_floors() {
    let bench = Bench::new();
    let _fleet = fleet(&bench, 2, |_| Wrong::Slow);
    let floors = |pair: &str| ["--floor".to_owned(), format!("pair_bandwidth={pair}")];
    let run = |command: &[&str], pair: &str| {
        let floors = floors(pair);
        let all = [command, &["--db", "k.db", "--floor", &floors[1]]].concat();
        bench.run(&all)
    };
    let ran = run(&["qualify", "run", "hosts.yaml", "--floor", "loopback_write=100"], "180");
    assert_eq!((ran.status, ran.stdout.lines().count()), (Some(2), 4), "{}", ran.stdout);
    let shown = run(&["qualify", "show"], "80");
    assert!(shown.status == Some(0) && shown.stdout.contains("2 in"), "{}{}", shown.stdout, shown.stderr);

    let _fleet = fleet(&bench, 3, |_| Wrong::Slow);
    let ran = run(&["qualify", "run", "hosts.yaml"], "180");
    assert!(
        ran.status == Some(2) && ran.stderr.contains("kelpie qualify show --floor pair_bandwidth"),
        "{}",
        ran.stderr
    );
    assert_eq!(run(&["qualify", "show"], "80").status, Some(0));
    assert_eq!(run(&["qualify", "resume"], "80").status, Some(0));
    let taken = bench.run(&["qualify", "run", "hosts.yaml", "--db", "k.db", "--report", "."]);
    assert!(
        taken.stderr.contains("a new or an empty directory") && !taken.stderr.contains("--out"),
        "{}",
        taken.stderr
    );
}

#[test]
fn half_of_a_fleet_that_is_slow_is_never_in() {
    for (hosts, healthy) in [(4, 2), (10, 5)] {
        let bench = Bench::new();
        let fleet = fleet(&bench, hosts, |host| if host < hosts - healthy { Wrong::Slow } else { Wrong::Nothing });
        let ran = bench.run(&["qualify", "run", "hosts.yaml", "--db", "k.db", "--json"]);
        let (verdict, slow) = (ran.json(), hosts - healthy);
        let not_in = not_in(&verdict);
        assert!((0..slow).all(|host| not_in.iter().any(|(other, _)| *other == host)), "{hosts}: {}", ran.stdout);
        assert!(not_in.iter().all(|(host, state)| *host < slow || state != "out"), "{hosts}: {}", ran.stdout);
        drop(fleet);
    }
}

/// Units of the first qualification, as far as they are stored.
fn units(bench: &Bench) -> Vec<String> {
    units_of(bench, 1)
}

fn units_of(bench: &Bench, qualification: i64) -> Vec<String> {
    let mut units = Vec::new();
    let Ok(mut store) = Store::open_to_read(bench.path("k.db").as_path()) else { return units };
    let read = store.units(QualificationId(qualification), 0, |_, unit| {
        let unit: Value = serde_json::from_str(unit).expect("JSON");
        units.push(format!("{} {}", unit["check"], unit["hosts"]));
        ControlFlow::Continue(())
    });
    read.map(|()| units).unwrap_or_default()
}

#[test]
fn a_qualification_that_was_killed_goes_on_and_does_nothing_twice() {
    let bench = Bench::new();
    let _fleet = fleet(&bench, 8, |_| Wrong::Nothing);
    let plan = ["qualify", "run", "hosts.yaml", "--plan", "all_pairs", "--at-once", "2", "--db", "k.db", "--quiet"];
    let mut killed = bench.command(&plan).spawn().expect("it starts");
    let started = Instant::now();
    while units(&bench).len() < 3 {
        assert!(started.elapsed() < Duration::from_secs(20), "units are stored as they end");
        thread::sleep(Duration::from_millis(20));
    }
    // Another one may not write it meanwhile.
    let second = bench.run(&["qualify", "resume", "1", "--db", "k.db"]);
    assert!(second.status == Some(2) && second.stderr.contains("is being run by another process"), "{second:?}");
    killed.kill().and_then(|()| killed.wait()).expect("it ends");
    let before = units(&bench);
    assert!((3..28).contains(&before.len()), "{}", before.len());
    bench.expect(0, &["qualify", "resume", "--db", "k.db"]);
    let after = units(&bench);
    let each: BTreeSet<&String> = after.iter().collect();
    assert_eq!((after.len(), each.len(), &after[..before.len()]), (28, 28, &before[..]));
}

/// A hundredth of the hosts are slow, as many hang, lie, die and are absent: 5 %.
#[test]
#[ignore = "long"]
fn a_thousand_agents_are_judged_in_a_minute_and_200_mib() {
    let bench = Bench::new();
    let wrong = |host: usize| match host % 100 {
        17 => Wrong::Slow,
        31 => Wrong::Fault("hang"),
        49 => Wrong::Fault("lie"),
        68 => Wrong::Fault("die:2"),
        83 => Wrong::Absent,
        _ => Wrong::Nothing,
    };
    let _fleet = fleet(&bench, 1000, wrong);
    let started = Instant::now();
    let mut command = bench.command(&["qualify", "run", "hosts.yaml", "--db", "k.db", "--json"]);
    let child =
        command.stdout(std::fs::File::create(bench.path("out.json")).expect("writable")).spawn().expect("it starts");
    let status = format!("/proc/{}/status", child.id());
    let watch = thread::spawn(move || {
        let mut most = 0_u64;
        while let Ok(text) = std::fs::read_to_string(&status) {
            let line = text.lines().find(|line| line.starts_with("VmHWM"));
            let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
            let Some(kib) = kib else { break };
            most = most.max(kib);
            thread::sleep(Duration::from_millis(50));
        }
        most
    });
    let ended = child.wait_with_output().expect("it ends");
    let (took, most) = (started.elapsed(), watch.join().expect("it watched"));
    eprintln!("{took:?}, {most} KiB");
    let verdict: Value =
        serde_json::from_slice(&std::fs::read(bench.path("out.json")).expect("written")).expect("JSON");
    let expected = out((0..1000).filter(|host| wrong(*host) != Wrong::Nothing));
    assert_eq!((not_in(&verdict), ended.status.code()), (expected, Some(1)));
    assert!(most < 200 << 10, "{most} KiB");
}

/// A plan that the past chooses: all checks while there is none, and those that are worth their time once there is.
#[test]
fn a_plan_of_the_past_leaves_out_checks_and_says_what_remains() {
    let bench = Bench::new();
    let _fleet = fleet(&bench, 4, |_| Wrong::Nothing);
    let run = |more: &[&str]| {
        let words = ["qualify", "run", "hosts.yaml", "--plan", "auto", "--db", "k.db", "--json"];
        let ran = bench.run(&[&words, more].concat());
        (ran.json(), ran.stderr, ran.status)
    };
    let checks = |qualification: i64| -> BTreeSet<String> {
        let units = units_of(&bench, qualification);
        units.iter().map(|unit| unit.split('"').nth(1).expect("a check").to_owned()).collect()
    };
    let (said, stderr, status) = run(&[]);
    assert!(stderr.contains("plan: all checks, because no qualification with all checks has ended yet"), "{stderr}");
    assert_eq!((status, checks(1).len()), (Some(0), 5), "{said}");
    // Two weeks of the hosts, in which loopback found what pairs found, and incasts what nothing else did.
    let mut past = String::new();
    for (check, minutes, found) in [("loopback_write", 1, 0..9), ("all_pairs", 60, 5..9), ("incast_3", 9, 9..12)] {
        let _ = writeln!(past, r#"{{"kind": "check", "check": "{check}", "minutes": {minutes}}}"#);
        for defect in found {
            let _ = writeln!(past, r#"{{"kind": "found", "check": "{check}", "defect": {defect}}}"#);
        }
    }
    for host in 0..4 {
        let _ = writeln!(past, r#"{{"kind": "observed", "node": "n{host}", "begin": 1000, "end": 1336}}"#);
        let _ = writeln!(
            past,
            r#"{{"kind": "incident", "node": "n{host}", "time": {}, "category": "nic"}}"#,
            1090 + 40 * host
        );
    }
    bench.write("past.jsonl", past);
    let (said, stderr, status) = run(&["--history", "past.jsonl"]);
    assert_eq!(
        (status, &said["auto"]["checks"]),
        (Some(0), &serde_json::json!(["loopback_write", "incast_3"])),
        "{said}"
    );
    assert!(stderr.contains("left out: all_pairs (60.0 min): it found nothing that the others did not"), "{stderr}");
    assert_eq!(checks(2), ["incast_3".to_owned(), "loopback_write".to_owned()].into());
    let (said, stderr, status) = run(&["--history", "past.jsonl", "--time", "2m"]);
    assert_eq!((status, &said["auto"]["checks"]), (Some(0), &serde_json::json!(["loopback_write"])), "{said}");
    assert!(stderr.contains("incast_3 (9.0 min): there is no time for it; 3 of 12 defects"), "{stderr}");
    let left = said["auto"]["choice"]["residual"].as_f64().expect("a number")
        / said["auto"]["choice"]["probability"].as_f64().expect("a number");
    assert!((left - 0.25).abs() < 1e-9, "{said}");
}

#[test]
fn checks_that_no_host_can_do_say_nothing_of_hosts_and_batches_measure_neighbours() {
    let bench = Bench::new();
    let _fleet = fleet(&bench, 9, |host| if host == 4 { Wrong::Slow } else { Wrong::Nothing });
    let plan = "doctor,ring,batches_4,loopback_write";
    let ran = bench.run(&["qualify", "run", "hosts.yaml", "--plan", plan, "--db", "k.db", "--json"]);
    let verdict = ran.json();
    assert_eq!((not_in(&verdict), ran.status), (out([4]), Some(1)), "{}", ran.stdout);
    // The files of this machine have no device of a model, which has one peer at a time.
    let why = |check: &str| verdict["without"][check].as_str().expect("a reason").to_owned();
    assert!(why("doctor").contains("no host can do it: its agent has the device"), "{}", why("doctor"));
    assert!(why("ring").contains("one peer at a time"), "{}", why("ring"));
    let units = units(&bench);
    let count = |check: &str| {
        units.iter().filter(|unit| unit.starts_with(&format!("\"{check}\""))).collect::<BTreeSet<_>>().len()
    };
    assert_eq!((count("doctor"), count("loopback_write")), (9, 9), "{units:?}");
    assert!(count("pair") >= 6 + 10, "{units:?}");
}

/// Campaigns over the pairs of an inventory: what one pair finds is measured on the others.
#[test]
fn campaigns_of_pairs_say_which_pairs_show_a_finding() {
    let bench = Bench::new();
    let agents = fleet(&bench, 5, |host| if host / 2 == 1 { Wrong::Mended } else { Wrong::Nothing });
    let file = std::fs::read_to_string(bench.path("hosts.yaml")).expect("it was written");
    bench.write("hosts.yaml", file + "session: {warm_up_ms: 60, sample_ms: 20, samples: 4, drain_ms: 10}\n");
    let words = ["campaign", "run", "--subsystem", "hosts.yaml", "--budget", "20", "--db", "k.db"];
    let ran = bench.run(&[&words[..], &["--json"]].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("n4 has no partner"), "{}", ran.stderr);
    let said = ran.json();
    let campaigns: BTreeSet<i64> =
        said["pairs"].as_array().expect("pairs").iter().map(|pair| pair["campaign"].as_i64().expect("one")).collect();
    assert_eq!(campaigns, [1, 2].into(), "{said}");
    let on = |key: &str, pairs: &[&str]| {
        let findings = said["findings"].as_array().expect("findings");
        findings.iter().filter(|finding| finding[key] == serde_json::json!(pairs)).count()
    };
    assert!(on("seen_on", &["n0+n1"]) > 0 && on("not_on", &["n2+n3"]) > 0, "{said}");
    assert_eq!(on("unknown_on", &[]), said["findings"].as_array().map_or(0, Vec::len), "{said}");
    assert_eq!(bench.json(0, &["campaign", "show", "2", "--db", "k.db"])["experiments"], Value::from(20));
    // A pair whose agents are gone costs the others nothing.
    drop(agents);
    let ran = bench.run(&words);
    assert!(ran.status == Some(2) && ran.stdout.contains("n2+n3: "), "{ran:?}");
}

/// A weakness of one host is a fault, and one of all hosts is what they are.
#[test]
fn a_campaign_of_a_plan_names_the_host_and_the_finding() {
    let bench = Bench::new();
    let _fleet = fleet(&bench, 5, |host| if host == 1 { Wrong::Nothing } else { Wrong::Mended });
    let file = std::fs::read_to_string(bench.path("hosts.yaml")).expect("it was written");
    bench.write("hosts.yaml", file + "session: {warm_up_ms: 20, sample_ms: 20, samples: 4, drain_ms: 10}\n");
    bench.write(
        "plan.yaml",
        "kelpie: plan/1\nchecks: [loopback_write]\ncampaigns: [{name: app, space: full, budget: 16}]\n",
    );
    let ran = bench.run(&["qualify", "run", "hosts.yaml", "--plan", "plan.yaml", "--db", "k.db", "--json"]);
    let verdict = ran.json();
    assert_eq!((not_in(&verdict), ran.status), (out([1]), Some(1)), "{}", ran.stdout);
    let fault = &verdict["nodes"]["n1"]["faults"][0];
    assert_eq!(fault["check"], "app", "{fault}");
    let detail = fault["detail"].as_str().expect("words");
    assert!(detail.starts_with("finding ") && detail.contains("it shows with n"), "{detail}");
}

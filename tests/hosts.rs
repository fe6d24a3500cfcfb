//! `kelpie host matrix` on simulated hosts, and the way from their traffic to the part that is at fault.

use serde_json::{Value, json};

use crate::support::Bench;

/// A folder with the topology of a simulated host and its healthy matrix.
fn host(name: &str) -> Bench {
    let bench = Bench::new();
    let subsystem = format!("sim:{name}");
    bench.write("t.yaml", bench.expect(0, &["host", "topology", "--subsystem", &subsystem]));
    bench.expect(0, &["host", "matrix", "--subsystem", &subsystem, "--out", "healthy.json"]);
    bench
}

/// Measures the host with these changes, and has it diagnosed.
fn found(bench: &Bench, name: &str, status: i32, sets: &[&str], words: &[&str]) -> Value {
    let subsystem = format!("sim:{name}");
    let mut args = vec!["host", "matrix", "--subsystem", &subsystem, "--out", "m.json", "--force"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    args.extend(words);
    bench.expect(0, &args);
    let mut diagnose = vec!["host", "diagnose", "m.json", "--topology", "t.yaml", "--baseline", "healthy.json"];
    // One matrix of a busy host may have met a burst of other traffic, and five have not.
    let again = ["m2.json", "m3.json", "m4.json", "m5.json"];
    if words.contains(&"--busy") {
        for name in again {
            std::fs::copy(bench.path("m.json"), bench.path(name)).expect("just written");
        }
        diagnose.extend(again);
    }
    bench.json(status, &[&diagnose[..], words].concat())
}

/// The faults of Hostping's deployment as parameters of parts, what they are to be called, and their cause.
const A100: [(&str, &str, &str); 9] = [
    ("rnic2|leaf0.width=0.25", "rnic2|leaf0", "port_or_cable"),
    ("rnic0|psw0.width=0.25", "rnic0|psw0", "rnic_pcie_link"),
    ("psw0|cpu0.width=0.25", "psw0|cpu0", "root_port_or_uplink"),
    ("gpu3|psw1.width=0.25", "gpu3|psw1", "gpu_pcie_link"),
    ("mem1|cpu1.width=0.25", "mem1|cpu1", "memory_channel"),
    ("cpu0|cpu1.width=0.25", "cpu0|cpu1", "socket_interconnect"),
    ("cpu0|cpu1.load=0.9", "cpu0|cpu1", "socket_interconnect"),
    ("psw2.acs=on", "acs_or_ats:psw2", "acs_or_ats"),
    ("rnic1.ats=off", "acs_or_ats:psw1", "acs_or_ats"),
];

#[test]
fn each_fault_of_an_idle_host_is_found_by_its_traffic_with_its_cause() {
    let bench = host("a100");
    let healthy = found(&bench, "a100", 0, &[], &[]);
    assert_eq!((&healthy["verdict"], &healthy["causes"]), (&json!("healthy"), &json!([])), "{healthy}");
    for (set, place, cause) in A100 {
        let found = found(&bench, "a100", 1, &[set], &[]);
        let (explanations, settings) =
            if cause == "acs_or_ats" { (json!([]), json!([place])) } else { (json!([[place]]), json!([])) };
        assert_eq!((&found["explanations"], &found["misconfiguration"]), (&explanations, &settings), "{set}: {found}");
        assert_eq!((&found["causes"][0]["cause"], &found["unexplained"]), (&json!(cause), &json!([])), "{set}");
    }
}

/// What applications do on each RNIC of a busy host.
const SERVICE: [&str; 4] =
    ["rnic0.service_gbps=20", "rnic1.service_gbps=20", "rnic2.service_gbps=20", "rnic3.service_gbps=20"];

#[test]
fn each_fault_of_a_busy_host_is_found_but_an_rnics_own_link() {
    let bench = host("a100");
    let quiet = found(&bench, "a100", 2, &SERVICE, &["--busy"]);
    assert_eq!((&quiet["verdict"], &quiet["explanations"]), (&json!("undecided"), &json!([])), "{quiet}");
    for (set, place, cause) in A100 {
        // Nothing is sent to other RNICs then.
        if cause == "port_or_cable" {
            continue;
        }
        // An RNIC is compared with itself, so its own link is not seen: its LnkSta is to be read.
        let is_own = cause == "rnic_pcie_link";
        let sets: Vec<&str> = SERVICE.iter().copied().chain([set]).collect();
        let found = found(&bench, "a100", if is_own { 2 } else { 1 }, &sets, &["--busy"]);
        if is_own {
            assert!(found["notes"].to_string().contains("LnkSta"), "{found}");
            continue;
        }
        let (key, place) =
            if cause == "acs_or_ats" { ("misconfiguration", json!(place)) } else { ("explanations", json!([place])) };
        assert!(found[key].as_array().is_some_and(|all| all.contains(&place)), "{set}: {found}");
        assert!(found["causes"].to_string().contains(cause), "{set}");
    }
}

#[test]
fn every_simulated_host_is_healthy_by_its_siblings_and_its_narrow_links_are_found() {
    for (name, set, truth) in [
        ("h100", "psw5|cpu1.width=0.25", "psw5|cpu1"),
        ("nps4", "mem6|numa6.width=0.5", "mem6|numa6"),
        ("storage", "rnic2|cpu1.width=0.25", "rnic2|cpu1"),
        ("two-socket", "mem0|cpu0.width=0.5", "mem0|cpu0"),
    ] {
        let bench = host(name);
        let healthy = bench.json(0, &["host", "diagnose", "healthy.json", "--topology", "t.yaml"]);
        assert_eq!(healthy["verdict"], "healthy", "{name}: {healthy}");
        let found = found(&bench, name, 1, &[set], &[]);
        assert_eq!(found["explanations"], json!([[truth]]), "{name}: {found}");
    }
}

#[test]
fn a_cable_between_two_rnics_is_named_and_one_that_nobody_measured_is_not_cleared() {
    let bench = host("two-socket");
    // The only cable: nothing else carries what goes over it, and the RNICs' own links are cleared by loopback.
    let found = found(&bench, "two-socket", 1, &["rnic0|rnic1.width=0.25"], &[]);
    assert_eq!(found["explanations"], json!([["rnic0|rnic1"]]), "{found}");
    assert_eq!(
        (&found["causes"][0]["cause"], &found["paths"]["rnic0"]["mem0"]),
        (&json!("port_or_cable"), &json!("normal"))
    );
    // A cable that nobody measured is not cleared, and what has no cable has no way.
    let healthy = std::fs::read_to_string(bench.path("healthy.json")).expect("written");
    let mut without: Value = serde_json::from_str(&healthy).expect("JSON");
    for key in ["columns", "bandwidth_gbps", "latency_us"] {
        let cut = |list: &mut Value| list.as_array_mut().expect("a list").truncate(2);
        match key {
            "columns" => cut(&mut without[key]),
            _ => without[key].as_array_mut().expect("rows").iter_mut().for_each(cut),
        }
    }
    bench.write("short.json", without.to_string());
    let seen = bench.json(0, &["host", "diagnose", "short.json", "--topology", "t.yaml"]);
    assert_eq!((&seen["links"]["rnic0|rnic1"], &seen["verdict"]), (&json!("undecided"), &json!("healthy")), "{seen}");
    let topology = std::fs::read_to_string(bench.path("t.yaml")).expect("written");
    let place = topology.find("  - a: rnic0\n    b: rnic1").expect("a cable");
    let end = topology[place + 4..].find("  - a:").map_or(topology.len(), |next| place + 4 + next);
    bench.write("uncabled.yaml", format!("{}{}", &topology[..place], &topology[end..]));
    let ran = bench.run(&["host", "diagnose", "healthy.json", "--topology", "uncabled.yaml"]);
    assert!(ran.status == Some(2) && ran.stderr.contains("no way from `rnic0` to `rnic1`"), "{ran:?}");
}

#[test]
fn equal_seeds_give_equal_matrices_and_mistakes_are_named() {
    let bench = Bench::new();
    let args = ["host", "matrix", "--subsystem", "sim:two-socket", "--seed", "7"];
    assert_eq!(bench.json(0, &args), bench.json(0, &args));
    let topology = bench.expect(0, &["host", "topology", "--subsystem", "sim:two-socket"]);
    bench.write("odd.yaml", topology + "simulation: {parts: {\"rnic0|cpu0\": {widht: 0.5}}}\n");
    bench.write("none.yaml", "kelpie: topology/1\nhost: {nodes: {c: socket, m: memory}, links: [{a: m, b: c}]}\n");
    for (words, expected) in [
        (&["--subsystem", "sim:a101"][..], "no simulated host `a101`: the embedded ones are a100,"),
        (
            &["--subsystem", "sim:a100", "--set", "psw9|cpu0.width=0.5"],
            "no part `psw9|cpu0` in this host; did you mean",
        ),
        (&["--subsystem", "sim:a100", "--set", "psw0|cpu0.speed=1"], "has no parameter `speed`: it has gbps, width"),
        (&["--subsystem", "sim:a100", "--set", "psw0|cpu0.width=2"], "psw0|cpu0.width: 2 is outside 0.001 to 1"),
        (&["--subsystem", "sim:a100", "--set", "psw0.acs=maybe"], "psw0.acs: write a number, or on or off"),
        (&["--subsystem", "sim:a100", "--set", "nic.port.line=1"], "no parameter `port.line`"),
        (&["--subsystem", "sim:a100", "--set", "width=1"], "write PART.KEY=VALUE"),
        (&["--subsystem", "sim:odd.yaml"], "odd.yaml:"),
        (&["--subsystem", "sim:none.yaml"], "none.yaml: no node of kind rnic"),
        (&["--subsystem", "sim:a100", "--share", "0%"], "write a percentage above 0%"),
        (&["--subsystem", "sim:a100", "--topology", "odd.yaml"], "--topology is for real hosts"),
    ] {
        let ran = bench.run(&[&["host", "matrix"], words].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{words:?}: {}", ran.stderr);
    }
    // A host that others use is left alone, and a matrix that is there is not replaced.
    let ran =
        bench.run(&["host", "matrix", "--subsystem", "sim:a100", "--set", "rnic2.service_gbps=30", "--out", "m.json"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("stopped before the end: rnic2 carries 30"), "{}", ran.stderr);
    let ran = bench.run(&[&args[..], &["--out", "m.json"]].concat());
    assert!(ran.status == Some(2) && ran.stderr.contains("m.json"), "{ran:?}");
}

/// The events of a watch of this many rounds, and its exit status.
fn watch(bench: &Bench, sets: &[&str], words: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut args = vec!["host", "watch", "--subsystem", "sim:a100", "--json", "--period", "0s", "--look", "0s"];
    args.extend(["--pause", "0s"]);
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    args.extend(words);
    let ran = bench.run(&args);
    let events = ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line is an event"));
    (ran.status, events.collect())
}

#[test]
fn a_watch_says_what_is_news_once_and_learns_what_is_healthy() {
    let bench = Bench::new();
    let (status, events) = watch(&bench, &[], &["--rounds", "3", "--history", "h.jsonl"]);
    assert_eq!((status, events.len(), &events[0]["event"]), (Some(0), 1, &json!("healthy")), "{events:?}");
    let lines = |bench: &Bench| std::fs::read_to_string(bench.path("h.jsonl")).expect("written").lines().count();
    assert_eq!(lines(&bench), 3);
    // All of a class are slow, which only the host's own past shows.
    let slow = ["cpu0.peer_gbps=40", "cpu1.peer_gbps=40"];
    let (status, events) = watch(&bench, &slow, &["--rounds", "2", "--history", "h.jsonl"]);
    assert_eq!((status, events.len(), &events[0]["event"]), (Some(1), 1, &json!("abnormal")), "{events:?}");
    assert_eq!(lines(&bench), 5);
    let (status, events) = watch(&bench, &slow, &["--rounds", "1"]);
    assert_eq!((status, &events[0]["event"]), (Some(0), &json!("healthy")), "without a past: {events:?}");
    let exec = ["--rounds", "1", "--exec", "cat > event.json"];
    let (_, events) = watch(&bench, &["psw0.acs=on"], &exec);
    let heard = std::fs::read_to_string(bench.path("event.json")).expect("the command ran");
    assert_eq!(serde_json::from_str::<Value>(&heard).expect("one event"), events[0]);
    bench.write("h.jsonl", "{\"at\": 1}\n");
    let ran = bench.run(&["host", "watch", "--subsystem", "sim:a100", "--history", "h.jsonl"]);
    assert!(ran.status == Some(2) && ran.stderr.contains("h.jsonl:1: round:"), "{ran:?}");
}

#[test]
fn a_busy_rnic_is_measured_when_it_pauses_its_neighbour_and_its_own_link_is_read_from_its_status() {
    let bench = Bench::new();
    // What arrives fits through a link of 63 Gbit/s only half of the time.
    let (status, events) = watch(&bench, &["rnic0.service_gbps=100", "rnic0|psw0.width=0.25"], &["--rounds", "1"]);
    assert_eq!((status, events.len()), (Some(1), 1), "{events:?}");
    assert_eq!((&events[0]["busy"], &events[0]["narrow_links"]), (&json!(true), &json!(["rnic0|psw0"])), "{events:?}");
    // The uplink, too; its traffic alone would have to be slow in more than one round.
    let (status, events) = watch(&bench, &["rnic0.service_gbps=100", "psw0|cpu0.width=0.25"], &["--rounds", "1"]);
    assert_eq!((status, &events[0]["narrow_links"]), (Some(1), &json!(["psw0|cpu0"])), "{events:?}");
}

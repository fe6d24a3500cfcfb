//! The gate over short campaigns: red exactly where an experiment was anomalous, whatever the subsystem and the space.

use serde_json::Value;

use crate::resume::{ended_by, started};
use crate::support::Bench;

/// One QP of long WRITEs, which every subsystem runs well.
const HEALTHY_SPACE: &str = "\
kelpie: space/1
qp_type: [RC]
opcode: [WRITE]
mtu: [4096]
qps: {min: 4, max: 8}
mrs: [1]
requests: [1]
sge_count: [1]
message: {min: 64KiB, max: 128KiB}
memory_requester: [\"dram:0\"]
memory_responder: [\"dram:0\"]
bidirectional: [false]
loopback: [false]
";

/// Experiments of a campaign that the store calls anomalous, read by themselves and not from the campaign's own count.
fn anomalous(bench: &Bench, id: &Value) -> usize {
    let shown = bench.expect(0, &["campaign", "show", &id.to_string(), "--experiments", "--json"]);
    shown.matches(r#""verdict":"anomalous""#).count() + shown.matches(r#""verdict": "anomalous""#).count()
}

#[test]
fn it_is_red_exactly_where_an_experiment_was_anomalous() {
    let bench = Bench::new();
    bench.write("healthy.yaml", HEALTHY_SPACE);
    let mut colours = [0, 0];
    for (subsystem, space, seed) in [
        ("sim:A", "rpc-library", "1"),
        ("sim:B", "full", "2"),
        ("sim:H", "rpc-library", "3"),
        ("sim:G", "healthy.yaml", "4"),
    ] {
        let ran = bench.run(&[
            "campaign", "run", "-s", subsystem, "--space", space, "--budget", "10", "--seed", seed, "--gate", "--json",
        ]);
        let document = ran.json();
        let count = anomalous(&bench, &document["campaign"]);
        assert_eq!(ran.status, Some(i32::from(count > 0)), "{subsystem} {space}: {count} anomalous: {}", ran.stderr);
        assert_eq!(document["gate"]["colour"], if count > 0 { "red" } else { "green" }, "{document}");
        colours[usize::from(count > 0)] += 1;
    }
    assert!(colours.iter().all(|count| *count > 0), "green and red: {colours:?}");
}

#[test]
fn a_campaign_that_only_time_limits_is_green_once_its_time_is_over() {
    let bench = Bench::new();
    bench.write("healthy.yaml", HEALTHY_SPACE);
    let run = ["campaign", "run", "-s", "sim:G", "--space", "healthy.yaml", "--algorithm", "random", "--gate"];
    let report = |db| ["report", "--gate", "--force", "--out", "report", "--db", db];
    for (signal, db) in [("INT", "interrupted.db"), ("KILL", "killed.db")] {
        let child = started(&bench, &[&run[..], &["--time", "10m", "--db", db]].concat(), db);
        let ran = ended_by(signal, child);
        assert_eq!(ran.status, (signal == "INT").then_some(2), "{}", ran.stderr);
        let ruling = &bench.json(2, &report(db))["gate"];
        assert_eq!(ruling["colour"], "unknown", "{ruling}");
        assert!(ruling["reason"].as_str().is_some_and(|reason| reason.contains("stopped after")), "{ruling}");

        bench.expect(0, &["campaign", "resume", "1", "--db", db, "--time", "1s", "--gate"]);
        assert_eq!(bench.json(0, &report(db))["gate"]["colour"], "green");
        let more = ["campaign", "resume", "1", "--db", db, "--budget", "1000000", "--time", "1s", "--gate"];
        let more = bench.run(&more);
        assert!(more.status == Some(2) && more.stderr.contains(" of 1000000 experiments"), "{}", more.stderr);
    }
}

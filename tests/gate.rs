//! The gate over short campaigns: red exactly where an experiment was anomalous, whatever the subsystem and the space.

use serde_json::Value;

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
            "campaign", "run", "-s", subsystem, "--space", space, "--budget", "30", "--seed", seed, "--gate", "--json",
        ]);
        let document = ran.json();
        let count = anomalous(&bench, &document["campaign"]);
        assert_eq!(ran.status, Some(i32::from(count > 0)), "{subsystem} {space}: {count} anomalous: {}", ran.stderr);
        assert_eq!(document["gate"]["colour"], if count > 0 { "red" } else { "green" }, "{document}");
        colours[usize::from(count > 0)] += 1;
    }
    assert!(colours.iter().all(|count| *count > 0), "green and red: {colours:?}");
}

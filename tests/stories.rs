//! The two applications of Collie, section 7.3, from a space to advice that holds: restrict, search, check, change.

use serde_json::Value;

use crate::support::Bench;

/// A workload of one or two mirrored flows over DRAM.
fn app(ways: &[&str], qps: u32, depth: u32, batch: u32, mtu: u32, pattern: &str) -> String {
    let flow = |way: &&str| {
        let (from, to) = way.split_once("->").expect("two hosts");
        format!(
            "  - {{from: {from}, to: {to}, qp_type: RC, qps: {qps}, mtu: {mtu}, \
             wq_depth: {{send: {depth}, recv: {depth}}}, batch: {{send: {batch}, recv: {batch}}}, \
             pattern: [{pattern}], memory: {{from: {{device: \"dram:0\", mrs: 1, mr_size: 4MiB}}, \
             to: {{device: \"dram:0\", mrs: 1, mr_size: 4MiB}}}}}}\n"
        )
    };
    format!("kelpie: workload/1\nflows:\n{}", ways.iter().map(flow).collect::<String>())
}

/// Restricts a catalog space and searches it.
fn search(bench: &Bench, subsystem: &str, space: &[&str], seed: &str) {
    let restricted = bench.expect(0, &[&["space", "restrict"], space].concat());
    bench.write("space.yaml", restricted);
    let run = ["campaign", "run", "--space", "space.yaml", "--budget", "600", "--db", "k.db"];
    bench.expect(0, &[&run[..], &["--subsystem", subsystem, "--seed", seed]].concat());
}

/// Checks an anomalous application: what it is told.
fn checked(bench: &Bench, subsystem: &str, app: &str) -> Value {
    bench.write("app.yaml", app);
    bench.expect(1, &["measure", "app.yaml", "--subsystem", subsystem]);
    bench.json(1, &["mfs", "check", "app.yaml", "--db", "k.db"]);
    let checked = bench.json(1, &["mfs", "check", "app.yaml", "--db", "k.db", "--measure", subsystem]);
    let way = &checked["ways_out"][0];
    assert_eq!(way["state"], "measured_healthy", "{checked}");
    assert!(way["words"].as_str().is_some_and(|words| !words.is_empty()), "{checked}");
    bench.write("changed.yaml", way["workload"].to_string());
    bench.expect(0, &["measure", "changed.yaml", "--subsystem", subsystem]);
    checked
}

/// The conditions that it was told of.
fn conditions(checked: &Value) -> Vec<String> {
    let inside = checked["findings"].as_array().expect("a list");
    let conditions = inside.iter().flat_map(|finding| finding["mfs"].as_array().into_iter().flatten());
    conditions.filter_map(|condition| condition["feature"].as_str()).map(str::to_owned).collect()
}

fn names(conditions: &[String], expected: &[&str]) {
    for feature in expected {
        assert!(conditions.iter().any(|condition| condition == feature), "{feature} is not among {conditions:?}");
    }
}

#[test]
fn the_rpc_library_is_told_of_small_reads_and_of_anomaly_5() {
    for subsystem in ["sim:B", "sim:C"] {
        let bench = Bench::new();
        // Large messages by READ, many at a time, gathered from long lists.
        let reads = ["rpc-library", "--only", "opcode=READ", "--only", "mixed_opcodes=false", "--only", "mtu=4096"];
        search(&bench, subsystem, &reads, "2");
        let list = ["16"; 16].join(", ");
        let gathered = app(&["a->b", "b->a"], 128, 256, 64, 4096, &format!("{{op: READ, sge: [{list}]}}"));
        names(&conditions(&checked(&bench, subsystem, &gathered)), &["message_max"]);
        // Control messages by SEND into a large receive queue.
        let sends = ["rpc-library", "--only", "opcode=SEND", "--only", "mixed_opcodes=false", "--max", "qps=1"];
        search(&bench, subsystem, &sends, "3");
        let control = app(&["a->b"], 1, 1024, 64, 1024, "{op: SEND, sge: [256, 256]}");
        names(&conditions(&checked(&bench, subsystem, &control)), &["recv_batch", "recv_wq_depth"]);
    }
}

#[test]
fn a_finding_says_nothing_about_workloads_outside_the_space_that_was_searched() {
    let bench = Bench::new();
    let reads = ["rpc-library", "--only", "opcode=READ", "--only", "mixed_opcodes=false", "--only", "mtu=4096"];
    search(&bench, "sim:B", &reads, "1");
    let pattern = "{op: WRITE, sge: [32, 32, 32, 32, 32, 32, 32, 32]}";
    bench.write("app.yaml", app(&["a->b", "b->a"], 128, 256, 64, 4096, pattern));
    let checked: Value = bench.json(2, &["mfs", "check", "app.yaml", "--db", "k.db"]);
    assert_eq!((&checked["answer"], &checked["findings"]), (&"unknown".into(), &Value::Array(Vec::new())));
    let reason = checked["reason"].as_str().expect("a text");
    assert!(reason.contains("opcode WRITE was never measured"), "{checked}");
}

#[test]
fn an_application_without_anomalies_is_told_how_sure_that_is() {
    let bench = Bench::new();
    let plain = "full --only qp_type=RC --only opcode=WRITE --only mtu=4096 --only sge_count=1 --only requests=1 \
                 --min message_min=64KiB --max qps=64 --max mrs=64 --only bidirectional=false --only loopback=false \
                 --only memory_requester=dram:0 --only memory_responder=dram:0";
    let restrict: Vec<&str> = ["space", "restrict"].into_iter().chain(plain.split_whitespace()).collect();
    bench.write("space.yaml", bench.expect(0, &restrict));
    let run = ["campaign", "run", "--subsystem", "sim:F", "--space", "space.yaml", "--budget", "150", "--gate"];
    let run = [&run[..], &["--algorithm", "random"]].concat();
    let none = bench.json(0, &run)["none_found"].clone();
    assert_eq!((&none["anomalous"], &none["random_points"]), (&0.into(), &150.into()), "{none}");
    // No success in 150 trials: 1 - 0.05^(1/150).
    let below = none["anomalous_below"].as_f64().expect("all were healthy");
    assert!((below - 0.0198).abs() < 0.001, "{none}");
    assert!(none["pair_share"].as_f64() > Some(0.1), "{none}");
    assert!(bench.expect(0, &["campaign", "show", "1"]).contains("less than 2.0 % of random workloads of the space"));
}

//! The two applications of Collie, section 7.3, from a space to advice that holds: restrict, search, check, change.

use std::io::Read as _;

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

/// Restricts the space of the RPC library and searches it: what the campaign printed.
fn search(bench: &Bench, subsystem: &str, space: &[&str], seed: &str, budget: &str) -> Value {
    let restricted = bench.expect(0, &[&["space", "restrict", "rpc-library"], space].concat());
    bench.write("space.yaml", restricted);
    let run = ["campaign", "run", "--space", "space.yaml", "--budget", budget, "--db", "k.db"];
    bench.json(0, &[&run[..], &["--subsystem", subsystem, "--seed", seed]].concat())
}

/// Large messages by READ.
const READS: [&str; 6] = ["--only", "opcode=READ", "--only", "mixed_opcodes=false", "--only", "mtu=4096"];

/// Control messages by SEND into a large receive queue.
const SENDS: [&str; 6] = ["--only", "opcode=SEND", "--only", "mixed_opcodes=false", "--max", "qps=1"];

/// Many READs at a time, gathered from long lists.
fn gathered(op: &str, elements: usize, bytes: &str) -> String {
    let list = vec![bytes; elements].join(", ");
    app(&["a->b", "b->a"], 128, 256, 64, 4096, &format!("{{op: {op}, sge: [{list}]}}"))
}

fn control() -> String {
    app(&["a->b"], 1, 1024, 64, 1024, "{op: SEND, sge: [256, 256]}")
}

/// A database of a Kelpie that had three migrations, as `k.db`: of B (campaigns 1 and 2) and C (3 and 4) each a search
/// of [`READS`] with 150 experiments, and one of short [`SENDS`] with 80.
fn older_database() -> Bench {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let packed = include_bytes!("stories/older.db.gz");
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("it is whole");
    bench.write("k.db", bytes);
    bench
}

/// Checks an anomalous application: what it is told.
fn checked(bench: &Bench, subsystem: &str, app: &str) -> Value {
    bench.write("app.yaml", app);
    bench.expect(1, &["measure", "app.yaml", "--subsystem", subsystem]);
    bench.json(1, &["mfs", "check", "app.yaml", "--subsystem", subsystem, "--db", "k.db"]);
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

/// What a database says to an application; its findings were measured on an older model.
fn told(bench: &Bench, subsystem: &str, app: &str) -> Vec<String> {
    bench.write("app.yaml", app);
    let told = bench.json(1, &["mfs", "check", "app.yaml", "--subsystem", subsystem, "--db", "k.db"]);
    assert!(told["ways_out"][0]["words"].as_str().is_some_and(|words| !words.is_empty()), "{told}");
    conditions(&told)
}

/// What the older database says to the two applications, before and after it is upgraded.
fn is_told_by_an_older_database(subsystem: &str) {
    let bench = older_database();
    let before = std::fs::read(bench.path("k.db")).expect("it was written");
    names(&told(&bench, subsystem, &gathered("READ", 16, "16")), &["message_max"]);
    names(&told(&bench, subsystem, &control()), &["recv_batch", "recv_wq_depth"]);
    assert!(std::fs::read(bench.path("k.db")).expect("there") == before, "who only reads leaves it as it is");
    let list = ["mfs", "list", "--db", "k.db"];
    let known = bench.json(0, &list);
    bench.expect(0, &["campaign", "label", "1", "--name", "old", "--db", "k.db"]);
    assert!(std::fs::read(bench.path("k.db")).expect("there") != before, "who writes upgrades it");
    assert_eq!(bench.json(0, &list), known);
    let shown = bench.json(0, &["campaign", "show", "1", "--experiments", "--db", "k.db"]);
    assert_eq!(shown["log"].as_array().map(Vec::len), Some(150), "all are read");
    names(&told(&bench, subsystem, &control()), &["recv_batch", "recv_wq_depth"]);
}

#[test]
fn the_rpc_library_is_told_of_small_reads_and_of_anomaly_5_on_b() {
    is_told_by_an_older_database("sim:B");
}

#[test]
fn the_rpc_library_is_told_of_small_reads_and_of_anomaly_5_on_c() {
    is_told_by_an_older_database("sim:C");
}

/// From a space to advice that holds, whatever is found there: the application is the witness of a finding.
fn is_told_by_a_search(subsystem: &str, space: &[&str], seed: &str, budget: &str) {
    let bench = Bench::new();
    let campaign = search(&bench, subsystem, space, seed, budget);
    let finding = &campaign["findings"][0];
    let checked = checked(&bench, subsystem, &finding["workload"].to_string());
    let ids: Vec<&Value> = checked["findings"].as_array().expect("a list").iter().map(|found| &found["id"]).collect();
    assert!(ids.contains(&&finding["id"]), "{finding} is not among {ids:?}");
}

#[test]
fn whatever_a_search_finds_its_application_is_told_what_to_change() {
    let gathered = ["--min", "sge_count=8", "--max", "message=4KiB"];
    is_told_by_a_search("sim:B", &[&READS[..], &gathered].concat(), "1", "40");
}

/// Both models and the whole of both spaces, by `make test-long`.
mod long {
    use super::*;

    fn is_told_of_reads_and_of_sends(subsystem: &str) {
        is_told_by_a_search(subsystem, &READS, "2", "600");
        is_told_by_a_search(subsystem, &SENDS, "3", "600");
    }

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn the_rpc_library_is_told_by_searches_of_b() {
        is_told_of_reads_and_of_sends("sim:B");
    }

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn the_rpc_library_is_told_by_searches_of_c() {
        is_told_of_reads_and_of_sends("sim:C");
    }
}

#[test]
fn a_finding_says_nothing_about_workloads_outside_the_space_that_was_searched() {
    let bench = older_database();
    bench.write("app.yaml", gathered("WRITE", 8, "32"));
    let checked: Value = bench.json(2, &["mfs", "check", "app.yaml", "--subsystem", "sim:B", "--db", "k.db"]);
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

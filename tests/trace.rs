//! `kelpie trace` without RDMA: what it refuses, and from a record to a workload that can be measured.
//! Tests with real programs are in `lab`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Bench, Ran};

/// One QP that READ 64 KiB 700 times in batches of seven.
fn record() -> Value {
    json!({
        "kelpie": "trace/1",
        "program": "app\u{1b}[31m",
        "processes": [{
            "pid": 7,
            "qps": [{
                "raw_type": 2, "qp_type": "RC", "number": 17, "lifetime": [1, 0], "mtu": 1024, "loopback": false,
                "wq_depth": {"send": 128, "recv": 16}, "calls": 100, "requests": 700, "batch_max": 7, "recv_calls": 0,
                "receives": 0, "recv_batch_max": 0, "inline": "0B", "active_ns": 2_000_000_000,
                "ops": [{"op": "READ", "messages": 700, "bytes": "44800KiB", "min": "64KiB", "max": "64KiB"}],
                "recent": [0, 0, 0, 0], "recv_sge": [], "peer": 18, "lkeys": [5], "recv_keys": [], "rkeys": [9]
            }],
            "shapes": [{"op": "READ", "sge": ["32KiB", "32KiB"]}],
            "mrs": {"5": {"rkey": 6, "length": "1MiB", "device": "dram:1"}},
            "unrecorded": {"qps": 0, "mrs": 0, "shapes": 0}
        }]
    })
}

fn with_record(name: &str, record: &Value) -> Bench {
    let bench = Bench::new();
    std::fs::create_dir(bench.path(name)).expect("the folder is writable");
    std::fs::write(bench.path(name).join("trace.json"), record.to_string()).expect("the folder is writable");
    bench
}

/// What it says as it exits with 2.
fn refused(bench: &Bench, args: &[&str]) -> String {
    let ran = bench.run(args);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    ran.stderr
}

#[test]
fn from_a_record_to_a_verdict() {
    let bench = with_record("app", &record());
    let text = bench.expect(0, &["trace", "--from", "app", "--out", "out"]);
    let flow = "a to b: 1 RC QP, READ of 64KiB, batch 7, depth 128/16, MTU 1024; 700 messages in 2.0 s, 350.0 /s";
    assert!(text.contains(flow), "{text}");
    assert!(!text.contains('\u{1b}') && text.contains("note: the other end was not traced"), "{text}");
    let json = bench.run(&["trace", "--from", "app", "--out", "again", "--json"]).json();
    assert_eq!((&json["flows"][0]["messages"], &json["flows"][0]["flow"]["qps"]), (&json!(700), &json!(1)), "{json}");
    let same = |file: &str| ["out", "again"].map(|folder| std::fs::read_to_string(bench.path(folder).join(file)).ok());
    for file in ["workload.yaml", "space.yaml", "trace.json"] {
        let [one, other] = same(file);
        assert!(one.is_some() && one == other, "{file}");
    }
    // Lists of two elements in batches, READ with a short MTU: the paper's anomaly 4 is near.
    bench.expect(1, &["measure", "out/workload.yaml", "--subsystem", "sim:F"]);
    bench.expect(0, &["space", "check", "out/space.yaml"]);
    // What is there is not written over.
    assert!(refused(&bench, &["trace", "--from", "app", "--out", "out"]).contains("something is there already"));
}

#[test]
fn an_end_that_only_answered_is_kept_for_its_peer() {
    let mut answer = record();
    for (key, nothing) in [("recent", json!([])), ("ops", json!([])), ("requests", json!(0))] {
        answer["processes"][0]["qps"][0][key] = nothing;
    }
    let bench = with_record("app", &answer);
    let ran = bench.run(&["trace", "--from", "app", "--out", "out"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("trace the program at the other end"), "{ran:?}");
    assert!(bench.path("out/trace.json").is_file() && !bench.path("out/workload.yaml").exists());
}

#[test]
fn a_record_that_is_none_is_refused() {
    let mut later = record();
    later["kelpie"] = json!("trace/2");
    let mut unknown = record();
    unknown["processes"][0]["qps"][0]["colour"] = json!("red");
    let mut places = record();
    places["processes"][0]["qps"][0]["recent"] = json!([7]);
    let mut huge = record();
    huge["processes"][0]["shapes"][0]["sge"] = json!(["3GiB"]);
    for (record, part) in [
        (json!({}), "no record; name a directory that `kelpie trace` wrote"),
        (later, "format `trace/2`"),
        (unknown, "unknown field `colour`"),
        (json!({"kelpie": "trace/1", "program": "", "processes": []}), "no process opened an RDMA device"),
        (huge, "3GiB is outside 1B to 2GiB"),
    ] {
        let bench = with_record("app", &record);
        let error = refused(&bench, &["trace", "--from", "app", "--out", "out"]);
        assert!(error.contains(part), "{part}: {error}");
    }
    let bench = with_record("app", &places);
    bench.expect(0, &["trace", "--from", "app", "--out", "out"]);
    assert!(refused(&bench, &["trace", "--from", "nowhere", "--out", "other"]).contains("nowhere/trace.json"));
    assert!(refused(&bench, &["trace", "--peer", "nowhere", "--", "true"]).contains("nowhere/trace.json"));
    assert!(refused(&bench, &["trace"]).contains("COMMAND"));
}

/// The binary, in a folder of its own with this as its library.
fn alone(bench: &Bench, library: Option<&str>, command: &[&str]) -> Ran {
    let program: PathBuf = bench.path("kelpie");
    std::fs::copy(env!("CARGO_BIN_EXE_kelpie"), &program).expect("the folder is writable");
    if let Some(content) = library {
        bench.write("libkelpie_preload.so", content);
    }
    let args = [&["trace", "--out", "out", "--"], command].concat();
    Ran::of(Command::new(program).args(args).current_dir(bench.path("")).output().expect("the binary starts"))
}

#[test]
fn what_is_missing_is_said() {
    // The linker says that this is no library, and the program runs without it.
    let bad = Some("not ELF, but ibv_open_device");
    for (library, command, part) in [
        (None, &["true"][..], "libkelpie_preload.so is not there: `make install`, or build it with"),
        (Some("empty"), &["true"], "was built without verbs"),
        (bad, &["true"], "no process opened an RDMA device"),
        (bad, &["no-such-program"], "run no-such-program"),
        (bad, &["sh", "-c", "exit 3"], "the program ended with exit status: 3"),
    ] {
        let ran = alone(&Bench::new(), library, command);
        assert_eq!(ran.status, Some(2), "{command:?}: {ran:?}");
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
}

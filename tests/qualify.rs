//! `kelpie qualify`: criteria are learnt, nodes are judged, and checks are selected, as documents and as exit statuses.

use std::fmt::Write as _;

use serde_json::json;

use crate::support::Bench;

/// Twelve nodes, two of which are unlike the others, and a metric of which less is better.
fn results(bench: &Bench) {
    let values = [23.70, 23.71, 23.69, 23.72, 1.51, 23.68, 23.70, 22.40, 23.73, 23.67, 23.70, 23.71];
    let mut text = String::new();
    for (nth, value) in values.iter().enumerate() {
        let _ = writeln!(
            text,
            "{}\n{}",
            json!({"node": format!("n{nth:02}"), "metric": "loopback_write", "unit": "GB/s", "better": "higher",
                   "samples": [value]}),
            json!({"node": format!("n{nth:02}"), "metric": "latency", "unit": "us", "better": "lower",
                   "samples": [2.0, 2.1]}),
        );
    }
    bench.write("results.jsonl", text);
}

#[test]
fn what_is_learnt_judges_nodes_in_three_states() {
    let bench = Bench::new();
    results(&bench);
    let learnt = bench.json(0, &["qualify", "learn", "results.jsonl", "--out", "criteria.json"]);
    let loopback = &learnt["metrics"]["loopback_write"];
    assert_eq!((&loopback["criterion"], &loopback["defects"]), (&json!([23.7]), &json!(["n04", "n07"])));
    assert_eq!(loopback["alpha"], json!(0.95));
    let line = |node: &str, metric: &str, unit: &str, better: &str, value: f64| {
        json!({"node": node, "metric": metric, "unit": unit, "better": better, "samples": [value]}).to_string() + "\n"
    };
    let good =
        |node: &str| line(node, "loopback_write", "GB/s", "higher", 30.0) + &line(node, "latency", "us", "lower", 1.0);
    bench.write("good.jsonl", good("a") + &good("b"));
    bench.expect(0, &["qualify", "judge", "good.jsonl", "--criteria", "criteria.json"]);
    bench.write("part.jsonl", line("c", "loopback_write", "GB/s", "higher", 23.0));
    let text = bench.expect(2, &["qualify", "judge", "good.jsonl", "part.jsonl", "--criteria", "criteria.json"]);
    assert!(text.starts_with("0 out, 1 unknown, 2 in\nc: unknown, no result of latency"), "{text}");
    bench.write("bad.jsonl", line("d", "loopback_write", "GB/s", "higher", 22.515));
    let judged = bench.json(1, &["qualify", "judge", "part.jsonl", "bad.jsonl", "--criteria", "criteria.json"]);
    assert_eq!((&judged["nodes"]["c"]["state"], &judged["nodes"]["d"]["state"]), (&json!("unknown"), &json!("fail")));
    let failed = &judged["nodes"]["d"]["failed"][0];
    assert_eq!(
        (&failed["metric"], &failed["observed"], &failed["criterion"]),
        (&json!("loopback_write"), &json!(22.515), &json!(23.7))
    );
    let text = bench.expect(1, &["qualify", "judge", "bad.jsonl", "--criteria", "criteria.json"]);
    assert!(text.starts_with("1 out, 0 unknown, 0 in\n") && text.contains("22.515 GB/s"), "{text}");
}

#[test]
fn learning_refuses_a_majority_below_the_floor_and_leaves_an_older_file() {
    let bench = Bench::new();
    results(&bench);
    bench.write("criteria.json", "older");
    let floor = ["qualify", "learn", "results.jsonl", "--out", "criteria.json", "--floor", "loopback_write=23.705"];
    let ran = bench.run(&floor);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("loopback_write: 8 of 12 nodes are below the floor of 23.705"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(bench.path("criteria.json")).expect("it is there"), "older");
    let ran = bench.run(&["qualify", "judge", "results.jsonl", "--criteria", "criteria.json"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
}

#[test]
fn checks_are_selected_and_explained() {
    let bench = Bench::new();
    let found = json!({"loopback": [1, 2], "pairs": [3, 4, 5], "all": [1, 2, 3, 4]});
    let problem = |p0: f64| {
        json!({"p": [0.1, 0.1], "p0": p0, "minutes": {"all": 10, "loopback": 1, "pairs": 5}, "found": found})
            .to_string()
    };
    bench.write("problem.json", problem(0.04));
    let selected = bench.json(0, &["qualify", "select", "--problem", "problem.json"]);
    assert_eq!((&selected["selected"], &selected["minutes"]), (&json!(["loopback", "pairs"]), &json!(6.0)));
    assert_eq!(selected["trace"].as_array().map(Vec::len), Some(2));
    let text = bench.expect(0, &["qualify", "select", "--problem", "problem.json"]);
    assert!(text.contains("these checks are enough"), "{text}");
    bench.write("problem.json", problem(0.5));
    assert_eq!(bench.json(0, &["qualify", "select", "--problem", "problem.json"])["reason"], json!("nothing_needed"));
}

/// Sixty nodes for a hundred days, the first of which has an incident every three days, and others rarely.
fn history(incidents: bool) -> String {
    let mut text = String::new();
    for (check, minutes, found) in [("loopback", 2, 0..60), ("pairs", 15, 50..70), ("stress", 200, 0..100)] {
        let _ = writeln!(text, "{}", json!({"kind": "check", "check": check, "minutes": minutes}));
        for defect in found {
            let _ = writeln!(text, "{}", json!({"kind": "found", "check": check, "defect": defect}));
        }
    }
    for node in 0..60 {
        let name = format!("n{node:02}");
        let _ = writeln!(text, "{}", json!({"kind": "observed", "node": name, "begin": 0, "end": 2400}));
        let every = if node == 0 { 72 } else { 900 + 10 * node };
        for time in (every..2400).step_by(every).filter(|_| incidents) {
            let _ = writeln!(text, "{}", json!({"kind": "incident", "node": name, "time": time, "category": "hca"}));
        }
    }
    text
}

#[test]
fn a_history_says_which_checks_which_nodes_need() {
    let bench = Bench::new();
    bench.write("h.jsonl", history(true));
    let select = |status: i32, nodes: &str| {
        bench.json(
            status,
            &["qualify", "select", "--history", "h.jsonl", "--target", "0.2", "--within", "24h", "--nodes", nodes],
        )
    };
    let quiet = select(0, "n10");
    assert_eq!(
        (&quiet["selected"], &quiet["reason"], &quiet["nodes"]),
        (&json!([]), &json!("nothing_needed"), &json!([]))
    );
    let both = select(0, "n10,n00");
    assert_eq!(
        (&both["model"], &both["selected"], &both["nodes"]),
        (&json!("cox"), &json!(["loopback"]), &json!(["n00", "n10"]))
    );
    let p = |node: &str| both["probabilities"][node].as_f64().expect("a number");
    assert!((0.2..0.5).contains(&p("n00")) && p("n10") < 0.1, "{both}");
    let left = (1.0 - (1.0 - p("n00")) * (1.0 - p("n10"))) * 0.4;
    assert!((both["residual"].as_f64().expect("a number") - left).abs() < 1e-9, "{both}");
    // A node that nobody observed has all checks made.
    let new = select(1, "n10,new");
    assert_eq!((&new["reason"], &new["probabilities"]["new"]), (&json!("no_history"), &json!(null)));
    assert_eq!(new["selected"].as_array().map(Vec::len), Some(3));
    let words = ["qualify", "select", "--history", "h.jsonl", "--target", "10%", "--within", "24h"];
    let text = bench.expect(0, &words);
    assert!(text.contains("by what each node went through") && text.contains("n00"), "{text}");
    // A hundred days of sixty nodes without an incident say as much as they can.
    bench.write("h.jsonl", history(false));
    assert_eq!(select(0, "n10")["model"], json!("rule_of_three"));
    bench.write("h.jsonl", history(true) + "{\"kind\": \"check\"}\n");
    let ran = bench.run(&words);
    assert!(ran.status == Some(2) && ran.stderr.contains("h.jsonl:365: missing field `check`"), "{ran:?}");
}

#[test]
fn steps_to_skip_and_to_measure_are_found() {
    let bench = Bench::new();
    let series = |drift: f64| -> Vec<f64> {
        (0..400)
            .map(|nth| if nth < 40 { 2.0 } else { 1.0 } * if nth % 8 == 7 { 3.0 } else { 1.0 } * drift.powi(nth))
            .collect()
    };
    let line =
        |metric: &str, drift: f64| json!({"node": "a", "metric": metric, "samples": series(drift)}).to_string() + "\n";
    bench.write("steps.jsonl", line("time", 1.0));
    let found = bench.json(0, &["qualify", "steps", "steps.jsonl"]);
    assert_eq!((&found["time"]["skip"], &found["time"]["measure"]), (&json!(40), &json!(24)));
    bench.write("steps.jsonl", line("time", 1.0) + &line("drift", 1.02));
    let text = bench.expect(1, &["qualify", "steps", "steps.jsonl"]);
    assert!(text.contains("drift: no three cycles"), "{text}");
}

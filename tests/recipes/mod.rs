//! Recipes as a user meets them: written, validated, replayed, imported, and what later searches make of them.

mod hostile;
mod pair;

use std::path::Path;

use kelpie_spaces::{Region, Workload, known};
use serde_json::{Value, json};

use crate::golden::NOT_REPRODUCED;
use crate::schemas::Schema;
use crate::support::{ANOMALY_1, Bench, HEALTHY, SMALL_SPACE};

fn schema() -> Schema {
    Schema::new(&Bench::new().expect(0, &["recipe", "schema"]))
}

fn recipe_of(directory: &Path) -> Value {
    let text = std::fs::read_to_string(directory.join("recipe.json")).expect("a recipe was written");
    serde_json::from_str(&text).expect("it is JSON")
}

fn complaints(schema: &Schema, document: &Value) -> Vec<String> {
    schema.complaints(document)
}

/// Exports a finding as a directory of its name and returns its `recipe.json`.
fn export(bench: &Bench, finding: &str, name: &str, more: &[&str]) -> Value {
    bench.expect(0, &[&["recipe", "export", finding, "--out", name], more].concat());
    recipe_of(&bench.path(name))
}

#[test]
fn every_anomaly_of_the_paper_exports_validates_and_replays() {
    let (bench, schema) = (Bench::new(), schema());
    for anomaly in known::anomalies() {
        let (finding, name) = (format!("anomaly:{}", anomaly.id), format!("r{}", anomaly.id));
        let archive = format!("{name}.tar.gz");
        if NOT_REPRODUCED.contains(&anomaly.id) {
            let refused = bench.run(&["recipe", "export", &finding, "--out", &name]);
            assert_eq!(refused.status, Some(2), "{refused:?}");
            assert!(refused.stderr.contains("does not show on sim:F"), "{refused:?}");
            continue;
        }
        let recipe = export(&bench, &finding, &name, &[]);
        assert_eq!(complaints(&schema, &recipe), Vec::<String>::new(), "{finding}");
        assert_eq!(recipe["environment"]["subsystem"], format!("sim:{}", anomaly.subsystem), "{finding}");
        assert_eq!(recipe["healthy"]["seen"]["symptoms"], json!([]), "{finding} has a healthy neighbour");
        let symptom = &recipe["expected"]["symptoms"][0];
        // An archive is read as a directory is, which one of each model shows.
        let is_first = [1, 14].contains(&anomaly.id);
        if is_first {
            bench.expect(0, &["recipe", "export", &finding, "--out", &archive]);
        }
        for path in [&name, &archive].into_iter().take(1 + usize::from(is_first)) {
            let replayed = bench.json(1, &["recipe", "replay", path]);
            assert_eq!(replayed["outcome"], "reproduced", "{finding}");
            assert!(
                replayed["measured"]["symptoms"].as_array().is_some_and(|seen| seen.contains(symptom)),
                "{finding}"
            );
            assert_eq!(
                replayed["measured"]["mean"], replayed["expected"]["mean"],
                "{finding}: equal seeds, equal values"
            );
        }
        let readme = std::fs::read_to_string(bench.path(&name).join("README.md")).expect("a README");
        for condition in &anomaly.conditions.conditions {
            assert!(
                readme.contains(&format!("- {condition} ({})\n", condition.feature.phrase())),
                "{finding}: {condition}"
            );
        }
        let lines = kelpie_spaces::perftest::lines(&anomaly.trigger.workload());
        assert_eq!(bench.path(&name).join("perftest.txt").exists(), lines.is_ok(), "{finding}");
        match lines {
            Ok(lines) => {
                assert!(readme.contains(&lines.client), "{finding}");
                assert!(bench.expect(0, &["recipe", "perftest", &finding]).contains(&lines.server), "{finding}");
            }
            Err(reason) => {
                assert!(readme.contains(&reason.to_string()), "{finding}");
                let ran = bench.run(&["recipe", "perftest", &finding]);
                assert_eq!(ran.status, Some(2));
                assert!(ran.stderr.contains(&reason.to_string()), "{finding}: {}", ran.stderr);
            }
        }
    }
}

#[test]
fn the_schema_refuses_what_kelpie_refuses() {
    let (bench, schema) = (Bench::new(), schema());
    let good = export(&bench, "anomaly:1", "good", &[]);
    let table: [(&str, Value); 13] = [
        ("/kelpie", json!("recipe/2")),
        ("/seed", json!(-1)),
        ("/finding", json!("")),
        ("/finding", json!("\u{1b}[31m")),
        ("/workload/flows", json!([])),
        ("/workload/flows/0/qps", json!("many")),
        ("/workload/flows/0/mtu", json!(1500)),
        ("/mfs/0", json!({"feature": "qp_type", "min": 1})),
        ("/mfs/0", json!({"feature": "colour", "in": ["red"]})),
        ("/expected/confidence", json!(1.5)),
        ("/expected/symptoms", json!([])),
        ("/expected/bounds/max_bps", json!(0)),
        ("/anomalous/mean/counters/a", json!({"x": "many"})),
    ];
    for (pointer, value) in table {
        let mut broken = good.clone();
        match broken.pointer_mut(pointer) {
            Some(place) => *place = value.clone(),
            None => broken["seed"] = value.clone(),
        }
        assert_ne!(complaints(&schema, &broken), Vec::<String>::new(), "{pointer} as {value}");
        let ran = replay_of(&bench, &broken);
        assert_eq!(ran.status, Some(2), "{pointer} as {value}: {ran:?}");
        assert!(ran.stderr.contains("error: bent: recipe.json: "), "{pointer} as {value}: {}", ran.stderr);
        assert!(!ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
    }
    let mut more = good;
    more["command"] = json!("rm");
    assert_ne!(complaints(&schema, &more), Vec::<String>::new());
    assert!(replay_of(&bench, &more).stderr.contains("unknown field `command`"));
}

fn replay_of(bench: &Bench, recipe: &Value) -> crate::support::Ran {
    std::fs::create_dir_all(bench.path("bent")).expect("writable");
    bench.write("bent/recipe.json", recipe.to_string());
    bench.run(&["recipe", "replay", "bent"])
}

#[test]
fn a_finding_of_a_campaign_travels() {
    let (bench, schema) = (Bench::new(), schema());
    bench.write("space.yaml", SMALL_SPACE);
    let model = bench.expect(0, &["subsystem", "show", "sim:F"]);
    bench.write("secret-rack.yaml", model.replace("name: F\n", "name: mine\n"));
    let run = ["campaign", "run", "--subsystem", "sim:secret-rack.yaml", "--space", "space.yaml", "--budget", "40"];
    let campaign = bench.json(0, &[&run[..], &["--db", "a.db"]].concat());
    let found = campaign["findings"].as_array().expect("a list").iter().find(|finding| finding["id"] == 1);
    let found = found.expect("the first finding");

    let recipe = export(&bench, "1.1", "r", &["--db", "a.db"]);
    assert_eq!(complaints(&schema, &recipe), Vec::<String>::new());
    assert_eq!(recipe["workload"], found["workload"]);
    // The space was a small one: what it left unsaid is said here.
    let conditions = |document: &Value| document["mfs"].as_array().cloned().expect("a list");
    let features = |document: &Value| -> Vec<Value> {
        conditions(document).iter().map(|condition| condition["feature"].clone()).collect()
    };
    assert!(features(found).iter().all(|feature| features(&recipe).contains(feature)), "{recipe}");
    assert!(conditions(&recipe).iter().any(|condition| *condition == json!({"feature": "qp_type", "in": ["UD"]})));
    assert_eq!(recipe["expected"]["confidence"], found["confidence"]);
    assert_eq!(recipe["environment"]["subsystem"], "sim:mine");
    assert!(recipe["healthy"].is_object(), "{recipe}");
    assert!(!everything(&bench, "r").contains("secret-rack"));
    let named = export(&bench, "1.1", "named", &["--db", "a.db", "--with-identities"]);
    assert_eq!(named["environment"]["subsystem"], "sim:secret-rack.yaml");

    assert_eq!(bench.json(1, &["recipe", "replay", "r"])["outcome"], "reproduced");
    let other = bench.json(0, &["recipe", "replay", "r", "--subsystem", "sim:A"]);
    assert_eq!(other["outcome"], "not_reproduced");
    let text = bench.expect(1, &["recipe", "replay", "r"]);
    assert!(text.starts_with("1.1 on sim:mine: reproduced\n"), "{text}");

    bench.expect(0, &["recipe", "export", "anomaly:1", "--out", "known.tar.gz"]);
    let imported = bench.json(0, &["findings", "import", "r", "known.tar.gz", "--db", "b.db"]);
    assert_eq!(imported["imported"][0]["new"], true);
    let again = bench.json(0, &["findings", "import", "known.tar.gz", "r", "--db", "b.db"]);
    assert_eq!((&again["imported"][0]["campaign"], &again["imported"][0]["new"]), (&json!(2), &json!(false)));
    let list = bench.json(0, &["mfs", "list", "--db", "b.db"]);
    let listed = list["findings"].as_array().expect("a list");
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().any(|listed| listed["finding"]["mfs"] == recipe["mfs"]), "{list}");
    bench.write("w.yaml", ANOMALY_1);
    bench.write("healthy.yaml", HEALTHY);
    assert_eq!(bench.json(1, &["mfs", "check", "w.yaml", "--db", "b.db"])["answer"], "anomalous");
    assert_eq!(bench.json(2, &["mfs", "check", "healthy.yaml", "--db", "b.db"])["answer"], "unknown");
    let back = export(&bench, "1.1", "back", &["--db", "b.db"]);
    for key in ["workload", "mfs", "expected", "anomalous", "healthy", "environment"] {
        assert_eq!(back[key], recipe[key], "{key} comes back as it was");
    }
    let resume = bench.run(&["campaign", "resume", "1", "--budget", "10", "--db", "b.db"]);
    assert!(resume.stderr.contains("imported finding"), "{}", resume.stderr);
}

/// All text of a recipe's directory.
fn everything(bench: &Bench, name: &str) -> String {
    let entries = std::fs::read_dir(bench.path(name)).expect("a directory");
    entries.map(|entry| std::fs::read_to_string(entry.expect("readable").path()).expect("text")).collect()
}

#[test]
fn nothing_is_overwritten_and_missing_findings_are_named() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("full")).expect("writable");
    bench.write("full/notes.txt", "mine");
    bench.write("taken.tar.gz", "mine");
    for out in ["full", "taken.tar.gz", "full/notes.txt"] {
        let ran = bench.run(&["recipe", "export", "anomaly:1", "--out", out]);
        assert_eq!(ran.status, Some(2), "{out}");
        assert!(ran.stderr.contains("already there"), "{out}: {}", ran.stderr);
    }
    assert_eq!(std::fs::read(bench.path("full/notes.txt")).expect("still there"), b"mine");
    for (finding, fragment) in
        [("anomaly:19", "anomaly:1 to anomaly:18"), ("x", "CAMPAIGN.NUMBER"), ("1.1", "no Kelpie database")]
    {
        let ran = bench.run(&["recipe", "export", finding, "--out", "new", "--db", "no.db"]);
        assert_eq!(ran.status, Some(2), "{finding}");
        assert!(ran.stderr.contains(fragment), "{finding}: {}", ran.stderr);
    }
    assert!(!bench.path("new").exists());
}

#[test]
fn a_campaign_skips_what_the_database_knows() {
    let bench = Bench::new();
    bench.write("space.yaml", SMALL_SPACE);
    let run = |db: &str, more: &[&str]| {
        let run = ["campaign", "run", "--subsystem", "sim:F", "--space", "space.yaml", "--budget", "40", "--json"];
        bench.run(&[&run[..], &["--db", db], more].concat())
    };
    let first = run("a.db", &[]).json();
    let numbers: Vec<u64> =
        first["findings"].as_array().into_iter().flatten().filter_map(|finding| finding["id"].as_u64()).collect();
    let found = numbers.len();
    assert_ne!(found, 0, "{first}");
    for number in numbers {
        let recipe = format!("{number}.tar.gz");
        bench.expect(0, &["recipe", "export", &format!("1.{number}"), "--out", &recipe, "--db", "a.db"]);
        bench.expect(0, &["findings", "import", &recipe, "--db", "b.db"]);
    }
    let seeded = run("b.db", &["--seed-findings"]);
    assert_eq!(seeded.status, Some(0), "{seeded:?}");
    assert!(seeded.stderr.contains(&format!("{found} finding")), "{}", seeded.stderr);
    assert!(seeded.stderr.contains("known beforehand"), "{}", seeded.stderr);
    let seeded = seeded.json();
    assert_ne!(seeded["skipped"], 0, "{seeded}");
    let region = |finding: &Value| {
        let mut conditions = finding["mfs"].clone();
        for condition in conditions.as_array_mut().expect("a list") {
            condition.as_object_mut().expect("a condition").remove("cure");
        }
        serde_json::from_value::<Region>(conditions).expect("a region")
    };
    let known: Vec<Region> = first["findings"].as_array().into_iter().flatten().map(region).collect();
    for finding in seeded["findings"].as_array().expect("a list") {
        let workload: Workload = serde_json::from_value(finding["workload"].clone()).expect("a workload");
        assert!(!known.iter().any(|region| region.contains(&workload)), "{finding}");
    }
    // The regions are stored with the campaign: replaying its experiments comes to the same decisions.
    let campaign = seeded["campaign"].to_string();
    let resumed = bench.json(0, &["campaign", "resume", &campaign, "--budget", "41", "--db", "b.db"]);
    assert_eq!(resumed["experiments"], 41);
}

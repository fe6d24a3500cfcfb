//! Recipes as a user meets them: written, validated, replayed, imported, and refused where they are hostile.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use kelpie_spaces::known;
use serde_json::{Value, json};

use crate::support::{ANOMALY_1, Bench, HEALTHY, SMALL_SPACE};

fn schema() -> jsonschema::Validator {
    let text = Bench::new().expect(0, &["recipe", "schema"]);
    let document: Value = serde_json::from_str(&text).expect("the schema is JSON");
    jsonschema::draft202012::meta::validate(&document).expect("the schema is one of draft 2020-12");
    jsonschema::validator_for(&document).expect("the schema compiles")
}

fn recipe_of(directory: &Path) -> Value {
    let text = std::fs::read_to_string(directory.join("recipe.json")).expect("a recipe was written");
    serde_json::from_str(&text).expect("it is JSON")
}

fn complaints(schema: &jsonschema::Validator, document: &Value) -> Vec<String> {
    schema.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
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
        let recipe = export(&bench, &finding, &name, &[]);
        assert_eq!(complaints(&schema, &recipe), Vec::<String>::new(), "{finding}");
        assert_eq!(recipe["environment"]["subsystem"], format!("sim:{}", anomaly.subsystem), "{finding}");
        assert_eq!(recipe["healthy"]["seen"]["symptoms"], json!([]), "{finding} has a healthy neighbour");
        let symptom = &recipe["expected"]["symptoms"][0];
        bench.expect(0, &["recipe", "export", &finding, "--out", &archive]);
        for path in [&name, &archive] {
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
            assert!(readme.contains(&format!("- {condition}\n")), "{finding}: {condition}");
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
    let run = ["campaign", "run", "--subsystem", "sim:secret-rack.yaml", "--space", "space.yaml", "--budget", "150"];
    let campaign = bench.json(0, &[&run[..], &["--db", "a.db"]].concat());
    let found = &campaign["findings"][0];
    assert_eq!(found["id"], 1, "{campaign}");

    let recipe = export(&bench, "1.1", "r", &["--db", "a.db"]);
    assert_eq!(complaints(&schema, &recipe), Vec::<String>::new());
    assert_eq!((&recipe["mfs"], &recipe["workload"]), (&found["mfs"], &found["workload"]));
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
    assert_eq!(list["findings"].as_array().map(Vec::len), Some(2));
    assert_eq!(list["findings"][0]["finding"]["mfs"], recipe["mfs"]);
    bench.write("w.yaml", ANOMALY_1);
    bench.write("healthy.yaml", HEALTHY);
    assert_eq!(bench.json(1, &["mfs", "check", "w.yaml", "--db", "b.db"])["findings_checked"], 2);
    bench.expect(0, &["mfs", "check", "healthy.yaml", "--db", "b.db"]);
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

/// Hostile archives of every kind are in the tests of `reports`; these are made by the tar that everybody has.
#[test]
fn archives_of_tar_are_read_or_refused_and_nothing_is_unpacked() {
    let bench = Bench::new();
    export(&bench, "anomaly:8", "r", &[]);
    std::os::unix::fs::symlink("r/recipe.json", bench.path("link.json")).expect("a link");
    let tar = |args: &[&str]| {
        let done = Command::new("tar").args(args).current_dir(bench.path(".")).output().expect("tar is there");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    tar(&["--format=ustar", "-C", "r", "-czf", "good.tar.gz", "recipe.json", "README.md", "perftest.txt"]);
    tar(&["-C", "r", "-czf", "gnu.tar.gz", "recipe.json"]);
    for archive in ["good.tar.gz", "gnu.tar.gz"] {
        assert_eq!(bench.json(1, &["recipe", "replay", archive])["outcome"], "reproduced");
    }
    tar(&["-czf", "folder.tar.gz", "r"]);
    tar(&["-P", "--transform=s,^,../../escaped/,", "-C", "r", "-czf", "up.tar.gz", "recipe.json"]);
    tar(&["--transform=s,link,recipe,", "-czf", "link.tar.gz", "link.json"]);
    tar(&["--format=pax", "-C", "r", "-czf", "pax.tar.gz", "recipe.json"]);
    bench.write("bomb.tar.gz", bomb(64 << 20));
    bench.write("no.tar.gz", "not gzip");
    let table = [
        ("folder.tar.gz", "entry `r/` is a directory"),
        ("up.tar.gz", "entry `../../escaped/recipe.json` is none of"),
        ("link.tar.gz", "entry `recipe.json` is a symbolic link"),
        ("pax.tar.gz", "is an extension header"),
        ("bomb.tar.gz", "unpacks to more than"),
        ("no.tar.gz", "not a complete gzip archive"),
        ("gone.tar.gz", "cannot be read"),
    ];
    let before = names(&bench);
    for (archive, fragment) in table {
        for command in [&["recipe", "replay", archive][..], &["findings", "import", archive, "--db", "new.db"]] {
            let ran = bench.run(command);
            assert_eq!(ran.status, Some(2), "{archive}: {ran:?}");
            assert!(ran.stderr.starts_with(&format!("error: {archive}: ")), "{archive}: {}", ran.stderr);
            assert!(ran.stderr.contains(fragment), "{archive}: {}", ran.stderr);
        }
    }
    assert_eq!(names(&bench), before, "nothing was unpacked, no database begun");
}

fn names(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(bench.path(".")).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn bomb(length: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; length]).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn a_strangers_model_is_bounded() {
    let bench = Bench::new();
    let good = export(&bench, "anomaly:1", "r", &[]);
    let model = good["environment"]["model"].as_str().expect("a model").to_owned();
    let table = [
        (model.replace("max_events: 400000", "max_events: 4000000000"), "at most 112000000 are accepted"),
        (model.replace("name: F\n", "name: \"\\e[31m\"\nnot_there: 1\n"), "environment.model"),
        ("base: /etc/passwd\n".to_owned(), "environment.model"),
        ("a: &a [x]\nb: *a\n".to_owned(), "aliases"),
    ];
    for (model, fragment) in table {
        let mut bent = good.clone();
        bent["environment"]["model"] = json!(model);
        let ran = replay_of(&bench, &bent);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(fragment) && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    }
    let mut real = good;
    real["environment"] = json!({"subsystem": "pair", "hosts": {"a": {}, "b": {}}});
    assert!(replay_of(&bench, &real).stderr.contains("--subsystem"));
}

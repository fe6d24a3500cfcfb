//! Recipes as a user meets them: written, validated, replayed, imported, and refused where they are hostile.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use kelpie_monitor::{Assessment, Bounds, Measurement, PerHost, Sample, Symptom};
use kelpie_reports::{Experiment, ExperimentClock, FindingRecord, NewCampaign, Outcome, Store};
use kelpie_search::{Algorithm, Config, SignalSet};
use kelpie_spaces::{Region, Space, Workload, known};
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

/// A pair file with names in every place that it has for them.
const PAIR: &str = "\
kelpie: pair/1
name: secret-rack
hosts:
  a: {agent: \"secret-a.example:7471\", device: mlx5_0, gid_index: 3}
  b: {agent: \"192.0.2.77:7471\", device: mlx5_1}
tls: {ca: /home/secret/ca.pem, identity: /home/secret/me.pem}
bounds: {max_bps: 1.0e+11, max_pps: 1.5e+8}
";

/// A database with one finding of a pair, whose hardware was talkative.
fn database_of_a_pair(path: &Path) {
    let bounds = Bounds::new(1e11, 1.5e8);
    let text = Config::new(Algorithm::Collie, SignalSet::Both, 7);
    let plan = NewCampaign {
        kelpie_version: "0.1.0".to_owned(),
        subsystem: "/home/secret/pair.yaml".to_owned(),
        subsystem_source: PAIR.to_owned(),
        bounds,
        space: "full".to_owned(),
        space_source: Space::catalog("full").expect("in the catalog").to_yaml(),
        algorithm: "collie".to_owned(),
        signal: "both".to_owned(),
        seed: 7,
        config: serde_json::to_string(&text).expect("JSON"),
        budget: Some(1),
    };
    let anomaly = known::anomaly(3).expect("18 anomalies");
    let mut store = Store::create(path).expect("a new database");
    let (id, _lock) = store.begin_campaign(&plan).expect("stored");
    let events = ["QP 3 to secret-a.example failed", "no route to 192.0.2.77", "gid fe80::ba3f:d2ff:fe00:1122"];
    let mean = Sample { seconds: 1.0, directions: Vec::new(), pause: None, counters: PerHost::default() };
    let experiment = Experiment {
        number: 1,
        purpose: "search".to_owned(),
        skipped_before: 0,
        workload: anomaly.trigger.workload(),
        outcome: Outcome::Measured {
            measurement: Measurement { samples: vec![mean], hardware_events: events.map(str::to_owned).to_vec() },
            assessment: Assessment::of_symptoms(vec![Symptom::Pause]),
            attempts: 1,
        },
    };
    let clock = ExperimentClock { started_unix_ms: 0, duration_seconds: 1.0 };
    store.append_experiment(id, &experiment, clock).expect("stored");
    let finding = FindingRecord {
        number: 1,
        symptom: Symptom::Pause,
        found_at: 1,
        experiments_for_mfs: 1,
        confidence: 0.9,
        mfs: anomaly.conditions,
        workload: anomaly.trigger.workload(),
        evidence: json!({}),
    };
    store.append_finding(id, &finding).expect("stored");
}

#[test]
fn names_and_addresses_of_a_pair_stay_at_home() {
    let (bench, schema) = (Bench::new(), schema());
    database_of_a_pair(&bench.path("pair.db"));
    let doctor = |host: &str, kernel: &str| json!({"host": host, "findings": [], "facts": {"kernel": kernel, "firmware": "22.38.1002"}});
    bench.write("a.json", doctor("secret-a", "6.1.0").to_string());
    bench.write("b.json", doctor("secret-b", "6.12.0").to_string());
    let more = ["--db", "pair.db", "--doctor-a", "a.json", "--doctor-b", "b.json"];
    let recipe = export(&bench, "1.1", "r", &more);
    assert_eq!(complaints(&schema, &recipe), Vec::<String>::new());
    let text = everything(&bench, "r");
    for identity in ["secret", "192.0.2.77", "fe80", "7471", ".pem", "/home"] {
        assert!(!text.contains(identity), "{identity} in {text}");
    }
    assert_eq!(recipe["environment"]["subsystem"], "pair");
    let hosts = &recipe["environment"]["hosts"];
    for (pointer, expected) in [
        ("/a/RDMA device", json!("mlx5_0")),
        ("/a/GID index", json!("3")),
        ("/b/GID index", Value::Null),
        ("/a/kernel", json!("6.1.0")),
        ("/b/kernel", json!("6.12.0")),
        ("/b/firmware", json!("22.38.1002")),
        ("/b/host", Value::Null),
    ] {
        assert_eq!(hosts.pointer(pointer).unwrap_or(&Value::Null), &expected, "{pointer}");
    }
    assert_eq!(recipe["anomalous"]["hardware_events"][1], "no route to [removed]");
    assert!(recipe["healthy"].is_null() && text.contains("No healthy traffic nearby was measured"), "{text}");

    let named = export(&bench, "1.1", "named", &[&more[..], &["--with-identities"]].concat());
    assert_eq!(named["environment"]["hosts"]["b"]["agent"], "192.0.2.77:7471");
    assert_eq!(named["environment"]["hosts"]["b"]["host"], "secret-b");
    assert_eq!(named["anomalous"]["hardware_events"][1], "no route to 192.0.2.77");
    bench.expect(0, &["findings", "import", "r", "--db", "new.db"]);
    assert_eq!(export(&bench, "1.1", "back", &["--db", "new.db"])["environment"]["subsystem"], "pair");
}

#[test]
fn a_campaign_skips_what_the_database_knows() {
    let bench = Bench::new();
    bench.write("space.yaml", SMALL_SPACE);
    let run = |db: &str, more: &[&str]| {
        let run = ["campaign", "run", "--subsystem", "sim:F", "--space", "space.yaml", "--budget", "150", "--json"];
        bench.run(&[&run[..], &["--db", db], more].concat())
    };
    let first = run("a.db", &[]).json();
    let found = first["findings"].as_array().map_or(0, Vec::len);
    assert_ne!(found, 0, "{first}");
    let recipes: Vec<String> = (1..=found).map(|number| format!("{number}.tar.gz")).collect();
    for (index, recipe) in recipes.iter().enumerate() {
        bench.expect(0, &["recipe", "export", &format!("1.{}", index + 1), "--out", recipe, "--db", "a.db"]);
        bench.expect(0, &["findings", "import", recipe, "--db", "b.db"]);
    }
    let seeded = run("b.db", &["--seed-findings"]);
    assert_eq!(seeded.status, Some(0), "{seeded:?}");
    assert!(seeded.stderr.contains(&format!("{found} finding")), "{}", seeded.stderr);
    assert!(seeded.stderr.contains("known beforehand"), "{}", seeded.stderr);
    let seeded = seeded.json();
    assert_ne!(seeded["skipped"], 0, "{seeded}");
    let region = |finding: &Value| serde_json::from_value::<Region>(finding["mfs"].clone()).expect("a region");
    let known: Vec<Region> = first["findings"].as_array().into_iter().flatten().map(region).collect();
    for finding in seeded["findings"].as_array().expect("a list") {
        let workload: Workload = serde_json::from_value(finding["workload"].clone()).expect("a workload");
        assert!(!known.iter().any(|region| region.contains(&workload)), "{finding}");
    }
    // The regions are stored with the campaign: replaying its experiments comes to the same decisions.
    let campaign = seeded["campaign"].to_string();
    let resumed = bench.json(0, &["campaign", "resume", &campaign, "--budget", "151", "--db", "b.db"]);
    assert_eq!(resumed["experiments"], 151);
}

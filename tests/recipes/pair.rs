//! Recipes of real pairs: what names a host stays at home. No host is needed, since the store has what is exported.

use std::path::Path;

use kelpie_monitor::{Assessment, Bounds, Measurement, PerHost, Sample, Symptom};
use kelpie_search::{Algorithm, Config, Purpose, SignalSet};
use kelpie_spaces::{Space, known};
use kelpie_store::{CampaignDefinition, Experiment, ExperimentClock, ExperimentOutcome, FindingRecord, Store};
use serde_json::{Value, json};

use super::{complaints, everything, export, schema};
use crate::support::Bench;

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
    let definition = CampaignDefinition {
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
    let (id, _lock) = store.begin_campaign(&definition, &[]).expect("stored");
    let events = ["QP 3 to secret-a.example failed", "no route to 192.0.2.77", "gid fe80::ba3f:d2ff:fe00:1122"];
    let mean = Sample { seconds: 1.0, directions: Vec::new(), pause: None, counters: PerHost::default() };
    let experiment = Experiment {
        number: 1,
        purpose: Purpose::Search.into(),
        skipped_before: 0,
        workload: anomaly.trigger.workload(),
        outcome: ExperimentOutcome::Measured {
            measurement: Measurement {
                samples: vec![mean],
                hardware_events: events.map(str::to_owned).to_vec(),
                ..Measurement::default()
            },
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
    store.put_finding(id, &finding).expect("stored");
}

#[test]
fn names_and_addresses_of_a_pair_stay_at_home() {
    let (bench, schema) = (Bench::new(), schema());
    database_of_a_pair(&bench.path("pair.db"));
    let doctor = |host: &str, kernel: &str| {
        let facts = json!({"kernel": kernel, "firmware": "22.38.1002"});
        json!({"host": host, "findings": [], "facts": facts})
    };
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

//! The embedded models against the paper's Table 1: their descriptions, what shows on them, and sources of constants.

use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Verdict, assess};
use kelpie_sim::SimSubsystem;
use serde_yaml::Value;

use super::cases::{ANOMALIES, trigger};
use super::{assert_none, limiting, load};

fn model(name: &str) -> Value {
    serde_yaml::from_str(&load(name).yaml()).expect("the model is YAML")
}

#[test]
fn models_describe_table_1() {
    // Line rate, PCIe bandwidth, NUMA nodes, GPUs.
    let table = [
        ("A", 25, 126, 2, 0),
        ("B", 100, 126, 2, 0),
        ("C", 100, 126, 2, 1),
        ("D", 100, 126, 2, 0),
        ("E", 200, 252, 2, 1),
        ("F", 200, 252, 2, 1),
        ("G", 200, 252, 4, 0),
        ("H", 100, 126, 2, 0),
    ];
    assert_eq!(SimSubsystem::names(), table.map(|row| row.0));
    for (name, line_rate, pcie, nodes, gpus) in table {
        let model = model(name);
        assert_eq!(model["name"], name);
        assert_eq!(model["port"]["line_rate_gbps"].as_f64(), Some(f64::from(line_rate)), "{name}");
        assert_eq!(model["pcie"]["gbps"].as_f64(), Some(f64::from(pcie)), "{name}");
        assert_eq!(model["host"]["dram"].as_sequence().map(Vec::len), Some(nodes), "{name}");
        assert_eq!(model["host"]["gpus"].as_sequence().map(Vec::len), Some(gpus), "{name}");
    }
}

/// Which of these anomalies of F a model shows by the same part.
fn shown_on(name: &str, ids: &[u32]) -> Vec<u32> {
    let mut subsystem = load(name);
    let shows = |id: &&u32| {
        let workload = trigger(**id).workload();
        let Ok(measurement) = subsystem.measure(&workload) else { return false };
        let shown = assess(&workload, &subsystem.bounds(), &measurement);
        shown.verdict == Verdict::Anomalous && subsystem.limiting() == limiting(**id)
    };
    ids.iter().filter(shows).copied().collect()
}

#[test]
fn anomalies_of_the_applications_show_where_they_ran() {
    // Section 7.3: the RPC library on B and C.
    for name in ["B", "C"] {
        assert_eq!(shown_on(name, &[4, 5]), [4, 5], "{name}");
    }
    // The slowest port hides what its NIC does inside.
    let of_f = ANOMALIES.iter().filter(|anomaly| anomaly.subsystem == "F").map(|anomaly| anomaly.id);
    let of_f: Vec<u32> = of_f.collect();
    let [on_a, on_b] = ["A", "B"].map(|name| shown_on(name, &of_f));
    assert!(on_a.len() < on_b.len(), "A shows {on_a:?}, B {on_b:?}");
}

#[test]
fn every_constant_has_a_source() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/engine/simulated/pair/models");
    let mut complaints = Vec::new();
    for name in SimSubsystem::names() {
        let text = std::fs::read_to_string(format!("{folder}/{name}.yaml")).expect("an embedded model has a file");
        for (number, line) in text.lines().enumerate() {
            let names = ["kelpie:", "name:", "description:", "base:"].iter().any(|key| line.starts_with(key));
            let section = !line.starts_with(' ') && line.ends_with(':');
            let sourced = line.split_once(" #").is_some_and(|(_, source)| source.trim().len() > 3);
            if !(names || section || sourced || line.starts_with('#') || line.trim().is_empty()) {
                complaints.push(format!("{name}.yaml:{} {line}", number + 1));
            }
        }
    }
    assert_none(&complaints);
}

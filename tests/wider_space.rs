//! Campaigns over a space with pauses between posts, and QPs and MRs that come and go: what only these show is found.

use serde_json::Value;

use crate::support::Bench;

/// A file of the examples.
fn example(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Features that a finding asks to be above zero.
fn asked_for(finding: &Value) -> Vec<&str> {
    let conditions = finding["mfs"].as_array().expect("conditions").iter();
    let above = conditions.filter(|condition| condition["min"].as_u64().is_some_and(|min| min > 0));
    above.filter_map(|condition| condition["feature"].as_str()).collect()
}

/// Whether a campaign with this seed finds the weakness of timing, and that of the control path.
fn found(seed: &str, budget: &str) -> [bool; 2] {
    let bench = Bench::new();
    let (nic, space) = (format!("sim:{}", example("planted-nic.yaml")), example("wider-space.yaml"));
    let args = ["--budget", budget, "--seed", seed, "--signal", "both"];
    let document = bench.json(0, &[&["campaign", "run", "--subsystem", &nic, "--space", &space], &args[..]].concat());
    let findings = document["findings"].as_array().expect("a list");
    let asked: Vec<Vec<&str>> = findings.iter().map(asked_for).collect();
    let is_timed = |asked: &[&str]| asked.contains(&"interarrival_ns");
    let is_made = |asked: &[&str]| asked.iter().any(|feature| feature.ends_with("_made_per_sec"));
    [
        asked.iter().any(|asked| is_timed(asked) && !is_made(asked)),
        asked.iter().any(|asked| is_made(asked) && !is_timed(asked)),
    ]
}

/// Commands hide the sleep of the link where both are on, so that some seeds take more experiments.
const SEEDS: [&str; 5] = ["41", "42", "43", "44", "45"];

#[test]
fn a_campaign_finds_a_weakness_of_timing_and_one_of_the_control_path() {
    assert!(SEEDS.iter().any(|seed| found(seed, "150") == [true, true]));
}

/// More than one seed, by `make test-long`.
mod long {
    #[test]
    #[ignore = "long: make test-long runs it"]
    fn campaigns_find_a_weakness_of_timing_and_one_of_the_control_path() {
        let found = super::SEEDS.map(|seed| super::found(seed, "250"));
        assert!(found.iter().filter(|found| **found == [true, true]).count() >= 2, "{found:?}");
    }
}

/// Plain traffic itself is anomalous there, so that no feature can go back to it.
#[test]
fn where_plain_traffic_is_the_anomaly_the_words_that_cure_it_are_its_condition() {
    let bench = Bench::new();
    let space = example("dual-port.yaml");
    let args = ["campaign", "run", "--subsystem", "sim:DUAL", "--space", &space, "--budget", "100"];
    let document = bench.json(0, &args);
    let findings = document["findings"].as_array().expect("a list").iter();
    let said = findings.map(|finding| (finding["symptom"].clone(), finding["mfs"][0]["in"].clone()));
    let said: Vec<String> = said.map(|(symptom, words)| format!("{symptom} {words}")).collect();
    assert_eq!(said, [r#""low_throughput" ["one"]"#, r#""pause" ["hashed","crossed"]"#], "{document}");
    assert_eq!(document["unexplained"], serde_json::json!([]));
}

#[test]
fn the_same_nic_shows_neither_in_a_space_without_pauses_and_commands() {
    let bench = Bench::new();
    let text = std::fs::read_to_string(example("wider-space.yaml")).expect("an example");
    let narrow: String = text
        .lines()
        .filter(|line| !line.contains("_ns:") && !line.contains("_per_sec:"))
        .collect::<Vec<_>>()
        .join("\n");
    let space = bench.write("narrow.yaml", &narrow);
    let nic = format!("sim:{}", example("planted-nic.yaml"));
    let document =
        bench.json(0, &["campaign", "run", "--subsystem", &nic, "--space", space, "--budget", "60", "--seed", "41"]);
    assert_eq!(document["findings"].as_array().map(Vec::len), Some(0), "{}", document["findings"]);
}

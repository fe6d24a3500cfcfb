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

#[test]
fn a_campaign_finds_a_weakness_of_timing_and_one_of_the_control_path() {
    for seed in ["41", "42", "43"] {
        let bench = Bench::new();
        let (nic, space) = (format!("sim:{}", example("planted-nic.yaml")), example("wider-space.yaml"));
        let args = ["campaign", "run", "--subsystem", &nic, "--space", &space, "--budget", "150", "--seed", seed];
        let document = bench.json(0, &args);
        let findings = document["findings"].as_array().expect("a list");
        let asked: Vec<Vec<&str>> = findings.iter().map(asked_for).collect();
        let is_made = |feature: &&str| feature.ends_with("_made_per_sec");
        let timing = asked.iter().any(|asked| asked.contains(&"interarrival_ns") && !asked.iter().any(|f| is_made(&f)));
        let control =
            asked.iter().any(|asked| asked.iter().any(|f| is_made(&f)) && !asked.contains(&"interarrival_ns"));
        assert!(timing && control, "seed {seed}: {asked:?}");
    }
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
        bench.json(0, &["campaign", "run", "--subsystem", &nic, "--space", &space, "--budget", "60", "--seed", "41"]);
    assert_eq!(document["findings"].as_array().map(Vec::len), Some(0), "{}", document["findings"]);
}

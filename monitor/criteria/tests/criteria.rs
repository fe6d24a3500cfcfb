//! Criteria of small fleets whose answers are known, and rules that hold whatever is measured.

use kelpie_criteria::{Criteria, LearnError, LearnOptions, NodeState, Norm, Results};
use proptest::prelude::*;

fn line(node: &str, metric: &str, samples: &[f64], better: &str) -> String {
    format!("{{\"node\": \"{node}\", \"metric\": \"{metric}\", \"better\": \"{better}\", \"samples\": {samples:?}}}\n")
}

fn read(text: &str) -> Results {
    let mut bytes = text.as_bytes();
    Results::read([("r.jsonl", &mut bytes as &mut dyn std::io::BufRead)]).expect("results")
}

/// A node for each of these, of one value.
fn singles(values: &[f64]) -> Results {
    let lines = values.iter().enumerate().map(|(nth, value)| line(&format!("n{nth:03}"), "m", &[*value], "higher"));
    read(&lines.collect::<String>())
}

fn learn(results: &Results) -> kelpie_criteria::Criterion {
    let learned = Criteria::learn(results, &LearnOptions::default()).expect("criteria");
    assert!(learned.unsettled.is_empty());
    learned.criteria.metrics["m"].clone()
}

#[test]
fn a_loopback_of_twelve_nodes_has_two_that_are_unlike_the_others() {
    // Source of the figures: the worked example that SuperBench's section 3.4 leads to.
    let values = [23.70, 23.71, 23.69, 23.72, 1.51, 23.68, 23.70, 22.40, 23.73, 23.67, 23.70, 23.71];
    let criterion = learn(&singles(&values));
    assert_eq!(criterion.criterion, [23.70]);
    assert_eq!(criterion.defects, ["n004", "n007"]);
    let criteria = Criteria { metrics: [("m".to_owned(), criterion)].into() };
    let verdicts = criteria.judge(&singles(&[22.60, 22.515, 40.0]));
    let states: Vec<NodeState> = verdicts.nodes.values().map(|node| node.state).collect();
    assert_eq!(states, [NodeState::Pass, NodeState::Fail, NodeState::Pass]);
    let failed = &verdicts.nodes["n001"].failed[0];
    assert!((failed.similarity - 0.95).abs() < 1e-9 && (failed.observed, failed.criterion) == (22.515, 23.70));
}

#[test]
fn the_last_set_of_defects_is_that_of_the_last_criterion() {
    let criterion = learn(&singles(&[100.0, 98.0, 95.0, 90.0, 90.0]));
    assert_eq!((criterion.criterion, criterion.defects), (vec![98.0], vec!["n003".to_owned(), "n004".to_owned()]));
}

#[test]
fn repeatability_is_how_alike_two_healthy_nodes_are() {
    let criterion = learn(&singles(&[100.0, 99.0, 98.0]));
    assert!((criterion.repeatability - 0.986_632_997).abs() < 1e-9, "{}", criterion.repeatability);
}

#[test]
fn one_high_outlier_is_the_defect_and_not_the_criterion() {
    let mut values = vec![24.2; 9];
    values.push(1000.0);
    let criterion = learn(&singles(&values));
    assert_eq!((criterion.criterion, criterion.defects), (vec![24.2], vec!["n009".to_owned()]));
}

#[test]
fn a_floor_holds_whatever_most_nodes_measure() {
    let options = |floor: f64| LearnOptions { floors: [("m".to_owned(), floor)].into(), ..LearnOptions::default() };
    let results = singles(&[10.0, 10.0, 10.0, 40.0]);
    let error = Criteria::learn(&results, &options(35.0)).expect_err("most are below");
    assert_eq!(error, LearnError::BelowFloor { metric: "m".to_owned(), below: 3, nodes: 4, floor: 35.0 });
    let results = singles(&[40.0, 40.1, 39.9, 34.9]);
    let criteria = Criteria::learn(&results, &options(39.95)).expect("half are above").criteria;
    assert_eq!(criteria.metrics["m"].defects, ["n002", "n003"], "39.9 is like the others, and below the floor");
    assert_eq!(criteria.judge(&results).nodes["n002"].state, NodeState::Fail);
    let unknown = LearnOptions { floors: [("x".to_owned(), 1.0)].into(), ..LearnOptions::default() };
    assert_eq!(Criteria::learn(&results, &unknown), Err(LearnError::UnknownFloors("x".to_owned())));
}

#[test]
fn a_node_without_a_result_is_unknown_and_each_component_has_a_criterion_of_its_own() {
    let of = |node: &str, nic: &str, value: f64| {
        format!("{{\"node\": \"{node}\", \"metric\": \"bw\", \"component\": \"{nic}\", \"samples\": [{value}]}}\n")
    };
    let mut text = String::new();
    for node in ["a", "b", "c"] {
        text += &of(node, "mlx5_0", 390.0);
        text += &of(node, "mlx5_1", 195.0);
    }
    let learned = Criteria::learn(&read(&text), &LearnOptions::default()).expect("criteria").criteria;
    assert_eq!(learned.metrics.keys().collect::<Vec<_>>(), ["bw[mlx5_0]", "bw[mlx5_1]"]);
    let verdicts =
        learned.judge(&read(&(of("a", "mlx5_0", 390.0) + &of("b", "mlx5_1", 100.0) + &of("b", "mlx5_0", 1e3))));
    assert_eq!(
        (verdicts.nodes["a"].state, &verdicts.nodes["a"].missing[..]),
        (NodeState::Unknown, &["bw[mlx5_1]".to_owned()][..])
    );
    assert_eq!(verdicts.nodes["b"].state, NodeState::Fail);
    assert_eq!(verdicts.nodes["b"].failed[0].metric, "bw[mlx5_1]");
}

#[test]
fn summaries_of_superbench_are_read_and_what_failed_is_no_result() {
    let text = concat!(
        "{\"node\": \"vm-1\", \"kernel-launch/event_time:0\": 0.006, \"kernel-launch/return_code\": 0, \"note\": \"x\"}\n",
        "{\"node\": \"vm-2\", \"kernel-launch/event_time:0\": 0.0061, \"ib-loopback/return_code\": 28, \"nccl/bw:1\": -1}\n",
        "{\"node\": \"vm-3\", \"kernel-launch/event_time:0\": 0.3}\n",
    );
    let mut reader = kelpie_criteria::ResultsReader::default();
    reader.add("results-summary.jsonl", &mut text.as_bytes()).expect("a summary");
    assert_eq!(reader.notes(), ["vm-2: no result of ib-loopback, nccl/bw:1, which failed"]);
    let learned =
        Criteria::learn(&reader.finish().expect("results"), &LearnOptions::default()).expect("criteria").criteria;
    assert_eq!(learned.metrics.keys().collect::<Vec<_>>(), ["kernel-launch/event_time:0"]);
    assert_eq!(learned.metrics["kernel-launch/event_time:0"].defects, ["vm-3"]);
}

#[test]
fn lines_that_break_rules_are_named() {
    let error = |text: &str| {
        let mut bytes = text.as_bytes();
        Results::read([("r.jsonl", &mut bytes as &mut dyn std::io::BufRead)]).expect_err("refused").to_string()
    };
    let good = line("a", "m", &[1.0], "higher");
    for (bad, rule) in [
        ("{\"node\": \"a\", \"metric\": \"m\", \"samples\": []}", "r.jsonl:2: samples: write at least one value"),
        ("{\"node\": \"a\", \"metric\": \"m\", \"samples\": [-1]}", "r.jsonl:2: samples: -1 is no measured value"),
        ("{\"node\": \"\", \"metric\": \"m\", \"samples\": [1]}", "r.jsonl:2: names have 1 to"),
        ("{\"metric\": \"m\"}", "r.jsonl:2: missing field `node`"),
        (&line("b", "m", &[1.0], "lower"), "r.jsonl:2: m is in `` with higher better elsewhere"),
    ] {
        let error = error(&(good.clone() + bad));
        assert!(error.starts_with(rule), "{error}");
    }
    assert!(error("\n").starts_with("no result"));
}

fn fleet() -> impl Strategy<Value = Vec<Vec<f64>>> {
    let value = prop_oneof![8 => 95.0..105.0_f64, 1 => 1.0..95.0_f64];
    proptest::collection::vec(proptest::collection::vec(value, 1..4), 3..24)
}

fn results_of(fleet: &[Vec<f64>], order: impl Iterator<Item = usize>, scale: f64) -> Results {
    let of = |nth: usize| {
        let samples: Vec<f64> = fleet[nth].iter().map(|value| value * scale).collect();
        line(&format!("n{nth:03}"), "m", &samples, "higher")
    };
    read(&order.map(of).collect::<String>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn neither_the_order_of_nodes_nor_their_unit_matters(fleet in fleet()) {
        let options = LearnOptions::default();
        let learn = |results: Results| Criteria::learn(&results, &options).expect("criteria").criteria.metrics["m"].clone();
        let one = learn(results_of(&fleet, 0..fleet.len(), 1.0));
        let reversed = learn(results_of(&fleet, (0..fleet.len()).rev(), 1.0));
        prop_assert_eq!(&one, &reversed);
        // A power of two changes no digit.
        let scaled = learn(results_of(&fleet, 0..fleet.len(), 1024.0));
        prop_assert_eq!(&one.defects, &scaled.defects);
        prop_assert!(one.criterion.iter().zip(&scaled.criterion).all(|(one, scaled)| (one * 1024.0 - *scaled).abs() < 1e-9));
    }

    #[test]
    fn a_worse_node_never_passes_where_a_better_one_fails(
        criterion in proptest::collection::vec(50.0..150.0_f64, 1..6),
        node in proptest::collection::vec(50.0..150.0_f64, 1..6),
        worse_by in 0.0..50.0_f64,
    ) {
        for norm in [Norm::Xmax, Norm::Area] {
            let options = LearnOptions { norm, ..LearnOptions::default() };
            let learned = Criteria::learn(&read(&line("c", "m", &criterion, "higher")), &options).expect("criteria").criteria;
            let worse: Vec<f64> = node.iter().map(|value| (value - worse_by).max(0.0)).collect();
            let verdicts = learned.judge(&read(&(line("better", "m", &node, "higher") + &line("worse", "m", &worse, "higher"))));
            let [better, worse] = ["better", "worse"].map(|name| verdicts.nodes[name].state);
            prop_assert!(!(better == NodeState::Fail && worse == NodeState::Pass), "{verdicts:?}");
        }
    }
}

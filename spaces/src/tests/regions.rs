//! Features and regions: tables of what is read from a workload, and points sampled from regions.

use proptest::prelude::*;

use super::{full, rng, widest, writes};
use crate::{Condition, Feature, FeatureValue, Region, Test, Workload};

fn region(json: &str) -> Region {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

#[test]
fn features_are_read_from_the_pattern() {
    let check = |pattern: &str, feature: Feature, expected: &str| {
        assert_eq!(writes(pattern).feature(feature).to_string(), expected, "{feature} of {pattern}");
    };
    let mix = "[{op: WRITE, sge: [128B, 64KiB, 1KiB]}]";
    check(mix, Feature::MessageMix, "true");
    check(mix, Feature::MessageMin, "66688");
    check(mix, Feature::MessageMax, "66688");
    check(mix, Feature::SgeCount, "3");
    let vector = "[{op: WRITE, sge: [64KiB]}, {op: READ, sge: [1KiB]}, {op: WRITE, sge: [2KiB, 2KiB]}]";
    check(vector, Feature::MessageMix, "true");
    check(vector, Feature::Opcode, "READ+WRITE");
    check(vector, Feature::MessageMin, "1024");
    check(vector, Feature::MessageMax, "65536");
    check(vector, Feature::SgeCount, "2");
    let (short, long) = (
        "[{op: WRITE, sge: [1025B]}, {op: WRITE, sge: [64KiB]}]",
        "[{op: WRITE, sge: [1KiB]}, {op: WRITE, sge: [65535B]}]",
    );
    check(short, Feature::MessageMix, "false");
    check(long, Feature::MessageMix, "false");
    check(short, Feature::Bidirectional, "false");
    check(short, Feature::Loopback, "false");
    check(short, Feature::TotalMrs, "8");
    check(short, Feature::Mtu, "1024");
}

#[test]
fn feature_names_are_those_of_the_files() {
    for feature in Feature::ALL {
        assert_eq!(serde_json::to_string(&feature).expect("a name"), format!("\"{feature}\""));
        assert_eq!(feature.name().parse(), Ok(feature));
        assert_eq!(writes("[{op: WRITE, sge: [1KiB]}]").feature(feature).number().is_some(), feature.is_ordered());
    }
}

#[test]
fn a_region_holds_what_its_conditions_admit() {
    let w = writes("[{op: WRITE, sge: [4KiB]}]");
    let check = |json: &str, expected: bool| assert_eq!(region(json).contains(&w), expected, "{json}");
    check("[]", true);
    check(r#"[{"feature":"qps","min":8,"max":8}]"#, true);
    check(r#"[{"feature":"qps","min":9}]"#, false);
    check(r#"[{"feature":"qps","min":null,"max":7}]"#, false);
    check(r#"[{"feature":"opcode","in":["READ","WRITE"]}]"#, true);
    check(r#"[{"feature":"opcode","in":["READ"]}]"#, false);
    check(r#"[{"feature":"bidirectional","in":[false]}]"#, true);
    check(r#"[{"feature":"qps","min":1},{"feature":"loopback","in":["true"]}]"#, false);
}

#[test]
fn regions_are_written_as_they_are_read() {
    let text = r#"[{"feature":"qp_type","in":["UD"]},{"feature":"message_max","min":null,"max":1024}]"#;
    assert_eq!(serde_json::to_string(&region(text)).expect("a region"), text);
    assert_eq!(region(text).to_string(), "qp_type is UD and message_max at most 1KiB");
    for wrong in [
        r#"[{"feature":"qps","in":["8"]}]"#,
        r#"[{"feature":"opcode","min":1}]"#,
        r#"[{"feature":"opcode","in":[]}]"#,
        r#"[{"feature":"qps","min":2,"max":1}]"#,
        r#"[{"feature":"colour","min":2}]"#,
        r#"[{"feature":"qps","min":2,"in":["8"]}]"#,
    ] {
        assert!(serde_json::from_str::<Region>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_word_that_a_workload_shows_passes_and_no_other() {
    let (space, mut rng) = (widest(), rng(3));
    for _ in 0..500 {
        let mut workload = space.sample(&mut rng);
        let other = space.sample(&mut rng).flows.remove(0);
        workload.flows.push(other);
        for feature in Feature::ALL {
            if let Some(word) = workload.feature(feature).into_word() {
                assert_eq!(feature.check_word(&word), Ok(()), "{feature} {word}");
            }
        }
    }
    for (feature, word, rule) in [
        (Feature::QpType, "UDX", "write one of RC, UC, UD; did you mean `UD`?"),
        (Feature::Opcode, "SEND+READ", "write `READ+SEND`"),
        (Feature::Opcode, "READ+READ", "write `READ`"),
        (Feature::MessageMix, "yes", "write true or false"),
        (Feature::MemoryRequester, "dram:00", "write `dram:0`"),
    ] {
        assert_eq!(feature.check_word(word), Err(rule.to_owned()), "{feature}");
    }
    assert!(Feature::MemoryWritten.check_word("dram:0+gpu:0").is_err(), "it is one memory");
}

/// The conditions of the paper's table 2, as regions of the full space.
const REGIONS: &[&str] = &[
    r#"[{"feature":"qp_type","in":["UD"]},{"feature":"send_batch","min":64},{"feature":"recv_wq_depth","min":256}]"#,
    concat!(
        r#"[{"feature":"qp_type","in":["UD"]},{"feature":"recv_batch","max":8},"#,
        r#"{"feature":"recv_wq_depth","min":1024},{"feature":"message_max","max":1024},"#,
        r#"{"feature":"total_qps","min":16}]"#,
    ),
    r#"[{"feature":"opcode","in":["READ"]},{"feature":"mtu","max":1024},{"feature":"message_max","min":16384}]"#,
    concat!(
        r#"[{"feature":"opcode","in":["READ"]},{"feature":"bidirectional","in":["true"]},"#,
        r#"{"feature":"send_batch","min":32},{"feature":"sge_count","min":4},{"feature":"total_qps","min":160}]"#,
    ),
    concat!(
        r#"[{"feature":"opcode","in":["WRITE"]},{"feature":"send_batch","max":1},"#,
        r#"{"feature":"message_max","max":1024},{"feature":"total_mrs","min":12000}]"#,
    ),
    concat!(
        r#"[{"feature":"opcode","in":["WRITE"]},{"feature":"send_wq_depth","max":16},"#,
        r#"{"feature":"total_qps","min":480,"max":520}]"#,
    ),
    concat!(
        r#"[{"feature":"bidirectional","in":["true"]},{"feature":"sge_count","min":3},"#,
        r#"{"feature":"message_mix","in":["true"]}]"#,
    ),
    concat!(
        r#"[{"feature":"bidirectional","in":["true"]},{"feature":"send_batch","min":64},"#,
        r#"{"feature":"message_mix","in":["true"]},{"feature":"total_qps","min":320}]"#,
    ),
    r#"[{"feature":"message_mix","in":["false"]},{"feature":"message_max","min":65536}]"#,
    r#"[{"feature":"memory_requester","in":["gpu:0"]},{"feature":"loopback","in":["true"]}]"#,
    r#"[{"feature":"message_min","max":128},{"feature":"message_max","min":1048576}]"#,
    r#"[{"feature":"mr_size","max":4096},{"feature":"qps","min":5000}]"#,
    "[]",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn points_of_a_region_are_inside_it(seed: u64) {
        let full = full();
        for json in REGIONS {
            let region = region(json);
            let workload = full.sample_in(&region, &mut rng(seed));
            let workload = workload.ok_or_else(|| TestCaseError::fail(format!("nothing found in {region}")))?;
            prop_assert!(region.contains(&workload), "{region}: {workload:?}");
            prop_assert!(full.contains(&workload), "{region}: {workload:?}");
        }
    }
}

#[test]
fn the_dimensions_that_a_region_leaves_free_are_sampled_afresh() {
    let (space, mut rng) = (widest(), rng(7));
    let region = region(REGIONS[3]);
    let mut samples = (0..200).map(|_| space.sample_in(&region, &mut rng).expect("a wide region"));
    let first = samples.next().expect("200 samples");
    let others: Vec<_> = samples.collect();
    for feature in Feature::ALL
        .into_iter()
        .filter(|feature| !matches!(feature, Feature::QpType | Feature::Opcode | Feature::Bidirectional))
    {
        assert!(others.iter().any(|other| other.feature(feature) != first.feature(feature)), "{feature} never moved");
    }
}

#[test]
fn totals_are_spread_over_what_the_region_admits() {
    let (full, mut rng) = (full(), rng(8));
    for (json, feature, edge) in [
        (r#"[{"feature":"total_qps","min":480}]"#, Feature::TotalQps, 480),
        (r#"[{"feature":"total_qps","max":6}]"#, Feature::TotalQps, 6),
        (r#"[{"feature":"total_mrs","min":12000}]"#, Feature::TotalMrs, 12_000),
    ] {
        let region = region(json);
        let at_edge = (0..300)
            .map(|_| full.sample_in(&region, &mut rng).expect("a wide region"))
            .filter(|workload| workload.feature(feature).number() == Some(edge))
            .count();
        assert!(at_edge < 90, "{region}: {at_edge} of 300 lie on its edge");
    }
}

#[test]
fn points_of_a_wide_region_are_as_random_as_those_of_the_space() {
    let (full, mut rng) = (full(), rng(9));
    let region = region(r#"[{"feature":"sge_count","min":4}]"#);
    let share_at_edge = |points: Vec<Workload>| {
        let at_edge = points.iter().filter(|point| point.feature(Feature::SgeCount) == FeatureValue::Number(4));
        at_edge.count() as f64 / points.len() as f64
    };
    let own = share_at_edge((0..4000).map(|_| full.sample(&mut rng)).filter(|point| region.contains(point)).collect());
    let inside = share_at_edge((0..600).map(|_| full.sample_in(&region, &mut rng).expect("a wide region")).collect());
    let cut = share_at_edge(full.samples_within(&region, &mut rng).take(600).collect());
    assert!((inside - own).abs() < 0.08, "{inside} and {own}");
    assert!(cut > own + 0.2, "cut domains prefer their edge: {cut} and {own}");
}

#[test]
fn an_impossible_region_yields_nothing() {
    let full = full();
    for json in [
        r#"[{"feature":"qp_type","in":["UD"]},{"feature":"opcode","in":["READ"]}]"#,
        r#"[{"feature":"qp_type","in":["UD"]},{"feature":"message_min","min":8192}]"#,
        r#"[{"feature":"qps","min":30000}]"#,
        r#"[{"feature":"send_batch","min":100},{"feature":"send_wq_depth","max":64}]"#,
        r#"[{"feature":"message_mix","in":["true"]},{"feature":"message_max","max":1024}]"#,
        r#"[{"feature":"memory_requester","in":["gpu:7"]}]"#,
    ] {
        assert_eq!(full.sample_in(&region(json), &mut rng(5)), None, "{json}");
    }
}

#[test]
fn a_condition_never_admits_the_other_kind() {
    let words = Condition { feature: Feature::Qps, test: Test::In(vec!["8".to_owned()]) };
    assert!(!words.holds(&writes("[{op: WRITE, sge: [4KiB]}]")));
}

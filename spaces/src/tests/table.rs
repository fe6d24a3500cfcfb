//! The table of dimensions: what a row promises holds for the workloads that it speaks of.

use std::collections::BTreeSet;

use super::writes;
use crate::dimensions::{Scope, TABLE};
use crate::edit::set;
use crate::{Condition, Feature, Flow, Test, Workload};

/// A workload in which no two values are equal by chance.
fn sample() -> Workload {
    let mut workload = writes("[{op: WRITE, sge: [1KiB, 2KiB]}, {op: WRITE, sge: [4KiB]}]");
    workload.flows.push(workload.flows[0].mirrored());
    workload
}

/// The values at a row's place in a flow, as a workload file has them.
fn written(workload: &Workload, place: &str) -> Vec<String> {
    let document = serde_json::to_value(workload).expect("a workload is plain data");
    let mut found: Vec<&serde_json::Value> = document["flows"].as_array().expect("a list").iter().collect();
    for key in place.split('.') {
        let name = key.trim_end_matches("[]");
        found = found.into_iter().filter_map(|value| value.get(name)).collect();
        if key.ends_with("[]") {
            found = found.into_iter().filter_map(|value| value.as_array()).flatten().collect();
        }
    }
    found.into_iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect()
}

#[test]
fn every_key_of_a_flow_has_a_row() {
    // The reader names its keys when it meets another.
    let refused = serde_json::from_str::<Flow>("{\"?\": 0}").expect_err("no key").to_string();
    let (_, keys) = refused.split_once("expected one of ").expect("it names its keys");
    let keys: Vec<&str> = keys.split('`').skip(1).step_by(2).collect();
    assert!(keys.contains(&"qps") && keys.len() > 10, "{refused}");
    for key in keys.into_iter().filter(|key| *key != "recv_sge") {
        // Receives follow from requests.
        let is_place =
            |place: &str| place.split(|sign: char| !sign.is_alphanumeric() && sign != '_').any(|word| word == key);
        assert!(TABLE.iter().any(|row| is_place(row.place)), "no row of dimensions::TABLE has its place at `{key}`");
    }
}

#[test]
fn a_plain_value_is_set_and_read_where_its_row_says() {
    let mut plain = 0;
    for row in TABLE
        .iter()
        .filter(|row| matches!(row.scope, Scope::Flow { .. } | Scope::Memory { .. } | Scope::Request { .. }))
    {
        plain += 1;
        let domain = row.dimension.full();
        // What is off has no place in a file.
        let codes = if row.optional().is_some() { [1, row.limit.1] } else { [domain.min(), domain.max()] };
        for code in codes {
            let mut workload = sample();
            set(&mut workload, row.dimension, code);
            let mut seen = BTreeSet::new();
            row.scope.each(&workload, &mut |value| {
                seen.insert(value);
            });
            assert_eq!(seen, BTreeSet::from([code]), "{}", row.name);
            for place in row.place.split(" and ") {
                let words = written(&workload, place);
                let expected = row.dimension.word(code);
                assert!(
                    !words.is_empty() && words.iter().all(|word| *word == expected),
                    "{place}: {words:?}, {expected}"
                );
            }
        }
    }
    assert!(plain >= 10, "most dimensions are plain");
}

#[test]
fn what_decides_about_flows_is_set_and_read() {
    for row in TABLE {
        if let Scope::Whole { get, set } = row.scope {
            for code in [1, 0, 1] {
                let mut workload = writes("[{op: WRITE, sge: [1KiB]}]");
                set(&mut workload, code);
                assert_eq!(get(&workload), code, "{}", row.name);
            }
        }
    }
}

#[test]
fn every_feature_stands_at_its_place_in_reports_and_once_in_the_walk() {
    for (index, feature) in Feature::ALL.into_iter().enumerate() {
        assert_eq!(feature as usize, index, "{feature}");
    }
    let walk: BTreeSet<u16> = Feature::ALL.iter().map(|feature| feature.described().walk).collect();
    assert_eq!(walk.len(), Feature::COUNT, "no two features share a place in the walk");
    assert_eq!(BTreeSet::from(Feature::WALK), BTreeSet::from(Feature::ALL));
    assert!(Feature::WALK.is_sorted_by_key(|feature| feature.described().walk));
}

#[test]
fn plain_values_are_values_of_their_features() {
    let full = super::full();
    for feature in Feature::ALL {
        let Some(plain) = feature.plain() else { continue };
        assert_eq!(plain.number().is_some(), feature.is_ordered(), "{feature}");
        assert!(full.feature_values(feature).contains(&plain), "{feature}: {plain}");
    }
}

#[test]
fn every_feature_has_one_name_in_json_in_yaml_and_in_words_and_one_phrase() {
    let mut said = BTreeSet::new();
    for feature in Feature::ALL {
        let name = feature.name();
        assert_eq!(serde_json::to_value(feature).expect("a word"), name);
        assert_eq!(name.parse::<Feature>().as_ref(), Ok(&feature));
        assert_eq!(feature.to_string(), name);
        let test = Test::Range { min: Some(3), max: None };
        let condition = Condition { feature, test };
        assert_eq!(serde_json::to_value(&condition).expect("plain data")["feature"], name);
        assert!(condition.to_string().starts_with(&format!("{name} ")), "{condition}");
        assert!(said.insert(name) && said.insert(feature.phrase()), "{name}: a second feature of this name or phrase");
    }
    // A feature that stands for its dimension alone has the key that a space file and a command line have for it.
    for row in TABLE {
        if let [feature] = row.features {
            assert_eq!(feature.name(), row.name);
        }
    }
}

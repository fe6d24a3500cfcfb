//! What an application can change: one feature or two of a workload, what follows from that, what it costs, in words.
//! Whether a change helps is for those to say who have measured.

use crate::dimensions::FeatureAdvice;
use crate::features::{Feature, FeatureValue};
use crate::space::Space;
use crate::workload::Workload;

/// What another word counts beside steps of a range. Source: our choice, because another transport, operation or memory
/// changes a program more than one size or depth does; four steps of a range are a factor of four.
const WORD_STEPS: usize = 4;

/// A workload changed by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManualChange {
    /// The features that are set, one or two.
    pub to: Vec<(Feature, FeatureValue)>,
    /// Other features that the rules of verbs move with them.
    pub others: Vec<Feature>,
    /// How much changes: steps of the features' values and what moves with them.
    pub cost: usize,
    /// In words.
    pub words: String,
    /// The workload after the change.
    pub workload: Workload,
}

/// Every change of one feature to another value of the space, the cheapest first.
pub fn changes(space: &Space, workload: &Workload) -> Vec<ManualChange> {
    every(space, workload, None)
}

/// Every change of one more feature after a first, the cheapest first. `workload` is as it was before both.
pub fn changes_after(space: &Space, workload: &Workload, first: &ManualChange) -> Vec<ManualChange> {
    every(space, workload, Some(first))
}

fn every(space: &Space, workload: &Workload, first: Option<&ManualChange>) -> Vec<ManualChange> {
    let from = first.map_or(workload, |first| &first.workload);
    let is_set = |feature: Feature| first.is_some_and(|first| first.to.iter().any(|(other, _)| *other == feature));
    let mut changes: Vec<ManualChange> = Vec::new();
    for feature in Feature::ALL.into_iter().filter(|feature| !is_set(*feature)) {
        let now = from.feature(feature);
        let values = space.feature_values(feature);
        for value in values.iter().filter(|value| **value != now) {
            let Some(next) = space.with_feature(from, feature, value) else { continue };
            let keeps_first =
                first.is_none_or(|first| first.to.iter().all(|(set, value)| next.feature(*set) == *value));
            if next == *from || !keeps_first || changes.iter().any(|other| other.workload == next) {
                continue;
            }
            let mut to = first.map_or_else(Vec::new, |first| first.to.clone());
            to.push((feature, value.clone()));
            let mut others = workload.differing(&next);
            others.retain(|other| to.iter().all(|(set, _)| set != other));
            let steps = match (now.number(), value.number()) {
                (Some(now), Some(then)) => steps_between(&values, now, then),
                _ => WORD_STEPS,
            };
            let first_steps = first.map_or(0, |first| first.cost - first.others.len());
            let this = words(feature, &now, value);
            changes.push(ManualChange {
                cost: first_steps + steps + others.len(),
                words: first.map_or_else(|| this.clone(), |first| format!("{} and {this}", first.words)),
                workload: next,
                to,
                others,
            });
        }
    }
    changes.sort_by_key(|change| change.cost);
    changes
}

fn steps_between(values: &[FeatureValue], now: u64, then: u64) -> usize {
    let (low, high) = (now.min(then), now.max(then));
    values.iter().filter_map(FeatureValue::number).filter(|number| low < *number && *number < high).count() + 1
}

/// What a change asks of a programmer.
fn words(feature: Feature, now: &FeatureValue, value: &FeatureValue) -> String {
    match feature.described().advice {
        FeatureAdvice::BoundOrNone { none, .. } if value.number() == Some(0) => none.to_owned(),
        FeatureAdvice::Bound(words) | FeatureAdvice::BoundOrNone { bound: words, .. } => {
            let bound = if value.number() < now.number() { "at most" } else { "at least" };
            let number = value.number().map_or_else(|| value.to_string(), |number| feature.written(number));
            let text = words.replace("{}", &format!("{bound} {number}"));
            if number == "1" { singular(&text) } else { text }
        }
        FeatureAdvice::Word(words) => words.replace("{}", &value.to_string()).replace("{now}", &now.to_string()),
        FeatureAdvice::Truth { on, off } => if value.to_string() == "true" { on } else { off }.to_owned(),
    }
}

/// What is counted behind a 1.
fn singular(text: &str) -> String {
    let nouns = ["MR", "QP", "request", "receive", "element"];
    nouns.iter().fold(text.to_owned(), |text, noun| text.replace(&format!(" 1 {noun}s"), &format!(" 1 {noun}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload_from_yaml;

    fn full() -> Space {
        Space::catalog("full").expect("in the catalog")
    }

    /// Batched READs of short lists in both directions: anomaly 4 of Collie.
    fn reads() -> Workload {
        let flow = |from: &str, to: &str| {
            format!(
                "  - {{from: {from}, to: {to}, qp_type: RC, qps: 80, mtu: 4096, wq_depth: {{send: 128, recv: 128}}, \
                 batch: {{send: 32, recv: 1}}, pattern: [{{op: READ, sge: [128, 128, 128, 128]}}], memory: \
                 {{from: {{device: \"dram:0\", mrs: 1, mr_size: 64KiB}}, \
                 to: {{device: \"dram:0\", mrs: 1, mr_size: 64KiB}}}}}}\n"
            )
        };
        let text = format!("kelpie: workload/1\nflows:\n{}{}", flow("a", "b"), flow("b", "a"));
        workload_from_yaml("test", &text).expect("valid")
    }

    #[test]
    fn every_feature_can_be_changed_and_the_cheapest_comes_first() {
        let (space, workload) = (full(), reads());
        let changes = changes(&space, &workload);
        let words: Vec<&str> = changes.iter().map(|change| change.words.as_str()).collect();
        for expected in [
            "post at most 24 requests per call",
            "post at least 48 requests per call",
            "use WRITE instead of READ",
            "use SEND instead of READ",
            "use at most 3 elements in a request",
            "use at most 1 element in a request",
            "send in one direction only",
        ] {
            assert!(words.contains(&expected), "{expected}: {words:?}");
        }
        for change in &changes {
            let [(feature, value)] = &change.to[..] else { panic!("{change:?}") };
            // A product comes out as near as it can.
            assert!(*feature == Feature::TotalMrs || change.workload.feature(*feature) == *value, "{change:?}");
            assert!(space.contains(&change.workload) && change.workload != workload, "{change:?}");
        }
        assert!(changes.windows(2).all(|pair| pair[0].cost <= pair[1].cost));
        let cost = |words: &str| changes.iter().find(|change| change.words == words).expect("one").cost;
        assert_eq!(cost("post at most 16 requests per call"), cost("post at most 24 requests per call") + 1);
    }

    #[test]
    fn nothing_at_all_is_said_as_such() {
        for feature in Feature::ALL {
            let is_counted = matches!(feature.described().advice, FeatureAdvice::BoundOrNone { .. });
            let space_allows_none = feature.described().plain.is_some_and(|plain| plain.starts_with('0'));
            assert_eq!(is_counted, space_allows_none, "{feature}");
        }
        let rate = Feature::QpsMadePerSec;
        for (value, expected) in
            [(0, "make no QPs while traffic runs"), (20, "make at most 20 QPs per second while traffic runs")]
        {
            assert_eq!(words(rate, &FeatureValue::Number(50), &FeatureValue::Number(value)), expected);
        }
    }

    #[test]
    fn a_second_change_keeps_the_first_and_costs_more() {
        let (space, workload) = (full(), reads());
        let first = changes(&space, &workload).into_iter().find(|change| change.words == "use WRITE instead of READ");
        let first = first.expect("one");
        let both = changes_after(&space, &workload, &first);
        assert!(both.iter().any(|change| change.words == "use WRITE instead of READ and send in one direction only"));
        for change in &both {
            assert_eq!((change.to.len(), &change.to[0]), (2, &first.to[0]), "{change:?}");
            assert_eq!(change.workload.feature(Feature::Opcode).to_string(), "WRITE", "{change:?}");
            assert!(change.others.iter().all(|other| change.to.iter().all(|(set, _)| set != other)), "{change:?}");
        }
    }
}

//! How far a workload is from a region, and which single change takes it out. The regions come from findings.

use crate::dimensions::Advice;
use crate::features::{Feature, FeatureValue};
use crate::region::{Condition, Region, Test};
use crate::space::Space;
use crate::workload::Workload;

/// What another word counts beside steps of a range. Source: our choice, because another transport, operation or memory
/// changes a program more than one size or depth does; four steps of a range are a factor of four.
const WORD_STEPS: usize = 4;

/// A condition that a workload does not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed<'r> {
    /// The condition.
    pub condition: &'r Condition,
    /// Values of the space from the workload's to the first that meets it; one for words. Shape: 1 or more.
    pub steps: usize,
}

/// The conditions of `region` that `workload` does not meet; none if it lies inside.
pub fn missed<'r>(space: &Space, workload: &Workload, region: &'r Region) -> Vec<Missed<'r>> {
    let steps = |condition: &Condition| match (&condition.test, workload.feature(condition.feature).number()) {
        (Test::Range { min, max }, Some(now)) => {
            let bound = if min.is_some_and(|min| now < min) { *min } else { *max };
            steps_between(space, condition.feature, now, bound.unwrap_or(now))
        }
        _ => 1,
    };
    region.missed(workload).map(|condition| Missed { condition, steps: steps(condition) }).collect()
}

/// One changed feature that takes a workload out of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayOut {
    /// The condition that the change breaks.
    pub condition: Condition,
    /// The new value of its feature.
    pub value: FeatureValue,
    /// The workload with that value.
    pub workload: Workload,
    /// Other features that the rules of verbs move with it.
    pub others: Vec<Feature>,
    /// Whether the changed workload is outside every known region.
    pub is_safe: bool,
    /// How much changes: steps of the feature's values and what moves with it.
    pub cost: usize,
    /// In words.
    pub words: String,
}

/// For each condition of `region` the cheapest changes that break it, safe and cheap ones first.
///
/// A bound is left by the nearest value of the space beyond it: the bound itself is the last that is known to be
/// anomalous, the value beyond it the first that is not. `is_known` says whether a workload lies in any region.
pub fn ways_out(
    space: &Space,
    workload: &Workload,
    region: &Region,
    is_known: impl Fn(&Workload) -> bool,
) -> Vec<WayOut> {
    let mut ways = Vec::new();
    for condition in &region.conditions {
        for values in outward(space, condition) {
            let candidates = values.iter().filter_map(|value| way(space, workload, condition, value, &is_known));
            let mut candidates = candidates.filter(|way| !region.contains(&way.workload)).peekable();
            let nearest = candidates.peek().cloned();
            ways.extend(candidates.find(|way| way.is_safe).or(nearest));
        }
    }
    ways.sort_by_key(|way| (!way.is_safe, way.cost));
    ways
}

/// The values that break a condition, in lists of which one is enough, each with the nearest first.
fn outward(space: &Space, condition: &Condition) -> Vec<Vec<FeatureValue>> {
    let mut values = space.feature_values(condition.feature);
    values.retain(|value| !condition.admits(value));
    if !condition.feature.is_ordered() {
        return values.into_iter().map(|value| vec![value]).collect();
    }
    let (mut below, above): (Vec<_>, Vec<_>) = values.into_iter().partition(|value| match condition.test {
        Test::Range { min: Some(min), .. } => value.number() < Some(min),
        _ => false,
    });
    below.reverse();
    vec![below, above]
}

fn way(
    space: &Space,
    workload: &Workload,
    condition: &Condition,
    value: &FeatureValue,
    is_known: impl Fn(&Workload) -> bool,
) -> Option<WayOut> {
    let feature = condition.feature;
    let now = workload.feature(feature);
    let changed = space.with_feature(workload, feature, value)?;
    let mut others = workload.differing(&changed);
    others.retain(|other| *other != feature);
    let steps = match (now.number(), value.number()) {
        (Some(now), Some(then)) => steps_between(space, feature, now, then),
        _ => WORD_STEPS,
    };
    Some(WayOut {
        condition: condition.clone(),
        value: value.clone(),
        is_safe: !is_known(&changed),
        cost: steps + others.len(),
        words: words(feature, &now, value),
        workload: changed,
        others,
    })
}

fn steps_between(space: &Space, feature: Feature, now: u64, then: u64) -> usize {
    let (low, high) = (now.min(then), now.max(then));
    let numbers = space.feature_values(feature).into_iter().filter_map(|value| value.number());
    numbers.filter(|number| low < *number && *number < high).count() + 1
}

/// What a change asks of a programmer.
fn words(feature: Feature, now: &FeatureValue, value: &FeatureValue) -> String {
    match feature.described().advice {
        Advice::Bound(words) => {
            let bound = if value.number() < now.number() { "at most" } else { "at least" };
            let number = value.number().map_or_else(|| value.to_string(), |number| feature.written(number));
            words.replace("{}", &format!("{bound} {number}"))
        }
        Advice::Word(words) => words.replace("{}", &value.to_string()).replace("{now}", &now.to_string()),
        Advice::Truth { on, off } => if value.to_string() == "true" { on } else { off }.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload_from_yaml;

    fn full() -> Space {
        Space::catalog("full").expect("in the catalog")
    }

    fn range(feature: Feature, min: Option<u64>, max: Option<u64>) -> Condition {
        Condition { feature, test: Test::Range { min, max } }
    }

    fn is(feature: Feature, word: &str) -> Condition {
        Condition { feature, test: Test::In(vec![word.to_owned()]) }
    }

    /// Batched READs of short lists in both directions: anomaly 4 of Collie.
    fn reads(batch: u32) -> Workload {
        let flow = |from: &str, to: &str| {
            format!(
                "  - {{from: {from}, to: {to}, qp_type: RC, qps: 80, mtu: 4096, wq_depth: {{send: 128, recv: 128}}, \
                 batch: {{send: {batch}, recv: 1}}, pattern: [{{op: READ, sge: [128, 128, 128, 128]}}], memory: \
                 {{from: {{device: \"dram:0\", mrs: 1, mr_size: 64KiB}}, \
                 to: {{device: \"dram:0\", mrs: 1, mr_size: 64KiB}}}}}}\n"
            )
        };
        let text = format!("kelpie: workload/1\nflows:\n{}{}", flow("a", "b"), flow("b", "a"));
        workload_from_yaml("test", &text).expect("valid")
    }

    fn anomaly_4() -> Region {
        Region {
            conditions: vec![
                is(Feature::Opcode, "READ"),
                range(Feature::SendBatch, Some(32), None),
                range(Feature::SgeCount, Some(4), None),
                range(Feature::TotalQps, Some(160), None),
                is(Feature::Bidirectional, "true"),
            ],
        }
    }

    #[test]
    fn every_condition_can_be_broken_and_the_cheapest_comes_first() {
        let region = anomaly_4();
        let ways = ways_out(&full(), &reads(32), &region, |workload| region.contains(workload));
        let words: Vec<&str> = ways.iter().map(|way| way.words.as_str()).collect();
        assert_eq!(words[0], "post at most 24 requests per call");
        for expected in [
            "use WRITE instead of READ",
            "use SEND instead of READ",
            "use at most 3 elements in a request",
            "use at most 128 QPs in all",
            "send in one direction only",
        ] {
            assert!(words.contains(&expected), "{words:?}");
        }
        for way in &ways {
            assert!(way.is_safe && !region.contains(&way.workload), "{way:?}");
            assert_eq!(way.workload.feature(way.condition.feature), way.value, "{way:?}");
        }
        assert!(ways.windows(2).all(|pair| pair[0].cost <= pair[1].cost));
    }

    #[test]
    fn a_way_into_another_region_goes_further_or_comes_last() {
        let region = anomaly_4();
        let small_batches = Region { conditions: vec![range(Feature::SendBatch, Some(8), Some(31))] };
        let writes = Region { conditions: vec![is(Feature::Opcode, "WRITE"), is(Feature::Opcode, "WRITE")] };
        let known = [region.clone(), small_batches, writes];
        let is_known = |workload: &Workload| known.iter().any(|region| region.contains(workload));
        let ways = ways_out(&full(), &reads(64), &region, is_known);
        let of = |feature: Feature| ways.iter().find(|way| way.condition.feature == feature).expect("one for each");
        assert_eq!(of(Feature::SendBatch).words, "post at most 6 requests per call");
        let last = ways.last().expect("some");
        assert_eq!((last.words.as_str(), last.is_safe), ("use WRITE instead of READ", false));
    }

    #[test]
    fn distance_counts_conditions_and_steps() {
        let region = anomaly_4();
        assert_eq!(missed(&full(), &reads(128), &region), []);
        let here = full()
            .with_feature(&reads(16), Feature::Bidirectional, &FeatureValue::Category("false".to_owned()))
            .expect("in the full space");
        let missed = missed(&full(), &here, &region);
        let seen: Vec<(Feature, usize)> =
            missed.iter().map(|missed| (missed.condition.feature, missed.steps)).collect();
        // From 16 over 24 to 32; from 80 over 96 and 128 beyond; a word.
        assert_eq!(seen, [(Feature::SendBatch, 2), (Feature::TotalQps, 3), (Feature::Bidirectional, 1)]);
    }
}

//! Whether a finding needs each of its conditions, by breaking them one at a time at its workload. It shares no code
//! with the search.

use std::collections::BTreeSet;

use anyhow::Context;
use kelpie_monitor::{Symptom, Verdict};
use kelpie_search::Finding;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Condition, Feature, FeatureValue, Space, Test, Workload};
use serde::{Deserialize, Serialize};

use super::shown::Shown;

/// How much farther than a bound a value is tried. Source: our choice, because a bound that holds only at its next
/// value is a quirk.
const FARTHER: u64 = 4;
/// Share of the lost throughput that has to be back if the symptom stays. Source: our choice, that of
/// `docs/explained/search.md`.
const BACK: f64 = 0.5;

/// A condition that was broken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    pub feature: Feature,
    /// Workloads with a verdict that break it alone: the next value, one four times as far, and plain traffic's.
    pub tried: u64,
    /// Those that are rid of the symptom, or of half of the loss.
    pub gone: u64,
}

impl Broken {
    /// Whether it is necessary: `None` if the rules do not let it be broken alone.
    pub fn is_necessary(&self) -> Option<bool> {
        (self.tried > 0).then_some(self.gone == self.tried)
    }
}

/// Breaks every condition of a finding.
///
/// # Errors
/// The subsystem could not be measured.
pub fn broken(
    space: &Space,
    subsystem: &mut SimSubsystem,
    finding: &Finding,
    measured: &(dyn Fn() + Sync),
) -> anyhow::Result<Vec<Broken>> {
    let loss = |shown: &Shown| match finding.symptom {
        Symptom::Pause => shown.seen.pause,
        _ => shown.seen.lost,
    };
    let own = loss(&Shown::measure(subsystem, &finding.workload).context("the workload of a finding")?);
    let mut all = Vec::new();
    for condition in &finding.mfs.conditions {
        let mut broken = Broken { feature: condition.feature, tried: 0, gone: 0 };
        for workload in ways(space, finding, condition) {
            let shown = Shown::measure(subsystem, &workload)?;
            measured();
            if shown.seen.assessment.verdict == Verdict::Inconclusive {
                continue;
            }
            let is_there = shown.seen.assessment.symptoms.contains(&finding.symptom);
            let is_gone = !is_there || loss(&shown) < (1.0 - BACK) * own;
            broken.tried += 1;
            broken.gone += u64::from(is_gone);
        }
        all.push(broken);
    }
    Ok(all)
}

/// The workload of a finding with one condition broken and all others kept.
fn ways(space: &Space, finding: &Finding, condition: &Condition) -> BTreeSet<Workload> {
    let values = space.feature_values(condition.feature);
    let plain = condition.feature.plain().filter(|plain| !condition.admits(plain));
    let mut chosen: Vec<FeatureValue> = plain.into_iter().collect();
    match condition.test {
        Test::Range { min, max } => {
            let numbers: BTreeSet<u64> = values.iter().filter_map(FeatureValue::number).collect();
            let below = |bound: u64| numbers.range(..bound).next_back();
            let above = |bound: u64| numbers.range(bound.saturating_add(1)..).next();
            let lower = min.into_iter().flat_map(|min| [below(min), below(min / FARTHER + 1)]);
            let upper =
                max.into_iter().flat_map(|max| [above(max), above(max.saturating_mul(FARTHER).saturating_sub(1))]);
            chosen.extend(lower.chain(upper).flatten().map(|number| FeatureValue::Number(*number)));
        }
        Test::In(_) => chosen.extend(values.into_iter().filter(|value| !condition.admits(value))),
    }
    let broken = |value: &FeatureValue| {
        let changed = space.with_feature(&finding.workload, condition.feature, value)?;
        let missed: Vec<Feature> = finding.mfs.missed(&changed).map(|condition| condition.feature).collect();
        (missed == [condition.feature]).then_some(changed)
    };
    chosen.iter().filter_map(broken).collect()
}

//! A finding: symptom, workload, region and the evidence for them. How it is made lives with each algorithm.

use std::collections::BTreeMap;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Condition, Feature, Region, Workload};
use serde::{Deserialize, Serialize};

/// An anomaly with the conditions that trigger it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The symptom; pause if both were seen.
    pub symptom: Symptom,
    /// Its witness, the simplest workload that shows it: what the symptom does not need is as in plain traffic.
    pub workload: Workload,
    /// The minimal feature set: what the witness needs to show it.
    pub mfs: Region,
    /// Number of the experiment that showed it first, from 1.
    pub found_at: u64,
    /// Experiments spent on its conditions.
    pub experiments_for_mfs: u64,
    /// Share of the workloads that meet the conditions and show this symptom, at least, with 95 % confidence, by random
    /// ones that were measured; 0 if none was.
    pub confidence: f64,
    /// What it rests on.
    pub evidence: FindingEvidence,
}

/// The confidence from which on a finding counts as refined: being inside is then enough.
///
/// Source: our choice; we admit 5 % healthy among the workloads called anomalous; a region of which 28 random
/// workloads were all anomalous has this confidence, and mostly holds fewer healthy ones than a tenth.
pub const REFINED: f64 = 0.91;

/// What a finding rests on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FindingEvidence {
    /// Every symptom of the workload.
    pub symptoms: Vec<Symptom>,
    /// Signals of the workload.
    pub signals: BTreeMap<String, f64>,
    /// Random workloads measured that meet the conditions.
    pub validated: u64,
    /// Those of them that show the symptom.
    #[serde(default)]
    pub shows_inside: u64,
    /// Those of them that were healthy.
    pub healthy_inside: u64,
    /// Whether all features are pinned to the workload's, because no single change cured it or because it was not
    /// reduced.
    pub narrowed: bool,
    /// What breaking each condition on the workload alone did.
    pub cures: Vec<Cure>,
    /// Transports and operations with which the workload was tried, its own first; none before its bounds are measured.
    #[serde(default)]
    pub transports: Vec<TriedTransport>,
    /// How far each counter falls at least, whichever condition is broken. Units: decades of its rate for each share of
    /// the bounds that is used.
    #[serde(default)]
    pub signature: BTreeMap<String, f64>,
    /// Whether its conditions are still to be measured: bounds are those of its workload, and some may not be
    /// necessary.
    #[serde(default)]
    pub is_candidate: bool,
    /// The finding of which it is a variant, by its number: one that shows the same under the same conditions.
    #[serde(default)]
    pub variant_of: Option<u64>,
}

/// One condition, and whether breaking it alone rids the workload of the symptom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cure {
    /// The condition.
    pub condition: Condition,
    /// Whether it does; `None` if it cannot be broken alone, or if that was not measured.
    pub cured: Option<bool>,
    /// For each bound that was measured the workload at it, which shows the symptom, and the next one, which does not.
    /// They differ in this feature, and in what the rules of workloads move with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sides: Vec<[Workload; 2]>,
}

/// A transport and operation, tried on the workload of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedTransport {
    /// Of the QPs, such as `RC`.
    pub qp_type: String,
    /// Of the requests, such as `SEND`.
    pub opcode: String,
    /// Whether the symptom shows.
    pub shows: bool,
}

impl TriedTransport {
    /// The features that say which transport and operation a workload uses.
    pub const FEATURES: [Feature; 2] = [Feature::QpType, Feature::Opcode];
}

/// Wilson's interval of a share, of `successes` out of `trials`, to this quantile of the normal distribution at each
/// end.
///
/// Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
pub fn wilson(successes: f64, trials: f64, quantile: f64) -> [f64; 2] {
    if trials == 0.0 {
        return [0.0, 1.0];
    }
    let (n, square) = (trials, quantile * quantile);
    let share = successes / n;
    let centre = share + square / (2.0 * n);
    let half = quantile * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
    [centre - half, centre + half].map(|end| (end / (1.0 + square / n)).clamp(0.0, 1.0))
}

/// Lower end of Wilson's one-sided 95 % interval.
pub(crate) fn wilson_lower_bound(successes: f64, trials: f64) -> f64 {
    wilson(successes, trials, 1.645)[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_wilsons() {
        let table =
            [(0.0, 0.0, 0.0), (45.0, 45.0, 0.9433), (10.0, 10.0, 0.7870), (8.0, 10.0, 0.5407), (0.0, 10.0, 0.0)];
        for (successes, trials, expected) in table {
            let bound = wilson_lower_bound(successes, trials);
            assert!((bound - expected).abs() < 1e-3, "{successes} of {trials}: {bound}");
        }
    }
}

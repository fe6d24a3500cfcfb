//! Scores as a document.

use serde_json::{Value, json};

use super::known::Known;
use super::record::Record;
use super::score::{Score, Spread};

/// Experiments after which scores are taken, besides the budget.
const MOMENTS: [u64; 3] = [100, 250, 500];

/// The experiments after which campaigns of this budget are scored.
pub fn moments(budget: u64) -> Vec<u64> {
    MOMENTS.into_iter().filter(|moment| *moment < budget).chain([budget]).collect()
}

/// Every score, every campaign behind it but for courses, and what is known.
pub fn document(space: &str, budget: u64, scores: &[Score], known: &[Known]) -> Value {
    let row = |score: &Score| {
        let after = |count: &dyn Fn(u64) -> Option<Spread>| -> Vec<Value> {
            let at = |moment| {
                count(moment)
                    .map(|spread| json!({"experiments": moment, "mean": spread.mean, "deviation": spread.deviation}))
            };
            moments(budget).into_iter().filter_map(at).collect()
        };
        let campaigns: Vec<Record> =
            score.records.iter().map(|record| Record { course: None, stored: Vec::new(), ..record.clone() }).collect();
        json!({
            "subsystem": score.subsystem, "algorithm": score.algorithm, "signal": score.signal,
            "found": after(&|moment| score.found(moment)), "touched": after(&|moment| score.touched(moment)),
            "known_share": after(&|moment| score.known_share(known, moment)),
            "to_found": score.to_found(), "to_touched": score.to_touched(), "witnesses": score.witnesses(), "findings": score.findings(),
            "purposes": score.purposes(), "quality": score.quality(), "campaigns": campaigns,
        })
    };
    json!({
        "space": space, "budget": budget, "known": known, "scores": scores.iter().map(row).collect::<Vec<_>>(),
    })
}

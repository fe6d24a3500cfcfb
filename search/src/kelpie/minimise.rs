//! From an anomaly to a finding: every feature that the symptom does not need goes back to plain.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, Space, Workload};

use super::Search;
use super::factors::{moved, plain};
use super::known::Known;
use super::reduce::reduce;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// Part of the lost throughput that has to stay. Source: our choice, because the witness should not lie on the border.
const KEPT_LOSS: f64 = 0.5;
/// Part of a raised counter that has to stay; below, another weakness shows. Source: our choice.
const KEPT_COUNTER: f64 = 0.1;

impl<O: Oracle> Search<'_, O> {
    /// The finding that the anomaly is, new or known.
    pub(super) fn minimise(&mut self, anomaly: &Workload, symptom: Symptom) -> Result<usize, O::Error> {
        let before = self.lab.experiments();
        let seen = self.lab.look(anomaly, Purpose::Mfs)?;
        let most_used = 1.0 - KEPT_LOSS * (1.0 - seen.utilisation());
        let key = self.lab.most_raised(&seen);
        let plain = plain(self.lab.space, anomaly);
        let mut hidden = Vec::new();
        let reduced = reduce(&mut self.lab, &mut self.needs, anomaly, &plain, |lab, workload| {
            let seen = lab.look(workload, Purpose::Mfs)?;
            let Outcome::Anomalous(shown) = seen.outcome else { return Ok(false) };
            let is_same = match &key {
                Some((name, value)) => seen.counter(name) >= KEPT_COUNTER * value,
                None => lab.most_raised(&seen).is_none(),
            };
            if shown != symptom || !is_same {
                hidden.push(workload.clone());
                return Ok(false);
            }
            Ok(symptom == Symptom::Pause || seen.utilisation() <= most_used)
        })?;
        self.leads.extend(hidden);
        let seen = self.lab.look(&reduced.workload, Purpose::Mfs)?;
        let spent = self.lab.experiments() - before;
        let factors = independent(self.lab.space, &reduced.workload, &plain, reduced.needed);
        let known = Known::new(symptom, reduced.workload, seen, plain, factors);
        let twin = self.findings.iter().position(|other| other.is_like(&known) && self.is_same(&other.seen, &known.seen));
        let index = match twin {
            Some(index) => {
                self.findings[index].visits += 1;
                for condition in &known.region.conditions {
                    let value = known.witness.feature(condition.feature);
                    self.findings[index].widen_to(condition.feature, &value);
                }
                index
            }
            None => {
                self.findings.push(known);
                self.findings.len() - 1
            }
        };
        self.findings[index].spent += spent;
        self.store(index)?;
        Ok(index)
    }
}

/// The factors without those that only follow others, as the smallest message follows the largest.
fn independent(space: &Space, witness: &Workload, plain: &Workload, mut factors: Vec<Feature>) -> Vec<Feature> {
    for feature in [Feature::SgeMin, Feature::MessageMin, Feature::MessageMax, Feature::MessageMix] {
        let others: Vec<Feature> = factors.iter().copied().filter(|other| *other != feature).collect();
        if others.len() < factors.len() && rebuilt(space, witness, plain, &others) == *witness {
            factors = others;
        }
    }
    factors
}

/// Plain traffic with these factors set as in the witness.
fn rebuilt(space: &Space, witness: &Workload, plain: &Workload, factors: &[Feature]) -> Workload {
    moved(space, plain, factors, witness).unwrap_or_else(|| plain.clone())
}

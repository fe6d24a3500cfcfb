//! From an anomaly to a finding: every feature that the symptom does not need goes back to plain.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, Space, Workload};

use super::Search;
use super::factors::{moved, plain};
use super::known::Known;
use super::lab::is_apart;
use super::reduce::reduce;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// Part of the lost throughput that has to stay. Source: our choice, because the witness should not lie on the border.
const KEPT_LOSS: f64 = 0.5;
/// Part of the lost throughput below which something else is gone as well. Source: our choice.
const OTHERS_LOSS: f64 = 0.8;

impl<O: Oracle> Search<'_, O> {
    /// The finding that the anomaly is, new or known; `None` if its simplified form was known beforehand.
    pub(super) fn minimise(&mut self, anomaly: &Workload, symptom: Symptom) -> Result<Option<usize>, O::Error> {
        let before = self.lab.experiments();
        let seen = self.lab.look(anomaly, Purpose::Mfs)?;
        let most_used = 1.0 - KEPT_LOSS * (1.0 - seen.utilisation());
        let key = self.unaccounted(anomaly, &seen);
        let loss = 1.0 - seen.utilisation();
        let plain = plain(self.lab.space, anomaly);
        let mut hidden = Vec::new();
        let reduced = reduce(&mut self.lab, &mut self.needs, anomaly, &plain, |lab, workload| {
            let seen = lab.look(workload, Purpose::Mfs)?;
            let Outcome::Anomalous(shown) = seen.outcome else { return Ok(false) };
            // A counter that falls silent while much of the loss goes belongs to another weakness than what is left.
            let is_silent = key.as_ref().is_some_and(|(name, rate)| is_apart(*rate, seen.counter(name)));
            let is_less = 1.0 - seen.utilisation() < OTHERS_LOSS * loss;
            if shown != symptom || (is_silent && is_less) {
                hidden.push(workload.clone());
                return Ok(false);
            }
            Ok(symptom != Symptom::LowThroughput || seen.utilisation() <= most_used)
        })?;
        self.leads.extend(hidden);
        let seen = self.lab.look(&reduced.workload, Purpose::Mfs)?;
        if self.avoided.iter().any(|region| region.contains(&reduced.workload)) {
            return Ok(None);
        }
        let factors = independent(self.lab.space, &reduced.workload, &plain, reduced.needed);
        let mut known = Known::new(symptom, reduced.workload, seen, plain, factors);
        self.combine(&mut known)?;
        self.come_nearer(&mut known)?;
        let twin = self.findings.iter().position(|other| other.is_like(&known) && other.seen.is_like(&known.seen));
        let index = twin.unwrap_or(self.findings.len());
        if let Some(twin) = self.findings.get_mut(index) {
            twin.visits += 1;
            for condition in &known.region.conditions {
                twin.widen_to(condition.feature, &known.witness.feature(condition.feature));
            }
        } else {
            self.findings.push(known);
        }
        self.findings[index].spent += self.lab.experiments() - before;
        self.store(index)?;
        Ok(Some(index))
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

//! From an anomaly to a finding: every feature that the symptom does not need goes back to plain.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, Space, Workload};
use rand::RngExt;

use super::Search;
use super::factors::{TRANSPORT, moved, plain};
use super::known::Known;
use super::lab::{Seen, is_apart};
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
        if let Some(index) = self.taken_for(anomaly, symptom, &seen) {
            let known = &mut self.findings[index];
            known.visits += 1;
            known.is_stale = true;
            return Ok(Some(index));
        }
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
            twin.take_in(&known.witness);
        } else {
            let is_alike = |other: &Known| other.symptom == symptom && other.seen.is_like(&known.seen);
            self.looks += u32::from(!self.findings.iter().any(is_alike));
            self.findings.push(known);
            self.read_region(index);
        }
        self.findings[index].spent += self.lab.experiments() - before;
        self.store(index)?;
        Ok(Some(index))
    }
}

impl<O: Oracle> Search<'_, O> {
    /// The latest finding of the same look, for which an anomaly is taken the more likely the more of them there are: each
    /// costs some ten experiments to tell apart, and few turn out to be another weakness.
    fn taken_for(&mut self, anomaly: &Workload, symptom: Symptom, seen: &Seen) -> Option<usize> {
        let transport = |workload: &Workload| TRANSPORT.map(|feature| workload.feature(feature));
        let is_alike = |known: &Known| {
            known.symptom == symptom && transport(&known.witness) == transport(anomaly) && known.seen.is_like(seen)
        };
        let alike: Vec<usize> = (0..self.findings.len()).filter(|index| is_alike(&self.findings[*index])).collect();
        let is_taken = self.lab.rng.random_range(0..=alike.len()) > 0;
        alike.last().copied().filter(|_| is_taken)
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

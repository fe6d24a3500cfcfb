//! From an anomaly to a finding: every feature that the symptom does not need goes back to plain.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, Space, Workload};

use super::Search;
use super::factors::{moved, plain};
use super::known::Known;
use super::lab::{Seen, is_apart, times};
use super::reduce::{Answer, reduce};
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
        let mut known = None;
        let findings = &self.findings;
        let reduced = reduce(&mut self.lab, &mut self.needs, anomaly, &plain, |lab, workload| {
            let seen = lab.look(workload, Purpose::Mfs)?;
            let Outcome::Anomalous(shown) = seen.outcome else { return Ok(Answer::Gone) };
            // A counter that falls silent while much of the loss goes belongs to another weakness than what is left.
            let is_silent = key.as_ref().is_some_and(|(name, rate)| is_apart(*rate, seen.counter(name)));
            let is_less = 1.0 - seen.utilisation() < OTHERS_LOSS * loss;
            if shown != symptom || (is_silent && is_less) {
                hidden.push((workload.clone(), shown, seen));
                return Ok(Answer::Gone);
            }
            if symptom == Symptom::LowThroughput && seen.utilisation() > most_used {
                return Ok(Answer::Gone);
            }
            known = findings.iter().position(|known| known.plausible(workload, symptom, &seen) >= 1.0);
            Ok(if known.is_some() { Answer::Enough } else { Answer::Holds })
        })?;
        for (workload, shown, seen) in hidden {
            self.touch(&workload, shown, &seen);
        }
        if let Some(index) = known {
            self.findings[index].spent += self.lab.experiments() - before;
            self.come_upon(index, &reduced.workload)?;
            return Ok(Some(index));
        }
        let seen = self.lab.look(&reduced.workload, Purpose::Mfs)?;
        if self.avoided.iter().any(|region| region.contains(&reduced.workload)) {
            return Ok(None);
        }
        let factors = independent(self.lab.space, &reduced.workload, &plain, reduced.needed);
        let known = Known::new(symptom, reduced.workload, seen, plain, factors);
        let twin = self.findings.iter().position(|other| other.is_like(&known) && other.seen.is_like(&known.seen));
        if let Some(twin) = twin {
            self.findings[twin].spent += self.lab.experiments() - before;
            self.come_upon(twin, &known.witness)?;
            return Ok(Some(twin));
        }
        let index = self.findings.len();
        self.findings.push(known);
        self.findings[index].spent = self.lab.experiments() - before;
        self.reconsider(index);
        self.store(index)?;
        Ok(Some(index))
    }

    /// The counter that is farthest above what all findings that may explain the anomaly show, with its rate.
    fn unaccounted(&self, anomaly: &Workload, seen: &Seen) -> Option<(String, f64)> {
        let fits: Vec<&Known> = self.findings.iter().filter(|known| known.level(anomaly) > 0.0).collect();
        let account = |name: &str| fits.iter().map(|known| known.seen.counter(name)).fold(0.0, f64::max);
        let excess = seen.counters().map(|(name, rate)| (name, rate, times(rate, account(name))));
        let (name, rate, _) =
            excess.filter(|(name, rate, _)| is_apart(*rate, account(name))).max_by(|a, b| a.2.total_cmp(&b.2))?;
        Some((name.to_owned(), rate))
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

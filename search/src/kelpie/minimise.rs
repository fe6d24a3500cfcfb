//! From an anomaly to a finding: every feature that the symptom does not need goes back to plain.

use std::rc::Rc;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, Space, Workload};

use super::Search;
use super::factors::{moved, plain};
use super::known::Known;
use super::lab::Seen;
use super::reduce::{Answer, reduce};
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// Part of the lost throughput that has to stay. Source: our choice, because the witness should not lie on the border.
pub(super) const KEPT_LOSS: f64 = 0.5;
/// Distance of one step from which on it may lead to another weakness, and what such a step gains at least. Units: of the
/// second, logarithm of the share of the bounds. Source: our choice; of 1,003 steps on model F and 688 on model H on which
/// the symptom stayed, 44 % and 56 % of those that are farther and gain as much led to another limiting part, and these
/// are 55 % and 61 % of all that did.
const ANOTHER: f64 = 2.0;
const GAINED: f64 = 0.1;

impl<O: Oracle> Search<'_, O> {
    /// The finding that the anomaly is, new or known; `None` if its simplified form was known beforehand.
    pub(super) fn minimise(&mut self, anomaly: &Workload, symptom: Symptom) -> Result<Option<usize>, O::Error> {
        let before = self.lab.experiments();
        let seen = self.lab.look(anomaly, Purpose::Mfs)?;
        let most_used = 1.0 - KEPT_LOSS * (1.0 - seen.utilisation());
        let plain = plain(self.lab.space, anomaly);
        let mut hidden = Vec::new();
        let mut known = None;
        let findings = &self.findings;
        let mut here = Rc::clone(&seen);
        let reduced = reduce(&mut self.lab, &mut self.needs, anomaly, &plain, |lab, workload| {
            let seen = lab.look(workload, Purpose::Mfs)?;
            let Outcome::Anomalous(shown) = seen.outcome else { return Ok(Answer::Gone) };
            if shown != symptom || is_another(&here, &seen) {
                hidden.push((workload.clone(), shown, seen));
                return Ok(Answer::Gone);
            }
            if symptom == Symptom::LowThroughput && seen.utilisation() > most_used {
                return Ok(Answer::Gone);
            }
            known = findings.iter().position(|known| known.plausible(workload, symptom, &seen) >= 1.0);
            here = seen;
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
        self.read_region(index);
        self.store(index)?;
        Ok(Some(index))
    }
}

/// Whether one step leads from a weakness to another one.
pub(super) fn is_another(from: &Seen, to: &Seen) -> bool {
    from.distance(to) > ANOTHER && to.used() - from.used() > GAINED
}

/// The factors without those that only follow others, as the smallest message follows the largest.
pub(super) fn independent(
    space: &Space,
    witness: &Workload,
    plain: &Workload,
    mut factors: Vec<Feature>,
) -> Vec<Feature> {
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

//! From an anomaly to a finding: every feature that the symptom does not need goes back to plain.

use std::rc::Rc;

use kelpie_monitor::Symptom;
use kelpie_spaces::Workload;

use super::Search;
use super::experiments::{is_another, keeps};
use super::factors::{independent, plain};
use super::open_finding::OpenFinding;
use super::reduce::{ReductionOutcome, reduce_and_trade};
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

impl<O: Oracle> Search<'_, O> {
    /// The finding that the anomaly is, new or known; `None` if its simplified form was known beforehand.
    pub(super) fn minimise(&mut self, anomaly: &Workload, symptom: Symptom) -> Result<Option<usize>, O::Error> {
        let before = self.lab.experiments();
        let begin = self.lab.look(anomaly, Purpose::Mfs)?;
        let plain = plain(self.lab.space, anomaly);
        let mut hidden = Vec::new();
        let mut known = None;
        let findings = &self.findings;
        let mut here = Rc::clone(&begin);
        let reduced = reduce_and_trade(&mut self.lab, &mut self.needs, anomaly, &plain, |lab, workload| {
            let seen = lab.look(workload, Purpose::Mfs)?;
            let Outcome::Anomalous(shown) = seen.outcome else { return Ok(ReductionOutcome::Gone) };
            if shown != symptom || is_another(&here, &seen) {
                hidden.push((workload.clone(), shown, seen));
                return Ok(ReductionOutcome::Gone);
            }
            if !keeps(symptom, &begin, &seen) {
                return Ok(ReductionOutcome::Gone);
            }
            known = findings.iter().position(|known| known.plausible(workload, symptom, &seen) >= 1.0);
            here = seen;
            Ok(if known.is_some() { ReductionOutcome::Enough } else { ReductionOutcome::Holds })
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
        let known = OpenFinding::new(symptom, reduced.workload, seen, plain, factors);
        let twin = self.findings.iter().position(|other| {
            other.says_as_much_as(&known) || other.is_like(&known) && other.seen.is_like(&known.seen)
        });
        if let Some(twin) = twin {
            self.findings[twin].spent += self.lab.experiments() - before;
            self.come_upon(twin, &known.witness)?;
            return Ok(Some(twin));
        }
        let index = self.findings.len();
        self.findings.push(known);
        self.findings[index].spent = self.lab.experiments() - before;
        self.simplify_by_what_is_known(index);
        self.reconsider(index);
        self.fold()?;
        self.store(index)?;
        Ok(Some(index))
    }
}

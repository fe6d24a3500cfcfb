//! Is an anomaly that of a known finding? Its factors alone, at the anomaly's levels, answer with one experiment.

use kelpie_spaces::Workload;

use super::Search;
use super::experiments::keeps;
use super::factors::{moved, plain, projected};
use super::signature::Signature;
use super::touched_anomalies::TouchedAnomaly;
use crate::oracle::{Oracle, Purpose};

/// Plausibility from which on a finding is asked. Source: our choice, because asking costs one experiment and
/// minimising some seven.
const ASKED: f64 = 0.8;

impl<O: Oracle> Search<'_, O> {
    /// The finding that explains the anomaly.
    pub(super) fn explain(&mut self, touched: &TouchedAnomaly) -> Result<Option<usize>, O::Error> {
        let TouchedAnomaly { workload, symptom, seen, .. } = touched;
        let best = self.most_plausible(workload, *symptom, seen).filter(|(known, _)| *known >= ASKED);
        let Some((_, index)) = best else { return Ok(None) };
        let plain = plain(self.lab.space, workload);
        let alone = projected(self.lab.space, workload, &plain, &self.findings[index].factors);
        let before = self.lab.experiments();
        let seen = self.lab.look(&alone, Purpose::Explain)?;
        self.findings[index].spent += self.lab.experiments() - before;
        if !self.findings[index].shows(&seen) {
            return Ok(None);
        }
        if !self.findings[index].seen.is_like(&seen) {
            // Another weakness needs no more than these factors.
            return self.minimise(&alone, *symptom);
        }
        self.come_upon(index, &alone)?;
        Ok(Some(index))
    }

    /// Whether the anomaly is a known weakness beside stresses that it does not need: without any factor of a finding
    /// it is gone, and the same counters fall. What shows without one of them waits, because it is another anomaly.
    pub(super) fn recognise(&mut self, touched: &TouchedAnomaly) -> Result<bool, O::Error> {
        let TouchedAnomaly { workload, symptom, seen, .. } = touched;
        let is_candidate = |index: &usize| {
            let known = &self.findings[*index];
            known.variant_of.is_none()
                && known.covers(*symptom, workload)
                && self.signature(known).is_in(&known.seen, seen)
        };
        let most_needed = |index: &usize| self.findings[*index].factors.len();
        let Some(index) = (0..self.findings.len()).filter(is_candidate).max_by_key(most_needed) else {
            return Ok(false);
        };
        let plain = plain(self.lab.space, workload);
        let before = self.lab.experiments();
        let mut signature = Signature::default();
        for factor in self.findings[index].factors.clone() {
            let Some(without) = moved(self.lab.space, workload, &[factor], &plain) else { continue };
            let cured = self.lab.look(&without, Purpose::Mfs)?;
            if keeps(*symptom, seen, &cured) {
                self.touch(&without, *symptom, &cured);
                return Ok(false);
            }
            signature.add(seen, &cured);
        }
        self.findings[index].spent += self.lab.experiments() - before;
        if !signature.agrees(&self.signature(&self.findings[index])) {
            return Ok(false);
        }
        self.come_upon(index, workload)?;
        Ok(true)
    }

    /// Takes in an anomaly that a finding explains.
    pub(super) fn come_upon(&mut self, index: usize, anomaly: &Workload) -> Result<(), O::Error> {
        self.findings[index].visits += 1;
        self.findings[index].take_in(anomaly);
        self.store(index)
    }
}

//! Is an anomaly that of a known finding? Its factors alone, at the anomaly's levels, answer with one experiment.

use kelpie_spaces::Workload;

use super::Search;
use super::factors::{plain, projected};
use super::touched::Touched;
use crate::oracle::{Oracle, Purpose};

/// Plausibility from which on a finding is asked. Source: our choice, because asking costs one experiment and minimising
/// some seven.
const ASKED: f64 = 0.8;

impl<O: Oracle> Search<'_, O> {
    /// The finding that explains the anomaly.
    pub(super) fn explain(&mut self, touched: &Touched) -> Result<Option<usize>, O::Error> {
        let Touched { workload, symptom, seen, .. } = touched;
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

    /// Takes in an anomaly that a finding explains.
    pub(super) fn come_upon(&mut self, index: usize, anomaly: &Workload) -> Result<(), O::Error> {
        self.findings[index].visits += 1;
        self.findings[index].take_in(anomaly);
        self.store(index)
    }
}

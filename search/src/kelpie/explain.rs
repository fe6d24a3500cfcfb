//! Is an anomaly that of a known finding? Its factors alone, at the anomaly's levels, answer with one experiment.

use kelpie_monitor::Symptom;
use kelpie_spaces::Workload;

use super::Search;
use super::factors::{TRANSPORT, plain, projected};
use super::lab::Seen;
use crate::oracle::{Oracle, Purpose};

/// Findings that are tried for one anomaly. Source: our choice.
const MOST_TRIED: usize = 4;

impl<O: Oracle> Search<'_, O> {
    /// The finding that explains the anomaly; its region is wider afterwards.
    pub(super) fn explain(&mut self, workload: &Workload, symptom: Symptom) -> Result<Option<usize>, O::Error> {
        let mut fits: Vec<usize> = (0..self.findings.len())
            .filter(|index| self.findings[*index].symptom == symptom && self.findings[*index].may_explain(workload))
            .collect();
        let differs = |index: &usize| {
            let witness = &self.findings[*index].witness;
            TRANSPORT.iter().any(|feature| witness.feature(*feature) != workload.feature(*feature))
        };
        // Those of the same transport first; of these what asks for most.
        fits.sort_by_key(|index| (differs(index), usize::MAX - self.findings[*index].factors.len()));
        for index in fits.into_iter().take(MOST_TRIED) {
            let plain = plain(self.lab.space, workload);
            let factors = &self.findings[index].factors;
            let alone = projected(self.lab.space, workload, &plain, factors);
            let before = self.lab.experiments();
            let seen = self.lab.look(&alone, Purpose::Mfs)?;
            self.findings[index].spent += self.lab.experiments() - before;
            if self.findings[index].shows(&seen) {
                if !self.is_same(&self.findings[index].seen, &seen) {
                    // Another weakness needs no more than these factors.
                    return self.minimise(&alone, symptom).map(Some);
                }
                let known = &mut self.findings[index];
                known.visits += 1;
                for feature in known.factors.clone().into_iter().chain(TRANSPORT) {
                    known.widen_to(feature, &alone.feature(feature));
                }
                self.store(index)?;
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Whether the same counter stands out in both.
    pub(super) fn is_same(&self, one: &Seen, other: &Seen) -> bool {
        let most = |seen| self.lab.most_raised(seen).map(|(name, _)| name);
        most(one) == most(other)
    }
}

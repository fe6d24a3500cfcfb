//! Is an anomaly that of a known finding? Its factors alone, at the anomaly's levels, answer with one experiment.

use kelpie_monitor::Symptom;
use kelpie_spaces::Workload;

use super::Search;
use super::factors::{plain, projected};
use super::known::Known;
use super::lab::{Seen, is_apart, times};
use crate::oracle::{Oracle, Purpose};

/// Findings that are tried for one anomaly. Source: our choice.
const MOST_TRIED: usize = 2;

impl<O: Oracle> Search<'_, O> {
    /// The finding that explains the anomaly; its region is wider afterwards.
    pub(super) fn explain(&mut self, workload: &Workload, symptom: Symptom) -> Result<Option<usize>, O::Error> {
        let mut fits: Vec<usize> = (0..self.findings.len())
            .filter(|index| self.findings[*index].symptom == symptom && self.findings[*index].may_explain(workload))
            .collect();
        // Those that explained most of what they were tried for come first.
        fits.sort_by(|a, b| self.findings[*b].success().total_cmp(&self.findings[*a].success()));
        for index in fits.into_iter().take(MOST_TRIED) {
            let plain = plain(self.lab.space, workload);
            let factors = &self.findings[index].factors;
            let alone = projected(self.lab.space, workload, &plain, factors);
            let before = self.lab.experiments();
            let seen = self.lab.look(&alone, Purpose::Mfs)?;
            self.findings[index].spent += self.lab.experiments() - before;
            self.findings[index].tries += 1;
            if self.findings[index].shows(&seen) {
                if !self.findings[index].seen.is_like(&seen) {
                    // Another weakness needs no more than these factors.
                    return self.minimise(&alone, symptom);
                }
                let known = &mut self.findings[index];
                known.visits += 1;
                known.explained += 1;
                known.take_in(&alone);
                self.store(index)?;
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The counter that is farthest above what all findings that may explain the anomaly show, with its rate.
    pub(super) fn unaccounted(&self, anomaly: &Workload, seen: &Seen) -> Option<(String, f64)> {
        let fits: Vec<&Known> = self.findings.iter().filter(|known| known.may_explain(anomaly)).collect();
        let account = |name: &str| fits.iter().map(|known| known.seen.counter(name)).fold(0.0, f64::max);
        let excess = seen.counters().map(|(name, rate)| (name, rate, times(rate, account(name))));
        let (name, rate, _) =
            excess.filter(|(name, rate, _)| is_apart(*rate, account(name))).max_by(|a, b| a.2.total_cmp(&b.2))?;
        Some((name.to_owned(), rate))
    }
}

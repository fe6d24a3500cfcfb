//! What else is behind a known weakness: the workload without one of the weakness's factors.

use kelpie_spaces::{Feature, FeatureValue, Workload};
use rand::seq::SliceRandom;

use super::Search;
use super::factors::{TRANSPORT, moved, plain};
use crate::oracle::Oracle;

impl<O: Oracle> Search<'_, O> {
    /// Follows the anomaly without one factor of the finding that explains it; in all ways if it shows more than the
    /// finding does.
    pub(super) fn relieve(&mut self, workload: &Workload, index: usize) {
        let plain = plain(self.lab.space, workload);
        let known = &self.findings[index];
        let mut factors: Vec<Feature> = known.factors.clone();
        factors.extend(TRANSPORT);
        factors.shuffle(&mut self.lab.rng);
        let mut ways: Vec<Workload> =
            factors.iter().filter_map(|factor| moved(self.lab.space, workload, &[*factor], &plain)).collect();
        ways.retain(|way| self.lab.recall(way).is_none());
        // What the fewest findings may explain comes first.
        ways.sort_by_key(|way| self.findings.iter().filter(|known| known.may_explain(way)).count());
        let seen = self.lab.recall(workload);
        let is_accounted_for = seen.is_none_or(|seen| self.unaccounted(workload, seen).is_none());
        if is_accounted_for {
            ways.truncate(1);
        }
        ways.reverse();
        self.leads.extend(ways);
    }

    /// Follows an inconclusive workload without one of its stresses.
    pub(super) fn calm(&mut self, workload: &Workload) {
        let one_way = FeatureValue::Category("false".to_owned());
        let calmer = self.lab.space.with_feature(workload, Feature::Bidirectional, &one_way);
        self.leads.extend(calmer.filter(|calmer| calmer != workload));
    }
}

//! What else is behind a known weakness: the workload without one of the weakness's factors.

use kelpie_spaces::{Feature, FeatureValue, Workload};

use super::Search;
use super::factors::{moved, plain};
use super::touched_anomalies::TouchedAnomaly;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

impl<O: Oracle> Search<'_, O> {
    /// Looks at an anomaly without a factor of what explains it plausibly; says whether something new is there.
    pub(super) fn relieve(&mut self, touched: &TouchedAnomaly) -> Result<bool, O::Error> {
        let TouchedAnomaly { workload, symptom, seen, .. } = touched;
        let Some((_, index)) = self.most_plausible(workload, *symptom, seen) else { return Ok(false) };
        let plain = plain(self.lab.space, workload);
        let factors = &self.findings[index].factors;
        let mut ways: Vec<Workload> =
            factors.iter().filter_map(|factor| moved(self.lab.space, workload, &[*factor], &plain)).collect();
        ways.retain(|way| self.lab.recall(way).is_none());
        // What the fewest findings may explain comes first.
        ways.sort_by_key(|way| self.findings.iter().filter(|known| known.level(way) > 0.0).count());
        let Some(way) = ways.first() else { return Ok(false) };
        self.follow(way, Purpose::Relieve)
    }

    /// Looks at an inconclusive workload without one of its stresses.
    pub(super) fn calm(&mut self, workload: &Workload) -> Result<bool, O::Error> {
        let one_way = FeatureValue::Category("false".to_owned());
        let calmer = self.lab.space.with_feature(workload, Feature::Bidirectional, &one_way);
        let Some(calmer) = calmer.filter(|calmer| calmer != workload) else { return Ok(false) };
        let seen = self.lab.look(&calmer, Purpose::Relieve)?;
        let Outcome::Anomalous(symptom) = seen.outcome else { return Ok(false) };
        Ok(self.touch(&calmer, symptom, &seen))
    }
}

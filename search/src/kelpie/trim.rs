//! What random points and trees say against a region: healthy points are cut off it, one bound each.

use std::cmp::Reverse;

use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Space, Test, Workload};

use super::Search;
use super::drawn::words;
use super::region::anomalies;
use crate::oracle::Oracle;

impl<O: Oracle> Search<'_, O> {
    /// Cuts healthy points off a region, random ones first, until few of its points are healthy as far as one can say.
    pub(super) fn trim(&mut self, index: usize) {
        if !self.findings[index].is_impure() {
            return;
        }
        let evidence = self.evidence();
        let (mut measured, mut rng) = (self.lab.outcomes(), self.lab.rng.clone());
        measured.retain(|(point, _)| self.findings[index].contains(point));
        while self.findings[index].is_impure() {
            let known = &self.findings[index];
            let is_healthy = |(point, is_anomalous): &&(&Workload, bool)| !is_anomalous && known.contains(point);
            let other = || measured.iter().find(is_healthy).map(|(point, _)| *point);
            let Some(healthy) = known.healthy().or_else(other) else { break };
            let Some(region) = without(self.lab.space, &known.region, healthy, &known.witness, &measured) else {
                break;
            };
            let believed = evidence.as_ref().and_then(|evidence| evidence.of(&region, &measured, &mut rng));
            self.findings[index].become_region(region, believed);
        }
        self.lab.rng = rng;
    }
}

/// The region without a healthy point of it: of the bounds that leave the point out the one that keeps most measured
/// anomalies, and of those the fewest healthy workloads. `None` if the witness is no different.
fn without(
    space: &Space,
    region: &Region,
    healthy: &Workload,
    witness: &Workload,
    measured: &[(&Workload, bool)],
) -> Option<Region> {
    let inside = anomalies(region, measured, witness);
    let bounded = |feature: Feature| {
        let old = region.condition(feature);
        let test = match (healthy.feature(feature), witness.feature(feature)) {
            (healthy, witness) if healthy == witness => return None,
            (FeatureValue::Number(healthy), FeatureValue::Number(witness)) => {
                let values = inside.iter().filter_map(|workload| workload.feature(feature).number());
                let (min, max) = match old.map(|old| &old.test) {
                    Some(Test::Range { min, max }) => (*min, *max),
                    _ => (None, None),
                };
                if healthy > witness {
                    Test::Range { min, max: values.filter(|value| *value < healthy).max() }
                } else {
                    Test::Range { min: values.filter(|value| *value > healthy).min(), max }
                }
            }
            (healthy, _) => {
                let words = words(space, feature, inside.iter().copied()).into_iter().filter(|word| *word != healthy);
                let is_old = |word: &FeatureValue| old.is_none_or(|old| old.admits(word));
                Test::In(words.filter(is_old).filter_map(FeatureValue::into_word).collect())
            }
        };
        let mut narrower = region.clone();
        narrower.set(Condition { feature, test });
        Some(narrower)
    };
    let kept = |narrower: &Region| {
        let of =
            |kind: bool| measured.iter().filter(|(workload, is)| *is == kind && narrower.contains(workload)).count();
        (of(true), Reverse(of(false)))
    };
    Feature::ALL.into_iter().filter_map(bounded).max_by_key(kept)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::*;
    use crate::closed_form::at_least;

    #[test]
    fn a_healthy_point_is_cut_off_and_most_anomalies_stay() {
        let space = Space::catalog("full").expect("in the catalog");
        let mut rng = Pcg64::seed_from_u64(1);
        let points: Vec<Workload> = (0..300).map(|_| space.sample(&mut rng)).collect();
        let many = at_least(Feature::TotalQps, 256);
        let measured: Vec<(&Workload, bool)> = points.iter().map(|point| (point, many.holds(point))).collect();
        let region = Region { conditions: vec![at_least(Feature::TotalQps, 16)] };
        let anomalous = || measured.iter().filter(|(_, is_anomalous)| *is_anomalous).map(|(point, _)| *point);
        let witness = anomalous().next().expect("some are anomalous");
        let inside = measured.iter().filter(|(point, is_anomalous)| !is_anomalous && region.contains(point));
        let mut lossless = 0;
        for (healthy, _) in inside {
            let narrower = without(&space, &region, healthy, witness, &measured).expect("they differ");
            assert!(narrower.contains(witness) && !narrower.contains(healthy), "{narrower}");
            assert!(points.iter().all(|point| region.contains(point) || !narrower.contains(point)), "{narrower}");
            let kept = anomalous().filter(|point| narrower.contains(point)).count();
            lossless += u32::from(kept == anomalous().count());
        }
        assert!(lossless > 20, "a bound of the QPs loses no anomaly: {lossless}");
        assert_eq!(without(&space, &region, witness, witness, &measured), None);
    }
}

//! From the anchor to a healthy point, one feature after the other, and which feature is to blame.

use kelpie_spaces::{Feature, FeatureValue, Region, Space, Workload};

use super::Builder;
use crate::oracle::Oracle;

/// Workloads from `anchor` to `healthy`, each a feature nearer to it and all inside `region`.
///
/// A step that leaves the region on the way (total QPs follow QPs) is one with the next.
pub(super) fn path(space: &Space, region: &Region, anchor: &Workload, healthy: &Workload) -> Vec<Workload> {
    let mut stops = vec![anchor.clone()];
    let mut here = anchor.clone();
    for feature in Feature::WALK {
        let target = healthy.feature(feature);
        if here.feature(feature) == target {
            continue;
        }
        let Some(next) = space.with_feature(&here, feature, &target) else { continue };
        here = next;
        if region.contains(&here) && stops.last() != Some(&here) {
            stops.push(here.clone());
        }
    }
    if stops.last() != Some(healthy) {
        stops.push(healthy.clone());
    }
    stops
}

/// `lost` with one feature as in `shown`; a product that comes out short of it, beyond it.
fn restored(space: &Space, shown: &Workload, lost: &Workload, feature: Feature) -> Option<Workload> {
    let target = shown.feature(feature);
    let restored = space.with_feature(lost, feature, &target)?;
    match (target.number(), restored.feature(feature).number()) {
        (Some(target), Some(reached)) if reached < target => {
            space.with_feature(lost, feature, &FeatureValue::Number(target.saturating_mul(2))).or(Some(restored))
        }
        _ => Some(restored),
    }
}

impl<O: Oracle> Builder<'_, '_, O> {
    /// Two neighbours on the way from the anchor to `healthy`: the symptom is there, and it is not.
    pub(super) fn border(&mut self, healthy: &Workload) -> Result<(Workload, Workload), O::Error> {
        let stops = path(self.search.space, &self.conditions.region(), self.anchor, healthy);
        let (mut shown, mut lost) = (0, stops.len() - 1);
        while lost - shown > 1 {
            let middle = usize::midpoint(shown, lost);
            if self.shows(&stops[middle])? {
                shown = middle;
            } else {
                lost = middle;
            }
        }
        Ok((stops[shown].clone(), stops[lost].clone()))
    }

    /// Of the features that differ between the neighbours, one that brings the symptom back on its own, else the first
    /// of the walk.
    pub(super) fn blame(&mut self, shown: &Workload, lost: &Workload) -> Result<Option<Feature>, O::Error> {
        let differing = shown.differing(lost);
        let candidates: Vec<Feature> =
            Feature::WALK.into_iter().rev().filter(|feature| differing.contains(feature)).collect();
        if candidates.len() < 2 {
            return Ok(candidates.first().copied());
        }
        let mut whole = None;
        let mut tried = 0;
        for feature in &candidates {
            let Some(restored) = restored(self.search.space, shown, lost, *feature) else { continue };
            if restored == *shown {
                whole = Some(*feature);
            } else if tried < self.tuning().restorations && restored != *lost {
                tried += 1;
                if self.shows(&restored)? {
                    return Ok(Some(*feature));
                }
            }
        }
        // Else the first of the walk, which most often is the one that was changed.
        Ok(whole.or(candidates.last().copied()))
    }
}

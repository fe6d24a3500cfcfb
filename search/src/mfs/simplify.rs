//! From an anomaly to a simpler one: every feature that the symptom does not need takes its plain value.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, FeatureValue, Region, Space, Workload};

use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};
use crate::search_state::SearchState;
use crate::signals::UTILISATION;

/// The plain workload of a space, from any workload of it: each feature as near to its plain value as the space admits.
pub(super) fn plain_from(space: &Space, mut workload: Workload) -> Workload {
    let wanted: Vec<(Feature, FeatureValue)> = plain_values(space).collect();
    // Who sends datagrams is not helped by what a connection shows.
    let datagrams = workload.feature(Feature::QpType) == FeatureValue::Category("UD".to_owned());
    // Twice, because rules that tie features together may hold the first ones back.
    for (feature, value) in
        wanted.iter().chain(&wanted).filter(|(feature, _)| !datagrams || *feature != Feature::QpType)
    {
        workload = space.with_feature(&workload, *feature, value).unwrap_or(workload);
    }
    workload
}

/// Against the walk, so that what others depend on comes first.
fn plain_values(space: &Space) -> impl Iterator<Item = (Feature, FeatureValue)> {
    Feature::WALK.into_iter().rev().filter_map(|feature| {
        let plain = feature.plain()?;
        let Some(wanted) = plain.number() else { return Some((feature, plain)) };
        let values = space.feature_values(feature).into_iter().filter_map(|value| value.number());
        Some((feature, FeatureValue::Number(values.min_by_key(|value| value.abs_diff(wanted))?)))
    })
}

/// A healthy workload to simplify towards: the plain one, else the healthy point that was seen nearest to it.
fn plain<O: Oracle>(search: &mut SearchState<'_, O>, anchor: &Workload) -> Result<Option<Workload>, O::Error> {
    let plain = plain_from(search.space, anchor.clone());
    if search.outcome(&plain, Purpose::Mfs)? == Outcome::Healthy {
        return Ok(Some(plain));
    }
    Ok(search.history.nearest_healthy(&Region::default(), &plain, &[]))
}

/// The anomaly with as many features as in a plain workload as keep `symptom`.
pub(super) fn simplify<O: Oracle>(
    search: &mut SearchState<'_, O>,
    anchor: &Workload,
    symptom: Symptom,
) -> Result<Workload, O::Error> {
    let Some(plain) = plain(search, anchor)? else { return Ok(anchor.clone()) };
    let mut here = anchor.clone();
    // Some of what the anomaly costs has to stay, or its border would be the anchor.
    let loss = search.config.tuning.reduction.loss;
    let weakest = loss + (1.0 - loss) * utilisation(search, anchor);
    for feature in Feature::WALK {
        let Some(simpler) = towards(search.space, &here, &plain, feature) else { continue };
        let outcome = search.outcome(&simpler, Purpose::Mfs)?;
        if outcome == Outcome::Anomalous(symptom) && utilisation(search, &simpler) <= weakest {
            here = simpler;
        }
    }
    Ok(here)
}

/// The performance signal of an anomaly; 1 if it is not known.
fn utilisation<O: Oracle>(search: &SearchState<'_, O>, workload: &Workload) -> f64 {
    search.sightings.of(workload).and_then(|seen| seen.signals.get(UTILISATION)).copied().unwrap_or(1.0)
}

/// `here` with this feature as in `plain`, unless that would move others away from it.
fn towards(space: &Space, here: &Workload, plain: &Workload, feature: Feature) -> Option<Workload> {
    let target = plain.feature(feature);
    if matches!(feature, Feature::TotalQps | Feature::TotalMrs) || here.feature(feature) == target {
        return None;
    }
    let simpler = space.with_feature(here, feature, &target)?;
    (simpler != *here && simpler.differing(plain).len() <= here.differing(plain).len()).then_some(simpler)
}

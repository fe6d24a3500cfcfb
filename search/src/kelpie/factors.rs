//! Factors: the features in which a workload differs from plain traffic of its transport.

use kelpie_spaces::{Feature, FeatureValue, Space, Workload};

use crate::finding::TriedTransport;

/// The features that may be factors: those that have a plain value, without the transport, which plain traffic keeps.
pub(super) fn candidates() -> impl DoubleEndedIterator<Item = Feature> {
    Feature::WALK.into_iter().filter(|feature| feature.plain().is_some() && !TriedTransport::FEATURES.contains(feature))
}

/// Plain traffic of the transport of `workload`: each feature as near to its plain value as the space admits.
pub(super) fn plain(space: &Space, workload: &Workload) -> Workload {
    let mut plain = workload.clone();
    // Against the walk, so that what others depend on comes first; twice, because rules that tie features together may
    // hold the first ones back.
    for feature in candidates().rev().chain(candidates().rev()) {
        if let Some(nearer) = nearest_to_plain(space, &plain, feature) {
            plain = nearer;
        }
    }
    plain
}

fn nearest_to_plain(space: &Space, workload: &Workload, feature: Feature) -> Option<Workload> {
    let wanted = feature.plain()?;
    if workload.feature(feature) == wanted {
        return None;
    }
    let Some(wanted) = wanted.number() else { return space.with_feature(workload, feature, &wanted) };
    let now = workload.feature(feature).number()?;
    let mut values: Vec<u64> = space.feature_values(feature).iter().filter_map(FeatureValue::number).collect();
    values.retain(|value| value.abs_diff(wanted) < now.abs_diff(wanted));
    values.sort_by_key(|value| value.abs_diff(wanted));
    values.into_iter().find_map(|value| space.with_feature(workload, feature, &FeatureValue::Number(value)))
}

/// The candidates in which two workloads differ.
pub(super) fn differing(one: &Workload, other: &Workload) -> Vec<Feature> {
    candidates().filter(|feature| one.feature(*feature) != other.feature(*feature)).collect()
}

/// `workload` with these features as in `target`, as far as the rules allow; `None` if nothing comes nearer.
pub(super) fn moved(space: &Space, workload: &Workload, features: &[Feature], target: &Workload) -> Option<Workload> {
    let before = differing(workload, target).len();
    let mut here = workload.clone();
    for feature in features {
        let value = target.feature(*feature);
        if here.feature(*feature) != value
            && let Some(next) = space.with_feature(&here, *feature, &value)
        {
            here = next;
        }
    }
    (differing(&here, target).len() < before).then_some(here)
}

/// Plain traffic with only these features as in `workload`.
pub(super) fn projected(space: &Space, workload: &Workload, plain: &Workload, factors: &[Feature]) -> Workload {
    let others: Vec<Feature> =
        differing(workload, plain).into_iter().filter(|feature| !factors.contains(feature)).collect();
    moved(space, workload, &others, plain).unwrap_or_else(|| workload.clone())
}

/// Load that most anomalies have in common.
const LOAD: [Feature; 2] = [Feature::Bidirectional, Feature::Loopback];

/// Whether a factor tells anomalies apart, because few have it.
pub(super) fn is_telling(feature: Feature) -> bool {
    !LOAD.contains(&feature)
}

/// Features that do the same work: the first can go back to plain if the second makes up for it, because a NIC sees the
/// product. Source: our choice of those that the verbs of a connection multiply.
pub(super) const TRADES: [(Feature, Feature); 4] = [
    (Feature::Bidirectional, Feature::Qps),
    (Feature::Qps, Feature::Mrs),
    (Feature::Qps, Feature::RecvWqDepth),
    (Feature::Qps, Feature::SendWqDepth),
];

/// The workload with the first feature as in plain traffic, and with as much more of the second, which is one of its
/// factors.
pub(super) fn traded(
    space: &Space,
    workload: &Workload,
    plain: &Workload,
    (from, to): (Feature, Feature),
) -> Option<Workload> {
    let factors = differing(workload, plain);
    let times = match (workload.feature(from).number(), plain.feature(from).number()) {
        (Some(own), Some(plain)) if own > plain && factors.contains(&to) => own as f64 / plain as f64,
        // Traffic both ways is twice as much.
        (None, None) if factors.contains(&from) => 2.0,
        _ => return None,
    };
    let wanted = (workload.feature(to).number()? as f64 * times).round() as u64;
    let values = space.feature_values(to).into_iter().filter_map(|value| value.number());
    let more = values.filter(|value| *value >= wanted).min()?;
    let without = moved(space, workload, &[from], plain)?;
    space.with_feature(&without, to, &FeatureValue::Number(more))
}

/// Features that may only follow others, as the smallest message follows the largest.
pub(super) const FOLLOWERS: [Feature; 4] =
    [Feature::SgeMin, Feature::MessageMin, Feature::MessageMax, Feature::MessageMix];

/// The factors without those that only follow others.
pub(super) fn independent(
    space: &Space,
    witness: &Workload,
    plain: &Workload,
    mut factors: Vec<Feature>,
) -> Vec<Feature> {
    for feature in FOLLOWERS {
        let others: Vec<Feature> = factors.iter().copied().filter(|other| *other != feature).collect();
        if others.len() < factors.len() && rebuilt(space, witness, plain, &others) == *witness {
            factors = others;
        }
    }
    factors
}

/// Plain traffic with these factors set as in the witness.
fn rebuilt(space: &Space, witness: &Workload, plain: &Workload, factors: &[Feature]) -> Workload {
    moved(space, plain, factors, witness).unwrap_or_else(|| plain.clone())
}

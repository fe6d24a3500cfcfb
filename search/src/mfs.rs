//! The minimal feature set as the paper builds it: one feature after the other is changed on the anomaly itself.

use std::collections::{BTreeMap, HashMap};

use kelpie_spaces::{Condition, Dimension, Feature, FeatureValue, Region, Space, Test, Workload};

use crate::finding::{Cure, Finding, FindingEvidence};
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;
use crate::search_state::SearchState;
use crate::signals::Observation;

/// Values of an ordered feature that are tried, both ends among them.
///
/// Source: our choice, because the paper speaks of "a few tests on each dimension" and gives no number (section 5.2).
const VALUES: usize = 5;

/// What is kept of an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptPart {
    /// Its minimal feature set, so that later search skips what it covers.
    Region,
    /// The workload alone.
    Workload,
}

impl KeptPart {
    /// Random points by which counters are ranked; anomalies among them become findings.
    pub(crate) fn ranking_points<O: Oracle>(
        self,
        search: &mut SearchState<'_, O>,
    ) -> Result<Vec<(Workload, Observation)>, O::Error> {
        let mut points = Vec::new();
        for _ in 0..search.config.schedule.ranking_points {
            let workload = search.space.sample(&mut search.rng);
            let seen = search.measure(&workload, Purpose::Rank)?;
            if seen.is_anomalous() && !search.is_known(&workload) {
                self.anomaly(search, &workload, &seen)?;
            }
            points.push((workload, seen));
        }
        Ok(points)
    }

    /// Makes an anomalous workload outside all known regions a finding.
    pub(crate) fn anomaly<O: Oracle>(
        self,
        search: &mut SearchState<'_, O>,
        workload: &Workload,
        seen: &Observation,
    ) -> Result<(), O::Error> {
        let Outcome::Anomalous(symptom) = Outcome::from(&seen.assessment) else { return Ok(()) };
        let found_at = search.experiments();
        let cures = if self == KeptPart::Region { construct(search, workload)? } else { Vec::new() };
        // Without a condition a set would hold every workload there is, and nothing more could be found.
        let is_pinned = cures.is_empty();
        let conditions = if is_pinned { pinned(search.space, workload) } else { conditions_of(&cures) };
        search.found(&Finding {
            symptom,
            workload: workload.clone(),
            mfs: Region { conditions },
            found_at,
            experiments_for_mfs: search.experiments() - found_at,
            confidence: 0.0,
            evidence: FindingEvidence {
                symptoms: seen.assessment.symptoms.clone(),
                signals: seen.signals.clone(),
                narrowed: is_pinned,
                cures,
                ..FindingEvidence::default()
            },
        })
    }
}

fn conditions_of(cures: &[Cure]) -> Vec<Condition> {
    cures.iter().map(|cure| cure.condition.clone()).collect()
}

/// The workload itself as conditions.
fn pinned(space: &Space, workload: &Workload) -> Vec<Condition> {
    let condition = |feature: Feature| {
        let test = match workload.feature(feature) {
            FeatureValue::Number(number) => Test::Range { min: Some(number), max: Some(number) },
            FeatureValue::Category(word) => Test::In(vec![word]),
        };
        Condition { feature, test }
    };
    Feature::ALL.into_iter().filter(|feature| !space.is_off(Dimension::of(*feature))).map(condition).collect()
}

/// `ConstructMFS`: the conditions without which the workload is no longer anomalous, whatever the symptom.
///
/// Features that others decide (totals are products) are left out. A value that cannot be set alone, or whose answer is
/// inconclusive, says nothing; two changes that come to the same workload are measured once.
fn construct<O: Oracle>(search: &mut SearchState<'_, O>, workload: &Workload) -> Result<Vec<Cure>, O::Error> {
    let (mut cures, mut measured) = (Vec::new(), HashMap::new());
    for feature in Feature::ALL.into_iter().filter(|feature| feature.plain().is_some()) {
        let own = workload.feature(feature);
        let mut shown = BTreeMap::from([(own.clone(), true)]);
        for value in values(search, feature) {
            if value == own {
                continue;
            }
            let Some(changed) = search.space.with_feature(workload, feature, &value) else { continue };
            let outcome = match measured.get(&changed) {
                Some(outcome) => *outcome,
                None => Outcome::from(&search.measure(&changed, Purpose::Mfs)?.assessment),
            };
            measured.insert(changed, outcome);
            match outcome {
                Outcome::Anomalous(_) => _ = shown.insert(value, true),
                Outcome::Healthy => _ = shown.insert(value, false),
                Outcome::Inconclusive => {}
            }
        }
        if let Some(test) = test(&own, &shown) {
            cures.push(Cure { condition: Condition { feature, test }, cured: Some(true), sides: Vec::new() });
        }
    }
    Ok(cures)
}

/// The values to try: all words, and a few numbers from end to end.
fn values<O: Oracle>(search: &SearchState<'_, O>, feature: Feature) -> Vec<FeatureValue> {
    let all = search.space.feature_values(feature);
    if !feature.is_ordered() || all.len() <= VALUES {
        return all;
    }
    (0..VALUES).map(|index| all[index * (all.len() - 1) / (VALUES - 1)].clone()).collect()
}

/// What keeps the values apart that showed an anomaly and those that did not; `None` if all did.
fn test(own: &FeatureValue, shown: &BTreeMap<FeatureValue, bool>) -> Option<Test> {
    if shown.values().all(|shown| *shown) {
        return None;
    }
    let Some(_) = own.number() else {
        let words = shown.iter().filter(|(_, shown)| **shown).filter_map(|(value, _)| value.clone().into_word());
        return Some(Test::In(words.collect()));
    };
    let end = |run: &mut dyn Iterator<Item = (&FeatureValue, &bool)>| {
        let mut last = own.number();
        for (value, shown) in run {
            if !shown {
                return last;
            }
            last = value.number();
        }
        None
    };
    let (min, max) = (end(&mut shown.range(..own).rev()), end(&mut shown.range(own..)));
    Some(Test::Range { min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(pairs: &[(u64, bool)]) -> BTreeMap<FeatureValue, bool> {
        pairs.iter().map(|(number, shown)| (FeatureValue::Number(*number), *shown)).collect()
    }

    #[test]
    fn bounds_are_the_last_values_on_the_way_that_were_anomalous() {
        let table = [
            (&[(1, true), (8, true), (64, true)][..], None),
            (&[(1, false), (4, true), (8, true), (64, true)], Some((Some(4), None))),
            (&[(1, true), (8, true), (64, true), (512, false)], Some((None, Some(64)))),
            (&[(1, true), (4, false), (8, true), (64, false)], Some((Some(8), Some(8)))),
        ];
        for (pairs, expected) in table {
            let expected = expected.map(|(min, max)| Test::Range { min, max });
            assert_eq!(test(&FeatureValue::Number(8), &numbers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn words_that_were_anomalous_stay() {
        let word = |word: &str| FeatureValue::Category(word.to_owned());
        let shown = BTreeMap::from([(word("RC"), true), (word("UC"), false), (word("UD"), true)]);
        assert_eq!(test(&word("UD"), &shown), Some(Test::In(vec!["RC".to_owned(), "UD".to_owned()])));
        assert_eq!(test(&word("UD"), &BTreeMap::from([(word("UD"), true)])), None);
    }
}

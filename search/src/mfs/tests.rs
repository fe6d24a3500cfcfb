//! Single steps of a region's construction, on a subsystem in closed form.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Space, Test, Workload};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::Builder;
use super::conditions::End;
use super::simplify::plain_from;
use crate::closed_form::{ClosedForm, Weakness, at_least, one_of, within};
use crate::search_state::SearchState;
use crate::{Algorithm, Config, SignalSet};

fn full() -> Space {
    Space::catalog("full").expect("in the catalog")
}

/// Plain traffic with these features.
fn plain_with(space: &Space, features: &[(Feature, u64)]) -> Workload {
    let mut rng = Pcg64::seed_from_u64(0);
    let connected = Region { conditions: vec![one_of(Feature::QpType, &["RC"])] };
    let plain = plain_from(space, space.sample_in(&connected, &mut rng).expect("in the full space"));
    features.iter().fold(plain, |workload, (feature, value)| {
        space.with_feature(&workload, *feature, &FeatureValue::Number(*value)).expect("in the full space")
    })
}

/// What `test` says of a region under construction around `anchor`, and how many questions that took.
fn with_builder<T>(
    weaknesses: &[Weakness],
    anchor: &Workload,
    test: impl FnOnce(&mut Builder<'_, '_, ClosedForm>) -> T,
) -> (T, usize) {
    let (space, config) = (full(), Config::new(Algorithm::Random, SignalSet::Perf, 0));
    let mut oracle = ClosedForm::new(weaknesses, 1000);
    let mut search = SearchState::new(&space, &config, &mut oracle);
    let result = test(&mut Builder::new(&mut search, anchor, Symptom::Pause, 0));
    (result, oracle.asked.len())
}

fn pause(conditions: &[Condition]) -> [Weakness; 1] {
    [Weakness::new(Symptom::Pause, conditions)]
}

#[test]
fn a_bound_is_nudged_where_the_symptom_is_back_within_four_steps() {
    let space = full();
    let weakness = pause(&[at_least(Feature::SendBatch, 32)]);
    let anchor = plain_with(&space, &[(Feature::SendBatch, 128)]);
    for (bound, healthy, expected) in [(8, 16, Some(32)), (1, 8, Some(32)), (1, 4, None)] {
        let healthy = plain_with(&space, &[(Feature::SendBatch, healthy)]);
        let (nudged, _) = with_builder(&weakness, &anchor, |builder| {
            builder.conditions.bound(Feature::SendBatch, End::Min, bound);
            let is_nudged = builder.is_nudged(&healthy).expect("an ample budget");
            is_nudged.then(|| builder.conditions.region())
        });
        let expected = expected.map(|min| Region { conditions: vec![at_least(Feature::SendBatch, min)] });
        assert_eq!(nudged, expected, "from {bound}");
    }
}

#[test]
fn an_end_that_has_no_bound_is_not_nudged() {
    let space = full();
    let weakness = pause(&[at_least(Feature::SendBatch, 32)]);
    let anchor = plain_with(&space, &[(Feature::SendBatch, 128)]);
    let healthy = plain_with(&space, &[(Feature::SendBatch, 16)]);
    let (nudged, asked) = with_builder(&weakness, &anchor, |builder| {
        builder.conditions.bound(Feature::SendBatch, End::Max, 128);
        builder.is_nudged(&healthy).expect("an ample budget")
    });
    assert_eq!((nudged, asked), (false, 0));
}

#[test]
fn a_bound_moves_only_inside_the_region() {
    let space = full();
    let weakness = pause(&[at_least(Feature::TotalQps, 64)]);
    let anchor = plain_with(&space, &[(Feature::Qps, 512)]);
    let healthy = plain_with(&space, &[(Feature::Qps, 32)]);
    for (most, expected) in [(4096, true), (32, false)] {
        let (nudged, _) = with_builder(&weakness, &anchor, |builder| {
            builder.conditions.bound(Feature::Qps, End::Min, 16);
            // The total follows the QPs of the one flow, out of the region if it may not grow.
            builder.conditions.bound(Feature::TotalQps, End::Max, most);
            builder.is_nudged(&healthy).expect("an ample budget")
        });
        assert_eq!(nudged, expected, "up to {most}");
    }
}

#[test]
fn a_word_that_shows_the_symptom_in_the_anchor_is_forgiven_once() {
    let space = full();
    let anchor = plain_with(&space, &[(Feature::SendBatch, 128)]);
    let read = FeatureValue::Category("READ".to_owned());
    let everywhere = pause(&[at_least(Feature::SendBatch, 32)]);
    let (answers, _) = with_builder(&everywhere, &anchor, |builder| {
        [0, 1].map(|_| builder.is_indifferent(Feature::Opcode, &read).expect("an ample budget"))
    });
    assert_eq!(answers, [true, false]);
    let writes = pause(&[at_least(Feature::SendBatch, 32), one_of(Feature::Opcode, &["WRITE"])]);
    let (matters, _) = with_builder(&writes, &anchor, |builder| {
        builder.is_indifferent(Feature::Opcode, &read).expect("an ample budget")
    });
    assert!(!matters);
}

#[test]
fn a_neighbourhood_reaches_what_breaks_few_bounds() {
    let space = full();
    let anchor = plain_with(&space, &[(Feature::SendBatch, 64), (Feature::SgeCount, 8), (Feature::Mtu, 1024)]);
    let conditions =
        [at_least(Feature::SendBatch, 64), at_least(Feature::SgeCount, 8), within(Feature::Mtu, 256, 1024)];
    let breaks_one = plain_with(&space, &[(Feature::SendBatch, 16), (Feature::SgeCount, 8), (Feature::Mtu, 1024)]);
    let breaks_two = plain_with(&space, &[(Feature::SendBatch, 16), (Feature::SgeCount, 4), (Feature::Mtu, 1024)]);
    let breaks_all = plain_with(&space, &[(Feature::SendBatch, 16), (Feature::SgeCount, 4), (Feature::Mtu, 4096)]);
    for (met, symptom, expected) in [
        (&breaks_one, Symptom::Pause, Some((16, 8))),
        (&breaks_one, Symptom::LowThroughput, Some((16, 8))),
        (&breaks_two, Symptom::Pause, Some((16, 4))),
        (&breaks_two, Symptom::LowThroughput, None),
        (&breaks_all, Symptom::Pause, None),
    ] {
        let (neighbourhood, _) = with_builder(&[], &anchor, |builder| {
            for condition in &conditions {
                let Test::Range { min, max } = condition.test else { unreachable!("bounds") };
                for (end, bound) in [(End::Min, min), (End::Max, max)] {
                    if let Some(bound) = bound {
                        builder.conditions.bound(condition.feature, end, bound);
                    }
                }
            }
            builder.met.push((met.clone(), symptom));
            builder.neighbourhood()
        });
        let (batch, elements) = expected.unwrap_or((64, 8));
        let mut expected =
            vec![at_least(Feature::SendBatch, batch), at_least(Feature::SgeCount, elements), conditions[2].clone()];
        expected.sort();
        let mut found = neighbourhood.conditions;
        found.sort();
        assert_eq!(found, expected, "{symptom:?}");
    }
}

//! One anomaly in its simplest form, with what it needs.

use std::rc::Rc;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, Space, Workload};
use rand::SeedableRng as _;
use rand_pcg::Pcg64;

use super::conditions::{Needed, Witness};
use super::experiments::{Experiments, is_another, keeps};
use super::factors::{independent, plain};
use super::reduce::{Needs, ReductionOutcome, reduce_and_trade};
use crate::finding::{Cure, TriedTransport};
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// An anomaly that needs all of its conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Distilled {
    /// Its symptom; pause if it has both.
    pub symptom: Symptom,
    /// The simplest workload that shows it: plain traffic but for the conditions.
    pub witness: Workload,
    /// What it needs: the witness with one of these features as in plain traffic does not show it.
    pub cures: Vec<Cure>,
    /// Transports and operations with which the witness was tried, its own first.
    pub transports: Vec<TriedTransport>,
    /// Experiments that all of this took.
    pub experiments: u64,
}

/// The simplest form of an anomaly; nothing if the workload is not anomalous. An anomaly is still there if the symptom
/// is and, of low throughput, half of the loss.
///
/// # Errors
/// The oracle's first error, unchanged.
pub fn distil<O: Oracle>(space: &Space, anomaly: &Workload, oracle: &mut O) -> Result<Option<Distilled>, O::Error> {
    let mut lab = Experiments::new(space, Pcg64::seed_from_u64(0), oracle);
    let seen = lab.look(anomaly, Purpose::Mfs)?;
    let Outcome::Anomalous(symptom) = seen.outcome else { return Ok(None) };
    let plain = plain(space, anomaly);
    let mut witness = Witness { lab: &mut lab, symptom, workload: anomaly.clone(), seen, plain };
    let factors = simplify(&mut witness)?;
    let Needed { cures, transports } = witness.needs(&factors)?;
    let witness = witness.workload;
    Ok(Some(Distilled { symptom, witness, cures, transports, experiments: lab.experiments() }))
}

/// Takes back what the symptom does not need; the features that it does.
fn simplify<O: Oracle>(witness: &mut Witness<'_, '_, O>) -> Result<Vec<Feature>, O::Error> {
    let (symptom, begin) = (witness.symptom, Rc::clone(&witness.seen));
    let mut here = Rc::clone(&begin);
    let ask = |lab: &mut Experiments<'_, O>, workload: &Workload| {
        let seen = lab.look(workload, Purpose::Mfs)?;
        let holds = keeps(symptom, &begin, &seen) && !is_another(&here, &seen);
        if holds {
            here = seen;
        }
        Ok(if holds { ReductionOutcome::Holds } else { ReductionOutcome::Gone })
    };
    let reduced = reduce_and_trade(witness.lab, &mut Needs::default(), &witness.workload, &witness.plain, ask)?;
    witness.take(reduced.workload)?;
    let factors = independent(witness.lab.space, &witness.workload, &witness.plain, reduced.needed);
    // Each once more, because the witness became simpler after most of them.
    witness.settle(factors)
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::{FeatureValue, Region};

    use super::*;
    use crate::closed_form::{ClosedForm, PlantedWeakness, at_least, one_of, within};

    /// A random workload of the space with these features.
    fn random(space: &Space, seed: u64, features: &[(Feature, u64)]) -> Workload {
        let workload = space.sample(&mut Pcg64::seed_from_u64(seed));
        features.iter().fold(workload, |here, (feature, value)| {
            space.with_feature(&here, *feature, &FeatureValue::Number(*value)).expect("the space has it")
        })
    }

    #[test]
    fn an_anomaly_comes_down_to_its_conditions_with_the_workloads_at_their_bounds() {
        let space = Space::catalog("full").expect("in the catalog");
        let conditions =
            [at_least(Feature::Qps, 100), within(Feature::SendBatch, 4, 16), one_of(Feature::QpType, &["RC", "UC"])];
        let mut oracle = ClosedForm::new(&[PlantedWeakness::new(Symptom::LowThroughput, &conditions)], 1000);
        let region = Region { conditions: conditions.to_vec() };
        let anomaly = (0..).map(|seed| random(&space, seed, &[(Feature::Qps, 512), (Feature::SendBatch, 8)]));
        let anomaly = anomaly.into_iter().find(|workload| region.contains(workload)).expect("some hold");
        let distilled = distil(&space, &anomaly, &mut oracle).expect("it has the budget").expect("it is anomalous");
        let mut features: Vec<Feature> = distilled.cures.iter().map(|cure| cure.condition.feature).collect();
        features.sort_unstable();
        assert_eq!(features, [Feature::Qps, Feature::SendBatch], "{distilled:?}");
        for Cure { condition, sides, .. } in &distilled.cures {
            assert_eq!(sides.len(), if condition.feature == Feature::Qps { 1 } else { 2 }, "{condition}");
            for [shows, gone] in sides {
                assert!(region.contains(shows) && !region.contains(gone), "{condition}");
                assert!(shows.differing(gone).contains(&condition.feature), "{condition}");
                assert!(condition.holds(shows) && !condition.holds(gone), "{condition}");
            }
        }
        let shown: Vec<&str> = distilled
            .transports
            .iter()
            .filter(|transport| transport.shows)
            .map(|transport| transport.qp_type.as_str())
            .collect();
        assert!(shown.contains(&"RC") && shown.contains(&"UC") && !shown.contains(&"UD"), "{shown:?}");
        assert_eq!(distilled.experiments, oracle.asked.len() as u64);
        assert!(distilled.experiments < 100, "{} experiments", distilled.experiments);
    }

    #[test]
    fn what_is_healthy_has_no_conditions() {
        let space = Space::catalog("full").expect("in the catalog");
        let mut oracle = ClosedForm::new(&[], 10);
        let workload = random(&space, 1, &[]);
        assert_eq!(distil(&space, &workload, &mut oracle).expect("one experiment"), None);
        assert_eq!(oracle.asked.len(), 1);
    }
}

//! One anomaly in its simplest form: what it needs and from where on, each measured at the same workload.

use std::collections::BTreeSet;
use std::rc::Rc;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Space, Test, Workload};
use rand::SeedableRng as _;
use rand_pcg::Pcg64;

use super::factors::{differing, independent, moved, plain};
use super::lab::{Lab, Seen, is_another, keeps};
use super::reduce::{Answer, Needs, reduce};
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
    pub edges: Vec<Edge>,
    /// Transports and operations with which the witness was tried, its own first.
    pub transports: Vec<Transport>,
    /// Experiments that all of this took.
    pub experiments: u64,
}

/// A condition with the workloads on either side of its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// The condition.
    pub condition: Condition,
    /// For each bound the workload at it, which shows the symptom, and the next one, which does not. They differ in
    /// this feature, and in what the rules of workloads move with it.
    pub sides: Vec<[Workload; 2]>,
}

/// A transport and operation at the witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transport {
    /// Of the QPs, such as `RC`.
    pub qp_type: String,
    /// Of the requests, such as `SEND`.
    pub opcode: String,
    /// Whether the symptom shows.
    pub shows: bool,
}

/// The simplest form of an anomaly; nothing if the workload is not anomalous. An anomaly is still there if the symptom
/// is and, of low throughput, half of the loss.
///
/// # Errors
/// The oracle's first error, unchanged.
pub fn distil<O: Oracle>(space: &Space, anomaly: &Workload, oracle: &mut O) -> Result<Option<Distilled>, O::Error> {
    let mut lab = Lab::new(space, Pcg64::seed_from_u64(0), oracle);
    let seen = lab.look(anomaly, Purpose::Mfs)?;
    let Outcome::Anomalous(symptom) = seen.outcome else { return Ok(None) };
    let mut distiller = Distiller { plain: plain(space, anomaly), witness: anomaly.clone(), symptom, seen, lab };
    let factors = distiller.simplify()?;
    let mut edges = Vec::new();
    for factor in factors {
        edges.extend(distiller.edge(factor)?);
    }
    let transports = distiller.transports(&edges)?;
    let Distiller { witness, lab, .. } = distiller;
    Ok(Some(Distilled { symptom, witness, edges, transports, experiments: lab.experiments() }))
}

struct Distiller<'a, O: Oracle> {
    lab: Lab<'a, O>,
    symptom: Symptom,
    witness: Workload,
    /// What the witness shows.
    seen: Rc<Seen>,
    plain: Workload,
}

impl<O: Oracle> Distiller<'_, O> {
    /// Whether a workload still shows the anomaly.
    fn shows(&mut self, workload: &Workload) -> Result<bool, O::Error> {
        let seen = self.lab.look(workload, Purpose::Mfs)?;
        Ok(keeps(self.symptom, &self.seen, &seen))
    }

    /// Takes back what the symptom does not need; the features that it does.
    fn simplify(&mut self) -> Result<Vec<Feature>, O::Error> {
        let symptom = self.symptom;
        let begin = Rc::clone(&self.seen);
        let mut here = Rc::clone(&begin);
        let reduced = reduce(&mut self.lab, &mut Needs::default(), &self.witness, &self.plain, |lab, workload| {
            let seen = lab.look(workload, Purpose::Mfs)?;
            let holds = keeps(symptom, &begin, &seen) && !is_another(&here, &seen);
            if holds {
                here = seen;
            }
            Ok(if holds { Answer::Holds } else { Answer::Gone })
        })?;
        let space = self.lab.space;
        self.take(reduced.workload)?;
        let mut factors = independent(space, &self.witness, &self.plain, reduced.needed);
        // Each once more, because the witness became simpler after most of them.
        while let Some(simpler) = self.simpler(&factors)? {
            self.take(simpler)?;
            let left = differing(&self.witness, &self.plain);
            factors.retain(|factor| left.contains(factor));
        }
        Ok(factors)
    }

    fn take(&mut self, witness: Workload) -> Result<(), O::Error> {
        self.seen = self.lab.look(&witness, Purpose::Mfs)?;
        self.witness = witness;
        Ok(())
    }

    /// The witness without a factor that it does not need.
    fn simpler(&mut self, factors: &[Feature]) -> Result<Option<Workload>, O::Error> {
        for factor in factors {
            if let Some(without) = moved(self.lab.space, &self.witness, &[*factor], &self.plain)
                && self.shows(&without)?
            {
                return Ok(Some(without));
            }
        }
        Ok(None)
    }

    /// The condition of a factor; nothing if the rules hold it back, so that nobody can break it alone.
    fn edge(&mut self, factor: Feature) -> Result<Option<Edge>, O::Error> {
        if moved(self.lab.space, &self.witness, &[factor], &self.plain).is_none() {
            return Ok(None);
        }
        match (self.witness.feature(factor), self.plain.feature(factor)) {
            (FeatureValue::Number(own), FeatureValue::Number(plain)) => self.range(factor, own, plain).map(Some),
            (own, plain) => self.words(factor, &own, &plain).map(Some),
        }
    }

    /// The bounds of a number, towards plain traffic and away from it.
    fn range(&mut self, factor: Feature, own: u64, plain: u64) -> Result<Edge, O::Error> {
        let values = self.lab.space.feature_values(factor);
        let values: BTreeSet<u64> = values.iter().filter_map(FeatureValue::number).collect();
        let above: Vec<u64> = values.range(own + 1..).copied().collect();
        let below: Vec<u64> = values.range(..own).rev().copied().collect();
        let (towards, away) = if plain > own { (above, below) } else { (below, above) };
        // What lies beyond plain traffic is no way back to it.
        let towards = towards.into_iter().filter(|value| value.abs_diff(own) <= plain.abs_diff(own)).collect();
        let (mut sides, mut bounds) = (Vec::new(), [None; 2]);
        let [lower, upper] = if plain > own { [away, towards] } else { [towards, away] };
        for (bound, values) in bounds.iter_mut().zip([lower, upper]) {
            if let Some((at, side)) = self.bound(factor, values, own)? {
                *bound = Some(at);
                sides.push(side);
            }
        }
        let [min, max] = bounds;
        Ok(Edge { condition: Condition { feature: factor, test: Test::Range { min, max } }, sides })
    }

    /// The last of some values, from the witness's own on, at which the symptom shows, with the workloads there and at
    /// the next one; nothing if it shows at all.
    fn bound(&mut self, factor: Feature, values: Vec<u64>, own: u64) -> Result<Option<(u64, [Workload; 2])>, O::Error> {
        let at = |workload: &Workload, value: u64| {
            let changed = self.lab.space.with_feature(workload, factor, &FeatureValue::Number(value))?;
            (changed.feature(factor) == FeatureValue::Number(value)).then_some((value, changed))
        };
        let mut open: Vec<(u64, Workload)> = values.into_iter().filter_map(|value| at(&self.witness, value)).collect();
        let Some((_, last)) = open.pop() else { return Ok(None) };
        if self.shows(&last)? {
            return Ok(None);
        }
        let (mut inside, mut outside) = ((own, self.witness.clone()), last);
        while !open.is_empty() {
            let middle = open.len() / 2;
            let farther = open.split_off(middle + 1);
            let Some((value, workload)) = open.pop() else { break };
            if self.shows(&workload)? {
                (inside, open) = ((value, workload), farther);
            } else {
                outside = workload;
            }
        }
        Ok(Some((inside.0, [inside.1, outside])))
    }

    /// The words with which the symptom shows.
    fn words(&mut self, factor: Feature, own: &FeatureValue, plain: &FeatureValue) -> Result<Edge, O::Error> {
        let mut shown = vec![own.to_string()];
        let mut sides = Vec::new();
        for word in self.lab.space.feature_values(factor) {
            let Some(changed) = self.lab.space.with_feature(&self.witness, factor, &word).filter(|_| word != *own)
            else {
                continue;
            };
            if self.shows(&changed)? {
                shown.push(word.to_string());
            } else if word == *plain {
                sides.push([self.witness.clone(), changed]);
            }
        }
        Ok(Edge { condition: Condition { feature: factor, test: Test::In(shown) }, sides })
    }

    /// Tries the witness with each transport and operation that keeps its conditions.
    fn transports(&mut self, edges: &[Edge]) -> Result<Vec<Transport>, O::Error> {
        let region = Region { conditions: edges.iter().map(|edge| edge.condition.clone()).collect() };
        let own = [Feature::QpType, Feature::Opcode].map(|feature| self.witness.feature(feature));
        let mut tried = vec![Transport { qp_type: own[0].to_string(), opcode: own[1].to_string(), shows: true }];
        for qp_type in self.lab.space.feature_values(Feature::QpType) {
            for opcode in self.lab.space.feature_values(Feature::Opcode) {
                let Some(changed) = with_transport(self.lab.space, &self.witness, &qp_type, &opcode) else { continue };
                if changed == self.witness || !region.contains(&changed) {
                    continue;
                }
                let shows = self.shows(&changed)?;
                tried.push(Transport { qp_type: qp_type.to_string(), opcode: opcode.to_string(), shows });
            }
        }
        Ok(tried)
    }
}

/// A workload with another transport and operation, in the order in which the rules admit them.
fn with_transport(
    space: &Space,
    workload: &Workload,
    qp_type: &FeatureValue,
    opcode: &FeatureValue,
) -> Option<Workload> {
    let pairs = [(Feature::QpType, qp_type), (Feature::Opcode, opcode)];
    let set = |pairs: [(Feature, &FeatureValue); 2]| {
        let changed = pairs
            .iter()
            .try_fold(workload.clone(), |here, (feature, value)| space.with_feature(&here, *feature, value))?;
        pairs.iter().all(|(feature, value)| changed.feature(*feature) == **value).then_some(changed)
    };
    set(pairs).or_else(|| set([pairs[1], pairs[0]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_form::{ClosedForm, Weakness, at_least, one_of, within};

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
        let mut oracle = ClosedForm::new(&[Weakness::new(Symptom::LowThroughput, &conditions)], 1000);
        let region = Region { conditions: conditions.to_vec() };
        let anomaly = (0..).map(|seed| random(&space, seed, &[(Feature::Qps, 512), (Feature::SendBatch, 8)]));
        let anomaly = anomaly.into_iter().find(|workload| region.contains(workload)).expect("some hold");
        let distilled = distil(&space, &anomaly, &mut oracle).expect("it has the budget").expect("it is anomalous");
        let mut features: Vec<Feature> = distilled.edges.iter().map(|edge| edge.condition.feature).collect();
        features.sort_unstable();
        assert_eq!(features, [Feature::Qps, Feature::SendBatch], "{distilled:?}");
        for Edge { condition, sides } in &distilled.edges {
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

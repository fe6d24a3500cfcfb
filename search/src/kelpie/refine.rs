//! From a finding's factors to its conditions, checked by random workloads that meet them; and surveys of the space,
//! from which trees learn what no finding says.

use std::rc::Rc;

use kelpie_belief::BeliefModel;
use kelpie_spaces::Workload;

use super::Search;
use super::conditions::Witness;
use super::open_finding::OpenFinding;
use crate::discovery::RefiningExperiments;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// Random points of which one is looked at that the trees are not sure of. Source: our choice.
const CANDIDATES: usize = 10;
/// Probability of a point that they are not sure of at all. Source: our choice; a little below one half, because points
/// below are to be called safe.
const UNSURE: f64 = 0.4;

impl<'a, O: Oracle> Search<'a, O> {
    /// Confirms a finding that comes up often.
    pub(super) fn settle(&mut self, index: usize) -> Result<(), O::Error> {
        let before = self.lab.experiments();
        self.confirm(index)?;
        self.findings[index].spent += self.lab.experiments() - before;
        self.store(index)
    }

    /// Looks once more at each removal, because the witness became simpler after most of them.
    fn confirm(&mut self, index: usize) -> Result<(), O::Error> {
        let factors = self.findings[index].factors.clone();
        let mut witness = self.witness(index);
        let left = witness.settle(factors.clone())?;
        let Witness { workload, seen, .. } = witness;
        self.findings[index].is_settled = true;
        if left != factors {
            self.findings[index].simplify(workload, seen);
            self.reconsider(index);
        }
        Ok(())
    }

    /// Drops factors that what was measured before says are not needed.
    pub(super) fn simplify_by_what_is_known(&mut self, index: usize) {
        loop {
            let known = &self.findings[index];
            let needless = self.removals(known).find(|(_, _, seen)| known.keeps(seen));
            let Some((without, seen)) = needless.map(|(_, without, seen)| (without, Rc::clone(seen))) else { return };
            self.findings[index].simplify(without, seen);
        }
    }

    /// A finding's witness, to be asked what it needs.
    fn witness(&mut self, index: usize) -> Witness<'_, 'a, O> {
        let OpenFinding { symptom, witness, seen, plain, .. } = &self.findings[index];
        let (symptom, workload, seen, plain) = (*symptom, witness.clone(), Rc::clone(seen), plain.clone());
        Witness { lab: &mut self.lab, symptom, workload, seen, plain }
    }

    /// Spends a third of its experiments on surveys, as long as there is something to learn of findings.
    pub(super) fn refine(&mut self) -> Result<(), O::Error> {
        let RefiningExperiments { surveys, conditions, trials } = self.spent;
        if conditions + trials <= 2 * surveys && self.refine_a_finding()? {
            return Ok(());
        }
        let before = self.lab.experiments();
        self.survey()?;
        // One that found all measured counts, too, so that there is an end.
        self.spent.surveys += (self.lab.experiments() - before).max(1);
        Ok(())
    }

    /// Measures the conditions of a finding, or a random workload that meets them; twice as many experiments go to the
    /// first. A second round of random workloads waits until all conditions are measured. Says whether there was
    /// something to learn.
    pub(super) fn refine_a_finding(&mut self) -> Result<bool, O::Error> {
        let before = self.lab.experiments();
        let (unmeasured, least_tried) = (self.unmeasured(), self.least_tried());
        let is_first_round = least_tried.is_some_and(|(rank, _)| rank < 1.0);
        match (unmeasured, least_tried) {
            (Some(index), _) if !is_first_round || self.spent.conditions <= 2 * self.spent.trials => {
                self.measure_conditions(index)?;
                self.spent.conditions += self.lab.experiments() - before;
            }
            (_, Some((_, index))) => {
                self.sample_inside(index)?;
                self.spent.trials += self.lab.experiments() - before;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The finding whose conditions are measured next: the worst.
    fn unmeasured(&self) -> Option<usize> {
        let is_open = |known: &OpenFinding| known.needed.is_none() && known.variant_of.is_none();
        let lost = |index: &usize| self.findings[*index].seen.lost();
        let open = (0..self.findings.len()).rev().filter(|index| is_open(&self.findings[*index]));
        open.max_by(|a, b| lost(a).total_cmp(&lost(b)))
    }

    /// Measures the conditions of a finding, and looks for its variants.
    fn measure_conditions(&mut self, index: usize) -> Result<(), O::Error> {
        let before = self.lab.experiments();
        self.confirm(index)?;
        let factors = self.findings[index].factors.clone();
        let needed = self.witness(index).needs(&factors)?;
        self.findings[index].take_needed(needed);
        self.findings[index].spent += self.lab.experiments() - before;
        for point in self.lab.surveyed() {
            // A point that led to the finding shows it, of course.
            let is_later = self.lab.notes().number(&point) > Some(self.findings[index].found_at);
            if is_later && self.findings[index].contains(&point) {
                let seen = self.lab.look(&point, Purpose::Survey)?;
                self.findings[index].tried(&seen);
            }
        }
        self.fold()?;
        self.store(index)
    }

    /// The finding of which a random workload is wanted most, behind how badly: 0 at most, 1 or more in the second
    /// round.
    fn least_tried(&self) -> Option<(f64, usize)> {
        let wants = (0..self.findings.len()).filter_map(|index| Some((self.findings[index].wants_trials()?, index)));
        wants.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Looks at a random workload that meets a finding's conditions.
    fn sample_inside(&mut self, index: usize) -> Result<(), O::Error> {
        let point = self.lab.space.sample_in(&self.findings[index].region, &mut self.lab.rng);
        // One that was measured is of a handful that meet the conditions.
        let Some(point) = point.filter(|point| self.lab.recall(point).is_none()) else {
            self.findings[index].is_spent = true;
            return Ok(());
        };
        let seen = self.lab.look(&point, Purpose::Validate)?;
        if let Outcome::Anomalous(symptom) = seen.outcome {
            self.touch(&point, symptom, &seen);
        }
        self.findings[index].spent += 1;
        self.findings[index].tried(&seen);
        self.store(index)
    }

    /// Looks at a point, in turn at a random one of the space and at one that the trees are not sure of.
    fn survey(&mut self) -> Result<(), O::Error> {
        self.lab.learn_if_much_is_new();
        let model = self.lab.model().filter(|_| self.spent.surveys % 2 == 1);
        let purpose = if model.is_some() { Purpose::Search } else { Purpose::Survey };
        let point = match model {
            Some(model) => self.unsure(&model),
            None => self.lab.space.sample(&mut self.lab.rng),
        };
        if self.avoided.iter().any(|region| region.contains(&point)) {
            self.lab.oracle().skipped(&point);
            return Ok(());
        }
        if self.lab.recall(&point).is_some() {
            return Ok(());
        }
        let seen = self.lab.look(&point, purpose)?;
        // Where a finding's conditions hold another weakness may show.
        if let Outcome::Anomalous(symptom) = seen.outcome {
            self.touch(&point, symptom, &seen);
        }
        if purpose == Purpose::Survey {
            for index in 0..self.findings.len() {
                if self.findings[index].wants_trials().is_some() && self.findings[index].contains(&point) {
                    self.findings[index].tried(&seen);
                    self.store(index)?;
                }
            }
        }
        Ok(())
    }

    /// Of some random points the one that the trees are least sure of.
    fn unsure(&mut self, model: &BeliefModel) -> Workload {
        let points = (0..CANDIDATES).map(|_| {
            let point = self.lab.space.sample(&mut self.lab.rng);
            ((model.of(&point).probability.middle - UNSURE).abs(), point)
        });
        points.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are candidates").1
    }
}

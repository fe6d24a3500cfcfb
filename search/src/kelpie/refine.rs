//! From a finding's factors to its region: what all experiments say, checked by random points inside.

use std::rc::Rc;

use kelpie_belief::Model;
use kelpie_spaces::{Region, Workload};

use super::Search;
use super::drawn::Drawn;
use super::factors::moved;
use super::region::{Evidence, read};
use crate::discovery::Believed;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// Kinds of looks that take turns: at a random point of the space, at one that the trees are not sure of, inside a region.
const TURNS: u32 = 3;
/// Random points of which one is looked at that the trees are not sure of. Source: our choice.
const CANDIDATES: usize = 10;
/// Probability of a point that they are not sure of at all. Source: our choice; a little below one half, because points below
/// are to be called safe.
const UNSURE: f64 = 0.4;
/// Random points in a row that had been measured before, after which no others are expected. Source: our choice.
const MOST_REPEATS: u32 = 20;

impl<'a, O: Oracle> Search<'a, O> {
    /// Confirms a finding that comes up often.
    pub(super) fn settle(&mut self, index: usize) -> Result<(), O::Error> {
        let before = self.lab.experiments();
        self.findings[index].is_settled = true;
        let factors = self.findings[index].factors.len();
        self.confirm(index)?;
        self.findings[index].spent += self.lab.experiments() - before;
        if self.findings[index].factors.len() < factors {
            self.reconsider(index);
            self.read_region(index);
        }
        self.store(index)
    }

    /// Looks once more at each removal, because the witness became simpler after most of them.
    fn confirm(&mut self, index: usize) -> Result<(), O::Error> {
        for feature in self.findings[index].factors.clone() {
            let known = &self.findings[index];
            let Some(without) = moved(self.lab.space, &known.witness, &[feature], &known.plain) else { continue };
            let seen = self.lab.look(&without, Purpose::Mfs)?;
            if self.findings[index].shows(&seen) && self.findings[index].seen.is_like(&seen) {
                self.findings[index].simplify(feature, without, seen);
            }
        }
        Ok(())
    }

    /// Reads every region anew if much was learnt since.
    pub(super) fn refresh(&mut self) -> Result<(), O::Error> {
        if !self.lab.has_learnt() {
            return Ok(());
        }
        self.evidence = None;
        (0..self.findings.len()).try_for_each(|index| {
            self.read_region(index);
            self.store(index)
        })
    }

    /// What regions are read from; `None` if nothing was learnt yet.
    pub(super) fn evidence(&mut self) -> Option<Rc<Evidence<'a>>> {
        if self.evidence.is_none() {
            let (model, space) = (self.lab.model()?, self.lab.space);
            let drawn = self.drawn.get_or_insert_with(|| Rc::new(Drawn::of(space)));
            self.evidence = Some(Rc::new(Evidence::new(Rc::clone(drawn), model)));
        }
        self.evidence.clone()
    }

    /// Reads a region from all experiments; one that still looks anomalous, and is worth about as much, is kept.
    pub(super) fn read_region(&mut self, index: usize) {
        let Some(evidence) = self.evidence() else { return };
        let (known, measured) = (&self.findings[index], self.lab.outcomes());
        let others = self.findings.iter().enumerate().filter(|(other, known)| *other != index && known.has_read());
        let others: Vec<&Region> = others.map(|(_, other)| &other.region).collect();
        let mut rng = self.lab.rng.clone();
        let mut within = |hull: &Region| read(&evidence, hull, &known.witness, &measured, &others, &mut rng);
        let hull = within(&known.hull(self.lab.space));
        let is_good = |(region, share): &(Region, f64)| *share >= evidence.pure && !evidence.is_small(region);
        let best = if hull.as_ref().is_some_and(is_good) { hull } else { within(&known.beyond()).or(hull) };
        if let Some((region, _)) = best {
            let is_kept = |old: &Believed| {
                known.has_read()
                    && old.share >= evidence.pure
                    && evidence.is_worth_as_much(&known.region, &region, &others)
            };
            let kept = evidence.of(&known.region, &measured, &mut rng).filter(is_kept);
            let region = if kept.is_some() { known.region.clone() } else { region };
            let believed = kept.or_else(|| evidence.of(&region, &measured, &mut rng));
            self.findings[index].become_region(region, believed);
        }
        self.lab.rng = rng;
        self.trim(index);
    }

    /// Looks at a point, in turn at a random one of the space, at one that the trees are not sure of, and at a random one of the
    /// region of which least is known.
    pub(super) fn survey(&mut self) -> Result<(), O::Error> {
        let Some(model) = self.lab.model() else { return Ok(()) };
        self.surveys += 1;
        let turn = self.surveys % TURNS;
        if turn == 0
            && let Some(index) = self.least_known()
        {
            return self.sample_inside(index);
        }
        let is_random = turn == 1;
        let point = if is_random { self.lab.space.sample(&mut self.lab.rng) } else { self.unsure(&model) };
        if self.avoided.iter().any(|region| region.contains(&point)) {
            self.lab.oracle().skipped(&point);
            return Ok(());
        }
        if self.lab.recall(&point).is_some() {
            return Ok(());
        }
        let purpose = if is_random { Purpose::Survey } else { Purpose::Search };
        let seen = self.lab.look(&point, purpose)?;
        let holders = (0..self.findings.len()).filter(|index| self.findings[*index].contains(&point));
        let holders: Vec<usize> = holders.collect();
        // Inside a region another weakness may show.
        if let Outcome::Anomalous(symptom) = seen.outcome {
            self.touch(&point, symptom, &seen);
        }
        match seen.outcome.is_anomalous() {
            // Other points say nothing of how much of a region is anomalous.
            Some(is_anomalous) if is_random => {
                holders.into_iter().try_for_each(|index| self.tried(index, &point, is_anomalous))
            }
            _ => Ok(()),
        }
    }

    /// Of some random points the one that the trees are least sure of.
    fn unsure(&mut self, model: &Model) -> Workload {
        let points = (0..CANDIDATES).map(|_| {
            let point = self.lab.space.sample(&mut self.lab.rng);
            ((model.of(&point).probability.middle - UNSURE).abs(), point)
        });
        points.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are candidates").1
    }

    /// The finding of whose region least is known.
    fn least_known(&self) -> Option<usize> {
        let open = (0..self.findings.len()).filter(|index| !self.findings[*index].is_spent);
        open.max_by(|a, b| self.findings[*a].doubt().total_cmp(&self.findings[*b].doubt()))
    }

    /// Looks at a random point inside a region.
    fn sample_inside(&mut self, index: usize) -> Result<(), O::Error> {
        let before = self.lab.experiments();
        let Some(point) = self.lab.space.sample_in(&self.findings[index].region, &mut self.lab.rng) else {
            self.findings[index].is_spent = true;
            return Ok(());
        };
        let seen = self.lab.look(&point, Purpose::Validate)?;
        if self.lab.experiments() == before {
            self.findings[index].repeats += 1;
            self.findings[index].is_spent |= self.findings[index].repeats > MOST_REPEATS;
            return Ok(());
        }
        self.findings[index].repeats = 0;
        self.findings[index].spent += 1;
        if let Outcome::Anomalous(symptom) = seen.outcome {
            self.touch(&point, symptom, &seen);
        }
        seen.outcome.is_anomalous().map_or(Ok(()), |is_anomalous| self.tried(index, &point, is_anomalous))
    }

    /// Takes in a random point inside.
    fn tried(&mut self, index: usize, point: &Workload, is_anomalous: bool) -> Result<(), O::Error> {
        self.findings[index].tried(point.clone(), is_anomalous);
        self.trim(index);
        self.store(index)
    }
}

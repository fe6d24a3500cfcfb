//! From a finding's factors to its region: what all experiments say, checked by random points inside.

use kelpie_spaces::Workload;

use super::Search;
use super::factors::moved;
use super::known::Known;
use super::region::{Evidence, read};
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// Every so many random points one is of the region that is least sure. Source: our choice.
const SAMPLED: u32 = 4;
/// Random points in a row that had been measured before, after which no others are expected. Source: our choice.
const MOST_REPEATS: u32 = 20;

impl<O: Oracle> Search<'_, O> {
    /// Confirms a finding that comes up often.
    pub(super) fn settle(&mut self, index: usize) -> Result<(), O::Error> {
        let before = self.lab.experiments();
        self.findings[index].is_settled = true;
        self.confirm(index)?;
        self.findings[index].is_stale = true;
        self.findings[index].spent += self.lab.experiments() - before;
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

    /// Reads regions from all experiments, if there are enough.
    pub(super) fn read_regions(&mut self, which: impl Fn(&Known) -> bool) -> Result<(), O::Error> {
        let Some(model) = self.lab.model() else { return Ok(()) };
        let mut rng = self.lab.rng.clone();
        let evidence = Evidence::new(self.lab.space, &model, self.lab.outcomes(), &mut rng);
        let mut changed = Vec::new();
        for (index, known) in self.findings.iter_mut().enumerate().filter(|(_, known)| which(known)) {
            let hull = known.hull(self.lab.space);
            if let Some((region, share)) = read(&evidence, &hull, &known.witness, &mut rng) {
                known.become_region(region, share);
            }
            known.is_stale = false;
            changed.push(index);
        }
        self.lab.rng = rng;
        changed.into_iter().try_for_each(|index| self.store(index))
    }

    /// Reads again what is stale, if much was learnt since.
    pub(super) fn refresh(&mut self) -> Result<(), O::Error> {
        if self.lab.has_learnt() { self.read_regions(|known| known.is_stale) } else { Ok(()) }
    }

    /// Looks at a random point: mostly of the space, now and then of the region that is least sure.
    pub(super) fn survey(&mut self) -> Result<(), O::Error> {
        self.surveys += 1;
        if self.surveys.is_multiple_of(SAMPLED)
            && let Some(index) = self.least_sure()
        {
            return self.sample_inside(index);
        }
        let point = self.lab.space.sample(&mut self.lab.rng);
        if self.avoided.iter().any(|region| region.contains(&point)) {
            self.lab.oracle().skipped(&point);
            return Ok(());
        }
        if self.findings.iter().any(|known| known.contains(&point)) {
            return self.look_inside(&point);
        }
        let seen = self.lab.look(&point, Purpose::Survey)?;
        match seen.outcome {
            Outcome::Healthy | Outcome::Inconclusive => {}
            Outcome::Anomalous(symptom) => _ = self.touch(&point, symptom, &seen),
        }
        Ok(())
    }

    /// The finding whose doubtful part weighs most.
    fn least_sure(&self) -> Option<usize> {
        let open = (0..self.findings.len()).filter(|index| !self.findings[*index].is_spent);
        let weight = |index: &usize| f64::from(self.findings[*index].visits) * self.findings[*index].doubt();
        open.max_by(|a, b| weight(a).total_cmp(&weight(b)))
    }

    /// Looks at a random point that lies in regions.
    fn look_inside(&mut self, point: &Workload) -> Result<(), O::Error> {
        if self.lab.recall(point).is_some() {
            return Ok(());
        }
        let is_anomalous = match self.lab.look(point, Purpose::Survey)?.outcome {
            Outcome::Inconclusive => return Ok(()),
            Outcome::Anomalous(_) => true,
            Outcome::Healthy => false,
        };
        for index in 0..self.findings.len() {
            if self.findings[index].contains(point) {
                self.tried(index, point, is_anomalous)?;
            }
        }
        Ok(())
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
        self.findings[index].spent += 1;
        match seen.outcome {
            Outcome::Inconclusive => Ok(()),
            Outcome::Anomalous(_) => self.tried(index, &point, true),
            Outcome::Healthy => self.tried(index, &point, false),
        }
    }

    /// Takes in a random point inside; after many healthy ones the region is read again.
    fn tried(&mut self, index: usize, point: &Workload, is_anomalous: bool) -> Result<(), O::Error> {
        self.findings[index].tried(point.clone(), is_anomalous);
        self.findings[index].is_stale |= !is_anomalous && self.findings[index].is_impure();
        self.store(index)
    }
}

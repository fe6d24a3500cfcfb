//! The default search: discover first, refine later. `docs/search.md` explains it; the stages are one file each.
//!
//! A workload that is looked at passes [`corners`] (where it comes from), `explain` (is it a known weakness?), `minimise`
//! (what does it need?) and `relieve` (what else is behind it?). Findings go to `refine` when little new is to be
//! expected.

mod corners;
mod diagonal;
mod explain;
mod factors;
mod known;
mod lab;
mod minimise;
mod products;
mod reduce;
mod refine;
mod relieve;

use kelpie_spaces::{Feature, Region, Space, Workload};

use crate::config::Config;
use crate::finding::Cure;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;
use corners::Explorer;
use factors::moved;
use known::Known;
use lab::Lab;
use reduce::Needs;

/// Most workloads that one exploration leads to. Source: our choice.
const MOST_LEADS: usize = 40;
/// Share of explorations that find something new, below which regions are refined. Source: our choice.
const LITTLE_NEW: f64 = 0.1;
/// Explorations that this share is a mean of. Source: our choice.
const RECENT: f64 = 20.0;
/// Share of the explorations whose region may be wrong, from which on the region is refined. Source: our choice.
const LITTLE_DOUBT: f64 = 0.02;

/// Steps in a row without an experiment after which all that the search can reach is known. Source: our choice.
const MOST_IDLE: u32 = 1000;

struct Search<'a, O: Oracle> {
    lab: Lab<'a, O>,
    explorer: Explorer,
    /// Of minimising.
    needs: Needs,
    /// Of healthy points inside regions.
    borders: Needs,
    findings: Vec<Known>,
    avoided: Vec<Region>,
    /// Workloads to look at next, the last first.
    leads: Vec<Workload>,
    explorations: u32,
    /// Share of the last explorations that found something new.
    novelty: f64,
}

/// Searches until the oracle stops it, or until nothing is left to measure.
pub(crate) fn run<O: Oracle>(space: &Space, config: &Config, oracle: &mut O) -> Result<(), O::Error> {
    let mut lab = Lab::new(space, config.seed, oracle);
    let explorer = Explorer::new(space, &mut lab.rng);
    let mut search = Search {
        lab,
        explorer,
        needs: Needs::default(),
        borders: Needs::default(),
        findings: Vec::new(),
        avoided: config.known.clone(),
        leads: Vec::new(),
        explorations: 0,
        novelty: 1.0,
    };
    let mut idle = 0;
    while idle < MOST_IDLE {
        let before = search.lab.experiments();
        search.step()?;
        idle = if search.lab.experiments() == before { idle + 1 } else { 0 };
    }
    Ok(())
}

impl<O: Oracle> Search<'_, O> {
    /// Discovers first: regions are refined when few explorations find something new.
    fn step(&mut self) -> Result<(), O::Error> {
        if let Some(index) = (0..self.findings.len()).find(|index| self.findings[*index].is_due()) {
            return self.refine(index);
        }
        let doubtful = self.least_sure().filter(|index| self.share_in_doubt(*index) > LITTLE_DOUBT);
        if let Some(index) = doubtful.filter(|_| self.novelty < LITTLE_NEW) {
            return self.refine(index);
        }
        let known = self.findings.len();
        self.explore()?;
        let is_new = f64::from(u8::from(self.findings.len() > known));
        self.novelty += (is_new - self.novelty) / RECENT;
        Ok(())
    }

    /// Looks at one new workload, and at all that it leads to.
    fn explore(&mut self) -> Result<(), O::Error> {
        self.explorations += 1;
        let (first, is_random) = self.explorer.next(self.lab.space, &mut self.lab.rng);
        if is_random {
            self.check(&first)?;
        }
        self.leads = vec![first];
        for _ in 0..MOST_LEADS {
            let Some(workload) = self.leads.pop() else { break };
            self.follow(&workload)?;
        }
        Ok(())
    }

    fn follow(&mut self, workload: &Workload) -> Result<(), O::Error> {
        if self.avoided.iter().any(|region| region.contains(workload)) {
            self.lab.oracle().skipped(workload);
            return Ok(());
        }
        if let Some(index) = self.findings.iter().position(|known| known.contains(workload)) {
            self.lab.oracle().skipped(workload);
            self.findings[index].visits += 1;
            self.relieve(workload, index);
            return Ok(());
        }
        let seen = self.lab.look(workload, Purpose::Search)?;
        match seen.outcome {
            Outcome::Healthy => self.explorer.healthy(workload, &seen),
            Outcome::Inconclusive => self.calm(workload),
            Outcome::Anomalous(symptom) => {
                let explained = self.explain(workload, symptom)?;
                let index = if explained.is_some() { explained } else { self.minimise(workload, symptom)? };
                if let Some(index) = index {
                    self.relieve(workload, index);
                }
            }
        }
        Ok(())
    }

    /// The finding whose doubtful part weighs most.
    fn least_sure(&self) -> Option<usize> {
        let open = (0..self.findings.len()).filter(|index| !self.findings[*index].is_stuck);
        open.max_by(|a, b| self.share_in_doubt(*a).total_cmp(&self.share_in_doubt(*b)))
    }

    /// Share of the explorations that end in a finding's region and might as well be healthy.
    fn share_in_doubt(&self, index: usize) -> f64 {
        let known = &self.findings[index];
        let doubt = if known.is_bounded { known.doubt() } else { 1.0 };
        f64::from(known.visits) / f64::from(self.explorations.max(1)) * doubt
    }

    /// Hands a finding to the oracle, as it is now.
    fn store(&mut self, index: usize) -> Result<(), O::Error> {
        let known = &self.findings[index];
        let effect = |feature: &Feature| {
            let without = moved(self.lab.space, &known.witness, &[*feature], &known.plain)?;
            match self.lab.recall(&without)?.outcome {
                Outcome::Healthy => Some(true),
                Outcome::Anomalous(_) => Some(false),
                Outcome::Inconclusive => None,
            }
        };
        let cures = known.factors.iter().filter_map(|feature| {
            let condition = known.condition(*feature)?.clone();
            Some(Cure { condition, cured: effect(feature) })
        });
        let finding = known.finding(cures.collect());
        self.lab.oracle().found(index as u64 + 1, &finding)
    }
}

#[cfg(test)]
mod tests;

//! The default search: discover first, refine later. `docs/search.md` explains it; the stages are one file each.
//!
//! A workload that is looked at passes [`corners`] (where it comes from), `explain` (is it a known weakness?), `minimise`
//! (what does it need?) and `relieve` (what else is behind it?). The less is new, the more `refine` looks at random points.

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
mod region;
mod relieve;

use kelpie_monitor::Symptom;
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
/// Explorations that the share of those which find something new is a mean of. Source: our choice.
const RECENT: f64 = 20.0;
/// Experiments with random points for each experiment of an exploration, where half of the explorations find something
/// new. Source: our choice.
const SURVEYED: f64 = 0.15;
/// That share, where it is taken for no less. Source: our choice, so that one experiment in ten goes on exploring.
const LEAST_NOVELTY: f64 = 0.05;

/// Steps in a row without an experiment after which all that the search can reach is known. Source: our choice.
const MOST_IDLE: u32 = 1000;

struct Search<'a, O: Oracle> {
    lab: Lab<'a, O>,
    explorer: Explorer,
    /// Of minimising.
    needs: Needs,
    findings: Vec<Known>,
    avoided: Vec<Region>,
    /// Workloads to look at next, the last first.
    leads: Vec<Workload>,
    /// Findings that looked like none before.
    looks: u32,
    /// Looks at random points.
    surveys: u32,
    /// Experiments of explorations, and of looks at random points.
    explored: u64,
    surveyed: u64,
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
        findings: Vec::new(),
        avoided: config.known.clone(),
        leads: Vec::new(),
        looks: 0,
        surveys: 0,
        explored: 0,
        surveyed: 0,
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
    /// Discovers first; the less that finds which is new, the more random points are looked at instead.
    fn step(&mut self) -> Result<(), O::Error> {
        if let Some(index) = (0..self.findings.len()).find(|index| self.findings[*index].is_due()) {
            return self.settle(index);
        }
        let before = (self.looks, self.lab.experiments());
        let wanted = SURVEYED * (1.0 / self.novelty.max(LEAST_NOVELTY) - 1.0) * self.explored as f64;
        if self.lab.model().is_some() && (self.surveyed as f64) < wanted {
            self.survey()?;
            self.surveyed += self.lab.experiments() - before.1;
        } else {
            self.explore()?;
            self.explored += self.lab.experiments() - before.1;
            let is_new = f64::from(u8::from(self.looks > before.0));
            self.novelty += (is_new - self.novelty) / RECENT;
        }
        self.refresh()
    }

    /// Looks at one new workload, and at all that it leads to.
    fn explore(&mut self) -> Result<(), O::Error> {
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
                if let Some(index) = self.account_for(workload, symptom)? {
                    self.relieve(workload, index);
                }
            }
        }
        Ok(())
    }

    /// The finding that an anomaly is, known or new.
    fn account_for(&mut self, workload: &Workload, symptom: Symptom) -> Result<Option<usize>, O::Error> {
        let explained = self.explain(workload, symptom)?;
        if explained.is_some() { Ok(explained) } else { self.minimise(workload, symptom) }
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
        let hull = known.hull(self.lab.space);
        let cures = known.factors.iter().filter_map(|feature| {
            let of_hull = || hull.conditions.iter().find(|condition| condition.feature == *feature);
            let condition = known.condition(*feature).or_else(of_hull)?.clone();
            Some(Cure { condition, cured: effect(feature) })
        });
        let finding = known.finding(cures.collect());
        self.lab.oracle().found(index as u64 + 1, &finding)
    }
}

#[cfg(test)]
mod tests;

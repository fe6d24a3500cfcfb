//! The default search: discover first, refine later. `docs/explained/search.md` explains it; the stages are one file
//! each.
//!
//! A workload comes from `explore`. Anomalies wait in `touched_anomalies`; the most promising one passes `explain` (is
//! it a known weakness?) and `minimise` (what does it need?), or `relieve` (what is behind a known one?). The more
//! experiments there are, the more of them `refine` spends on the conditions of findings, and on surveys of the space;
//! `fold` finds variants of one weakness.

mod conditions;
mod distil;
mod experiments;
mod explain;
mod explore;
mod factors;
mod fold;
mod minimise;
mod open_finding;
mod reduce;
mod refine;
mod relieve;
mod resume;
mod signature;
mod touched_anomalies;

use std::rc::Rc;

use kelpie_spaces::{Feature, Region, Space, Workload};

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::discovery::{RefiningExperiments, Yields};
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;
pub use distil::{Distilled, distil};
use experiments::{Experiments, SearchExperiment};
use explore::Explorer;
use factors::moved;
use open_finding::OpenFinding;
use reduce::Needs;
use signature::Signature;
use touched_anomalies::{AnomalyAction, TouchedAnomaly};

/// Experiments after which every second one refines, few before and most after. Source: our choice, because new
/// weaknesses come ever more slowly (on model F two or three each time that experiments double), and what is not found
/// cannot be refined.
const EVEN: f64 = 500.0;

/// Weaknesses for each experiment that exploring promises, below which findings are refined instead. Source: our
/// choice; to measure the conditions of a finding takes some 20 experiments.
const WORTH: f64 = 0.03;

/// Steps in a row without an experiment after which all that the search can reach is known, besides two for each
/// anomaly that waits. Source: our choice.
const MOST_IDLE: usize = 1000;

struct Search<'a, O: Oracle> {
    lab: Experiments<'a, O>,
    explorer: Explorer,
    /// Of minimising.
    needs: Needs,
    findings: Vec<OpenFinding>,
    avoided: Vec<Region>,
    /// Anomalies to account for.
    touched: Vec<TouchedAnomaly>,
    yields: Yields,
    spent: RefiningExperiments,
    /// Steps in a row without an experiment.
    idle: u32,
}

/// Searches, from a checkpoint if there is one, until the oracle stops it, or until nothing is left to measure.
pub(crate) fn run<O: Oracle>(
    space: &Space,
    config: &Config,
    from: Option<Checkpoint>,
    oracle: &mut O,
) -> Result<(), O::Error> {
    let mut search = Search::begin(space, config, from, oracle)?;
    while (search.idle as usize) < MOST_IDLE + 2 * search.touched.len() {
        search.between_steps()?;
        let before = search.lab.experiments();
        search.step()?;
        search.idle = if search.lab.experiments() == before { search.idle + 1 } else { 0 };
    }
    Ok(())
}

impl<O: Oracle> Search<'_, O> {
    /// Refines if that is due, or does what promises most new weaknesses for each experiment.
    fn step(&mut self) -> Result<(), O::Error> {
        if let Some(index) = (0..self.findings.len()).find(|index| self.findings[*index].is_due()) {
            return self.settle(index);
        }
        if self.is_refining_due() {
            return self.refine();
        }
        let before = self.lab.experiments();
        match self.most_promising() {
            Some((touched, AnomalyAction::Account)) => {
                self.account_for(&touched)?;
                self.yields.accounted(self.lab.experiments() - before);
            }
            Some((touched, AnomalyAction::Relieve)) => {
                let is_new = self.relieve(&touched)?;
                self.yields.relieved(is_new);
                self.wait_on(touched);
            }
            None if self.yields.of_exploring() < WORTH && self.refine_a_finding()? => {}
            None => {
                let workload = self.explorer.next(self.lab.space, &mut self.lab.rng);
                let is_new = self.follow(&workload, Purpose::Search)?;
                self.yields.explored(is_new);
            }
        }
        Ok(())
    }

    /// After n experiments the share of refining among the next ones is `n² / (n² + EVEN²)`; this is its sum.
    fn is_refining_due(&self) -> bool {
        let experiments = self.lab.experiments() as f64;
        // Findings that were refined because exploring showed nothing new are no reason to survey less.
        let spent = self.spent.all().min(3 * self.spent.surveys);
        (spent as f64) < experiments - EVEN * (experiments / EVEN).atan()
    }

    /// Looks at a workload; says whether it shows something new.
    fn follow(&mut self, workload: &Workload, purpose: Purpose) -> Result<bool, O::Error> {
        if self.avoided.iter().any(|region| region.contains(workload)) {
            self.lab.oracle().skipped(workload);
            return Ok(false);
        }
        let seen = self.lab.look(workload, purpose)?;
        match seen.outcome {
            Outcome::Inconclusive if seen.is_sampled() => self.calm(workload),
            Outcome::Healthy | Outcome::Inconclusive => Ok(false),
            Outcome::Anomalous(symptom) => Ok(self.touch(workload, symptom, &seen)),
        }
    }

    /// Explains an anomaly, or makes a finding of it.
    fn account_for(&mut self, touched: &TouchedAnomaly) -> Result<(), O::Error> {
        if self.explain(touched)?.is_none() && !self.recognise(touched)? {
            self.minimise(&touched.workload, touched.symptom)?;
        }
        Ok(())
    }

    /// The witness of a finding without each factor, as far as that was measured, and what it showed.
    fn removals<'k>(
        &'k self,
        known: &'k OpenFinding,
    ) -> impl Iterator<Item = (Feature, Workload, &'k Rc<SearchExperiment>)> {
        known.factors.iter().filter_map(|factor| {
            let without = moved(self.lab.space, &known.witness, &[*factor], &known.plain)?;
            let seen = self.lab.recall(&without)?;
            Some((*factor, without, seen))
        })
    }

    /// By which counters a finding shows.
    fn signature(&self, known: &OpenFinding) -> Signature {
        let mut signature = Signature::default();
        for (_, _, seen) in self.removals(known).filter(|(_, _, seen)| !known.keeps(seen)) {
            signature.add(&known.seen, seen);
        }
        signature
    }

    /// Hands a finding to the oracle, as it is now.
    fn store(&mut self, index: usize) -> Result<(), O::Error> {
        let known = &self.findings[index];
        let cured = self.removals(known).map(|(factor, _, seen)| (factor, !known.keeps(seen)));
        let finding = known.finding(&cured.collect(), self.signature(known));
        self.lab.oracle().found(index as u64 + 1, &finding)
    }
}

#[cfg(test)]
mod tests;

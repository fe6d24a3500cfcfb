//! The default search: discover first, refine later. `docs/search.md` explains it; the stages are one file each.
//!
//! A workload comes from `explore`. Anomalies wait in `touched`; the most promising one passes `explain` (is it a known
//! weakness?) and `minimise` (what does it need?), or `relieve` (what is behind a known one?). The more experiments
//! there are, the more of them `refine` spends on regions.

mod distil;
mod drawn;
mod explain;
mod explore;
mod factors;
mod known;
mod lab;
mod minimise;
mod reduce;
mod refine;
mod region;
mod relieve;
mod standing;
mod touched;
mod trim;

use std::rc::Rc;

use kelpie_spaces::{Feature, Region, Space, Workload};

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::discovery::Yields;
use crate::finding::Cure;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;
pub use distil::{Distilled, Edge, Transport, distil};
use drawn::Drawn;
use explore::Explorer;
use factors::moved;
use known::Known;
use lab::Lab;
use reduce::Needs;
use region::Evidence;
use touched::{Touched, Way};

/// Experiments after which every second one is a survey. Source: our choice, because new weaknesses come ever more slowly (on
/// model F two or three each time that experiments double), and answers get better with each survey.
const EVEN: f64 = 500.0;

/// Steps in a row without an experiment after which all that the search can reach is known, besides two for each anomaly that
/// waits. Source: our choice.
const MOST_IDLE: usize = 1000;

struct Search<'a, O: Oracle> {
    lab: Lab<'a, O>,
    explorer: Explorer,
    /// Of minimising.
    needs: Needs,
    findings: Vec<Known>,
    /// Random workloads of the space, once a region was read.
    drawn: Option<Rc<Drawn<'a>>>,
    /// What regions are read from, once one was read since trees learnt.
    evidence: Option<Rc<Evidence<'a>>>,
    avoided: Vec<Region>,
    /// Anomalies to account for.
    touched: Vec<Touched>,
    yields: Yields,
    /// Looks to draw regions.
    surveys: u32,
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
    /// Surveys if that is due, or does what promises most new weaknesses for each experiment.
    fn step(&mut self) -> Result<(), O::Error> {
        if let Some(index) = (0..self.findings.len()).find(|index| self.findings[*index].is_due()) {
            return self.settle(index);
        }
        if self.is_survey_due() {
            self.survey()?;
            return self.refresh();
        }
        let before = self.lab.experiments();
        match self.most_promising() {
            Some((touched, Way::Account)) => {
                self.account_for(&touched)?;
                self.yields.accounted(self.lab.experiments() - before);
            }
            Some((touched, Way::Relieve)) => {
                let is_new = self.relieve(&touched)?;
                self.yields.relieved(is_new);
                self.wait_on(touched);
            }
            None => {
                let workload = self.explorer.next(self.lab.space, &mut self.lab.rng);
                let is_new = self.follow(&workload, Purpose::Search)?;
                self.yields.explored(is_new);
            }
        }
        self.refresh()
    }

    /// After n experiments the share of surveys among the next ones is `n / (n + EVEN)`; this is its sum.
    fn is_survey_due(&self) -> bool {
        let experiments = self.lab.experiments() as f64;
        let wanted = experiments - EVEN * (experiments / EVEN).ln_1p();
        self.lab.model().is_some() && f64::from(self.surveys) < wanted
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
    fn account_for(&mut self, touched: &Touched) -> Result<(), O::Error> {
        if self.explain(touched)?.is_none() {
            self.minimise(&touched.workload, touched.symptom)?;
        }
        Ok(())
    }

    /// Hands a finding to the oracle, as it is now.
    fn store(&mut self, index: usize) -> Result<(), O::Error> {
        let known = &self.findings[index];
        let effect = |feature: &Feature| {
            let without = moved(self.lab.space, &known.witness, &[*feature], &known.plain)?;
            self.lab.recall(&without)?.outcome.is_anomalous().map(|is_anomalous| !is_anomalous)
        };
        let hull = known.hull(self.lab.space);
        let cures = known.factors.iter().filter_map(|feature| {
            let condition = known.region.condition(*feature).or_else(|| hull.condition(*feature))?.clone();
            Some(Cure { condition, cured: effect(feature) })
        });
        let finding = known.finding(cures.collect());
        self.lab.oracle().found(index as u64 + 1, &finding)
    }
}

#[cfg(test)]
mod tests;

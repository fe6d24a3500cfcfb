//! The default search: discover first, refine later. `docs/search.md` explains it; the stages are one file each.
//!
//! A workload that is looked at passes [`corners`] (where it comes from), `explain` (is it a known weakness?), `minimise`
//! (what does it need?) and `relieve` (what else is behind it?). Findings go to `refine` when little new is to be
//! expected.

mod corners;
mod explain;
mod factors;
mod known;
mod lab;
mod minimise;
mod reduce;
mod refine;
mod relieve;

use kelpie_spaces::{Region, Space, Workload};

use crate::config::Config;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;
use corners::Explorer;
use known::Known;
use lab::{Lab, Seen};
use reduce::Needs;

/// Most workloads that one exploration leads to. Source: our choice.
const MOST_LEADS: usize = 40;
/// Part of the explorations that is expected to show something new, from which on findings are refined first. Source:
/// our choice, because it is what a region may leave open.
const LITTLE_NEW: f64 = 0.05;

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
    /// Anomalies that look like ones that are known, and wait for an explanation.
    backlog: Vec<Workload>,
    explorations: u32,
}

/// Searches until the oracle stops it.
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
        backlog: Vec::new(),
        explorations: 0,
    };
    loop {
        search.step()?;
    }
}

impl<O: Oracle> Search<'_, O> {
    /// Does what promises most: something new first, then bounds, then anomalies that nothing explains yet.
    fn step(&mut self) -> Result<(), O::Error> {
        if self.novelty() > LITTLE_NEW {
            return self.explore();
        }
        if let Some(index) = self.findings.iter().position(|known| !known.is_bounded) {
            return self.refine(index);
        }
        if let Some(anomaly) = self.backlog.pop() {
            return self.settle(&anomaly);
        }
        match self.most_doubtful() {
            Some(index) if self.findings[index].doubt() > self.novelty() => self.refine(index),
            _ => self.explore(),
        }
    }

    /// Explains an anomaly, if no region has it by now.
    fn settle(&mut self, anomaly: &Workload) -> Result<(), O::Error> {
        let seen = self.lab.look(anomaly, Purpose::Search)?;
        if let Outcome::Anomalous(symptom) = seen.outcome
            && !self.findings.iter().any(|known| known.contains(anomaly))
            && self.explain(anomaly, symptom)?.is_none()
        {
            self.minimise(anomaly, symptom)?;
        }
        Ok(())
    }

    /// Looks at one new workload, and at all that it leads to.
    fn explore(&mut self) -> Result<(), O::Error> {
        self.explorations += 1;
        let first = self.explorer.next(self.lab.space, &mut self.lab.rng);
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
                // Something new comes first.
                if let Some(index) = self.resembled(workload, &seen) {
                    self.findings[index].visits += 1;
                    self.backlog.push(workload.clone());
                    return Ok(());
                }
                let index = match self.explain(workload, symptom)? {
                    Some(index) => index,
                    None => self.minimise(workload, symptom)?,
                };
                self.relieve(workload, index);
            }
        }
        Ok(())
    }

    /// Share of the explorations that the next one is expected to add something new to. Source: Good and Turing's
    /// estimate, the number of what was seen once.
    fn novelty(&self) -> f64 {
        let once = self.findings.iter().filter(|known| known.visits == 1).count();
        (once as f64 + 1.0) / (f64::from(self.explorations) + 1.0)
    }

    /// A finding that may explain the anomaly, and shows the same.
    fn resembled(&self, anomaly: &Workload, seen: &Seen) -> Option<usize> {
        self.findings.iter().position(|known| {
            known.shows(seen) && known.may_explain(anomaly) && self.is_same(&known.seen, seen)
        })
    }

    /// The finding whose region is least sure.
    fn most_doubtful(&self) -> Option<usize> {
        let open = (0..self.findings.len()).filter(|index| !self.findings[*index].is_stuck);
        open.max_by(|a, b| self.findings[*a].doubt().total_cmp(&self.findings[*b].doubt()))
    }

    /// Hands a finding to the oracle, as it is now.
    fn store(&mut self, index: usize) -> Result<(), O::Error> {
        let finding = self.findings[index].finding();
        self.lab.oracle().found(index as u64 + 1, &finding)
    }
}

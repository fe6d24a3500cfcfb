//! A subsystem in closed form for the tests: weaknesses with known regions, and signals that warm up near them.

use std::collections::{BTreeMap, HashSet};

use kelpie_monitor::{Assessment, Inconclusive, Symptom};
use kelpie_spaces::{Condition, Feature, Region, Test, Workload};

use crate::checkpoint::Checkpoint;
use crate::finding::Finding;
use crate::oracle::{Oracle, Purpose};
use crate::signals::{Observation, UTILISATION};

/// A lower bound.
pub(crate) fn at_least(feature: Feature, min: u64) -> Condition {
    Condition { feature, test: Test::Range { min: Some(min), max: None } }
}

/// An upper bound.
pub(crate) fn at_most(feature: Feature, max: u64) -> Condition {
    Condition { feature, test: Test::Range { min: None, max: Some(max) } }
}

/// Both bounds.
pub(crate) fn within(feature: Feature, min: u64, max: u64) -> Condition {
    Condition { feature, test: Test::Range { min: Some(min), max: Some(max) } }
}

/// One of these words.
pub(crate) fn one_of(feature: Feature, words: &[&str]) -> Condition {
    Condition { feature, test: Test::In(words.iter().map(|word| (*word).to_owned()).collect()) }
}

/// One weakness of the subsystem.
#[derive(Debug, Clone)]
pub(crate) struct PlantedWeakness {
    pub(crate) symptom: Symptom,
    pub(crate) region: Region,
}

impl PlantedWeakness {
    pub(crate) fn new(symptom: Symptom, conditions: &[Condition]) -> Self {
        Self { symptom, region: Region { conditions: conditions.to_vec() } }
    }

    pub(crate) fn holds(&self, workload: &Workload) -> bool {
        self.region.contains(workload)
    }
}

/// The oracle ends a search with this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetSpent;

/// An oracle that knows its weaknesses.
pub(crate) struct ClosedForm {
    pub(crate) weaknesses: Vec<PlantedWeakness>,
    pub(crate) budget: usize,
    /// Stops at this many findings.
    pub(crate) wanted: usize,
    /// Anomalies in here may not show on another day.
    pub(crate) unsure: Option<Region>,
    /// Nothing runs in here.
    pub(crate) deadly: Option<Region>,
    /// Every how many distinct questions an answer is inconclusive.
    pub(crate) inconclusive_every: usize,
    pub(crate) asked: Vec<(Workload, Purpose)>,
    /// What was asked before the checkpoint that a search goes on from.
    pub(crate) before: Vec<(Workload, Purpose)>,
    pub(crate) skipped: usize,
    pub(crate) findings: Vec<Finding>,
    pub(crate) checkpoints: Vec<Checkpoint>,
}

impl ClosedForm {
    pub(crate) fn new(weaknesses: &[PlantedWeakness], budget: usize) -> Self {
        Self {
            weaknesses: weaknesses.to_vec(),
            budget,
            wanted: usize::MAX,
            unsure: None,
            deadly: None,
            inconclusive_every: usize::MAX,
            asked: Vec::new(),
            before: Vec::new(),
            skipped: 0,
            findings: Vec::new(),
            checkpoints: Vec::new(),
        }
    }

    /// The truth about a workload.
    pub(crate) fn symptoms(&self, workload: &Workload) -> Vec<Symptom> {
        let hit = |weakness: &&PlantedWeakness| weakness.holds(workload);
        let mut symptoms: Vec<Symptom> = self.weaknesses.iter().filter(hit).map(|weakness| weakness.symptom).collect();
        symptoms.sort_unstable();
        symptoms.dedup();
        symptoms
    }

    /// The weaknesses that some finding is about.
    pub(crate) fn distinct(&self) -> usize {
        let hits = |finding: &Finding| {
            self.weaknesses
                .iter()
                .position(|weakness| weakness.symptom == finding.symptom && weakness.holds(&finding.workload))
        };
        self.findings.iter().filter_map(hits).collect::<HashSet<_>>().len()
    }

    /// What the question of this number is answered.
    fn observation(&self, workload: &Workload, number: usize) -> Observation {
        let assessment = if self.deadly.as_ref().is_some_and(|deadly| deadly.contains(workload)) {
            Assessment::of_nothing(Inconclusive::NoSamples)
        } else if number.is_multiple_of(self.inconclusive_every) {
            Assessment::of_nothing(Inconclusive::Unstable { deviation: 0.5 })
        } else {
            Assessment::of_symptoms(self.symptoms(workload))
        };
        let shows_again = !self.unsure.as_ref().is_some_and(|unsure| unsure.contains(workload));
        let lost = if assessment.symptoms.contains(&Symptom::LowThroughput) { 0.5 } else { 0.0 };
        Observation { assessment, signals: self.signals(workload), lost, pause: 0.0, shows_again }
    }

    fn signals(&self, workload: &Workload) -> BTreeMap<String, f64> {
        let share = |weakness: &PlantedWeakness| {
            let held = weakness.region.conditions.iter().filter(|condition| condition.holds(workload)).count();
            held as f64 / weakness.region.conditions.len().max(1) as f64
        };
        let shares = self.weaknesses.iter().map(share);
        let heat = shares.clone().enumerate().map(|(index, share)| (format!("part_{index}_miss"), share * 1e6));
        let utilisation = 1.0 - shares.fold(0.0, f64::max) / 2.0;
        heat.chain([(UTILISATION.to_owned(), utilisation)]).collect()
    }
}

impl Oracle for ClosedForm {
    type Error = BudgetSpent;

    fn measure(&mut self, workload: &Workload, purpose: Purpose) -> Result<Observation, BudgetSpent> {
        if self.asked.len() >= self.budget || self.findings.len() >= self.wanted {
            return Err(BudgetSpent);
        }
        self.asked.push((workload.clone(), purpose));
        Ok(self.observation(workload, self.before.len() + self.asked.len()))
    }

    fn skipped(&mut self, _: &Workload) {
        self.skipped += 1;
    }

    fn found(&mut self, number: u64, finding: &Finding) -> Result<(), BudgetSpent> {
        let index = number as usize - 1;
        if index == self.findings.len() {
            self.findings.push(finding.clone());
        } else {
            self.findings[index] = finding.clone();
        }
        Ok(())
    }

    fn past(&mut self, visit: &mut dyn FnMut(Workload, Observation, Purpose) -> bool) -> Result<(), BudgetSpent> {
        for (number, (workload, purpose)) in (1..).zip(self.before.clone()) {
            let seen = self.observation(&workload, number);
            assert!(visit(workload, seen, purpose), "nothing was measured twice");
        }
        Ok(())
    }

    fn between_steps(&mut self, checkpoint: &dyn Fn() -> Checkpoint) -> Result<(), BudgetSpent> {
        self.checkpoints.push(checkpoint());
        Ok(())
    }
}

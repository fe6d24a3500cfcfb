//! Anomalies that were touched and not accounted for: which of them promises most, and how much exploring promises.

use std::rc::Rc;

use kelpie_monitor::Symptom;
use kelpie_spaces::Workload;

use super::Search;
use super::experiments::{Past, SearchExperiment};
use super::open_finding::OpenFinding;
use crate::discovery::{TouchedState, Yields};
use crate::oracle::Oracle;

/// Plausibility of a finding from which on an anomaly that shows more is looked at without it. Source: our choice.
const PLAUSIBLE: f64 = 0.5;
/// Experiments that minimising costs as long as nothing was minimised. Source: our choice.
const COST: f64 = 10.0;
/// Share of explorations that show something new as long as nothing was explored. Source: our choice.
const NOVELTY: f64 = 0.2;
/// Explorations of which that share is a mean. Source: our choice.
const RECENT: f64 = 20.0;

/// An anomaly that waits.
pub(super) struct TouchedAnomaly {
    pub(super) workload: Workload,
    pub(super) symptom: Symptom,
    pub(super) seen: Rc<SearchExperiment>,
    /// How plausible it is that a finding explains it. Shape: 0 to 1.
    pub(super) known: f64,
    /// Whether it shows more than that finding.
    shows_more: bool,
}

impl TouchedAnomaly {
    pub(super) fn state(&self) -> TouchedState {
        let Self { symptom, known, shows_more, .. } = *self;
        TouchedState { experiment: self.seen.number, symptom, known, shows_more }
    }

    pub(super) fn of(state: &TouchedState, past: &Past<'_>) -> Self {
        let (workload, seen) = past.get(state.experiment);
        let TouchedState { symptom, known, shows_more, .. } = *state;
        Self { workload, symptom, seen, known, shows_more }
    }

    fn compare(&mut self, known: &OpenFinding) {
        let plausible = known.plausible(&self.workload, self.symptom, &self.seen);
        if plausible > self.known {
            (self.known, self.shows_more) = (plausible, !known.seen.accounts_for(&self.seen));
        }
    }
}

/// What is done with an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnomalyAction {
    /// It is explained or minimised.
    Account,
    /// It is looked at without what explains it plausibly.
    Relieve,
}

impl Default for Yields {
    fn default() -> Self {
        Self { accounted: 0, spent: 0, relieved: 0, relieved_new: 0, novelty: NOVELTY }
    }
}

impl Yields {
    pub(super) fn accounted(&mut self, experiments: u64) {
        self.accounted += 1;
        self.spent += experiments;
    }

    pub(super) fn relieved(&mut self, is_new: bool) {
        self.relieved += 1;
        self.relieved_new += u64::from(is_new);
    }

    pub(super) fn explored(&mut self, is_new: bool) {
        self.novelty += (f64::from(u8::from(is_new)) - self.novelty) / RECENT;
    }

    fn cost(&self) -> f64 {
        (self.spent as f64 + COST) / (self.accounted as f64 + 1.0)
    }

    /// Weaknesses found for each experiment, if one experiment touches a new one with this probability and minimising
    /// follows.
    fn after_a_look(&self, probability: f64) -> f64 {
        probability / (1.0 + probability * self.cost())
    }

    pub(super) fn of_exploring(&self) -> f64 {
        self.after_a_look(self.novelty)
    }

    fn of(&self, touched: &TouchedAnomaly) -> (f64, AnomalyAction) {
        let account = (1.0 - touched.known) / self.cost();
        let has_behind = touched.shows_more && touched.known >= PLAUSIBLE;
        let success = (self.relieved_new as f64 + 0.5) / (self.relieved as f64 + 1.0);
        let relieve = if has_behind { self.after_a_look(success) } else { 0.0 };
        if relieve > account { (relieve, AnomalyAction::Relieve) } else { (account, AnomalyAction::Account) }
    }
}

impl<O: Oracle> Search<'_, O> {
    /// Takes in an anomaly; says whether it looks new.
    pub(super) fn touch(&mut self, workload: &Workload, symptom: Symptom, seen: &Rc<SearchExperiment>) -> bool {
        if self.touched.iter().any(|touched| touched.workload == *workload) {
            return false;
        }
        let seen = Rc::clone(seen);
        let mut touched = TouchedAnomaly { workload: workload.clone(), symptom, seen, known: 0.0, shows_more: false };
        for known in &self.findings {
            touched.compare(known);
        }
        let is_alike = |other: &TouchedAnomaly| other.symptom == symptom && other.seen.is_like(&touched.seen);
        let is_new = touched.known < PLAUSIBLE && !self.touched.iter().any(is_alike);
        self.touched.push(touched);
        is_new
    }

    /// Keeps an anomaly that was relieved: it may be another weakness all the same.
    pub(super) fn wait_on(&mut self, touched: TouchedAnomaly) {
        self.touched.push(TouchedAnomaly { shows_more: false, ..touched });
    }

    /// The finding that explains an anomaly most plausibly.
    pub(super) fn most_plausible(
        &self,
        workload: &Workload,
        symptom: Symptom,
        seen: &SearchExperiment,
    ) -> Option<(f64, usize)> {
        let of = |(index, known): (usize, &OpenFinding)| (known.plausible(workload, symptom, seen), index);
        self.findings.iter().enumerate().map(of).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Compares what waits with a finding that is new or changed.
    pub(super) fn reconsider(&mut self, index: usize) {
        for touched in &mut self.touched {
            touched.compare(&self.findings[index]);
        }
    }

    /// Takes out the anomaly that promises most for each experiment, if that is more than exploring does.
    pub(super) fn most_promising(&mut self) -> Option<(TouchedAnomaly, AnomalyAction)> {
        let yields = self.touched.iter().map(|touched| self.yields.of(touched)).enumerate();
        let (at, (most, way)) = yields.max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        (most > self.yields.of_exploring()).then(|| (self.touched.swap_remove(at), way))
    }
}

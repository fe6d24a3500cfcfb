//! Whole searches on subsystem F: an algorithm finds weaknesses, and what it stores is anomalous. What algorithms
//! decide is tested in `search`, on functions whose answer is known.

use std::collections::BTreeSet;

use kelpie_engine::Subsystem;
use kelpie_monitor::{Verdict, assess};
use kelpie_search::{Algorithm, Config, Finding, Observation, Oracle, Purpose, SignalSet};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Space, Workload};

/// Weaknesses that the least of them finds in so few experiments.
const LEAST_FOUND: usize = 3;

struct Budgeted {
    subsystem: SimSubsystem,
    left: u64,
    findings: Vec<Finding>,
}

#[derive(Debug)]
struct Spent;

impl Oracle for Budgeted {
    type Error = Spent;

    fn measure(&mut self, workload: &Workload, _: Purpose) -> Result<Observation, Spent> {
        self.left = self.left.checked_sub(1).ok_or(Spent)?;
        let measurement = self.subsystem.measure(workload).expect("F can run every workload of its space");
        let assessment = assess(workload, &self.subsystem.bounds(), &measurement);
        Ok(Observation::new(workload, &measurement, assessment, &self.subsystem.bounds()))
    }

    fn skipped(&mut self, _: &Workload) {}

    fn found(&mut self, number: u64, finding: &Finding) -> Result<(), Spent> {
        self.findings.truncate(number as usize - 1);
        self.findings.push(finding.clone());
        Ok(())
    }
}

/// Searches F with so many experiments, and measures again what was found.
fn finds_weaknesses_of_f(algorithm: Algorithm, budget: u64) {
    let space = Space::catalog("full").expect("in the catalog");
    let mut subsystem = SimSubsystem::load("F").expect("embedded");
    let mut oracle = Budgeted { subsystem: subsystem.clone(), left: budget, findings: Vec::new() };
    let config = Config::new(algorithm, SignalSet::Both, 1);
    let _ = kelpie_search::run(&space, &config, &mut oracle);
    let mut found = BTreeSet::new();
    for finding in &oracle.findings {
        let measurement = subsystem.measure(&finding.workload).expect("F can run it");
        let assessment = assess(&finding.workload, &subsystem.bounds(), &measurement);
        assert_eq!(assessment.verdict, Verdict::Anomalous, "{algorithm}: {}", finding.mfs);
        assert!(finding.mfs.contains(&finding.workload), "{algorithm}: {}", finding.mfs);
        found.insert(subsystem.limiting().to_owned());
    }
    assert!(found.len() >= LEAST_FOUND, "{algorithm} found only {found:?}");
}

#[test]
fn the_default_search_finds_weaknesses_of_f() {
    finds_weaknesses_of_f(Algorithm::Kelpie, 150);
}

/// All algorithms and more experiments, by `make test-long`.
mod long {
    use super::{Algorithm, finds_weaknesses_of_f};

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn every_algorithm_finds_weaknesses_of_f() {
        for algorithm in Algorithm::ALL {
            finds_weaknesses_of_f(algorithm, 400);
        }
    }
}

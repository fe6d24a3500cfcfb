//! The state of one search: its oracle, its random numbers, and the regions that it skips.

use kelpie_spaces::{Region, Space, Workload};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::energy::Target;
use crate::finding::Finding;
use crate::oracle::{Oracle, Purpose};
use crate::signals::Observation;

/// Random points in a row that may lie in known regions before the space counts as covered.
///
/// Source: our choice, because then at most 0.3 % of the space is left, with 95 % confidence.
const COVERED_AFTER: u32 = 1000;

pub(crate) struct SearchState<'a, O: Oracle> {
    pub(crate) space: &'a Space,
    pub(crate) config: &'a Config,
    pub(crate) rng: Pcg64,
    oracle: &'a mut O,
    experiments: u64,
    findings: u64,
    known: Vec<Region>,
    /// What is to be optimised from where on, if the search goes on from a checkpoint.
    going_on: Option<(Vec<Target>, usize)>,
}

impl<'a, O: Oracle> SearchState<'a, O> {
    pub(crate) fn new(space: &'a Space, config: &'a Config, from: Option<Checkpoint>, oracle: &'a mut O) -> Self {
        let is_beginning = from.is_none();
        let begin = || Checkpoint::new(config.algorithm, Pcg64::seed_from_u64(config.seed), config.known.clone());
        let Checkpoint { rng, experiments, findings, known, targets, next, .. } = from.unwrap_or_else(begin);
        let going_on = (!is_beginning).then_some((targets, next));
        Self { space, config, rng, oracle, experiments, findings, known, going_on }
    }

    /// The targets in order and which of them comes next, once, if the search goes on from a checkpoint.
    pub(crate) fn take_targets(&mut self) -> Option<(Vec<Target>, usize)> {
        self.going_on.take()
    }

    /// Tells the oracle that the search can go on from here, with the target that comes next.
    pub(crate) fn between_steps(&mut self, targets: &[Target], next: usize) -> Result<(), O::Error> {
        let Self { config, rng, oracle, experiments, findings, known, .. } = self;
        oracle.between_steps(&|| Checkpoint {
            experiments: *experiments,
            findings: *findings,
            targets: targets.to_vec(),
            next,
            ..Checkpoint::new(config.algorithm, rng.clone(), known.clone())
        })
    }

    /// Experiments so far.
    pub(crate) fn experiments(&self) -> u64 {
        self.experiments
    }

    /// Measures, whether or not the workload was measured before.
    pub(crate) fn measure(&mut self, workload: &Workload, purpose: Purpose) -> Result<Observation, O::Error> {
        let seen = self.oracle.measure(workload, purpose)?;
        self.experiments += 1;
        Ok(seen)
    }

    /// `MatchMFS`: whether the workload lies in a region already found.
    pub(crate) fn is_known(&self, workload: &Workload) -> bool {
        self.known.iter().any(|region| region.contains(workload))
    }

    /// Tells the oracle that a workload is not measured because it is known.
    pub(crate) fn skip(&mut self, workload: &Workload) {
        self.oracle.skipped(workload);
    }

    /// A random point outside the known regions; `None` when they cover the space.
    pub(crate) fn unknown_point(&mut self) -> Option<Workload> {
        for _ in 0..COVERED_AFTER {
            let workload = self.space.sample(&mut self.rng);
            if !self.is_known(&workload) {
                return Some(workload);
            }
            self.oracle.skipped(&workload);
        }
        None
    }

    /// Stores a finding and skips its region from now on.
    pub(crate) fn found(&mut self, finding: &Finding) -> Result<(), O::Error> {
        self.findings += 1;
        self.oracle.found(self.findings, finding)?;
        self.known.push(finding.mfs.clone());
        Ok(())
    }
}

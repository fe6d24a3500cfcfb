//! The state of one search: its oracle, its random numbers, what was measured and the regions found.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Region, Space, Workload};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::config::Config;
use crate::finding::Finding;
use crate::history::{History, Outcome};
use crate::oracle::{Oracle, Purpose};
use crate::sightings::{Candidate, Sighting, Sightings};
use crate::signals::Observation;

/// What later search needs of a finding.
struct Found {
    symptom: Symptom,
    region: Region,
    workload: Workload,
}

pub(crate) struct SearchState<'a, O: Oracle> {
    pub(crate) space: &'a Space,
    pub(crate) config: &'a Config,
    pub(crate) rng: Pcg64,
    pub(crate) history: History,
    pub(crate) sightings: Sightings,
    oracle: &'a mut O,
    experiments: u64,
    /// How many of them regions took.
    pub(crate) spent_on_regions: u64,
    found: Vec<Found>,
    /// Regions that are skipped as well and are no findings.
    avoided: Vec<Region>,
}

impl<'a, O: Oracle> SearchState<'a, O> {
    pub(crate) fn new(space: &'a Space, config: &'a Config, oracle: &'a mut O) -> Self {
        Self {
            space,
            config,
            rng: Pcg64::seed_from_u64(config.seed),
            history: History::new(config.tuning.memory.outcomes),
            sightings: Sightings::new(config.tuning.likeness, config.tuning.memory.sightings),
            oracle,
            experiments: 0,
            spent_on_regions: 0,
            found: Vec::new(),
            avoided: config.known.clone(),
        }
    }

    /// Experiments so far.
    pub(crate) fn experiments(&self) -> u64 {
        self.experiments
    }

    /// Measures, whether or not the workload was measured before.
    pub(crate) fn measure(&mut self, workload: &Workload, purpose: Purpose) -> Result<Observation, O::Error> {
        let seen = self.oracle.measure(workload, purpose)?;
        self.experiments += 1;
        self.history.remember(workload, Outcome::from(&seen.assessment));
        self.sightings.remember(workload, &seen, self.experiments);
        Ok(seen)
    }

    /// What the workload shows, from memory if it was measured before.
    pub(crate) fn outcome(&mut self, workload: &Workload, purpose: Purpose) -> Result<Outcome, O::Error> {
        match self.history.recall(workload) {
            Some(outcome) => Ok(outcome),
            None => Ok(Outcome::from(&self.measure(workload, purpose)?.assessment)),
        }
    }

    /// The anomaly that deserves the next region.
    pub(crate) fn candidate(&self) -> Option<Candidate> {
        self.sightings.choose(|workload| self.is_known(workload), |sighting| self.is_beside_known(sighting))
    }

    /// Whether the anomaly would lie in a finding's region, but for one bound, and shows its symptom.
    fn is_beside_known(&self, sighting: &Sighting) -> bool {
        let outcome = Outcome::from(&sighting.seen.assessment);
        self.found.iter().any(|found| {
            let missed = found.region.missed_bounds(&sighting.workload, 1);
            outcome == Outcome::Anomalous(found.symptom) && missed.is_some_and(|missed| !missed.is_empty())
        })
    }

    /// `MatchMFS`: whether the workload lies in a region already found.
    pub(crate) fn is_known(&self, workload: &Workload) -> bool {
        self.found.iter().map(|found| &found.region).chain(&self.avoided).any(|region| region.contains(workload))
    }

    /// Whether it is too early for the first region.
    pub(crate) fn is_warming_up(&self) -> bool {
        self.experiments < self.config.warm_up()
    }

    /// Whether so little of a known budget is left that no region is looked for any more.
    pub(crate) fn is_closing(&self) -> bool {
        let part = self.config.tuning.pace.closing_part;
        let is_most_spent = |budget: u64| budget.saturating_sub(self.experiments).saturating_mul(part) < budget;
        self.config.budget.is_some_and(is_most_spent)
    }

    /// Whether a simplified anomaly looks like that of a finding.
    pub(crate) fn is_like_known(&self, anchor: &Workload) -> bool {
        self.found.iter().any(|found| self.sightings.are_alike(&found.workload, anchor))
    }

    /// Tells the oracle that a workload is not measured because it is known.
    pub(crate) fn skip(&mut self, workload: &Workload) {
        self.oracle.skipped(workload);
    }

    /// A random point outside the known regions; `None` when they cover the space.
    pub(crate) fn unknown_point(&mut self) -> Option<Workload> {
        for _ in 0..self.config.tuning.pace.covered_after {
            let workload = self.space.sample(&mut self.rng);
            if !self.is_known(&workload) {
                return Some(workload);
            }
            self.oracle.skipped(&workload);
        }
        None
    }

    /// Skips a region from now on that is no finding.
    pub(crate) fn avoid(&mut self, region: Region) {
        self.avoided.push(region);
    }

    /// Stores a finding and skips its region from now on.
    pub(crate) fn found(&mut self, finding: &Finding) -> Result<(), O::Error> {
        self.oracle.found(finding)?;
        let (region, workload) = (finding.mfs.clone(), finding.workload.clone());
        self.found.push(Found { symptom: finding.symptom, region, workload });
        Ok(())
    }
}

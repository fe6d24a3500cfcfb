//! The only wiring: a search asks, the store answers what it knows, the subsystem is measured for the rest.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, anyhow};
use kelpie_engine::{MeasureError, Subsystem};
use kelpie_monitor::{Assessment, Bounds, Inconclusive, Measurement, measure_judged};
use kelpie_search::{Config, Finding, Observation, Oracle, Purpose};
use kelpie_spaces::{Space, Workload};
use kelpie_store::{CampaignId, Experiment, ExperimentClock, FindingRecord, Outcome, Store, unix_ms};

use crate::progress::Progress;

/// How a campaign came to stand still.
#[derive(Debug)]
pub enum End {
    /// The budget is used up, or the search has nothing left to ask.
    Finished,
    /// The time is over.
    Time,
    /// The user wants it to stop.
    Interrupted,
    /// Kelpie failed.
    Failed(anyhow::Error),
}

/// When a campaign has to stand still.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// Experiments in all.
    pub budget: Option<u64>,
    /// A moment not to start experiments after.
    pub deadline: Option<Instant>,
    /// Raised by the user.
    pub stop: &'a AtomicBool,
}

/// Everything that a campaign needs besides its space and settings.
pub struct Parts<'a> {
    pub store: &'a mut Store,
    pub subsystem: &'a mut dyn Subsystem,
    pub bounds: Bounds,
    pub limits: Limits<'a>,
    pub progress: &'a mut Progress,
}

/// Runs a stored campaign from where it stands, or from its beginning, until something ends it.
///
/// The search always starts anew; for as long as it asks what was asked before, the store answers. So a campaign
/// that was killed goes on with the same decisions.
pub fn run(id: CampaignId, space: &Space, config: &Config, parts: Parts<'_>) -> End {
    let mut recorder = match Recorder::new(id, parts) {
        Ok(recorder) => recorder,
        Err(error) => return End::Failed(error),
    };
    match kelpie_search::run(space, config, &mut recorder).map_or_else(|end| end, |()| End::Finished) {
        End::Finished => match recorder.finish() {
            Ok(()) => End::Finished,
            Err(error) => End::Failed(error),
        },
        end => end,
    }
}

/// The oracle of a campaign.
struct Recorder<'a> {
    id: CampaignId,
    parts: Parts<'a>,
    /// Experiments that an earlier run stored.
    stored: u64,
    /// Experiments answered so far.
    number: u64,
    /// Workloads skipped since the last experiment.
    skipped: u64,
}

impl<'a> Recorder<'a> {
    fn new(id: CampaignId, parts: Parts<'a>) -> anyhow::Result<Self> {
        let stored = parts.store.campaign(id)?.experiments;
        Ok(Self { id, parts, stored, number: 0, skipped: 0 })
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if self.number < self.stored {
            return Err(self.diverged("ended early"));
        }
        Ok(self.parts.store.finish_campaign(self.id, self.skipped)?)
    }

    fn diverged(&self, what: &str) -> anyhow::Error {
        anyhow!(
            "campaign {} cannot be continued: at experiment {} the search {what}, unlike the stored campaign. \
             Another version of Kelpie wrote it, or the database was changed; `kelpie campaign show` still shows it",
            self.id,
            self.number
        )
    }

    /// The stored answer to the experiment that is asked for now.
    fn replay(&mut self, workload: &Workload, purpose: Purpose) -> anyhow::Result<Outcome> {
        let experiment = self
            .parts
            .store
            .experiment(self.id, self.number)?
            .with_context(|| format!("experiment {} of campaign {} is missing", self.number, self.id))?;
        let asked = (workload, &purpose.into(), self.skipped);
        if (&experiment.workload, &experiment.purpose, experiment.skipped_before) != asked {
            return Err(self.diverged("asks for something else"));
        }
        self.parts.progress.replayed(self.number);
        Ok(experiment.outcome)
    }

    /// Measures and stores the experiment that is asked for now.
    fn experiment(&mut self, workload: &Workload, purpose: Purpose) -> anyhow::Result<Outcome> {
        let started_unix_ms = unix_ms();
        let start = Instant::now();
        let outcome = match self.attempt(workload) {
            Err(error @ MeasureError::Host { .. }) => {
                self.parts.progress.line(&format!("{:#}; trying once more", anyhow!(error)));
                self.attempt(workload)
            }
            outcome => outcome,
        };
        let outcome = match outcome {
            Err(MeasureError::Unsupported { reason }) => Outcome::Unsupported { reason },
            outcome => outcome.with_context(|| format!("experiment {}", self.number))?,
        };
        let clock = ExperimentClock { started_unix_ms, duration_seconds: start.elapsed().as_secs_f64() };
        let experiment = Experiment {
            number: self.number,
            purpose: purpose.into(),
            skipped_before: self.skipped,
            workload: workload.clone(),
            outcome,
        };
        self.parts.store.append_experiment(self.id, &experiment, clock)?;
        self.parts.progress.measured(self.number);
        Ok(experiment.outcome)
    }

    fn attempt(&mut self, workload: &Workload) -> Result<Outcome, MeasureError> {
        let subsystem = &mut *self.parts.subsystem;
        let judged = measure_judged(workload, &self.parts.bounds, |workload| subsystem.measure(workload))?;
        Ok(Outcome::Measured {
            measurement: judged.measurement,
            assessment: judged.assessment,
            attempts: judged.attempts,
        })
    }

    fn check_limits(&self) -> Result<(), End> {
        let Limits { budget, deadline, stop } = self.parts.limits;
        if budget.is_some_and(|budget| self.number >= budget) {
            Err(End::Finished)
        } else if self.number < self.stored {
            // Replaying takes no time worth stopping for, and stopping would lose nothing.
            Ok(())
        } else if stop.load(Ordering::Relaxed) {
            Err(End::Interrupted)
        } else if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Err(End::Time)
        } else {
            Ok(())
        }
    }
}

impl Oracle for Recorder<'_> {
    type Error = End;

    fn measure(&mut self, workload: &Workload, purpose: Purpose) -> Result<Observation, End> {
        self.check_limits()?;
        self.number += 1;
        let outcome = if self.number <= self.stored {
            self.replay(workload, purpose)
        } else {
            self.experiment(workload, purpose)
        };
        let outcome = outcome.map_err(End::Failed)?;
        self.skipped = 0;
        let (measurement, assessment) = match outcome {
            Outcome::Measured { measurement, assessment, .. } => (measurement, assessment),
            Outcome::Unsupported { .. } => (Measurement::default(), Assessment::of_nothing(Inconclusive::NoSamples)),
        };
        Ok(Observation::new(&measurement, assessment, &self.parts.bounds))
    }

    fn skipped(&mut self, _workload: &Workload) {
        self.skipped += 1;
    }

    fn found(&mut self, number: u64, finding: &Finding) -> Result<(), End> {
        let record = FindingRecord::new(number, finding);
        self.parts.store.put_finding(self.id, &record).map_err(|error| End::Failed(error.into()))?;
        let is_replayed = self.number < self.stored;
        self.parts.progress.found(number, &FindingLine(self.id, &record).to_string(), is_replayed);
        Ok(())
    }
}

/// A finding in one line, such as `finding 3.1: pause where qps at least 16`.
pub struct FindingLine<'a>(pub CampaignId, pub &'a FindingRecord);

impl fmt::Display for FindingLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FindingLine(id, finding) = self;
        write!(f, "finding {id}.{}: {} where {}", finding.number, finding.symptom.name(), finding.mfs)
    }
}

#[cfg(test)]
mod tests;

//! The only wiring: a search asks, the store answers what it knows, the subsystem is measured for the rest.

mod checkpoint;
pub mod document;
pub mod environment;
pub mod measured_ways;
pub mod mfs_answer;
pub mod recipes;
mod remeasure;
pub mod text;
mod unstored;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use kelpie_engine::{MeasureError, Subsystem};
use kelpie_monitor::{Assessment, Bounds, Inconclusive, Measurement, Symptom, Verdict, measure_judged};
use kelpie_reports::brief;
use kelpie_search::{Checkpoint, Config, Finding, Observation, Oracle, Purpose};
use kelpie_spaces::{Flow, Host, Space, Workload};
use kelpie_store::{
    CampaignId, Experiment, ExperimentClock, ExperimentOutcome, FindingRecord, MeasuredAgain, Store, StoredCheckpoint,
    unix_ms,
};

use checkpoint::CampaignCheckpoint;
pub use unstored::UnstoredOracle;

/// How often a host may fail under a workload before the workload is to blame. Source: our choice, as often as an
/// inconclusive workload is measured.
const TRIES: usize = kelpie_monitor::ATTEMPTS as usize;

/// Stored experiments that are read at once. Source: our choice, a megabyte of them.
const READ_AHEAD: u32 = 256;

/// Experiments after which a checkpoint is stored, at least. Source: our choice, because going through as many again
/// takes milliseconds, and storing it no longer than storing an experiment.
const CHECKPOINT_EVERY: u64 = 100;
/// Part of all experiments after which it is, so that what is written of a long campaign does not grow with its square.
const CHECKPOINT_PART: u64 = 100;

/// Time after which it is, so that a campaign that is given little time at a time does not stand still.
const CHECKPOINT_SOONEST: Duration = Duration::from_secs(1);

/// Pause between looks whether a host is back. Source: our choice.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How a campaign came to stand still.
#[derive(Debug)]
pub enum StopReason {
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
pub struct CampaignLimits<'a> {
    /// Experiments in all.
    pub budget: Option<u64>,
    /// A moment not to start experiments after.
    pub deadline: Option<Instant>,
    /// How long a host that failed may take to come back.
    pub host_patience: Duration,
    /// Raised by the user.
    pub stop: &'a AtomicBool,
}

/// Who hears how a campaign goes on. It decides nothing.
pub trait Progress {
    /// A campaign goes on after so many experiments, which are not replayed.
    fn goes_on(&mut self, number: u64, findings: u64, anomalies: u64);

    /// So many stored experiments were read, which took no time and says nothing about the pace.
    fn read(&mut self, number: u64);

    /// A stored experiment was replayed.
    fn replayed(&mut self, number: u64, is_anomalous: bool);

    /// An experiment was measured and stored.
    fn measured(&mut self, number: u64, is_anomalous: bool);

    /// A finding came up, now or in an earlier run, or was refined.
    fn found(&mut self, number: u64, line: &str, replayed: bool);

    /// Something that people should know.
    fn line(&self, line: &str);
}

/// Everything that a campaign needs besides its space and settings.
pub struct CampaignParts<'a> {
    /// Where the campaign is stored.
    pub store: &'a mut Store,
    /// What is measured.
    pub subsystem: &'a mut dyn Subsystem,
    /// What its hosts can do at best.
    pub bounds: Bounds,
    /// When it stands still.
    pub limits: CampaignLimits<'a>,
    /// Who hears of it.
    pub progress: &'a mut dyn Progress,
}

/// Runs a stored campaign from where it stands, or from its beginning, until something ends it.
///
/// The search starts from its latest checkpoint, or anew; for as long as it asks what was asked before, the store
/// answers. So a campaign that was killed goes on with the same decisions.
pub fn run(id: CampaignId, space: &Space, config: &Config, parts: CampaignParts<'_>) -> StopReason {
    let (mut recorder, standing) = match CampaignOracle::new(id, config, parts) {
        Ok(recorder) => recorder,
        Err(error) => return StopReason::Failed(error),
    };
    let has_checkpoint = standing.is_some();
    let end = recorder.run(space, config, standing);
    if !(has_checkpoint && recorder.has_diverged) {
        return end;
    }
    // Nothing was written yet, and without the checkpoint it may go well.
    recorder.begin_again();
    recorder.parts.progress.line("the checkpoint does not fit the experiments after it; all of them are gone through");
    recorder.run(space, config, None)
}

/// The oracle of a campaign.
struct CampaignOracle<'a> {
    id: CampaignId,
    parts: CampaignParts<'a>,
    /// Experiments that an earlier run stored.
    stored: u64,
    /// Experiments answered so far.
    number: u64,
    /// Workloads skipped since the last experiment.
    skipped: u64,
    /// Whether the search is told that a host failed, and reduces that.
    reduces_failures: bool,
    /// The last workload that the hosts survived.
    survived: Option<Workload>,
    /// Anomalous experiments so far.
    anomalies: u64,
    /// Experiments before the latest checkpoint.
    checkpointed: u64,
    /// When that was.
    checkpointed_at: Instant,
    /// That checkpoint, until it is stored: not before the search has caught up.
    checkpoint: Option<StoredCheckpoint>,
    /// Whether the search asked for something else than what is stored.
    has_diverged: bool,
    /// Stored experiments that were read ahead of the search.
    ahead: VecDeque<Experiment>,
    /// Whether the store has the campaign as one that goes on, with its present budget.
    is_open: bool,
    /// Findings as they are so far, while the search catches up: the store has their latest form already.
    caught_up: BTreeMap<u64, FindingRecord>,
    /// What was measured beside experiments.
    again: Vec<MeasuredAgain>,
}

impl<'a> CampaignOracle<'a> {
    /// One that is at the beginning, and how far the campaign is known to be.
    fn new(
        id: CampaignId,
        config: &Config,
        parts: CampaignParts<'a>,
    ) -> anyhow::Result<(Self, Option<CampaignCheckpoint>)> {
        let stored = parts.store.campaign(id)?.experiments;
        let again = parts.store.measured_again(id)?;
        let standing = parts.store.checkpoint(id)?.and_then(|stored| CampaignCheckpoint::read(&stored, config));
        let recorder = Self {
            id,
            parts,
            stored,
            number: 0,
            skipped: 0,
            reduces_failures: config.reduce_host_failures,
            survived: None,
            anomalies: 0,
            checkpointed: 0,
            checkpointed_at: Instant::now(),
            checkpoint: None,
            has_diverged: false,
            ahead: VecDeque::new(),
            is_open: false,
            caught_up: BTreeMap::new(),
            again,
        };
        Ok((recorder, standing))
    }

    /// Searches from here until something ends it.
    fn run(&mut self, space: &Space, config: &Config, standing: Option<CampaignCheckpoint>) -> StopReason {
        let checkpoint = standing.map(|CampaignCheckpoint { search, skipped, anomalies, survived, .. }| {
            self.parts.progress.goes_on(search.experiments(), search.findings(), anomalies);
            (self.number, self.checkpointed) = (search.experiments(), search.experiments());
            (self.skipped, self.anomalies, self.survived) = (skipped, anomalies, survived);
            search
        });
        let end = match kelpie_search::run_from(space, config, checkpoint, self) {
            Ok(()) | Err(StopReason::Finished) => self.finish().map_or_else(|end| end, |()| StopReason::Finished),
            Err(end) => end,
        };
        if matches!(end, StopReason::Time)
            && let Err(error) = self.keep_place()
        {
            return failed(error);
        }
        match end {
            // Nothing else was to end it.
            StopReason::Time if self.parts.limits.budget.is_none() => {
                self.close_in_time().map_or_else(failed, |()| StopReason::Time)
            }
            end => end,
        }
    }

    /// Marks the campaign as finished, unless the time was over while the search caught up, or within an experiment.
    fn close_in_time(&mut self) -> anyhow::Result<()> {
        let is_between_experiments = self.parts.store.campaign(self.id)?.experiments == self.number;
        if is_between_experiments { self.close() } else { Ok(()) }
    }

    /// Stores how far the search has caught up if its time is over before the end of what is stored, so that it comes
    /// further next time. Findings before it are stored with all that was made of them.
    fn keep_place(&mut self) -> anyhow::Result<()> {
        match self.checkpoint.take() {
            Some(checkpoint) if checkpoint.experiments < self.stored => {
                Ok(self.parts.store.put_checkpoint(self.id, &checkpoint)?)
            }
            _ => Ok(()),
        }
    }

    /// Forgets all that was read so far.
    fn begin_again(&mut self) {
        (self.number, self.skipped, self.anomalies, self.checkpointed) = (0, 0, 0, 0);
        (self.survived, self.has_diverged, self.checkpoint) = (None, false, None);
        self.ahead.clear();
        self.caught_up.clear();
        self.parts.progress.goes_on(0, 0, 0);
    }

    fn finish(&mut self) -> Result<(), StopReason> {
        if self.number < self.stored {
            return Err(StopReason::Failed(self.diverged("ended early")));
        }
        self.catch_up().map_err(StopReason::Failed)?;
        self.measure_findings_again()?;
        self.close().map_err(StopReason::Failed)
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.catch_up()?;
        Ok(self.parts.store.finish_campaign(self.id, self.skipped)?)
    }

    /// Stores what the search made of findings up to here, unless that is stored. Who is stopped before changes
    /// nothing.
    fn catch_up(&mut self) -> anyhow::Result<()> {
        if !self.is_open {
            self.parts.store.reopen_campaign(self.id, self.parts.limits.budget)?;
            self.is_open = true;
        }
        if !self.caught_up.is_empty() {
            let stored = self.parts.store.findings(self.id)?;
            for record in std::mem::take(&mut self.caught_up).into_values() {
                if !stored.contains(&record) {
                    self.parts.store.put_finding(self.id, &record)?;
                }
            }
        }
        // Who goes on from it does not come by the findings before it, so they are stored first.
        if let Some(checkpoint) = self.checkpoint.take() {
            self.parts.store.put_checkpoint(self.id, &checkpoint)?;
        }
        Ok(())
    }

    fn diverged(&mut self, what: &str) -> anyhow::Error {
        self.has_diverged = true;
        anyhow!(
            "campaign {} cannot be continued: at experiment {} the search {what}, unlike the stored campaign. \
             Another version of Kelpie wrote it, or the database was changed; `kelpie campaign show` still shows it",
            self.id,
            self.number
        )
    }

    /// The stored answer to the experiment that is asked for now.
    fn replay(&mut self, workload: &Workload, purpose: Purpose) -> anyhow::Result<ExperimentOutcome> {
        if self.ahead.is_empty() {
            self.ahead = self.parts.store.experiments_after(self.id, self.number - 1, READ_AHEAD)?.into();
        }
        let experiment = self.ahead.pop_front().filter(|experiment| experiment.number == self.number);
        let experiment =
            experiment.with_context(|| format!("experiment {} of campaign {} is missing", self.number, self.id))?;
        let asked = (workload, &purpose.into(), self.skipped);
        if (&experiment.workload, &experiment.purpose, experiment.skipped_before) != asked {
            return Err(self.diverged("asks for something else"));
        }
        let is_anomalous = is_anomalous(&experiment.outcome);
        self.anomalies += u64::from(is_anomalous);
        self.parts.progress.replayed(self.number, is_anomalous);
        Ok(experiment.outcome)
    }

    /// What the search is told of an outcome.
    fn observation(&self, workload: &Workload, outcome: ExperimentOutcome) -> Observation {
        let (measurement, assessment) = match outcome {
            ExperimentOutcome::Measured { assessment, .. }
                if is_host_failure(&assessment) && !self.reduces_failures =>
            {
                (Measurement::default(), Assessment::of_nothing(Inconclusive::NoSamples))
            }
            ExperimentOutcome::Measured { measurement, assessment, .. } => (measurement, assessment),
            ExperimentOutcome::Unsupported { .. } => {
                (Measurement::default(), Assessment::of_nothing(Inconclusive::NoSamples))
            }
        };
        Observation::new(workload, &measurement, assessment, &self.parts.bounds)
    }

    /// Measures and stores the experiment that is asked for now.
    fn experiment(&mut self, workload: &Workload, purpose: Purpose) -> Result<ExperimentOutcome, StopReason> {
        self.catch_up().map_err(StopReason::Failed)?;
        self.measure_control().map_err(failed)?;
        let started_unix_ms = unix_ms();
        let start = Instant::now();
        let outcome = self.tried(workload)?;
        let clock = ExperimentClock { started_unix_ms, duration_seconds: start.elapsed().as_secs_f64() };
        let experiment = Experiment {
            number: self.number,
            purpose: purpose.into(),
            skipped_before: self.skipped,
            workload: workload.clone(),
            outcome,
        };
        self.parts.store.append_experiment(self.id, &experiment, clock).map_err(failed)?;
        let is_anomalous = is_anomalous(&experiment.outcome);
        self.anomalies += u64::from(is_anomalous);
        self.parts.progress.measured(self.number, is_anomalous);
        Ok(experiment.outcome)
    }

    /// What came of a workload, which is to blame if a host fails under it every time and not under another.
    ///
    /// An earlier run may have ended because nothing ran any more, which a workload can also bring about: then another
    /// workload has to run first, and one more try decides.
    fn tried(&mut self, workload: &Workload) -> Result<ExperimentOutcome, StopReason> {
        let mut reasons = self.parts.store.failed_tries(self.id, self.number).map_err(failed)?;
        let was_given_up = reasons.len() >= TRIES;
        if was_given_up {
            self.check_with_another()?;
        }
        loop {
            self.wait_for_hosts()?;
            let reason = match self.attempt(workload) {
                Ok(outcome) => return Ok(outcome),
                Err(MeasureError::Unsupported { reason }) => return Ok(ExperimentOutcome::Unsupported { reason }),
                Err(error @ MeasureError::Host { .. }) => format!("{:#}", anyhow!(error)),
            };
            // Before anything else happens: the next try may end this process, or its machine.
            self.parts.store.add_failed_try(self.id, self.number, &reason).map_err(failed)?;
            let line = format!("experiment {}: {reason}, failed try {}", self.number, reasons.len() + 1);
            reasons.push(reason);
            self.parts.progress.line(&line);
            if reasons.len() >= TRIES {
                break;
            }
            self.check_interruption()?;
        }
        if !was_given_up {
            self.check_with_another()?;
        }
        self.parts.progress.line(&format!("experiment {}: host_failure; another workload runs", self.number));
        let attempts = reasons.len() as u32;
        Ok(ExperimentOutcome::Measured {
            measurement: Measurement { hardware_events: reasons, ..Measurement::default() },
            assessment: Assessment::of_symptoms(vec![Symptom::HostFailure]),
            attempts,
        })
    }

    /// Waits until both hosts are there.
    fn wait_for_hosts(&mut self) -> Result<(), StopReason> {
        let until = Instant::now() + self.parts.limits.host_patience;
        let mut is_told = false;
        loop {
            let Err(error) = self.parts.subsystem.ready() else { return Ok(()) };
            if Instant::now() >= until {
                let context = format!("experiment {}: a host did not come back (--host-patience)", self.number);
                return Err(StopReason::Failed(anyhow!(error).context(context)));
            }
            self.check_interruption()?;
            if !is_told {
                self.parts.progress.line(&format!("{:#}; waiting for it to come back", anyhow!(error)));
                is_told = true;
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Fails if the hosts fail under a workload, too, that they survived, or under a plain one.
    fn check_with_another(&mut self) -> Result<(), StopReason> {
        self.wait_for_hosts()?;
        let other = self.survived.clone().unwrap_or_else(plain);
        match self.parts.subsystem.measure(&other) {
            Ok(_) | Err(MeasureError::Unsupported { .. }) => Ok(()),
            Err(error) => Err(StopReason::Failed(anyhow!(error).context(format!(
                "experiment {} failed {TRIES} times, and now every other workload does: look after the hosts",
                self.number
            )))),
        }
    }

    fn attempt(&mut self, workload: &Workload) -> Result<ExperimentOutcome, MeasureError> {
        let subsystem = &mut *self.parts.subsystem;
        let judged = measure_judged(workload, &self.parts.bounds, |workload, attempt| {
            subsystem.measure_again(workload, attempt)
        })?;
        Ok(ExperimentOutcome::Measured {
            measurement: judged.measurement,
            assessment: judged.assessment,
            attempts: judged.attempts,
        })
    }

    fn check_limits(&self) -> Result<(), StopReason> {
        let budget = self.parts.limits.budget;
        if budget.is_some_and(|budget| self.number >= budget) {
            Err(StopReason::Finished)
        } else {
            self.check_interruption()
        }
    }

    fn check_interruption(&self) -> Result<(), StopReason> {
        let CampaignLimits { deadline, stop, .. } = self.parts.limits;
        if stop.load(Ordering::Relaxed) {
            Err(StopReason::Interrupted)
        } else if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Err(StopReason::Time)
        } else {
            Ok(())
        }
    }
}

impl Oracle for CampaignOracle<'_> {
    type Error = StopReason;

    fn measure(&mut self, workload: &Workload, purpose: Purpose) -> Result<Observation, StopReason> {
        self.check_limits()?;
        self.number += 1;
        let outcome = if self.number <= self.stored {
            self.replay(workload, purpose).map_err(StopReason::Failed)
        } else {
            self.experiment(workload, purpose)
        };
        let outcome = outcome?;
        self.skipped = 0;
        if matches!(&outcome, ExperimentOutcome::Measured { assessment, .. } if !is_host_failure(assessment)) {
            self.survived = Some(workload.clone());
        }
        Ok(self.observation(workload, outcome))
    }

    fn past(&mut self, visit: &mut dyn FnMut(Workload, Observation, Purpose) -> bool) -> Result<(), StopReason> {
        let last = self.number;
        let mut read = 0;
        while read < last {
            self.check_limits()?;
            let more = u32::try_from(last - read).map_or(READ_AHEAD, |left| left.min(READ_AHEAD));
            let experiments = self.parts.store.experiments_after(self.id, read, more).map_err(failed)?;
            for experiment in experiments {
                read += 1;
                let is_next = experiment.number == read;
                let observation = self.observation(&experiment.workload, experiment.outcome);
                let purpose = experiment.purpose.asked().unwrap_or(Purpose::Search);
                if !is_next || !visit(experiment.workload, observation, purpose) {
                    return Err(StopReason::Failed(self.diverged("has another past")));
                }
            }
            self.parts.progress.read(read);
        }
        Ok(())
    }

    fn skipped(&mut self, _workload: &Workload) {
        self.skipped += 1;
    }

    fn found(&mut self, number: u64, finding: &Finding) -> Result<(), StopReason> {
        let record = FindingRecord::new(number, finding);
        let is_replayed = self.number < self.stored;
        self.parts.progress.found(number, &FindingLine(self.id, &record).to_string(), is_replayed);
        if self.number <= self.stored {
            self.caught_up.insert(number, record);
        } else {
            self.parts.store.put_finding(self.id, &record).map_err(failed)?;
        }
        Ok(())
    }

    fn between_steps(&mut self, checkpoint: &dyn Fn() -> Checkpoint) -> Result<(), StopReason> {
        let is_far = self.number >= self.checkpointed + CHECKPOINT_EVERY.max(self.checkpointed / CHECKPOINT_PART);
        let is_long = self.number > self.checkpointed && self.checkpointed_at.elapsed() >= CHECKPOINT_SOONEST;
        let is_due = is_far || (is_long && self.parts.limits.deadline.is_some());
        if !is_due {
            return Ok(());
        }
        self.checkpointed_at = Instant::now();
        let standing = CampaignCheckpoint::new(checkpoint(), self.skipped, self.anomalies, self.survived.clone());
        self.checkpoint = Some(standing.stored());
        self.checkpointed = self.number;
        if self.number < self.stored { Ok(()) } else { self.catch_up().map_err(StopReason::Failed) }
    }
}

/// A workload that every pair of hosts runs.
fn plain() -> Workload {
    Workload::new(vec![Flow::plain(Host::A, Host::B)])
}

fn failed(error: impl Into<anyhow::Error>) -> StopReason {
    StopReason::Failed(error.into())
}

fn is_host_failure(assessment: &Assessment) -> bool {
    assessment.symptoms.contains(&Symptom::HostFailure)
}

fn is_anomalous(outcome: &ExperimentOutcome) -> bool {
    matches!(outcome, ExperimentOutcome::Measured { assessment, .. } if assessment.verdict == Verdict::Anomalous)
}

/// A finding in one short line, such as `finding 3.1: pause, RC|UC SEND, qps≥16`.
#[derive(Debug)]
pub struct FindingLine<'a>(pub CampaignId, pub &'a FindingRecord);

/// Characters of a line at most. Source: our choice, because logs and terminals are seldom wider.
const LINE: usize = 100;

impl fmt::Display for FindingLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FindingLine(id, finding) = self;
        let (with, conditions) = (brief::shows_with(finding), brief::conditions(finding));
        let line = format!("finding {id}.{}: {}, {with}, {conditions}", finding.number, finding.symptom.name());
        let is_long = line.chars().count() > LINE;
        let end = if is_long { "…" } else { "" };
        f.write_str(&line.chars().take(if is_long { LINE - 1 } else { LINE }).collect::<String>())?;
        f.write_str(end)
    }
}

#[cfg(test)]
mod tests;

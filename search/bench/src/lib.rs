//! Campaigns side by side on simulated subsystems, on all cores: which weaknesses each touches and finds, and when.

mod archive;
mod breaker;
mod cores;
mod document;
mod figures;
mod judgement;
mod known;
mod likeness;
mod points;
mod quality;
mod record;
mod score;
mod shown;
mod table;
mod weakness;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use kelpie_engine::{MeasureError, Subsystem};
use kelpie_search::{Config, Finding, Observation, Oracle, Purpose, is_diagnostic};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Space, Workload};

pub use archive::{Archive, Settings};
pub use document::document;
pub use figures::figures;
pub use judgement::INSIDE;
pub use known::Known;
pub use points::{Points, first, points};
pub use quality::{Quality, QualityScore};
pub use record::Record;
pub use score::{Reach, Score, Spread, with_means};
pub use table::table;

use cores::on_all_cores;
use shown::Shown;
use weakness::{Stored, Weakness};

/// One campaign on one subsystem.
#[derive(Debug, Clone)]
pub struct Job {
    /// What is searched.
    pub subsystem: SimSubsystem,
    /// Algorithm, signals and seed.
    pub config: Config,
    /// Experiments.
    pub budget: u64,
    /// Whether the course of every counter is kept.
    pub keeps_course: bool,
}

/// Runs every campaign that `archive` does not have, and stores it there; those that `stop` ended have no record.
/// `measured` is called after each experiment, from any thread.
///
/// # Errors
/// A subsystem could not be measured, or a record not be stored.
pub fn run(
    space: &Space,
    jobs: &[Job],
    archive: &Archive,
    stop: &AtomicBool,
    measured: &(dyn Fn() + Sync),
) -> anyhow::Result<Vec<Option<Record>>> {
    on_all_cores(jobs, |job| archive.once(&job.key(), |record| job.made(record), || job.run(space, stop, measured)))
}

/// Judges the findings of each campaign by these random points, or takes that from the archive; `false` if `stop` ended
/// it. `measured` is called after each point inside a finding, from any thread.
///
/// # Errors
/// A subsystem could not be measured, or something not be stored.
pub fn judge(
    space: &Space,
    jobs: &[Job],
    records: &mut [Option<Record>],
    points: &Points,
    archive: &Archive,
    stop: &AtomicBool,
    measured: &(dyn Fn() + Sync),
) -> anyhow::Result<bool> {
    let ended: Vec<(&Job, &Record)> =
        jobs.iter().zip(&*records).filter_map(|(job, record)| Some((job, record.as_ref()?))).collect();
    let qualities = on_all_cores(&ended, |(job, record)| {
        let points = points.get(job.subsystem.name()).map_or(&[][..], Vec::as_slice);
        let key = format!("quality {} {}", points.len(), job.key());
        archive.once(&key, |_| true, || Quality::of(space, &job.subsystem, &record.stored, points, stop, measured))
    })?;
    let is_whole = qualities.iter().all(Option::is_some);
    records.iter_mut().flatten().zip(qualities).for_each(|(record, quality)| record.quality = quality);
    Ok(is_whole)
}

impl Job {
    /// What names it among all campaigns with the same settings.
    pub fn key(&self) -> String {
        let Config { algorithm, signal, seed, .. } = self.config;
        let with_course = if self.keeps_course { " course" } else { "" };
        format!("{} {algorithm} {signal} {seed}{with_course}", self.subsystem.name())
    }

    /// Whether a record is of this campaign.
    fn made(&self, record: &Record) -> bool {
        let Config { algorithm, signal, seed, .. } = self.config;
        (record.subsystem.as_str(), record.algorithm, record.signal, record.seed)
            == (self.subsystem.name(), algorithm, signal, seed)
            && record.experiments <= self.budget
    }

    fn run(&self, space: &Space, stop: &AtomicBool, measured: &(dyn Fn() + Sync)) -> anyhow::Result<Option<Record>> {
        let mut judge = Judge {
            subsystem: self.subsystem.clone(),
            budget: self.budget,
            stop,
            measured,
            limits: HashMap::new(),
            record: Record {
                course: self.keeps_course.then(BTreeMap::new),
                ..Record::new(self.subsystem.name(), &self.config)
            },
        };
        match kelpie_search::run(space, &self.config, &mut judge) {
            Ok(()) | Err(End::Budget) => Ok(Some(judge.record)),
            Err(End::Stopped) => Ok(None),
            Err(End::Failed(error)) => Err(error).context(self.key()),
        }
    }
}

/// Why a search ends.
enum End {
    Budget,
    Stopped,
    Failed(MeasureError),
}

/// The oracle of a search: answers from the subsystem, and keeps to itself what limited the traffic.
struct Judge<'a> {
    subsystem: SimSubsystem,
    budget: u64,
    stop: &'a AtomicBool,
    measured: &'a (dyn Fn() + Sync),
    /// What limited each anomalous workload.
    limits: HashMap<Workload, String>,
    record: Record,
}

impl Oracle for Judge<'_> {
    type Error = End;

    fn measure(&mut self, workload: &Workload, purpose: Purpose) -> Result<Observation, End> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(End::Stopped);
        }
        if self.record.experiments == self.budget {
            return Err(End::Budget);
        }
        let shown = Shown::measure(&mut self.subsystem, workload).map_err(End::Failed)?;
        self.record.experiments += 1;
        *self.record.purposes.entry(purpose.name().to_owned()).or_default() += 1;
        (self.measured)();
        if let Some(symptom) = shown.symptom() {
            self.record.touched.add(symptom, &shown.limiting, self.record.experiments);
            self.limits.insert(workload.clone(), shown.limiting);
        }
        // As the paper draws it: while an anomaly is reduced, the course stays where it was.
        if let Some(course) = self.record.course.as_mut().filter(|_| !purpose.is_aimed()) {
            for (name, value) in shown.seen.signals.iter().filter(|(name, _)| is_diagnostic(name)) {
                course.entry(name.clone()).or_default().push((self.record.experiments, *value));
            }
        }
        Ok(shown.seen)
    }

    fn skipped(&mut self, _: &Workload) {}

    fn found(&mut self, number: u64, finding: &Finding) -> Result<(), End> {
        let limiting = match self.limits.get(&finding.workload) {
            Some(limiting) => limiting.clone(),
            None => Shown::measure(&mut self.subsystem, &finding.workload).map_err(End::Failed)?.limiting,
        };
        self.record.findings = self.record.findings.max(number);
        let (weakness, traffic) = Weakness::split(finding.symptom, &limiting);
        let stored = Stored { finding: finding.clone(), weakness, traffic };
        match self.record.stored.get_mut(number as usize - 1) {
            Some(before) => *before = stored,
            None => self.record.stored.push(stored),
        }
        // A workload with every feature pinned has no minimal feature set; it is touched and no more.
        if !finding.evidence.narrowed {
            self.record.found.add(finding.symptom, &limiting, self.record.experiments);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

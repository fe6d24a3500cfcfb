//! Experiments: each is committed before the next begins.

use std::ops::ControlFlow;

use super::Store;
use crate::checksum::Checksum;
use crate::error::StoreError;
use crate::json::exact;
use crate::link::{Row, sql, values};
use crate::records::{CampaignId, Experiment, ExperimentClock, ExperimentOutcome};

/// What an experiment is made of, beside its checksum.
pub(super) const EXPERIMENT: &str =
    "campaign, number, purpose, skipped_before, workload, measurement, assessment, attempts, unsupported";

/// An experiment that takes so long has time for an empty log after it: then a file that takes the database's place
/// meets nothing of it. Units: seconds. Source: our choice.
const LONG: f64 = 0.5;

impl Store {
    /// Commits an experiment, which must be the next of its campaign.
    ///
    /// # Errors
    /// It is not the next one, cannot be written exactly, or the database cannot be written.
    pub fn append_experiment(
        &mut self,
        id: CampaignId,
        experiment: &Experiment,
        clock: ExperimentClock,
    ) -> Result<(), StoreError> {
        let workload = exact("workload", &experiment.workload)?;
        let (measurement, assessment, attempts, unsupported) = match &experiment.outcome {
            ExperimentOutcome::Measured { measurement, assessment, attempts } => {
                (Some(exact("measurement", measurement)?), Some(exact("assessment", assessment)?), *attempts, None)
            }
            ExperimentOutcome::Unsupported { reason } => (None, None, 0, Some(self.storable(reason))),
        };
        let number = experiment.number.cast_signed();
        let skipped_before = experiment.skipped_before.cast_signed();
        let checksum = Checksum::of("experiment")
            .integer(id.0)
            .integer(number)
            .text(experiment.purpose.name())
            .integer(skipped_before)
            .text(&workload)
            .optional(measurement.as_deref())
            .optional(assessment.as_deref())
            .integer(attempts.into())
            .optional(unsupported.as_deref())
            .finish();
        let stored = self.write("storing the experiment", Some(id.into()), |link| {
            let rows = link.execute(
                "INSERT INTO experiment \
                 (campaign, number, purpose, skipped_before, workload, measurement, assessment, attempts, unsupported, \
                 checksum) SELECT $1,$2,$3,$4,$5,$6,$7,$8,$9,$10 \
                 WHERE $2 = 1 + (SELECT coalesce(max(number), 0) FROM experiment WHERE campaign = $1)",
                values![
                    id,
                    number,
                    experiment.purpose.name(),
                    skipped_before,
                    &workload,
                    &measurement,
                    &assessment,
                    attempts,
                    unsupported.as_deref(),
                    checksum,
                ],
            )?;
            if rows > 0 {
                link.execute(
                    "INSERT INTO experiment_clock (campaign, number, started_unix_ms, duration_seconds) \
                     VALUES ($1,$2,$3,$4)",
                    values![id, number, clock.started_unix_ms, clock.duration_seconds],
                )?;
            }
            Ok(rows > 0)
        })?;
        self.in_order(stored, id, "experiment", experiment.number)?;
        self.check_place()?;
        if clock.duration_seconds >= LONG {
            self.empty_log();
        }
        Ok(())
    }

    /// One experiment of a campaign; `None` if it has not been run.
    ///
    /// # Errors
    /// The database cannot be read, or the record does not make sense.
    pub fn experiment(&mut self, id: CampaignId, number: u64) -> Result<Option<Experiment>, StoreError> {
        let text = self.select(EXPERIMENT, "experiment WHERE campaign = $1 AND number = $2");
        let row = self.sql("reading an experiment", |link| link.row(sql(text), values![id, number]))?;
        row.map(|row| self.read_experiment(number, &row)).transpose()
    }

    /// The experiments of a campaign after this number, in order and at most so many.
    ///
    /// # Errors
    /// The database cannot be read, or a record does not make sense.
    pub fn experiments_after(&mut self, id: CampaignId, number: u64, most: u32) -> Result<Vec<Experiment>, StoreError> {
        let text = self.select(EXPERIMENT, "experiment WHERE campaign = $1 AND number > $2 ORDER BY number LIMIT $3");
        let rows = self.sql("reading experiments", |link| link.rows(sql(text), values![id, number, most]))?;
        rows.iter().map(|row| self.read_experiment(self.count(row, "number")?, row)).collect()
    }

    /// Gives every experiment of a campaign to `visit`, in order, one at a time: a campaign need not fit into memory.
    ///
    /// # Errors
    /// The database cannot be read, or a record does not make sense; what came before it has been visited.
    pub fn experiments(&mut self, id: CampaignId, mut visit: impl FnMut(Experiment)) -> Result<(), StoreError> {
        let sql = self.select(EXPERIMENT, "experiment WHERE campaign = $1 ORDER BY number");
        self.rows("reading the experiments", sql, values![id], |store, row| {
            visit(store.read_experiment(store.count(row, "number")?, row)?);
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Refuses an experiment that is not as it was stored.
    pub(super) fn check_experiment(&self, number: u64, row: &Row) -> Result<(), StoreError> {
        let text = |column| self.get::<&str>(row, column);
        let optional = |column| self.get::<Option<&str>>(row, column);
        let checksum = Checksum::of("experiment")
            .integer(self.get(row, "campaign")?)
            .integer(self.get(row, "number")?)
            .text(text("purpose")?)
            .integer(self.get(row, "skipped_before")?)
            .text(text("workload")?)
            .optional(optional("measurement")?)
            .optional(optional("assessment")?)
            .integer(self.get(row, "attempts")?)
            .optional(optional("unsupported")?);
        self.check_sum(row, checksum, || format!("experiment {number}"))
    }

    /// Refuses an experiment that cannot be read: without a look inside if its checksum says that it is as it was.
    pub(super) fn verify_experiment(&self, row: &Row) -> Result<(), StoreError> {
        let number = self.count(row, "number")?;
        match self.get::<Option<i64>>(row, "checksum")? {
            Some(_) => self.check_experiment(number, row),
            None => self.read_experiment(number, row).map(drop),
        }
    }

    fn read_experiment(&self, number: u64, row: &Row) -> Result<Experiment, StoreError> {
        self.check_experiment(number, row)?;
        let unsupported: Option<String> = self.get(row, "unsupported")?;
        let outcome = match unsupported {
            Some(reason) => ExperimentOutcome::Unsupported { reason },
            None => ExperimentOutcome::Measured {
                measurement: self.json(row, "measurement")?,
                assessment: self.json(row, "assessment")?,
                attempts: u32::try_from(self.count(row, "attempts")?).unwrap_or(u32::MAX),
            },
        };
        Ok(Experiment {
            number,
            purpose: self.get::<String>(row, "purpose")?.into(),
            skipped_before: self.count(row, "skipped_before")?,
            workload: self.json(row, "workload")?,
            outcome,
        })
    }
}

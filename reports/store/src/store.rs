//! The store: a blocking face on one SQLite connection, and all SQL about campaigns. Opening rules live in `open`.

use std::fmt;
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use kelpie_monitor::Check;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use tokio::runtime::Runtime;

use crate::checksum::{self, Checksum};
use crate::error::{StoreError, classify};
use crate::json::exact;
use crate::lock::CampaignLock;
use crate::open::{Access, Identity, open};
use crate::records::{
    Campaign, CampaignDefinition, CampaignId, CampaignState, Experiment, ExperimentClock, FindingRecord, Outcome,
    unix_ms,
};

/// A Kelpie database. Each method that writes has committed durably when it returns.
pub struct Store {
    path: PathBuf,
    /// Its latest migration; that of an older Kelpie if it is only read.
    version: i64,
    runtime: Runtime,
    /// `None` only while it is being dropped.
    connection: Option<SqliteConnection>,
    /// The file that a campaign is written to.
    written: Option<Identity>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            if self.written.is_some() {
                self.runtime.block_on(Self::end_writing(&mut connection));
            }
            // Everything is committed already; closing only tidies the write-ahead log away.
            let _ = self.runtime.block_on(connection.close());
        }
    }
}

impl Store {
    /// Opens a database to write, creating the file and its directory if they are missing.
    ///
    /// # Errors
    /// The file cannot be opened, written, or is not a Kelpie database of a known version.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        Self::open(path, Access::Create)
    }

    /// Opens an existing database to write.
    ///
    /// # Errors
    /// As [`Store::create`]; also if there is none.
    pub fn open_to_write(path: &Path) -> Result<Self, StoreError> {
        Self::open(path, Access::Write)
    }

    /// Opens an existing database only to read; a read-only file or directory will do.
    ///
    /// # Errors
    /// As [`Store::create`]; also if there is none.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        Self::open(path, Access::Read)
    }

    fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| StoreError::CannotOpen { path: path.to_owned(), detail: error.to_string() })?;
        let (connection, version) = runtime.block_on(open(path, access))?;
        Ok(Self { path: path.to_owned(), version, runtime, connection: Some(connection), written: None })
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs one future on the connection and sorts its error.
    fn sql<T>(
        &mut self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let connection = self.connection.as_mut().expect("taken only by drop");
        self.runtime.block_on(work(connection)).map_err(|error| classify(&self.path, operation, error))
    }

    /// Stores a campaign that is about to begin, with what was looked at on its hosts, and takes its lock.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn begin_campaign(
        &mut self,
        definition: &CampaignDefinition,
        checks: &[Check],
    ) -> Result<(CampaignId, CampaignLock), StoreError> {
        let checks = checks::rows(checks)?;
        let bounds = exact("bound", &definition.bounds)?;
        let seed = i64::try_from(definition.seed)
            .map_err(|_| StoreError::NotExact { what: "seed", detail: "above 2^63 - 1".to_owned() })?;
        let budget = definition.budget.map(|budget| i64::try_from(budget).unwrap_or(i64::MAX));
        let path = self.path.clone();
        let (id, lock) = self.sql("storing the campaign", async |connection| {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            let id: i64 = sqlx::query_scalar(
                "INSERT INTO campaign (kelpie_version, subsystem, subsystem_source, bounds, space, space_source, \
                 algorithm, signal, seed, config, budget, state) VALUES (?,?,?,?,?,?,?,?,?,?,?,'open') RETURNING id",
            )
            .bind(&definition.kelpie_version)
            .bind(&definition.subsystem)
            .bind(&definition.subsystem_source)
            .bind(bounds)
            .bind(&definition.space)
            .bind(&definition.space_source)
            .bind(&definition.algorithm)
            .bind(&definition.signal)
            .bind(seed)
            .bind(&definition.config)
            .bind(budget)
            .fetch_one(&mut *transaction)
            .await?;
            sqlx::query("INSERT INTO campaign_clock (campaign, started_unix_ms) VALUES (?,?)")
                .bind(id)
                .bind(unix_ms())
                .execute(&mut *transaction)
                .await?;
            checks::insert(&mut transaction, id, &checks).await?;
            seal(&mut transaction, id).await?;
            // Before anybody can see the campaign, so that it never looks stopped.
            let lock = CampaignLock::take(&path, CampaignId(id));
            if lock.is_ok() {
                transaction.commit().await?;
            }
            Ok((CampaignId(id), lock))
        })?;
        let lock = lock?;
        self.begin_writing()?;
        Ok((id, lock))
    }

    /// Takes the lock of a stored campaign, to go on with it.
    ///
    /// # Errors
    /// There is no such campaign, or another process runs it.
    pub fn lock_campaign(&mut self, id: CampaignId) -> Result<CampaignLock, StoreError> {
        self.campaign(id)?;
        let lock = CampaignLock::take(&self.path, id)?;
        self.begin_writing()?;
        Ok(lock)
    }

    /// Marks a campaign as open again, with this budget.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn reopen_campaign(&mut self, id: CampaignId, budget: Option<u64>) -> Result<(), StoreError> {
        let budget = budget.map(|budget| i64::try_from(budget).unwrap_or(i64::MAX));
        self.sql("reopening the campaign", async |connection| {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::query("UPDATE campaign SET state = 'open', skipped_at_end = 0, budget = ? WHERE id = ?")
                .bind(budget)
                .bind(id.0)
                .execute(&mut *transaction)
                .await?;
            seal(&mut transaction, id.0).await?;
            transaction.commit().await
        })?;
        Ok(())
    }

    /// Marks a campaign as run to its end.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn finish_campaign(&mut self, id: CampaignId, skipped_at_end: u64) -> Result<(), StoreError> {
        self.sql("closing the campaign", async |connection| {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::query("UPDATE campaign SET state = 'finished', skipped_at_end = ? WHERE id = ?")
                .bind(skipped_at_end.cast_signed())
                .bind(id.0)
                .execute(&mut *transaction)
                .await?;
            seal(&mut transaction, id.0).await?;
            transaction.commit().await
        })?;
        self.check_place()
    }

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
            Outcome::Measured { measurement, assessment, attempts } => {
                (Some(exact("measurement", measurement)?), Some(exact("assessment", assessment)?), *attempts, None)
            }
            Outcome::Unsupported { reason } => (None, None, 0, Some(reason)),
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
            .optional(unsupported.map(String::as_str))
            .finish();
        let stored = self.sql("storing the experiment", async |connection| {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            let rows = sqlx::query(
                "INSERT INTO experiment \
                 (campaign, number, purpose, skipped_before, workload, measurement, assessment, attempts, unsupported, \
                 checksum) SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9,?10 \
                 WHERE ?2 = 1 + (SELECT coalesce(max(number), 0) FROM experiment WHERE campaign = ?1)",
            )
            .bind(id.0)
            .bind(number)
            .bind(experiment.purpose.name())
            .bind(skipped_before)
            .bind(workload)
            .bind(measurement)
            .bind(assessment)
            .bind(attempts)
            .bind(unsupported)
            .bind(checksum)
            .execute(&mut *transaction)
            .await?
            .rows_affected();
            if rows == 0 {
                return Ok(false);
            }
            sqlx::query(
                "INSERT INTO experiment_clock (campaign, number, started_unix_ms, duration_seconds) VALUES (?,?,?,?)",
            )
            .bind(id.0)
            .bind(number)
            .bind(clock.started_unix_ms)
            .bind(clock.duration_seconds)
            .execute(&mut *transaction)
            .await?;
            transaction.commit().await?;
            Ok(true)
        })?;
        self.in_order(stored, id, "experiment", experiment.number)?;
        self.check_place()
    }

    /// Commits a finding: the next of its campaign, or in place of the one with its number.
    ///
    /// # Errors
    /// Its number is neither, it cannot be written exactly, or the database cannot be written.
    pub fn put_finding(&mut self, id: CampaignId, finding: &FindingRecord) -> Result<(), StoreError> {
        let mfs = exact("minimal feature set", &finding.mfs)?;
        let workload = exact("workload", &finding.workload)?;
        let evidence = exact("evidence", &finding.evidence)?;
        let confidence: f64 = finding.confidence;
        let checksum = Checksum::of("finding")
            .integer(id.0)
            .integer(finding.number.cast_signed())
            .text(finding.symptom.name())
            .integer(finding.found_at.cast_signed())
            .integer(finding.experiments_for_mfs.cast_signed())
            .integer(confidence.to_bits().cast_signed())
            .text(&mfs)
            .text(&workload)
            .text(&evidence)
            .finish();
        let rows = self.sql("storing the finding", async |connection| {
            let done = sqlx::query(
                "INSERT INTO finding \
                 (campaign, number, symptom, found_at, experiments_for_mfs, confidence, mfs, workload, evidence, checksum) \
                 SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9,?10 \
                 WHERE ?2 <= 1 + (SELECT coalesce(max(number), 0) FROM finding WHERE campaign = ?1) \
                 ON CONFLICT (campaign, number) DO UPDATE SET \
                 symptom = excluded.symptom, found_at = excluded.found_at, \
                 experiments_for_mfs = excluded.experiments_for_mfs, confidence = excluded.confidence, \
                 mfs = excluded.mfs, workload = excluded.workload, evidence = excluded.evidence, \
                 checksum = excluded.checksum",
            )
            .bind(id.0)
            .bind(finding.number.cast_signed())
            .bind(finding.symptom.name())
            .bind(finding.found_at.cast_signed())
            .bind(finding.experiments_for_mfs.cast_signed())
            .bind(confidence)
            .bind(mfs)
            .bind(workload)
            .bind(evidence)
            .bind(checksum)
            .execute(connection)
            .await?;
            Ok(done.rows_affected())
        })?;
        self.in_order(rows == 1, id, "finding", finding.number)?;
        self.check_place()
    }

    fn in_order(&self, stored: bool, id: CampaignId, what: &'static str, number: u64) -> Result<(), StoreError> {
        if stored { Ok(()) } else { Err(StoreError::OutOfOrder { path: self.path.clone(), id, what, number }) }
    }

    /// Every campaign, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn campaigns(&mut self) -> Result<Vec<Campaign>, StoreError> {
        let campaigns = self.campaigns_sql();
        let rows = self.sql("reading the campaigns", async |connection| {
            sqlx::query(campaigns).bind(None::<i64>).fetch_all(connection).await
        })?;
        rows.iter().map(|row| self.read_campaign(row)).collect()
    }

    /// One campaign.
    ///
    /// # Errors
    /// There is none of this number, or the database cannot be read.
    pub fn campaign(&mut self, id: CampaignId) -> Result<Campaign, StoreError> {
        let campaigns = self.campaigns_sql();
        let row = self.sql("reading the campaign", async |connection| {
            sqlx::query(campaigns).bind(Some(id.0)).fetch_optional(connection).await
        })?;
        let row = row.ok_or_else(|| StoreError::NoCampaign { path: self.path.clone(), id })?;
        self.read_campaign(&row)
    }

    /// One experiment of a campaign; `None` if it has not been run.
    ///
    /// # Errors
    /// The database cannot be read, or the record does not make sense.
    pub fn experiment(&mut self, id: CampaignId, number: u64) -> Result<Option<Experiment>, StoreError> {
        let sql = self.select(EXPERIMENT, "experiment WHERE campaign = ? AND number = ?");
        let row = self.sql("reading an experiment", async |connection| {
            sqlx::query(AssertSqlSafe(sql)).bind(id.0).bind(number.cast_signed()).fetch_optional(connection).await
        })?;
        row.map(|row| self.read_experiment(number, &row)).transpose()
    }

    /// The experiments of a campaign after this number, in order and at most so many.
    ///
    /// # Errors
    /// The database cannot be read, or a record does not make sense.
    pub fn experiments_after(&mut self, id: CampaignId, number: u64, most: u32) -> Result<Vec<Experiment>, StoreError> {
        let sql = self.select(EXPERIMENT, "experiment WHERE campaign = ? AND number > ? ORDER BY number LIMIT ?");
        let rows = self.sql("reading experiments", async |connection| {
            let query = sqlx::query(AssertSqlSafe(sql)).bind(id.0).bind(number.cast_signed()).bind(most);
            query.fetch_all(connection).await
        })?;
        rows.iter().map(|row| self.read_experiment(self.count(row, "number")?, row)).collect()
    }

    /// Gives every experiment of a campaign to `visit`, in order, one at a time: a campaign need not fit into memory.
    ///
    /// # Errors
    /// The database cannot be read, or a record does not make sense; what came before it has been visited.
    pub fn experiments(&mut self, id: CampaignId, mut visit: impl FnMut(Experiment)) -> Result<(), StoreError> {
        let sql = self.select(EXPERIMENT, "experiment WHERE campaign = ? ORDER BY number");
        self.rows("reading the experiments", sql, id, |store, row| {
            visit(store.read_experiment(store.count(row, "number")?, row)?);
            Ok(())
        })
    }

    /// Gives each row of a query about a campaign to `visit`, one at a time.
    fn rows(
        &mut self,
        operation: &'static str,
        sql: String,
        id: CampaignId,
        mut visit: impl FnMut(&Self, &SqliteRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection.take().expect("taken only by drop, and given back below");
        let outcome = self.runtime.block_on(async {
            let mut rows = sqlx::query(AssertSqlSafe(sql)).bind(id.0).fetch(&mut connection);
            let failed = |error| classify(&self.path, operation, error);
            while let Some(row) = rows.try_next().await.map_err(failed)? {
                visit(self, &row)?;
            }
            Ok(())
        });
        self.connection = Some(connection);
        outcome
    }

    /// The findings of a campaign, in the order they were made.
    ///
    /// # Errors
    /// The database cannot be read, or a record does not make sense.
    pub fn findings(&mut self, id: CampaignId) -> Result<Vec<FindingRecord>, StoreError> {
        let sql = self.select(FINDING, "finding WHERE campaign = ? ORDER BY number");
        let rows = self.sql("reading the findings", async |connection| {
            sqlx::query(AssertSqlSafe(sql)).bind(id.0).fetch_all(connection).await
        })?;
        rows.iter().map(|row| self.read_finding(row)).collect()
    }

    fn campaigns_sql(&self) -> &'static str {
        if self.version < FAILED_TRIES_SINCE { CAMPAIGNS_BEFORE_FAILURES } else { CAMPAIGNS }
    }

    fn read_campaign(&self, row: &SqliteRow) -> Result<Campaign, StoreError> {
        let id = CampaignId(self.get(row, "id")?);
        self.check_campaign(id, row)?;
        let experiments = self.count(row, "experiments")?;
        let last = self.count(row, "last")?;
        if experiments != last {
            let detail = format!("campaign {id} has {experiments} experiments, and the last one is number {last}");
            return Err(StoreError::Damaged { path: self.path.clone(), detail });
        }
        let budget: Option<i64> = self.get(row, "budget")?;
        Ok(Campaign {
            id,
            definition: CampaignDefinition {
                kelpie_version: self.get(row, "kelpie_version")?,
                subsystem: self.get(row, "subsystem")?,
                subsystem_source: self.get(row, "subsystem_source")?,
                bounds: self.json(row, "bounds")?,
                space: self.get(row, "space")?,
                space_source: self.get(row, "space_source")?,
                algorithm: self.get(row, "algorithm")?,
                signal: self.get(row, "signal")?,
                seed: self.count(row, "seed")?,
                config: self.get(row, "config")?,
                budget: budget.map(i64::cast_unsigned),
            },
            state: self.state(row, id)?,
            experiments,
            skipped: self.count(row, "skipped")?,
            findings: self.count(row, "findings")?,
            host_failures: self.count(row, "host_failures")?,
        })
    }

    /// Refuses a campaign that is not as it was stored.
    fn check_campaign(&self, id: CampaignId, row: &SqliteRow) -> Result<(), StoreError> {
        let checksum = campaign_checksum(row).map_err(|error| classify(&self.path, "reading a record", error))?;
        self.check_sum(row, checksum, || format!("campaign {id}"))
    }

    /// A query for these columns, with the checksum if the database has one.
    fn select(&self, columns: &str, from: &str) -> String {
        let checksum = if self.version < checksum::SINCE { "NULL" } else { "checksum" };
        format!("SELECT {columns}, {checksum} AS checksum FROM {from}")
    }

    /// Refuses a row that is not as it was stored; rows of an older Kelpie have no checksum.
    fn check_sum(&self, row: &SqliteRow, sum: Checksum, what: impl FnOnce() -> String) -> Result<(), StoreError> {
        if self.version < checksum::SINCE {
            return Ok(());
        }
        match self.get::<Option<i64>>(row, "checksum")? {
            Some(kept) if kept != sum.finish() => {
                let detail = format!("{} is not as it was stored: its checksum differs", what());
                Err(StoreError::Damaged { path: self.path.clone(), detail })
            }
            _ => Ok(()),
        }
    }

    fn state(&self, row: &SqliteRow, id: CampaignId) -> Result<CampaignState, StoreError> {
        let state: String = self.get(row, "state")?;
        Ok(match state.as_str() {
            "finished" => CampaignState::Finished,
            _ if CampaignLock::is_held(&self.path, id) => CampaignState::Running,
            _ => CampaignState::Stopped,
        })
    }

    /// Refuses an experiment that is not as it was stored.
    fn check_experiment(&self, number: u64, row: &SqliteRow) -> Result<(), StoreError> {
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
    fn verify_experiment(&self, row: &SqliteRow) -> Result<(), StoreError> {
        let number = self.count(row, "number")?;
        match self.get::<Option<i64>>(row, "checksum")? {
            Some(_) => self.check_experiment(number, row),
            None => self.read_experiment(number, row).map(drop),
        }
    }

    fn read_experiment(&self, number: u64, row: &SqliteRow) -> Result<Experiment, StoreError> {
        self.check_experiment(number, row)?;
        let unsupported: Option<String> = self.get(row, "unsupported")?;
        let outcome = match unsupported {
            Some(reason) => Outcome::Unsupported { reason },
            None => Outcome::Measured {
                measurement: self.json(row, "measurement")?,
                assessment: self.json(row, "assessment")?,
                attempts: self.get(row, "attempts")?,
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

    fn read_finding(&self, row: &SqliteRow) -> Result<FindingRecord, StoreError> {
        let number = self.count(row, "number")?;
        let checksum = Checksum::of("finding")
            .integer(self.get(row, "campaign")?)
            .integer(number.cast_signed())
            .text(self.get(row, "symptom")?)
            .integer(self.get(row, "found_at")?)
            .integer(self.get(row, "experiments_for_mfs")?)
            .integer(self.get::<f64>(row, "confidence")?.to_bits().cast_signed())
            .text(self.get(row, "mfs")?)
            .text(self.get(row, "workload")?)
            .text(self.get(row, "evidence")?);
        self.check_sum(row, checksum, || format!("finding {number}"))?;
        Ok(FindingRecord {
            number,
            symptom: self.word(row, "symptom")?,
            found_at: self.count(row, "found_at")?,
            experiments_for_mfs: self.count(row, "experiments_for_mfs")?,
            confidence: self.get(row, "confidence")?,
            mfs: self.json(row, "mfs")?,
            workload: self.json(row, "workload")?,
            evidence: self.json(row, "evidence")?,
        })
    }

    fn get<'r, T>(&self, row: &'r SqliteRow, column: &'static str) -> Result<T, StoreError>
    where
        T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    {
        row.try_get(column).map_err(|error| classify(&self.path, "reading a record", error))
    }

    fn count(&self, row: &SqliteRow, column: &'static str) -> Result<u64, StoreError> {
        self.get::<i64>(row, column).map(i64::cast_unsigned)
    }

    fn json<T: DeserializeOwned>(&self, row: &SqliteRow, column: &'static str) -> Result<T, StoreError> {
        let text: String = self.get(row, column)?;
        serde_json::from_str(&text).map_err(|error| self.damaged(column, &error))
    }

    /// A word that stands for a value.
    fn word<T: DeserializeOwned>(&self, row: &SqliteRow, column: &'static str) -> Result<T, StoreError> {
        let word = serde_json::Value::String(self.get(row, column)?);
        serde_json::from_value(word).map_err(|error| self.damaged(column, &error))
    }

    fn damaged(&self, column: &'static str, error: &serde_json::Error) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), detail: format!("column `{column}`: {error}") }
    }
}

/// What an experiment is made of, beside its checksum.
const EXPERIMENT: &str =
    "campaign, number, purpose, skipped_before, workload, measurement, assessment, attempts, unsupported";

/// What a finding is made of, beside its checksum.
const FINDING: &str = "campaign, number, symptom, found_at, experiments_for_mfs, confidence, mfs, workload, evidence";

fn campaign_checksum(row: &SqliteRow) -> Result<Checksum, sqlx::Error> {
    let mut checksum = Checksum::of("campaign").integer(row.try_get("id")?);
    for column in [
        "kelpie_version",
        "subsystem",
        "subsystem_source",
        "bounds",
        "space",
        "space_source",
        "algorithm",
        "signal",
        "config",
        "state",
    ] {
        checksum = checksum.text(row.try_get(column)?);
    }
    let budget: Option<i64> = row.try_get("budget")?;
    let numbers =
        [row.try_get("seed")?, row.try_get("skipped_at_end")?, i64::from(budget.is_some()), budget.unwrap_or(0)];
    Ok(numbers.into_iter().fold(checksum, Checksum::integer))
}

/// Stores the checksum of a campaign as it is now.
async fn seal(connection: &mut SqliteConnection, id: i64) -> Result<(), sqlx::Error> {
    let row = sqlx::query("SELECT * FROM campaign WHERE id = ?").bind(id).fetch_one(&mut *connection).await?;
    sqlx::query("UPDATE campaign SET checksum = ? WHERE id = ?")
        .bind(campaign_checksum(&row)?.finish())
        .bind(id)
        .execute(connection)
        .await?;
    Ok(())
}

/// The first version of the database that holds failed tries.
const FAILED_TRIES_SINCE: i64 = 3;

macro_rules! campaigns {
    ($host_failures:literal) => {
        concat!(
            "SELECT campaign.*, (SELECT count(*) FROM experiment WHERE campaign = id) AS experiments, \
             (SELECT coalesce(max(number), 0) FROM experiment WHERE campaign = id) AS last, \
             skipped_at_end + (SELECT coalesce(sum(skipped_before), 0) FROM experiment WHERE campaign = id) AS skipped, \
             (SELECT coalesce(nullif(sum(NOT is_candidate), 0), count(*)) FROM \
             (SELECT json_extract(valid, '$.variant_of') AS first, \
             coalesce(json_extract(valid, '$.is_candidate'), 0) AS is_candidate FROM \
             (SELECT CASE WHEN json_valid(evidence) THEN evidence ELSE '{}' END AS valid FROM finding \
             WHERE finding.campaign = campaign.id)) WHERE first IS NULL) AS findings, ",
            $host_failures,
            " AS host_failures FROM campaign WHERE ?1 IS NULL OR id = ?1 ORDER BY id"
        )
    };
}

/// All campaigns, or the one of a number.
const CAMPAIGNS: &str = campaigns!(
    "(SELECT count(*) FROM (SELECT DISTINCT number FROM failed_try WHERE failed_try.campaign = id) AS tried \
     JOIN experiment ON experiment.campaign = id AND experiment.number = tried.number \
     WHERE json_extract(assessment, '$.symptoms[0]') = 'host_failure')"
);

/// The same from a database that holds no failed tries.
const CAMPAIGNS_BEFORE_FAILURES: &str = campaigns!("0");

mod anomalies;
pub mod checkpoints;
mod checks;
mod failed_tries;
pub mod follow;
pub mod labels;
pub mod measured_again;
mod safety;

#[cfg(test)]
mod tests;

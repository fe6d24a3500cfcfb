//! Campaigns: how they begin, go on and end, and what is read of them.

use kelpie_monitor::Check;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection as _, Row as _, SqliteConnection};

use super::{Store, checks};
use crate::error::{StoreError, classify};
use crate::json::exact;
use crate::records::{Campaign, CampaignDefinition, CampaignId, CampaignState, unix_ms};
use crate::sqlite::checksum::Checksum;
use crate::sqlite::lock::WriterLock;

impl Store {
    /// Stores a campaign that is about to begin, with what was looked at on its hosts, and takes its lock.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn begin_campaign(
        &mut self,
        definition: &CampaignDefinition,
        checks: &[Check],
    ) -> Result<(CampaignId, WriterLock), StoreError> {
        let checks = checks::rows(checks)?;
        let bounds = exact("bound", &definition.bounds)?;
        let seed = i64::try_from(definition.seed)
            .map_err(|_| StoreError::NotExact { what: "seed", detail: "above 2^63 - 1".to_owned() })?;
        let budget = definition.budget.map(|budget| i64::try_from(budget).unwrap_or(i64::MAX));
        let path = self.path().to_owned();
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
            let lock = WriterLock::take(&path, CampaignId(id).into());
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
    pub fn lock_campaign(&mut self, id: CampaignId) -> Result<WriterLock, StoreError> {
        self.campaign(id)?;
        let lock = WriterLock::take(self.path(), id.into())?;
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
        let row = row.ok_or_else(|| StoreError::NoCampaign { path: self.path().to_owned(), id })?;
        self.read_campaign(&row)
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
            return Err(StoreError::Damaged { path: self.path().to_owned(), detail });
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
    pub(super) fn check_campaign(&self, id: CampaignId, row: &SqliteRow) -> Result<(), StoreError> {
        let checksum = campaign_checksum(row).map_err(|error| classify(self.path(), "reading a record", error))?;
        self.check_sum(row, checksum, || format!("campaign {id}"))
    }

    pub(super) fn state(&self, row: &SqliteRow, id: CampaignId) -> Result<CampaignState, StoreError> {
        let state: String = self.get(row, "state")?;
        Ok(match state.as_str() {
            "finished" => CampaignState::Finished,
            _ if WriterLock::is_held(self.path(), id.into()) => CampaignState::Running,
            _ => CampaignState::Stopped,
        })
    }
}

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

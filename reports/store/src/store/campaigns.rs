//! Campaigns: how they begin, go on and end, and what is read of them.

use kelpie_monitor::Check;

use super::{Store, checks};
use crate::checksum::Checksum;
use crate::error::{StoreError, classify};
use crate::json::exact;
use crate::link::{Link, Row, values};
use crate::lock::WriterLock;
use crate::records::{Campaign, CampaignDefinition, CampaignId, CampaignState, unix_ms};

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
        let (id, lock) = self.write("storing the campaign", None, |link| {
            let id = link.number(
                "INSERT INTO campaign (kelpie_version, subsystem, subsystem_source, bounds, space, space_source, \
                 algorithm, signal, seed, config, budget, state) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,'open') \
                 RETURNING id",
                values![
                    &definition.kelpie_version,
                    &definition.subsystem,
                    &definition.subsystem_source,
                    &bounds,
                    &definition.space,
                    &definition.space_source,
                    &definition.algorithm,
                    &definition.signal,
                    seed,
                    &definition.config,
                    budget,
                ],
                "id",
            )?;
            let id = CampaignId(id);
            link.execute(
                "INSERT INTO campaign_clock (campaign, started_unix_ms) VALUES ($1,$2)",
                values![id, unix_ms()],
            )?;
            checks::insert(link, id, &checks)?;
            seal(link, id)?;
            // Before anybody can see the campaign, so that it never looks stopped.
            Ok((id, link.take(id.into())?))
        })?;
        let lock = self.taken(id.into(), lock);
        self.begin_writing()?;
        Ok((id, lock))
    }

    /// Takes the lock of a stored campaign, to go on with it.
    ///
    /// # Errors
    /// There is no such campaign, or another process runs it.
    pub fn lock_campaign(&mut self, id: CampaignId) -> Result<WriterLock, StoreError> {
        self.campaign(id)?;
        let lock = self.take(id.into())?;
        self.begin_writing()?;
        Ok(lock)
    }

    /// Marks a campaign as open again, with this budget.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn reopen_campaign(&mut self, id: CampaignId, budget: Option<u64>) -> Result<(), StoreError> {
        let budget = budget.map(|budget| i64::try_from(budget).unwrap_or(i64::MAX));
        self.write("reopening the campaign", Some(id.into()), |link| {
            link.execute(
                "UPDATE campaign SET state = 'open', skipped_at_end = 0, budget = $1 WHERE id = $2",
                values![budget, id],
            )?;
            seal(link, id)
        })
    }

    /// Marks a campaign as run to its end.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn finish_campaign(&mut self, id: CampaignId, skipped_at_end: u64) -> Result<(), StoreError> {
        self.write("closing the campaign", Some(id.into()), |link| {
            link.execute(
                "UPDATE campaign SET state = 'finished', skipped_at_end = $1 WHERE id = $2",
                values![skipped_at_end, id],
            )?;
            seal(link, id)
        })?;
        self.check_place()
    }

    /// Every campaign, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn campaigns(&mut self) -> Result<Vec<Campaign>, StoreError> {
        let campaigns = self.campaigns_sql();
        let rows = self.sql("reading the campaigns", |link| link.rows(campaigns, values![None::<i64>]))?;
        rows.iter().map(|row| self.read_campaign(row)).collect()
    }

    /// One campaign.
    ///
    /// # Errors
    /// There is none of this number, or the database cannot be read.
    pub fn campaign(&mut self, id: CampaignId) -> Result<Campaign, StoreError> {
        let campaigns = self.campaigns_sql();
        let row = self.sql("reading the campaign", |link| link.row(campaigns, values![id]))?;
        let row = row.ok_or_else(|| StoreError::NoCampaign { database: self.database.clone(), id })?;
        self.read_campaign(&row)
    }

    fn campaigns_sql(&self) -> &'static str {
        if self.version < FAILED_TRIES_SINCE { CAMPAIGNS_BEFORE_FAILURES } else { CAMPAIGNS }
    }

    fn read_campaign(&self, row: &Row) -> Result<Campaign, StoreError> {
        let id = CampaignId(self.get(row, "id")?);
        self.check_campaign(id, row)?;
        let experiments = self.count(row, "experiments")?;
        let last = self.count(row, "last")?;
        if experiments != last {
            let detail = format!("campaign {id} has {experiments} experiments, and the last one is number {last}");
            return Err(StoreError::Damaged { database: self.database.clone(), detail });
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
    pub(super) fn check_campaign(&self, id: CampaignId, row: &Row) -> Result<(), StoreError> {
        let checksum = campaign_checksum(row).map_err(|error| classify(&self.database, "reading a record", error))?;
        self.check_sum(row, checksum, || format!("campaign {id}"))
    }

    pub(super) fn state(&self, row: &Row, id: CampaignId) -> Result<CampaignState, StoreError> {
        let state: String = self.get(row, "state")?;
        Ok(match state.as_str() {
            "finished" => CampaignState::Finished,
            _ if self.sql("looking for its writer", |link| link.is_held(id.into()))? => CampaignState::Running,
            _ => CampaignState::Stopped,
        })
    }
}

fn campaign_checksum(row: &Row) -> Result<Checksum, sqlx::Error> {
    let mut checksum = Checksum::of("campaign").integer(row.get("id")?);
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
        checksum = checksum.text(row.get(column)?);
    }
    let budget: Option<i64> = row.get("budget")?;
    let numbers = [row.get("seed")?, row.get("skipped_at_end")?, i64::from(budget.is_some()), budget.unwrap_or(0)];
    Ok(numbers.into_iter().fold(checksum, Checksum::integer))
}

/// Stores the checksum of a campaign as it is now.
fn seal(link: &mut Link, id: CampaignId) -> Result<(), StoreError> {
    let row = link.one("SELECT * FROM campaign WHERE id = $1", values![id])?;
    let checksum = campaign_checksum(&row).map_err(|error| classify(link.database(), link.operation, error))?;
    link.execute("UPDATE campaign SET checksum = $1 WHERE id = $2", values![checksum.finish(), id])?;
    Ok(())
}

/// The first version of the database that holds failed tries.
const FAILED_TRIES_SINCE: i64 = 3;

macro_rules! campaigns {
    ($host_failures:literal) => {
        concat!(
            "SELECT campaign.*, (SELECT count(*) FROM experiment WHERE campaign = id) AS experiments, \
             (SELECT coalesce(max(number), 0) FROM experiment WHERE campaign = id) AS last, \
             skipped_at_end + (SELECT CAST(coalesce(sum(skipped_before), 0) AS BIGINT) FROM experiment \
             WHERE campaign = id) AS skipped, \
             (SELECT coalesce(nullif(sum(is_final), 0), count(*)) FROM \
             (SELECT json_extract(valid, '$.variant_of') AS first, \
             CASE WHEN CAST(json_extract(valid, '$.is_candidate') AS TEXT) IN ('1', 'true') THEN 0 ELSE 1 END AS is_final \
             FROM (SELECT CASE WHEN json_valid(evidence) THEN evidence ELSE '{}' END AS valid FROM finding \
             WHERE finding.campaign = campaign.id) AS evidences) AS origins WHERE first IS NULL) AS findings, ",
            $host_failures,
            " AS host_failures FROM campaign WHERE $1 IS NULL OR id = $1 ORDER BY id"
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

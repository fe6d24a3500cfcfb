//! What a watcher reads of a campaign: only what is new since it last looked. Writes nothing.

use std::collections::BTreeMap;

use kelpie_monitor::{Assessment, Bounds, Verdict};
use kelpie_search::measured_signals;

use crate::anomaly::Anomaly;
use crate::database::Database;
use crate::error::StoreError;
use crate::link::{Row, sql, values};
use crate::purpose::StoredPurpose;
use crate::records::{Campaign, CampaignId, CampaignState, Ended, ExperimentClock, FindingRecord};
use crate::store::Store;

/// Experiments of which signals are read; of older ones only the verdict, and the severity if they were anomalous.
///
/// Source: our choice, because a terminal is seldom wider, and a measurement is a hundred times as long as its verdict.
pub const RECENT: u64 = 256;

/// Most experiments that are read at once.
///
/// Source: our choice, because they take some tens of milliseconds, within which a reader of the terminal answers.
const MOST_AT_ONCE: u64 = 2000;

/// A campaign that is looked at again and again.
///
/// Between two looks the database is closed, so that a campaign that ends meanwhile tidies its write-ahead log away.
#[derive(Debug)]
pub struct CampaignFollower {
    database: Database,
    id: CampaignId,
    bounds: Bounds,
    seen: LastRows,
}

/// The last rows that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct LastRows {
    experiment: u64,
    finding: u64,
}

/// What is new of a campaign.
#[derive(Debug, PartialEq)]
pub struct CampaignNews {
    /// How far it is now.
    pub state: CampaignState,
    /// Experiments that it may make, which a resumption may change.
    pub budget: Option<u64>,
    /// Workloads skipped after the last experiment.
    pub skipped_at_end: u64,
    /// Experiments stored, read or not.
    pub stored: u64,
    /// Experiments after those read before, in order; not all, if there are many.
    pub experiments: Vec<Brief>,
    /// Findings after those read before.
    pub findings: Vec<FindingRecord>,
    /// Whether nothing was left to be read.
    pub is_all: bool,
}

/// An experiment in brief.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// Its number in the campaign, from 1.
    pub number: u64,
    /// What it was for.
    pub purpose: StoredPurpose,
    /// Workloads skipped since the experiment before.
    pub skipped_before: u64,
    /// How it ended.
    pub ended: Ended,
    /// What it showed, if it was anomalous.
    pub anomaly: Option<Anomaly>,
    /// When it ran.
    pub clock: Option<ExperimentClock>,
    /// The signals that the search looks at; nothing if it was neither anomalous nor among the latest [`RECENT`] when
    /// it was read.
    pub signals: BTreeMap<String, f64>,
}

impl CampaignFollower {
    /// Follows a stored campaign from its beginning; nothing is read yet.
    pub fn new(database: impl Into<Database>, campaign: &Campaign) -> Self {
        Self {
            database: database.into(),
            id: campaign.id,
            bounds: campaign.definition.bounds,
            seen: LastRows::default(),
        }
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// The database cannot be read, the campaign is gone, or a record does not make sense; the next read begins where
    /// this one did.
    pub fn read(&mut self) -> Result<CampaignNews, StoreError> {
        let mut store = Store::open_to_read(&self.database)?;
        let news = store.news(self.id, &self.bounds, self.seen)?;
        if let Some(last) = news.experiments.last() {
            self.seen.experiment = last.number;
        }
        if let Some(last) = news.findings.last() {
            self.seen.finding = last.number;
        }
        Ok(news)
    }
}

impl Store {
    fn news(&mut self, id: CampaignId, bounds: &Bounds, seen: LastRows) -> Result<CampaignNews, StoreError> {
        // The state first: whatever was stored before a campaign ended is then read too.
        let campaign = self.sql("reading the campaign", |link| {
            link.row(
                "SELECT campaign.*, (SELECT coalesce(max(number), 0) FROM experiment WHERE campaign = id) AS stored \
                 FROM campaign WHERE id = $1",
                values![id],
            )
        })?;
        let campaign = campaign.ok_or_else(|| StoreError::NoCampaign { database: self.database.clone(), id })?;
        self.check_campaign(id, &campaign)?;
        let stored = self.count(&campaign, "stored")?;
        let state = self.state(&campaign, id)?;
        let text = self.select(super::findings::FINDING, "finding WHERE campaign = $1 AND number > $2 ORDER BY number");
        let findings = self.sql("reading the findings", |link| link.rows(sql(text), values![id, seen.finding]))?;
        let text = self.select(
            &format!("{}, started_unix_ms, duration_seconds", super::experiments::EXPERIMENT),
            "experiment LEFT JOIN experiment_clock USING (campaign, number) \
             WHERE campaign = $1 AND number > $2 ORDER BY number LIMIT $3",
        );
        let experiments = self
            .sql("reading the experiments", |link| link.rows(sql(text), values![id, seen.experiment, MOST_AT_ONCE]))?;
        let recent = stored.saturating_sub(RECENT);
        let budget: Option<i64> = self.get(&campaign, "budget")?;
        Ok(CampaignNews {
            state,
            budget: budget.map(i64::cast_unsigned),
            skipped_at_end: self.count(&campaign, "skipped_at_end")?,
            stored,
            is_all: (experiments.len() as u64) < MOST_AT_ONCE,
            experiments: experiments
                .iter()
                .map(|row| self.read_brief(row, bounds, recent))
                .collect::<Result<_, _>>()?,
            findings: findings.iter().map(|row| self.read_finding(row)).collect::<Result<_, _>>()?,
        })
    }

    /// Measurements are looked into only of anomalies and of experiments after `recent`.
    fn read_brief(&self, row: &Row, bounds: &Bounds, recent: u64) -> Result<Brief, StoreError> {
        let number = self.count(row, "number")?;
        self.check_experiment(number, row)?;
        let unsupported: Option<&str> = self.get(row, "unsupported")?;
        let (mut signals, mut anomaly) = (BTreeMap::new(), None);
        let ended = if unsupported.is_some() {
            Ended::Unsupported
        } else {
            let Assessment { verdict, .. } = self.json(row, "assessment")?;
            if verdict == Verdict::Anomalous {
                anomaly = self.read_anomaly(row, bounds)?;
            }
            if number > recent || verdict == Verdict::Anomalous {
                signals = measured_signals(&self.json(row, "measurement")?, bounds);
            }
            Ended::Judged(verdict)
        };
        let started: Option<i64> = self.get(row, "started_unix_ms")?;
        let duration: Option<f64> = self.get(row, "duration_seconds")?;
        let clock = started
            .zip(duration)
            .map(|(started_unix_ms, duration_seconds)| ExperimentClock { started_unix_ms, duration_seconds });
        Ok(Brief {
            number,
            purpose: self.get::<String>(row, "purpose")?.into(),
            skipped_before: self.count(row, "skipped_before")?,
            ended,
            anomaly,
            clock,
            signals,
        })
    }
}

#[cfg(test)]
pub(super) mod tests;

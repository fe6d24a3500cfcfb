//! What people call campaigns, when they ran, and their end: nothing that decides a campaign.

use serde::Serialize;

use super::Store;
use crate::error::StoreError;
use crate::link::{sql, values};
use crate::records::CampaignId;

/// The first version of the database that holds labels.
const SINCE: i64 = 4;

/// Every table with rows of a campaign, those that name others first.
const TABLES: [&str; 10] = [
    "measured_again",
    "checkpoint",
    "experiment_clock",
    "finding",
    "experiment",
    "failed_try",
    "campaign_check",
    "campaign_clock",
    "campaign_label",
    "campaign",
];

/// What people say of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label {
    /// A short name.
    pub name: Option<String>,
    /// Why it ran, or anything else.
    pub note: Option<String>,
}

/// What a clock says of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CampaignClock {
    /// When it began; nothing of an imported one. Units: milliseconds since 1970.
    pub started_unix_ms: Option<i64>,
    /// How long its experiments took together. Units: seconds.
    pub measured_seconds: f64,
}

impl Store {
    /// Replaces what is said of a campaign; what is `None` stays.
    ///
    /// # Errors
    /// There is no such campaign, or the database cannot be written.
    pub fn put_label(&mut self, id: CampaignId, label: &Label) -> Result<(), StoreError> {
        self.campaign(id)?;
        self.sql("storing the label", |link| {
            link.execute(
                "INSERT INTO campaign_label (campaign, name, note) VALUES ($1, $2, $3) ON CONFLICT (campaign) DO UPDATE \
                 SET name = coalesce(excluded.name, campaign_label.name), \
                 note = coalesce(excluded.note, campaign_label.note)",
                values![id, &label.name, &label.note],
            )
        })?;
        Ok(())
    }

    /// What is said of a campaign.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn label(&mut self, id: CampaignId) -> Result<Label, StoreError> {
        if self.version < SINCE {
            return Ok(Label::default());
        }
        let row = self.sql("reading the label", |link| {
            link.row("SELECT name, note FROM campaign_label WHERE campaign = $1", values![id])
        })?;
        let Some(row) = row else { return Ok(Label::default()) };
        Ok(Label { name: self.get(&row, "name")?, note: self.get(&row, "note")? })
    }

    /// When a campaign ran.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn clock(&mut self, id: CampaignId) -> Result<CampaignClock, StoreError> {
        let row = self.sql("reading the clock", |link| {
            link.one(
                "SELECT (SELECT started_unix_ms FROM campaign_clock WHERE campaign = $1) AS started, \
                 (SELECT coalesce(sum(duration_seconds), 0.0) FROM experiment_clock WHERE campaign = $1) AS seconds",
                values![id],
            )
        })?;
        Ok(CampaignClock { started_unix_ms: self.get(&row, "started")?, measured_seconds: self.get(&row, "seconds")? })
    }

    /// Takes a campaign with all that belongs to it out of the database; its number is not given again.
    ///
    /// # Errors
    /// There is no such campaign, a process runs it, or the database cannot be written; then nothing is gone.
    pub fn remove_campaign(&mut self, id: CampaignId) -> Result<(), StoreError> {
        let lock = self.lock_campaign(id)?;
        self.write("removing the campaign", Some(id.into()), |link| {
            for table in TABLES {
                let key = if table == "campaign" { "id" } else { "campaign" };
                link.execute(sql(format!("DELETE FROM {table} WHERE {key} = $1")), values![id])?;
            }
            Ok(())
        })?;
        drop(lock);
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::place::{Place, both};
    use crate::records::ExperimentClock;
    use crate::testing::{definition, finding, measured, sample, workload};

    fn a_campaign_is_named_timed_and_removed_without_touching_others(place: &Place<'_>) {
        let mut store = Store::create(place.database("kelpie")).unwrap();
        let mut begin = || {
            let (id, lock) = store.begin_campaign(&definition(), &[]).unwrap();
            for number in 1..=3 {
                let clock = ExperimentClock { started_unix_ms: 7, duration_seconds: 0.5 };
                let experiment = measured(number, workload(1, 1024), sample(0.9, None), Vec::new());
                store.append_experiment(id, &experiment, clock).unwrap();
            }
            store.put_finding(id, &finding(1, 2, workload(1, 1024))).unwrap();
            (id, lock)
        };
        let ((first, _lock), (second, other)) = (begin(), begin());
        drop(other);
        assert_eq!(store.label(first).unwrap(), Label::default());
        let label = |name: Option<&str>, note: Option<&str>| Label {
            name: name.map(str::to_owned),
            note: note.map(str::to_owned),
        };
        store.put_label(first, &label(Some("one"), None)).unwrap();
        store.put_label(first, &label(None, Some("why"))).unwrap();
        assert_eq!(store.label(first).unwrap(), label(Some("one"), Some("why")));
        let clock = store.clock(first).unwrap();
        assert!(clock.started_unix_ms.is_some());
        assert!((clock.measured_seconds - 1.5).abs() < 1e-9, "{clock:?}");

        assert!(matches!(store.remove_campaign(first), Err(StoreError::Locked { .. })), "it runs");
        let kept = store.campaign(first).unwrap();
        store.remove_campaign(second).unwrap();
        assert!(matches!(store.remove_campaign(second), Err(StoreError::NoCampaign { .. })));
        assert_eq!(store.campaigns().unwrap(), [kept]);
        let (third, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
        assert!(third.0 > second.0, "a number means one campaign");
        assert_eq!(store.experiment(third, 1).unwrap(), None);
    }

    #[test]
    fn no_table_of_a_campaign_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("kelpie.db")).unwrap();
        let named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '[a-z]*'";
        let rows = store.sql("reading the tables", |link| link.rows(named, &[])).unwrap();
        let tables: Vec<String> = rows.iter().map(|row| row.get("name").unwrap()).collect();
        let others = ["sqlite_", "qualification"];
        for table in tables.iter().filter(|table| !others.iter().any(|other| table.starts_with(other))) {
            assert!(TABLES.contains(&table.as_str()), "{table}");
        }
    }

    both![a_campaign_is_named_timed_and_removed_without_touching_others];
}

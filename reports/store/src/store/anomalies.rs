//! The anomalous experiments of a campaign, read without the others.

use kelpie_monitor::Bounds;
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteRow;

use crate::anomaly::Anomaly;
use crate::error::StoreError;
use crate::records::CampaignId;
use crate::store::Store;

impl Store {
    /// The anomalous experiments of a campaign, in order.
    ///
    /// # Errors
    /// The database cannot be read, there is no such campaign, or a record does not make sense.
    pub fn anomalies(&mut self, id: CampaignId) -> Result<Vec<Anomaly>, StoreError> {
        let bounds = self.campaign(id)?.definition.bounds;
        let anomalous =
            "experiment WHERE campaign = ? AND json_extract(assessment, '$.verdict') = 'anomalous' ORDER BY number";
        let sql = self.select(super::EXPERIMENT, anomalous);
        let rows = self.sql("reading the anomalies", async |connection| {
            sqlx::query(AssertSqlSafe(sql)).bind(id.0).fetch_all(connection).await
        })?;
        let read = |row| {
            // With its checksum.
            self.read_experiment(self.count(row, "number")?, row)?;
            self.read_anomaly(row, &bounds)
        };
        rows.iter().filter_map(|row| read(row).transpose()).collect()
    }

    pub(super) fn read_anomaly(&self, row: &SqliteRow, bounds: &Bounds) -> Result<Option<Anomaly>, StoreError> {
        let (workload, measurement) = (self.json(row, "workload")?, self.json(row, "measurement")?);
        let assessment = self.json(row, "assessment")?;
        Ok(Anomaly::of(self.count(row, "number")?, &workload, &measurement, &assessment, bounds))
    }
}

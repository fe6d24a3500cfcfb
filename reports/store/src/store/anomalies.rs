//! The anomalous experiments of a campaign, read without the others.

use std::ops::ControlFlow;

use kelpie_monitor::Bounds;

use crate::anomaly::Anomaly;
use crate::error::StoreError;
use crate::link::{Row, values};
use crate::records::CampaignId;
use crate::store::Store;

impl Store {
    /// The anomalous experiments of a campaign, in order.
    ///
    /// # Errors
    /// The database cannot be read, there is no such campaign, or a record does not make sense.
    pub fn anomalies(&mut self, id: CampaignId) -> Result<Vec<Anomaly>, StoreError> {
        let bounds = self.campaign(id)?.definition.bounds;
        // By what they are not: a verdict that changed by itself is neither, and its checksum then tells.
        let anomalous = "experiment WHERE campaign = $1 \
             AND json_extract(assessment, '$.verdict') NOT IN ('healthy', 'inconclusive') ORDER BY number";
        let sql = self.select(super::experiments::EXPERIMENT, anomalous);
        let mut anomalies = Vec::new();
        self.rows("reading the anomalies", sql, values![id], |store, row| {
            store.check_experiment(store.count(row, "number")?, row)?;
            anomalies.extend(store.read_anomaly(row, &bounds)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(anomalies)
    }

    /// Whether any experiment of a campaign was conclusive.
    ///
    /// # Errors
    /// The database cannot be read, or there is no such campaign.
    pub fn has_verdict(&mut self, id: CampaignId) -> Result<bool, StoreError> {
        self.campaign(id)?;
        let mut has_verdict = false;
        let conclusive = "experiment WHERE campaign = $1 \
             AND json_extract(assessment, '$.verdict') IN ('healthy', 'anomalous') ORDER BY number LIMIT 1";
        let sql = self.select(super::experiments::EXPERIMENT, conclusive);
        self.rows("looking for a verdict", sql, values![id], |_, _| {
            has_verdict = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(has_verdict)
    }

    pub(super) fn read_anomaly(&self, row: &Row, bounds: &Bounds) -> Result<Option<Anomaly>, StoreError> {
        let (workload, measurement) = (self.json(row, "workload")?, self.json(row, "measurement")?);
        let assessment = self.json(row, "assessment")?;
        Ok(Anomaly::of(self.count(row, "number")?, &workload, &measurement, &assessment, bounds))
    }
}

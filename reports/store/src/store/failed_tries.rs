//! The tries of an experiment under which a host failed.

use super::Store;
use crate::error::StoreError;
use crate::link::values;
use crate::records::CampaignId;

impl Store {
    /// Commits that a host failed under an experiment, once more.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn add_failed_try(&mut self, id: CampaignId, number: u64, reason: &str) -> Result<(), StoreError> {
        let reason = self.storable(reason);
        self.write("storing a failed try", Some(id.into()), |link| {
            link.execute(
                "INSERT INTO failed_try (campaign, number, try, reason) SELECT $1, $2, 1 + count(*), $3 \
                 FROM failed_try WHERE campaign = $1 AND number = $2",
                values![id, number, &*reason],
            )
        })?;
        Ok(())
    }

    /// What the hosts said at each failed try of an experiment, in order. The database was opened to write.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn failed_tries(&mut self, id: CampaignId, number: u64) -> Result<Vec<String>, StoreError> {
        let rows = self.sql("reading the failed tries", |link| {
            link.rows(
                "SELECT reason FROM failed_try WHERE campaign = $1 AND number = $2 ORDER BY try",
                values![id, number],
            )
        })?;
        rows.iter().map(|row| self.get(row, "reason")).collect()
    }
}

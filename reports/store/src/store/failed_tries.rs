//! The tries of an experiment under which a host failed.

use sqlx::Row as _;

use super::Store;
use crate::error::StoreError;
use crate::records::CampaignId;

impl Store {
    /// Commits that a host failed under an experiment, once more.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn add_failed_try(&mut self, id: CampaignId, number: u64, reason: &str) -> Result<(), StoreError> {
        self.sql("storing a failed try", async |connection| {
            sqlx::query(
                "INSERT INTO failed_try (campaign, number, try, reason) SELECT ?1, ?2, 1 + count(*), ?3 \
                 FROM failed_try WHERE campaign = ?1 AND number = ?2",
            )
            .bind(id.0)
            .bind(number.cast_signed())
            .bind(reason)
            .execute(connection)
            .await
        })?;
        Ok(())
    }

    /// What the hosts said at each failed try of an experiment, in order. The database was opened to write.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn failed_tries(&mut self, id: CampaignId, number: u64) -> Result<Vec<String>, StoreError> {
        let rows = self.sql("reading the failed tries", async |connection| {
            sqlx::query("SELECT reason FROM failed_try WHERE campaign = ? AND number = ? ORDER BY try")
                .bind(id.0)
                .bind(number.cast_signed())
                .fetch_all(connection)
                .await
        })?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

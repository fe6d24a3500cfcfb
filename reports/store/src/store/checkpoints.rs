//! From where a resumed campaign goes on: one row for each campaign, which decides nothing that replaying would not.

use super::Store;
use crate::checksum::Checksum;
use crate::error::StoreError;
use crate::link::values;
use crate::records::CampaignId;

/// The first version of the database that holds checkpoints.
const SINCE: i64 = 7;

/// The state of a search after so many experiments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// Experiments before it.
    pub experiments: u64,
    /// The state as its owner wrote it: JSON, which the store does not read.
    pub state: String,
}

fn checksum(id: CampaignId, checkpoint: &StoredCheckpoint) -> i64 {
    let sum = Checksum::of("checkpoint").integer(id.0).integer(checkpoint.experiments.cast_signed());
    sum.text(&checkpoint.state).finish()
}

impl Store {
    /// Commits a checkpoint in place of the one before.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_checkpoint(&mut self, id: CampaignId, checkpoint: &StoredCheckpoint) -> Result<(), StoreError> {
        let checksum = checksum(id, checkpoint);
        self.write("storing a checkpoint", Some(id.into()), |link| {
            link.execute(
                "INSERT INTO checkpoint (campaign, experiments, state, checksum) VALUES ($1,$2,$3,$4) \
                 ON CONFLICT (campaign) DO UPDATE SET experiments = excluded.experiments, state = excluded.state, \
                 checksum = excluded.checksum",
                values![id, checkpoint.experiments, &checkpoint.state, checksum],
            )
        })?;
        Ok(())
    }

    /// The checkpoint of a campaign; `None` if there is none, it is damaged, or experiments before it are missing.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn checkpoint(&mut self, id: CampaignId) -> Result<Option<StoredCheckpoint>, StoreError> {
        if self.version < SINCE {
            return Ok(None);
        }
        let row = self.sql("reading the checkpoint", |link| {
            link.row(
                "SELECT experiments, state, checksum FROM checkpoint WHERE campaign = $1 AND experiments <= \
                 (SELECT coalesce(max(number), 0) FROM experiment WHERE campaign = $1)",
                values![id],
            )
        })?;
        let stored = row.and_then(|row| {
            let experiments = row.get::<i64>("experiments").ok()?.cast_unsigned();
            let checkpoint = StoredCheckpoint { experiments, state: row.get("state").ok()? };
            (row.get::<i64>("checksum").ok()? == checksum(id, &checkpoint)).then_some(checkpoint)
        });
        Ok(stored)
    }
}

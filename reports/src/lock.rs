//! One writer per campaign: a file lock beside the database, which the system frees when its holder dies.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::records::CampaignId;

/// Held by the process that runs a campaign; dropped, or its process killed, the campaign is free again.
#[derive(Debug)]
pub struct CampaignLock {
    path: PathBuf,
    _file: File,
}

fn lock_path(database: &Path, id: CampaignId) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(format!("-campaign-{id}.lock"));
    PathBuf::from(name)
}

impl CampaignLock {
    /// Takes the lock of a campaign.
    pub(crate) fn take(database: &Path, id: CampaignId) -> Result<Self, StoreError> {
        let path = lock_path(database, id);
        let failed = |source: std::io::Error| StoreError::CannotOpen {
            path: lock_path(database, id),
            detail: source.to_string(),
        };
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: database.to_owned(), id }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Whether some process runs the campaign.
    pub(crate) fn is_held(database: &Path, id: CampaignId) -> bool {
        File::open(lock_path(database, id))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Frees the lock of a campaign that is over and removes its file.
    ///
    /// Whoever opened the file meanwhile finds the campaign finished, so removal cannot make two writers.
    pub fn remove(self) {
        // A lock file that stays behind is harmless.
        let _ = std::fs::remove_file(&self.path);
    }
}

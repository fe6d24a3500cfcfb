//! One writer per campaign: a file lock beside the database, which the system frees when its holder dies.

use std::fs::{File, Metadata, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::error::StoreError;
use crate::records::CampaignId;

/// How often a lock that is held is tried, and how long the pause between is.
///
/// Source: our choice, because a look takes microseconds, and a tenth of a second is soon enough to be refused.
const ATTEMPTS: u32 = 20;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

/// Held by the process that runs a campaign; dropped, or its process killed, the campaign is free again. Its file goes
/// with it; that of a process that was killed stays, and holds nothing.
#[derive(Debug)]
pub struct CampaignLock {
    path: PathBuf,
    /// What is locked, and at `path` for as long.
    _file: File,
}

impl Drop for CampaignLock {
    fn drop(&mut self) {
        // Whoever opened it meanwhile sees that it is no longer at its path, and opens the next one.
        let _ = std::fs::remove_file(&self.path);
    }
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
        for attempt in 1..=ATTEMPTS {
            let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Self { path, _file: file }),
                // Its holder removed it between both calls.
                Ok(()) => {}
                // Whoever looks whether the campaign runs holds the lock for a moment; who runs it keeps it.
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => sleep(BETWEEN_ATTEMPTS),
                Err(TryLockError::WouldBlock) => break,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        Err(StoreError::Locked { path: database.to_owned(), id })
    }

    /// Whether some process runs the campaign.
    pub(crate) fn is_held(database: &Path, id: CampaignId) -> bool {
        File::open(lock_path(database, id))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

/// Whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(open), Ok(named)) if id(&open) == id(&named))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn looking_never_keeps_a_campaign_from_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("kelpie.db");
        let id = CampaignId(1);
        drop(CampaignLock::take(&database, id).unwrap());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    CampaignLock::is_held(&database, id);
                }
            });
            let taken = (0..500).try_for_each(|_| CampaignLock::take(&database, id).map(drop));
            is_over.store(true, Ordering::Relaxed);
            taken.unwrap();
        });
        let lock = CampaignLock::take(&database, id).unwrap();
        assert!(CampaignLock::is_held(&database, id));
        assert!(matches!(CampaignLock::take(&database, id), Err(StoreError::Locked { .. })));
        drop(lock);
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "no file stays behind");
    }

    #[test]
    fn two_never_hold_it_though_its_file_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("kelpie.db");
        let holders = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        if let Ok(_lock) = CampaignLock::take(&database, CampaignId(1)) {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            holders.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }
}

//! One writer per campaign or qualification: a file lock beside the database, which the system frees when its holder
//! dies.

use std::fs::{File, Metadata, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::error::StoreError;
use crate::holder::Holder;
use crate::records::Subject;

/// How often a lock that is held is tried, and how long the pause between is.
///
/// Source: our choice, because a look takes microseconds, and a tenth of a second is soon enough to be refused.
const ATTEMPTS: u32 = 20;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

/// Most that is read of the file of a lock, which has the name of a host and two numbers. Units: bytes.
const MOST_BYTES: u64 = 4096;

/// A lock whose file goes with it; that of a process that was killed stays, and holds nothing.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    /// What is locked, and at `path` for as long.
    _file: File,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Whoever opened it meanwhile sees that it is no longer at its path, and opens the next one.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn lock_path(database: &Path, subject: Subject) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(format!("-{}-{}.lock", subject.kind(), subject.number()));
    PathBuf::from(name)
}

impl FileLock {
    /// Takes the lock of a campaign or qualification.
    pub(crate) fn take(database: &Path, subject: Subject) -> Result<Self, StoreError> {
        let path = lock_path(database, subject);
        let failed = |source: std::io::Error| StoreError::CannotOpen {
            database: lock_path(database, subject).into(),
            detail: source.to_string(),
        };
        for attempt in 1..=ATTEMPTS {
            let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    say_who(&file);
                    return Ok(Self { path, _file: file });
                }
                // Its holder removed it between both calls.
                Ok(()) => {}
                // Whoever looks whether the campaign runs holds the lock for a moment; who runs it keeps it.
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => sleep(BETWEEN_ATTEMPTS),
                Err(TryLockError::WouldBlock) => break,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        Err(StoreError::Locked { database: database.into(), subject, holder: who_says(&path) })
    }

    /// Whether some process writes the campaign or qualification.
    pub(crate) fn is_held(database: &Path, subject: Subject) -> bool {
        File::open(lock_path(database, subject))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

/// Writes into the file of a lock who holds it. A disk without room keeps nobody from writing: then nobody is named.
fn say_who(mut file: &File) {
    let said = serde_json::to_vec(&Holder::this_process()).expect("texts and numbers are JSON");
    let _ = file.set_len(0).and_then(|()| file.write_all(&said));
}

/// Who the file of a lock says to hold it.
fn who_says(path: &Path) -> Option<Holder> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
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
    use crate::records::CampaignId;

    const SUBJECT: Subject = Subject::Campaign(CampaignId(1));

    #[test]
    fn looking_never_keeps_a_campaign_from_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("kelpie.db");
        drop(FileLock::take(&database, SUBJECT).unwrap());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    FileLock::is_held(&database, SUBJECT);
                }
            });
            let taken = (0..500).try_for_each(|_| FileLock::take(&database, SUBJECT).map(drop));
            is_over.store(true, Ordering::Relaxed);
            taken.unwrap();
        });
        let lock = FileLock::take(&database, SUBJECT).unwrap();
        assert!(FileLock::is_held(&database, SUBJECT));
        let refused = FileLock::take(&database, SUBJECT).unwrap_err();
        let StoreError::Locked { holder: Some(holder), .. } = &refused else { panic!("{refused}") };
        assert_eq!(holder.process, std::process::id());
        assert!(refused.to_string().contains(&format!("campaign 1 is being run by another process ({holder})")));
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
                        if let Ok(_lock) = FileLock::take(&database, SUBJECT) {
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

//! A new directory with all of its files, or none; the same of a file.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tempfile::TempDir;

/// Says whether [`write()`] may put a directory here: nothing is there, or an empty directory, and what it is in can be
/// written.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if something is there.
pub fn check(path: &Path) -> io::Result<()> {
    let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if fs::symlink_metadata(path).is_ok() && !is_empty() {
        return Err(taken());
    }
    Beside::new(parent(path)).map(drop).map_err(|error| nameless(&error))
}

/// What begins the names of files and directories that are not whole yet.
const PREFIX: &str = ".kelpie-new-";

/// A temporary directory that is locked for as long as its process lives; one that nobody holds is taken away by the
/// next process that writes there.
#[derive(Debug)]
pub(crate) struct Beside {
    folder: TempDir,
    _lock: File,
}

impl Beside {
    /// One in `parent`.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = File::open(folder.path())?;
            // Somebody who cleans up may have come before the lock.
            if is_locked(&lock) && folder.path().exists() {
                remove_abandoned(parent, lock.metadata()?.uid());
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Whether a lock is ours from now on, or there are none on this file system.
fn is_locked(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Takes away what processes of this user left that were killed.
fn remove_abandoned(parent: &Path, user: u32) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry.metadata().is_ok_and(|found| found.uid() == user && !found.is_symlink());
        // A file system without locks says nothing of who is dead.
        let is_dead = || File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if is_ours && is_dead() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// Writes a directory with these files.
///
/// # Errors
/// As [`check`], or if something cannot be written; then nothing is left behind.
pub fn write(path: &Path, files: &[(&str, String)]) -> io::Result<()> {
    write_with(path, |new| {
        files.iter().try_for_each(|(name, text)| {
            let mut file = File::create_new(new.join(name))?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all())
        })
    })
}

/// Writes a directory with the files that `fill` puts into it and synchronises with the disk.
///
/// # Errors
/// As [`check`], what `fill` says, or if something cannot be written; then nothing is left behind.
pub fn write_with<E: From<io::Error>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    check(path)?;
    let new = Beside::new(parent(path)).map_err(|error| nameless(&error))?;
    fill(new.path())?;
    fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755))?;
    // A directory takes the place of an empty one, and of nothing else.
    match fs::rename(new.path(), path) {
        Ok(()) => {
            let _gone = new.folder.keep();
            Ok(())
        }
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory) => {
            Err(taken().into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes a file as a whole; `replaces` says whether it may take the place of another.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if something is there that may not be replaced, or if it cannot be written; then
/// nothing is left behind.
pub fn write_file(path: &Path, bytes: &[u8], replaces: bool) -> io::Result<()> {
    let mut file =
        tempfile::Builder::new().prefix(PREFIX).tempfile_in(parent(path)).map_err(|error| nameless(&error))?;
    if is_locked(file.as_file()) {
        remove_abandoned(parent(path), file.as_file().metadata()?.uid());
    }
    file.write_all(bytes)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    let kept = if replaces { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map(drop).map_err(|error| error.error)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The cause without the name of a temporary file, which says nothing to anybody.
fn nameless(error: &io::Error) -> io::Error {
    error.kind().into()
}

fn taken() -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, "something is there already; name a new or an empty directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_taken_away_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at(".kelpie-new-dead")).expect("ours");
        fs::write(at(".kelpie-new-dead/index.html"), "half").expect("ours");
        fs::write(at(".kelpie-new-file"), "half").expect("ours");
        fs::create_dir(at(".kelpie-mine")).expect("ours");
        std::os::unix::fs::symlink(at(".kelpie-mine"), at(".kelpie-new-link")).expect("ours");
        let alive = Beside::new(folder.path()).expect("a folder");
        write(&at("out"), &[("a.txt", "a".to_owned())]).expect("a new one");
        fs::create_dir(at(".kelpie-new-dead")).expect("it was taken away");
        write_file(&at("b.txt"), b"b", false).expect("a new one");
        let mut names: Vec<String> = fs::read_dir(folder.path())
            .expect("ours")
            .map(|one| one.expect("ours").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        let there = alive.path().file_name().and_then(|name| name.to_str()).expect("a name");
        let mut expected = vec![".kelpie-mine", ".kelpie-new-link", there, "b.txt", "out"];
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}

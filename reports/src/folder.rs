//! A new directory with all of its files, or none; the same of a file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt;
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
    beside(path).map(drop)
}

/// A temporary directory where `path` is to be.
fn beside(path: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(".kelpie-").tempdir_in(parent(path)).map_err(|error| nameless(&error))
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
    let new = beside(path)?;
    fill(new.path())?;
    fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755))?;
    // A directory takes the place of an empty one, and of nothing else.
    match fs::rename(new.path(), path) {
        Ok(()) => {
            let _gone = new.keep();
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
        tempfile::Builder::new().prefix(".kelpie-").tempfile_in(parent(path)).map_err(|error| nameless(&error))?;
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
    io::Error::new(ErrorKind::AlreadyExists, "something is there already; name a new or an empty directory with --out")
}

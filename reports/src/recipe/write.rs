//! Writing a recipe, as a directory or as one archive: all of it or nothing, and equal recipes give equal bytes.

use std::io;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::error::RecipeError;
use crate::folder;

/// The folder of an archive, so that unpacking it leaves one entry.
const TOP: &str = "kelpie-recipe";

/// Endings of names of archives, and of what somebody may take for one.
const ARCHIVES: [&str; 2] = [".tar.gz", ".tgz"];
const OTHERS: [&str; 8] = [".zip", ".tar", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar"];

/// Writes the entries of a recipe: an archive if `path` ends in `.tar.gz` or `.tgz`, else a directory.
///
/// # Errors
/// The name is that of another kind of file, something is there already, or it cannot be written; then nothing is left
/// behind.
pub fn write(path: &Path, entries: &[(&str, String)]) -> Result<(), RecipeError> {
    let name = path.to_string_lossy().to_lowercase();
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let is_archive = ends_in(&ARCHIVES);
    if !is_archive && ends_in(&OTHERS) {
        return Err(RecipeError::Ending { path: path.to_owned() });
    }
    let written = if is_archive {
        archive(entries).and_then(|bytes| folder::write_file(path, &bytes, false))
    } else {
        folder::write(path, entries)
    };
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => RecipeError::Exists { path: path.to_owned() },
        _ => RecipeError::Write { path: path.to_owned(), source },
    })
}

/// The archive, all in one folder: no time, no owner, nothing of the machine.
///
/// # Errors
/// A name or a size that no archive holds.
pub fn archive(entries: &[(&str, String)]) -> io::Result<Vec<u8>> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut builder = Builder::new(gzip);
    for (name, text) in entries {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_path(format!("{TOP}/{name}"))?;
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        builder.append(&header, text.as_bytes())?;
    }
    builder.into_inner()?.finish()
}

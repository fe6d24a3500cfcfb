//! Writing a recipe, as a directory or as one archive: all of it or nothing, and equal recipes give equal bytes.

use std::io;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::error::RecipeError;
use crate::folder;

/// Writes the entries of a recipe: an archive if `path` ends in `.tar.gz`, else a directory.
///
/// # Errors
/// Something is there already, or it cannot be written; then nothing is left behind.
pub fn write(path: &Path, entries: &[(&str, String)]) -> Result<(), RecipeError> {
    let written = if path.to_string_lossy().ends_with(".tar.gz") {
        archive(entries).and_then(|bytes| folder::write_file(path, &bytes, false))
    } else {
        folder::write(path, entries)
    };
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => RecipeError::Exists { path: path.to_owned() },
        _ => RecipeError::Write { path: path.to_owned(), source },
    })
}

/// The archive: no time, no owner, nothing of the machine.
///
/// # Errors
/// A name or a size that no archive holds.
pub fn archive(entries: &[(&str, String)]) -> io::Result<Vec<u8>> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut builder = Builder::new(gzip);
    for (name, text) in entries {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_path(name)?;
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

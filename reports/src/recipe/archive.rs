//! Reading strangers' recipes, archives and directories: sizes, names and kinds are checked first. Nothing is written.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::bufread::GzDecoder;
use tar::{Archive, Entry, EntryType};

use super::check::{parse, shown};
use super::error::RecipeError;
use super::format::{ENTRIES, RECIPE, Recipe};
use super::limits::{MAX_ARCHIVE, MAX_ENTRIES, MAX_UNPACKED};

/// Reads a recipe, a directory or an archive, and checks it.
///
/// # Errors
/// Names the entry and the reason of the first refusal.
pub fn read(path: &Path) -> Result<Recipe, RecipeError> {
    let metadata = std::fs::metadata(path).map_err(RecipeError::Read)?;
    if metadata.is_dir() {
        return read_directory(path);
    }
    if !metadata.is_file() {
        return Err(RecipeError::NotARecipe);
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_ARCHIVE + 1).read_to_end(&mut bytes)).map_err(RecipeError::Read)?;
    unpack(&bytes)
}

/// Reads a recipe from the bytes of an archive, and checks it.
///
/// # Errors
/// As [`read`].
pub fn unpack(bytes: &[u8]) -> Result<Recipe, RecipeError> {
    if bytes.len() as u64 > MAX_ARCHIVE {
        return Err(RecipeError::ArchiveTooLong);
    }
    let mut unpacked = Vec::new();
    let mut decoder = GzDecoder::new(bytes);
    decoder.by_ref().take(MAX_UNPACKED + 1).read_to_end(&mut unpacked).map_err(RecipeError::Gzip)?;
    if unpacked.len() as u64 > MAX_UNPACKED {
        return Err(RecipeError::Bomb);
    }
    if !decoder.into_inner().is_empty() {
        return Err(RecipeError::Trailing);
    }
    let mut archive = Archive::new(unpacked.as_slice());
    let mut seen = Vec::new();
    let (mut top, mut count) = (None, 0);
    let mut recipe = None;
    // Raw, so that extension headers come up as entries and are refused as such, instead of changing the next one.
    for entry in archive.entries().map_err(RecipeError::Tar)?.raw(true) {
        let mut entry = entry.map_err(RecipeError::Tar)?;
        if count == MAX_ENTRIES {
            return Err(RecipeError::TooMany);
        }
        count += 1;
        let Some((name, text)) = read_entry(&mut entry, &seen, &mut top)? else { continue };
        seen.push(name);
        if name == RECIPE {
            recipe = Some(text);
        }
    }
    if archive.into_inner().iter().any(|byte| *byte != 0) {
        return Err(RecipeError::Trailing);
    }
    parse(&recipe.ok_or(RecipeError::Missing)?)
}

/// The next entry with its text; nothing for the folder that all lie in, which the first entry decides.
fn read_entry(
    entry: &mut Entry<'_, &[u8]>,
    seen: &[&str],
    top: &mut Option<String>,
) -> Result<Option<(&'static str, String)>, RecipeError> {
    let whole = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let folder = whole.split_once('/').map_or("", |(folder, _)| folder);
    let is_plain = folder.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && !folder.starts_with('.');
    let is_inside = is_plain && top.get_or_insert_with(|| folder.to_owned()) == folder;
    let inside = if is_inside && !folder.is_empty() { &whole[folder.len() + 1..] } else { whole.as_str() };
    if inside.is_empty() && is_inside && entry.header().entry_type() == EntryType::Directory {
        return Ok(None);
    }
    let name = shown(if is_inside { inside } else { &whole });
    let kind = match entry.header().entry_type() {
        EntryType::Regular => None,
        EntryType::Link => Some("a hard link"),
        EntryType::Symlink => Some("a symbolic link"),
        EntryType::Char | EntryType::Block => Some("a device"),
        EntryType::Directory => Some("a directory"),
        EntryType::Fifo => Some("a pipe"),
        EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName | EntryType::GNULongLink => {
            Some("an extension header")
        }
        _ => Some("of an unusual kind"),
    };
    if let Some(kind) = kind {
        return Err(RecipeError::Kind { entry: name, kind });
    }
    let (known, max) = entry_of(&name)?;
    if seen.contains(&known) {
        return Err(RecipeError::Twice { entry: name });
    }
    let declared = entry.header().entry_size().map_err(RecipeError::Tar)?;
    if declared > max {
        return Err(RecipeError::TooLong { entry: name, size: declared, max });
    }
    let mut bytes = Vec::new();
    let found = entry.take(declared).read_to_end(&mut bytes).map_err(RecipeError::Tar)? as u64;
    if found < declared {
        return Err(RecipeError::Truncated { entry: name, declared, found });
    }
    Ok(Some((known, text(name, bytes)?)))
}

fn entry_of(name: &str) -> Result<(&'static str, u64), RecipeError> {
    let entry = ENTRIES.into_iter().find(|(known, _)| *known == name);
    entry.ok_or_else(|| RecipeError::Name { entry: name.to_owned() })
}

fn text(entry: String, bytes: Vec<u8>) -> Result<String, RecipeError> {
    String::from_utf8(bytes).map_err(|_| RecipeError::NotText { entry })
}

fn read_directory(path: &Path) -> Result<Recipe, RecipeError> {
    let mut recipe = None;
    for (number, found) in std::fs::read_dir(path).map_err(RecipeError::Read)?.enumerate() {
        let found = found.map_err(RecipeError::Read)?;
        if number == MAX_ENTRIES {
            return Err(RecipeError::TooMany);
        }
        let name = shown(&found.file_name().to_string_lossy());
        let (known, max) = entry_of(&name)?;
        // Of the entry itself: a link is not followed.
        let metadata = found.metadata().map_err(RecipeError::Read)?;
        if !metadata.is_file() {
            let kind = if metadata.is_symlink() { "a symbolic link" } else { "no plain file" };
            return Err(RecipeError::Kind { entry: name, kind });
        }
        if metadata.len() > max {
            return Err(RecipeError::TooLong { entry: name, size: metadata.len(), max });
        }
        let mut bytes = Vec::new();
        File::open(found.path())
            .and_then(|file| file.take(max + 1).read_to_end(&mut bytes))
            .map_err(RecipeError::Read)?;
        if bytes.len() as u64 > max {
            return Err(RecipeError::TooLong { entry: name, size: bytes.len() as u64, max });
        }
        let text = text(name, bytes)?;
        if known == RECIPE {
            recipe = Some(text);
        }
    }
    parse(&recipe.ok_or(RecipeError::Missing)?)
}

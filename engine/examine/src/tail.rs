//! A growing file, read from where the last reading ended; it may be cut, replaced, or not there yet.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// What is read at once. Units: bytes. Source: our choice.
const PIECE: usize = 1 << 18;
/// Bytes at the begin by which a file is known again. Source: our choice.
const FINGERPRINT: u64 = 1 << 10;

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// It is another file under the same name.
    Replaced,
    /// It was cut.
    Truncated,
}

/// Where reading stands, across restarts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// File.
    pub path: PathBuf,
    device: u64,
    inode: u64,
    /// Bytes that need not be read again.
    pub offset: u64,
    /// The first bytes of the file, as hexadecimal.
    begin: String,
}

/// A file that is followed.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    open: Option<(File, u64)>,
    /// How the file begins, as far as it was read.
    begin: String,
}

impl Tail {
    /// A file that is read from its begin.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: None, begin: String::new() }
    }

    /// Goes on where a former process ended, if it is the same file; else at its begin.
    ///
    /// # Errors
    ///
    /// The file is there and cannot be read.
    pub fn resume(place: &Position) -> anyhow::Result<(Self, Option<FileChange>)> {
        let mut tail = Self::new(&place.path);
        if !tail.try_open()? {
            return Ok((tail, None));
        }
        let (file, offset) = tail.open.as_mut().expect("just opened");
        let now = file.metadata().with_context(|| place.path.display().to_string())?;
        if (now.dev(), now.ino()) != (place.device, place.inode) || now.len() < place.offset {
            return Ok((tail, Some(FileChange::Replaced)));
        }
        if fingerprint(file, place.offset)? != place.begin {
            return Ok((tail, Some(FileChange::Truncated)));
        }
        *offset = place.offset;
        tail.begin.clone_from(&place.begin);
        Ok((tail, None))
    }

    /// Where reading stands, `pending` bytes before its end; nothing if there is no file yet.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn place(&mut self, pending: usize) -> anyhow::Result<Option<Position>> {
        let Some((file, offset)) = &mut self.open else { return Ok(None) };
        let at: Metadata = file.metadata()?;
        let offset = offset.saturating_sub(pending as u64);
        let begin = fingerprint(file, offset)?;
        Ok(Some(Position { path: self.path.clone(), device: at.dev(), inode: at.ino(), offset, begin }))
    }

    /// Gives what was written since the last time, at most `most` bytes, and says what happened before that. After a
    /// change, the rest comes with the next call.
    ///
    /// # Errors
    ///
    /// The file is there and cannot be read.
    pub fn read(&mut self, most: usize, mut give: impl FnMut(&[u8])) -> anyhow::Result<(usize, Option<FileChange>)> {
        if !self.try_open()? {
            return Ok((0, None));
        }
        let name = self.path.display().to_string();
        let name = || name.clone();
        let (file, offset) = self.open.as_mut().expect("just opened");
        let length = file.metadata().with_context(name)?.len();
        // What was cut may be longer again than it was, and then begins with something else.
        if length < *offset || (length > *offset && fingerprint(file, *offset).with_context(name)? != self.begin) {
            *offset = 0;
            self.begin.clear();
            return Ok((0, Some(FileChange::Truncated)));
        }
        let mut count = advance(file, offset, most, &mut give).with_context(name)?;
        // The old file is read to its end before its successor: what came until this moment as well.
        if count == 0 && self.is_replaced()? {
            let (file, offset) = self.open.as_mut().expect("it is open");
            count = advance(file, offset, most, &mut give).with_context(name)?;
            if count == 0 {
                self.open = None;
                self.begin.clear();
                return Ok((0, Some(FileChange::Replaced)));
            }
        }
        if self.begin.len() < 2 * FINGERPRINT as usize {
            let (file, offset) = self.open.as_mut().expect("it is open");
            self.begin = fingerprint(file, *offset).with_context(name)?;
        }
        Ok((count, None))
    }

    fn is_replaced(&self) -> anyhow::Result<bool> {
        let Some((file, _)) = &self.open else { return Ok(false) };
        let mine = file.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(now) => Ok((now.dev(), now.ino()) != (mine.dev(), mine.ino())),
            // It was moved away, and its successor is not there yet.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| self.path.display().to_string()),
        }
    }

    fn try_open(&mut self) -> anyhow::Result<bool> {
        if self.open.is_some() {
            return Ok(true);
        }
        match std::fs::metadata(&self.path) {
            // Opening a pipe would wait for a writer.
            Ok(found) if !found.is_file() => {
                anyhow::bail!("{}: no file; what is not a file cannot be followed", self.path.display())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            _ => {}
        }
        match File::open(&self.path) {
            Ok(file) => self.open = Some((file, 0)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error).with_context(|| self.path.display().to_string()),
        }
        Ok(true)
    }
}

/// Reads on from `offset`, at most about `most` bytes.
fn advance(file: &mut File, offset: &mut u64, most: usize, give: &mut impl FnMut(&[u8])) -> std::io::Result<usize> {
    file.seek(SeekFrom::Start(*offset))?;
    let (mut piece, mut count) = (vec![0; PIECE], 0);
    while count < most {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => {
                give(&piece[..read]);
                *offset += read as u64;
                count += read;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// The begin of a file, of which `offset` bytes were read.
fn fingerprint(file: &mut File, offset: u64) -> anyhow::Result<String> {
    use std::fmt::Write as _;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(offset.min(FINGERPRINT)).read_to_end(&mut bytes)?;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tail: &mut Tail) -> (String, Option<FileChange>) {
        let mut all = Vec::new();
        let (_, change) = tail.read(1 << 20, |piece| all.extend_from_slice(piece)).expect("it reads");
        (String::from_utf8(all).expect("text"), change)
    }

    #[test]
    fn a_file_grows_is_cut_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut tail = Tail::new(&path);
        assert_eq!(read(&mut tail), (String::new(), None), "not there yet");
        std::fs::write(&path, "one\n").expect("written");
        assert_eq!(read(&mut tail), ("one\n".to_owned(), None));
        std::fs::write(&path, "x\n").expect("written");
        assert_eq!(read(&mut tail).1, Some(FileChange::Truncated));
        assert_eq!(read(&mut tail).0, "x\n");
        std::fs::write(&path, "longer than before\n").expect("written");
        assert_eq!(read(&mut tail).1, Some(FileChange::Truncated), "cut and longer again between two looks");
        assert_eq!(read(&mut tail).0, "longer than before\n");
        std::fs::rename(&path, folder.path().join("log.1")).expect("moved");
        assert_eq!(read(&mut tail), (String::new(), None));
        std::fs::write(folder.path().join("log.1"), "longer than before\nlast of the old one\n").expect("written");
        std::fs::write(&path, "new\n").expect("written");
        assert_eq!(read(&mut tail).0, "last of the old one\n");
        assert_eq!(read(&mut tail).1, Some(FileChange::Replaced));
        assert_eq!(read(&mut tail).0, "new\n");
    }

    #[test]
    fn a_place_is_found_again_if_the_file_is_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        std::fs::write(&path, "one\ntwo\nthr").expect("written");
        let mut tail = Tail::new(&path);
        read(&mut tail);
        let place = tail.place(3).expect("it reads").expect("there is a file");
        let (mut again, change) = Tail::resume(&place).expect("it reads");
        assert_eq!((change, read(&mut again).0.as_str()), (None, "thr"));
        std::fs::write(&path, "ONE\ntwo\nthree\n").expect("written");
        let (mut other, change) = Tail::resume(&place).expect("it reads");
        assert_eq!((change, read(&mut other).0.len()), (Some(FileChange::Truncated), 14));
        Tail::new(folder.path()).read(1, |_| ()).expect_err("a folder is no file");
    }
}

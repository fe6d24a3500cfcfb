//! What the planner has granted, on disk: a line for each lease and each release, so that a restart loses nothing.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use kelpie_paths::leases::{Holder, Lease, Leases};
use serde::{Deserialize, Serialize};

/// Longest journal that is read. Units: bytes. Source: our choice, ten times what all leases take.
const LONGEST: u64 = 2 << 30;

/// Lines after which it is written anew with what still holds. Source: our choice.
const MOST_LINES: u64 = 1_000_000;

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another planner uses it.
    #[error("{}: another planner uses it; end that one, or name another file with --state", .0.display())]
    InUse(PathBuf),
    /// A line that is no line of a journal, and not the last one.
    #[error("{}:{line}: this is no journal of a planner ({what}); move it away, or name another file with --state", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Has(Holder, Lease),
    Gone(Holder),
}

/// An open journal; nobody else writes to it.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    lines: u64,
    /// Held for as long as this one lives; the journal itself is replaced.
    _lock: File,
}

impl Journal {
    /// Opens it, or makes a new one, and gives back what it holds to `leases`.
    ///
    /// # Errors
    /// Where it cannot be read, is something else, or is in use.
    pub fn open(path: &Path, leases: &mut Leases) -> Result<Self, JournalError> {
        let failed = |source| JournalError::File { path: path.to_owned(), source };
        let lock = File::create(path.with_extension("lock")).map_err(failed)?;
        lock.try_lock().map_err(|_| JournalError::InUse(path.to_owned()))?;
        if path.exists() {
            read(path, leases)?;
        }
        let file = rewritten(path, leases).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, lines: 0, _lock: lock })
    }

    /// Notes that QPs have leases.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn has(&mut self, leases: &[(Holder, Lease)]) -> Result<(), JournalError> {
        self.write(&leases.iter().cloned().map(|(holder, lease)| Line::Has(holder, lease)).collect::<Vec<_>>())
    }

    /// Notes that QPs are gone.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn gone(&mut self, holders: &[Holder]) -> Result<(), JournalError> {
        self.write(&holders.iter().cloned().map(Line::Gone).collect::<Vec<_>>())
    }

    /// Writes it anew once it has become long.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn trim(&mut self, leases: &Leases) -> Result<(), JournalError> {
        if self.lines > MOST_LINES {
            let failed = |source| JournalError::File { path: self.path.clone(), source };
            self.file = rewritten(&self.path, leases).map_err(failed)?;
            self.lines = 0;
        }
        Ok(())
    }

    fn write(&mut self, lines: &[Line]) -> Result<(), JournalError> {
        let failed = |source| JournalError::File { path: self.path.clone(), source };
        let before = self.file.stream_position().map_err(failed)?;
        let written = self.file.write_all(&text(lines.iter())).and_then(|()| self.file.sync_data());
        self.lines += lines.len() as u64;
        written.map_err(|source| {
            // Half a line in the middle would make all after it unreadable.
            let _ = self.file.set_len(before).and_then(|()| self.file.seek(SeekFrom::Start(before)));
            failed(source)
        })
    }
}

fn text<'l>(lines: impl Iterator<Item = &'l Line>) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line).expect("plain data");
        text.push(b'\n');
    }
    text
}

fn rewritten(path: &Path, leases: &Leases) -> std::io::Result<File> {
    let new = path.with_extension("new");
    let lines: Vec<Line> = leases.held().map(|(holder, lease)| Line::Has(holder.clone(), lease.clone())).collect();
    let mut file = File::create(&new)?;
    file.write_all(&text(lines.iter()))?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

fn read(path: &Path, leases: &mut Leases) -> Result<(), JournalError> {
    let failed = |source| JournalError::File { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?.take(LONGEST));
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(());
        }
        // A planner that was killed leaves half of its last line, which nobody was told of.
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
        match serde_json::from_slice(&line) {
            Ok(Line::Has(holder, lease)) => leases.restore(holder, lease),
            Ok(Line::Gone(holder)) => _ = leases.release(&holder),
            Err(error) => {
                return Err(JournalError::Content { path: path.to_owned(), line: number, what: error.to_string() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_topology::Side;

    use super::*;

    #[test]
    fn what_was_granted_comes_back_and_half_a_line_at_the_end_is_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let holder = |qp| Holder { agent: "a".to_owned(), process: "1:2".to_owned(), qp };
        let lease = Lease { from: "x".to_owned(), to: "y".to_owned(), source_port: 50_000, side: Side::Left };
        let held = |leases: &Leases| leases.held().map(|(holder, _)| holder.qp).collect::<Vec<_>>();
        let mut journal = Journal::open(&path, &mut Leases::default()).expect("a new one");
        assert!(matches!(Journal::open(&path, &mut Leases::default()), Err(JournalError::InUse(_))));
        (0..3).for_each(|qp| journal.has(&[(holder(qp), lease.clone())]).expect("it is ours"));
        journal.gone(&[holder(1)]).expect("it is ours");
        drop(journal);
        let mut text = std::fs::read(&path).expect("it is there");
        text.extend_from_slice(b"{\"has\":[{\"ag");
        std::fs::write(&path, &text).expect("it is ours");
        let mut leases = Leases::default();
        let mut journal = Journal::open(&path, &mut leases).expect("half a line");
        assert_eq!(held(&leases), [0, 2]);
        journal.has(&[(holder(7), lease)]).expect("it is ours");
        drop(journal);
        let mut leases = Leases::default();
        drop(Journal::open(&path, &mut leases).expect("whole"));
        assert_eq!(held(&leases), [0, 2, 7]);
        std::fs::write(&path, "kelpie: pair/1\n{}\n").expect("it is ours");
        let error = Journal::open(&path, &mut Leases::default()).expect_err("something else").to_string();
        assert!(error.contains("state:1: this is no journal"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "kelpie: pair/1\n{}\n", "and left alone");
    }
}

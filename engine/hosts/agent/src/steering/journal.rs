//! What the planner has granted, on disk: a line for each lease and each release, so that a restart loses nothing.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kelpie_paths::leases::{Lease, Leases, PortHolder};
use serde::{Deserialize, Serialize};

/// Longest journal that is read. Units: bytes. Source: our choice, ten times what all leases take.
const LONGEST: u64 = 2 << 30;

/// Lines after which it is written anew with what still holds. Source: our choice.
const MOST_LINES: u64 = 1_000_000;

/// What a journal is called while it is written anew.
const PREFIX: &str = ".kelpie-";
const SUFFIX: &str = ".state";

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
    /// Something else than a file, such as a device.
    #[error("{}: this is no file, and stays as it is; name another one with --state", .0.display())]
    NoFile(PathBuf),
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
enum JournalLine {
    Has(PortHolder, Lease),
    Gone(PortHolder),
}

/// What became of a QP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It has a lease.
    Has(PortHolder, Lease),
    /// It has none any more.
    Gone(PortHolder),
}

/// An open journal; nobody else writes to it, because its file is locked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    lines: u64,
    /// A write has failed, and what it left could not be taken away.
    is_broken: bool,
}

impl Journal {
    /// Opens it, or makes a new one, and gives back what it holds to `leases`.
    ///
    /// # Errors
    /// Where it cannot be read, is something else, or is in use.
    pub fn open(path: &Path, leases: &mut Leases) -> Result<Self, JournalError> {
        let failed = |source| JournalError::File { path: path.to_owned(), source };
        // A device or a folder would be replaced by a file.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(JournalError::NoFile(path.to_owned()));
        }
        loop {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            let file = file.map_err(failed)?;
            file.try_lock().map_err(|_| JournalError::InUse(path.to_owned()))?;
            // Another planner may have replaced it between the opening and the lock.
            let (ours, there) = (file.metadata().map_err(failed)?, std::fs::metadata(path).map_err(failed)?);
            if (ours.dev(), ours.ino()) != (there.dev(), there.ino()) {
                continue;
            }
            read(path, leases)?;
            let file = rewritten(path, leases).map_err(failed)?;
            return Ok(Self { path: path.to_owned(), file, lines: 0, is_broken: false });
        }
    }

    /// Notes what became of QPs: all of it, or nothing. `leases` are as they are after that, without a failure.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&mut self, changes: Vec<Change>, leases: &Leases) -> Result<(), JournalError> {
        let failed = |source| JournalError::File { path: self.path.clone(), source };
        let line = |change| match change {
            Change::Has(holder, lease) => JournalLine::Has(holder, lease),
            Change::Gone(holder) => JournalLine::Gone(holder),
        };
        let lines: Vec<JournalLine> = changes.into_iter().map(line).collect();
        self.lines += lines.len() as u64;
        if self.is_broken || self.lines > MOST_LINES {
            self.file = rewritten(&self.path, leases).map_err(failed)?;
            (self.lines, self.is_broken) = (0, false);
            return Ok(());
        }
        let before = self.file.stream_position().map_err(failed)?;
        let written = self.file.write_all(&text(lines.iter())).and_then(|()| self.file.sync_data());
        written.map_err(|source| {
            // What was refused is not found there later, and half a line would make all after it unreadable.
            let undone = self.file.set_len(before).and_then(|()| self.file.seek(SeekFrom::Start(before)));
            self.is_broken = undone.and_then(|_| self.file.sync_data()).is_err();
            failed(source)
        })
    }
}

fn text<'l>(lines: impl Iterator<Item = &'l JournalLine>) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line).expect("plain data");
        text.push(b'\n');
    }
    text
}

/// Takes away what planners left that were killed while they wrote: nobody holds its lock.
fn remove_abandoned(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let is_dead = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            let _ = is_dead.then(|| std::fs::remove_file(entry.path()));
        }
    }
}

/// What holds in a file of its own, which takes the place of the journal once it is whole, and is locked as that was.
fn rewritten(path: &Path, leases: &Leases) -> std::io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    remove_abandoned(folder);
    let mut new = tempfile::Builder::new().prefix(PREFIX).suffix(SUFFIX).tempfile_in(folder)?;
    new.as_file().try_lock()?;
    let lines: Vec<JournalLine> =
        leases.held().map(|(holder, lease)| JournalLine::Has(holder.clone(), lease.clone())).collect();
    new.write_all(&text(lines.iter()))?;
    new.as_file().sync_all()?;
    let file = new.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()?;
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
            Ok(JournalLine::Has(holder, lease)) => leases.restore(holder, lease),
            Ok(JournalLine::Gone(holder)) => _ = leases.release(&holder),
            Err(error) => {
                return Err(JournalError::Content { path: path.to_owned(), line: number, what: error.to_string() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_topology::PortSide;

    use super::*;

    #[test]
    fn what_was_granted_comes_back_and_half_a_line_at_the_end_is_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let holder = |qp| PortHolder { agent: "a".to_owned(), process: "1:2".to_owned(), qp };
        let lease = Lease { from: "x".to_owned(), to: "y".to_owned(), source_port: 50_000, side: PortSide::Left };
        let held = |leases: &Leases| leases.held().map(|(holder, _)| holder.qp).collect::<Vec<_>>();
        let mut journal = Journal::open(&path, &mut Leases::default()).expect("a new one");
        assert!(matches!(Journal::open(&path, &mut Leases::default()), Err(JournalError::InUse(_))));
        let none = Leases::default();
        let has = |qp| vec![Change::Has(holder(qp), lease.clone())];
        (0..3).for_each(|qp| journal.write(has(qp), &none).expect("it is ours"));
        journal.write(vec![Change::Gone(holder(1))], &none).expect("it is ours");
        drop(journal);
        let mut text = std::fs::read(&path).expect("it is there");
        text.extend_from_slice(b"{\"has\":[{\"ag");
        std::fs::write(&path, &text).expect("it is ours");
        let mut leases = Leases::default();
        let mut journal = Journal::open(&path, &mut leases).expect("half a line");
        assert_eq!(held(&leases), [0, 2]);
        journal.write(has(7), &none).expect("it is ours");
        drop(journal);
        let mut leases = Leases::default();
        drop(Journal::open(&path, &mut leases).expect("whole"));
        assert_eq!(held(&leases), [0, 2, 7]);
        std::fs::write(&path, "kelpie: pair/1\n{}\n").expect("it is ours");
        let error = Journal::open(&path, &mut Leases::default()).expect_err("something else").to_string();
        assert!(error.contains("state:1: this is no journal"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "kelpie: pair/1\n{}\n", "and left alone");
    }

    #[test]
    fn no_neighbour_is_touched_and_what_is_no_file_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let neighbours = ["planner.lock", "planner.new", "planner.yaml", "planner.state.lock", "planner.state.new"];
        for name in neighbours {
            std::fs::write(folder.path().join(name), name).expect("it is ours");
        }
        let path = folder.path().join("planner.state");
        std::fs::write(folder.path().join(".kelpie-Xa1.state"), "of a planner that was killed").expect("it is ours");
        for _ in 0..2 {
            let mut journal = Journal::open(&path, &mut Leases::default()).expect("a new one");
            let lease = Lease { from: "x".to_owned(), to: "y".to_owned(), source_port: 50_000, side: PortSide::Left };
            let holder = PortHolder { agent: "a".to_owned(), process: "1:2".to_owned(), qp: 1 };
            journal.lines = MOST_LINES;
            journal.write(vec![Change::Has(holder, lease)], &Leases::default()).expect("it is ours");
            assert!(matches!(Journal::open(&path, &mut Leases::default()), Err(JournalError::InUse(_))), "rewritten");
        }
        for name in neighbours {
            assert_eq!(std::fs::read_to_string(folder.path().join(name)).expect("it is there"), name);
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), neighbours.len() + 1);
        assert!(matches!(Journal::open(folder.path(), &mut Leases::default()), Err(JournalError::NoFile(_))));
        assert!(matches!(Journal::open(Path::new("/dev/null"), &mut Leases::default()), Err(JournalError::NoFile(_))));
    }

    #[test]
    fn what_could_not_be_written_is_not_found_later() {
        let lease = Lease { from: "x".to_owned(), to: "y".to_owned(), source_port: 50_000, side: PortSide::Left };
        let holder = |qp| PortHolder { agent: "a".to_owned(), process: "1:2".to_owned(), qp };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let mut journal = Journal::open(&path, &mut Leases::default()).expect("a new one");
        let none = Leases::default();
        journal.write(vec![Change::Has(holder(1), lease.clone())], &none).expect("it is ours");
        // Nothing can be written to a file that is open for reading, nor taken away from it.
        journal.file = File::open(&path).expect("it is there");
        journal.write(vec![Change::Has(holder(2), lease.clone())], &none).expect_err("it cannot be written");
        assert!(journal.is_broken);
        let mut held = Leases::default();
        held.restore(holder(1), lease.clone());
        held.restore(holder(3), lease.clone());
        journal.write(vec![Change::Has(holder(3), lease)], &held).expect("it is written anew");
        drop(journal);
        let mut leases = Leases::default();
        drop(Journal::open(&path, &mut leases).expect("whole"));
        assert_eq!(leases.held().map(|(holder, _)| holder.qp).collect::<Vec<_>>(), [1, 3]);
    }
}

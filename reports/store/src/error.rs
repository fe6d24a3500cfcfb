//! Why the store could not do something, each with its next step; SQLite's codes are sorted here and nowhere else.

use std::path::{Path, PathBuf};

use crate::database::Database;
use crate::holder::Holder;
use crate::records::{CampaignId, QualificationId, Subject};

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing at this path, and nothing was to be created.
    #[error("{}: no Kelpie database there yet; `kelpie campaign run` creates one, --db names another", path.display())]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// The path names a directory or something else that is no file.
    #[error("{}: not a file; --db takes the path of a database file", path.display())]
    NotAFile {
        /// The database.
        path: PathBuf,
    },
    /// SQLite cannot open it, or its directory cannot be made.
    #[error("{}: cannot be opened ({detail}); check the permissions, or name another file with --db", path.display())]
    CannotOpen {
        /// The database.
        path: PathBuf,
        /// What the system says.
        detail: String,
    },
    /// Some other kind of file.
    #[error("{}: not a Kelpie database (it is not SQLite); name another file with --db", path.display())]
    NotADatabase {
        /// The database.
        path: PathBuf,
    },
    /// SQLite, but of another program.
    #[error("{}: not a Kelpie database (another program's SQLite file); name another file with --db", path.display())]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// Written by a later Kelpie.
    #[error(
        "{}: written by a newer Kelpie (database version {found}, this one knows {known}); upgrade Kelpie or name \
         another file with --db",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Version in the file.
        found: i64,
        /// Latest version that this program knows.
        known: i64,
    },
    /// Cannot be written.
    #[error("{}: read-only; make it writable or name another file with --db", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// No room.
    #[error(
        "{}: the disk is full; all earlier experiments are stored. Make room, then resume",
        path.display()
    )]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// The system failed to read or write.
    #[error(
        "{}: reading or writing failed ({detail}); all earlier experiments are stored. Check the disk, its quota and \
         the file size limit, then resume",
        path.display()
    )]
    Io {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// The file is damaged.
    #[error(
        "{}: the database is damaged ({detail}); restore a copy, or save what is left with `sqlite3 FILE .recover`",
        path.display()
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What does not fit.
        detail: String,
    },
    /// Somebody deleted the file, or put another one in its place, while it was written to.
    #[error(
        "{}: the database was deleted or replaced while it was written to; {}",
        path.display(),
        saved.as_ref().map_or_else(
            || "what was stored since is lost".to_owned(),
            |saved| format!("all that it held is in {}", saved.display())
        )
    )]
    Gone {
        /// The database.
        path: PathBuf,
        /// A copy of what it held.
        saved: Option<PathBuf>,
    },
    /// A copy could not be written.
    #[error("cannot {operation} {}", path.display())]
    Backup {
        /// The copy.
        path: PathBuf,
        /// `create` or `write`.
        operation: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another process holds the database for longer than the store waits.
    #[error("{}: busy; another process has been writing to it for too long. Try again when it is done", path.display())]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// No campaign of this number.
    #[error("{}: no campaign {id}; `kelpie campaign list` shows what there is", path.display())]
    NoCampaign {
        /// The database.
        path: PathBuf,
        /// What was asked for.
        id: CampaignId,
    },
    /// No qualification of this number.
    #[error("{}: no qualification {id}", path.display())]
    NoQualification {
        /// The database.
        path: PathBuf,
        /// What was asked for.
        id: QualificationId,
    },
    /// Another process writes it.
    #[error(
        "{}: {subject} is being run by another process{}; wait for it or stop it first",
        path.display(),
        holder.as_ref().map_or_else(String::new, |holder| format!(" ({holder})"))
    )]
    Locked {
        /// The database.
        path: PathBuf,
        /// What it writes.
        subject: Subject,
        /// The process, if it has said who it is.
        holder: Option<Holder>,
    },
    /// A record is not the next one: another writer was there, or the caller miscounted.
    #[error("{}: {what} {number} of {subject} does not follow the last one stored", path.display())]
    OutOfOrder {
        /// The database.
        path: PathBuf,
        /// What it belongs to.
        subject: Subject,
        /// `experiment`, `finding` or `unit`.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// A value that would not read back the same, such as a rate that is not a number.
    #[error("a {what} cannot be stored exactly ({detail}); the subsystem reported something that is not a number")]
    NotExact {
        /// What was to be stored.
        what: &'static str,
        /// Why.
        detail: String,
    },
    /// A text that is not as the store asks for.
    #[error("a {what} cannot be stored: {detail}")]
    Refused {
        /// What was to be stored.
        what: &'static str,
        /// Why.
        detail: String,
    },
    /// Any other failure of SQLite.
    #[error("{}: {operation} failed", path.display())]
    Sql {
        /// The database.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// The cause.
        #[source]
        source: sqlx::Error,
    },
}

/// Primary result codes. Source: <https://www.sqlite.org/rescode.html>.
mod code {
    pub const BUSY: i32 = 5;
    pub const READONLY: i32 = 8;
    pub const IOERR: i32 = 10;
    pub const CORRUPT: i32 = 11;
    pub const FULL: i32 = 13;
    pub const CANTOPEN: i32 = 14;
    pub const NOTADB: i32 = 26;
}

/// SQLite's primary result code, if the error is SQLite's.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

impl StoreError {
    /// The copy of what a database held that was deleted or replaced.
    pub fn saved(&self) -> Option<Database> {
        match self {
            StoreError::Gone { saved, .. } => saved.clone().map(Database::from),
            _ => None,
        }
    }
}

/// Whether SQLite gave up waiting for another process; a snapshot that is too old (`SQLITE_BUSY_SNAPSHOT`) fails at
/// once and has another code.
pub(crate) fn has_waited(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok()) == Some(code::BUSY)
}

/// Sorts an error of SQLite by what the user can do about it.
pub(crate) fn classify(path: &Path, operation: &'static str, source: sqlx::Error) -> StoreError {
    let path = path.to_owned();
    let detail = || source.as_database_error().map_or_else(|| source.to_string(), |error| error.message().to_owned());
    match (primary_code(&source), &source) {
        (Some(code::BUSY), _) => StoreError::Busy { path },
        (Some(code::READONLY), _) => StoreError::ReadOnly { path },
        (Some(code::IOERR), _) => StoreError::Io { detail: detail(), path },
        (Some(code::CORRUPT), _) => StoreError::Damaged { detail: detail(), path },
        (Some(code::FULL), _) => StoreError::Full { path },
        (Some(code::CANTOPEN), _) => StoreError::CannotOpen { detail: detail(), path },
        (Some(code::NOTADB), _) => StoreError::NotADatabase { path },
        (_, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_)) => {
            StoreError::Damaged { detail: detail(), path }
        }
        _ => StoreError::Sql { path, operation, source },
    }
}

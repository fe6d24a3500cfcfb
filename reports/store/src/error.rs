//! Why the store could not do something, each with its next step. The codes of each engine are sorted beside it.

use std::path::PathBuf;

use crate::database::Database;
use crate::holder::Holder;
use crate::records::{CampaignId, QualificationId, Subject};
use crate::{postgres, sqlite};

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing at this path, and nothing was to be created.
    #[error("{database}: no Kelpie database there yet; `kelpie campaign run` creates one, --db names another")]
    Missing {
        /// The database.
        database: Database,
    },
    /// The path names a directory or something else that is no file.
    #[error("{database}: not a file; --db takes the path of a database file")]
    NotAFile {
        /// The database.
        database: Database,
    },
    /// It cannot be opened, its directory cannot be made, or its server cannot be reached.
    #[error(
        "{database}: cannot be opened ({detail}); {}, or name another with --db",
        if database.file().is_some() { "check the permissions" } else { "check the server, the address and the role" }
    )]
    CannotOpen {
        /// The database.
        database: Database,
        /// What the system says.
        detail: String,
    },
    /// Some other kind of file.
    #[error("{database}: not a Kelpie database (it is not SQLite); name another file with --db")]
    NotADatabase {
        /// The database.
        database: Database,
    },
    /// A database of another program.
    #[error("{database}: not a Kelpie database (another program's); name another with --db")]
    Foreign {
        /// The database.
        database: Database,
    },
    /// Written by a later Kelpie.
    #[error(
        "{database}: written by a newer Kelpie (database version {found}, this one knows {known}); upgrade \
         Kelpie or name another with --db"
    )]
    Newer {
        /// The database.
        database: Database,
        /// Version in the file.
        found: i64,
        /// Latest version that this program knows.
        known: i64,
    },
    /// Cannot be written.
    #[error("{database}: read-only; make it writable or name another with --db")]
    ReadOnly {
        /// The database.
        database: Database,
    },
    /// No room.
    #[error("{database}: the disk is full; all earlier experiments are stored. Make room, then resume")]
    Full {
        /// The database.
        database: Database,
    },
    /// The system failed to read or write.
    #[error(
        "{database}: reading or writing failed ({detail}); all earlier experiments are stored. Check the disk, \
         its quota and the file size limit, then resume"
    )]
    Io {
        /// The database.
        database: Database,
        /// What the engine says.
        detail: String,
    },
    /// What is stored is damaged.
    #[error(
        "{database}: the database is damaged ({detail}); restore a copy{}",
        if database.file().is_some() { ", or save what is left with `sqlite3 FILE .recover`" } else { "" }
    )]
    Damaged {
        /// The database.
        database: Database,
        /// What does not fit.
        detail: String,
    },
    /// Somebody deleted the file, or put another one in its place, while it was written to.
    #[error(
        "{database}: the database was deleted or replaced while it was written to; {}",
        saved.as_ref().map_or_else(
            || "what was stored since is lost".to_owned(),
            |saved| format!("all that it held is in {}", saved.display())
        )
    )]
    Gone {
        /// The database.
        database: Database,
        /// A copy of what it held.
        saved: Option<PathBuf>,
    },
    /// The server went away, or was cut off, while it was used.
    #[error(
        "{database}: the server is gone ({detail}); all earlier experiments are stored. Look at its log and start it, \
         then resume"
    )]
    Lost {
        /// The database.
        database: Database,
        /// What the connection says.
        detail: String,
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
    #[error("{database}: busy; another process has been writing to it for too long. Try again when it is done")]
    Busy {
        /// The database.
        database: Database,
    },
    /// No campaign of this number.
    #[error("{database}: no campaign {id}; `kelpie campaign list` shows what there is")]
    NoCampaign {
        /// The database.
        database: Database,
        /// What was asked for.
        id: CampaignId,
    },
    /// No qualification of this number.
    #[error("{database}: no qualification {id}")]
    NoQualification {
        /// The database.
        database: Database,
        /// What was asked for.
        id: QualificationId,
    },
    /// Another process writes it.
    #[error(
        "{database}: {subject} is being run by another process{}; wait for it or stop it first",
        holder.as_ref().map_or_else(String::new, |holder| format!(" ({holder})"))
    )]
    Locked {
        /// The database.
        database: Database,
        /// What it writes.
        subject: Subject,
        /// The process, if it has said who it is.
        holder: Option<Holder>,
    },
    /// A record is not the next one: another writer was there, or the caller miscounted.
    #[error("{database}: {what} {number} of {subject} does not follow the last one stored")]
    OutOfOrder {
        /// The database.
        database: Database,
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
    /// Any other failure of the engine.
    #[error("{database}: {operation} failed")]
    Sql {
        /// The database.
        database: Database,
        /// What was being done.
        operation: &'static str,
        /// The cause.
        #[source]
        source: sqlx::Error,
    },
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

/// Sorts an error of a database by what the user can do about it.
pub(crate) fn classify(database: &Database, operation: &'static str, source: sqlx::Error) -> StoreError {
    let database = database.clone();
    let detail = source.as_database_error().map_or_else(|| source.to_string(), |error| error.message().to_owned());
    let code = source.as_database_error().and_then(|error| Some(error.code()?.into_owned())).unwrap_or_default();
    let is_file = database.file().is_some();
    let sorted = if is_file {
        sqlite::errors::classify(database.clone(), &code, detail.clone())
    } else {
        postgres::errors::classify(database.clone(), &code, detail.clone())
    };
    match (sorted, &source) {
        (Some(error), _) => error,
        (_, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_)) => {
            StoreError::Damaged { database, detail }
        }
        (_, sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_)) if !is_file => {
            StoreError::Lost { database, detail }
        }
        _ => StoreError::Sql { database, operation, source },
    }
}

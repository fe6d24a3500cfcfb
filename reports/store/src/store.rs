//! The store: a blocking face on one connection, to a file or to a server. What callers ask of it is in files by
//! subject: campaigns, experiments, findings and what belongs to them.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;

use crate::checksum::{self, Checksum};
use crate::database::Database;
use crate::error::{StoreError, classify};
use crate::link::{Column, Connection, Link, Row, Value, sql};
use crate::lock::WriterLock;
use crate::postgres;
use crate::postgres::lock::ServerLock;
use crate::records::{QualificationId, Subject};
use crate::sqlite::lock::FileLock;
use crate::sqlite::open::{Access, Identity, identity, open};

/// A Kelpie database. Each method that writes has committed durably when it returns.
pub struct Store {
    database: Database,
    /// Its latest migration; that of an older Kelpie if it is only read.
    version: i64,
    /// A lock on a server lives as long as its connection.
    link: Arc<Mutex<Link>>,
    /// The file that a campaign is written to.
    written: Option<Identity>,
    /// The write-ahead log of that file, and its index.
    logs: [Option<Identity>; 2],
    /// The qualification that is written, with its lock.
    qualification: Option<(QualificationId, WriterLock)>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("database", &self.database).finish_non_exhaustive()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let Some(path) = self.database.file() else {
            self.qualification = None;
            // A lock that is still held keeps the connection.
            if Arc::strong_count(&self.link) == 1 {
                self.link().close();
            }
            return;
        };
        let mut link = self.link();
        if self.written.is_some() {
            Self::end_writing(&mut link);
        }
        link.close();
        if self.written.is_some_and(|written| identity(path) != Some(written)) {
            self.take_logs_along(path);
        }
    }
}

impl Store {
    /// Opens a database to write, creating the file and its directory, or the tables on a server, if they are missing.
    ///
    /// # Errors
    /// The database cannot be opened, written, or is not a Kelpie database of a known version.
    pub fn create(database: impl Into<Database>) -> Result<Self, StoreError> {
        Self::open(database.into(), Access::Create)
    }

    /// Opens an existing database to write.
    ///
    /// # Errors
    /// As [`Store::create`]; also if there is none.
    pub fn open_to_write(database: impl Into<Database>) -> Result<Self, StoreError> {
        Self::open(database.into(), Access::Write)
    }

    /// Opens an existing database only to read; a read-only file or directory, or a role that may only read, will do.
    ///
    /// # Errors
    /// As [`Store::create`]; also if there is none.
    pub fn open_to_read(database: impl Into<Database>) -> Result<Self, StoreError> {
        Self::open(database.into(), Access::Read)
    }

    fn open(database: Database, access: Access) -> Result<Self, StoreError> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time();
        if database.address().is_some() {
            builder.enable_io();
        }
        let cannot =
            |error: std::io::Error| StoreError::CannotOpen { database: database.clone(), detail: error.to_string() };
        let runtime = builder.build().map_err(cannot)?;
        let (connection, version) = match (database.address(), database.file()) {
            (Some(address), _) => {
                let (connection, version) = runtime.block_on(postgres::open::open(&database, address, access))?;
                (Connection::Postgres(connection), version)
            }
            (None, path) => {
                let path = path.expect("whatever is not on a server is a file");
                let (connection, version) = runtime.block_on(open(path, access))?;
                (Connection::Sqlite(connection), version)
            }
        };
        let link = Arc::new(Mutex::new(Link::new(database.clone(), runtime, connection)));
        Ok(Self { database, version, link, written: None, logs: [None; 2], qualification: None })
    }

    /// Where the campaigns are kept.
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the connection, which errors call by this name.
    pub(crate) fn sql<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Link) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut link = self.link();
        link.operation = operation;
        work(&mut link)
    }

    /// The same in one transaction, as the only writer of a campaign or qualification, or of a new one.
    pub(crate) fn write<T>(
        &self,
        operation: &'static str,
        subject: Option<Subject>,
        work: impl FnOnce(&mut Link) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.sql(operation, |link| link.transaction(subject, work))
    }

    /// A text of a host as the database can keep it.
    fn storable<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.link().storable(text)
    }

    /// Takes the lock of what is stored already.
    fn take(&self, subject: Subject) -> Result<WriterLock, StoreError> {
        let taken = self.sql("locking", |link| link.take(subject))?;
        Ok(self.taken(subject, taken))
    }

    /// The lock that was taken.
    fn taken(&self, subject: Subject, taken: Option<FileLock>) -> WriterLock {
        taken.map_or_else(|| ServerLock::of(&self.link, subject).into(), WriterLock::from)
    }

    fn in_order(
        &self,
        stored: bool,
        subject: impl Into<Subject>,
        what: &'static str,
        number: u64,
    ) -> Result<(), StoreError> {
        let (database, subject) = (self.database.clone(), subject.into());
        if stored { Ok(()) } else { Err(StoreError::OutOfOrder { database, subject, what, number }) }
    }

    /// Gives each row of a query to `visit`, one at a time, until it breaks.
    fn rows(
        &self,
        operation: &'static str,
        text: String,
        values: &[Value<'_>],
        mut visit: impl FnMut(&Self, &Row) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        self.sql(operation, |link| link.each(sql(text), values, |row| visit(self, &row)))
    }

    /// A query for these columns, with the checksum if the database has one.
    fn select(&self, columns: &str, from: &str) -> String {
        let checksum = if self.version < checksum::SINCE { "NULL" } else { "checksum" };
        format!("SELECT {columns}, {checksum} AS checksum FROM {from}")
    }

    /// Refuses a row that is not as it was stored; rows of an older Kelpie have no checksum.
    fn check_sum(&self, row: &Row, sum: Checksum, what: impl FnOnce() -> String) -> Result<(), StoreError> {
        if self.version < checksum::SINCE {
            return Ok(());
        }
        match self.get::<Option<i64>>(row, "checksum")? {
            Some(kept) if kept != sum.finish() => {
                let detail = format!("{} is not as it was stored: its checksum differs", what());
                Err(StoreError::Damaged { database: self.database.clone(), detail })
            }
            _ => Ok(()),
        }
    }

    fn get<'r, T: Column<'r>>(&self, row: &'r Row, column: &'static str) -> Result<T, StoreError> {
        row.get(column).map_err(|error| classify(&self.database, "reading a record", error))
    }

    fn count(&self, row: &Row, column: &'static str) -> Result<u64, StoreError> {
        self.get::<i64>(row, column).map(i64::cast_unsigned)
    }

    fn json<T: DeserializeOwned>(&self, row: &Row, column: &'static str) -> Result<T, StoreError> {
        let text: String = self.get(row, column)?;
        serde_json::from_str(&text).map_err(|error| self.damaged(column, &error))
    }

    /// A word that stands for a value.
    fn word<T: DeserializeOwned>(&self, row: &Row, column: &'static str) -> Result<T, StoreError> {
        let word = serde_json::Value::String(self.get(row, column)?);
        serde_json::from_value(word).map_err(|error| self.damaged(column, &error))
    }

    fn damaged(&self, column: &'static str, error: &serde_json::Error) -> StoreError {
        StoreError::Damaged { database: self.database.clone(), detail: format!("column `{column}`: {error}") }
    }
}

mod anomalies;
mod backup;
mod campaigns;
pub mod checkpoints;
mod checks;
mod experiments;
mod failed_tries;
mod findings;
pub mod follow;
pub mod labels;
pub mod measured_again;
pub mod qualifications;

#[cfg(test)]
mod tests;

/// Tests that hold for files and on a server.
#[cfg(test)]
pub(crate) const ON_A_SERVER: [crate::place::Tests; 7] = [
    tests::ON_A_SERVER,
    backup::tests::ON_A_SERVER,
    checks::tests::ON_A_SERVER,
    follow::tests::ON_A_SERVER,
    labels::tests::ON_A_SERVER,
    measured_again::tests::ON_A_SERVER,
    qualifications::tests::ON_A_SERVER,
];

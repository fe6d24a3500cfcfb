//! The store: a blocking face on one connection. What callers ask of it is in files by subject: campaigns, experiments,
//! findings and what belongs to them.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use futures_util::TryStreamExt;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use tokio::runtime::Runtime;

use crate::database::Database;
use crate::error::{StoreError, classify};
use crate::records::{QualificationId, Subject};
use crate::sqlite::checksum::{self, Checksum};
use crate::sqlite::lock::WriterLock;
use crate::sqlite::open::{Access, Identity, identity, open};

/// A Kelpie database. Each method that writes has committed durably when it returns.
pub struct Store {
    database: Database,
    /// Its latest migration; that of an older Kelpie if it is only read.
    version: i64,
    runtime: Runtime,
    /// `None` only while it is being dropped.
    connection: Option<SqliteConnection>,
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
        if let Some(mut connection) = self.connection.take() {
            if self.written.is_some() {
                self.runtime.block_on(Self::end_writing(&mut connection));
            }
            // Everything is committed already; closing only tidies the write-ahead log away.
            let _ = self.runtime.block_on(connection.close());
            if self.written.is_some_and(|written| identity(self.path()) != Some(written)) {
                self.take_logs_along();
            }
        }
    }
}

impl Store {
    /// Opens a database to write, creating the file and its directory if they are missing.
    ///
    /// # Errors
    /// The file cannot be opened, written, or is not a Kelpie database of a known version.
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

    /// Opens an existing database only to read; a read-only file or directory will do.
    ///
    /// # Errors
    /// As [`Store::create`]; also if there is none.
    pub fn open_to_read(database: impl Into<Database>) -> Result<Self, StoreError> {
        Self::open(database.into(), Access::Read)
    }

    fn open(database: Database, access: Access) -> Result<Self, StoreError> {
        let path = database.file();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| StoreError::CannotOpen { path: path.to_owned(), detail: error.to_string() })?;
        let (connection, version) = runtime.block_on(open(path, access))?;
        Ok(Self {
            database,
            version,
            runtime,
            connection: Some(connection),
            written: None,
            logs: [None; 2],
            qualification: None,
        })
    }

    /// Where the campaigns are kept.
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn path(&self) -> &Path {
        self.database.file()
    }

    /// Runs one future on the connection and sorts its error.
    fn sql<T>(
        &mut self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let connection = self.connection.as_mut().expect("taken only by drop");
        self.runtime.block_on(work(connection)).map_err(|error| classify(self.path(), operation, error))
    }

    fn in_order(
        &self,
        stored: bool,
        subject: impl Into<Subject>,
        what: &'static str,
        number: u64,
    ) -> Result<(), StoreError> {
        let (path, subject) = (self.path().to_owned(), subject.into());
        if stored { Ok(()) } else { Err(StoreError::OutOfOrder { path, subject, what, number }) }
    }

    /// Gives each row of a query with these numbers to `visit`, one at a time, until it breaks.
    fn rows(
        &mut self,
        operation: &'static str,
        sql: String,
        numbers: &[i64],
        mut visit: impl FnMut(&Self, &SqliteRow) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection.take().expect("taken only by drop, and given back below");
        let outcome = self.runtime.block_on(async {
            let query = numbers.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, number| query.bind(*number));
            let mut rows = query.fetch(&mut connection);
            let failed = |error| classify(self.path(), operation, error);
            while let Some(row) = rows.try_next().await.map_err(failed)? {
                if visit(self, &row)?.is_break() {
                    break;
                }
            }
            Ok(())
        });
        self.connection = Some(connection);
        outcome
    }

    /// A query for these columns, with the checksum if the database has one.
    fn select(&self, columns: &str, from: &str) -> String {
        let checksum = if self.version < checksum::SINCE { "NULL" } else { "checksum" };
        format!("SELECT {columns}, {checksum} AS checksum FROM {from}")
    }

    /// Refuses a row that is not as it was stored; rows of an older Kelpie have no checksum.
    fn check_sum(&self, row: &SqliteRow, sum: Checksum, what: impl FnOnce() -> String) -> Result<(), StoreError> {
        if self.version < checksum::SINCE {
            return Ok(());
        }
        match self.get::<Option<i64>>(row, "checksum")? {
            Some(kept) if kept != sum.finish() => {
                let detail = format!("{} is not as it was stored: its checksum differs", what());
                Err(StoreError::Damaged { path: self.path().to_owned(), detail })
            }
            _ => Ok(()),
        }
    }

    fn get<'r, T>(&self, row: &'r SqliteRow, column: &'static str) -> Result<T, StoreError>
    where
        T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    {
        row.try_get(column).map_err(|error| classify(self.path(), "reading a record", error))
    }

    fn count(&self, row: &SqliteRow, column: &'static str) -> Result<u64, StoreError> {
        self.get::<i64>(row, column).map(i64::cast_unsigned)
    }

    fn json<T: DeserializeOwned>(&self, row: &SqliteRow, column: &'static str) -> Result<T, StoreError> {
        let text: String = self.get(row, column)?;
        serde_json::from_str(&text).map_err(|error| self.damaged(column, &error))
    }

    /// A word that stands for a value.
    fn word<T: DeserializeOwned>(&self, row: &SqliteRow, column: &'static str) -> Result<T, StoreError> {
        let word = serde_json::Value::String(self.get(row, column)?);
        serde_json::from_value(word).map_err(|error| self.damaged(column, &error))
    }

    fn damaged(&self, column: &'static str, error: &serde_json::Error) -> StoreError {
        StoreError::Damaged { path: self.path().to_owned(), detail: format!("column `{column}`: {error}") }
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

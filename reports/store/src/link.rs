//! One connection to a database of either kind, and the runtime that drives it. What is asked goes through here, with
//! one text of SQL for both.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{
    AssertSqlSafe, Connection as _, Decode, PgConnection, Postgres, Row as _, SqlSafeStr, Sqlite, SqliteConnection,
    Type,
};
use tokio::runtime::Runtime;

use crate::database::Database;
use crate::error::{StoreError, classify};
use crate::records::{CampaignId, QualificationId, Subject};
use crate::sqlite::lock::FileLock;
use crate::{postgres, sqlite};

/// A connection.
#[derive(Debug)]
pub(crate) enum Connection {
    /// To a file.
    Sqlite(SqliteConnection),
    /// To a server.
    Postgres(PgConnection),
}

/// A value that is bound to a statement; servers want the type of one that is missing, too.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'v> {
    Integer(Option<i64>),
    Real(Option<f64>),
    Text(Option<&'v str>),
}

/// The values of a statement, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::link::Value::from($value)),*] };
}
pub(crate) use values;

macro_rules! value_from {
    ($($from:ty, $name:ident => $value:expr;)*) => {
        $(impl<'v> From<$from> for Value<'v> {
            fn from($name: $from) -> Self {
                $value
            }
        })*
    };
}

value_from! {
    i64, number => Value::Integer(Some(number));
    Option<i64>, number => Value::Integer(number);
    u32, number => Value::Integer(Some(number.into()));
    u64, number => Value::Integer(Some(number.cast_signed()));
    Option<u64>, number => Value::Integer(number.map(u64::cast_signed));
    CampaignId, id => Value::Integer(Some(id.0));
    QualificationId, id => Value::Integer(Some(id.0));
    f64, number => Value::Real(Some(number));
    &'v str, text => Value::Text(Some(text));
    &'v String, text => Value::Text(Some(text));
    Option<&'v str>, text => Value::Text(text);
    &'v Option<String>, text => Value::Text(text.as_deref());
}

/// A row that was read.
#[derive(Debug)]
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// What a column is read as.
pub(crate) trait Column<'r>: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres> {}

impl<'r, T> Column<'r> for T where T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres> {}

impl Row {
    /// A column by its name.
    pub(crate) fn get<'r, T: Column<'r>>(&'r self, column: &str) -> Result<T, sqlx::Error> {
        match self {
            Row::Sqlite(row) => row.try_get(column),
            Row::Postgres(row) => row.try_get(column),
        }
    }
}

/// A statement with its values, for the engine at hand.
macro_rules! query {
    ($sql:expr, $values:expr) => {
        $values.iter().fold(sqlx::query($sql), |query, value| match *value {
            Value::Integer(number) => query.bind(number),
            Value::Real(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
        })
    };
}

/// One connection, and the runtime that drives it.
#[derive(Debug)]
pub(crate) struct Link {
    database: Database,
    /// `None` after it was closed, or after a server kept us waiting: what comes next would be an answer of before.
    connection: Option<Connection>,
    runtime: Runtime,
    /// What is being done, for errors.
    pub(crate) operation: &'static str,
    /// What is written through the connection to a server, and how often it had been locked then.
    pub(crate) held: Vec<(Subject, i64)>,
}

/// What was done through a connection within the time that a server has.
async fn in_time<T>(
    most: Option<Duration>,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let Some(most) = most else { return work.await };
    tokio::time::timeout(most, work).await.unwrap_or_else(|_| {
        let detail = format!("no answer within {} s", most.as_secs());
        Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, detail)))
    })
}

/// Runs one piece of work on whichever connection there is, in time, and sorts its error.
macro_rules! on_connection {
    ($link:expr, $connection:ident => $work:expr) => {{
        let done = match &mut $link.connection {
            Some(Connection::Sqlite($connection)) => $link.runtime.block_on($work),
            Some(Connection::Postgres($connection)) => $link.runtime.block_on(in_time(Some(postgres::ANSWER), $work)),
            None => Err(sqlx::Error::Io(std::io::ErrorKind::NotConnected.into())),
        };
        done.map_err(|error| $link.failed(error))
    }};
}

impl Link {
    pub(crate) fn new(database: Database, runtime: Runtime, connection: Connection) -> Self {
        Self { database, runtime, connection: Some(connection), operation: "opening", held: Vec::new() }
    }

    /// Sorts an error; a server that did not answer is not asked again.
    fn failed(&mut self, error: sqlx::Error) -> StoreError {
        if matches!(&error, sqlx::Error::Io(source) if source.kind() == std::io::ErrorKind::TimedOut) {
            self.connection = None;
        }
        classify(&self.database, self.operation, error)
    }

    /// Refuses a text that the server would refuse, with another word.
    fn check(&self, values: &[Value<'_>]) -> Result<(), StoreError> {
        let has_nul = |value: &Value<'_>| matches!(value, Value::Text(Some(text)) if text.contains('\0'));
        if self.is_to_a_server() && values.iter().any(has_nul) {
            let detail = "it has a character NUL, which PostgreSQL does not keep".to_owned();
            return Err(StoreError::Refused { what: "text", detail });
        }
        Ok(())
    }

    /// A text as the database can keep it: servers keep no NUL, which a host may say.
    pub(crate) fn storable<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_to_a_server() && text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
    }

    pub(crate) fn is_to_a_server(&self) -> bool {
        self.database.file().is_none()
    }

    /// Runs a statement, and says how many rows it made or changed.
    pub(crate) fn execute(&mut self, sql: impl SqlSafeStr, values: &[Value<'_>]) -> Result<u64, StoreError> {
        self.check(values)?;
        on_connection!(self, connection => async {
            query!(sql, values).execute(connection).await.map(|done| done.rows_affected())
        })
    }

    /// Runs statements without values.
    pub(crate) fn script(&mut self, sql: impl SqlSafeStr) -> Result<(), StoreError> {
        on_connection!(self, connection => async { sqlx::raw_sql(sql).execute(connection).await.map(drop) })
    }

    /// Every row of a query.
    pub(crate) fn rows(&mut self, sql: impl SqlSafeStr, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each(sql, values, |row| {
            rows.push(row);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// The row of a query, if there is one.
    pub(crate) fn row(&mut self, sql: impl SqlSafeStr, values: &[Value<'_>]) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, values)?.into_iter().next())
    }

    /// The row of a query that always has one.
    pub(crate) fn one(&mut self, sql: impl SqlSafeStr, values: &[Value<'_>]) -> Result<Row, StoreError> {
        self.row(sql, values)?.ok_or_else(|| self.failed(sqlx::Error::RowNotFound))
    }

    /// A column of the row of a query that always has one.
    pub(crate) fn number(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[Value<'_>],
        column: &str,
    ) -> Result<i64, StoreError> {
        self.one(sql, values)?.get(column).map_err(|error| self.failed(error))
    }

    /// Gives each row of a query to `visit`, one at a time, until it breaks.
    pub(crate) fn each(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[Value<'_>],
        mut visit: impl FnMut(Row) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        macro_rules! each_row {
            ($connection:expr, $row:path, $most:expr) => {
                self.runtime.block_on(async {
                    let mut rows = query!(sql, values).fetch($connection);
                    while let Some(row) = in_time($most, rows.try_next()).await? {
                        match visit($row(row)) {
                            Ok(ControlFlow::Continue(())) => {}
                            stop => return Ok(stop),
                        }
                    }
                    Ok(Ok(ControlFlow::Break(())))
                })
            };
        }
        self.check(values)?;
        let visited = match &mut self.connection {
            Some(Connection::Sqlite(connection)) => each_row!(connection, Row::Sqlite, None),
            Some(Connection::Postgres(connection)) => each_row!(connection, Row::Postgres, Some(postgres::ANSWER)),
            None => Err(sqlx::Error::Io(std::io::ErrorKind::NotConnected.into())),
        };
        visited.map_err(|error| self.failed(error))?.map(drop)
    }

    /// Commits what `work` did, or nothing if it failed. Nobody else writes meanwhile what belongs to the subject.
    pub(crate) fn transaction<T>(
        &mut self,
        subject: Option<Subject>,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.script(if self.is_to_a_server() { postgres::BEGIN } else { sqlite::BEGIN })?;
        let done = match subject.filter(|_| self.is_to_a_server()) {
            Some(subject) => postgres::lock::fence(self, subject),
            None => Ok(()),
        };
        let done = done.and_then(|()| work(self));
        let done = done.and_then(|done| self.script("COMMIT").map(|()| done));
        if done.is_err() {
            // The first error is the one to report; a connection that is gone has taken its transaction with it.
            let _ = self.script("ROLLBACK");
        }
        done
    }

    /// Takes the lock of a campaign or qualification: that of a file, or of a server, which knows it by the connection.
    pub(crate) fn take(&mut self, subject: Subject) -> Result<Option<FileLock>, StoreError> {
        match self.database.file() {
            Some(path) => FileLock::take(path, subject).map(Some),
            None => postgres::lock::take(self, subject).map(|()| None),
        }
    }

    /// Whether some process writes a campaign or qualification.
    pub(crate) fn is_held(&mut self, subject: Subject) -> Result<bool, StoreError> {
        match self.database.file() {
            Some(path) => Ok(FileLock::is_held(path, subject)),
            None => postgres::lock::is_held(self, subject),
        }
    }

    /// The database that it leads to.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Ends the connection, so that a file's write-ahead log is tidied away.
    pub(crate) fn close(&mut self) {
        // Everything is committed already.
        let _ = match self.connection.take() {
            Some(Connection::Sqlite(connection)) => self.runtime.block_on(connection.close()),
            Some(Connection::Postgres(connection)) => {
                self.runtime.block_on(in_time(Some(postgres::ANSWER), connection.close()))
            }
            None => Ok(()),
        };
    }
}

/// A text of SQL that was put together here.
pub(crate) fn sql(text: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(text)
}

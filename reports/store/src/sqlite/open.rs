//! Opening a database file: what may be opened, upgraded or refused. Queries live in `store`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqlSafeStr, SqliteConnection};

use crate::database::Database;
use crate::error::{StoreError, classify};
use crate::sqlite::errors::has_waited;

/// Version, description and text of each migration. `sqlx::migrate!` would read the folder by itself, and have sqlx and
/// SQLite built a second time for a macro.
const MIGRATIONS: [(i64, &str, &str); 9] = [
    (1, "campaigns", include_str!("../../migrations/0001_campaigns.sql")),
    (2, "checks", include_str!("../../migrations/0002_checks.sql")),
    (3, "failed_tries", include_str!("../../migrations/0003_failed_tries.sql")),
    (4, "labels", include_str!("../../migrations/0004_labels.sql")),
    (5, "checksums", include_str!("../../migrations/0005_checksums.sql")),
    (6, "measured_again", include_str!("../../migrations/0006_measured_again.sql")),
    (7, "checkpoints", include_str!("../../migrations/0007_checkpoints.sql")),
    (8, "measured_checks", include_str!("../../migrations/0008_measured_checks.sql")),
    (9, "qualifications", include_str!("../../migrations/0009_qualifications.sql")),
];

static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| migrator(&MIGRATIONS));

/// What brings a database of either engine to its latest version.
pub(crate) fn migrator(migrations: &[(i64, &'static str, &'static str)]) -> Migrator {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(migrations.iter().map(migration).collect())
}

/// `PRAGMA application_id` of a Kelpie database: "KELP".
const APPLICATION_ID: i64 = 0x4b45_4c50;

/// How long a writer waits for another. Units: seconds. Source: our choice, because a commit takes milliseconds.
const BUSY_SECONDS: u64 = 10;

/// What to do with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Write, and create it if it is missing.
    Create,
    /// Write what exists.
    Write,
    /// Only read.
    Read,
}

/// Opens `path` and says its version. What is no Kelpie database of a known version is refused; an older one is
/// upgraded if it is to be written.
pub(crate) async fn open(path: &Path, access: Access) -> Result<(SqliteConnection, i64), StoreError> {
    inspect(path, access)?;
    if access != Access::Read && std::fs::metadata(path).is_ok_and(|found| found.len() > 0) {
        check_structure(path).await?;
    }
    let mut connection = connect(path, access).await?;
    match check(path, access, &mut connection).await {
        Ok(version) => Ok((connection, version)),
        Err(error) => {
            // The first error is the one to report.
            let _ = connection.close().await;
            Err(error)
        }
    }
}

/// Refuses a file that is damaged before anything is written to it: by a connection that cannot write, whose end does
/// not take the write-ahead log into the file either.
async fn check_structure(path: &Path) -> Result<(), StoreError> {
    let mut connection = connect(path, Access::Read).await?;
    let checked = sqlx::query_scalar::<_, String>("PRAGMA quick_check(1)").fetch_one(&mut connection).await;
    // What was found is what counts.
    let _ = connection.close().await;
    match checked.map_err(|error| classify(&path.into(), "checking the database", error))? {
        fine if fine == "ok" => Ok(()),
        detail => Err(StoreError::Damaged { database: path.into(), detail }),
    }
}

/// What makes a file this file, whatever its name.
pub(crate) type Identity = (u64, u64);

/// That of the file at a path, if there is one.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Marks a database that is being written to, so that a copy without its write-ahead log is known by it.
pub(crate) const BEING_WRITTEN: &str = "PRAGMA user_version = 1; PRAGMA wal_checkpoint(PASSIVE)";

/// Takes the mark away.
pub(crate) const WRITTEN: &str = "PRAGMA user_version = 0";

/// Warns of a copy that was made of the file alone.
async fn warn_of_a_part(path: &Path, connection: &mut SqliteConnection) {
    let marked = sqlx::query_scalar::<_, i64>("PRAGMA user_version").fetch_one(connection).await;
    if marked.is_ok_and(|mark| mark == 1) && !beside(path, "-wal").exists() {
        tracing::warn!(
            "{}: the file alone, copied while somebody wrote to it: its latest experiments were in {}-wal, which is not \
             here. `kelpie campaign backup` copies all of it",
            path.display(),
            path.display()
        );
    }
}

fn inspect(path: &Path, access: Access) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(StoreError::NotAFile { database: path.into() }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && access == Access::Create => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            parent.map_or(Ok(()), std::fs::create_dir_all).map_err(|error| cannot_open(path, &error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(StoreError::Missing { database: path.into() })
        }
        Err(error) => Err(cannot_open(path, &error)),
    }
}

fn cannot_open(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::CannotOpen { database: path.into(), detail: error.to_string() }
}

async fn connect(path: &Path, access: Access) -> Result<SqliteConnection, StoreError> {
    // A slow disk is no news, and a line on stderr would tear what `watch` or a progress bar has drawn.
    let options = SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(BUSY_SECONDS))
        .disable_statement_logging();
    if access != Access::Read {
        // The journal mode is a property of the file: it is changed only once the file is known to be ours.
        let options = options.create_if_missing(access == Access::Create).synchronous(SqliteSynchronous::Full);
        return options.connect().await.map_err(|error| classify(&path.into(), "opening", error));
    }
    let options = options.read_only(true);
    match read(&options).await {
        // A database in WAL mode needs a -shm file even to be read. Where none can be made and no writer left a
        // -wal behind, the file alone is the whole truth.
        Err(_) if !beside(path, "-wal").exists() => read(&options.immutable(true)).await,
        outcome => outcome,
    }
    .map_err(|error| classify(&path.into(), "opening", error))
}

/// Connects and touches the file, which is when SQLite finds out whether it can read it.
async fn read(options: &SqliteConnectOptions) -> Result<SqliteConnection, sqlx::Error> {
    let mut connection = options.connect().await?;
    sqlx::query("SELECT count(*) FROM sqlite_schema").execute(&mut connection).await?;
    Ok(connection)
}

fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

async fn check(path: &Path, access: Access, connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let sql = |error| classify(&path.into(), "reading its version", error);
    // A process that was killed while it created the file may have left nothing but the migrator's own table.
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE tbl_name <> '_sqlx_migrations'")
        .fetch_one(&mut *connection)
        .await
        .map_err(sql)?;
    let application: i64 =
        sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *connection).await.map_err(sql)?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(StoreError::Foreign { database: path.into() });
    }
    let known = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
    let found = if tables > 0 { latest(connection).await.map_err(sql)? } else { 0 };
    if found > known {
        return Err(StoreError::Newer { database: path.into(), found, known });
    }
    warn_of_a_part(path, connection).await;
    match access {
        Access::Create | Access::Write => migrate(path, connection).await.map(|()| known),
        Access::Read if found == 0 => Err(StoreError::Missing { database: path.into() }),
        Access::Read => Ok(found),
    }
}

async fn latest(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations").fetch_one(connection).await
}

async fn migrate(path: &Path, connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query("PRAGMA journal_mode = WAL")
        .execute(&mut *connection)
        .await
        .map_err(|error| classify(&path.into(), "switching to write-ahead logging", error))?;
    // Two processes may create the same file at once; the slower one finds the tables made when it looks again.
    let outcome = match MIGRATOR.run(&mut *connection).await {
        Err(MigrateError::ExecuteMigration(source, _)) if !has_waited(&source) => MIGRATOR.run(&mut *connection).await,
        outcome => outcome,
    };
    outcome.map_err(|error| upgrade_failed(&path.into(), error))
}

/// Sorts an error of bringing a database of either engine to its latest version.
pub(crate) fn upgrade_failed(database: &Database, error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => {
            classify(database, "bringing it to this version", source)
        }
        other => StoreError::Damaged { database: database.clone(), detail: other.to_string() },
    }
}

/// The version of a database that is written now.
#[cfg(test)]
pub(crate) const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Creates a database as the Kelpie of this version did.
#[cfg(test)]
pub(crate) async fn create_as_of(path: &Path, version: i64) {
    let older = MIGRATOR.iter().filter(|migration| migration.version <= version).cloned().collect::<Vec<_>>();
    let mut connection = connect(path, Access::Create).await.unwrap();
    sqlx::query("PRAGMA journal_mode = WAL").execute(&mut connection).await.unwrap();
    Migrator::with_migrations(older).run(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_waits_for_another_writer_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("k.db");
            create_as_of(&path, 7).await;
            let mut writer = connect(&path, Access::Write).await.unwrap();
            sqlx::query("BEGIN IMMEDIATE").execute(&mut writer).await.unwrap();
            let mut connection = connect(&path, Access::Write).await.unwrap();
            sqlx::query("PRAGMA busy_timeout = 2000").execute(&mut connection).await.unwrap();
            let begin = std::time::Instant::now();
            let error = migrate(&path, &mut connection).await.unwrap_err();
            assert!(matches!(error, StoreError::Busy { .. }), "{error}");
            assert!(begin.elapsed() < Duration::from_millis(3900), "{:?}", begin.elapsed());
        });
    }

    /// SHA-384 of each migration that was released, as databases hold it: sqlx refuses a database if one differs.
    const RELEASED: [(i64, &str); 1] =
        [(1, "1fcb777791a0489b67497d9f936342a225b5965701336e141bdf8e2816f4fe8a0d71c643d53c6ee00cb61d21b9379e11")];

    #[test]
    fn every_migration_is_compiled_in_and_those_released_are_as_they_were() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        files.retain(|file| file != "postgres");
        files.sort();
        let known = MIGRATIONS.map(|(version, description, _)| format!("{version:04}_{description}.sql"));
        assert_eq!(files, known);
        for (version, checksum) in RELEASED {
            let migration = MIGRATOR.iter().find(|migration| migration.version == version).unwrap();
            let found = migration.checksum.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
            assert_eq!(found, checksum, "migration {version}");
        }
    }
}

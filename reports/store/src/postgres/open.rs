//! Opening a database on a server: what may be opened, upgraded or refused. Queries live in `store`.

use std::str::FromStr as _;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use url::Url;

use crate::database::Database;
use crate::error::{StoreError, classify};
use crate::sqlite::open::{Access, migrator, upgrade_failed};

/// The first version that servers held is one migration: all that files had by then.
const MIGRATIONS: [(i64, &str, &str); 1] =
    [(9, "qualifications", include_str!("../../migrations/postgres/0009_qualifications.sql"))];

static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| migrator(&MIGRATIONS));

/// What an address of a server may ask for after its `?`.
const PARAMETERS: [&str; 17] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "application_name",
    "options",
];

/// How long a server may take until it answers. Source: our choice, because a login takes milliseconds.
const LOGIN: Duration = Duration::from_secs(10);

/// What a connection asks of its server: waits with an end, and notice of a host that vanished, which would keep its
/// locks. Source: our choice.
const SETTINGS: [(&str, &str); 6] = [
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "60s"),
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "60s"),
];

/// The options of an address. Errors repeat nothing of it: a part may be a secret.
fn options(address: &str) -> Result<PgConnectOptions, String> {
    let url = Url::parse(address).map_err(|error| error.to_string())?;
    let is_known = |key: &str| PARAMETERS.contains(&key) || (key.starts_with("options[") && key.ends_with(']'));
    if url.query_pairs().any(|(key, _)| !is_known(&key)) {
        return Err(format!("after the `?`, it may have {}", PARAMETERS.join(", ")));
    }
    PgConnectOptions::from_str(address).map_err(|_| "a value after the `?` makes no sense".to_owned())
}

/// A commit is on the server's disk when it returns, also where the operator asked for less.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', FALSE) \
                       WHERE current_setting('synchronous_commit') = 'off'";

/// Connects to the server of this address and says the version of the database. What is no Kelpie database of a known
/// version is refused; an older one is upgraded if it is to be written.
pub(crate) async fn open(
    database: &Database,
    address: &str,
    access: Access,
) -> Result<(PgConnection, i64), StoreError> {
    let cannot = |detail: String| StoreError::CannotOpen { database: database.clone(), detail };
    let options = options(address)
        .map_err(|why| cannot(format!("not an address of a server: {why}")))?
        .application_name("kelpie")
        .options(SETTINGS)
        .disable_statement_logging();
    let options =
        if access == Access::Read { options.options([("default_transaction_read_only", "on")]) } else { options };
    let connected = tokio::time::timeout(LOGIN, options.connect()).await;
    let mut connection = connected
        .map_err(|_| cannot(format!("the server gave no answer within {} s", LOGIN.as_secs())))?
        .map_err(|error| match classify(database, "opening", error) {
            // Not there, of another protocol, without TLS: nothing was lost.
            StoreError::Lost { detail, .. } => cannot(detail),
            other => other,
        })?;
    let checked = tokio::time::timeout(super::ANSWER, check(database, access, &mut connection)).await;
    match checked.unwrap_or_else(|_| Err(cannot("the server stopped to answer".to_owned()))) {
        Ok(version) => Ok((connection, version)),
        Err(error) => {
            // The first error is the one to report.
            let _ = tokio::time::timeout(LOGIN, connection.close()).await;
            Err(error)
        }
    }
}

async fn check(database: &Database, access: Access, connection: &mut PgConnection) -> Result<i64, StoreError> {
    let sql = |error| classify(database, "reading its version", error);
    let (tables, is_ours): (i64, bool) = sqlx::query_as(
        "SELECT count(*), coalesce(bool_or(relname = 'kelpie_database'), FALSE) FROM pg_class \
         WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f') \
         AND relname <> '_sqlx_migrations'",
    )
    .fetch_one(&mut *connection)
    .await
    .map_err(sql)?;
    if tables > 0 && !is_ours {
        return Err(StoreError::Foreign { database: database.clone() });
    }
    if access != Access::Read {
        sqlx::query(DURABLE).execute(&mut *connection).await.map_err(sql)?;
    }
    let known = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
    let latest = "SELECT coalesce(max(version), 0) FROM _sqlx_migrations";
    let found: i64 =
        if is_ours { sqlx::query_scalar(latest).fetch_one(&mut *connection).await.map_err(sql)? } else { 0 };
    match access {
        _ if found > known => Err(StoreError::Newer { database: database.clone(), found, known }),
        Access::Read | Access::Write if found == 0 => Err(StoreError::Missing { database: database.clone() }),
        Access::Read => Ok(found),
        // A role that may write rows need not be one that may make tables.
        Access::Create | Access::Write if found == known => Ok(known),
        Access::Create | Access::Write => {
            // It waits for others that do the same, within `lock_timeout`.
            let upgraded = MIGRATOR.run(&mut *connection).await;
            upgraded.map(|()| known).map_err(|error| upgrade_failed(database, error))
        }
    }
}

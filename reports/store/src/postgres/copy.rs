//! A copy of a database on a server, as a file of SQLite.

use sqlx::{Column as _, Row as _, TypeInfo as _};

use crate::error::StoreError;
use crate::link::{Link, Row, Value, sql};

/// Tables of qualifications, and all of a campaign: those that others name first.
pub(super) const TABLES: [&str; 12] = [
    "campaign",
    "campaign_clock",
    "campaign_label",
    "campaign_check",
    "failed_try",
    "experiment",
    "experiment_clock",
    "finding",
    "measured_again",
    "checkpoint",
    "qualification",
    "qualification_unit",
];

/// Rows that are in memory at once. Source: our choice, because one has up to a megabyte.
const AT_ONCE: usize = 64;

/// Who writes is nothing that a copy has.
const OF_WRITERS: [&str; 2] = ["epoch", "writer"];

/// Copies every row as it was at one moment, also while somebody writes.
pub(crate) fn copy(from: &mut Link, to: &mut Link) -> Result<(), StoreError> {
    from.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let copied = TABLES.into_iter().try_for_each(|table| copy_table(from, to, table));
    copied.and(from.script("COMMIT"))
}

fn copy_table(from: &mut Link, to: &mut Link, table: &str) -> Result<(), StoreError> {
    from.script(sql(format!("DECLARE {table}_rows NO SCROLL CURSOR FOR SELECT * FROM {table}")))?;
    loop {
        let rows = from.rows(sql(format!("FETCH {AT_ONCE} FROM {table}_rows")), &[])?;
        rows.iter().try_for_each(|row| insert(to, table, row))?;
        if rows.len() < AT_ONCE {
            return Ok(());
        }
    }
}

fn insert(to: &mut Link, table: &str, row: &Row) -> Result<(), StoreError> {
    let Row::Postgres(row) = row else { return Ok(()) };
    let columns: Vec<_> = row.columns().iter().filter(|column| !OF_WRITERS.contains(&column.name())).collect();
    let value = |column: &&sqlx::postgres::PgColumn| {
        Ok(match column.type_info().name() {
            "INT8" => Value::Integer(row.try_get(column.ordinal())?),
            "FLOAT8" => Value::Real(row.try_get(column.ordinal())?),
            _ => Value::Text(row.try_get(column.ordinal())?),
        })
    };
    let values: Result<Vec<Value<'_>>, sqlx::Error> = columns.iter().map(value).collect();
    let values = values.map_err(|error| crate::error::classify(to.database(), to.operation, error))?;
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    let places: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
    to.execute(sql(format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), places.join(", "))), &values)?;
    Ok(())
}

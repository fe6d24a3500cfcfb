//! One writer per campaign or qualification: an advisory lock of the connection that writes, which the server frees
//! when the connection ends.
//!
//! A number that is raised with each lock stands beside it. Each transaction of a writer asks for the number that it
//! took, so that a writer that was cut off, such as behind a pool of connections, writes nothing.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::StoreError;
use crate::holder::Holder;
use crate::link::{Link, Row, sql, values};
use crate::records::Subject;

/// The first half of a lock's key; the second is the number of what is locked. Other programs may lock in the same
/// database: "KELP", and the one after.
fn key(subject: Subject) -> i64 {
    match subject {
        Subject::Campaign(_) => 0x4b45_4c50,
        Subject::Qualification(_) => 0x4b45_4c51,
    }
}

/// Held by the process that writes a campaign or qualification; dropped, or its process or connection gone, it is free
/// again.
#[derive(Debug)]
pub(crate) struct ServerLock {
    link: Arc<Mutex<Link>>,
    subject: Subject,
}

impl ServerLock {
    /// Of what the connection has locked.
    pub(crate) fn of(link: &Arc<Mutex<Link>>, subject: Subject) -> Self {
        Self { link: Arc::clone(link), subject }
    }
}

impl Drop for ServerLock {
    fn drop(&mut self) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.held.retain(|(held, _)| *held != self.subject);
        // A connection that is gone has taken its locks with it.
        let _ = link.execute(
            "SELECT pg_advisory_unlock($1::int4, $2::int4)",
            values![key(self.subject), self.subject.number()],
        );
    }
}

/// Takes the lock for this connection.
pub(crate) fn take(link: &mut Link, subject: Subject) -> Result<(), StoreError> {
    let key = values![key(subject), subject.number()];
    let is_ours = link.held.iter().any(|(held, _)| *held == subject);
    if is_ours
        || link.number("SELECT pg_try_advisory_lock($1::int4, $2::int4)::int4::int8 AS taken", key, "taken")? == 0
    {
        return Err(locked(link, subject));
    }
    let holder = serde_json::to_string(&Holder::this_process()).expect("texts and numbers are JSON");
    let raise = format!("UPDATE {} SET epoch = epoch + 1, writer = $2 WHERE id = $1 RETURNING epoch", subject.kind());
    match link.number(sql(raise), values![subject.number(), &holder], "epoch") {
        Ok(epoch) => {
            link.held.push((subject, epoch));
            Ok(())
        }
        Err(error) => {
            // Whoever may write is not kept from it by one who may not.
            let _ = link.execute("SELECT pg_advisory_unlock($1::int4, $2::int4)", key);
            Err(error)
        }
    }
}

/// Keeps everybody else from writing what belongs to the subject until the transaction ends, and fails if somebody took
/// the lock that was ours.
pub(crate) fn fence(link: &mut Link, subject: Subject) -> Result<(), StoreError> {
    let ask = format!("SELECT epoch FROM {} WHERE id = $1 FOR UPDATE", subject.kind());
    let Some(row) = link.row(sql(ask), values![subject.number()])? else { return Ok(()) };
    let epoch: i64 = column(link, &row, "epoch")?;
    match link.held.iter().find(|(held, _)| *held == subject) {
        Some((_, ours)) if *ours != epoch => Err(locked(link, subject)),
        _ => Ok(()),
    }
}

/// Whether some connection writes a campaign or qualification.
pub(crate) fn is_held(link: &mut Link, subject: Subject) -> Result<bool, StoreError> {
    let held = "SELECT count(*) AS holders FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted \
                AND classid = $1::int4::oid AND objid = $2::int4::oid \
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    Ok(link.number(held, values![key(subject), subject.number()], "holders")? > 0)
}

fn locked(link: &mut Link, subject: Subject) -> StoreError {
    let who = format!("SELECT writer FROM {} WHERE id = $1", subject.kind());
    let row = link.row(sql(who), values![subject.number()]).ok().flatten();
    let said: Option<String> = row.and_then(|row| row.get("writer").ok()).flatten();
    let holder = said.and_then(|said| serde_json::from_str(&said).ok());
    StoreError::Locked { database: link.database().clone(), subject, holder }
}

fn column<'r, T: crate::link::Column<'r>>(link: &Link, row: &'r Row, column: &str) -> Result<T, StoreError> {
    row.get(column).map_err(|error| crate::error::classify(link.database(), link.operation, error))
}

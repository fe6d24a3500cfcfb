//! How a database lies on a server of PostgreSQL: opening and upgrading it, and who writes what.

use std::time::Duration;

pub(crate) mod copy;
pub(crate) mod errors;
pub(crate) mod lock;
pub(crate) mod open;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

/// How long an answer is waited for, or its next row. Source: our choice, because the longest answer, to a sum over a
/// campaign of a million experiments, takes some seconds.
pub(crate) const ANSWER: Duration = Duration::from_mins(1);

/// Begins a transaction that writes.
pub(crate) const BEGIN: &str = "BEGIN";

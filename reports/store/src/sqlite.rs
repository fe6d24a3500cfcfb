//! How a database lies in a file of SQLite: opening and upgrading it, the locks of its campaigns, sums of its rows.

pub(crate) mod errors;
pub(crate) mod lock;
pub(crate) mod open;

/// Begins a transaction that writes: at once, so that it waits for another writer here and nowhere else.
pub(crate) const BEGIN: &str = "BEGIN IMMEDIATE";

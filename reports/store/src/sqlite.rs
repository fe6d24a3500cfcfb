//! How a database lies in a file of SQLite: opening and upgrading it, the locks of its campaigns, sums of its rows.

pub(crate) mod checksum;
pub(crate) mod lock;
pub(crate) mod open;

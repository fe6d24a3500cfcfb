//! SQLite's result codes, sorted by what the user can do about them.

use crate::database::Database;
use crate::error::StoreError;

/// Primary result codes. Source: <https://www.sqlite.org/rescode.html>.
mod code {
    pub const BUSY: i32 = 5;
    pub const READONLY: i32 = 8;
    pub const IOERR: i32 = 10;
    pub const CORRUPT: i32 = 11;
    pub const FULL: i32 = 13;
    pub const CANTOPEN: i32 = 14;
    pub const NOTADB: i32 = 26;
}

/// The error that an extended code stands for; `None` for any other.
pub(crate) fn classify(database: Database, code: &str, detail: String) -> Option<StoreError> {
    Some(match code.parse::<i32>().ok()? & 0xff {
        code::BUSY => StoreError::Busy { database },
        code::READONLY => StoreError::ReadOnly { database },
        code::IOERR => StoreError::Io { database, detail },
        code::CORRUPT => StoreError::Damaged { database, detail },
        code::FULL => StoreError::Full { database },
        code::CANTOPEN => StoreError::CannotOpen { database, detail },
        code::NOTADB => StoreError::NotADatabase { database },
        _ => return None,
    })
}

/// Whether SQLite gave up waiting for another process; a snapshot that is too old (`SQLITE_BUSY_SNAPSHOT`) fails at
/// once and has another code.
pub(crate) fn has_waited(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok()) == Some(code::BUSY)
}

//! SQLSTATEs, sorted by what the user can do about them. Source:
//! <https://www.postgresql.org/docs/15/errcodes-appendix.html>.

use crate::database::Database;
use crate::error::StoreError;

/// The error that a code of the server stands for; `None` for any other.
pub(crate) fn classify(database: Database, code: &str, detail: String) -> Option<StoreError> {
    Some(match code {
        // Waited for a lock for too long, and conflicts that go away by themselves.
        "55P03" | "40001" | "40P01" => StoreError::Busy { database },
        // A transaction or role that may only read.
        "25006" | "42501" => StoreError::ReadOnly { database },
        "53100" => StoreError::Full { database },
        "58030" => StoreError::Io { database, detail },
        // Pages, indexes, and JSON that is none any more.
        "XX001" | "XX002" | "22P02" | "22P05" => StoreError::Damaged { database, detail },
        // Stopped by its administrator, or after a crash of another of its processes.
        "57P01" | "57P02" => StoreError::Lost { database, detail },
        // Starting or stopping; connections, logins and databases that are not there; too many connections.
        _ if ["08", "28", "3D", "53", "57"].iter().any(|class| code.starts_with(class)) => {
            StoreError::CannotOpen { database, detail }
        }
        _ => return None,
    })
}

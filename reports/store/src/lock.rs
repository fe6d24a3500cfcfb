//! One writer per campaign or qualification.

use crate::postgres::lock::ServerLock;
use crate::sqlite::lock::FileLock;

/// Held by the process that writes a campaign or qualification; dropped, or its process killed, it is free again.
#[derive(Debug)]
pub struct WriterLock {
    _held: Held,
}

#[derive(Debug)]
enum Held {
    File { _lock: FileLock },
    Server { _lock: ServerLock },
}

impl From<FileLock> for WriterLock {
    fn from(lock: FileLock) -> Self {
        Self { _held: Held::File { _lock: lock } }
    }
}

impl From<ServerLock> for WriterLock {
    fn from(lock: ServerLock) -> Self {
        Self { _held: Held::Server { _lock: lock } }
    }
}

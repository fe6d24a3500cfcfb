//! Exit statuses. Scripts depend on them.

use std::process::ExitCode;

/// It ran, and all is well.
pub const HEALTHY: ExitCode = ExitCode::SUCCESS;

/// It ran, and something is anomalous.
pub fn anomalous() -> ExitCode {
    ExitCode::from(1)
}

/// It could not run, or not to its end.
pub fn failed() -> ExitCode {
    ExitCode::from(2)
}

/// It was ended by a second signal; see `bash(1)` on 128 and the signal's number.
pub const INTERRUPTED: i32 = 130;

//! Where a fault can be, and the published order in which places are tried.

use serde::Serialize;

/// A place that is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A rank, as source and as destination.
    Rank(u32),
    /// What a rank sends.
    Source(u32),
    /// What a rank receives.
    Destination(u32),
    /// One connection.
    Connection(u32, u32),
    /// One connection that is all that was measured of its source or of its destination, so any of them may be it.
    Ambiguous(u32, u32),
}

//! Where a fault can be, and the published order in which places are tried.

use serde::Serialize;

/// A place that is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A host: what all of its ranks exchange with other hosts. The number is that of its name in the evidence.
    Host(u32),
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

impl Fault {
    /// Whether both have a cell in common, as far as their names tell.
    pub fn touches(&self, other: &Self) -> bool {
        let ends = |fault: &Self| match *fault {
            Self::Host(_) => (None, None),
            Self::Rank(rank) => (Some(rank), Some(rank)),
            Self::Source(rank) => (Some(rank), None),
            Self::Destination(rank) => (None, Some(rank)),
            Self::Connection(source, destination) | Self::Ambiguous(source, destination) => {
                (Some(source), Some(destination))
            }
        };
        let (one, two) = (ends(self), ends(other));
        self == other || (one.0.is_some() && one.0 == two.0) || (one.1.is_some() && one.1 == two.1)
    }
}

//! Marks of congestion: when switches mark, and how receivers tell senders.

/// When a switch marks a packet that leaves, by what still waits behind it in its class. Units: bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EcnCurve {
    /// Up to it nothing is marked.
    pub kmin: f64,
    /// Above it all is marked.
    pub kmax: f64,
    /// Probability at `kmax`.
    pub pmax: f64,
}

/// How receivers tell senders of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkEcho {
    /// Each acknowledgement repeats the mark of its packet.
    Acknowledgement,
    /// A congestion notification packet (CNP) of its own, at most one of a QP in this time. Units: ns. Source: IBTA
    /// Architecture Specification Volume 1, Annex A17.9.
    Cnp(u64),
}

//! What the parts have to know of a packet.

/// What moves through switches: a packet, a burst of them, or the index of one that lies elsewhere.
pub trait Packet {
    /// What it takes of a wire and of a buffer. Units: bytes.
    fn bytes(&self) -> u64;

    /// Its class of priority flow control, from 0, the first that a wire serves.
    #[inline]
    fn class(&self) -> usize {
        0
    }
}

//! What waits for a wire.

use std::collections::VecDeque;

use crate::packet::Packet;

/// Packets of a class that wait at a port, first come, first served.
#[derive(Debug, Clone)]
pub struct EgressQueue<P> {
    waiting: VecDeque<P>,
    bytes: u64,
}

impl<P> Default for EgressQueue<P> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), bytes: 0 }
    }
}

impl<P: Packet> EgressQueue<P> {
    /// A packet joins.
    #[inline]
    pub fn push(&mut self, packet: P) {
        self.bytes += packet.bytes();
        self.waiting.push_back(packet);
    }

    /// The first leaves.
    #[inline]
    pub fn pop(&mut self) -> Option<P> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= packet.bytes();
        Some(packet)
    }

    /// What waits. Units: bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

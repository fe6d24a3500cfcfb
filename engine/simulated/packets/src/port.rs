//! A port while the simulation runs: its wire, what is on the way to it, and what waits to leave.

use crate::congestion::NEVER;
use crate::layout::NONE;
use crate::packet::Fifo;

/// A port, in one line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Port {
    /// When its wire is free. Units: ps.
    pub free: u64,
    /// When it looks whether something can leave; [`NEVER`] if nothing is planned. Units: ns.
    pub look: u64,
    /// What has left. Units: bytes.
    pub sent: u64,
    /// Packets on their way to it.
    pub arriving: Fifo,
    /// What goes before all data: pauses, notifications, and acknowledgements if they do.
    pub control: Fifo,
    /// What waits in all classes. Units: bytes.
    pub queued: u32,
    /// Its NIC, if a host's.
    pub nic: u32,
    /// Packets that left or were lost, for random numbers.
    pub count: u32,
    /// Classes that its peer asked to be silent, one bit each.
    pub paused: u8,
    /// The class that left last.
    pub class: u8,
}

impl Default for Port {
    fn default() -> Self {
        Self {
            free: 0,
            look: NEVER,
            sent: 0,
            arriving: Fifo::default(),
            control: Fifo::default(),
            queued: 0,
            nic: NONE,
            count: 0,
            paused: 0,
            class: 0,
        }
    }
}

/// What waits at a port in a class.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassQueue {
    /// Packets.
    pub packets: Fifo,
    /// Units: bytes.
    pub bytes: u32,
}

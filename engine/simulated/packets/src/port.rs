//! A port while the simulation runs: its wire, what is on the way to it, and what waits to leave.

use crate::congestion::NEVER;
use crate::packet::Fifo;

/// Its node sends and receives.
pub const HOST: u8 = 1;
/// Its node has a buffer with PFC.
pub const SWITCH: u8 = 4;
/// Its peer belongs to another part.
pub const REMOTE: u8 = 2;

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
    /// Packets that left or were lost, for random numbers.
    pub count: u32,
    /// The port at the other end of its link.
    pub peer: u32,
    /// Of a switch, its buffer; of others, its NIC.
    pub owner: u32,
    /// Kind of its link.
    pub kind: u16,
    /// Its first ingress among those of its buffer.
    pub ingress: u16,
    /// Classes that its peer asked to be silent, one bit each.
    pub paused: u8,
    /// The class that left last.
    pub class: u8,
    /// Flags.
    pub flags: u8,
}

impl Port {
    /// An idle port with this peer, owner, kind of link and first ingress.
    pub fn new(peer: u32, owner: u32, kind: u16, ingress: u16, flags: u8) -> Self {
        Self {
            free: 0,
            look: NEVER,
            sent: 0,
            arriving: Fifo::default(),
            control: Fifo::default(),
            queued: 0,
            count: 0,
            peer,
            owner,
            kind,
            ingress,
            paused: 0,
            class: 0,
            flags,
        }
    }

    /// Whether its node sends and receives.
    #[inline]
    pub fn is_host(&self) -> bool {
        self.flags & HOST != 0
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

//! Packets, where they lie, and lists of them.

use crate::congestion::Hop;
use crate::layout::NONE;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// Part of a message.
    Data,
    /// All before it has arrived.
    Ack,
    /// Something before what arrived is missing.
    Nack,
    /// Congestion notification packet.
    Cnp,
    /// Priority flow control: be silent in a class.
    Pause,
    /// Go on.
    Resume,
}

/// A packet was marked on its way; an acknowledgement says so.
pub const MARKED: u8 = 1;
/// The last of its message.
pub const LAST: u8 = 2;
/// Where the class of data stands among the flags, and how many classes there can be.
pub const CLASS_SHIFT: u8 = 2;
/// Classes.
pub const MOST_CLASSES: usize = 4;

/// A packet on a wire or in a queue, in half a line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub struct Packet {
    /// The one behind it.
    pub next: u32,
    /// Its message; the class of a pause.
    pub message: u32,
    /// Its number among those of its QP; of an acknowledgement, the first that has not arrived.
    pub number: u32,
    /// When the data left its sender. Units: ns, the lower half.
    pub stamp: u32,
    /// On a link, when it arrives (ns, the lower half); in a switch, the port by which it came.
    pub place: u32,
    /// Where its next port stands among those of all ways.
    pub way: u32,
    /// The largest load that a switch wrote, in eight bits; above them, of a NACK, how far behind the first missing
    /// packet the one was that came.
    pub more: u32,
    /// Units: bytes.
    pub bytes: u16,
    /// Kind.
    pub kind: PacketKind,
    /// Flags; from bit 4 on how many switches wrote into it.
    pub flags: u8,
}

impl Packet {
    /// Its class, by its place among those of the run.
    #[inline]
    pub fn class(&self) -> usize {
        usize::from(self.flags >> CLASS_SHIFT) % MOST_CLASSES
    }

    /// The largest load that a switch wrote.
    #[inline]
    pub fn load(&self) -> u8 {
        self.more as u8
    }

    /// A switch writes its load, if it is larger.
    #[inline]
    pub fn raise_load(&mut self, load: u8) {
        self.more = (self.more & !0xff) | u32::from(self.load().max(load));
    }

    /// It becomes a NACK of a packet so far behind the first missing one.
    #[inline]
    pub fn came_behind(&mut self, packets: u32) {
        self.more = (packets << 8) | (self.more & 0xff);
    }
}

/// A list of packets, which they themselves link.
#[derive(Debug, Clone, Copy)]
pub struct Fifo {
    head: u32,
    tail: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Fifo {
    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.head == NONE
    }

    /// The first, or [`NONE`].
    #[inline]
    pub fn first(self) -> u32 {
        self.head
    }
}

/// All packets of a part of a fabric, and what is free.
#[derive(Debug)]
pub struct Packets<const HOPS: usize> {
    all: Vec<Packet>,
    /// What switches wrote into each.
    hops: Vec<[Hop; HOPS]>,
    free: u32,
}

impl<const HOPS: usize> Default for Packets<HOPS> {
    fn default() -> Self {
        Self { all: Vec::new(), hops: Vec::new(), free: NONE }
    }
}

impl<const HOPS: usize> Packets<HOPS> {
    /// Places a packet.
    #[inline]
    pub fn put(&mut self, packet: Packet) -> u32 {
        if let Some(place) = self.all.get_mut(self.free as usize) {
            let place_number = self.free;
            self.free = place.next;
            *place = packet;
            return place_number;
        }
        self.all.push(packet);
        if HOPS > 0 {
            self.hops.push([Hop::default(); HOPS]);
        }
        self.all.len() as u32 - 1
    }

    /// Gives a place back.
    #[inline]
    pub fn free(&mut self, packet: u32) {
        self.all[packet as usize].next = self.free;
        self.free = packet;
    }

    /// A packet.
    #[inline]
    pub fn at(&mut self, packet: u32) -> &mut Packet {
        &mut self.all[packet as usize]
    }

    /// Appends to a list.
    #[inline]
    pub fn push(&mut self, list: &mut Fifo, packet: u32) {
        self.all[packet as usize].next = NONE;
        if list.head == NONE {
            list.head = packet;
        } else {
            self.all[list.tail as usize].next = packet;
        }
        list.tail = packet;
    }

    /// Takes the first of a list.
    #[inline]
    pub fn pop(&mut self, list: &mut Fifo) -> Option<u32> {
        let first = list.head;
        let packet = self.all.get(first as usize)?;
        list.head = packet.next;
        Some(first)
    }

    /// A switch writes into a packet.
    #[inline]
    pub fn write(&mut self, packet: u32, hop: Hop) {
        let flags = &mut self.all[packet as usize].flags;
        let written = usize::from(*flags >> 4);
        if written < HOPS {
            self.hops[packet as usize][written] = hop;
            *flags += 16;
        }
    }

    /// What switches wrote into a packet.
    #[inline]
    pub fn hops(&self, packet: u32) -> &[Hop] {
        let written = usize::from(self.all[packet as usize].flags >> 4);
        self.hops.get(packet as usize).map_or(&[], |hops| &hops[..written])
    }

    /// All that switches may write into a packet.
    pub fn all_hops(&mut self, packet: u32) -> Option<&mut [Hop; HOPS]> {
        self.hops.get_mut(packet as usize)
    }
}

//! What a NIC has of each of its ports: a wire, what waits for it, and a receive buffer.

use std::collections::VecDeque;

use kelpie_events::Rate;
use kelpie_switch::{BufferForm, SharedBuffer, Spell, Wire};

use crate::packet::Burst;

/// What is to be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// All that arrived on this QP.
    Ack(u32),
    /// This.
    Burst(Burst),
}

/// A port. What leaves and arrives is in `wire`.
#[derive(Debug)]
pub(crate) struct Port {
    /// QPs whose next burst waits for room.
    pub no_room: VecDeque<u32>,
    /// Payload on its way from memory to the wire. Units: bytes.
    pub staged: u64,
    /// Bursts, in the order in which they leave.
    pub out: VecDeque<u32>,
    pub answers: VecDeque<Answer>,
    /// Whether an answer left last, or nothing could.
    pub has_answered: bool,
    pub wire: Wire,
    /// Whether the neighbour asks for silence, and for how long it did.
    pub silence: Spell,
    pub buffer: SharedBuffer,
}

impl Port {
    /// Whether so much payload may be on its way, too, if there is so much room.
    pub fn stages(&self, payload: u64, room: u64) -> bool {
        self.staged == 0 || self.staged + payload <= room
    }

    /// A port at rest.
    pub fn new(rate: Rate, buffer: BufferForm) -> Self {
        Self {
            no_room: VecDeque::new(),
            staged: 0,
            out: VecDeque::new(),
            answers: VecDeque::new(),
            has_answered: false,
            wire: Wire::new(rate),
            silence: Spell::default(),
            buffer: SharedBuffer::new(buffer, 1),
        }
    }
}

//! The sending side of a host's port: which QP is next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// QPs of a port of a host.
#[derive(Debug, Clone, Default)]
pub struct Nic {
    /// Those that may send at once, by class.
    pub ready: Vec<VecDeque<u32>>,
    /// Those that may send later, by when. Units: ps.
    pub paced: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Where a QP stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpState {
    /// It has nothing to send, or its window is full.
    Idle,
    /// It is among those that may send at once.
    Ready,
    /// It waits for its turn until this time (ps).
    Paced(u64),
    /// It gave up.
    Error,
}

/// The sending end of a QP.
#[derive(Debug, Clone)]
pub struct Sender {
    /// Packets that have arrived, that were sent, and that there are.
    pub acked: u32,
    /// Next to be sent.
    pub next: u32,
    /// Packets of all messages that were posted.
    pub posted: u32,
    /// Most that were ever sent.
    pub most: u32,
    /// The oldest message that has not been acknowledged as a whole, the one that is being sent, and the newest.
    pub oldest: u32,
    /// Being sent.
    pub current: u32,
    /// Newest.
    pub newest: u32,
    /// Port by which it leaves.
    pub port: u32,
    /// Class, by its place among those of the run.
    pub class: u8,
    /// Timeouts in a row.
    pub timeouts: u8,
    /// Where it stands.
    pub state: QpState,
    /// When it may send again by its rate. Units: ps.
    pub free: u64,
    /// Units: bit/s.
    pub rate: f64,
    /// Size of the last packet. Units: bytes.
    pub last: u32,
    /// When it times out, and when its timer event is due. Units: ns.
    pub timeout: u64,
    /// Timer event.
    pub timer: u64,
}

/// The receiving end of a QP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiver {
    /// The next packet in order.
    pub expected: u32,
    /// In-order packets since the last acknowledgement.
    pub unacked: u32,
    /// Whether one of those was marked.
    pub is_marked: bool,
    /// Until when it does not say again that something is missing, and what that was.
    pub nack_until: u64,
    /// Missing.
    pub missing: u32,
    /// When it may send the next CNP.
    pub cnp_from: u64,
}

/// A message while the simulation runs.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Its QP.
    pub qp: u32,
    /// The first packet behind it.
    pub end: u32,
    /// Payload of its last packet. Units: bytes.
    pub last: u32,
    /// Packets.
    pub packets: u32,
    /// The one posted after it on the same QP.
    pub next: u32,
    /// What it still waits for.
    pub waits: u32,
    /// When it was posted. Units: ns.
    pub posted: u64,
    /// When it had arrived as a whole.
    pub received: u64,
    /// When its sender knew.
    pub done: u64,
}

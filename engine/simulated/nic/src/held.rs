//! What a NIC keeps of bursts, reads and writes while they are on their way.

use kelpie_events::Picos;

use crate::cache::{Cached, Key};
use crate::packet::Burst;
use crate::qp::Segment;
use crate::waits::Cause;

/// Classes of reads.
pub(crate) mod class {
    /// Payload.
    pub const PAYLOAD: usize = 0;
    /// Contexts that a sender waits for.
    pub const SEND: usize = 1;
    /// What a receiver waits for: contexts and translations.
    pub const RECEIVE: usize = 2;
    /// Receive WQEs that a receiver waits for.
    pub const RECEIVE_WQE: usize = 3;
    /// Send WQEs whose lists a receiver waits for.
    pub const SCATTER: usize = 4;
    /// WQEs: send WQEs, and receive WQEs ahead of use.
    pub const WQE: usize = 5;
    /// Pages of receive rings.
    pub const RING_PAGE: usize = 6;
    /// Receive WQEs of long chains that a receiver waits for.
    pub const CHAIN: usize = 7;
    /// Translations that a sender waits for.
    pub const TRANSLATION: usize = 8;
}

/// Kinds of keys.
pub(crate) mod kind {
    pub const REQUESTER: u8 = 0;
    pub const RESPONDER: u8 = 1;
    pub const REGION: u8 = 2;
    pub const PAGES: u8 = 3;
    pub const SEND: u8 = 4;
    pub const RECEIVE: u8 = 5;
    pub const RING_PAGE: u8 = 6;
}

/// What a read is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// Lines of a cache; bit n of `lines` is the line n behind the key.
    Lines { cached: Cached, key: Key, lines: u64 },
    /// Payload of a burst.
    Payload(u32),
    /// A command of the driver.
    Command,
}

/// Who waits for a read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Waiter {
    /// A QP in a slot of a send unit.
    Turn(u32),
    /// A burst in a slot of the receive side.
    Job(u32),
    /// A queue that looks a page of its receive ring up.
    Ring(u32),
}

impl Cached {
    pub fn cause(self) -> Cause {
        match self {
            Self::Context => Cause::Context,
            Self::Translation => Cause::Translation,
            Self::Send => Cause::SendWqe,
            Self::Receive => Cause::ReceiveWqe,
            Self::Chain => Cause::ReceiveChain,
            Self::Scatter => Cause::ReadList,
            Self::RingPage => Cause::RingPage,
        }
    }
}

/// How far a burst is on the receive side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiveStep {
    Context,
    Rest,
    Check,
    Receives,
    Entries,
    Pages,
    Work,
}

/// A burst on the NIC: on its way out, or in.
#[derive(Debug)]
pub(crate) struct Held {
    pub burst: Burst,
    /// Where its payload lies, or goes to.
    pub segments: Vec<Segment>,
    /// Bytes in the receive buffer.
    pub room: u64,
    /// Reads of payload that have not come.
    pub reads: u32,
    /// The QP that sends it.
    pub from: u32,
    pub step: ReceiveStep,
    pub waits: u32,
    /// When the step that it is in began.
    pub since: Picos,
    /// What it waits for.
    pub cause: Cause,
    /// Segments that were written.
    pub written: usize,
    /// The first receive WQE that it uses, and how much of that was used before.
    pub receive: u64,
    pub receive_offset: u64,
    /// The next of its QP.
    pub next: Option<u32>,
}

impl Held {
    /// A burst that has just come; `segments` is an empty list.
    pub fn new(burst: Burst, from: u32, segments: Vec<Segment>) -> Self {
        Self {
            burst,
            segments,
            room: 0,
            reads: 0,
            from,
            step: ReceiveStep::Context,
            waits: 0,
            since: Picos::ZERO,
            cause: Cause::Unit,
            written: 0,
            receive: 0,
            receive_offset: 0,
            next: None,
        }
    }
}

/// What is to be written, in order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Write {
    Burst(u32),
    /// Lines that a command has made.
    Lines(u32),
    /// What an atomic request has changed.
    Atomic(Segment),
    Completion {
        qp: u32,
        index: u64,
        of_receive: bool,
    },
}

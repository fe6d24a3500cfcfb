//! What a NIC keeps of a queue pair, and what the driver tells of it. What happens to it is in `send` and `receive`.

use std::collections::VecDeque;
use std::ops::Range;

use kelpie_events::Picos;

use crate::cache::Cached;
use crate::packet::{PacketPorts, Piece, WrOperation};
use crate::sequence::{Receiver, Sender};
use crate::waits::{Cause, Wait};

/// How the driver connects a queue pair.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    /// Transport.
    pub transport: TransportService,
    /// The QP at the other end.
    pub peer: u32,
    /// Whether that is on the same NIC.
    pub is_loopback: bool,
    /// The ports that what it sends takes.
    pub ports: PacketPorts,
    /// Path MTU. Units: bytes.
    pub mtu: u64,
    /// READs that may be on their way (`max_rd_atomic`).
    pub max_reads: u32,
    /// Lines of each slot of the send ring.
    pub send_stride: u32,
    /// What the NIC keeps of a receive WQE. Units: bytes.
    pub receive_entry: u32,
    /// Slots of the rings.
    pub send_slots: u32,
    /// Slots of the receive ring.
    pub receive_slots: u32,
}

/// What a QP promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportService {
    /// Acknowledged and in order.
    Reliable,
    /// Connected, without acknowledgements.
    Unreliable,
    /// One packet for each message.
    Datagram,
}

/// A send WQE as the driver wrote it.
#[derive(Debug, Clone, Copy)]
pub struct Wqe {
    /// What to do.
    pub operation: WrOperation,
    /// The message. Units: bytes, at least 1.
    pub bytes: u64,
    /// Segments of the list; none: the payload is in the WQE.
    pub segments: u32,
    /// Lines that it takes in the ring.
    pub lines: u32,
    /// Remote key and address.
    pub key: u32,
    /// The remote address. Units: bytes.
    pub address: u64,
    /// Whether a CQE is wanted.
    pub is_signaled: bool,
}

/// An element of a list: memory of a registered region.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Key of the region.
    pub key: u32,
    /// Where it begins. Units: bytes.
    pub address: u64,
    /// Units: bytes.
    pub bytes: u64,
}

impl Segment {
    /// A part of it.
    #[must_use]
    pub fn part(self, part: Range<u64>) -> Self {
        Self { address: self.address + part.start, bytes: part.end - part.start, ..self }
    }
}

/// A memory region as the driver registered it.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// First address. Units: bytes.
    pub base: u64,
    /// Pages as translations see them. Units: bits of an address.
    pub page_bits: u32,
    /// The memory that it lies in.
    pub place: usize,
}

/// Where a QP stands in its turn on a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stage {
    /// It needs its context.
    #[default]
    Context,
    /// It needs the rest of its context.
    Rest,
    /// It needs its next WQE.
    Wqe,
    /// It says what comes next.
    Plan,
    /// It needs the entries of regions.
    Entries,
    /// It needs translations of pages.
    Pages,
    /// It needs room for its payload.
    Room,
    /// It needs time on the unit.
    Issue,
}

/// A READ that was asked for and not answered in whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owed {
    pub piece: Piece,
    pub number: u64,
    /// Packets that were answered.
    pub sent: u64,
}

/// What a requester looks after on a path that loses packets.
#[derive(Debug, Default)]
pub(crate) struct RetransmitTimer {
    /// When an answer is due at the latest, and whether somebody looks then.
    pub answer_by: Picos,
    pub is_watched: bool,
    /// Whether what is missing of READ responses was asked for again.
    pub misses_response: bool,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    pub connection: Connection,
    /// Lines that had left the cache when contexts were last seen there: of the responder and of the requester, the
    /// entry in the first table and the rest.
    pub contexts_seen: [[Option<u32>; 2]; 2],
    // As requester.
    /// Work requests that were announced.
    pub producer: u64,
    /// The next to send from, and how much of it was sent.
    pub next: u64,
    pub offset: u64,
    /// Work requests whose WQEs were asked for.
    pub fetched: u64,
    /// Work requests that are complete.
    pub completed: u64,
    pub sender: Sender,
    pub reads_open: u32,
    /// The work request that the next READ response belongs to, and how much of it has come.
    pub response: u64,
    pub response_offset: u64,
    /// Sends nothing before.
    pub silent_until: Picos,
    // The turn.
    pub stage: Stage,
    pub waits: u32,
    /// What it waits for in its turn.
    pub wait: Wait,
    /// Why it could send nothing when it gave its slot back.
    pub rest: Option<Wait>,
    pub planned: u32,
    /// Segments of what is planned whose translations are there, and up to which they are needed now.
    pub translated: [usize; 2],
    pub quantum: u32,
    /// What is left of the turn that it is in when all begins.
    pub begun: Option<u32>,
    // As responder.
    pub receiver: Receiver,
    pub owed: VecDeque<Owed>,
    /// Bursts of READ responses that were planned and have not left.
    pub responses: u32,
    pub receives: u64,
    /// Receives that the last doorbell announced.
    pub receives_announced: u64,
    /// Lines of the receive ring that were asked for, from its first on, but for a last one that was not posted in
    /// whole; and receives that all that was asked for holds.
    pub receives_asked: u64,
    pub receives_covered: u64,
    /// Whether its receives are kept aside, because doorbells announce long chains.
    pub is_chain: bool,
    /// The read of the page of its receive ring that it waits for.
    pub page_read: Option<u32>,
    /// Work requests that the last doorbell announced.
    pub announced: u64,
    /// Room for a packet that it holds on the NIC while a message of several is on its way: out, and in.
    pub holds_room: [bool; 2],
    pub receive_next: u64,
    pub receive_offset: u64,
    /// Whether the rest of a message without reliability is thrown away.
    pub is_dropping: bool,
    pub ack_waits: bool,
    pub timer: RetransmitTimer,
    /// The first and last of the bursts that arrived and are not dealt with.
    pub arrived: Option<(u32, u32)>,
}

impl Qp {
    pub fn new(connection: Connection) -> Self {
        Self {
            connection,
            contexts_seen: [[None; 2]; 2],
            producer: 0,
            next: 0,
            offset: 0,
            fetched: 0,
            completed: 0,
            sender: Sender::default(),
            reads_open: 0,
            response: 0,
            response_offset: 0,
            silent_until: Picos::ZERO,
            stage: Stage::Context,
            waits: 0,
            wait: Wait { since: Picos::ZERO, cause: Cause::Unit },
            rest: None,
            planned: 0,
            translated: [0; 2],
            quantum: 0,
            begun: None,
            receiver: Receiver::default(),
            owed: VecDeque::new(),
            responses: 0,
            receives: 0,
            receives_announced: 0,
            receives_asked: 0,
            receives_covered: 0,
            is_chain: false,
            page_read: None,
            announced: 0,
            holds_room: [false; 2],
            receive_next: 0,
            receive_offset: 0,
            is_dropping: false,
            ack_waits: false,
            timer: RetransmitTimer::default(),
            arrived: None,
        }
    }

    /// The cache that holds its receive WQEs.
    pub fn receive_cache(&self) -> Cached {
        if self.is_chain { Cached::Chain } else { Cached::Receive }
    }

    pub fn is_reliable(&self) -> bool {
        self.connection.transport == TransportService::Reliable
    }
}

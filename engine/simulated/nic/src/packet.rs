//! What moves between NICs: packets with their headers, in bursts of a few of one QP. Sizes of headers come from
//! outside.

use std::ops::Range;

/// Packets of a burst at most. Source: our choice, because a burst is what one event moves.
pub const BURST_PACKETS: u64 = 4;
/// Payload of a burst at most; a burst of one packet has no bound. Units: bytes. Source: the largest path MTU.
pub const BURST_BYTES: u64 = 4096;

/// Operations of work requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrOperation {
    /// Into a receive WQE of the peer.
    Send,
    /// To an address of the peer.
    Write,
    /// From an address of the peer.
    Read,
    /// Changes 8 bytes at an address of the peer in place, and brings back what was there.
    Atomic,
}

impl WrOperation {
    /// Whether its payload comes from the peer, as the answer to a request.
    pub fn brings_back(self) -> bool {
        matches!(self, Self::Read | Self::Atomic)
    }
}

/// What the headers of a packet say that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request, or an atomic one.
    ReadRequest,
    /// RDMA READ response, or an acknowledgement of an atomic request.
    ReadResponse,
    /// All packets below the number arrived.
    Ack,
    /// The packet of this number is missing.
    Nak,
    /// There is no receive WQE for the packet of this number.
    NotReady,
}

impl PacketKind {
    /// Whether it is for the requester of its QP.
    pub fn is_answer(self) -> bool {
        match self {
            Self::ReadResponse | Self::Ack | Self::Nak | Self::NotReady => true,
            Self::Send | Self::Write | Self::ReadRequest => false,
        }
    }
}

/// The ports that packets take: of the NIC that sends them, and of the one that they go to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketPorts {
    /// By which they leave, from 0.
    pub leave: u8,
    /// At which they arrive, from 0.
    pub arrive: u8,
}

/// A part of one message in a burst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Piece {
    /// Remote key and address: of a WRITE's or a READ request's RETH, further on as many bytes as came before.
    pub key: u32,
    /// The address. Units: bytes.
    pub address: u64,
    /// Payload, or what a READ request asks for. Units: bytes.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
    /// Whether it begins its message.
    pub is_first: bool,
    /// Whether it ends its message.
    pub is_last: bool,
    /// Whether it asks for an atomic change, or answers that.
    pub is_atomic: bool,
}

/// Consecutive packets of one QP.
#[derive(Debug, Clone, Copy)]
pub struct Burst {
    /// What they are.
    pub kind: PacketKind,
    /// Whether its QP is a reliable connection.
    pub is_reliable: bool,
    /// The QP on the NIC that they go to.
    pub to: u32,
    /// Whether that is the NIC that they come from.
    pub is_loopback: bool,
    /// The ports that they take.
    pub ports: PacketPorts,
    /// Number of the first packet; of an answer, the number that it speaks of.
    pub number: u64,
    /// Numbers that they take; those of a READ request are those of its response.
    pub numbers: u64,
    /// Packets.
    pub packets: u64,
    /// Payload. Units: bytes.
    pub payload: u64,
    /// With headers, preamble and gap. Units: bytes.
    pub wire: u64,
    pieces: [Piece; BURST_PACKETS as usize],
    count: u8,
}

impl Burst {
    /// A burst of nothing, to a QP.
    pub fn new(kind: PacketKind, to: u32, is_loopback: bool, is_reliable: bool, number: u64) -> Self {
        Self {
            kind,
            is_reliable,
            to,
            is_loopback,
            ports: PacketPorts::default(),
            number,
            numbers: 0,
            packets: 0,
            payload: 0,
            wire: 0,
            pieces: [Piece::default(); BURST_PACKETS as usize],
            count: 0,
        }
    }

    /// The parts of messages in it.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces[..usize::from(self.count)]
    }

    /// Whether it answers an atomic request: such an answer is a burst of its own.
    pub fn is_atomic_answer(&self) -> bool {
        self.kind == PacketKind::ReadResponse && self.pieces[0].is_atomic
    }

    /// Adds a piece whose packets have these headers.
    pub fn add(&mut self, piece: Piece, headers: &Headers) {
        let is_request = self.kind == PacketKind::ReadRequest;
        let payload = if is_request { 0 } else { u64::from(piece.bytes) };
        let packets = if is_request { 1 } else { u64::from(piece.packets) };
        self.numbers += u64::from(piece.packets);
        self.packets += packets;
        self.payload += payload;
        self.wire += payload + packets * headers.of(self.kind);
        if is_request && piece.is_atomic {
            self.wire += headers.atomic - headers.reth;
        }
        if self.kind == PacketKind::Write && piece.is_first {
            self.wire += headers.reth;
        }
        if !self.is_reliable && self.kind == PacketKind::Send {
            self.wire += packets * headers.datagram;
        }
        self.pieces[usize::from(self.count)] = piece;
        self.count += 1;
    }

    /// Throws all pieces but the first so many away; says how many numbers those had.
    pub fn truncate(&mut self, pieces: usize) -> u64 {
        let packets = self.lose(pieces..usize::from(self.count));
        self.count = pieces as u8;
        packets
    }

    /// Throws the first so many pieces away, but not all; says how many numbers those had.
    pub fn behead(&mut self, pieces: usize) -> u64 {
        let packets = self.lose(0..pieces);
        self.number += packets;
        self.pieces.copy_within(pieces..usize::from(self.count), 0);
        self.count -= pieces as u8;
        packets
    }

    fn lose(&mut self, pieces: Range<usize>) -> u64 {
        let gone = &self.pieces[pieces];
        let packets: u64 = gone.iter().map(|piece| u64::from(piece.packets)).sum();
        self.payload -= gone.iter().map(|piece| u64::from(piece.bytes)).sum::<u64>();
        self.wire -= self.wire / self.packets * packets;
        self.packets -= packets;
        self.numbers -= packets;
        packets
    }

    /// The same, by these ports.
    #[must_use]
    pub fn by(self, ports: PacketPorts) -> Self {
        Self { ports, ..self }
    }

    /// An answer without payload, of one packet.
    pub fn answer(kind: PacketKind, to: u32, is_loopback: bool, number: u64, headers: &Headers) -> Self {
        let wire = headers.of(kind);
        Self { packets: 1, wire, ..Self::new(kind, to, is_loopback, true, number) }
    }
}

impl kelpie_switch::Packet for Burst {
    #[inline]
    fn bytes(&self) -> u64 {
        self.wire
    }
}

/// What packets carry beside their payload. Units: bytes.
#[derive(Debug, Clone, Copy)]
pub struct Headers {
    /// Each packet, with preamble and gap.
    pub each: u64,
    /// Address, key and length of a WRITE's first packet, and of a READ request.
    pub reth: u64,
    /// Address, key and operands of an atomic request.
    pub atomic: u64,
    /// Of an answer.
    pub aeth: u64,
    /// Of a datagram.
    pub datagram: u64,
}

impl Headers {
    fn of(&self, kind: PacketKind) -> u64 {
        match kind {
            PacketKind::Send | PacketKind::Write => self.each,
            PacketKind::ReadRequest => self.each + self.reth,
            PacketKind::ReadResponse | PacketKind::Ack | PacketKind::Nak | PacketKind::NotReady => {
                self.each + self.aeth
            }
        }
    }
}

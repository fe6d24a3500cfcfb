//! What an algorithm of congestion control is told, and what it answers.

/// Never.
pub const NEVER: u64 = u64::MAX;

/// What a QP's way is like when it is empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Of the sender's link. Units: bit/s.
    pub bps: f64,
    /// Round trip. Units: ns.
    pub rtt_ns: f64,
    /// What may be under way; 0 if nothing bounds it. Units: bytes.
    pub window: f64,
    /// Links there.
    pub hops: u32,
    /// A full packet on the wire. Units: bytes.
    pub packet: f64,
}

/// What a switch writes into a packet that leaves it (in-band telemetry, INT).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Hop {
    /// When. Units: ns.
    pub at: u64,
    /// What has left by the port before. Units: bytes.
    pub sent: u64,
    /// What waits there. Units: bytes.
    pub queued: u32,
    /// Of the link. Units: bit/s.
    pub bps: f32,
}

/// What a switch keeps of a port whose load it writes into packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct PortLoad {
    /// Share of the link that is used.
    pub load: f64,
    /// When that was. Units: ns.
    pub at: u64,
    /// What had left by then. Units: bytes.
    pub sent: u64,
}

/// What an acknowledgement says.
#[derive(Debug, Clone, Copy)]
pub struct Echo<'a> {
    /// When it came. Units: ns.
    pub now: u64,
    /// Packets of the QP that have arrived.
    pub acked: u32,
    /// Packets of it that were sent.
    pub sent: u32,
    /// Whether the packet was marked.
    pub marked: bool,
    /// Time since the packet left. Units: ns.
    pub rtt_ns: u64,
    /// The largest byte that switches wrote.
    pub load: u8,
    /// What switches wrote, in order.
    pub hops: &'a [Hop],
}

/// An algorithm with its parameters. Rates in bit/s, times in ns.
pub trait CongestionControl: Send + Sync {
    /// What it keeps of a QP.
    type Flow: Send;

    /// Whether switches have to write into packets.
    const READS_HOPS: bool = false;
    /// Whether switches have to write a byte into packets.
    const READS_LOAD: bool = false;
    /// Whether a new rate moves the time of a packet that already waits for its turn.
    const MOVES_NEXT: bool = false;

    /// A QP begins at line rate.
    fn start(&self, line: &Line) -> Self::Flow;

    /// An acknowledgement came.
    fn acknowledged(&self, _flow: &mut Self::Flow, _rate: &mut f64, _line: &Line, _echo: &Echo<'_>) {}

    /// A congestion notification came.
    fn notified(&self, _flow: &mut Self::Flow, _rate: &mut f64, _now: u64) {}

    /// So many bytes were sent.
    fn sent(&self, _flow: &mut Self::Flow, _rate: &mut f64, _line: &Line, _bytes: u32) {}

    /// A packet was lost, which a receiver or a timeout says.
    fn lost(&self, _flow: &mut Self::Flow, _rate: &mut f64, _line: &Line, _now: u64, _is_timeout: bool) {}

    /// The byte that a switch writes into a packet that leaves by a port, if it carries none that is larger; by the
    /// longest empty round trip (ns) and a random number from 0 below 1.
    fn write_load(&self, _port: &mut PortLoad, _hop: &Hop, _rtt_ns: f64, _random: f64) -> u8 {
        0
    }

    /// The QP sends again after it had nothing to send.
    fn resumes(&self, _flow: &mut Self::Flow, _rate: &mut f64, _line: &Line, _now: u64) {}

    /// The QP has another way from now on.
    fn rerouted(&self, _flow: &mut Self::Flow) {}

    /// When [`CongestionControl::timer`] is due.
    fn due(&self, _flow: &Self::Flow) -> u64 {
        NEVER
    }

    /// It is.
    fn timer(&self, _flow: &mut Self::Flow, _rate: &mut f64, _line: &Line, _now: u64) {}
}

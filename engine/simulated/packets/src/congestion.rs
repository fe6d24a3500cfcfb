//! Congestion control: what a sender does about what it hears. One file for each algorithm.

mod dcqcn;
mod dctcp;
mod hpcc;
mod none;
mod timely;

pub use dcqcn::Dcqcn;
pub use dctcp::Dctcp;
pub use hpcc::{Hpcc, MOST_HOPS};
pub use none::NoControl;
pub use timely::Timely;

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
    /// What switches wrote, in order.
    pub hops: &'a [Hop],
}

/// An algorithm with its parameters. Rates in bit/s, times in ns.
pub trait CongestionControl: Send + Sync {
    /// What it keeps of a QP.
    type Flow: Send;

    /// Whether switches have to write into packets.
    const READS_HOPS: bool = false;
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

/// The algorithm of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Algorithm {
    /// Line rate, always.
    None,
    /// DCQCN.
    Dcqcn(Dcqcn),
    /// HPCC.
    Hpcc(Hpcc),
    /// TIMELY.
    Timely(Timely),
    /// DCTCP by rate.
    Dctcp(Dctcp),
}

impl Algorithm {
    /// Whether rates stay above 0 and time passes between changes.
    pub(crate) fn can_be(&self) -> bool {
        match self {
            Self::None => true,
            Self::Dcqcn(form) => {
                let is_share = form.gain > 0.0 && form.gain <= 1.0;
                form.least > 0.0 && form.alpha_interval > 0 && form.increase_interval > 0 && is_share
            }
            Self::Hpcc(form) => form.least > 0.0 && form.target > 0.0,
            Self::Timely(form) => form.least > 0.0 && form.least_rtt > 0.0,
            Self::Dctcp(form) => form.least > 0.0,
        }
    }
}

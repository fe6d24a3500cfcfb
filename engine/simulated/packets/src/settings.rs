//! How hosts and switches behave. Defaults are the field's; what the open simulators do differently is set where their
//! files are read.

use crate::congestion::Algorithm;
use crate::marks::{EcnCurve, MarkEcho};

/// The buffer of a switch. Units: bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BufferSettings {
    /// In all.
    pub capacity: u64,
    /// Of each port and class.
    pub reserve: u64,
    /// How far below the threshold a sender goes on.
    pub resume: u64,
    /// The threshold is what is free of the shared part divided by two to this power; one less for each doubling of the
    /// port's rate over that of hosts.
    pub shift: u32,
    /// Headroom of a port in multiples of its rate times its delay.
    pub headroom_delays: f64,
    /// Whether senders are paused. If not, what finds no room is lost.
    pub pfc: bool,
}

/// How flows choose among equal ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcmpHash {
    /// Kelpie's, by a seed.
    Seeded(u64),
    /// As the simulators of HPCC and `SimAI` do, way by way. Source: facts of their routing tables.
    Peers,
}

/// What bounds the bytes of a QP that are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowRule {
    /// Nothing.
    None,
    /// What its way holds at line rate: bandwidth times the round trip of an empty network.
    Bdp,
    /// The largest such window of all pairs of hosts.
    LargestBdp,
}

/// What a sender does when a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// It sends all from there again.
    GoBackN,
    /// It sends again only what is missing. A window of [`WindowRule::Bdp`] bounds it where there is no other one.
    /// Source: Mittal et al., Revisiting Network Support for RDMA (IRN), SIGCOMM 2018.
    Selective {
        /// A sender that hears nothing for so long while few packets are under way sends the first missing one again.
        /// Units: ns.
        low_timeout_ns: u64,
        /// How many are few.
        few: u32,
    },
}

impl Recovery {
    /// As the paper of IRN has it, section 4.1, where the timeout of senders with more packets under way is 320 µs.
    pub const IRN: Self = Self::Selective { low_timeout_ns: 100_000, few: 3 };
}

/// Settings of a run.
#[expect(clippy::struct_excessive_bools, reason = "switches of their own")]
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Payload of a full packet. Units: bytes.
    pub payload: u32,
    /// What a data packet has beside. Units: bytes.
    pub overhead: u32,
    /// An acknowledgement. Units: bytes.
    pub ack_bytes: u32,
    /// In-order packets for which there is one acknowledgement; the last of a message always has one.
    pub packets_per_ack: u32,
    /// Whether acknowledgements go before all data, outside of PFC.
    pub acks_first: bool,
    /// Whether the time of a packet on a wire is cut to whole ns.
    pub whole_ns: bool,
    /// Switches.
    pub buffer: BufferSettings,
    /// Marks by rate of the link (Gbit/s).
    pub ecn: Vec<(f64, EcnCurve)>,
    /// How marks go back.
    pub echo: MarkEcho,
    /// ECMP.
    pub hash: EcmpHash,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Windows.
    pub window: WindowRule,
    /// Whether a window shrinks with the rate.
    pub window_follows_rate: bool,
    /// Round trip that congestion control takes as that of an empty network: its own way's, or the largest of all pairs
    /// of hosts.
    pub largest_rtt: bool,
    /// Lost packets.
    pub recovery: Recovery,
    /// A receiver that misses a packet says so at most once in this time, if senders go back. Units: ns.
    pub nack_interval_ns: u64,
    /// A sender that hears nothing for so long goes back. Source: IBTA, 4.096 µs times a power of two. Units: ns.
    pub timeout_ns: u64,
    /// Timeouts in a row after which a QP is in error.
    pub retries: u8,
    /// Whether what waits for a message to arrive goes on only when its acknowledgement is back, as in the simulator of
    /// `SimAI`.
    pub late_notice: bool,
    /// Of marks, losses.
    pub seed: u64,
    /// When the run ends at the latest. Units: ns.
    pub end_ns: u64,
}

impl Settings {
    /// What HPCC's simulator has beside its congestion control, without marks and with precise times: the common base
    /// of what commands, examples and tests set.
    pub fn base(algorithm: Algorithm) -> Self {
        Self {
            payload: 1000,
            overhead: 48,
            ack_bytes: 60,
            packets_per_ack: 1,
            acks_first: true,
            whole_ns: false,
            buffer: BufferSettings {
                capacity: 32 << 20,
                reserve: 4 << 10,
                resume: 3 << 10,
                shift: 3,
                headroom_delays: 3.0,
                pfc: true,
            },
            ecn: Vec::new(),
            echo: MarkEcho::Acknowledgement,
            hash: EcmpHash::Seeded(1),
            algorithm,
            window: WindowRule::None,
            window_follows_rate: false,
            largest_rtt: true,
            recovery: Recovery::GoBackN,
            nack_interval_ns: 500_000,
            timeout_ns: 4096 << 14,
            retries: 7,
            late_notice: false,
            seed: 1,
            end_ns: 1_000_000_000,
        }
    }

    /// A setting that makes no sense, and what it has to be.
    pub(crate) fn wrong(&self) -> Option<(&'static str, &'static str)> {
        let of_packets = |bytes: u32| (1..=u32::from(u16::MAX)).contains(&bytes);
        let curve = |curve: &EcnCurve| curve.kmin <= curve.kmax && (0.0..=1.0).contains(&curve.pmax);
        let rules = [
            (self.payload > 0, "payload", "at least a byte"),
            (
                of_packets(self.payload.saturating_add(self.overhead)),
                "payload",
                "at most 65535 bytes with the overhead",
            ),
            (of_packets(self.ack_bytes), "ack_bytes", "1 to 65535"),
            (self.packets_per_ack > 0, "packets_per_ack", "at least 1"),
            (!matches!(self.recovery, Recovery::Selective { low_timeout_ns: 0, .. }), "low_timeout_ns", "at least 1"),
            (self.timeout_ns > 0, "timeout_ns", "at least 1"),
            (self.ecn.iter().all(|(_, one)| curve(one)), "ecn", "kmin is at most kmax, and pmax is 0 to 1"),
            (self.algorithm.can_be(), "algorithm", "its least rate, its gain and its intervals are above 0"),
            (self.buffer.shift < 64, "shift", "at most 63"),
            ((0.0..=1e6).contains(&self.buffer.headroom_delays), "headroom_delays", "0 to 1000000"),
        ];
        rules.iter().find(|rule| !rule.0).map(|(_, name, rule)| (*name, *rule))
    }
}

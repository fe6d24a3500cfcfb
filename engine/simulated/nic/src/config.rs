//! The configuration of a NIC: its parts and their times. The values and their sources are in model files elsewhere.

use kelpie_events::{Picos, Rate};
use kelpie_switch::BufferForm;

use crate::cache::{Cached, Geometry};
use crate::command::CommandTimes;
use crate::memory::{MemoryPath, MemoryUnit};
use crate::packet::Headers;
use crate::path::Order;
use crate::pcie;
use crate::units::UnitsConfig;

/// What a NIC is.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its PCIe link.
    pub link: pcie::PcieConfig,
    /// The memories of its host, and the ways to them.
    pub places: Vec<MemoryUnit>,
    /// The ways between the root complex and the memories behind them.
    pub ways: Vec<MemoryPath>,
    /// The memory of rings, contexts and translations.
    pub home: usize,
    /// Order of its writes of payload.
    pub order: Order,
    /// The caches: of contexts, of translations, of send WQEs, of receive WQEs, of long chains of receive WQEs,
    /// of the lists of READs on their way, of the pages of long receive rings.
    pub caches: [Geometry; 7],
    /// Tables over which the context of a requester or of a responder is spread, each read by itself; at least 1.
    pub context_tables: u32,
    /// Lines of a context in each table.
    pub context_lines: u32,
    /// Lines of a WQE at most that a doorbell may bring along.
    pub pushed_lines: u32,
    /// Lines that one fetch of WQEs brings, and lines that are asked for ahead of use.
    pub fetch_lines: u32,
    /// Lines of send WQEs that are asked for ahead of use, for each QP.
    pub send_ahead: u32,
    /// Lines of receive WQEs that are asked for ahead of use at least, for each QP.
    pub receive_ahead: u32,
    /// Receives of a ring at most whose pages the context names; of longer rings they are looked up.
    pub inline_receives: u32,
    /// Receives that a doorbell may announce at most to be read ahead of use; longer chains are read at once and kept
    /// aside, of the first QPs for whose there is room.
    pub chain: u32,
    /// Lines of long chains that are kept for a QP.
    pub chain_lines: u32,
    /// Lines of receive WQEs that a fetch brings if one is missing.
    pub demand_lines: u32,
    /// Lines of lists that a fetch brings if that of a READ on its way is missing.
    pub list_lines: u32,
    /// Reads of what is missing that may be on their way.
    pub misses: Misses,
    /// What becomes of a message whose receive WQE is missing while no more such reads may go.
    pub when_busy: WhenBusy,
    /// Processing units, which both sides share, with slots for senders.
    pub units: UnitsConfig,
    /// Time of the pipeline, of which there is one, for packets of payload in either direction.
    pub pipeline: PacketTime,
    /// QPs whose state the pipeline has at hand, and what a packet of another takes longer.
    pub pipeline_states: (u32, Picos),
    /// What commands of the driver take.
    pub commands: CommandTimes,
    /// Bursts that the receive side has at work.
    pub receive_slots: u32,
    /// Time of a send unit for a WQE, for each segment of its list, and for a packet.
    pub send_times: SendTimes,
    /// Time of a receive unit for a packet, and for a message.
    pub receive_times: ReceiveTimes,
    /// Packets after which a QP gives its slot back.
    pub quantum: u32,
    /// Payload on its way from memory to the wire at most. Units: bytes.
    pub staging: u64,
    /// Memory for packets: what QPs in the midst of messages leave of it is for payload on its way. Units: bytes.
    pub packet_memory: u64,
    /// Ports, each with a wire and a receive buffer of its own: 1 or 2.
    pub ports: u8,
    /// The wire.
    pub wire: Rate,
    /// Least time between two packets that are sent, in the mean.
    pub packet: Picos,
    /// Most time by which packets may be ahead of that.
    pub packet_slack: Picos,
    /// The receive buffer of each port.
    pub buffer: BufferForm,
    /// Room for what comes from the same NIC. Units: bytes.
    pub loopback_room: u64,
    /// How long a requester is silent after a NAK that the receiver was not ready.
    pub not_ready_timer: Picos,
    /// How long a requester waits for an answer before it sends again; none if nothing is ever lost on the way.
    pub ack_timeout: Option<Picos>,
    /// Headers of packets.
    pub headers: Headers,
}

impl Config {
    /// Queues whose chains there is room for.
    pub(crate) fn most_chains(&self) -> u32 {
        self.caches[Cached::Chain as usize].lines() as u32 / self.chain_lines.max(1)
    }
}

/// How many reads of what is missing may be on their way.
#[derive(Debug, Clone, Copy)]
pub struct Misses {
    /// Of the send side: contexts.
    pub send: u32,
    /// Of the send side: translations.
    pub translation: u32,
    /// Of the receive side: contexts and translations.
    pub receive: u32,
    /// Receive WQEs.
    pub receive_wqe: u32,
    /// Send WQEs whose lists a READ response needs.
    pub scatter: u32,
    /// Pages of receive rings.
    pub ring_page: u32,
    /// Receive WQEs of long chains.
    pub chain: u32,
}

/// What a NIC does when it cannot fetch a receive WQE at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// The message waits, with all that is behind it.
    Wait,
    /// It is refused as if no receive were posted: with a NAK, or by a drop if nothing is acknowledged.
    Refuse,
}

/// What a part takes that keeps the beginning of a packet while it works on it, and lets the rest pass.
#[derive(Debug, Clone, Copy)]
pub struct PacketTime {
    /// For each packet.
    pub packet: Picos,
    /// For each KiB, of which a packet has one at most.
    pub kib: Picos,
}

impl PacketTime {
    /// For packets that hold so many bytes together.
    pub fn of(self, packets: u64, bytes: u64) -> Picos {
        let kept = bytes.min(packets * 1024);
        self.packet * packets + Picos::new(self.kib.count() * kept / 1024)
    }
}

/// What a send unit takes.
#[derive(Debug, Clone, Copy)]
pub struct SendTimes {
    /// For each WQE.
    pub wqe: Picos,
    /// For each segment of a list.
    pub segment: Picos,
    /// For each packet.
    pub packet: Picos,
}

/// What a receive unit takes.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveTimes {
    /// For each packet.
    pub packet: Picos,
    /// For packets of a READ response that are not its first, on an engine of which there is one.
    pub response: PacketTime,
    /// For each message that begins.
    pub message: Picos,
}

//! The parameters of a simulated subsystem. `models/*.yaml` has their values, each with its source. No behaviour.

use std::collections::BTreeMap;

use kelpie_spaces::QpType;
use serde::{Deserialize, Serialize};
use serde_yaml::Value;

/// A subsystem: two equal hosts and a switch between them. Format `model/1`.
///
/// A file may also have the key `base`, the name of an embedded model; what it does not say is then as there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Format tag, always `model/1`.
    pub kelpie: String,
    /// Short name, such as `F`.
    pub name: String,
    /// What it describes.
    pub description: String,
    /// Port and wire.
    pub port: Port,
    /// Switch between the hosts.
    pub switch: Switch,
    /// The applications that post work.
    pub posting: Posting,
    /// Transmit side of the NIC.
    pub transmit: Transmit,
    /// Part of packet processing that both directions share.
    pub shared_pipeline: SharedPipeline,
    /// Receive side of the NIC.
    pub receive: Receive,
    /// Receive-WQE supply.
    pub receive_wqe: ReceiveWqe,
    /// Interconnect context memory: QP contexts and translations cached on the NIC.
    pub icm: Icm,
    /// PCIe between NIC and host.
    pub pcie: Pcie,
    /// Sockets, memory and GPUs.
    pub host: HostTopology,
    /// How samples are taken.
    pub sampling: Sampling,
    /// What mends which anomaly of the paper: anomaly number to parameters and their values.
    #[serde(default)]
    pub fixes: BTreeMap<u32, BTreeMap<String, Value>>,
}

/// Port and wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Line rate. Units: Gbit/s.
    pub line_rate_gbps: f64,
    /// Specified packet rate of one direction. Units: million packets/s.
    pub max_mpps: f64,
    /// One way between NIC and switch. Units: ns.
    pub link_delay_ns: f64,
    /// Path MTU that the interface enforces on every flow; none lets the workload choose. Units: bytes.
    pub force_mtu: Option<u64>,
}

/// Switch between the hosts: lossless, cut-through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Queued bytes above which the sending host is paused. Units: KiB.
    pub xoff_kib: f64,
    /// Queued bytes below which it is resumed. Units: KiB.
    pub xon_kib: f64,
}

/// The applications that post work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posting {
    /// Cores that post, QPs dealt to them in turn.
    pub cores: u32,
    /// Cost of one `ibv_post_send` with its doorbell. Units: ns.
    pub doorbell_ns: f64,
    /// Cost of each work request in the call. Units: ns.
    pub wqe_ns: f64,
    /// From a completion to the application that sees it. Units: ns.
    pub poll_ns: f64,
    /// One completion is requested for each `depth / signal_divisor` work requests.
    pub signal_divisor: u32,
}

/// Transmit side of the NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transmit {
    /// Processing units; each holds `stages` turns of QPs in flight.
    pub processing_units: u32,
    /// Pipeline stages of a unit.
    pub stages: u32,
    /// Payload gathered and waiting for the wire. Units: KiB.
    pub staging_kib: f64,
    /// A QP's turn lasts this many path MTUs, counted in cells of 1 KiB, each SG element using at least one.
    pub turn_mtus: u32,
    /// A long chain extends the turn to `batch / chain_divisor` cells.
    pub chain_divisor: u32,
    /// Work requests of one chain whose translations are looked up together.
    pub lookup_group: u32,
    /// RDMA READs in flight per QP (`max_rd_atomic`).
    pub max_reads: u32,
    /// RC SENDs in flight for the whole NIC, by the responder's end-to-end credits.
    pub send_credits: u32,
    /// Elements of the SG list that fit into a WQE's first 64 B; a longer list is spilled.
    pub inline_elements: u32,
    /// Memory for the cells of spilled RC lists and of messages being received, one MTU per QP. Units: KiB.
    pub retained_kib: f64,
    /// Cost of gathering again when a QP's cell was lost. Units: ns.
    pub restage_ns: f64,
}

/// Part of packet processing that both directions share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedPipeline {
    /// Each packet, sent or received. Units: ns.
    pub packet_ns: f64,
    /// Cache for requests of RC WRITE in progress; prefetched send WQEs are locked in it. Units: 64-byte blocks.
    pub request_context_blocks: u64,
    /// Whether a part of it is kept free of send WQEs.
    pub request_context_partitioned: bool,
    /// Dependent PCIe reads that bring a lost context back.
    pub reload_reads: u32,
    /// When a context is needed.
    pub reload_at: ReloadAt,
}

/// When the shared pipeline needs the context of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadAt {
    /// Where it changes between streaming a long message and answering short ones.
    ModeSwitch,
    /// At the first packet of every message.
    Message,
}

/// Receive side of the NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// Fill above which pause frames are sent. Units: KiB.
    pub xoff_kib: f64,
    /// Fill below which traffic is resumed. Units: KiB.
    pub xon_kib: f64,
    /// Fill of the receive buffer by internal loopback traffic, which has a share of its own. Units: KiB.
    pub loopback_kib: f64,
    /// Each packet of a READ response with several packets. Units: ns.
    pub read_stream_ns: f64,
    /// Each page of a READ response beyond those looked up ahead. Units: ns.
    pub read_page_ns: f64,
    /// Pages of 4 KiB looked up ahead.
    pub read_pages_ahead: u64,
    /// Cache of scatter lists of posted READs. Units: 64-byte blocks.
    pub read_scatter_blocks: u64,
    /// Parallel fetches of lost scatter lists.
    pub read_scatter_fetches: u32,
}

/// One value per transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "UPPERCASE")]
pub struct PerTransport {
    /// Reliable connection.
    pub rc: u32,
    /// Unreliable connection.
    pub uc: u32,
    /// Unreliable datagram.
    pub ud: u32,
}

impl PerTransport {
    /// The value for a transport.
    pub fn of(self, qp_type: QpType) -> u32 {
        match qp_type {
            QpType::Rc => self.rc,
            QpType::Uc => self.uc,
            QpType::Ud => self.ud,
        }
    }
}

/// What the receive engine does when no fetch can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overload {
    /// RC waits aside, its acknowledgement and so its credits late; UC and UD are dropped.
    Park,
    /// The engine waits, and everything behind.
    Stall,
}

/// Receive-WQE supply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveWqe {
    /// Blocks that one receive WQE with its records takes. Units: 16-byte blocks.
    pub blocks: PerTransport,
    /// Receives posted in one call from which the whole chain is prefetched at the doorbell; none: never.
    pub doorbell_prefetch_batch: Option<u32>,
    /// Room of one QP for WQEs prefetched at the doorbell. Units: 16-byte blocks.
    pub ring_blocks: u64,
    /// Room of all QPs for WQEs prefetched just ahead of use. Units: 16-byte blocks.
    pub shared_blocks: u64,
    /// Queue depth from which WQEs are prefetched just ahead of use; those of shallower queues stay with the QP's
    /// context.
    pub deep_queue: PerTransport,
    /// WQEs of a deep queue that are kept ahead of use.
    pub run_ahead: PerTransport,
    /// WQEs that a demand fetch brings.
    pub fetch_wqes: PerTransport,
    /// Demand fetches in flight.
    pub fetches: PerTransport,
    /// Dependent reads of a demand fetch behind doorbell prefetches, which hold up the engine; 0: they do not.
    pub blocking_reads: PerTransport,
    /// Whether a held-up engine also waits for messages of a single packet.
    pub blocking_single_packet: PerTransport,
    /// What happens when all fetches are busy.
    pub overload: Overload,
}

/// Interconnect context memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Icm {
    /// Cached lines of QP context.
    pub context_lines: u64,
    /// RC requesters that WRITE whose retransmission state is cached: remote address and key of what is not
    /// acknowledged.
    pub retransmit_states: u64,
    /// Reads that a lost context costs at a doorbell of a single WQE, whose WQE is held back level by level.
    pub doorbell_reads: u32,
    /// Reads that it costs at the doorbell of a chain, if they overlap with the fetch of the chain.
    pub chain_reads: u32,
    /// Cached translations, one per MR.
    pub translations: u64,
    /// Cached remote keys that RC WRITEs keep for retransmission, one per remote MR.
    pub retransmit_keys: u64,
    /// Reads that a lost remote key costs.
    pub key_reads: u32,
    /// Misses in flight of the transmit side.
    pub misses: u32,
    /// Misses in flight of the receive side, which looks up as packets arrive.
    pub receive_misses: u32,
}

/// Whether PCIe requests may pass each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// As the base specification orders them.
    Strict,
    /// With the relaxed ordering attribute.
    Relaxed,
}

/// PCIe between NIC and host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Bandwidth of each direction after encoding. Units: Gbit/s.
    pub gbps: f64,
    /// Header and framing of a transaction-layer packet. Units: bytes.
    pub tlp_overhead_bytes: u64,
    /// Payload of a write. Units: bytes.
    pub max_payload_bytes: u64,
    /// Payload of a read completion. Units: bytes.
    pub max_completion_bytes: u64,
    /// A read of local memory. Units: ns.
    pub read_latency_ns: f64,
    /// Writes posted ahead of the link. Units: KiB.
    pub write_credit_kib: f64,
    /// Ordering of the NIC's requests.
    pub ordering: Ordering,
    /// Time that an ordered read of a small element holds up a long train of writes. Units: ns.
    pub barrier_ns: f64,
    /// Largest element that is read in order. Units: bytes.
    pub barrier_element_bytes: u64,
    /// Train of writes that the root port cannot absorb in its buffer. Units: bytes.
    pub barrier_train_bytes: u64,
}

/// Memory of a NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaNode {
    /// Socket; the NIC is at socket 0.
    pub socket: u32,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Socket.
    pub socket: u32,
    /// Whether it sits under the NIC's own PCIe switch.
    pub beside_nic: bool,
}

/// Sockets, memory and GPUs of each host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTopology {
    /// NUMA nodes, `dram:0` first.
    pub dram: Vec<NumaNode>,
    /// GPUs, `gpu:0` first.
    pub gpus: Vec<Gpu>,
    /// Socket interconnect, both ways together. Units: Gbit/s.
    pub interconnect_gbps: f64,
    /// Added by the interconnect. Units: ns.
    pub interconnect_latency_ns: f64,
    /// Whether each socket has its own NIC port, so that traffic stays on its socket.
    pub nic_per_socket: bool,
    /// Whether access control services send peer-to-peer traffic to the root complex.
    pub acs_redirect: bool,
    /// Reads turned back at the root complex. Units: Gbit/s.
    pub redirect_read_gbps: f64,
    /// Writes turned back at the root complex. Units: Gbit/s.
    pub redirect_write_gbps: f64,
}

/// How samples are taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Length of a sample. Units: µs of simulated time.
    pub sample_us: f64,
    /// Samples.
    pub samples: u32,
    /// Samples thrown away at least.
    pub warm_up_min: u32,
    /// Samples thrown away at most, when no steady state is seen before.
    pub warm_up_max: u32,
    /// Events after which a sample is cut short.
    pub max_events: u64,
    /// Seed of the noise.
    pub seed: u64,
    /// Relative standard deviation of measured rates.
    pub noise: f64,
}

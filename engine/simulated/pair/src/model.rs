//! The parameters of a simulated subsystem, as its YAML file has them. Their domains are in `check`, what they mean to
//! the parts in `config`.

use std::collections::BTreeMap;

use kelpie_spaces::QpType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_yaml::Value;

/// A simulated subsystem. Every value has its source in the model's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `model/2`.
    pub kelpie: String,
    /// Short name, such as `F`.
    pub name: String,
    /// What it stands for.
    pub description: String,
    /// Port and wire.
    pub port: Port,
    /// Switch between the hosts.
    pub switch: Switch,
    /// A second port of each host, bonded with the first; none if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<Bond>,
    /// The applications that post work.
    pub posting: Posting,
    /// What processes work requests and packets.
    pub processing: Processing,
    /// Memories of the NIC for what lies in host memory.
    pub caches: Caches,
    /// Reads of what a cache does not hold.
    pub fetch: Fetch,
    /// Receive side of the NIC.
    pub receive: Receive,
    /// The NIC's command interface, for what makes and destroys QPs and MRs.
    #[serde(default)]
    pub control: Control,
    /// PCIe between NIC and host.
    pub pcie: Pcie,
    /// Sockets, memory and GPUs.
    pub host: HostTopology,
    /// How samples are taken.
    pub sampling: Sampling,
    /// What mends which anomaly of the paper: anomaly number to parameters and their values.
    #[serde(default)]
    #[schemars(with = "BTreeMap<u32, BTreeMap<String, serde_json::Value>>")]
    pub fixes: BTreeMap<u32, BTreeMap<String, Value>>,
}

/// Port and wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Queued bytes above which the sending host is paused. Units: KiB.
    pub xoff_kib: f64,
    /// Queued bytes below which it is resumed. Units: KiB.
    pub xon_kib: f64,
}

/// Two ports of each host in a bond: each to a leaf of its own, and a trunk between the leaves. `port` is one of them,
/// `switch` one of the leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bond {
    /// Each direction of the trunk. Units: Gbit/s.
    pub trunk_gbps: f64,
    /// Of the hash of the bonds over their ports, and of that of the fabric over the receiver's.
    pub hash_seed: u64,
}

/// The applications that post work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// What processes work requests and packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Processing {
    /// Processing units; a QP sticks to one.
    pub units: u32,
    /// QPs that each unit has at work as a sender, while some of them wait for reads.
    pub slots: u32,
    /// Packets after which a QP that sends lets others go.
    pub turn_packets: u32,
    /// A unit for each work request that is sent. Units: ns.
    pub wqe_ns: f64,
    /// A unit for each element of an SG list. Units: ns.
    pub segment_ns: f64,
    /// A unit for each packet that is sent. Units: ns.
    pub packet_ns: f64,
    /// A unit for each packet that is received. Units: ns.
    pub receive_packet_ns: f64,
    /// A unit for each message that begins to be received. Units: ns.
    pub receive_message_ns: f64,
    /// The engine for READ responses, of which there is one, for each packet that is not the first of its message.
    /// Units: ns.
    pub response_packet_ns: f64,
    /// The same for each KiB of payload, of which it keeps one of a packet at most. Units: ns.
    #[serde(default)]
    pub response_kib_ns: f64,
    /// The pipeline, of which there is one for both directions, for each packet of payload. Units: ns.
    pub pipeline_packet_ns: f64,
    /// The same for each KiB of payload, of which it keeps one of a packet at most. Units: ns.
    #[serde(default)]
    pub pipeline_kib_ns: f64,
    /// QPs whose state the pipeline has at hand.
    #[serde(default = "before::<64>")]
    pub pipeline_states: u32,
    /// What packets of another QP take longer in it, those of a burst together. Units: ns.
    #[serde(default)]
    pub pipeline_switch_ns: f64,
    /// Payload on its way from memory to the wire. Units: KiB.
    pub staging_kib: f64,
    /// Memory for packets. A QP holds room for one while it receives a message of several, or sends one whose list
    /// takes more than a line; what that leaves is for payload on its way. Enough for all if it is left out. Units:
    /// KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_memory_kib: Option<f64>,
    /// RDMA READs in flight per QP (`max_rd_atomic`).
    pub max_reads: u32,
}

/// A cache of lines of 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheForm {
    /// What it holds. Units: KiB.
    pub kib: f64,
    /// Lines of a set.
    pub ways: u32,
    /// Which line of a full set goes.
    pub replacement: Replacement,
}

/// Which line of a full set goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The one that was not used for longest.
    LeastRecent,
    /// Any.
    Random,
}

/// Memories of the NIC for what lies in host memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// QP contexts.
    pub contexts: CacheForm,
    /// Entries of MRs, and translations of their pages.
    pub translations: CacheForm,
    /// Send WQEs from their fetch until they are sent.
    pub send_wqes: CacheForm,
    /// Receive WQEs that were read ahead of use.
    pub receive_wqes: CacheForm,
    /// Receive WQEs that came in long chains.
    pub receive_chains: CacheForm,
    /// SG lists of READs on their way.
    pub read_lists: CacheForm,
    /// Lists of the pages of long receive rings.
    #[serde(default = "ring_pages")]
    pub ring_pages: CacheForm,
    /// Tables over which the context of one end of a QP is spread, each read by itself.
    pub context_tables: u32,
    /// Lines of a context in each of them. Units: 64 bytes.
    pub context_lines: u32,
    /// What is kept of a receive WQE. Units: bytes.
    pub receive_entry_bytes: PerTransport,
}

/// In models of before it, rings have no pages to be looked up.
fn ring_pages() -> CacheForm {
    CacheForm { kib: 1.0, ways: 16, replacement: Replacement::Random }
}

/// One value per transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// What becomes of a message whose receive WQE is missing while no more of them can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    /// It waits, with all that is behind it.
    Wait,
    /// It is refused as if no receive were posted: RC by an RNR NAK, UC and UD by a drop.
    Refuse,
}

/// Reads of what a cache does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Lines of a WQE at most that the doorbell brings along if it announces just this one to an empty queue. Units: 64
    /// bytes.
    pub pushed_lines: u32,
    /// Lines of WQEs that one fetch brings. Units: 64 bytes.
    pub wqe_lines: u32,
    /// Lines of send WQEs that are fetched ahead of use. Units: 64 bytes.
    pub send_ahead_lines: u32,
    /// Lines of receive WQEs that are fetched ahead of use at least, for each QP. Units: 64 bytes.
    #[serde(default = "before::<24>")]
    pub receive_ahead_lines: u32,
    /// Receives of a ring at most whose pages the context of its QP names. Of a longer ring, the page is looked up for
    /// each fetch ahead of use, which then brings what the last doorbell announced.
    #[serde(default = "before::<4294967295>")]
    pub inline_receives: u32,
    /// Receives that a doorbell announces at most so that they are fetched ahead of use, and not at once into the
    /// chains of the first QPs for whose there is room.
    pub chain_wqes: u32,
    /// Lines of long chains that are kept for a QP. Units: 64 bytes.
    #[serde(default = "before::<160>")]
    pub chain_lines: u32,
    /// Lines that come with a receive WQE that is missing. Units: 64 bytes.
    pub receive_demand_lines: u32,
    /// Lines that come with the SG list of a READ that is missing: those of the READs behind it. Units: 64 bytes.
    #[serde(default = "before::<1>")]
    pub read_list_lines: u32,
    /// Reads of the send side on their way: contexts.
    pub send_misses: u32,
    /// The same of translations; as many as of contexts if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation_misses: Option<u32>,
    /// Reads of the receive side on their way: contexts and translations.
    pub receive_misses: u32,
    /// Reads of receive WQEs on their way, of those that a message waits for.
    pub receive_wqe_misses: u32,
    /// Reads of receive WQEs of long chains on their way, of those that a message waits for.
    #[serde(default = "before::<2>")]
    pub chain_misses: u32,
    /// Lookups of pages of long receive rings on their way.
    #[serde(default = "before::<1>")]
    pub ring_page_misses: u32,
    /// Reads of SG lists of READs on their way.
    pub read_list_misses: u32,
    /// What becomes of a message whose receive WQE is missing and cannot be fetched at once.
    pub when_busy: WhenBusy,
}

/// What models of before a count have.
fn before<const COUNT: u32>() -> u32 {
    COUNT
}

/// Receive side of the NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// Fill above which pause frames are sent. Units: KiB.
    pub xoff_kib: f64,
    /// Fill below which traffic is resumed. Units: KiB.
    pub xon_kib: f64,
    /// What the buffer holds, with the headroom for what is on its way. Units: KiB.
    pub capacity_kib: f64,
    /// Fill by internal loopback traffic, which has a share of its own. Units: KiB.
    pub loopback_kib: f64,
    /// QPs whose packets are at work while some of them wait for reads.
    pub slots: u32,
    /// How long a requester is silent after an RNR NAK. Units: µs.
    pub rnr_timer_us: f64,
}

/// Whether PCIe writes may pass each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// As the base specification orders them.
    Strict,
    /// With the relaxed ordering attribute.
    Relaxed,
}

/// PCIe between NIC and host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Bandwidth of each direction after encoding. Units: Gbit/s.
    pub gbps: f64,
    /// From one end of the link to the other. Units: ns.
    pub link_latency_ns: f64,
    /// Header and framing of a transaction-layer packet. Units: bytes.
    pub tlp_overhead_bytes: u64,
    /// Payload of a write or of a read completion. Units: bytes.
    pub max_payload_bytes: u64,
    /// What one tag reads. Units: bytes.
    pub max_read_request_bytes: u64,
    /// Reads on their way.
    pub tags: u32,
    /// Writes that the root complex takes before memory has them. Units: KiB.
    pub write_credit_kib: f64,
    /// Ordering of the NIC's writes of payload.
    pub ordering: Ordering,
    /// How the link saves power; it does not if this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Sleep>,
}

/// Power management of the PCIe link (ASPM L1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// It sleeps after so much time without traffic. Units: µs.
    pub after_us: f64,
    /// What waking takes. Units: µs.
    pub wake_us: f64,
}

/// The NIC's command interface. Models of before it take commands as these defaults have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "they are the keys of model files, with their units")]
pub struct Control {
    /// The firmware for each command, one after the other. Units: µs.
    pub firmware_us: f64,
    /// How long a command that destroys holds the pipeline of packets. Units: µs.
    pub hold_us: f64,
    /// How long a requester waits for an acknowledgement before it sends again. Units: µs.
    pub ack_timeout_us: f64,
}

impl Default for Control {
    fn default() -> Self {
        // Sources: as in the model of F.
        Self { firmware_us: 10.0, hold_us: 0.0, ack_timeout_us: 524.0 }
    }
}

/// Memory of a NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NumaNode {
    /// Socket; the NIC is at socket 0.
    pub socket: u32,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Socket.
    pub socket: u32,
    /// Whether it sits under the NIC's own PCIe switch.
    pub beside_nic: bool,
}

/// Sockets, memory and GPUs of each host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostTopology {
    /// NUMA nodes, `dram:0` first.
    pub dram: Vec<NumaNode>,
    /// GPUs, `gpu:0` first.
    pub gpus: Vec<Gpu>,
    /// What a device reads and writes of the memory of its own socket. Units: Gbit/s.
    pub memory_gbps: f64,
    /// From the root complex to an answer of memory. Units: ns.
    pub memory_latency_ns: f64,
    /// What a write takes longer that covers a line in part; as much as an answer if it is left out. Units: ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_line_ns: Option<f64>,
    /// Each direction of the socket interconnect. Units: Gbit/s.
    pub interconnect_gbps: f64,
    /// From one end of it to the other. Units: ns.
    pub interconnect_latency_ns: f64,
    /// What a device reads and writes, together, of the memory of the other socket. Units: Gbit/s.
    pub remote_memory_gbps: f64,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Length of a sample at least. Units: µs of simulated time.
    pub sample_us: f64,
    /// Samples.
    pub samples: u32,
    /// Half of the relative confidence interval (95 %) of each direction's goodput at which samples are long enough.
    pub precision: f64,
    /// Packets after which an experiment ends as soon as its verdict is certain, though its rates are not known to the
    /// precision; 0 if it never does.
    #[serde(default)]
    pub verdict_packets: u64,
    /// Events after which an experiment ends, steady or not.
    pub max_events: u64,
    /// Seed of start phases, replacement and noise.
    pub seed: u64,
    /// Relative standard deviation of measured rates.
    pub noise: f64,
}

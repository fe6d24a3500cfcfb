//! The one table of dimensions: space files, the space itself and the reference page all come from it. The text of a dimension lives in `reference`.

use std::fmt::Write as _;

use crate::constraints::{MAX_DEPTH, MAX_MESSAGE, MAX_MRS, MAX_PATTERN, MAX_PINNED, MAX_QPS, MAX_SGE};
use crate::domain::Domain;
use crate::features::Feature;
use crate::units::Bytes;
use crate::workload::{Device, Mtu, Opcode, QpType};

/// A dimension of the space of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each is documented by its row of the table")]
pub enum Dimension {
    MemoryRequester,
    MemoryResponder,
    Mrs,
    TotalMrs,
    MrSize,
    PinnedPerHost,
    QpType,
    Opcode,
    MixedOpcodes,
    Mtu,
    Qps,
    TotalQps,
    SendWqDepth,
    RecvWqDepth,
    SendBatch,
    RecvBatch,
    SgeCount,
    Requests,
    Message,
    Bidirectional,
    Loopback,
}

/// What the values of a dimension are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A transport.
    QpType,
    /// An operation.
    Opcode,
    /// A path MTU in bytes.
    Mtu,
    /// `dram:N` or `gpu:N`.
    Device,
    /// `true` or `false`.
    Truth,
    /// A count.
    Count,
    /// A size in bytes.
    Size,
}

/// Values written in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Words, as in a space file.
    Set(&'static [&'static str]),
    /// Both ends inclusive.
    Range(u64, u64),
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The dimension.
    pub dimension: Dimension,
    /// Its key in a space file.
    pub name: &'static str,
    /// Which of the paper's dimensions it belongs to.
    pub group: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// What a value counts.
    pub unit: &'static str,
    /// Its domain in `catalog/full.yaml`, and wherever a space file leaves it out.
    pub full: Values,
    /// The features that show it.
    pub features: &'static [Feature],
    /// Why it matters.
    pub why: &'static str,
    /// Where the bound comes from.
    pub source: &'static str,
}

const TOPOLOGY: &str = "1 host topology";
const MEMORY: &str = "2 memory allocation";
const TRANSPORT: &str = "3 transport";
const PATTERN: &str = "4 message pattern";

const DEVICES: Values = Values::Set(&["dram:0", "dram:1", "gpu:0"]);
const TRUTH: Values = Values::Set(&["false", "true"]);
const DEPTH: Values = Values::Range(16, 4096);
const DEPTH_SOURCE: &str = "our choice, because Collie's triggers (appendix A) run from 16 to 1024; four times that, still an eighth of the 32,768 that mlx5 devices report as max_qp_wr";
const BATCH: Values = Values::Range(1, 128);
const BATCH_SOURCE: &str = "Collie, appendix A: 128 in the trigger of anomaly 4 is the largest";

macro_rules! rows {
    ($($dimension:ident $name:literal $group:ident $kind:ident $unit:literal $full:expr, [$($feature:ident)*], $why:expr, $source:expr;)*) => {
        /// Every dimension, in the order of [`Dimension`].
        pub const TABLE: &[Row] = &[$(Row {
            dimension: Dimension::$dimension,
            name: $name,
            group: $group,
            kind: Kind::$kind,
            unit: $unit,
            full: $full,
            features: &[$(Feature::$feature),*],
            why: $why,
            source: $source,
        }),*];
    };
}

rows! {
    MemoryRequester "memory_requester" TOPOLOGY Device "device of the first flow's requester host" DEVICES, [MemoryRequester],
        "A path across sockets or PCIe switches has more latency and less bandwidth, which shows as back pressure on the NIC.",
        "Collie, section 4, dimension 1; two NUMA nodes and one GPU are our choice, because triggers 11 and 12 need no more";
    MemoryResponder "memory_responder" TOPOLOGY Device "device of the first flow's responder host" DEVICES, [MemoryResponder MemoryWritten],
        "As memory_requester; received data is written there.",
        "as memory_requester";
    Mrs "mrs" MEMORY Count "MRs per QP and side" Values::Range(1, 1024), [Mrs],
        "Each MR takes translation entries; the NIC caches few of them.",
        "Collie, appendix A: 1024 in the trigger of anomaly 7 is the largest";
    TotalMrs "total_mrs" MEMORY Count "MRs on a host" Values::Range(1, 200_000), [TotalMrs],
        "Bounds mrs times qps.",
        "Collie, section 4, dimension 2: 200K";
    MrSize "mr_size" MEMORY Size "bytes" Values::Range(4 << 10, 1 << 30), [MrSize],
        "Larger MRs take more translation entries and leave the last-level cache that DDIO writes into.",
        "from a page, the trigger of anomaly 15; 1 GiB is our choice, because a huge page ends there";
    PinnedPerHost "pinned_per_host" MEMORY Size "bytes on a host" Values::Range(1, 96 << 30), [],
        "Bounds qps times mrs times mr_size: what a host can register.",
        "our choice, because three quarters of the 128 GB of the smallest server in Collie, table 1, leave room for the rest";
    QpType "qp_type" TRANSPORT QpType "transport" Values::Set(&["RC", "UC", "UD"]), [QpType],
        "Reliable transports acknowledge each message; UD needs a receive per packet.",
        "Collie, section 4, dimension 3";
    Opcode "opcode" TRANSPORT Opcode "operation" Values::Set(&["SEND", "WRITE", "READ"]), [Opcode],
        "SEND consumes receive work requests, READ turns the data around, WRITE does neither. A file may also name WRITE_WITH_IMM, SEND_WITH_IMM, FETCH_ADD and CMP_SWAP, which real hosts run and the simulated subsystem refuses; the last two take messages of one element of 8 bytes.",
        "Collie, section 4, dimension 3";
    MixedOpcodes "mixed_opcodes" TRANSPORT Truth "whether one vector may hold several operations" Values::Set(&["false"]), [Opcode],
        "A library may send control messages and write data on one QP.",
        "our choice, because each anomaly of Collie, table 2, names one operation";
    Mtu "mtu" TRANSPORT Mtu "bytes" Values::Set(&["256", "512", "1024", "2048", "4096"]), [Mtu],
        "A small MTU means more packets for the same bytes, a large one more buffer per QP.",
        "IBTA volume 1, path MTU; ibv_mtu in verbs.h";
    Qps "qps" TRANSPORT Count "QPs of a flow" Values::Range(1, 20_000), [Qps],
        "Each QP has a context that the NIC caches.",
        "Collie, section 4, dimension 3: 20K";
    TotalQps "total_qps" TRANSPORT Count "QPs of all flows" Values::Range(1, 20_000), [TotalQps],
        "Bounds qps times flows: both directions share the NIC's caches.",
        "Collie, section 4, dimension 3: 20K";
    SendWqDepth "send_wq_depth" TRANSPORT Count "work requests" DEPTH, [SendWqDepth],
        "A deep queue keeps more requests in flight and hides misses; its ring leaves the NIC's caches.",
        DEPTH_SOURCE;
    RecvWqDepth "recv_wq_depth" TRANSPORT Count "work requests" DEPTH, [RecvWqDepth],
        "Receive WQEs that do not fit the NIC's cache are fetched over PCIe while packets wait.",
        DEPTH_SOURCE;
    SendBatch "send_batch" TRANSPORT Count "work requests per post call" BATCH, [SendBatch],
        "One doorbell announces the whole batch: cheaper to post, burstier to fetch.",
        BATCH_SOURCE;
    RecvBatch "recv_batch" TRANSPORT Count "work requests per post call" BATCH, [RecvBatch],
        "A large batch of receives is prefetched at once and evicts others.",
        BATCH_SOURCE;
    SgeCount "sge_count" TRANSPORT Count "elements of a request" Values::Range(1, 16), [SgeCount],
        "Each element is a DMA of its own and makes the WQE longer.",
        "our choice, because it is four times the longest list of Collie's triggers and stays below the max_sge of 30 that mlx5 devices report";
    Requests "requests" PATTERN Count "requests of the vector" Values::Range(1, 16), [],
        "A request is slowed by those before it in the pipeline.",
        "Collie, section 4, dimension 4: processing units times stages; 16 is our choice, because vendors do not say";
    Message "message" PATTERN Size "bytes of a request" Values::Range(64, 4 << 20), [MessageMin MessageMax MessageMix SgeMin],
        "Messages under the MTU stress the packet rate, bursts of long ones the buffers, mixes of both each other.",
        "Collie, appendix A: 64 B in trigger 15, 4 MiB in trigger 3";
    Bidirectional "bidirectional" TOPOLOGY Truth "whether both hosts request" TRUTH, [Bidirectional],
        "Receiving and sending share PCIe and parts of packet processing.",
        "Collie, table 2";
    Loopback "loopback" TOPOLOGY Truth "whether the responder also sends to itself" TRUTH, [Loopback],
        "Loopback traffic meets received traffic inside the NIC, without a rate limit.",
        "Collie, appendix A, anomaly 13";
}

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = TABLE.len();

    /// Every dimension, in the order of the table.
    pub fn all() -> impl Iterator<Item = Dimension> {
        TABLE.iter().map(|row| row.dimension)
    }

    /// Its row of the table.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Its key in a space file.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The dimension that a feature shows.
    pub fn of(feature: Feature) -> Dimension {
        TABLE
            .iter()
            .find(|row| row.features.contains(&feature))
            .map(|row| row.dimension)
            .expect("every feature stands in a row of the table, which a test checks")
    }

    /// Values beyond which no space file may go: what a workload may hold at all.
    pub(crate) fn limit(self) -> (u64, u64) {
        match self {
            Dimension::Qps | Dimension::TotalQps => (1, MAX_QPS),
            Dimension::Mrs | Dimension::TotalMrs => (1, MAX_MRS),
            Dimension::MrSize | Dimension::PinnedPerHost => (1, MAX_PINNED.0),
            Dimension::SendWqDepth | Dimension::RecvWqDepth | Dimension::SendBatch | Dimension::RecvBatch => {
                (1, MAX_DEPTH.into())
            }
            Dimension::SgeCount => (1, MAX_SGE as u64),
            Dimension::Requests => (1, MAX_PATTERN as u64),
            Dimension::Message => (1, MAX_MESSAGE.0),
            _ => (0, u64::MAX),
        }
    }

    /// The domain that stands in the table.
    pub(crate) fn full(self) -> Domain {
        let domain = match self.row().full {
            Values::Range(min, max) => Domain::range(min, max),
            Values::Set(words) => Domain::set(words.iter().filter_map(|word| self.code(word).ok()).collect()),
        };
        domain.expect("no row of the table is empty, which a test checks")
    }
}

const GPU: u64 = 1 << 8;

pub(crate) fn device_code(device: Device) -> u64 {
    match device {
        Device::Dram(index) => index.into(),
        Device::Gpu(index) => GPU + u64::from(index),
    }
}

pub(crate) fn device(code: u64) -> Device {
    if code < GPU { Device::Dram(code as u8) } else { Device::Gpu((code - GPU) as u8) }
}

impl Dimension {
    /// The number that stands for a word of a space file, or the rule that the word breaks.
    pub(crate) fn code(self, word: &str) -> Result<u64, String> {
        let index = |words: &[&str]| {
            let found = words.iter().position(|known| *known == word);
            found.map(|index| index as u64).ok_or_else(|| format!("write one of {}", words.join(", ")))
        };
        let value = match self.row().kind {
            Kind::QpType => index(&["RC", "UC", "UD"])?,
            Kind::Opcode => index(&Opcode::ALL.map(Opcode::name))?,
            Kind::Truth => index(&["false", "true"])?,
            Kind::Device => device_code(word.parse::<Device>().map_err(|error| error.to_string())?),
            Kind::Mtu => {
                let bytes = word.parse::<u64>().map_err(|_| "write path MTUs in bytes".to_owned())?;
                Mtu::try_from(bytes).map_err(|error| error.to_string())?.bytes()
            }
            Kind::Count => word.parse().map_err(|_| "write a whole number".to_owned())?,
            Kind::Size => word.parse::<Bytes>().map_err(|error| error.to_string())?.0,
        };
        let (min, max) = self.limit();
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(format!("outside {} to {}", self.word(min), self.word(max)))
        }
    }

    /// The word of a space file for a number.
    pub(crate) fn word(self, code: u64) -> String {
        match self.row().kind {
            Kind::QpType => QpType::ALL[code as usize].to_string(),
            Kind::Opcode => Opcode::ALL[code as usize].to_string(),
            Kind::Truth => (code == 1).to_string(),
            Kind::Device => device(code).to_string(),
            Kind::Mtu | Kind::Count => code.to_string(),
            Kind::Size => Bytes(code).to_string(),
        }
    }

    /// A domain as a space file writes it.
    pub(crate) fn written(self, domain: &Domain) -> String {
        if domain.is_range() {
            return format!("{{min: {}, max: {}}}", self.word(domain.min()), self.word(domain.max()));
        }
        let words: Vec<String> = domain.steps().iter().map(|code| self.word(*code)).collect();
        format!("[{}]", words.join(", "))
    }
}

/// The reference page of all dimensions, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Dimensions of the space of workloads\n\n\
         Generated from the table in `spaces/src/dimensions.rs`; a test fails when this page is stale and says how to renew it.\n\n\
         A space file (`kelpie: space/1`) restricts any of these keys to a set `[a, b]` or, for counts and sizes, a range `{min: a, max: b}`; a key or an end that is left out has the value of `catalog/full.yaml`, shown here.\n",
    );
    for row in TABLE {
        let features: Vec<String> = row.features.iter().map(|feature| format!("`{feature}`")).collect();
        let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        let full = row.dimension.written(&row.dimension.full());
        let _ = write!(
            page,
            "\n## `{}`\n\n{}\n\n- Unit: {}\n- Full space: `{full}`\n- Dimension of the paper: {}\n- Features: {features}\n- Source: {}\n",
            row.name, row.why, row.unit, row.group, row.source
        );
    }
    page
}

//! The rows of the table: all that Kelpie knows of a dimension and of the features that show it. What a row may hold is
//! said in `row`.

pub(super) mod row;

use row::{ANY, DimensionKind, DimensionRow, FeatureAdvice, FeatureReading, FeatureRow, Values};

use super::scope::{Scope, Special};
use crate::constraints::{
    MAX_DEPTH, MAX_INLINE, MAX_LOSS_PPM, MAX_MADE_PER_SEC, MAX_MESSAGE, MAX_MRS, MAX_PATH_DELAY_NS, MAX_PATTERN,
    MAX_PINNED, MAX_QPS, MAX_SGE,
};
use crate::sides::{FlowSide, set_bidirectional, set_loopback};
use crate::units::Bytes;
use crate::workload::{Flow, Mtu, Opcode, Ports, QpType};

const TOPOLOGY: &str = "1 host topology";
const MEMORY: &str = "2 memory allocation";
const TRANSPORT: &str = "3 transport";
const PATTERN: &str = "4 message pattern";

const DEVICES: Values = Values::Set(&["dram:0", "dram:1", "gpu:0"]);
const TRUTH: Values = Values::Set(&["false", "true"]);
const DEPTH: Values = Values::Range(16, 4096);
const DEPTH_SOURCE: &str = "our choice, because Collie's triggers (appendix A) run from 16 to 1024; four times \
    that, still an eighth of the 32,768 that mlx5 devices report as max_qp_wr";
const BATCH: Values = Values::Range(1, 128);
const BATCH_SOURCE: &str = "Collie, appendix A: 128 in the trigger of anomaly 4 is the largest";
const QUEUE: (u64, u64) = (1, MAX_DEPTH as u64);

macro_rules! perhaps {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! rows {
    ($($dimension:ident $name:literal $group:ident $kind:ident $(twin $twin:ident)? $(also $also:ident)? {
        $($field:ident: $value:expr,)*
    } shown by {
        $($(#[doc = $text:literal])* $feature:ident $shown:literal = $order:literal { $($key:ident: $part:expr,)* })*
    })*) => {
        /// A dimension of the space of workloads.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is documented by its row of the table")]
        pub enum Dimension {
            $($dimension,)*
        }

        /// One observable property of a workload, numbered in the order in which reports show them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Feature {
            $($($(#[doc = $text])* $feature = $order,)*)*
        }

        /// Every dimension, in the order of [`Dimension`].
        pub const TABLE: &[DimensionRow] = &[$(DimensionRow {
            dimension: Dimension::$dimension,
            name: $name,
            group: $group,
            kind: DimensionKind::$kind,
            twin: perhaps!($(Dimension::$twin)?),
            also: perhaps!($(Feature::$also)?),
            features: &[$(Feature::$feature),*],
            $($field: $value,)*
        }),*];

        /// What is said of every feature, dimension by dimension.
        pub(crate) const DESCRIBED: &[FeatureRow] = &[$($(FeatureRow {
            feature: Feature::$feature,
            dimension: Dimension::$dimension,
            name: $shown,
            $($key: $part,)*
        },)*)*];
    };
}

rows! {
    MemoryRequester "memory_requester" TOPOLOGY Device {
        unit: "device of the first flow's requester host", place: "memory.from.device",
        scope: Scope::Special(Special::Memory(FlowSide::Requester)),
        full: DEVICES, limit: ANY,
        why: "A path across sockets or PCIe switches has more latency and less bandwidth, which shows as back \
            pressure on the NIC.",
        source: "Collie, section 4, dimension 1; two NUMA nodes and one GPU are our choice, because triggers 11 and \
            12 need no more",
    } shown by {
        /// Memory device of the first flow's requester.
        MemoryRequester "memory_requester" = 17 {
            reading: FeatureReading::Word(|workload| {
                workload.flows.first().map(|flow| flow.memory.from.device.to_string()).unwrap_or_default()
            }),
            phrase: "memory of the requester",
            advice: FeatureAdvice::Word("keep the requester's buffers in {}"),
            walk: 190, plain: Some("dram:0"),
        }
    }
    MemoryResponder "memory_responder" TOPOLOGY Device {
        unit: "device of the first flow's responder host", place: "memory.to.device",
        scope: Scope::Special(Special::Memory(FlowSide::Responder)),
        full: DEVICES, limit: ANY,
        why: "As memory_requester; received data is written there.",
        source: "as memory_requester",
    } shown by {
        /// Memory device of the first flow's responder.
        MemoryResponder "memory_responder" = 18 {
            reading: FeatureReading::Word(|workload| {
                workload.flows.first().map(|flow| flow.memory.to.device.to_string()).unwrap_or_default()
            }),
            phrase: "memory of the responder",
            advice: FeatureAdvice::Word("keep the responder's buffers in {}"),
            walk: 200, plain: Some("dram:0"),
        }
        /// Memory device that received data are written to; of several the last, in the order DRAM, GPU and of their
        /// numbers.
        MemoryWritten "memory_written" = 19 {
            reading: FeatureReading::Word(|workload| {
                let written = workload.flows.iter().flat_map(Flow::written).map(|(.., memory)| memory.device);
                written.max().map(|device| device.to_string()).unwrap_or_default()
            }),
            phrase: "memory that is written to",
            advice: FeatureAdvice::Word("let data arrive in {}"),
            walk: 180, plain: None,
        }
    }
    Mrs "mrs" MEMORY Count {
        unit: "MRs per QP and side", place: "memory.from.mrs and memory.to.mrs",
        scope: Scope::Memory { get: |memory| memory.mrs.into(), set: |memory, count| memory.mrs = count as u32 },
        full: Values::Range(1, 1024), limit: (1, MAX_MRS),
        why: "Each MR takes translation entries; the NIC caches few of them.",
        source: "Collie, appendix A: 1024 in the trigger of anomaly 7 is the largest",
    } shown by {
        /// Most MRs per QP, of either side.
        Mrs "mrs" = 14 {
            reading: FeatureReading::Largest, walk: 70, plain: Some("1"),
            phrase: "MRs of one QP",
            advice: FeatureAdvice::Bound("use {} MRs for a QP"),
        }
    }
    TotalMrs "total_mrs" MEMORY Count {
        unit: "MRs on a host", place: "all flows",
        scope: Scope::Special(Special::TotalMrs),
        full: Values::Range(1, 200_000), limit: (1, MAX_MRS),
        why: "Bounds mrs times qps.",
        source: "Collie, section 4, dimension 2: 200K",
    } shown by {
        /// MRs of the requesters of all flows together.
        TotalMrs "total_mrs" = 15 {
            reading: FeatureReading::Largest, walk: 60, plain: None,
            phrase: "MRs of all flows",
            advice: FeatureAdvice::Bound("use {} MRs in all"),
        }
    }
    MrSize "mr_size" MEMORY Size {
        unit: "bytes", place: "memory.from.mr_size and memory.to.mr_size",
        scope: Scope::Memory { get: |memory| memory.mr_size.0, set: |memory, size| memory.mr_size = Bytes(size) },
        full: Values::Range(4 << 10, 1 << 30), limit: (1, MAX_PINNED.0),
        why: "Larger MRs take more translation entries and leave the last-level cache that DDIO writes into.",
        source: "from a page, the trigger of anomaly 15; 1 GiB is our choice, because a huge page ends there",
    } shown by {
        /// Largest MR, of either side. Units: bytes.
        MrSize "mr_size" = 16 {
            reading: FeatureReading::Largest, walk: 50, plain: Some("4MiB"),
            phrase: "size of an MR",
            advice: FeatureAdvice::Bound("make an MR {}"),
        }
    }
    PinnedPerHost "pinned_per_host" MEMORY Size {
        unit: "bytes on a host", place: "all flows",
        scope: Scope::Special(Special::PinnedPerHost),
        full: Values::Range(1, 96 << 30), limit: (1, MAX_PINNED.0),
        why: "Bounds qps times mrs times mr_size: what a host can register.",
        source: "our choice, because three quarters of the 128 GB of the smallest server in Collie, table 1, leave \
            room for the rest",
    } shown by {}
    QpType "qp_type" TRANSPORT QpType {
        unit: "transport", place: "qp_type",
        scope: Scope::Flow {
            get: |flow| flow.qp_type as u64,
            set: |flow, code| flow.qp_type = QpType::ALL[code as usize],
        },
        full: Values::Set(&["RC", "UC", "UD"]), limit: ANY,
        why: "Reliable transports acknowledge each message; UD needs a receive per packet.",
        source: "Collie, section 4, dimension 3",
    } shown by {
        /// Transports of all flows, sorted and joined by `+`.
        QpType "qp_type" = 0 {
            reading: FeatureReading::Words, walk: 220, plain: Some("RC"),
            phrase: "transport",
            advice: FeatureAdvice::Word("use {} instead of {now}"),
        }
    }
    Opcode "opcode" TRANSPORT Opcode {
        unit: "operation", place: "pattern[].op",
        scope: Scope::Request {
            get: |request| request.op as u64,
            set: |request, code| request.op = Opcode::ALL[code as usize],
        },
        full: Values::Set(&["SEND", "WRITE", "READ"]), limit: ANY,
        why: "SEND consumes receive work requests, READ turns the data around, WRITE does neither. A file may also \
            name WRITE_WITH_IMM and SEND_WITH_IMM, which real hosts run and the simulated subsystem refuses, and \
            FETCH_ADD and CMP_SWAP, which take messages of one element of 8 bytes.",
        source: "Collie, section 4, dimension 3",
    } shown by {
        /// Opcodes of all requests, sorted and joined by `+`.
        Opcode "opcode" = 1 {
            reading: FeatureReading::Words, walk: 210, plain: Some("WRITE"),
            phrase: "operation",
            advice: FeatureAdvice::Word("use {} instead of {now}"),
        }
    }
    MixedOpcodes "mixed_opcodes" TRANSPORT Truth also Opcode {
        unit: "whether one vector may hold several operations", place: "pattern[].op",
        scope: Scope::Special(Special::MixedOpcodes),
        full: Values::Set(&["false"]), limit: ANY,
        why: "A library may send control messages and write data on one QP.",
        source: "our choice, because each anomaly of Collie, table 2, names one operation",
    } shown by {}
    Mtu "mtu" TRANSPORT Mtu {
        unit: "bytes", place: "mtu",
        scope: Scope::Flow {
            get: |flow| flow.mtu.bytes(),
            set: |flow, bytes| flow.mtu = Mtu::try_from(bytes).expect("a domain of MTUs holds only MTUs"),
        },
        full: Values::Set(&["256", "512", "1024", "2048", "4096"]), limit: ANY,
        why: "A small MTU means more packets for the same bytes, a large one more buffer per QP.",
        source: "IBTA volume 1, path MTU; ibv_mtu in verbs.h",
    } shown by {
        /// Largest path MTU. Units: bytes.
        Mtu "mtu" = 2 {
            reading: FeatureReading::Largest, walk: 130, plain: Some("4096"),
            phrase: "path MTU",
            advice: FeatureAdvice::Bound("use a path MTU of {}"),
        }
    }
    Qps "qps" TRANSPORT Count {
        unit: "QPs of a flow", place: "qps",
        scope: Scope::Flow { get: |flow| flow.qps.into(), set: |flow, count| flow.qps = count as u32 },
        full: Values::Range(1, 20_000), limit: (1, MAX_QPS),
        why: "Each QP has a context that the NIC caches.",
        source: "Collie, section 4, dimension 3: 20K",
    } shown by {
        /// Most QPs of one flow.
        Qps "qps" = 3 {
            reading: FeatureReading::Largest, walk: 170, plain: Some("8"),
            phrase: "QPs of one flow",
            advice: FeatureAdvice::Bound("use {} QPs in a flow"),
        }
    }
    TotalQps "total_qps" TRANSPORT Count {
        unit: "QPs of all flows", place: "all flows",
        scope: Scope::Special(Special::TotalQps),
        full: Values::Range(1, 20_000), limit: (1, MAX_QPS),
        why: "Bounds qps times flows: both directions share the NIC's caches.",
        source: "Collie, section 4, dimension 3: 20K",
    } shown by {
        /// QPs of all flows together.
        TotalQps "total_qps" = 4 {
            reading: FeatureReading::Largest, walk: 160, plain: None,
            phrase: "QPs of all flows",
            advice: FeatureAdvice::Bound("use {} QPs in all"),
        }
    }
    SendWqDepth "send_wq_depth" TRANSPORT Count twin RecvWqDepth {
        unit: "work requests", place: "wq_depth.send",
        scope: Scope::Flow {
            get: |flow| flow.wq_depth.send.into(),
            set: |flow, count| flow.wq_depth.send = count as u32,
        },
        full: DEPTH, limit: QUEUE,
        why: "A deep queue keeps more requests in flight and hides misses; its ring leaves the NIC's caches.",
        source: DEPTH_SOURCE,
    } shown by {
        /// Deepest send queue.
        SendWqDepth "send_wq_depth" = 7 {
            reading: FeatureReading::Largest, walk: 40, plain: Some("128"),
            phrase: "depth of the send queue",
            advice: FeatureAdvice::Bound("keep {} requests in a send queue"),
        }
    }
    RecvWqDepth "recv_wq_depth" TRANSPORT Count twin SendWqDepth {
        unit: "work requests", place: "wq_depth.recv",
        scope: Scope::Flow {
            get: |flow| flow.wq_depth.recv.into(),
            set: |flow, count| flow.wq_depth.recv = count as u32,
        },
        full: DEPTH, limit: QUEUE,
        why: "Receive WQEs that do not fit the NIC's cache are fetched over PCIe while packets wait.",
        source: DEPTH_SOURCE,
    } shown by {
        /// Deepest receive queue.
        RecvWqDepth "recv_wq_depth" = 8 {
            reading: FeatureReading::Largest, walk: 30, plain: Some("128"),
            phrase: "depth of the receive queue",
            advice: FeatureAdvice::Bound("keep {} receives in a receive queue"),
        }
    }
    SendBatch "send_batch" TRANSPORT Count twin RecvBatch {
        unit: "work requests per post call", place: "batch.send",
        scope: Scope::Flow { get: |flow| flow.batch.send.into(), set: |flow, count| flow.batch.send = count as u32 },
        full: BATCH, limit: QUEUE,
        why: "One doorbell announces the whole batch: cheaper to post, burstier to fetch.",
        source: BATCH_SOURCE,
    } shown by {
        /// Most send work requests in one post call.
        SendBatch "send_batch" = 5 {
            reading: FeatureReading::Largest, walk: 20, plain: Some("1"),
            phrase: "send requests in one post call",
            advice: FeatureAdvice::Bound("post {} requests per call"),
        }
    }
    RecvBatch "recv_batch" TRANSPORT Count twin SendBatch {
        unit: "work requests per post call", place: "batch.recv",
        scope: Scope::Flow { get: |flow| flow.batch.recv.into(), set: |flow, count| flow.batch.recv = count as u32 },
        full: BATCH, limit: QUEUE,
        why: "A large batch of receives is prefetched at once and evicts others.",
        source: BATCH_SOURCE,
    } shown by {
        /// Most receive work requests in one post call.
        RecvBatch "recv_batch" = 6 {
            reading: FeatureReading::Largest, walk: 10, plain: Some("1"),
            phrase: "receive requests in one post call",
            advice: FeatureAdvice::Bound("post {} receives per call"),
        }
    }
    SgeCount "sge_count" TRANSPORT Count {
        unit: "elements of a request", place: "pattern[].sge",
        scope: Scope::Special(Special::SgeCount),
        full: Values::Range(1, 16), limit: (1, MAX_SGE as u64),
        why: "Each element is a DMA of its own and makes the WQE longer.",
        source: "our choice, because it is four times the longest list of Collie's triggers and stays below the \
            max_sge of 30 that mlx5 devices report",
    } shown by {
        /// Longest scatter-gather list.
        SgeCount "sge_count" = 9 {
            reading: FeatureReading::Largest, walk: 80, plain: Some("1"),
            phrase: "elements of one scatter-gather list",
            advice: FeatureAdvice::Bound("use {} elements in a request"),
        }
    }
    Inline "inline" TRANSPORT Size {
        unit: "bytes of a message", place: "inline",
        scope: Scope::Flow { get: |flow| flow.inline.0, set: |flow, size| flow.inline = Bytes(size) },
        full: Values::Set(&["0B"]), limit: (0, MAX_INLINE.0),
        why: "The NIC finds the payload of a SEND or WRITE up to this size in its WQE and does not read memory, but \
            the WQE is longer.",
        source: "ibv_post_send(3), IBV_SEND_INLINE; off, because Collie, section 4, does not have it",
    } shown by {
        /// Longest message that is posted inline. Units: bytes.
        Inline "inline" = 22 {
            reading: FeatureReading::Largest, walk: 75, plain: Some("0B"),
            phrase: "longest inline message",
            advice: FeatureAdvice::BoundOrNone {
                bound: "post messages of {} inline",
                none: "post no message inline",
            },
        }
    }
    Interarrival "interarrival_ns" PATTERN Count {
        unit: "ns between post calls of a QP", place: "interarrival_ns",
        scope: Scope::Flow {
            get: |flow| flow.interarrival_ns.into(),
            set: |flow, pause| flow.interarrival_ns = pause as u32,
        },
        full: Values::Set(&["0"]), limit: (0, u32::MAX as u64),
        why: "Applications post in bursts; after a pause the NIC finds idle queues and cold caches, and the pauses of \
            many QPs can fall together.",
        source: "off, because Collie, section 4, only has applications that keep their queues full",
    } shown by {
        /// Longest pause between post calls. Units: ns.
        InterarrivalNs "interarrival_ns" = 23 {
            reading: FeatureReading::Largest, walk: 15, plain: Some("0"),
            phrase: "pause between post calls in ns",
            advice: FeatureAdvice::BoundOrNone {
                bound: "pause for {} ns between post calls",
                none: "do not pause between post calls",
            },
        }
    }
    QpsMade "qps_made_per_sec" TRANSPORT Count {
        unit: "QPs made and destroyed per second at each end of a flow", place: "qps_made_per_sec",
        scope: Scope::Flow {
            get: |flow| flow.qps_made_per_sec.into(),
            set: |flow, rate| flow.qps_made_per_sec = rate as u32,
        },
        full: Values::Set(&["0"]), limit: (0, MAX_MADE_PER_SEC as u64),
        why: "Commands of the control path take the NIC's firmware, its memory and its caches from traffic.",
        source: "Collie, section 4, lists no commands; off, because it measures connections that stand",
    } shown by {
        /// Most QPs that an end makes and destroys. Units: per second.
        QpsMadePerSec "qps_made_per_sec" = 25 {
            reading: FeatureReading::Largest, walk: 2, plain: Some("0"),
            phrase: "QPs made and destroyed per second",
            advice: FeatureAdvice::BoundOrNone {
                bound: "make {} QPs per second while traffic runs",
                none: "make no QPs while traffic runs",
            },
        }
    }
    MrsMade "mrs_made_per_sec" MEMORY Count {
        unit: "MRs registered and deregistered per second at each end of a flow", place: "mrs_made_per_sec",
        scope: Scope::Flow {
            get: |flow| flow.mrs_made_per_sec.into(),
            set: |flow, rate| flow.mrs_made_per_sec = rate as u32,
        },
        full: Values::Set(&["0"]), limit: (0, MAX_MADE_PER_SEC as u64),
        why: "As qps_made_per_sec; a library that registers each buffer for one transfer does so.",
        source: "as qps_made_per_sec",
    } shown by {
        /// Most MRs that an end registers and deregisters. Units: per second.
        MrsMadePerSec "mrs_made_per_sec" = 26 {
            reading: FeatureReading::Largest, walk: 4, plain: Some("0"),
            phrase: "MRs registered and deregistered per second",
            advice: FeatureAdvice::BoundOrNone {
                bound: "register {} MRs per second while traffic runs",
                none: "register no MRs while traffic runs",
            },
        }
    }
    Loss "loss_ppm" TOPOLOGY Count {
        unit: "packets lost of a million, each way", place: "loss_ppm",
        scope: Scope::Flow { get: |flow| flow.loss_ppm.into(), set: |flow, share| flow.loss_ppm = share as u32 },
        full: Values::Set(&["0"]), limit: (0, MAX_LOSS_PPM as u64),
        why: "A NIC that sends a packet again sends what came behind it again, or waits for a timer.",
        source: "off, because Collie, section 2, has lossless links between its hosts",
    } shown by {
        /// Most packets that the path of a flow loses, of a million.
        LossPpm "loss_ppm" = 27 {
            reading: FeatureReading::Largest, walk: 6, plain: Some("0"),
            phrase: "packets of a million that the path loses",
            advice: FeatureAdvice::BoundOrNone {
                bound: "use a path that loses {} packets of a million",
                none: "use a path that loses no packets",
            },
        }
    }
    PathDelay "path_delay_ns" TOPOLOGY Count {
        unit: "ns that the path adds, each way", place: "path_delay_ns",
        scope: Scope::Flow {
            get: |flow| flow.path_delay_ns.into(),
            set: |flow, delay| flow.path_delay_ns = delay as u32,
        },
        full: Values::Set(&["0"]), limit: (0, MAX_PATH_DELAY_NS as u64),
        why: "A longer path needs more requests on their way, which a NIC has to keep.",
        source: "off, because Collie, section 2, has one switch between its hosts",
    } shown by {
        /// Longest delay that the path of a flow adds. Units: ns.
        PathDelayNs "path_delay_ns" = 28 {
            reading: FeatureReading::Largest, walk: 8, plain: Some("0"),
            phrase: "delay of the path in ns",
            advice: FeatureAdvice::BoundOrNone {
                bound: "use a path whose delay is {} ns",
                none: "use a path without added delay",
            },
        }
    }
    Requests "requests" PATTERN Count {
        unit: "requests of the vector", place: "pattern",
        scope: Scope::Special(Special::Requests),
        full: Values::Range(1, 16), limit: (1, MAX_PATTERN as u64),
        why: "A request is slowed by those before it in the pipeline.",
        source: "Collie, section 4, dimension 4: processing units times stages; 16 is our choice, because vendors \
            do not say",
    } shown by {}
    Message "message" PATTERN Size {
        unit: "bytes of a request", place: "pattern[].sge",
        scope: Scope::Special(Special::Message),
        full: Values::Range(64, 4 << 20), limit: (1, MAX_MESSAGE.0),
        why: "Messages under the MTU stress the packet rate, bursts of long ones the buffers, mixes of both each \
            other.",
        source: "Collie, appendix A: 64 B in trigger 15, 4 MiB in trigger 3",
    } shown by {
        /// Smallest message of any request. Units: bytes.
        MessageMin "message_min" = 10 {
            reading: FeatureReading::Smallest, walk: 100, plain: Some("64KiB"),
            phrase: "smallest message",
            advice: FeatureAdvice::Bound("make the shortest message {}"),
        }
        /// Largest message of any request. Units: bytes.
        MessageMax "message_max" = 11 {
            reading: FeatureReading::Largest, walk: 90, plain: Some("64KiB"),
            phrase: "largest message",
            advice: FeatureAdvice::Bound("make the longest message {}"),
        }
        /// Whether one request vector holds a short and a long element or message.
        MessageMix "message_mix" = 13 {
            reading: FeatureReading::Word(|workload| workload.flows.iter().any(Flow::is_mixed).to_string()),
            phrase: "short and long messages or elements mixed",
            advice: FeatureAdvice::Truth {
                on: "mix short and long elements",
                off: "do not mix short and long elements",
            },
            walk: 120, plain: Some("false"),
        }
        /// Smallest scatter-gather element of any request. Units: bytes.
        SgeMin "sge_min" = 12 {
            reading: FeatureReading::Number(|workload| {
                let requests = workload.flows.iter().flat_map(|flow| &flow.pattern);
                requests.flat_map(|request| &request.sge).map(|size| size.0).min().unwrap_or(0)
            }),
            phrase: "smallest scatter-gather element",
            advice: FeatureAdvice::Bound("make the shortest element {}"),
            walk: 110, plain: Some("64KiB"),
        }
    }
    Bidirectional "bidirectional" TOPOLOGY Truth {
        unit: "whether both hosts request", place: "from and to",
        scope: Scope::Whole {
            get: |workload| workload.is_bidirectional().into(),
            set: |workload, on| set_bidirectional(workload, on == 1),
        },
        full: TRUTH, limit: ANY,
        why: "Receiving and sending share PCIe and parts of packet processing.",
        source: "Collie, table 2",
    } shown by {
        /// Whether traffic runs from `a` to `b` and from `b` to `a`.
        Bidirectional "bidirectional" = 20 {
            reading: FeatureReading::Words, walk: 150, plain: Some("false"),
            phrase: "traffic in both directions",
            advice: FeatureAdvice::Truth { on: "send in both directions", off: "send in one direction only" },
        }
    }
    Loopback "loopback" TOPOLOGY Truth {
        unit: "whether the responder also sends to itself", place: "from and to",
        scope: Scope::Whole {
            get: |workload| workload.flows.iter().any(Flow::is_loopback).into(),
            set: |workload, on| set_loopback(workload, on == 1),
        },
        full: TRUTH, limit: ANY,
        why: "Loopback traffic meets received traffic inside the NIC, without a rate limit.",
        source: "Collie, appendix A, anomaly 13",
    } shown by {
        /// Whether some flow stays on its host.
        Loopback "loopback" = 21 {
            reading: FeatureReading::Words,
            phrase: "loopback traffic",
            advice: FeatureAdvice::Truth {
                on: "send to the same host as well",
                off: "keep traffic within a host off the NIC",
            },
            walk: 140, plain: Some("false"),
        }
    }
    Ports "ports" TOPOLOGY Ports {
        unit: "ports of a bonded NIC", place: "ports",
        scope: Scope::Flow {
            get: |flow| flow.ports as u64,
            set: |flow, code| flow.ports = Ports::ALL[code as usize],
        },
        full: Values::Set(&["hashed"]), limit: (0, Ports::ALL.len() as u64 - 1),
        why: "QPs that meet on one port of two share it, at the sender or at the receiver; those that leave by one side \
            and arrive at the other also share the cables between the leaves.",
        source: "C4 (Dong et al., HPCA 2025), section III-B; hashed, because nobody steers and most NICs have one port",
    } shown by {
        /// Which ports of a bonded NIC the QPs of all flows use, sorted and joined by `+`.
        Ports "ports" = 24 {
            reading: FeatureReading::Words,
            phrase: "ports of a bonded NIC",
            advice: FeatureAdvice::Word("let QPs use ports as {} instead of {now}"),
            walk: 145, plain: Some("hashed"),
        }
    }
}

//! The rows of the table of dimensions, one for each. What a row holds is in `dimensions`.

use super::{Dimension, Kind, Row, Values};
use crate::features::Feature;

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

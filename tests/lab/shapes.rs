//! The workloads whose truth is looked up in counters and captures: one row each. What they must do is in `truth`.

use std::fmt::Write as _;

/// One flow, as short as it can be written.
#[derive(Debug, Clone, Copy)]
pub struct FlowShape {
    /// Requester and responder.
    pub ends: [&'static str; 2],
    pub qp_type: &'static str,
    pub qps: u32,
    /// Units: bytes.
    pub mtu: u32,
    /// Send and receive queue.
    pub depth: [u32; 2],
    /// Send and receive.
    pub batch: [u32; 2],
    /// Requests as `OPERATION BYTES+BYTES`, separated by commas.
    pub pattern: &'static str,
    /// Receive vector as `BYTES+BYTES`; the default if it is empty.
    pub recv: &'static str,
    /// MRs per QP at requester and responder.
    pub mrs: [u32; 2],
    /// Units: bytes.
    pub mr_size: u32,
}

/// What most of the workloads below differ from in little.
pub const RC: FlowShape = FlowShape {
    ends: ["a", "b"],
    qp_type: "RC",
    qps: 2,
    mtu: 1024,
    depth: [16, 64],
    batch: [1, 1],
    pattern: "WRITE 4096",
    recv: "",
    mrs: [1, 1],
    mr_size: 64 << 10,
};

const UC: FlowShape = FlowShape { qp_type: "UC", ..RC };

const UD: FlowShape = FlowShape { qp_type: "UD", pattern: "SEND 1024", ..RC };

const BACK: FlowShape = FlowShape { ends: ["b", "a"], ..RC };

/// Every workload; each is a list of flows, at most one for each requester.
pub const WORKLOADS: &[&[FlowShape]] = &[
    // Operations and sizes: below, at and just over the path MTU, and many packets.
    &[FlowShape { pattern: "WRITE 64", qps: 1, ..RC }],
    &[FlowShape { pattern: "WRITE 1024", ..RC }],
    &[FlowShape { pattern: "WRITE 1025", ..RC }],
    &[FlowShape { pattern: "WRITE 65536", depth: [4, 1], ..RC }],
    &[FlowShape { pattern: "SEND 64", qps: 1, ..RC }],
    &[FlowShape { pattern: "SEND 1024", ..RC }],
    &[FlowShape { pattern: "SEND 1027", ..RC }],
    &[FlowShape { pattern: "SEND 65536", depth: [4, 16], ..RC }],
    &[FlowShape { pattern: "READ 64", qps: 1, ..RC }],
    &[FlowShape { pattern: "READ 1024", ..RC }],
    &[FlowShape { pattern: "READ 1026", ..RC }],
    &[FlowShape { pattern: "READ 65536", depth: [4, 1], ..RC }],
    &[FlowShape { pattern: "WRITE 64", qps: 1, ..UC }],
    &[FlowShape { pattern: "WRITE 1025", ..UC }],
    &[FlowShape { pattern: "WRITE 65536", depth: [4, 1], ..UC }],
    &[FlowShape { pattern: "SEND 64", qps: 1, ..UC }],
    &[FlowShape { pattern: "SEND 3000", ..UC }],
    &[FlowShape { pattern: "SEND 64", qps: 1, ..UD }],
    &[UD],
    // Immediate data and atomics.
    &[FlowShape { pattern: "SEND_WITH_IMM 64", qps: 1, ..RC }],
    &[FlowShape { pattern: "SEND_WITH_IMM 3000, SEND 100", batch: [2, 4], ..RC }],
    &[FlowShape { pattern: "WRITE_WITH_IMM 64", qps: 1, ..RC }],
    &[FlowShape { pattern: "WRITE_WITH_IMM 3000, WRITE 2000", mrs: [1, 2], ..RC }],
    &[FlowShape { pattern: "WRITE_WITH_IMM 2000", ..UC }],
    &[FlowShape { pattern: "SEND_WITH_IMM 500+24", ..UD }],
    &[FlowShape { pattern: "FETCH_ADD 8", qps: 1, ..RC }],
    &[FlowShape { pattern: "CMP_SWAP 8", mrs: [2, 3], ..RC }],
    &[FlowShape { pattern: "FETCH_ADD 8, WRITE 64, CMP_SWAP 8, READ 2000, SEND 16", batch: [5, 2], ..RC }],
    // Path MTUs.
    &[FlowShape { pattern: "WRITE 8192", mtu: 256, depth: [4, 1], ..RC }],
    &[FlowShape { pattern: "SEND 8192", mtu: 512, depth: [4, 16], ..RC }],
    &[FlowShape { pattern: "READ 8192", mtu: 2048, ..RC }],
    &[FlowShape { pattern: "WRITE 8192", mtu: 4096, ..UC }],
    // Batches: chains of work requests in one post, up to the whole queue.
    &[FlowShape { pattern: "WRITE 256", batch: [8, 1], ..RC }],
    &[FlowShape { pattern: "SEND 256", batch: [16, 32], depth: [64, 128], ..RC }],
    &[FlowShape { pattern: "READ 256", batch: [4, 1], ..RC }],
    &[FlowShape { pattern: "SEND 512", batch: [4, 8], ..UC }],
    &[FlowShape { pattern: "WRITE 512", batch: [16, 1], ..RC }],
    &[FlowShape { pattern: "SEND 300", batch: [8, 16], ..UD }],
    // Scatter-gather lists and receive vectors.
    &[FlowShape { pattern: "WRITE 1000+1+3000", ..RC }],
    &[FlowShape { pattern: "SEND 100+200+300+400", ..RC }],
    &[FlowShape { pattern: "READ 1024+512+64", ..RC }],
    &[FlowShape { pattern: "WRITE 2048+100", ..UC }],
    &[FlowShape { pattern: "SEND 4096", recv: "1024+1024+2048", ..RC }],
    &[FlowShape { pattern: "SEND 4096, SEND 32", recv: "64+8192", ..RC }],
    &[FlowShape { pattern: "SEND 1500+500", recv: "1000+1000", ..UC }],
    &[FlowShape { pattern: "SEND 600+400", recv: "200+800", ..UD }],
    // Request vectors of several operations and sizes.
    &[FlowShape { pattern: "WRITE 4096, SEND 256, READ 2048", ..RC }],
    &[FlowShape { pattern: "WRITE 64, WRITE 32768, WRITE 128", depth: [8, 1], ..RC }],
    &[FlowShape { pattern: "SEND 3000+1000, SEND 64, WRITE 2000", batch: [8, 8], ..RC }],
    &[FlowShape { pattern: "WRITE 2048, SEND 100", batch: [2, 1], ..UC }],
    &[FlowShape { pattern: "READ 5000, WRITE 64, READ 64, WRITE 5000, SEND 1", batch: [3, 2], ..RC }],
    // MRs that take turns, at one end and at both.
    &[FlowShape { mrs: [4, 1], ..RC }],
    &[FlowShape { mrs: [1, 4], ..RC }],
    &[FlowShape { pattern: "WRITE 1024+1024, WRITE 64", mrs: [3, 5], mr_size: 16 << 10, ..RC }],
    &[FlowShape { pattern: "READ 2048", mrs: [2, 4], ..RC }],
    &[FlowShape { pattern: "SEND 2048", mrs: [2, 3], ..RC }],
    &[FlowShape { pattern: "WRITE 2048", mrs: [2, 2], ..UC }],
    // Many QPs.
    &[FlowShape { pattern: "WRITE 1024", qps: 16, depth: [4, 1], mrs: [1, 2], ..RC }],
    &[FlowShape { pattern: "SEND 1024", qps: 32, depth: [4, 8], mr_size: 4096, ..RC }],
    &[FlowShape { pattern: "SEND 512", qps: 16, depth: [4, 16], mrs: [2, 2], ..UD }],
    // Directions.
    &[FlowShape { pattern: "WRITE 2048", ..BACK }],
    &[RC, BACK],
    &[FlowShape { pattern: "SEND 1024", ..RC }, FlowShape { pattern: "READ 3000", ..BACK }],
    &[FlowShape { pattern: "WRITE 300", ..UC }, FlowShape { pattern: "SEND 2000", ..BACK }],
    &[FlowShape { ends: ["a", "a"], ..RC }],
    &[FlowShape { ends: ["b", "b"], pattern: "SEND 1024", ..RC }, RC],
];

/// What the pair file says about marks of packets for [`MARKED`].
pub const MARKS: &str = "traffic_class: 104, udp_source_port: 50123";

/// Flows whose packets are marked, connected ones and datagrams.
pub const MARKED: &[FlowShape] = &[FlowShape { pattern: "WRITE 2000", ..RC }, FlowShape { ends: ["b", "a"], ..UD }];

/// Operation and elements of each request. Units: bytes.
pub fn requests(pattern: &str) -> Vec<(&str, Vec<u64>)> {
    let request = |text| {
        let (op, sizes) = str::split_once(text, ' ').expect("operation and sizes");
        (op, sizes.split('+').map(|size| size.parse().expect("a size")).collect())
    };
    pattern.split(", ").map(request).collect()
}

/// The workload file of these flows.
pub fn yaml(flows: &[FlowShape]) -> String {
    let mut text = "kelpie: workload/1\nflows:\n".to_owned();
    for flow in flows {
        let FlowShape { ends: [from, to], qp_type, qps, mtu, depth, batch, pattern, recv, mrs, mr_size } = flow;
        let requests = requests(pattern).into_iter().map(|(op, sizes)| format!("{{op: {op}, sge: {}}}", list(&sizes)));
        let requests: Vec<String> = requests.collect();
        let recv =
            if recv.is_empty() { String::new() } else { format!("    recv_sge: [{}]\n", recv.replace('+', ", ")) };
        write!(
            text,
            "  - from: {from}\n    to: {to}\n    qp_type: {qp_type}\n    qps: {qps}\n    mtu: {mtu}\n    \
             wq_depth: {{send: {}, recv: {}}}\n    batch: {{send: {}, recv: {}}}\n    \
             pattern: [{}]\n{recv}    memory:\n      \
             from: {{device: \"dram:0\", mrs: {}, mr_size: {mr_size}}}\n      \
             to: {{device: \"dram:0\", mrs: {}, mr_size: {mr_size}}}\n",
            depth[0],
            depth[1],
            batch[0],
            batch[1],
            requests.join(", "),
            mrs[0],
            mrs[1]
        )
        .expect("text grows");
    }
    text
}

fn list(sizes: &[u64]) -> String {
    format!("{sizes:?}")
}

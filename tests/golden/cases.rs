//! The 18 anomalies as points: each trigger, each of its conditions broken alone, and each fix. No measuring.

use kelpie_spaces::{
    Batch, Bytes, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, QpType, Request, Workload,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A workload in the terms of the paper's appendix A.
#[derive(Debug, Clone)]
pub struct Point {
    pub qp_type: QpType,
    pub op: Opcode,
    pub both_ways: bool,
    pub loopback: bool,
    pub one_way: bool,
    pub qps: u32,
    pub mtu: u64,
    pub depth: u32,
    pub batch: u32,
    /// SGE sizes of each request of the vector.
    pub pattern: Vec<Vec<u64>>,
    pub mrs: u32,
    pub mr_size: u64,
    pub memory: [Device; 2],
}

impl Point {
    pub fn workload(&self) -> Workload {
        let memory = |host: Host| Memory {
            device: self.memory[host.index()],
            mrs: self.mrs,
            mr_size: Bytes(self.mr_size.max(self.pattern.iter().flatten().copied().max().unwrap_or(0))),
        };
        let flow = |from: Host, to: Host| Flow {
            from,
            to,
            qp_type: self.qp_type,
            qps: self.qps,
            mtu: Mtu::try_from(self.mtu).expect("the cases use path MTUs"),
            wq_depth: Depths { send: self.depth, recv: self.depth },
            batch: Batch { send: self.batch, recv: self.batch },
            pattern: self
                .pattern
                .iter()
                .map(|sge| Request { op: self.op, sge: sge.iter().map(|size| Bytes(*size)).collect() })
                .collect(),
            recv_sge: Vec::new(),
            inline: Bytes(0),
            memory: MemoryPair { from: memory(from), to: memory(to) },
        };
        let mut flows = Vec::new();
        if self.loopback {
            // Anomaly 13: traffic from b to a beside traffic from a to itself.
            if self.one_way {
                flows.push(flow(Host::B, Host::A));
            }
            flows.push(flow(Host::A, Host::A));
        } else if self.one_way {
            flows.push(flow(Host::A, Host::B));
        }
        if self.both_ways {
            flows.push(flow(Host::B, Host::A));
        }
        Workload::new(flows)
    }
}

/// The trigger of an anomaly, from `tests/anomalies.yaml`.
pub fn trigger(id: u32) -> Point {
    let text = include_str!("../anomalies.yaml");
    let data: serde_yaml::Value = serde_yaml::from_str(text).expect("anomalies.yaml is YAML");
    let anomalies = data["anomalies"].as_sequence().expect("a list of anomalies");
    let anomaly = anomalies.iter().find(|anomaly| anomaly["id"].as_u64() == Some(u64::from(id))).expect("18 anomalies");
    let trigger = &anomaly["trigger"];
    let size = |value: &serde_yaml::Value| serde_yaml::from_value::<Bytes>(value.clone()).expect("a size").0;
    let number = |key: &str| trigger[key].as_u64().map(|value| value as u32);
    let list = |key: &str| trigger[key].as_sequence().map(|sizes| sizes.iter().map(size).collect::<Vec<u64>>());
    let pattern = match (list("sge"), list("messages")) {
        (Some(sge), _) => vec![sge],
        (None, Some(messages)) => messages.into_iter().map(|size| vec![size]).collect(),
        (None, None) => panic!("anomaly {id} has neither sge nor messages"),
    };
    let memory = match trigger["memory"].as_str() {
        Some("gpu") => [Device::Gpu(0); 2],
        _ if trigger["memory_b"].as_str().is_some() => [Device::Dram(0), Device::Dram(1)],
        _ => [Device::Dram(0); 2],
    };
    Point {
        qp_type: serde_yaml::from_value(trigger["qp_type"].clone()).expect("a QP type"),
        op: serde_yaml::from_value(trigger["opcode"].clone()).expect("an opcode"),
        both_ways: trigger["bidirectional"].as_bool().unwrap_or(false),
        loopback: trigger["flows"].as_str().is_some(),
        one_way: true,
        qps: number("qps").unwrap_or(8),
        mtu: u64::from(number("mtu").expect("an MTU")),
        depth: number("wq_depth").expect("a depth"),
        batch: number("wqe_batch").expect("a batch"),
        pattern,
        mrs: number("mrs").expect("MRs"),
        mr_size: size(&trigger["mr_size"]),
        memory,
    }
}

/// One broken condition: its name with the new value, and the point.
pub type Broken = (&'static str, fn(&mut Point));

/// An anomaly with what is to be shown of it.
pub struct Anomaly {
    pub id: u32,
    pub subsystem: &'static str,
    pub broken: &'static [Broken],
}

/// Every anomaly; a condition is broken in each direction that leaves it, by a clear step.
#[rustfmt::skip]
pub const ANOMALIES: [Anomaly; 18] = [
    Anomaly { id: 1, subsystem: "F", broken: &[
        ("qp_type RC", |p| p.qp_type = QpType::Rc),
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("wqe_batch 32", |p| p.batch = 32),
        ("wqe_batch 8", |p| p.batch = 8),
        ("wqe_batch 1", |p| p.batch = 1),
        ("wq_depth 128", |p| p.depth = 128),
        ("wq_depth 64", |p| p.depth = 64),
    ] },
    Anomaly { id: 2, subsystem: "F", broken: &[
        ("qp_type RC", |p| p.qp_type = QpType::Rc),
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("wqe_batch 32", |p| p.batch = 32),
        ("wqe_batch 64", |p| p.batch = 64),
        ("wq_depth 512", |p| p.depth = 512),
        ("wq_depth 128", |p| p.depth = 128),
        ("message 2KiB", |p| (p.pattern, p.mtu) = (vec![vec![2 * KIB]], 2048)),
        ("message 4KiB", |p| (p.pattern, p.mtu) = (vec![vec![4 * KIB]], 4096)),
        ("qps 8", |p| p.qps = 8),
        ("qps 4", |p| p.qps = 4),
        ("qps 1", |p| p.qps = 1),
    ] },
    Anomaly { id: 3, subsystem: "F", broken: &[
        ("opcode WRITE", |p| p.op = Opcode::Write),
        ("opcode SEND", |p| p.op = Opcode::Send),
        ("mtu 2048", |p| p.mtu = 2048),
        ("mtu 4096", |p| p.mtu = 4096),
        ("message 8KiB", |p| p.pattern = vec![vec![8 * KIB]]),
        ("message 4KiB", |p| p.pattern = vec![vec![4 * KIB]]),
        ("message 1KiB", |p| p.pattern = vec![vec![KIB]]),
    ] },
    Anomaly { id: 4, subsystem: "F", broken: &[
        ("opcode WRITE", |p| p.op = Opcode::Write),
        ("opcode SEND", |p| p.op = Opcode::Send),
        ("one way", |p| p.both_ways = false),
        ("wqe_batch 16", |p| p.batch = 16),
        ("wqe_batch 8", |p| p.batch = 8),
        ("wqe_batch 1", |p| p.batch = 1),
        ("sge_count 2", |p| p.pattern = vec![vec![128, 128]]),
        ("sge_count 1", |p| p.pattern = vec![vec![128]]),
        ("sge_count 1 of 512B", |p| p.pattern = vec![vec![512]]),
        ("qps 40", |p| p.qps = 40),
        ("qps 16", |p| p.qps = 16),
    ] },
    Anomaly { id: 5, subsystem: "F", broken: &[
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("opcode WRITE", |p| p.op = Opcode::Write),
        ("opcode READ", |p| p.op = Opcode::Read),
        ("mtu 2048", |p| p.mtu = 2048),
        ("mtu 4096", |p| p.mtu = 4096),
        ("wqe_batch 32", |p| p.batch = 32),
        ("wqe_batch 16", |p| p.batch = 16),
        ("wqe_batch 1", |p| p.batch = 1),
        ("wq_depth 512", |p| p.depth = 512),
        ("wq_depth 128", |p| p.depth = 128),
        ("message 1KiB", |p| p.pattern = vec![vec![512, 512]]),
        ("message 512B", |p| p.pattern = vec![vec![256, 256]]),
        ("message 16KiB", |p| p.pattern = vec![vec![8 * KIB, 8 * KIB]]),
        ("message 64KiB", |p| p.pattern = vec![vec![32 * KIB, 32 * KIB]]),
    ] },
    Anomaly { id: 6, subsystem: "F", broken: &[
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("opcode WRITE", |p| p.op = Opcode::Write),
        ("opcode READ", |p| p.op = Opcode::Read),
        ("mtu 2048", |p| p.mtu = 2048),
        ("mtu 4096", |p| p.mtu = 4096),
        ("wqe_batch 32", |p| p.batch = 32),
        ("wqe_batch 64", |p| p.batch = 64),
        ("sge_count 1", |p| p.pattern = vec![vec![KIB]]),
        ("sge_count 1 of 512B", |p| p.pattern = vec![vec![512]]),
        ("wq_depth 512", |p| p.depth = 512),
        ("wq_depth 128", |p| p.depth = 128),
        ("message 4KiB", |p| p.pattern = vec![vec![2 * KIB, 2 * KIB]]),
        ("message 64KiB", |p| p.pattern = vec![vec![32 * KIB, 32 * KIB]]),
        ("qps 16", |p| p.qps = 16),
        ("qps 8", |p| p.qps = 8),
        ("qps 1", |p| p.qps = 1),
    ] },
    Anomaly { id: 7, subsystem: "F", broken: &[
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("opcode SEND", |p| p.op = Opcode::Send),
        ("opcode READ", |p| p.op = Opcode::Read),
        ("wqe_batch 8", |p| p.batch = 8),
        ("wqe_batch 16", |p| p.batch = 16),
        ("wqe_batch 64", |p| p.batch = 64),
        ("message 4KiB", |p| p.pattern = vec![vec![4 * KIB]]),
        ("message 64KiB", |p| p.pattern = vec![vec![64 * KIB]]),
        ("mrs 256", |p| p.mrs = 256),
        ("mrs 64", |p| p.mrs = 64),
        ("mrs 1", |p| p.mrs = 1),
    ] },
    Anomaly { id: 8, subsystem: "F", broken: &[
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("opcode SEND", |p| p.op = Opcode::Send),
        ("opcode READ", |p| p.op = Opcode::Read),
        ("wqe_batch 8", |p| p.batch = 8),
        ("wqe_batch 16", |p| p.batch = 16),
        ("wq_depth 64", |p| p.depth = 64),
        ("wq_depth 128", |p| p.depth = 128),
        ("message 4KiB", |p| p.pattern = vec![vec![4 * KIB]]),
        ("message 64KiB", |p| p.pattern = vec![vec![64 * KIB]]),
        ("qps 240", |p| p.qps = 240),
        ("qps 96", |p| p.qps = 96),
        ("qps 24", |p| p.qps = 24),
    ] },
    Anomaly { id: 9, subsystem: "F", broken: &[
        ("one way", |p| p.both_ways = false),
        ("sge_count 2", |p| p.pattern = vec![vec![128, 64 * KIB]]),
        ("sge_count 1", |p| p.pattern = vec![vec![128], vec![64 * KIB], vec![KIB]]),
        ("pattern all small", |p| p.pattern = vec![vec![128, 128, 128]]),
        ("pattern all 1KiB", |p| p.pattern = vec![vec![KIB, KIB, KIB]]),
        ("pattern all large", |p| p.pattern = vec![vec![64 * KIB, 64 * KIB, 64 * KIB]]),
    ] },
    Anomaly { id: 10, subsystem: "F", broken: &[
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("opcode SEND", |p| p.op = Opcode::Send),
        ("opcode READ", |p| p.op = Opcode::Read),
        ("one way", |p| p.both_ways = false),
        ("wqe_batch 16", |p| p.batch = 16),
        ("wqe_batch 8", |p| p.batch = 8),
        ("wqe_batch 1", |p| p.batch = 1),
        ("pattern all large", |p| p.pattern = vec![vec![64 * KIB]]),
        ("pattern all small", |p| p.pattern = vec![vec![128]]),
        ("pattern all 4KiB", |p| p.pattern = vec![vec![4 * KIB]]),
        ("qps 80", |p| p.qps = 80),
        ("qps 16", |p| p.qps = 16),
    ] },
    Anomaly { id: 11, subsystem: "F", broken: &[
        ("one way", |p| p.both_ways = false),
        ("memory on one socket", |p| p.memory = [Device::Dram(0); 2]),
    ] },
    Anomaly { id: 12, subsystem: "F", broken: &[
        ("memory dram:0", |p| p.memory = [Device::Dram(0); 2]),
        ("memory dram:0, one size", |p| (p.memory, p.pattern) = ([Device::Dram(0); 2], vec![vec![64 * KIB]])),
    ] },
    Anomaly { id: 13, subsystem: "F", broken: &[
        ("no loopback", |p| p.loopback = false),
        ("loopback alone", |p| p.one_way = false),
    ] },
    Anomaly { id: 14, subsystem: "H", broken: &[
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("one way", |p| p.both_ways = false),
        ("mtu 2048", |p| p.mtu = 2048),
        ("mtu 1024", |p| p.mtu = 1024),
        ("sge_count 2", |p| p.pattern = vec![vec![64 * KIB; 2]]),
        ("sge_count 1", |p| p.pattern = vec![vec![64 * KIB]]),
        ("qps 512", |p| p.qps = 512),
        ("qps 64", |p| p.qps = 64),
    ] },
    Anomaly { id: 15, subsystem: "H", broken: &[
        ("qp_type RC", |p| p.qp_type = QpType::Rc),
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("wq_depth 32", |p| p.depth = 32),
        ("wq_depth 16", |p| p.depth = 16),
        ("qps 16", |p| p.qps = 16),
        ("qps 8", |p| p.qps = 8),
        ("qps 1", |p| p.qps = 1),
    ] },
    Anomaly { id: 16, subsystem: "H", broken: &[
        ("opcode WRITE", |p| p.op = Opcode::Write),
        ("opcode SEND", |p| p.op = Opcode::Send),
        ("mtu 2048", |p| p.mtu = 2048),
        ("mtu 4096", |p| p.mtu = 4096),
        ("wqe_batch 4", |p| p.batch = 4),
        ("wqe_batch 1", |p| p.batch = 1),
        ("qps 128", |p| p.qps = 128),
        ("qps 16", |p| p.qps = 16),
    ] },
    Anomaly { id: 17, subsystem: "H", broken: &[
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("opcode WRITE", |p| p.op = Opcode::Write),
        ("opcode READ", |p| p.op = Opcode::Read),
        ("mtu 2048", |p| p.mtu = 2048),
        ("mtu 4096", |p| p.mtu = 4096),
        ("wqe_batch 32", |p| p.batch = 32),
        ("wqe_batch 64", |p| p.batch = 64),
        ("wq_depth 64", |p| p.depth = 64),
        ("wq_depth 32", |p| p.depth = 32),
        ("message 4KiB", |p| p.pattern = vec![vec![4 * KIB]]),
        ("message 64KiB", |p| p.pattern = vec![vec![64 * KIB]]),
        ("qps 32", |p| p.qps = 32),
        ("qps 8", |p| p.qps = 8),
        ("qps 1", |p| p.qps = 1),
    ] },
    Anomaly { id: 18, subsystem: "H", broken: &[
        ("qp_type UC", |p| p.qp_type = QpType::Uc),
        ("opcode SEND", |p| p.op = Opcode::Send),
        ("opcode READ", |p| p.op = Opcode::Read),
        ("one way", |p| p.both_ways = false),
        ("mtu 2048", |p| p.mtu = 2048),
        ("mtu 4096", |p| p.mtu = 4096),
        ("wqe_batch 8", |p| p.batch = 8),
        ("wqe_batch 1", |p| p.batch = 1),
        ("message 256KiB", |p| p.pattern = vec![vec![256 * KIB]]),
        ("message 1MiB", |p| p.pattern = vec![vec![MIB]]),
        ("qps 8", |p| p.qps = 8),
        ("qps 4", |p| p.qps = 4),
    ] },
];

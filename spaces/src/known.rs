//! The 18 anomalies of the Collie paper as data, from `catalog/anomalies.yaml`. Whether they show is measured
//! elsewhere.

use serde::{Deserialize, Deserializer};

use crate::region::Region;
use crate::units::Bytes;
use crate::workload::{Batch, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, QpType, Request, Workload};

/// One anomaly of the paper. Source: Collie, table 2 and appendix A.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperAnomaly {
    /// Its number in table 2.
    pub id: u32,
    /// The subsystem of table 1 that shows it.
    pub subsystem: String,
    /// Whether it was known before the paper.
    pub known_before: bool,
    /// What is seen.
    pub symptom: Sign,
    /// The necessary conditions, as features.
    pub conditions: Region,
    /// What it needs beside them, of which no feature speaks.
    pub premise: Option<String>,
    /// A setting that shows it.
    pub trigger: Trigger,
    /// Why, as far as the paper says.
    pub cause: Option<String>,
    /// What mends it.
    pub fix: Option<String>,
    /// How contradictions of the paper are read.
    pub note: Option<String>,
}

/// A symptom in the words of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// Pause frames.
    Pause,
    /// Low throughput without pause.
    Low,
}

/// A workload in the terms of the paper's appendix A. Source: Collie, appendix A.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Transport of every flow.
    pub qp_type: QpType,
    /// Operation of every request.
    #[serde(rename = "opcode")]
    pub op: Opcode,
    /// Whether the same flow also runs from `b` to `a`.
    #[serde(default, rename = "bidirectional")]
    pub both_ways: bool,
    /// Whether a flow runs from `a` to itself.
    #[serde(default)]
    pub loopback: bool,
    /// Whether there is the first flow: from `a` to `b`, with loopback from `b` to `a`.
    #[serde(default = "yes")]
    pub one_way: bool,
    /// QPs of each flow.
    pub qps: u32,
    /// Path MTU. Units: bytes.
    pub mtu: u64,
    /// Depth of send and receive queues. Units: work requests.
    #[serde(rename = "wq_depth")]
    pub depth: u32,
    /// Work requests per post call, send and receive.
    #[serde(rename = "wqe_batch")]
    pub batch: u32,
    /// Elements of each request. Units: bytes.
    #[serde(deserialize_with = "lists_of_sizes")]
    pub pattern: Vec<Vec<u64>>,
    /// MRs per QP.
    pub mrs: u32,
    /// Size of each MR, at least that of the largest element. Units: bytes.
    #[serde(deserialize_with = "size")]
    pub mr_size: u64,
    /// Memory of `a` and of `b`.
    #[serde(default = "first_nodes")]
    pub memory: [Device; 2],
}

fn yes() -> bool {
    true
}

fn first_nodes() -> [Device; 2] {
    [Device::Dram(0); 2]
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Bytes::deserialize(deserializer)?.0)
}

fn lists_of_sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u64>>, D::Error> {
    let lists = Vec::<Vec<Bytes>>::deserialize(deserializer)?;
    Ok(lists.into_iter().map(|list| list.into_iter().map(|size| size.0).collect()).collect())
}

impl Trigger {
    /// The flows that it stands for.
    ///
    /// # Panics
    /// Where `mtu` is no path MTU.
    pub fn workload(&self) -> Workload {
        let mut flows = Vec::new();
        if self.loopback {
            if self.one_way {
                flows.push(self.flow(Host::B, Host::A));
            }
            flows.push(self.flow(Host::A, Host::A));
        } else if self.one_way {
            flows.push(self.flow(Host::A, Host::B));
        }
        if self.both_ways {
            flows.push(self.flow(Host::B, Host::A));
        }
        Workload::new(flows)
    }

    fn flow(&self, from: Host, to: Host) -> Flow {
        let largest = self.pattern.iter().flatten().copied().max().unwrap_or(0);
        let memory = |host: Host| Memory {
            device: self.memory[host.index()],
            mrs: self.mrs,
            mr_size: Bytes(self.mr_size.max(largest)),
        };
        let request = |sge: &Vec<u64>| Request { op: self.op, sge: sge.iter().map(|size| Bytes(*size)).collect() };
        Flow {
            qp_type: self.qp_type,
            qps: self.qps,
            mtu: Mtu::try_from(self.mtu).expect("a trigger has one of the path MTUs"),
            wq_depth: Depths { send: self.depth, recv: self.depth },
            batch: Batch { send: self.batch, recv: self.batch },
            pattern: self.pattern.iter().map(request).collect(),
            memory: MemoryPair { from: memory(from), to: memory(to) },
            ..Flow::plain(from, to)
        }
    }
}

/// Every anomaly, in the order of their numbers.
pub fn anomalies() -> Vec<PaperAnomaly> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct AnomalyFile {
        anomalies: Vec<PaperAnomaly>,
    }
    let file: AnomalyFile = serde_yaml::from_str(include_str!("../catalog/anomalies.yaml"))
        .expect("the file is part of the program, and a test reads it");
    file.anomalies
}

/// The anomaly with this symptom whose conditions a workload meets; of several that with the most.
pub fn like(symptom: Sign, workload: &Workload) -> Option<PaperAnomaly> {
    let met = anomalies().into_iter().filter(|one| one.symptom == symptom && one.conditions.contains(workload));
    met.max_by_key(|one| one.conditions.conditions.len())
}

/// The anomaly of a number, 1 to 18.
pub fn anomaly(id: u32) -> Option<PaperAnomaly> {
    anomalies().into_iter().find(|anomaly| anomaly.id == id)
}

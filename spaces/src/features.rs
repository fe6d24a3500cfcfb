//! Features: the words in which conditions speak about a workload, and how each is read from one. Regions live in `region`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;
use crate::workload::{Flow, Host, Memory, Workload};

/// A message (or scatter-gather element) of at most this size is short in a mix.
///
/// Units: bytes. Source: our choice, because every mix in Collie's appendix A (9, 10, 12) has one of 1 KiB or less.
pub const MIX_SHORT: Bytes = Bytes(1 << 10);

/// A message (or scatter-gather element) of at least this size is long in a mix.
///
/// Units: bytes. Source: our choice, because every mix in Collie's appendix A (9, 10, 12) has one of 64 KiB.
pub const MIX_LONG: Bytes = Bytes(64 << 10);

/// One observable property of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Transports of all flows, sorted and joined by `+`.
    QpType,
    /// Opcodes of all requests, sorted and joined by `+`.
    Opcode,
    /// Largest path MTU. Units: bytes.
    Mtu,
    /// Most QPs of one flow.
    Qps,
    /// QPs of all flows together.
    TotalQps,
    /// Most send work requests in one post call.
    SendBatch,
    /// Most receive work requests in one post call.
    RecvBatch,
    /// Deepest send queue.
    SendWqDepth,
    /// Deepest receive queue.
    RecvWqDepth,
    /// Longest scatter-gather list.
    SgeCount,
    /// Smallest message of any request. Units: bytes.
    MessageMin,
    /// Largest message of any request. Units: bytes.
    MessageMax,
    /// Smallest scatter-gather element of any request. Units: bytes.
    SgeMin,
    /// Whether one request vector holds a short and a long element or message.
    MessageMix,
    /// Most MRs per QP, of either side.
    Mrs,
    /// MRs of the requesters of all flows together.
    TotalMrs,
    /// Largest MR, of either side. Units: bytes.
    MrSize,
    /// Memory device of the first flow's requester.
    MemoryRequester,
    /// Memory device of the first flow's responder.
    MemoryResponder,
    /// Memory device that received data are written to; of several the last, in the order DRAM, GPU and of their numbers.
    MemoryWritten,
    /// Whether traffic runs from `a` to `b` and from `b` to `a`.
    Bidirectional,
    /// Whether some flow stays on its host.
    Loopback,
}

/// The value of a feature: a word, or a number where values have an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FeatureValue {
    /// An ordered value, in the feature's unit.
    Number(u64),
    /// One of a few words; booleans are `true` and `false`.
    Category(String),
}

impl FeatureValue {
    /// The number, where the value is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            FeatureValue::Number(number) => Some(*number),
            FeatureValue::Category(_) => None,
        }
    }

    /// The word, where the value is one.
    pub fn into_word(self) -> Option<String> {
        match self {
            FeatureValue::Number(_) => None,
            FeatureValue::Category(word) => Some(word),
        }
    }
}

impl fmt::Display for FeatureValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeatureValue::Number(number) => number.fmt(f),
            FeatureValue::Category(word) => word.fmt(f),
        }
    }
}

/// Text that names no feature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a feature of a workload")]
pub struct UnknownFeature(pub String);

impl Feature {
    /// Every feature, in the order in which reports show them.
    pub const ALL: [Feature; 22] = [
        Feature::QpType,
        Feature::Opcode,
        Feature::Mtu,
        Feature::Qps,
        Feature::TotalQps,
        Feature::SendBatch,
        Feature::RecvBatch,
        Feature::SendWqDepth,
        Feature::RecvWqDepth,
        Feature::SgeCount,
        Feature::MessageMin,
        Feature::MessageMax,
        Feature::SgeMin,
        Feature::MessageMix,
        Feature::Mrs,
        Feature::TotalMrs,
        Feature::MrSize,
        Feature::MemoryRequester,
        Feature::MemoryResponder,
        Feature::MemoryWritten,
        Feature::Bidirectional,
        Feature::Loopback,
    ];

    /// The name in YAML, JSON and reports.
    pub fn name(self) -> &'static str {
        match self {
            Feature::QpType => "qp_type",
            Feature::Opcode => "opcode",
            Feature::Mtu => "mtu",
            Feature::Qps => "qps",
            Feature::TotalQps => "total_qps",
            Feature::SendBatch => "send_batch",
            Feature::RecvBatch => "recv_batch",
            Feature::SendWqDepth => "send_wq_depth",
            Feature::RecvWqDepth => "recv_wq_depth",
            Feature::SgeCount => "sge_count",
            Feature::MessageMin => "message_min",
            Feature::MessageMax => "message_max",
            Feature::SgeMin => "sge_min",
            Feature::MessageMix => "message_mix",
            Feature::Mrs => "mrs",
            Feature::TotalMrs => "total_mrs",
            Feature::MrSize => "mr_size",
            Feature::MemoryRequester => "memory_requester",
            Feature::MemoryResponder => "memory_responder",
            Feature::MemoryWritten => "memory_written",
            Feature::Bidirectional => "bidirectional",
            Feature::Loopback => "loopback",
        }
    }

    /// Whether its values are numbers with an order, so that a condition is a range.
    pub fn is_ordered(self) -> bool {
        !matches!(
            self,
            Feature::QpType
                | Feature::Opcode
                | Feature::MessageMix
                | Feature::MemoryRequester
                | Feature::MemoryResponder
                | Feature::MemoryWritten
                | Feature::Bidirectional
                | Feature::Loopback
        )
    }

    /// A number of its unit as people write it: sizes with their suffix.
    pub fn written(self, number: u64) -> String {
        if self.is_size() { Bytes(number).to_string() } else { number.to_string() }
    }

    /// Whether its values are sizes in bytes.
    pub fn is_size(self) -> bool {
        matches!(self, Feature::Mtu | Feature::MessageMin | Feature::MessageMax | Feature::SgeMin | Feature::MrSize)
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Feature {
    type Err = UnknownFeature;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Feature::ALL
            .into_iter()
            .find(|feature| feature.name() == text)
            .ok_or_else(|| UnknownFeature(text.chars().take(40).collect()))
    }
}

impl Workload {
    /// The value of one feature.
    ///
    /// Where flows differ, counts, depths and sizes are those of the largest.
    pub fn feature(&self, feature: Feature) -> FeatureValue {
        match self.number(feature) {
            Some(number) => FeatureValue::Number(number),
            None => FeatureValue::Category(self.category(feature)),
        }
    }

    /// The features in which two workloads differ, in the order of [`Feature::ALL`].
    pub fn differing(&self, other: &Workload) -> Vec<Feature> {
        Feature::ALL.into_iter().filter(|feature| self.feature(*feature) != other.feature(*feature)).collect()
    }

    fn number(&self, feature: Feature) -> Option<u64> {
        let largest = |value: fn(&Flow) -> u64| self.flows.iter().map(value).max().unwrap_or(0);
        let messages = || self.flows.iter().flat_map(|flow| &flow.pattern).map(|request| request.message().0);
        Some(match feature {
            Feature::Mtu => largest(|flow| flow.mtu.bytes()),
            Feature::Qps => largest(|flow| flow.qps.into()),
            Feature::TotalQps => self.flows.iter().map(|flow| u64::from(flow.qps)).sum(),
            Feature::SendBatch => largest(|flow| flow.batch.send.into()),
            Feature::RecvBatch => largest(|flow| flow.batch.recv.into()),
            Feature::SendWqDepth => largest(|flow| flow.wq_depth.send.into()),
            Feature::RecvWqDepth => largest(|flow| flow.wq_depth.recv.into()),
            Feature::SgeCount => {
                largest(|flow| flow.pattern.iter().map(|request| request.sge.len() as u64).max().unwrap_or(0))
            }
            Feature::MessageMin => messages().min().unwrap_or(0),
            Feature::MessageMax => messages().max().unwrap_or(0),
            Feature::SgeMin => {
                let requests = self.flows.iter().flat_map(|flow| &flow.pattern);
                requests.flat_map(|request| &request.sge).map(|size| size.0).min().unwrap_or(0)
            }
            Feature::Mrs => largest(|flow| flow.memory.from.mrs.max(flow.memory.to.mrs).into()),
            Feature::TotalMrs => {
                let mrs = |flow: &Flow| u64::from(flow.qps) * u64::from(flow.memory.from.mrs);
                self.flows.iter().map(mrs).fold(0, u64::saturating_add)
            }
            Feature::MrSize => largest(|flow| flow.memory.from.mr_size.max(flow.memory.to.mr_size).0),
            _ => return None,
        })
    }

    fn category(&self, feature: Feature) -> String {
        match feature {
            Feature::QpType => joined(self.flows.iter().map(|flow| flow.qp_type.to_string())),
            Feature::Opcode => {
                joined(self.flows.iter().flat_map(|flow| &flow.pattern).map(|request| request.op.to_string()))
            }
            Feature::MessageMix => self.flows.iter().any(Flow::is_mixed).to_string(),
            Feature::MemoryRequester => {
                self.flows.first().map(|flow| flow.memory.from.device.to_string()).unwrap_or_default()
            }
            Feature::MemoryResponder => {
                self.flows.first().map(|flow| flow.memory.to.device.to_string()).unwrap_or_default()
            }
            Feature::MemoryWritten => {
                let written = self.flows.iter().flat_map(Flow::written).map(|(.., memory)| memory.device);
                written.max().map(|device| device.to_string()).unwrap_or_default()
            }
            Feature::Bidirectional => self.is_bidirectional().to_string(),
            Feature::Loopback => self.flows.iter().any(Flow::is_loopback).to_string(),
            ordered => unreachable!("{ordered} is ordered and was read as a number"),
        }
    }

    /// Whether traffic crosses the wire in both directions.
    pub fn is_bidirectional(&self) -> bool {
        let crosses = |from| self.flows.iter().any(|flow| flow.from == from && flow.to != from);
        crosses(crate::Host::A) && crosses(crate::Host::B)
    }
}

impl Flow {
    /// Whether the request vector holds a short and a long element or message ([`MIX_SHORT`], [`MIX_LONG`]).
    pub fn is_mixed(&self) -> bool {
        let mut sizes = self.pattern.iter().flat_map(|request| &request.sge).copied();
        let short = sizes.any(|size| size <= MIX_SHORT);
        short && self.pattern.iter().any(|request| request.sge.iter().any(|size| *size >= MIX_LONG))
    }

    /// The memory that each of its requests writes to, its host, and whether that is the requester: it is where data
    /// come back.
    pub(crate) fn written(&self) -> impl Iterator<Item = (Host, bool, &Memory)> {
        self.pattern.iter().map(|request| {
            if request.op.brings_back() {
                (self.from, true, &self.memory.from)
            } else {
                (self.to, false, &self.memory.to)
            }
        })
    }
}

/// The distinct words, sorted and joined by `+`.
fn joined(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = words.collect();
    words.sort_unstable();
    words.dedup();
    words.join("+")
}

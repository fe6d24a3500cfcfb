//! Whether a finding names the features that the paper's table does.

use std::collections::BTreeSet;

use kelpie_reports::brief::row_of_the_paper;
use kelpie_search::Finding;
use kelpie_spaces::{Feature, Region};
use serde::{Deserialize, Serialize};

/// How a finding compares with the row of Table 2 whose conditions its workload meets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Likeness {
    /// The row's number.
    pub anomaly: u32,
    /// Levers that both name.
    pub both: u64,
    /// Levers that the finding names.
    pub named: u64,
    /// Levers that the row names.
    pub asked: u64,
}

impl Likeness {
    /// With a row of this subsystem, such as `sim:F`; `None` if the workload meets none.
    pub fn of(finding: &Finding, subsystem: &str) -> Option<Self> {
        let row = row_of_the_paper(finding.symptom, &finding.workload)?;
        if subsystem.strip_prefix("sim:") != Some(&row.subsystem) {
            return None;
        }
        let [named, asked] = [&finding.mfs, &row.conditions].map(levers);
        let both = named.intersection(&asked).count() as u64;
        Some(Self { anomaly: row.id, both, named: named.len() as u64, asked: asked.len() as u64 })
    }
}

/// What a region speaks of; features that a workload changes together, as both queues of a connection, count once.
fn levers(region: &Region) -> BTreeSet<Feature> {
    let one_of_each = region.conditions.iter().map(|condition| match condition.feature {
        Feature::QpType => Feature::Opcode,
        Feature::RecvBatch => Feature::SendBatch,
        Feature::RecvWqDepth => Feature::SendWqDepth,
        Feature::TotalQps => Feature::Qps,
        Feature::TotalMrs => Feature::Mrs,
        Feature::MessageMin => Feature::MessageMax,
        Feature::MemoryWritten => Feature::MemoryResponder,
        feature => feature,
    });
    one_of_each.collect()
}

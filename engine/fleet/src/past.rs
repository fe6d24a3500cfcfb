//! What the store has of qualifications that ended: which nodes were in and out by which checks.

use std::collections::BTreeMap;

use kelpie_criteria::{FleetState, FleetVerdict, NodeQualification};
use kelpie_reports::qualification::EarlierRun;
use kelpie_store::{QualificationId, Store};

use crate::plan::Plan;
use crate::qualification::{QualificationDocument, VERSION};

/// A qualification that ended.
#[derive(Debug, Clone)]
pub struct PastRun {
    /// Its number.
    pub id: QualificationId,
    /// When it began. Units: seconds since 1970.
    pub began: i64,
    /// Its plan.
    pub plan: Plan,
    /// What was said of its nodes.
    pub nodes: BTreeMap<String, NodeQualification>,
}

impl PastRun {
    /// Whether it called a node out; none of a node that it did not have.
    pub fn is_out(&self, node: &str) -> Option<bool> {
        self.nodes.get(node).map(|node| node.state == FleetState::Out)
    }
}

/// Qualifications of this version that ended, the oldest first.
///
/// # Errors
/// The store cannot be read.
pub fn past_runs(store: &mut Store) -> anyhow::Result<Vec<PastRun>> {
    let runs = store.qualifications()?.into_iter().filter_map(|stored| {
        let document: QualificationDocument = serde_json::from_str(&stored.document).ok()?;
        let verdict: FleetVerdict = serde_json::from_str(stored.ended.as_deref()?).ok()?;
        let run = PastRun { id: stored.id, began: stored.began, plan: document.plan, nodes: verdict.nodes };
        (document.version == VERSION).then_some(run)
    });
    Ok(runs.collect())
}

/// Those before one, for its report.
///
/// # Errors
/// The store cannot be read.
pub fn before(store: &mut Store, id: QualificationId) -> anyhow::Result<Vec<EarlierRun>> {
    let earlier = past_runs(store)?.into_iter().filter(|run| run.id.0 < id.0);
    Ok(earlier.map(|run| EarlierRun { run: run.id.0, began: run.began, nodes: run.nodes }).collect())
}

//! What tests of reports are made of: campaigns over the tiny space of the store's tests. No assertions.

use kelpie_monitor::{Severity, Symptom};
use kelpie_spaces::{Space, Workload};
use kelpie_store::{Anomaly, Campaign, CampaignId, CampaignState, Experiment, FindingRecord};

use crate::stored_campaign::{Detail, StoredCampaign};

#[path = "../store/src/testing.rs"]
mod records;

pub use records::*;

/// A campaign over the tiny space.
pub fn stored_campaign(experiments: Vec<Experiment>, findings: Vec<FindingRecord>) -> StoredCampaign {
    let space = Space::from_yaml("tiny", TINY_SPACE).expect("a space");
    let campaign = Campaign {
        id: CampaignId(1),
        definition: definition(),
        state: CampaignState::Finished,
        experiments: experiments.len() as u64,
        skipped: 0,
        findings: findings.len() as u64,
        host_failures: 0,
    };
    let mut stored = StoredCampaign::begin(campaign, space, findings);
    for experiment in experiments {
        stored.details.insert(experiment.number, Detail::of(experiment.clone()));
        stored.take(experiment);
    }
    stored
}

/// A campaign with a finding, its healthy neighbour, an inconclusive and an unsupported experiment.
pub fn one_finding() -> StoredCampaign {
    let low = vec![Symptom::LowThroughput];
    stored_campaign(
        vec![
            measured(1, workload(1, 1024), sample(0.95, Some(0.0)), Vec::new()),
            measured(2, workload(4, 4096), sample(0.3, Some(0.2)), low),
            inconclusive(3),
            unsupported(4),
            measured(5, workload(2, 4096), sample(0.97, Some(0.0)), Vec::new()),
        ],
        vec![finding(1, 2, workload(4, 4096))],
    )
}

/// An anomalous experiment that lost this share of the port.
pub fn anomaly(number: u64, workload: Workload, port_lost: f64) -> Anomaly {
    let severity = Severity { port_lost, pause_ratio: 0.0 };
    Anomaly { number, symptom: Symptom::LowThroughput, severity, workload, shows_again: true, reason: None }
}

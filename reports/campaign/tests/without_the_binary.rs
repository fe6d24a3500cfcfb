//! What another program can do without the `kelpie` command: measure a subsystem, look into a host, run a campaign.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kelpie_campaign::{CampaignLimits, CampaignParts, Progress, StopReason, document};
use kelpie_examine::host::{OpenedHost, RoundPlan};
use kelpie_examine::subsystem::{ModelChanges, OpenedSubsystem};
use kelpie_monitor::{Verdict, measure_judged};
use kelpie_search::{Algorithm, Config, SignalSet};
use kelpie_spaces::Space;
use kelpie_store::{CampaignDefinition, Store};

/// Experiments of the campaign.
const BUDGET: u64 = 30;

/// Counts what is measured.
#[derive(Default)]
struct MeasurementCounter(u64);

impl Progress for MeasurementCounter {
    fn goes_on(&mut self, _: u64, _: u64, _: u64) {}

    fn read(&mut self, _: u64) {}

    fn replayed(&mut self, _: u64, _: bool) {}

    fn measured(&mut self, number: u64, _: bool) {
        self.0 = number;
    }

    fn found(&mut self, _: u64, _: &str, _: bool) {}

    fn line(&self, _: &str) {}
}

fn opened() -> OpenedSubsystem {
    OpenedSubsystem::open("sim:F", ModelChanges::default(), &|_| ()).expect("an embedded model")
}

#[test]
fn a_workload_is_measured_and_judged() {
    let anomaly = kelpie_spaces::known::anomaly(1).expect("the paper has it");
    let mut opened = opened();
    let bounds = opened.subsystem().bounds();
    let judged = measure_judged(&anomaly.trigger.workload(), &bounds, |workload, attempt| {
        opened.subsystem().measure_again(workload, attempt)
    });
    assert_eq!(judged.expect("a model measures").assessment.verdict, Verdict::Anomalous);
}

#[test]
fn the_matrix_of_a_host_is_measured_and_diagnosed() {
    let mut host = OpenedHost::simulated("a100", &[], Some(1)).expect("an embedded host");
    let plan = RoundPlan { is_busy: false, share: 1.0, by: "a test", baseline: None, goes_on: &|| true };
    let (matrix, found) = host.round(&plan).expect("a model measures").expect("nobody stops it");
    assert!(!matrix.rows.is_empty() && !matrix.columns.is_empty());
    assert_eq!(found.verdict, kelpie_diagnosis::host::HostVerdict::Healthy);
}

#[test]
fn a_campaign_runs_and_its_document_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let document = campaign(&folder.path().join("campaigns.db")).expect("it runs");
    assert!(document.contains("\"experiments\": 30"), "{document}");
}

fn campaign(database: &Path) -> anyhow::Result<String> {
    let mut opened = opened();
    let bounds = opened.subsystem().bounds();
    let space = Space::catalog("full").expect("the catalog has it");
    let config = Config::new(Algorithm::Kelpie, SignalSet::Both, 7);
    let definition = CampaignDefinition {
        kelpie_version: "a test".to_owned(),
        subsystem: "sim:F".to_owned(),
        subsystem_source: opened.source(),
        bounds,
        space: "full".to_owned(),
        space_source: space.to_yaml(),
        algorithm: config.algorithm.to_string(),
        signal: SignalSet::Both.to_string(),
        seed: 7,
        config: serde_json::to_string(&config)?,
        budget: Some(BUDGET),
    };
    let mut store = Store::create(database)?;
    let (id, _lock) = store.begin_campaign(&definition, &opened.checks())?;
    let stop = AtomicBool::new(false);
    let mut progress = MeasurementCounter::default();
    let limits =
        CampaignLimits { budget: Some(BUDGET), deadline: None, host_patience: Duration::from_secs(1), stop: &stop };
    let parts =
        CampaignParts { store: &mut store, subsystem: opened.subsystem(), bounds, limits, progress: &mut progress };
    let end = kelpie_campaign::run(id, &space, &config, parts);
    assert!(matches!(end, StopReason::Finished), "{end:?}");
    assert_eq!(progress.0, BUDGET);
    Ok(serde_json::to_string_pretty(&document::with_ruling(&mut store, id, None)?)?)
}

//! Tests of the store: order, exactness, locks, and each kind of file that is refused.

use std::collections::BTreeMap;
use std::path::Path;

use kelpie_monitor::{
    Assessment, Bounds, Confidence, DirectionLatency, DirectionRates, Latency, Measurement, PerHost, Sample, Symptom,
    Verdict,
};
use kelpie_search::Purpose as Asked;
use kelpie_spaces::{Condition, Feature, Host, Region, Test, Workload};

use super::*;
use crate::records::{CampaignDefinition, CampaignState, Experiment, ExperimentClock, FindingRecord, Outcome};

fn definition() -> CampaignDefinition {
    CampaignDefinition {
        kelpie_version: "0.0.0".to_owned(),
        subsystem: "sim:F".to_owned(),
        subsystem_source: "kelpie: model/1\n".to_owned(),
        bounds: Bounds::new(2e11, 2.15e8).with_base_rtt(3e-6),
        space: "full".to_owned(),
        space_source: "kelpie: space/1\n".to_owned(),
        algorithm: "collie".to_owned(),
        signal: "both".to_owned(),
        seed: 7,
        config: "{}".to_owned(),
        budget: Some(100),
    }
}

fn experiment(number: u64, value: f64) -> Experiment {
    let direction = DirectionRates {
        from: Host::A,
        to: Host::B,
        goodput_bps: value,
        wire_bps: value * 1.07,
        packets_per_sec: value / 3.0,
        messages_per_sec: 0.1 + 0.2,
    };
    let mut counters = PerHost::<BTreeMap<String, f64>>::default();
    counters.a.insert("rx_discards".to_owned(), 1.0 / 3.0);
    let sample = Sample { seconds: 1e-3, directions: vec![direction], pause: None, counters };
    let latency_ns = Latency { count: number, p50: 1_999, p90: 2_100, p99: 30_000, p999: 40_000, max: 60_000_000_000 };
    Experiment {
        number,
        purpose: Asked::Search.into(),
        skipped_before: number % 2,
        workload: Workload::new(Vec::new()),
        outcome: Outcome::Measured {
            measurement: Measurement {
                samples: vec![sample; 4],
                hardware_events: vec!["QP 3 in error".to_owned()],
                latency: vec![DirectionLatency { from: Host::A, to: Host::B, latency_ns }],
                confidence: Some(Confidence { half_width: Some(1.0 / 3.0), is_steady: true }),
                capacity: Some(0.7),
            },
            assessment: Assessment { verdict: Verdict::Healthy, symptoms: Vec::new(), inconclusive: None },
            attempts: 2,
        },
    }
}

fn finding(number: u64) -> FindingRecord {
    FindingRecord {
        number,
        symptom: Symptom::LowThroughput,
        found_at: 1,
        experiments_for_mfs: 31,
        confidence: 0.95,
        mfs: Region {
            conditions: vec![Condition { feature: Feature::Qps, test: Test::Range { min: Some(16), max: None } }],
        },
        workload: Workload::new(Vec::new()),
        evidence: serde_json::json!({"inside": [1, 2.5, 1e-300]}),
    }
}

const CLOCK: ExperimentClock = ExperimentClock { started_unix_ms: 1_700_000_000_000, duration_seconds: 0.25 };

#[test]
fn what_was_stored_reads_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/deep/kelpie.db");
    let mut store = Store::create(&path).unwrap();
    let (id, lock) = store.begin_campaign(&definition(), &[]).unwrap();
    let unsupported =
        Experiment { outcome: Outcome::Unsupported { reason: "no GPU".to_owned() }, ..experiment(2, 0.0) };
    let experiments = [experiment(1, 187_654_321_012.345_67), unsupported, experiment(3, 5e-324)];
    for experiment in &experiments {
        store.append_experiment(id, experiment, CLOCK).unwrap();
    }
    store.put_finding(id, &finding(1)).unwrap();
    assert_eq!(store.campaign(id).unwrap().state, CampaignState::Running);
    drop(lock);
    drop(store);

    let mut store = Store::open_to_read(&path).unwrap();
    let campaign = store.campaign(id).unwrap();
    assert_eq!(campaign.definition, definition());
    assert_eq!(
        (campaign.state, campaign.experiments, campaign.skipped, campaign.findings),
        (CampaignState::Stopped, 3, 2, 1)
    );
    for experiment in &experiments {
        assert_eq!(store.experiment(id, experiment.number).unwrap().as_ref(), Some(experiment));
    }
    let mut all = Vec::new();
    store.experiments(id, |experiment| all.push(experiment)).unwrap();
    assert_eq!(all, experiments);
    assert_eq!(store.experiment(id, 4).unwrap(), None);
    assert_eq!(store.findings(id).unwrap(), [finding(1)]);
    drop(store);

    let mut store = Store::open_to_write(&path).unwrap();
    store.finish_campaign(id, 5).unwrap();
    let campaign = store.campaign(id).unwrap();
    assert_eq!((campaign.state, campaign.skipped), (CampaignState::Finished, 7));
    store.reopen_campaign(id, None).unwrap();
    let campaign = store.campaign(id).unwrap();
    assert_eq!((campaign.state, campaign.skipped, campaign.definition.budget), (CampaignState::Stopped, 2, None));
}

#[test]
fn each_commit_is_durable_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path().join("kelpie.db")).unwrap();
    for (pragma, expected) in [("PRAGMA synchronous", "2"), ("PRAGMA journal_mode", "wal")] {
        let value: String = store
            .sql("asking", async |connection| {
                let row = sqlx::query(pragma).fetch_one(connection).await?;
                row.try_get::<i64, _>(0).map(|value| value.to_string()).or_else(|_| row.try_get(0))
            })
            .unwrap();
        assert_eq!(value, expected, "{pragma}");
    }
}

#[test]
fn records_must_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path().join("kelpie.db")).unwrap();
    let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
    store.append_experiment(id, &experiment(1, 1.0), CLOCK).unwrap();
    for number in [1, 3] {
        let refused = store.append_experiment(id, &experiment(number, 1.0), CLOCK).unwrap_err();
        assert!(matches!(refused, StoreError::OutOfOrder { .. }), "{refused}");
    }
    let refused = store.put_finding(id, &finding(2)).unwrap_err();
    assert!(matches!(refused, StoreError::OutOfOrder { .. }), "{refused}");
    let refused = store.append_experiment(id, &experiment(2, f64::NAN), CLOCK).unwrap_err();
    assert!(matches!(refused, StoreError::NotExact { .. }), "{refused}");
    assert_eq!(store.campaign(id).unwrap().experiments, 1);
}

#[test]
fn a_finding_that_is_put_again_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path().join("kelpie.db")).unwrap();
    let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
    store.append_experiment(id, &experiment(1, 1.0), CLOCK).unwrap();
    let refined = FindingRecord { confidence: 0.75, experiments_for_mfs: 9, ..finding(1) };
    for put in [finding(1), finding(2), refined.clone()] {
        store.put_finding(id, &put).unwrap();
    }
    assert_eq!(store.findings(id).unwrap(), [refined, finding(2)]);
    assert_eq!(store.campaign(id).unwrap().findings, 2);
}

#[test]
fn a_campaign_has_one_writer_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.db");
    let mut first = Store::create(&path).unwrap();
    let (id, lock) = first.begin_campaign(&definition(), &[]).unwrap();
    let mut second = Store::open_to_write(&path).unwrap();
    assert!(matches!(second.lock_campaign(id), Err(StoreError::Locked { .. })));
    let (other, _other_lock) = second.begin_campaign(&definition(), &[]).unwrap();
    second.append_experiment(other, &experiment(1, 1.0), CLOCK).unwrap();
    first.append_experiment(id, &experiment(1, 1.0), CLOCK).unwrap();
    drop(lock);
    second.lock_campaign(id).unwrap();
    assert!(matches!(second.lock_campaign(CampaignId(99)), Err(StoreError::NoCampaign { .. })));
}

#[test]
fn a_full_database_loses_nothing_that_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.db");
    let mut store = Store::create(&path).unwrap();
    let (id, lock) = store.begin_campaign(&definition(), &[]).unwrap();
    store
        .sql("limiting", async |connection| sqlx::query("PRAGMA max_page_count = 40").execute(connection).await)
        .unwrap();
    let mut stored = 0;
    let refused = loop {
        match store.append_experiment(id, &experiment(stored + 1, 1.0), CLOCK) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1000, "the limit has no effect");
    };
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    assert!(stored > 0);
    drop((store, lock));
    let mut store = Store::open_to_write(&path).unwrap();
    assert_eq!(store.campaign(id).unwrap().experiments, stored);
    store.append_experiment(id, &experiment(stored + 1, 1.0), CLOCK).unwrap();
}

/// Makes a database, lets `spoil` change it, and returns what opening says.
fn refusal(spoil: impl FnOnce(&Path)) -> StoreError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.db");
    let mut store = Store::create(&path).unwrap();
    let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
    for number in 1..50 {
        store.append_experiment(id, &experiment(number, 1.0), CLOCK).unwrap();
    }
    drop(store);
    spoil(&path);
    let opened = Store::create(&path).and_then(|mut store| {
        for number in 1..50 {
            store.experiment(id, number)?;
        }
        store.campaigns()
    });
    opened.expect_err("a spoilt database must be refused")
}

fn run_sql(path: &Path, statement: &'static str) {
    let mut store = Store::create(path).unwrap();
    store.sql("spoiling", async |connection| sqlx::query(statement).execute(connection).await).unwrap();
}

#[test]
fn files_that_are_no_database_of_this_version_are_refused() {
    let newer = refusal(|path| {
        run_sql(path, "INSERT INTO _sqlx_migrations VALUES (1000, 'next', '2030-01-01', TRUE, x'00', 1)");
    });
    assert!(matches!(newer, StoreError::Newer { found: 1000, .. }), "{newer}");
    let foreign = refusal(|path| run_sql(path, "PRAGMA application_id = 42"));
    assert!(matches!(foreign, StoreError::Foreign { .. }), "{foreign}");
    let text = refusal(|path| std::fs::write(path, "flows: []\n".repeat(1000)).unwrap());
    assert!(matches!(text, StoreError::NotADatabase { .. }), "{text}");
    let damaged = refusal(|path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[4096..].fill(0xa5);
        std::fs::write(path, bytes).unwrap();
    });
    assert!(matches!(damaged, StoreError::Damaged { .. }), "{damaged}");
    let nonsense = refusal(|path| run_sql(path, "UPDATE experiment SET measurement = '{}' WHERE number = 7"));
    assert!(matches!(nonsense, StoreError::Damaged { .. }), "{nonsense}");
    let folder = refusal(|path| {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
    });
    assert!(matches!(folder, StoreError::NotAFile { .. }), "{folder}");
}

#[test]
fn another_programs_database_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    run_sql(&path, "PRAGMA application_id = 42");
    run_sql_raw(&path, "PRAGMA journal_mode = DELETE");
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(Store::create(&path), Err(StoreError::Foreign { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// As `run_sql`, on whatever the file is.
fn run_sql_raw(path: &Path, statement: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn reading_needs_a_database_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.db");
    assert!(matches!(Store::open_to_read(&path), Err(StoreError::Missing { .. })));
    assert!(!path.exists());
    std::fs::write(&path, "").unwrap();
    assert!(matches!(Store::open_to_read(&path), Err(StoreError::Missing { .. })));
    Store::create(&path).unwrap();
    assert_eq!(Store::open_to_read(&path).unwrap().campaigns().unwrap(), []);
}

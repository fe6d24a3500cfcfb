//! Tests of the store: order, exactness, locks, and each kind of file that is refused.

use std::collections::BTreeMap;
use std::path::Path;

use kelpie_monitor::{
    Assessment, Bounds, Confidence, DirectionLatency, DirectionRates, Latency, Measurement, PerHost, Sample, Symptom,
    Verdict,
};
use kelpie_search::Purpose as Asked;
use kelpie_spaces::{Condition, Feature, Host, Region, Test, Workload};

use sqlx::{Connection as _, SqliteConnection};

use super::*;
use crate::place::{Place, both};
use crate::records::{
    CampaignDefinition, CampaignId, CampaignState, Experiment, ExperimentClock, ExperimentOutcome, FindingRecord,
};
use crate::sqlite::open::{LATEST, create_as_of};
use crate::store::checkpoints::StoredCheckpoint;
use crate::store::follow::CampaignFollower;
use crate::store::measured_again::MeasuredAgain;

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
        outcome: ExperimentOutcome::Measured {
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

fn what_was_stored_reads_back_equal(place: &Place<'_>) {
    let path = place.database("new/deep/kelpie");
    let mut store = Store::create(&path).unwrap();
    let (id, lock) = store.begin_campaign(&definition(), &[]).unwrap();
    let unsupported =
        Experiment { outcome: ExperimentOutcome::Unsupported { reason: "no GPU".to_owned() }, ..experiment(2, 0.0) };
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
    let store = Store::create(folder.path().join("kelpie.db")).unwrap();
    let (synchronous, mode) = store
        .sql("asking", |link| {
            let mode = link.one("PRAGMA journal_mode", &[])?.get::<String>("journal_mode").unwrap();
            Ok((link.number("PRAGMA synchronous", &[], "synchronous")?, mode))
        })
        .unwrap();
    assert_eq!((synchronous, mode.as_str()), (2, "wal"));
}

fn records_must_follow_each_other(place: &Place<'_>) {
    let mut store = Store::create(place.database("kelpie")).unwrap();
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

fn a_finding_that_is_put_again_is_replaced(place: &Place<'_>) {
    let mut store = Store::create(place.database("kelpie")).unwrap();
    let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
    store.append_experiment(id, &experiment(1, 1.0), CLOCK).unwrap();
    let refined = FindingRecord { confidence: 0.75, experiments_for_mfs: 9, ..finding(1) };
    for put in [finding(1), finding(2), refined.clone()] {
        store.put_finding(id, &put).unwrap();
    }
    assert_eq!(store.findings(id).unwrap(), [refined, finding(2)]);
    assert_eq!(store.campaign(id).unwrap().findings, 2);
}

fn a_campaign_has_one_writer_and_others_go_on(place: &Place<'_>) {
    let path = place.database("kelpie");
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
    store.sql("limiting", |link| link.execute("PRAGMA max_page_count = 40", &[])).unwrap();
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
    let store = Store::create(path).unwrap();
    store.sql("spoiling", |link| link.execute(statement, &[])).unwrap();
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

/// All that can be read of a campaign, as text.
fn everything(database: impl Into<Database>, id: CampaignId) -> Result<String, StoreError> {
    let database = database.into();
    let mut store = Store::open_to_read(&database)?;
    let campaign = store.campaign(id)?;
    let mut experiments = Vec::new();
    store.experiments(id, |experiment| experiments.push(experiment))?;
    store.verify(id)?;
    let (checks, label, clock) = (store.checks(id)?, store.label(id)?, store.clock(id)?);
    let (findings, again, checkpoint) = (store.findings(id)?, store.measured_again(id)?, store.checkpoint(id)?);
    let (anomalies, has_verdict) = (store.anomalies(id)?, store.has_verdict(id)?);
    let some = (store.experiment(id, 1)?, store.experiments_after(id, 0, 1)?);
    let news = CampaignFollower::new(&database, &campaign).read()?;
    let qualifications = store.qualifications()?;
    let mut units = Vec::new();
    for stored in &qualifications {
        store.units(stored.id, 0, |_, unit| {
            units.push(unit.to_owned());
            ControlFlow::Continue(())
        })?;
    }
    Ok(format!(
        "{campaign:?} {experiments:?} {checks:?} {label:?} {clock:?} {findings:?} {again:?} {checkpoint:?} \
         {anomalies:?} {has_verdict:?} {some:?} {news:?} \
         {qualifications:?} {units:?}"
    ))
}

#[test]
fn a_database_of_any_version_is_read_as_it_is_and_upgraded_when_written() {
    for version in 1..=LATEST {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kelpie.db");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(create_as_of(&path, version));
        run_sql_raw(
            &path,
            "INSERT INTO campaign (kelpie_version, subsystem, subsystem_source, bounds, space, space_source, \
             algorithm, signal, seed, config, budget, state) VALUES ('0.1.0', 'sim:F', '', \
             '{\"max_bps\":1.0,\"max_pps\":1.0}', 'full', '', 'collie', 'both', 7, '{}', 10, 'finished')",
        );
        run_sql_raw(
            &path,
            "INSERT INTO experiment (campaign, number, purpose, skipped_before, workload, attempts, unsupported) \
             VALUES (1, 1, 'search', 0, '{\"kelpie\":\"workload/1\",\"flows\":[]}', 0, 'no GPU')",
        );
        let before = std::fs::read(&path).unwrap();
        let read = everything(&path, CampaignId(1)).unwrap_or_else(|error| panic!("version {version}: {error}"));
        assert_eq!(std::fs::read(&path).unwrap(), before, "reading changes nothing");

        drop(Store::open_to_write(&path).unwrap());
        assert_eq!(everything(&path, CampaignId(1)).unwrap(), read, "version {version}");
    }
}

/// Tables whose rows have no checksum: texts of people, what a clock says, and what decides nothing.
const UNCHECKED: [&str; 5] = ["campaign_check", "campaign_clock", "campaign_label", "experiment_clock", "failed_try"];

#[test]
fn every_column_of_every_row_is_in_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.db");
    let mut store = Store::create(&path).unwrap();
    let (id, lock) = store.begin_campaign(&definition(), &[]).unwrap();
    store.append_experiment(id, &experiment(1, 1.0), CLOCK).unwrap();
    store.put_finding(id, &finding(1)).unwrap();
    let again = MeasuredAgain { after: 1, finding: Some(1), verdict: Verdict::Healthy, bps: 1.0, deviation: 0.5 };
    store.add_measured_again(id, 1, &again).unwrap();
    store.put_checkpoint(id, &StoredCheckpoint { experiments: 1, state: "{}".to_owned() }).unwrap();
    store.finish_campaign(id, 0).unwrap();
    let qualification = store.begin_qualification("{}").unwrap();
    store.add_units(qualification, 1, &["{}".to_owned()]).unwrap();
    store.end_qualification(qualification, "{}").unwrap();
    let columns = store
        .sql("reading the columns", |link| {
            link.rows(
                "SELECT tables.name AS of, columns.name AS name, columns.type AS type FROM sqlite_master AS tables, \
                 pragma_table_info(tables.name) AS columns WHERE tables.type = 'table' AND tables.name GLOB '[a-z]*' \
                 AND tables.name NOT GLOB 'sqlite_*' AND columns.pk = 0",
                &[],
            )
        })
        .unwrap();
    let columns: Vec<[String; 3]> =
        columns.iter().map(|row| ["of", "name", "type"].map(|column| row.get(column).unwrap())).collect();
    drop((store, lock));
    let whole = everything(&path, id).unwrap();
    for [table, column, kind] in columns.iter().filter(|[table, ..]| !UNCHECKED.contains(&table.as_str())) {
        let changed = folder.path().join(format!("{table}-{column}.db"));
        std::fs::copy(&path, &changed).unwrap();
        let other = if kind == "TEXT" {
            format!("coalesce({column} || ' ', 'x')")
        } else {
            format!("coalesce({column} + 1, 1)")
        };
        let statement = format!("UPDATE {table} SET {column} = {other}");
        let rows = change(&changed, statement);
        assert_eq!(rows, 1, "a row of {table} is needed above");
        // A checkpoint that is not as it was is as good as none.
        let read = everything(&changed, id);
        let is_noticed = read.as_ref().is_err_and(|error| matches!(error, StoreError::Damaged { .. }));
        assert!(is_noticed || (table == "checkpoint" && read.unwrap() != whole), "{table}.{column}");
    }
}

/// Changes rows past all rules of their table, and says how many.
fn change(path: &Path, statement: String) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).foreign_keys(false);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::query("PRAGMA ignore_check_constraints = 1").execute(&mut connection).await.unwrap();
        let changed = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        changed.rows_affected()
    })
}

both![
    what_was_stored_reads_back_equal,
    records_must_follow_each_other,
    a_finding_that_is_put_again_is_replaced,
    a_campaign_has_one_writer_and_others_go_on,
];

//! Tests of following: what is new comes once and in order, the database stays as it is, and its writer never waits.

use std::time::{Duration, Instant};

use super::*;
use crate::link::values;
use crate::lock::WriterLock;
use crate::place::{Place, both};
use crate::records::Experiment;
use crate::testing::{HOSTILE, definition, finding, inconclusive, measured, sample, unsupported, workload};
use kelpie_monitor::{Symptom, Verdict};

const CLOCK: ExperimentClock = ExperimentClock { started_unix_ms: 1_700_000_000_000, duration_seconds: 0.25 };

fn healthy(number: u64) -> Experiment {
    let mut experiment = measured(number, workload(1, 1024), sample(0.95, None), Vec::new());
    experiment.skipped_before = 1;
    experiment
}

/// A writer with a campaign, and a follower of it.
fn begun(database: impl Into<Database>) -> (Store, CampaignId, WriterLock, CampaignFollower) {
    let database = database.into();
    let mut store = Store::create(&database).unwrap();
    let (id, lock) = store.begin_campaign(&definition(), &[]).unwrap();
    let follower = CampaignFollower::new(&database, &store.campaign(id).unwrap());
    (store, id, lock, follower)
}

fn numbers(news: &CampaignNews) -> Vec<u64> {
    news.experiments.iter().map(|brief| brief.number).collect()
}

fn a_running_campaign_is_followed(place: &Place<'_>) {
    let path = place.database("kelpie");
    let (mut writer, id, lock, mut follower) = begun(&path);
    let first = follower.read().unwrap();
    assert_eq!((first.state, first.budget, first.stored), (CampaignState::Running, Some(100), 0));
    assert!(first.experiments.is_empty() && first.findings.is_empty() && first.is_all);

    let low = vec![Symptom::LowThroughput];
    for experiment in
        [healthy(1), measured(2, workload(4, 4096), sample(0.3, None), low), inconclusive(3), unsupported(4)]
    {
        writer.append_experiment(id, &experiment, CLOCK).unwrap();
    }
    let second = follower.read().unwrap();
    assert_eq!(numbers(&second), [1, 2, 3, 4]);
    let ended: Vec<Ended> = second.experiments.iter().map(|brief| brief.ended).collect();
    let judged = Ended::Judged;
    assert_eq!(
        ended,
        [judged(Verdict::Healthy), judged(Verdict::Anomalous), judged(Verdict::Inconclusive), Ended::Unsupported]
    );
    let anomalies: Vec<Anomaly> = second.experiments.iter().filter_map(|brief| brief.anomaly.clone()).collect();
    assert_eq!(anomalies, writer.anomalies(id).unwrap());
    let [anomaly] = &anomalies[..] else { panic!("one is anomalous: {anomalies:?}") };
    assert_eq!((anomaly.number, anomaly.symptom, &anomaly.workload), (2, Symptom::LowThroughput, &workload(4, 4096)));
    assert!((anomaly.severity.port_lost - 0.7).abs() < 1e-9, "{anomaly:?}");
    let brief = &second.experiments[0];
    assert_eq!((brief.purpose.name(), brief.skipped_before, brief.clock), ("search", 1, Some(CLOCK)));
    assert_eq!(brief.signals.get(kelpie_search::UTILISATION), Some(&0.95));
    assert!(brief.signals.contains_key("cache_miss"), "{:?}", brief.signals);
    assert!(second.experiments[3].signals.is_empty());

    writer.put_finding(id, &finding(1, 2, workload(4, 4096))).unwrap();
    writer.append_experiment(id, &healthy(5), CLOCK).unwrap();
    let third = follower.read().unwrap();
    assert_eq!(numbers(&third), [5], "what was read is not read again");
    assert_eq!(third.findings, [finding(1, 2, workload(4, 4096))]);

    writer.finish_campaign(id, 7).unwrap();
    let fourth = follower.read().unwrap();
    assert_eq!((fourth.state, fourth.skipped_at_end), (CampaignState::Finished, 7));
    assert!(fourth.experiments.is_empty() && fourth.findings.is_empty());
    writer.reopen_campaign(id, Some(200)).unwrap();
    assert_eq!(follower.read().unwrap().budget, Some(200));
    drop(lock);
    assert_eq!(follower.read().unwrap().state, CampaignState::Stopped);
}

fn of_many_experiments_only_the_latest_have_signals_and_few_come_at_once(place: &Place<'_>) {
    let (writer, id, _lock, mut follower) = begun(place.database("kelpie"));
    let many = MOST_AT_ONCE + 10;
    let counters = "{\"a\":{\"cache_miss\":5.0},\"b\":{}}";
    let measurement =
        format!("{{\"samples\":[{{\"seconds\":1.0,\"directions\":[],\"pause\":null,\"counters\":{counters}}}]}}");
    writer
        .sql("filling", |link| {
            link.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2) \
                 INSERT INTO experiment \
                 (campaign, number, purpose, skipped_before, workload, measurement, assessment, attempts) \
                 SELECT $1, i, 'search', 0, '[]', $3, '{\"verdict\":\"healthy\",\"symptoms\":[]}', 1 FROM n",
                values![id, many, &measurement],
            )
        })
        .unwrap();
    let first = follower.read().unwrap();
    assert_eq!((first.experiments.len() as u64, first.stored, first.is_all), (MOST_AT_ONCE, many, false));
    let second = follower.read().unwrap();
    assert_eq!((numbers(&second).len(), second.is_all), (10, true));
    let with_signals = first.experiments.iter().chain(&second.experiments).filter(|brief| !brief.signals.is_empty());
    assert_eq!(with_signals.count() as u64, RECENT);
    assert!(
        second.experiments.iter().all(|brief| brief.clock.is_none() && brief.signals.get("cache_miss") == Some(&5.0))
    );
}

#[test]
fn following_changes_nothing_and_never_blocks_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.db");
    let (mut writer, id, lock, mut follower) = begun(&path);
    writer.append_experiment(id, &healthy(1), CLOCK).unwrap();
    let log = folder.path().join("kelpie.db-wal");
    let before = (std::fs::read(&path).unwrap(), std::fs::read(&log).unwrap());
    assert_eq!(numbers(&follower.read().unwrap()), [1]);
    assert_eq!((std::fs::read(&path).unwrap(), std::fs::read(&log).unwrap()), before, "reading writes nothing");

    // Read while the writer is in the middle of a transaction, which it holds the only write lock for.
    let read_within = writer.write("writing", None, |link| {
        link.execute("UPDATE campaign SET seed = 8, checksum = NULL", &[])?;
        let path = path.clone();
        let read = std::thread::spawn(move || {
            let mut store = Store::open_to_read(&path).unwrap();
            let campaign = store.campaigns().unwrap().remove(0);
            (campaign.definition.seed, CampaignFollower::new(&path, &campaign).read().unwrap().stored)
        });
        Ok(read.join().expect("reading does not wait for the writer"))
    });
    assert_eq!(read_within.unwrap(), (7, 1));

    // A reader in a tight loop, which is worse than any watcher.
    let reader_path = path.clone();
    let campaign = writer.campaign(id).unwrap();
    let reader = std::thread::spawn(move || {
        let mut follower = CampaignFollower::new(&reader_path, &campaign);
        let mut seen = 0;
        while seen < 200 {
            seen += follower.read().expect("a reader is never turned away").experiments.len();
        }
    });
    let mut slowest = Duration::ZERO;
    for number in 2..=200 {
        let start = Instant::now();
        writer.append_experiment(id, &healthy(number), CLOCK).unwrap();
        slowest = slowest.max(start.elapsed());
    }
    reader.join().expect("the reader saw all of them");
    assert!(slowest < Duration::from_secs(5), "the writer waited for {slowest:?}");

    // Nobody has the database open now but the writer: it tidies up, and the file alone is the whole campaign.
    drop((writer, lock));
    assert!(!log.exists(), "the writer was the last to close");
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(Store::open_to_read(&copy).unwrap().campaign(id).unwrap().experiments, 200);
}

#[test]
fn a_campaign_that_goes_away_or_makes_no_sense_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.db");
    let (mut writer, id, lock, mut follower) = begun(&path);
    writer.append_experiment(id, &healthy(1), CLOCK).unwrap();
    let spoil = |statement: &'static str| {
        writer.sql("spoiling", |link| link.execute(statement, &[])).unwrap();
    };
    spoil("UPDATE experiment SET purpose = char(27) || '[2J', assessment = '{}', checksum = NULL");
    assert!(matches!(follower.read(), Err(StoreError::Damaged { .. })));
    spoil("UPDATE experiment SET assessment = '{\"verdict\":\"healthy\",\"symptoms\":[]}'");
    let news = follower.read().unwrap();
    assert_eq!(
        news.experiments[0].purpose.name(),
        "\u{1b}[2J",
        "read again, and as it is: it is cleaned where it is shown"
    );
    spoil("PRAGMA foreign_keys = OFF");
    spoil("DELETE FROM campaign");
    assert!(matches!(follower.read(), Err(StoreError::NoCampaign { .. })));
    drop((writer, lock));
    std::fs::write(&path, HOSTILE).unwrap();
    assert!(matches!(follower.read(), Err(StoreError::NotADatabase { .. } | StoreError::Io { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(follower.read(), Err(StoreError::Missing { .. })));
}

both![a_running_campaign_is_followed, of_many_experiments_only_the_latest_have_signals_and_few_come_at_once,];

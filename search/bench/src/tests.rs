//! Campaigns side by side: equal seeds, what is stopped, what is kept, and how scores are counted.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

use kelpie_monitor::Symptom;
use kelpie_search::{Algorithm, SignalSet};

use super::score::Spread;
use super::weakness::Weakness;
use super::*;

fn space() -> Space {
    Space::catalog("full").expect("in the catalog")
}

fn jobs(seeds: &[u64], budget: u64) -> Vec<Job> {
    let subsystem = SimSubsystem::load("F").expect("embedded");
    let job = |seed| Job {
        subsystem: subsystem.clone(),
        config: Config::new(Algorithm::Random, SignalSet::Perf, seed),
        budget,
        keeps_course: seed == 1,
    };
    seeds.iter().copied().map(job).collect()
}

fn go(jobs: &[Job], archive: &Archive, stop: bool) -> (Vec<Option<Record>>, usize) {
    let measured = AtomicUsize::new(0);
    let count = || _ = measured.fetch_add(1, Ordering::Relaxed);
    let records = run(&space(), jobs, archive, &AtomicBool::new(stop), &count).expect("it is simulated");
    (records, measured.into_inner())
}

fn settings(budget: u64) -> Settings {
    let yaml = SimSubsystem::load("F").expect("embedded").yaml();
    Settings {
        kelpie_version: "1".to_owned(),
        space: space().to_yaml(),
        budget,
        subsystems: [("sim:F".to_owned(), yaml)].into(),
    }
}

#[test]
fn equal_seeds_come_to_the_same_whatever_thread_runs_them() {
    let (records, measured) = go(&jobs(&[1, 2, 1], 15), &Archive::nowhere(), false);
    let records: Vec<Record> = records.into_iter().flatten().collect();
    assert_eq!(records.iter().map(|record| record.seed).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!(records[0], records[2]);
    assert_eq!(measured, 45);
    for record in &records {
        let (found, touched) = (record.found.weaknesses(15), record.touched.weaknesses(15));
        assert!(record.experiments == 15 && !touched.is_empty() && found.is_subset(&touched), "{record:?}");
        let course = record.course.as_ref().map(|course| course["receive_wqe_cache_miss"].len());
        assert_eq!(course.map(|len| len > 0 && len <= 15), (record.seed == 1).then_some(true), "{course:?}");
    }
}

#[test]
fn a_search_that_is_stopped_has_no_record() {
    assert_eq!(go(&jobs(&[1, 2], 40), &Archive::nowhere(), true), (vec![None, None], 0));
}

#[test]
fn what_is_kept_is_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path(), &settings(20)).unwrap();
    let (first, measured) = go(&jobs(&[1], 20), &archive, false);
    assert_eq!(measured, 20);
    let again = Archive::open(folder.path(), &settings(20)).unwrap();
    let (both, measured) = go(&jobs(&[1, 2], 20), &again, false);
    assert_eq!((both.len(), &both[0], measured), (2, &first[0], 20));
    let (count, never) = (AtomicUsize::new(0), AtomicBool::new(false));
    let measure = || {
        let subsystem = SimSubsystem::load("F").expect("embedded");
        let step = || _ = count.fetch_add(1, Ordering::Relaxed);
        let points = points(&space(), std::slice::from_ref(&subsystem), 30, &again, &never, &step).unwrap();
        vec![Known::of(&subsystem, &points.expect("nothing stopped it")["sim:F"]).unwrap()]
    };
    let first = measure();
    assert_eq!(count.load(Ordering::Relaxed), 30);
    assert_eq!(measure(), first);
    assert_eq!(count.load(Ordering::Relaxed), 30, "random points are kept too");
    assert!(first[0].weaknesses.iter().any(|count| count.triggers.contains(&1)), "{first:?}");
    assert!(first[0].weaknesses.iter().any(|count| count.points > 0), "{first:?}");
}

#[test]
fn a_file_that_is_no_result_of_this_campaign_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path(), &settings(20)).unwrap();
    go(&jobs(&[1], 20), &archive, false);
    let wanted = jobs(&[1, 2], 20);
    let [own, other] = [0, 1].map(|at| folder.path().join(format!("{}.json", archive::escaped(&wanted[at].key()))));
    let error = |archive: &Archive| {
        let ran = run(&space(), &wanted[1..], archive, &AtomicBool::new(false), &|| {});
        format!("{:#}", ran.expect_err("it is not of this campaign"))
    };
    std::fs::copy(&own, &other).unwrap();
    assert!(error(&archive).contains("another result"), "{}", error(&archive));
    std::fs::write(&other, "{").unwrap();
    assert!(error(&archive).contains("remove it"), "{}", error(&archive));
    std::fs::remove_file(folder.path().join("settings.json")).unwrap();
    let refused = Archive::open(folder.path(), &settings(30)).expect_err("whose are they?").to_string();
    assert!(refused.contains("no settings.json"), "{refused}");
}

#[test]
fn other_settings_are_refused_by_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    Archive::open(folder.path(), &settings(20)).unwrap();
    let mut more = settings(20);
    more.subsystems = [("sim:H".to_owned(), "H".to_owned())].into();
    Archive::open(folder.path(), &more).expect("another subsystem is no other setting");
    let mut other = settings(20);
    other.subsystems.insert("sim:H".to_owned(), "another".to_owned());
    for (settings, expected) in [
        (settings(30), "a budget of 20 experiments"),
        (Settings { kelpie_version: "2".to_owned(), ..settings(20) }, "another version of Kelpie"),
        (Settings { space: "other".to_owned(), ..settings(20) }, "another space"),
        (other, "another model of sim:H"),
    ] {
        let error = Archive::open(folder.path(), &settings).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("--out"), "{error}");
    }
}

#[test]
fn no_two_keys_share_a_file() {
    let keys = ["sim:a/b 1", "sim:a_b 1", "sim:a%2Fb 1", "sim:a b 1"];
    let names: BTreeSet<String> = keys.iter().map(|key| archive::escaped(key)).collect();
    assert_eq!(names.len(), keys.len());
    assert!(names.iter().all(|name| !name.contains(['/', ' '])), "{names:?}");
}

fn record(seed: u64, found: &[(&str, u64)]) -> Record {
    let mut record = Record::new("sim:F", &Config::new(Algorithm::Random, SignalSet::Perf, seed));
    for (limiting, at) in found {
        record.found.add(Symptom::Pause, limiting, *at);
    }
    record
}

#[test]
fn a_weakness_is_symptom_and_part_whatever_traffic_shows_it() {
    let mut record =
        record(1, &[("cache:UD_SEND", 5), ("cache:RC_SEND", 7), ("wire:RC_READ", 9), ("cache:UD_SEND", 11)]);
    assert_eq!((record.found.firsts(), record.found.witnesses()), (vec![5, 9], 3));
    record.found.add(Symptom::LowThroughput, "cache:UD_SEND", 12);
    assert_eq!(record.found.firsts(), [5, 9, 12]);
    assert_eq!(record.found.weaknesses(9).len(), 2);
    let read: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!(read, record);
}

#[test]
fn campaigns_that_did_not_get_there_count_with_their_budget() {
    let records = vec![record(1, &[("a:x", 10), ("b:x", 40)]), record(2, &[("a:x", 30)])];
    let score =
        Score { subsystem: "sim:F".to_owned(), algorithm: Algorithm::Random, signal: None, budget: 100, records };
    let reaches: Vec<(usize, f64, usize)> =
        score.to_found().iter().map(|reach| (reach.weaknesses, reach.experiments.mean, reach.reached)).collect();
    assert_eq!(reaches, [(1, 20.0, 2), (2, 70.0, 1)]);
    assert_eq!(score.found(30).map(|spread| spread.mean), Some(1.0));
    let count = known::Count { weakness: Weakness::split(Symptom::Pause, "a:x").0, points: 3, triggers: Vec::new() };
    let other = known::Count { weakness: Weakness::split(Symptom::Pause, "c:x").0, ..count.clone() };
    let known = [Known { subsystem: "sim:F".to_owned(), points: 9, weaknesses: vec![count, other] }];
    assert_eq!(score.known_share(&known, 20).map(|spread| spread.mean), Some(0.25));
}

#[test]
fn spread_is_over_campaigns() {
    let (mean, deviation) = (2.0, Some(std::f64::consts::SQRT_2));
    assert_eq!(Spread::of([1.0, 3.0].into_iter()), Some(Spread { mean, deviation }));
    assert_eq!(Spread::of([2.0].into_iter()), Some(Spread { mean, deviation: None }));
    assert_eq!(Spread::of([].into_iter()), None);
}

#[test]
fn a_pinned_workload_is_touched_and_not_found() {
    let mut job = jobs(&[1], 12).remove(0);
    job.config.algorithm = Algorithm::Anneal;
    let record = go(&[job], &Archive::nowhere(), false).0.remove(0).expect("nothing stopped it");
    assert!(record.findings > 0 && !record.touched.firsts().is_empty(), "{record:?}");
    assert!(record.found.firsts().is_empty(), "{record:?}");
}

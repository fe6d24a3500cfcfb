//! Campaigns on a closed-form subsystem: stopping, going on, failures, and equal content for equal seeds.

mod checkpoints;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use kelpie_monitor::{DirectionRates, PerHost, Sample};
use kelpie_reports::repeats::ControlReport;
use kelpie_search::{Algorithm, SignalSet};
use kelpie_spaces::{Direction, Host, loaded_directions};
use kelpie_store::{CampaignDefinition, CampaignState};

use super::*;
use crate::document::{self, CampaignContents, Wanted};

const BUDGET: u64 = 175;

/// Nobody hears.
struct Silent;

impl Progress for Silent {
    fn goes_on(&mut self, _: u64, _: u64, _: u64) {}

    fn read(&mut self, _: u64) {}

    fn replayed(&mut self, _: u64, _: bool) {}

    fn measured(&mut self, _: u64, _: bool) {}

    fn found(&mut self, _: u64, _: &str, _: bool) {}

    fn line(&self, _: &str) {}
}

/// Slow if there are many QPs and large batches; what else happens is scripted by the measurement's number.
struct Scripted<'a> {
    script: &'a dyn Fn(u64) -> Option<MeasureError>,
    measured: u64,
    is_away: bool,
}

impl Subsystem for Scripted<'_> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn bounds(&self) -> Bounds {
        Bounds::new(1e11, 1e8)
    }

    fn ready(&mut self) -> Result<(), MeasureError> {
        if self.is_away { Err(host_gone()) } else { Ok(()) }
    }

    fn measure(&mut self, workload: &Workload) -> Result<Measurement, MeasureError> {
        self.measured += 1;
        if let Some(error) = (self.script)(self.measured) {
            return Err(error);
        }
        let flow = &workload.flows[0];
        let wire_bps = if flow.qps >= 64 && flow.batch.send >= 8 { 5e10 } else { 9.9e10 };
        let rates = |way: Direction| DirectionRates {
            from: way.from,
            to: way.to,
            goodput_bps: wire_bps / 1.1,
            wire_bps,
            packets_per_sec: wire_bps / 9000.0,
            messages_per_sec: wire_bps / 7e5,
        };
        let mut counters = PerHost::<BTreeMap<String, f64>>::default();
        counters.b.insert("qpc_cache_miss".to_owned(), f64::from(flow.qps) / 3.0);
        let directions = loaded_directions(workload).into_iter().map(rates).collect();
        let sample = Sample { seconds: 1e-3, directions, pause: None, counters };
        Ok(Measurement { samples: vec![sample; 4], ..Measurement::default() })
    }

    fn measure_again(&mut self, workload: &Workload, attempt: u32) -> Result<Option<Measurement>, MeasureError> {
        if attempt > 0 { Ok(None) } else { self.measure(workload).map(Some) }
    }
}

fn host_gone() -> MeasureError {
    MeasureError::Host {
        host: Host::B,
        operation: "starting traffic".to_owned(),
        source: "connection refused".to_owned().into(),
    }
}

fn config() -> Config {
    Config::new(Algorithm::Collie, SignalSet::Both, 5)
}

fn begin(path: &Path) -> (Store, CampaignId) {
    let mut store = Store::create(path).unwrap();
    let definition = CampaignDefinition {
        kelpie_version: "test".to_owned(),
        subsystem: "scripted".to_owned(),
        subsystem_source: String::new(),
        bounds: Bounds::new(1e11, 1e8),
        space: "full".to_owned(),
        space_source: String::new(),
        algorithm: "collie".to_owned(),
        signal: "both".to_owned(),
        seed: 5,
        config: String::new(),
        budget: Some(BUDGET),
    };
    let (id, _lock) = store.begin_campaign(&definition, &[]).unwrap();
    (store, id)
}

/// Runs a campaign with a script and a stop flag that the script may raise.
fn go(
    store: &mut Store,
    id: CampaignId,
    config: &Config,
    stop: &AtomicBool,
    script: &dyn Fn(u64) -> Option<MeasureError>,
) -> StopReason {
    let mut subsystem = Scripted { script, measured: 0, is_away: false };
    let limits = CampaignLimits { budget: Some(BUDGET), deadline: None, host_patience: Duration::ZERO, stop };
    searched(store, id, config, &mut subsystem, limits)
}

/// Runs a campaign on this subsystem.
fn searched(
    store: &mut Store,
    id: CampaignId,
    config: &Config,
    subsystem: &mut dyn Subsystem,
    limits: CampaignLimits<'_>,
) -> StopReason {
    let bounds = subsystem.bounds();
    let parts = CampaignParts { store, subsystem, bounds, limits, progress: &mut Silent };
    run(id, &Space::catalog("full").unwrap(), config, parts)
}

/// The whole content of a campaign, without its number.
fn content(store: &mut Store, id: CampaignId) -> String {
    let mut document =
        serde_json::to_value(document::of_campaign(store, id, Wanted::default(), true).unwrap()).unwrap();
    document["campaign"] = serde_json::Value::Null;
    let evidence: Vec<_> = store.findings(id).unwrap().into_iter().map(|finding| finding.evidence).collect();
    document["evidence"] = evidence.into();
    serde_json::to_string_pretty(&document).unwrap()
}

fn uninterrupted() -> String {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    let end = go(&mut store, id, &config(), &AtomicBool::new(false), &|_| None);
    assert!(matches!(end, StopReason::Finished), "{end:?}");
    let campaign = store.campaign(id).unwrap();
    assert_eq!((campaign.state, campaign.experiments), (CampaignState::Finished, BUDGET));
    assert!(campaign.findings > 0, "the subsystem has a weakness to find");
    content(&mut store, id)
}

#[test]
fn a_campaign_that_is_stopped_often_ends_like_one_that_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    let mut stops = 0;
    loop {
        let stop = AtomicBool::new(false);
        let measured = Cell::new(0);
        let end = go(&mut store, id, &config(), &stop, &|number| {
            measured.set(number);
            stop.store(number == 17, Ordering::Relaxed);
            None
        });
        match end {
            StopReason::Finished => break,
            StopReason::Interrupted => {
                assert_eq!(measured.get(), 17, "the experiment under way is finished and no other");
            }
            other => panic!("{other:?}"),
        }
        stops += 1;
    }
    assert_eq!(stops, BUDGET / 17);
    assert_eq!(content(&mut store, id), uninterrupted());
}

#[test]
fn a_host_that_fails_twice_is_asked_again_and_one_that_always_fails_stops_the_campaign() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    let stop = AtomicBool::new(false);
    let end = go(&mut store, id, &config(), &stop, &|number| matches!(number, 3 | 4 | 21..).then(host_gone));
    let StopReason::Failed(error) = end else { panic!("{end:?}") };
    let expected = "experiment 19 failed 3 times, and now every other workload does: look after the hosts: host b: \
                    starting traffic failed: connection refused";
    assert_eq!(format!("{error:#}"), expected);
    assert_eq!(store.campaign(id).unwrap().experiments, 18);
    let end = go(&mut store, id, &config(), &stop, &|_| None);
    assert!(matches!(end, StopReason::Finished), "{end:?}");
    assert_eq!(content(&mut store, id), uninterrupted(), "the hosts were to blame");
}

#[test]
fn a_workload_under_which_a_host_fails_each_time_is_an_anomaly_and_the_campaign_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    let stop = AtomicBool::new(false);
    // Experiment 11 takes three tries and another workload; experiment 27 leaves hosts on which nothing runs any more.
    let end = go(&mut store, id, &config(), &stop, &|number| matches!(number, 11..=13 | 30..).then(host_gone));
    assert!(matches!(end, StopReason::Failed(_)), "{end:?}");
    assert_eq!(store.campaign(id).unwrap().experiments, 26);
    // Somebody has repaired them: another workload runs, and then this one fails again.
    let end = go(&mut store, id, &config(), &stop, &|number| (number == 2).then(host_gone));
    assert!(matches!(end, StopReason::Finished), "{end:?}");
    let campaign = store.campaign(id).unwrap();
    assert_eq!((campaign.state, campaign.experiments), (CampaignState::Finished, BUDGET));
    assert_eq!(campaign.host_failures, 2);
    let anomalies = store.anomalies(id).unwrap();
    let failures: Vec<_> = anomalies.iter().filter(|anomaly| anomaly.symptom == Symptom::HostFailure).collect();
    assert_eq!(failures.iter().map(|anomaly| anomaly.number).collect::<Vec<_>>(), [11, 27]);
    let reason = "host b: starting traffic failed: connection refused";
    assert_eq!(failures[0].reason.as_deref(), Some(reason));
    let document =
        serde_json::to_value(document::of_campaign(&mut store, id, Wanted::default(), false).unwrap()).unwrap();
    let unexplained = document["unexplained"].to_string();
    assert!(unexplained.contains("host_failure") && unexplained.contains(reason), "{unexplained}");
    let (found, anomalies) = kelpie_reports::explained::read(&mut store, id).unwrap();
    let explained = kelpie_reports::explained::Explained::new(&found, &anomalies);
    let strict = kelpie_reports::gate::Gate { least: 1.0, ..Default::default() };
    assert_eq!(strict.stopping(&explained).len(), 2, "nothing is worse than a host that fails");
}

#[test]
fn host_failures_are_reduced_only_if_the_user_says_so() {
    let deadly = |workload: &Workload| workload.flows[0].qps >= 64;
    for is_allowed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, id) = begin(&folder.path().join("kelpie.db"));
        let stop = AtomicBool::new(false);
        let config = Config { reduce_host_failures: is_allowed, ..config() };
        let mut subsystem = Deadly { deadly: &deadly, tries: 0 };
        let limits = CampaignLimits { budget: Some(60), deadline: None, host_patience: Duration::ZERO, stop: &stop };
        let end = searched(&mut store, id, &config, &mut subsystem, limits);
        assert!(matches!(end, StopReason::Finished), "{end:?}");
        let campaign = store.campaign(id).unwrap();
        assert_eq!(campaign.experiments, 60);
        assert!(campaign.host_failures > 0 && subsystem.tries >= 3 * campaign.host_failures);
        let symptoms: Vec<_> = store.findings(id).unwrap().iter().map(|finding| finding.symptom).collect();
        assert_eq!(symptoms.contains(&Symptom::HostFailure), is_allowed, "{symptoms:?}");
    }
}

/// A host that certain workloads bring down.
struct Deadly<'a> {
    deadly: &'a dyn Fn(&Workload) -> bool,
    tries: u64,
}

impl Subsystem for Deadly<'_> {
    fn name(&self) -> &'static str {
        "deadly"
    }

    fn bounds(&self) -> Bounds {
        Bounds::new(1e11, 1e8)
    }

    fn measure(&mut self, workload: &Workload) -> Result<Measurement, MeasureError> {
        if (self.deadly)(workload) {
            self.tries += 1;
            return Err(host_gone());
        }
        Scripted { script: &|_| None, measured: 0, is_away: false }.measure(workload)
    }
}

#[test]
fn a_host_that_does_not_come_back_ends_the_campaign_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    let stop = AtomicBool::new(false);
    let mut subsystem = Scripted { script: &|_| None, measured: 0, is_away: true };
    let mut ends = |patience, deadline| {
        let host_patience = Duration::from_millis(patience);
        let limits = CampaignLimits { budget: None, deadline, host_patience, stop: &stop };
        let end = searched(&mut store, id, &config(), &mut subsystem, limits);
        let campaign = store.campaign(id).unwrap();
        assert_eq!((subsystem.measured, campaign.state, campaign.experiments), (0, CampaignState::Stopped, 0));
        end
    };
    let StopReason::Failed(error) = ends(700, None) else { panic!("must fail") };
    assert!(error.to_string().contains("did not come back"), "{error:#}");
    // An experiment was begun that says nothing.
    let end = ends(60_000, Some(Instant::now() + Duration::from_millis(100)));
    assert!(matches!(end, StopReason::Time), "{end:?}");
}

#[test]
fn a_workload_that_cannot_run_is_recorded_and_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    let stop = AtomicBool::new(false);
    let unsupported = |_| Some(MeasureError::Unsupported { reason: "no GPU on host a".to_owned() });
    let end = go(&mut store, id, &config(), &stop, &unsupported);
    assert!(matches!(end, StopReason::Finished), "{end:?}");
    let campaign = store.campaign(id).unwrap();
    assert_eq!((campaign.experiments, campaign.findings), (BUDGET, 0));
    let experiment = store.experiment(id, 1).unwrap().unwrap();
    assert_eq!(experiment.outcome, ExperimentOutcome::Unsupported { reason: "no GPU on host a".to_owned() });
}

#[test]
fn a_search_that_asks_otherwise_than_before_is_not_mixed_into_the_campaign() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    let stop = AtomicBool::new(false);
    let end = go(&mut store, id, &config(), &stop, &|number| (number > 10).then(host_gone));
    assert!(matches!(end, StopReason::Failed(_)), "{end:?}");
    let other = Config::new(Algorithm::Random, SignalSet::Both, 6);
    let StopReason::Failed(error) = go(&mut store, id, &other, &stop, &|_| None) else { panic!("must fail") };
    assert!(error.to_string().contains("asks for something else"), "{error}");
    assert_eq!(store.campaign(id).unwrap().experiments, 10);
}

#[test]
fn time_ends_a_campaign_before_the_next_experiment_and_finishes_it_if_it_has_no_budget() {
    for (budget, expected) in [(None, CampaignState::Finished), (Some(BUDGET), CampaignState::Stopped)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, id) = begin(&folder.path().join("kelpie.db"));
        let stop = AtomicBool::new(false);
        let mut subsystem = Scripted { script: &|_| None, measured: 0, is_away: false };
        let deadline = Some(Instant::now());
        let limits = CampaignLimits { budget, deadline, host_patience: Duration::ZERO, stop: &stop };
        let end = searched(&mut store, id, &config(), &mut subsystem, limits);
        assert!(matches!(end, StopReason::Time), "{end:?}");
        assert_eq!((subsystem.measured, store.campaign(id).unwrap().state), (0, expected));
    }
}

#[test]
fn a_search_that_catches_up_can_be_stopped_and_keeps_to_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    let stop = AtomicBool::new(false);
    let end = go(&mut store, id, &config(), &stop, &|number| {
        stop.store(number == 20, Ordering::Relaxed);
        None
    });
    assert!(matches!(end, StopReason::Interrupted), "{end:?}");
    store.finish_campaign(id, 0).unwrap();
    // It would ask for something else, if it asked at all.
    let other = Config::new(Algorithm::Random, SignalSet::Both, 6);
    stop.store(true, Ordering::Relaxed);
    let end = go(&mut store, id, &other, &stop, &|_| None);
    assert!(matches!(end, StopReason::Interrupted), "{end:?}");
    let mut subsystem = Scripted { script: &|_| None, measured: 0, is_away: false };
    let (deadline, stop) = (Some(Instant::now()), AtomicBool::new(false));
    let limits = CampaignLimits { budget: None, deadline, host_patience: Duration::ZERO, stop: &stop };
    let end = searched(&mut store, id, &other, &mut subsystem, limits);
    assert!(matches!(end, StopReason::Time), "{end:?}");
    let campaign = store.campaign(id).unwrap();
    let stored = (campaign.state, campaign.experiments, campaign.definition.budget);
    assert_eq!(stored, (CampaignState::Finished, 20, Some(BUDGET)), "what changed nothing leaves it as it was");
}

#[test]
fn catching_up_writes_no_finding() {
    use sqlx::ConnectOptions as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.db");
    let (mut store, id) = begin(&path);
    let end = go(&mut store, id, &config(), &AtomicBool::new(false), &|_| None);
    assert!(matches!(end, StopReason::Finished), "{end:?}");
    let before = store.findings(id).unwrap();
    assert!(!before.is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
        let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON finding BEGIN SELECT RAISE(ABORT, 'written'); END";
        sqlx::raw_sql(refuse).execute(&mut connection).await.unwrap();
    });
    let end = go(&mut store, id, &config(), &AtomicBool::new(false), &|_| None);
    assert!(matches!(end, StopReason::Finished), "{end:?}");
    assert_eq!(store.findings(id).unwrap(), before);
}

/// Runs as [`Scripted`] does, at a part of its speed that depends on what was measured before and on the run.
struct Varying<'a> {
    part: &'a dyn Fn(u64, u32) -> f64,
    measured: u64,
}

impl Subsystem for Varying<'_> {
    fn name(&self) -> &'static str {
        "varying"
    }

    fn bounds(&self) -> Bounds {
        Bounds::new(1e11, 1e8)
    }

    fn measure(&mut self, workload: &Workload) -> Result<Measurement, MeasureError> {
        Scripted { script: &|_| None, measured: 0, is_away: false }.measure(workload)
    }

    fn measure_again(&mut self, workload: &Workload, attempt: u32) -> Result<Option<Measurement>, MeasureError> {
        self.measured += 1;
        let part = (self.part)(self.measured, attempt);
        let mut measurement = self.measure(workload)?;
        for way in measurement.samples.iter_mut().flat_map(|sample| &mut sample.directions) {
            way.goodput_bps *= part;
            way.wire_bps *= part;
        }
        Ok(Some(measurement))
    }
}

/// Runs a campaign that may be stopped before so many measurements, and goes on.
fn vary(stops: &[u64], part: &dyn Fn(u64, u32) -> f64) -> (Store, CampaignId, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("kelpie.db"));
    for at in stops.iter().copied().chain([u64::MAX]) {
        let stop = AtomicBool::new(false);
        let part = |measured: u64, run: u32| {
            stop.fetch_or(measured == at, Ordering::Relaxed);
            part(measured, run)
        };
        let mut subsystem = Varying { part: &part, measured: 0 };
        let limits =
            CampaignLimits { budget: Some(BUDGET), deadline: None, host_patience: Duration::ZERO, stop: &stop };
        let end = searched(&mut store, id, &config(), &mut subsystem, limits);
        assert!(matches!((end, at), (StopReason::Finished, u64::MAX) | (StopReason::Interrupted, _)), "{at}");
    }
    (store, id, folder)
}

/// What the control workload says.
fn control(store: &mut Store, id: CampaignId) -> String {
    ControlReport::of(&store.measured_again(id).unwrap()).expect("it was measured").to_string()
}

#[test]
fn findings_that_show_now_and_then_have_their_rate_and_are_measured_again_once_however_often_a_campaign_stops() {
    let steady = |_: u64, _: u32| 1.0;
    let (mut store, id, _folder) = vary(&[], &steady);
    let first = |store: &mut Store| {
        let read = CampaignContents::of(store, id).unwrap();
        let repeats = read.repeats(read.explained().findings[0].finding);
        repeats.expect("it was measured again").to_string()
    };
    let text = first(&mut store);
    assert!(text.contains("anomalous in all 3 further runs") && !text.contains("flaky"), "{text}");
    let text = control(&mut store, id);
    assert!(text.contains("the control workload, measured 7 times, ran as at first"), "{text}");
    let whole = store.measured_again(id).unwrap();
    let (mut store, id, _folder) = vary(&[11, 40, 60, 70, 3], &steady);
    assert_eq!(store.measured_again(id).unwrap(), whole);
    let found = store.findings(id).unwrap().len();
    assert!(whole.len() - 7 <= 18 && found > 0, "at most a tenth of the experiments: {whole:?}");

    // Twice as fast in every other run after all experiments, so that nothing is slow.
    let at_end = BUDGET + 7;
    let (mut store, id, _folder) =
        vary(&[], &|measured, run| if measured > at_end && run % 2 == 1 { 1.9 } else { 1.0 });
    let text = first(&mut store);
    assert!(text.contains("anomalous in 5 of 10 further runs: flaky, at a rate of 24 to 76 %"), "{text}");
    let document =
        serde_json::to_value(document::of_campaign(&mut store, id, Wanted::default(), false).unwrap()).unwrap();
    assert_eq!(document["findings"][0]["repeats"]["anomalous"], 5, "{document}");
}

#[test]
fn a_machine_that_became_slower_is_noticed_by_the_control_workload() {
    let (mut store, id, _folder) = vary(&[], &|measured, _| if measured > 60 { 0.7 } else { 1.0 });
    let text = control(&mut store, id);
    assert!(text.contains("the machine drifted: in 4 of 7 measurements"), "{text}");
    let document =
        serde_json::to_value(document::of_campaign(&mut store, id, Wanted::default(), false).unwrap()).unwrap();
    assert_eq!(document["control"]["moved"][0]["after"], 75, "{document}");
}

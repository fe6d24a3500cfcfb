//! Going on from checkpoints, and from the beginning where one does not fit.

use kelpie_spaces::{Condition, Feature, Region, Test};
use kelpie_store::StoredCheckpoint;

use super::*;

/// A campaign that stood still after so many experiments, and its checkpoint before that.
fn with_checkpoint(path: &Path, config: &Config, experiments: u64) -> (Store, CampaignId, StoredCheckpoint) {
    let (mut store, id) = begin(path);
    let end = go(&mut store, id, config, &AtomicBool::new(false), &|number| (number > experiments).then(host_gone));
    assert!(matches!(end, StopReason::Failed(_)), "{end:?}");
    let checkpoint = store.checkpoint(id).unwrap().expect("one was due");
    assert!((CHECKPOINT_EVERY..=experiments).contains(&checkpoint.experiments), "{}", checkpoint.experiments);
    assert_eq!(store.campaign(id).unwrap().experiments, experiments);
    (store, id, checkpoint)
}

/// Without findings, so that it can rest after each experiment.
fn random(seed: u64) -> Config {
    Config {
        known: vec![Region { conditions: vec![unexplored()] }],
        ..Config::new(Algorithm::Random, SignalSet::Both, seed)
    }
}

fn unexplored() -> Condition {
    Condition { feature: Feature::Qps, test: Test::Range { min: Some(64), max: None } }
}

fn kelpie(seed: u64) -> Config {
    Config::new(Algorithm::Kelpie, SignalSet::Both, seed)
}

/// Of `faults` ways in which a stored checkpoint does not fit, three at most, and of one that fits the version alone.
fn goes_on(config: fn(u64) -> Config, stood_still: u64, faults: usize) {
    let folder = tempfile::tempdir().unwrap();
    let on = |store: &mut Store, id| {
        let end = go(store, id, &config(5), &AtomicBool::new(false), &|_| None);
        assert!(matches!(end, StopReason::Finished), "{end:?}");
        let mut all = Vec::new();
        store.experiments(id, |experiment| all.push(experiment)).unwrap();
        (all, store.findings(id).unwrap())
    };
    let at = |name: &str, seed| with_checkpoint(&folder.path().join(name), &config(seed), stood_still);
    let (mut store, id) = begin(&folder.path().join("whole.db"));
    let whole = on(&mut store, id);
    let (mut store, id, own) = at("own.db", 5);
    assert!(on(&mut store, id) == whole);

    // Of a search that is elsewhere by now: what is asked after it shows that it is what the campaign goes on from.
    let (_, _, other) = at("other.db", 6);
    if own.experiments == stood_still {
        let (mut store, id, _) = at("0.db", 5);
        store.put_checkpoint(id, &other).unwrap();
        assert!(on(&mut store, id) != whole);
    }

    let of_other_version = own.state.replacen(env!("CARGO_PKG_VERSION"), "0.0.0", 1);
    let cut = own.state[..own.state.len() / 2].to_owned();
    for (number, state) in [(1, of_other_version), (2, cut), (3, String::new())].into_iter().take(faults) {
        let (mut store, id, _) = at(&format!("{number}.db"), 5);
        store.put_checkpoint(id, &StoredCheckpoint { state, ..own }).unwrap();
        assert!(on(&mut store, id) == whole, "{number}");
    }

    // One that fits the version but not the experiments after it: there are some by now.
    let (mut store, id, _) = at("4.db", 5);
    let end = go(&mut store, id, &config(5), &AtomicBool::new(false), &|number| (number > 20).then(host_gone));
    assert!(matches!(end, StopReason::Failed(_)), "{end:?}");
    store.put_checkpoint(id, &other).unwrap();
    assert!(on(&mut store, id) == whole);
    // What was gone through has left one that fits.
    assert_eq!(store.checkpoint(id).unwrap(), Some(own));
}

#[test]
fn a_campaign_goes_on_from_its_checkpoint_or_if_that_does_not_fit_from_its_beginning() {
    goes_on(random, 100, 3);
}

/// The default search may be within a step at any moment.
#[test]
fn the_default_search_goes_on_from_its_checkpoint_too() {
    goes_on(kelpie, 140, 1);
}

#[test]
fn reading_the_past_ends_when_the_user_or_the_time_says_so_and_where_it_is_no_past_of_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id, checkpoint) = with_checkpoint(&folder.path().join("kelpie.db"), &kelpie(5), 140);
    let mut past = |is_raised: bool, deadline: Option<Instant>, most: u64| {
        let mut subsystem = Scripted { script: &|_| None, measured: 0, is_away: false };
        let stop = AtomicBool::new(is_raised);
        let bounds = subsystem.bounds();
        let limits = CampaignLimits { budget: Some(BUDGET), deadline, host_patience: Duration::ZERO, stop: &stop };
        let parts =
            CampaignParts { store: &mut store, subsystem: &mut subsystem, bounds, limits, progress: &mut Silent };
        let (mut recorder, _) = CampaignOracle::new(id, &kelpie(5), parts).unwrap();
        recorder.number = checkpoint.experiments;
        let mut visited = 0;
        let end = recorder.past(&mut |_, _, _| {
            visited += 1;
            visited <= most
        });
        (end, visited, recorder.has_diverged)
    };
    assert!(matches!(past(false, None, u64::MAX), (Ok(()), visited, false) if visited == checkpoint.experiments));
    assert!(matches!(past(true, None, u64::MAX), (Err(StopReason::Interrupted), 0, false)));
    assert!(matches!(past(false, Some(Instant::now()), u64::MAX), (Err(StopReason::Time), 0, false)));
    assert!(matches!(past(false, None, 7), (Err(StopReason::Failed(_)), 8, true)));
}

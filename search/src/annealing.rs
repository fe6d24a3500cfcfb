//! Algorithm 1 of the paper: simulated annealing over one signal after the other, restarted until the oracle stops it.

use kelpie_spaces::Workload;
use rand::RngExt;

use crate::config::SignalSet;
use crate::energy::{Target, targets};
use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};
use crate::search_state::SearchState;
use crate::signals::Observation;
use crate::triage;

/// What is not measured again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skipping {
    /// Workloads in a region already found.
    Known,
    /// Nothing; an anomaly in a known region is then an ordinary point.
    Nothing,
}

/// A point with what it showed: `P_old` and `M_old`.
struct Point {
    workload: Workload,
    seen: Observation,
}

/// Anneals over each target in turn, and over all again, until the oracle stops it or the space is covered.
pub(crate) fn run<O: Oracle>(search: &mut SearchState<'_, O>, skipping: Skipping) -> Result<(), O::Error> {
    let ranking = rank(search)?;
    while search.is_warming_up() && random_point(search)?.is_some() {}
    loop {
        for target in &ranking {
            if anneal(search, skipping, target)?.is_none() {
                return triage::finish(search);
            }
        }
    }
}

/// The targets in order, from random points that are measured first; anomalies among them become findings.
fn rank<O: Oracle>(search: &mut SearchState<'_, O>) -> Result<Vec<Target>, O::Error> {
    if search.config.signal == SignalSet::Perf {
        return Ok(targets(SignalSet::Perf, &[]));
    }
    let mut points = Vec::new();
    for _ in 0..search.config.tuning.schedule.ranking_points {
        let workload = search.space.sample(&mut search.rng);
        let seen = search.measure(&workload, Purpose::Rank)?;
        points.push(seen);
    }
    triage::catch_up(search)?;
    Ok(targets(search.config.signal, &points))
}

/// One annealing over one target, from the first temperature to the last; `None` when the space is covered.
fn anneal<O: Oracle>(
    search: &mut SearchState<'_, O>,
    skipping: Skipping,
    target: &Target,
) -> Result<Option<()>, O::Error> {
    let schedule = search.config.tuning.schedule;
    let Some(mut old) = random_point(search)? else { return Ok(None) };
    let mut temperature = schedule.initial;
    while temperature > schedule.lowest {
        for _ in 0..schedule.steps {
            let workload = search.space.mutate(&old.workload, &mut search.rng);
            let known = search.is_known(&workload);
            if known && skipping == Skipping::Known {
                search.skip(&workload);
                continue;
            }
            let seen = search.measure(&workload, Purpose::Search)?;
            if !known && seen.is_anomalous() {
                triage::catch_up(search)?;
                let Some(restart) = random_point(search)? else { return Ok(None) };
                old = restart;
            } else if accepts(search, target, temperature, &old.seen, &seen) {
                old = Point { workload, seen };
            }
        }
        temperature *= schedule.decay;
    }
    Ok(Some(()))
}

/// Lines 8 to 13: better is taken, worse with a probability that falls with the temperature.
fn accepts<O: Oracle>(
    search: &mut SearchState<'_, O>,
    target: &Target,
    temperature: f64,
    old: &Observation,
    new: &Observation,
) -> bool {
    if Outcome::from(&new.assessment) == Outcome::Inconclusive {
        return false;
    }
    match target.delta(old, new) {
        None => false,
        Some(delta) if delta < 0.0 => true,
        Some(delta) => search.rng.random::<f64>() < (-delta / temperature).exp(),
    }
}

/// `MeasureRandomPoint`: the first random point that is not anomalous; anomalies on the way become findings.
fn random_point<O: Oracle>(search: &mut SearchState<'_, O>) -> Result<Option<Point>, O::Error> {
    while let Some(workload) = search.unknown_point() {
        let seen = search.measure(&workload, Purpose::Search)?;
        if !seen.is_anomalous() {
            return Ok(Some(Point { workload, seen }));
        }
        triage::catch_up(search)?;
    }
    Ok(None)
}

//! Algorithm 1 of the paper: simulated annealing over one signal after the other, restarted until the oracle stops it.

use kelpie_spaces::Workload;
use rand::RngExt;

use crate::config::SignalSet;
use crate::energy::{Target, targets};
use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};
use crate::session::Session;
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
pub(crate) fn run<O: Oracle>(session: &mut Session<'_, O>, skipping: Skipping) -> Result<(), O::Error> {
    let ranking = rank(session)?;
    while session.is_warming_up() && random_point(session)?.is_some() {}
    loop {
        for target in &ranking {
            if anneal(session, skipping, target)?.is_none() {
                return triage::finish(session);
            }
        }
    }
}

/// The targets in order, from random points that are measured first; anomalies among them become findings.
fn rank<O: Oracle>(session: &mut Session<'_, O>) -> Result<Vec<Target>, O::Error> {
    if session.config.signal == SignalSet::Perf {
        return Ok(targets(SignalSet::Perf, &[]));
    }
    let mut points = Vec::new();
    for _ in 0..session.config.tuning.schedule.ranking_points {
        let workload = session.space.sample(&mut session.rng);
        let seen = session.measure(&workload, Purpose::Rank)?;
        points.push(seen);
    }
    triage::catch_up(session)?;
    Ok(targets(session.config.signal, &points))
}

/// One annealing over one target, from the first temperature to the last; `None` when the space is covered.
fn anneal<O: Oracle>(
    session: &mut Session<'_, O>,
    skipping: Skipping,
    target: &Target,
) -> Result<Option<()>, O::Error> {
    let schedule = session.config.tuning.schedule;
    let Some(mut old) = random_point(session)? else { return Ok(None) };
    let mut temperature = schedule.initial;
    while temperature > schedule.lowest {
        for _ in 0..schedule.steps {
            let workload = session.space.mutate(&old.workload, &mut session.rng);
            let known = session.is_known(&workload);
            if known && skipping == Skipping::Known {
                session.skip(&workload);
                continue;
            }
            let seen = session.measure(&workload, Purpose::Search)?;
            if !known && seen.is_anomalous() {
                triage::catch_up(session)?;
                let Some(restart) = random_point(session)? else { return Ok(None) };
                old = restart;
            } else if accepts(session, target, temperature, &old.seen, &seen) {
                old = Point { workload, seen };
            }
        }
        temperature *= schedule.decay;
    }
    Ok(Some(()))
}

/// Lines 8 to 13: better is taken, worse with a probability that falls with the temperature.
fn accepts<O: Oracle>(
    session: &mut Session<'_, O>,
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
        Some(delta) => session.rng.random::<f64>() < (-delta / temperature).exp(),
    }
}

/// `MeasureRandomPoint`: the first random point that is not anomalous; anomalies on the way become findings.
fn random_point<O: Oracle>(session: &mut Session<'_, O>) -> Result<Option<Point>, O::Error> {
    while let Some(workload) = session.unknown_point() {
        let seen = session.measure(&workload, Purpose::Search)?;
        if !seen.is_anomalous() {
            return Ok(Some(Point { workload, seen }));
        }
        triage::catch_up(session)?;
    }
    Ok(None)
}

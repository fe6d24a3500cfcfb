//! Algorithm 1 of the paper: simulated annealing over one signal after the other, restarted until the oracle stops it.

use kelpie_spaces::Workload;
use rand::RngExt;

use crate::config::SignalSet;
use crate::energy::{Target, targets};
use crate::mfs::KeptPart;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;
use crate::search_state::SearchState;
use crate::signals::Observation;

/// A point with what it showed: `P_old` and `M_old`.
struct AnnealingPoint {
    workload: Workload,
    seen: Observation,
}

/// Anneals over each target in turn, and over all again, until the oracle stops it or the space is covered.
pub(crate) fn run<O: Oracle>(search: &mut SearchState<'_, O>, keep: KeptPart) -> Result<(), O::Error> {
    let (ranking, mut next) = match search.take_targets() {
        Some(going_on) => going_on,
        None => (rank(search, keep)?, 0),
    };
    loop {
        search.between_steps(&ranking, next)?;
        if anneal(search, keep, &ranking[next])?.is_none() {
            return Ok(());
        }
        next = (next + 1) % ranking.len();
    }
}

/// The targets in order. Only counters have to be ranked.
fn rank<O: Oracle>(search: &mut SearchState<'_, O>, keep: KeptPart) -> Result<Vec<Target>, O::Error> {
    let signal = search.config.signal;
    let points = if signal == SignalSet::Perf { Vec::new() } else { keep.ranking_points(search)? };
    let seen: Vec<Observation> = points.into_iter().map(|(_, seen)| seen).collect();
    Ok(targets(signal, &seen))
}

/// One annealing over one target, from the first temperature to the last; `None` when the space is covered.
fn anneal<O: Oracle>(search: &mut SearchState<'_, O>, keep: KeptPart, target: &Target) -> Result<Option<()>, O::Error> {
    let schedule = search.config.schedule;
    let Some(mut old) = random_point(search, keep)? else { return Ok(None) };
    for temperature in schedule.temperatures() {
        for _ in 0..schedule.steps {
            let workload = search.space.mutate(&old.workload, &mut search.rng);
            if search.is_known(&workload) {
                search.skip(&workload);
                continue;
            }
            let seen = search.measure(&workload, Purpose::Search)?;
            if seen.is_anomalous() {
                keep.anomaly(search, &workload, &seen)?;
                let Some(restart) = random_point(search, keep)? else { return Ok(None) };
                old = restart;
            } else if accepts(search, target, temperature, &old.seen, &seen) {
                old = AnnealingPoint { workload, seen };
            }
        }
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
fn random_point<O: Oracle>(
    search: &mut SearchState<'_, O>,
    keep: KeptPart,
) -> Result<Option<AnnealingPoint>, O::Error> {
    while let Some(workload) = search.unknown_point() {
        let seen = search.measure(&workload, Purpose::Search)?;
        if !seen.is_anomalous() {
            return Ok(Some(AnnealingPoint { workload, seen }));
        }
        keep.anomaly(search, &workload, &seen)?;
    }
    Ok(None)
}

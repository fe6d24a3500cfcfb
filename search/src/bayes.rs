//! Bayesian optimisation of one signal after the other: a Gaussian process says which point should improve it most.

mod encoding;
mod gaussian_process;

use std::collections::VecDeque;

use kelpie_spaces::Workload;

use crate::energy::{Target, targets};
use crate::mfs::KeptPart;
use crate::oracle::{Oracle, Purpose};
use crate::search_state::SearchState;
use crate::signals::Observation;

use encoding::FeatureEncoding;
use gaussian_process::GaussianProcess;

/// Latest points that the process is fitted to.
///
/// Source: our choice, because a fit costs their number cubed, and this takes about 10 ms.
const WINDOW: usize = 200;
/// Random points of which the most promising is measured. Source: our choice, as many as points are fitted.
const CANDIDATES: usize = 200;

/// A measured point as the process sees it.
struct BayesPoint {
    features: Vec<f64>,
    seen: Observation,
}

/// Optimises each target in turn, and all over again, until the oracle stops it or the space is covered.
///
/// Each target has as many steps as an annealing; anomalies get the same minimal feature sets, which are skipped.
pub(crate) fn run<O: Oracle>(search: &mut SearchState<'_, O>) -> Result<(), O::Error> {
    let encoding = FeatureEncoding::new(search.space);
    let point = |workload: &Workload, seen| BayesPoint { features: encoding.features(workload), seen };
    let first = KeptPart::Region.ranking_points(search)?;
    let seen: Vec<Observation> = first.iter().map(|(_, seen)| seen.clone()).collect();
    let ranking = targets(search.config.signal, &seen);
    let mut points: VecDeque<BayesPoint> = first.into_iter().map(|(workload, seen)| point(&workload, seen)).collect();
    loop {
        for target in &ranking {
            for _ in 0..search.config.schedule.run() {
                let Some(workload) = next(search, &encoding, target, &points) else { return Ok(()) };
                let seen = search.measure(&workload, Purpose::Search)?;
                if seen.is_anomalous() {
                    KeptPart::Region.anomaly(search, &workload, &seen)?;
                }
                points.push_back(point(&workload, seen));
                if points.len() > WINDOW {
                    points.pop_front();
                }
            }
        }
    }
}

/// Of random points outside known regions the one with the largest expected improvement over healthy points so far.
fn next<O: Oracle>(
    search: &mut SearchState<'_, O>,
    encoding: &FeatureEncoding,
    target: &Target,
    points: &VecDeque<BayesPoint>,
) -> Option<Workload> {
    let known = points.iter().filter_map(|point| Some((point, target.level(&point.seen)?)));
    let best = known.clone().filter(|(point, _)| !point.seen.is_anomalous()).map(|(_, level)| level).reduce(f64::min);
    let (features, levels): (Vec<&[f64]>, Vec<f64>) = known.map(|(point, level)| (&point.features[..], level)).unzip();
    let first = search.unknown_point()?;
    let Some((process, best)) = GaussianProcess::fit(&features, &levels).zip(best) else { return Some(first) };
    let gain = |workload: &Workload| process.expected_improvement(&encoding.features(workload), best);
    let mut most = (gain(&first), first);
    for _ in 1..CANDIDATES {
        let workload = search.space.sample(&mut search.rng);
        if !search.is_known(&workload) {
            let gain = gain(&workload);
            if gain > most.0 {
                most = (gain, workload);
            }
        }
    }
    Some(most.1)
}

//! Figures 4 to 6 of the Collie paper, redrawn for each subsystem from the campaigns of a benchmark.

use kelpie_reports::site::{Curve, Curves, Dot};
use kelpie_search::{Algorithm, SignalSet};

use super::archive::escaped;
use super::record::{Course, Record};
use super::score::{Reach, Score, Spread};

/// The counter of Figure 6. Source: Collie, Figure 6, Receive WQE Cache Miss.
const COUNTER: &str = "receive_wqe_cache_miss";
/// How far the points of two algorithms lie beside each other, so that their error bars do. Units: weaknesses. Source:
/// our choice.
const APART: f64 = 0.07;

/// Every figure with the name of its file.
///
/// - Figure 4: experiments to the k-th weakness, of every algorithm.
/// - Figure 5: the same with and without diagnostic counters, with and without minimal feature sets.
/// - Figure 6: the course of a diagnostic counter over one campaign of each kind, with its findings.
/// - Calibration: of findings that were judged, how much of what meets their conditions shows their
///   symptom over how much they say.
///
/// # Errors
/// One cannot be drawn.
pub fn figures(scores: &[Score]) -> anyhow::Result<Vec<(String, String)>> {
    let mut subsystems: Vec<&str> = scores.iter().map(|score| score.subsystem.as_str()).collect();
    subsystems.dedup();
    let mut figures = Vec::new();
    for subsystem in subsystems {
        let own: Vec<&Score> = scores.iter().filter(|score| score.subsystem == subsystem).collect();
        let annealing = own.iter().copied().filter(|score| has_annealing(score.algorithm)).collect::<Vec<_>>();
        let course = own.iter().copied().filter(|score| score.signal != Some(SignalSet::Perf)).collect::<Vec<_>>();
        let drawn = [(4, experiments_to(&own)), (5, experiments_to(&annealing)), (6, courses(&course))];
        for (number, curves) in drawn.into_iter().filter(|(_, curves)| !curves.curves.is_empty()) {
            figures.push((format!("figure-{number}-{}.svg", escaped(subsystem)), curves.svg()?));
        }
        if let Some(curves) = calibration(&own) {
            figures.push((format!("calibration-{}.svg", escaped(subsystem)), curves.svg()?));
        }
    }
    Ok(figures)
}

/// Confidences that are drawn as one point. Source: our choice.
const BINS: usize = 10;

/// Of the findings that state about the same confidence, what share of random points inside shows their symptom. A
/// confidence is a lower bound, so that points are to lie above the line. `None` if no finding was judged.
fn calibration(scores: &[&Score]) -> Option<Curves> {
    let curve = |score: &&Score| {
        let inside = score.records.iter().filter_map(|record| record.quality.as_ref()).flat_map(|one| &one.findings);
        let mut bins = vec![Vec::new(); BINS];
        for one in inside.filter(|one| one.confidence > 0.0) {
            let bin = ((one.confidence * BINS as f64) as usize).min(BINS - 1);
            bins[bin].extend(one.own_share().map(|share| (one.confidence, share)));
        }
        let dot = |bin: Vec<(f64, f64)>| {
            let said = Spread::of(bin.iter().map(|(said, _)| *said))?;
            let shown = Spread::of(bin.iter().map(|(_, shown)| *shown))?;
            Some(Dot { at: (said.mean, shown.mean), deviation: shown.deviation.unwrap_or(0.0), is_bound: false })
        };
        let dots: Vec<Dot> = bins.into_iter().filter_map(dot).collect();
        (!dots.is_empty()).then(|| Curve { name: score.name(), path: dots.iter().map(|dot| dot.at).collect(), dots })
    };
    let curves: Vec<Curve> = scores.iter().filter_map(curve).collect();
    let line = Curve { name: "as stated".to_owned(), path: vec![(0.0, 0.0), (1.0, 1.0)], dots: Vec::new() };
    (!curves.is_empty()).then(|| Curves {
        x_label: "stated confidence".to_owned(),
        y_label: "share inside that shows the symptom".to_owned(),
        curves: curves.into_iter().chain([line]).collect(),
    })
}

fn has_annealing(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::Collie | Algorithm::Anneal => true,
        Algorithm::Kelpie | Algorithm::Random | Algorithm::Bayes => false,
    }
}

/// A point that some campaigns did not reach counts them with their budget, and is a bound.
///
/// Annealing alone has no minimal feature sets, so that it finds nothing; its curve is of what it touches, as the
/// paper's.
fn experiments_to(scores: &[&Score]) -> Curves {
    let curve = |(index, score): (usize, &&Score)| {
        let beside = APART * (index as f64 - (scores.len() - 1) as f64 / 2.0);
        let dot = |reach: Reach| Dot {
            at: (reach.weaknesses as f64 + beside, reach.experiments.mean),
            deviation: reach.experiments.deviation.unwrap_or(0.0),
            is_bound: reach.reached < score.records.len(),
        };
        let (name, reaches) = match score.algorithm {
            Algorithm::Anneal => (format!("{}, touched", score.name()), score.to_touched()),
            _ => (score.name(), score.to_found()),
        };
        let dots: Vec<Dot> = reaches.into_iter().map(dot).collect();
        Curve { name, path: dots.iter().map(|dot| dot.at).collect(), dots }
    };
    let curves = scores.iter().enumerate().map(curve).filter(|curve| !curve.dots.is_empty()).collect();
    Curves { x_label: "weaknesses found".to_owned(), y_label: "experiments".to_owned(), curves }
}

/// Relative to the largest value that any of them saw.
fn courses(scores: &[&Score]) -> Curves {
    let course = |record: &Record| record.course.as_ref()?.get(COUNTER).cloned();
    let shown: Vec<(String, &Record, Course)> = scores
        .iter()
        .filter_map(|score| score.records.iter().find_map(|record| Some((score.name(), record, course(record)?))))
        .collect();
    let largest =
        shown.iter().flat_map(|(.., course)| course).map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let curve = |(name, record, course): (String, &Record, Course)| {
        let share = |value: f64| value / largest;
        let dot = |at: u64| {
            let value = course.iter().rev().find(|(experiment, _)| *experiment <= at).map_or(0.0, |(_, value)| *value);
            Dot { at: (at as f64, share(value)), deviation: 0.0, is_bound: false }
        };
        let seen = if record.algorithm == Algorithm::Anneal { &record.touched } else { &record.found };
        let dots = seen.firsts().into_iter().map(dot).collect();
        let path = course.iter().map(|(experiment, value)| (*experiment as f64, share(*value))).collect();
        Curve { name, path, dots }
    };
    Curves {
        x_label: "experiment".to_owned(),
        y_label: format!("{COUNTER}, share of the largest"),
        curves: shown.into_iter().map(curve).collect(),
    }
}

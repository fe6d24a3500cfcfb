//! From a measurement to a verdict: symptoms, stability, what is inconclusive. Thresholds are the paper's.

use std::fmt;

use kelpie_spaces::{Direction, Host, Workload, loaded_directions, units};
use serde::{Deserialize, Serialize};

use crate::attained::{attained, kept_full};
use crate::measurement::{Bounds, DirectionRates, Measurement, Sample};

pub use crate::measurement::LOW_SHARE;

/// Pause duration ratio above which there is a pause symptom. Source: Collie, section 5.2.
pub const PAUSE_RATIO: f64 = 0.001;

/// [`SEND_QUEUE_FULL`](crate::counters::SEND_QUEUE_FULL) up to which the application was the limit. Source: our choice,
/// because a requester that finds room in its queue half of the time does not keep injecting.
pub const POSTING_LIMITED: f64 = 0.5;

/// Relative standard deviation of the goodput above which traffic is unstable. Source: our choice, because it
/// is half of the margin that makes a rate low.
pub const STABLE_DEVIATION: f64 = 0.1;

/// A symptom. Source: Collie, section 5.2, where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Symptom {
    /// Pause duration ratio above 0.1 % without congestion.
    Pause,
    /// Throughput 20 % or more below both bounds.
    LowThroughput,
    /// A host fails under this workload each time, and not under another. Not of the paper:
    /// `docs/reference/verdict.md`.
    HostFailure,
}

impl Symptom {
    /// Every symptom.
    pub const ALL: [Symptom; 3] = [Symptom::Pause, Symptom::LowThroughput, Symptom::HostFailure];

    /// Its name in JSON and the store.
    pub fn name(self) -> &'static str {
        match self {
            Symptom::Pause => "pause",
            Symptom::LowThroughput => "low_throughput",
            Symptom::HostFailure => "host_failure",
        }
    }
}

/// Why a measurement says nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Inconclusive {
    /// The samples differ by more than the stability test allows.
    Unstable {
        /// Relative standard deviation of the worst direction.
        deviation: f64,
    },
    /// Noise may turn the verdict, however often it was measured.
    Marginal,
    /// The traffic was not steady when the measurement ended.
    NotSteady,
    /// No sample, or a sample without a direction that the workload loads.
    NoSamples,
}

impl fmt::Display for Inconclusive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inconclusive::Unstable { deviation } => write!(f, "goodput varies by {}", units::percent(*deviation)),
            Inconclusive::Marginal => f.write_str("it lies as near to a threshold as noise reaches"),
            Inconclusive::NotSteady => f.write_str("the traffic was not steady when the measurement ended"),
            Inconclusive::NoSamples => f.write_str("nothing was sampled"),
        }
    }
}

/// What a measurement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No symptom.
    Healthy,
    /// At least one symptom.
    Anomalous,
    /// Measure again.
    Inconclusive,
}

impl Verdict {
    /// Its name in JSON and the store.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Anomalous => "anomalous",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// A verdict with its grounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// The verdict.
    pub verdict: Verdict,
    /// Symptoms seen, pause first.
    pub symptoms: Vec<Symptom>,
    /// Set when inconclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconclusive: Option<Inconclusive>,
}

impl Assessment {
    /// Healthy without symptoms, anomalous with some.
    pub fn of_symptoms(symptoms: Vec<Symptom>) -> Self {
        let verdict = if symptoms.is_empty() { Verdict::Healthy } else { Verdict::Anomalous };
        Self { verdict, symptoms, inconclusive: None }
    }

    /// A measurement that says nothing.
    pub fn of_nothing(why: Inconclusive) -> Self {
        Self { verdict: Verdict::Inconclusive, symptoms: Vec::new(), inconclusive: Some(why) }
    }
}

/// Judges a measurement of `workload` against `bounds`; `docs/reference/verdict.md` gives the rules and their reasons.
pub fn assess(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> Assessment {
    let directions = loaded_directions(workload);
    let complete = |sample: &Sample| directions.iter().all(|way| sample.direction(way.from, way.to).is_some());
    if measurement.samples.is_empty() || !measurement.samples.iter().all(complete) {
        return Assessment::of_nothing(Inconclusive::NoSamples);
    }
    let bounds = &bounds.beside(measurement);
    let deviation = directions.iter().map(|way| goodput_deviation(measurement, *way)).fold(0.0, f64::max);
    let is_steady = measurement.confidence.is_none_or(|confidence| confidence.is_steady);
    if deviation <= STABLE_DEVIATION && is_steady {
        return of_mean(workload, bounds, measurement);
    }
    let judge = |sample: &Sample| symptoms(workload, bounds, &directions, sample);
    // Unsteady traffic still shows what every sample shows.
    let each: Vec<Vec<Symptom>> = measurement.samples.iter().map(judge).collect();
    let shown: Vec<Symptom> = [Symptom::Pause, Symptom::LowThroughput]
        .into_iter()
        .filter(|symptom| each.iter().all(|symptoms| symptoms.contains(symptom)))
        .collect();
    if shown.is_empty() {
        let unstable = Inconclusive::Unstable { deviation };
        return Assessment::of_nothing(if is_steady { unstable } else { Inconclusive::NotSteady });
    }
    Assessment::of_symptoms(shown)
}

/// Judges the mean of all samples, however they vary.
pub(crate) fn assess_mean(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> Assessment {
    of_mean(workload, &bounds.beside(measurement), measurement)
}

fn of_mean(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> Assessment {
    match measurement.mean() {
        Some(mean) => Assessment::of_symptoms(symptoms(workload, bounds, &loaded_directions(workload), &mean)),
        None => Assessment::of_nothing(Inconclusive::NoSamples),
    }
}

fn symptoms(workload: &Workload, bounds: &Bounds, directions: &[Direction], sample: &Sample) -> Vec<Symptom> {
    let pause = sample.pause.as_ref().is_some_and(|pause| {
        Host::BOTH.iter().any(|host| pause.get(*host).tx > PAUSE_RATIO || pause.get(*host).rx > PAUSE_RATIO)
    });
    let low = directions.iter().any(|way| is_low(workload, bounds, *way, sample));
    [(pause, Symptom::Pause), (low, Symptom::LowThroughput)]
        .into_iter()
        .filter_map(|(seen, symptom)| seen.then_some(symptom))
        .collect()
}

fn is_low(workload: &Workload, bounds: &Bounds, way: Direction, sample: &Sample) -> bool {
    shortfall(workload, bounds, way, sample).is_some()
}

/// How far a direction falls short of the bound that it is nearest to; `None` if it is not low.
///
/// Units: share of that bound, above `1 - LOW_SHARE` and up to 1.
pub(crate) fn shortfall(workload: &Workload, bounds: &Bounds, way: Direction, sample: &Sample) -> Option<f64> {
    let share = attained(workload, bounds, way, sample)?.share;
    (share < LOW_SHARE && kept_full(workload, way, sample) > POSTING_LIMITED).then(|| 1.0 - share.max(0.0))
}

/// Relative standard deviation (n - 1) of a direction's goodput over the samples; 0 if nothing moves at all.
fn goodput_deviation(measurement: &Measurement, way: Direction) -> f64 {
    let goodput = |rates: &DirectionRates| rates.goodput_bps;
    let values: Vec<f64> =
        measurement.samples.iter().filter_map(|sample| sample.direction(way.from, way.to)).map(goodput).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    if values.len() < 2 || mean <= 0.0 {
        return 0.0;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt() / mean
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;

//! Measuring until the verdict is clear: a workload near a threshold is measured again, a bounded number of times.

use kelpie_spaces::{Direction, Workload, loaded_directions};

use crate::attained::{attained, kept_full};
use crate::measurement::{Bounds, Measurement};
use crate::statistics::student_quantile;
use crate::verdict::{
    Assessment, Inconclusive, LOW_SHARE, PAUSE_RATIO, POSTING_LIMITED, Symptom, Verdict, assess, assess_mean,
};

/// How often a workload is measured in all. Source: our choice.
pub const ATTEMPTS: u32 = 3;

/// Standard deviations of the mean between a rate and its threshold from which on a verdict is clear, if the deviation
/// of a sample were known.
///
/// Source: 2.13 leave 1.67 % on one side of the normal distribution; over three looks that is 5 % at most, which is the
/// stated rate of verdicts that noise turns (Bonferroni).
const CLEAR: f64 = 2.128;

/// Standard deviations from what is expected on another day, up to which it has to be anomalous. Source: nine of ten
/// values of the normal distribution lie below 1.28.
const NINE_OF_TEN: f64 = 1.28;
/// As many, up to which an anomaly is not measured again for the search to know. Source: 999 of 1,000; our choice.
const SURELY: f64 = 3.09;
/// By how much a bound differs from what it is in the mean. Units: standard deviations from run to run. Source: the
/// median of three runs has 0.67 of the deviation of one, and the larger of two directions 0.83 of that; of five runs
/// it is 0.44 in all, and of the mean of three, as [`Measurement::capacity`] is known, 0.48.
const BOUND: f64 = 0.5;

/// A measurement with its assessment.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedMeasurement {
    /// The samples that were judged.
    pub measurement: Measurement,
    /// What they mean.
    pub assessment: Assessment,
    /// How often the workload was measured.
    pub attempts: u32,
}

/// Measures `workload` until the verdict is clear, at most [`ATTEMPTS`] times.
///
/// All runs are judged together but those that say nothing, which are left out as soon as one says something. Unstable
/// traffic says something if a second run bears it out. If equal runs differ, a clear anomaly is measured again, too,
/// until it surely shows again: a search meets many, and makes something of those that look worst. If they differ by so
/// much that verdicts are relative to simple traffic, a further run, which knows it, is made in any case, and nothing
/// is known without. `measure` is told how often it was asked before, and says `None` if it would show the same again;
/// then the means decide. Latency is that of the first run, and the capacity that of the last.
///
/// # Errors
/// The first error of `measure`, unchanged.
pub fn measure_judged<E>(
    workload: &Workload,
    bounds: &Bounds,
    mut measure: impl FnMut(&Workload, u32) -> Result<Option<Measurement>, E>,
) -> Result<JudgedMeasurement, E> {
    let measurement = measure(workload, 0)?.unwrap_or_default();
    let assessment = assess(workload, bounds, &measurement);
    let mut runs = u32::from(says_something(&assessment));
    let mut judged = JudgedMeasurement { measurement, assessment, attempts: 1 };
    loop {
        let is_judged = judged.assessment.verdict != Verdict::Inconclusive;
        let reach = reach(bounds.run_to_run.unwrap_or(0.0), runs);
        let is_clear = is_judged && is_clear(workload, bounds, &judged.measurement, reach);
        let is_settled =
            judged.assessment.verdict == Verdict::Healthy || is_expected(workload, bounds, &judged.measurement, SURELY);
        let is_relative = bounds.unsteady_reference().is_none() || judged.measurement.capacity.is_some();
        if is_clear && is_settled && is_relative {
            break;
        }
        if judged.attempts == ATTEMPTS {
            if is_judged && !(is_clear && is_relative) {
                // Pauses that come and go are no symptom, and do not hide that throughput is low.
                let is_low = places(workload, bounds, &judged.measurement, reach).contains(&CLEARLY_LOW);
                judged.assessment = if is_low && is_relative && pauses(&judged.measurement) == PauseSamples::Sometimes {
                    Assessment::of_symptoms(vec![Symptom::LowThroughput])
                } else {
                    Assessment::of_nothing(Inconclusive::Marginal)
                };
            }
            break;
        }
        let Some(again) = measure(workload, judged.attempts)? else { break };
        judged.attempts += 1;
        let alone = assess(workload, bounds, &again);
        let capacity = again.capacity.or(judged.measurement.capacity);
        if runs == 0 {
            runs = u32::from(says_something(&alone));
            judged.measurement = again;
        } else if says_something(&alone) {
            runs += 1;
            judged.measurement.samples.extend(again.samples);
            judged.measurement.hardware_events.extend(again.hardware_events);
        }
        judged.measurement.capacity = capacity;
        let assess = if runs > 1 { assess_mean } else { assess };
        judged.assessment = assess(workload, bounds, &judged.measurement);
    }
    Ok(judged)
}

/// Whether a run is evidence, alone or together with another.
fn says_something(alone: &Assessment) -> bool {
    matches!(alone.inconclusive, None | Some(Inconclusive::Unstable { .. }))
}

/// Whether an anomaly is to be expected nine times of ten when its workload is measured on another day; always if it is
/// not known by how much equal runs differ, or if it rests on no sample, as that of a host that fails.
///
/// On another day up to [`ATTEMPTS`] runs decide, over other bounds, and only a share that is clearly too low is
/// anomalous. That share differs from today's as a mean of so many runs, one run, and two bounds do; rates are taken to
/// be log-normal. Today counts as one run even if there were three, because a search makes something of those that look
/// worst, and because a few calibrating runs may understate by how much runs differ. Besides, nine of ten samples are
/// to be expected below the threshold, because unsteady traffic may differ from run to run by as much; and, of how full
/// queues were kept, clearly above it, with none of today's below: by how much it differs is known worse, because the
/// samples of one run are alike. Pauses that every sample shows are expected again.
pub fn shows_again(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> bool {
    is_expected(workload, bounds, measurement, NINE_OF_TEN)
}

/// Shares of a bound below which throughput is clearly low, and from which on it clearly is not, if so much differs
/// from run to run and it was measured as often as can be. Beyond 1 nothing is clearly healthy. Units: share of the
/// bound.
pub fn clear_shares(run_to_run: f64) -> [f64; 2] {
    [-1.0, 1.0].map(|side| LOW_SHARE * (1.0 + side * reach(run_to_run, ATTEMPTS)))
}

/// Within which distance from a threshold so many runs are not clear. Units: share of the threshold.
fn reach(run_to_run: f64, runs: u32) -> f64 {
    CLEAR * run_to_run * (1.0 / f64::from(runs) + BOUND.powi(2)).sqrt()
}

/// Whether it is to be expected if all is so many standard deviations less anomalous.
fn is_expected(workload: &Workload, bounds: &Bounds, measurement: &Measurement, deviations: f64) -> bool {
    let Some(run_to_run) = bounds.run_to_run.filter(|_| !measurement.samples.is_empty()) else { return true };
    if pauses(measurement) == PauseSamples::Always {
        return true;
    }
    let reach = reach(run_to_run, ATTEMPTS);
    let apart = run_to_run * (1.0 / f64::from(ATTEMPTS) + 1.0 + 2.0 * BOUND.powi(2)).sqrt();
    let bounds = &bounds.beside(measurement);
    loaded_directions(workload).into_iter().any(|way| {
        let Some((shares, full)) = looks(workload, bounds, measurement, way) else { return false };
        let is_kept_full = full.iter().all(|full| *full > POSTING_LIMITED);
        let (share, full) = (Mean::of(&shares), Mean::of(&full));
        is_kept_full
            && share.value * (deviations * apart).exp() < LOW_SHARE * (1.0 - reach)
            && share.value + share.of_sample(deviations) < LOW_SHARE
            && full.value - full.of_sample(deviations) > POSTING_LIMITED * (1.0 + reach)
    })
}

/// Whether noise of the size that the samples show, or within `reach` of a threshold, would not turn the verdict.
fn is_clear(workload: &Workload, bounds: &Bounds, measurement: &Measurement, reach: f64) -> bool {
    match pauses(measurement) {
        PauseSamples::Always => true,
        PauseSamples::Sometimes => false,
        PauseSamples::Never => {
            let places = places(workload, bounds, measurement, reach);
            let is_healthy = |(share, full): &(MeanPosition, MeanPosition)| {
                *share == MeanPosition::Above || *full == MeanPosition::Below
            };
            places.contains(&CLEARLY_LOW) || places.iter().all(is_healthy)
        }
    }
}

/// What makes a direction clearly low: its share, and how full its queues were kept.
const CLEARLY_LOW: (MeanPosition, MeanPosition) = (MeanPosition::Below, MeanPosition::Above);

/// Where the share of each direction lies, and how full its queues were kept.
fn places(
    workload: &Workload,
    bounds: &Bounds,
    measurement: &Measurement,
    reach: f64,
) -> Vec<(MeanPosition, MeanPosition)> {
    let bounds = &bounds.beside(measurement);
    loaded_directions(workload)
        .into_iter()
        .filter_map(|way| looks(workload, bounds, measurement, way))
        .map(|(shares, full)| (place(&shares, LOW_SHARE, reach), place(&full, POSTING_LIMITED, reach)))
        .collect()
}

/// In how many samples there is a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseSamples {
    Never,
    Sometimes,
    Always,
}

fn pauses(measurement: &Measurement) -> PauseSamples {
    let pauses = measurement.samples.iter().filter_map(|sample| sample.pause.as_ref());
    let is_paused: Vec<bool> = pauses.map(|pause| pause.longest() > PAUSE_RATIO).collect();
    match (is_paused.contains(&true), is_paused.contains(&false)) {
        (false, _) => PauseSamples::Never,
        (true, true) => PauseSamples::Sometimes,
        (true, false) => PauseSamples::Always,
    }
}

/// What each sample attains of the bound of a direction, and how full it kept its queues; nothing if a sample lacks it.
fn looks(
    workload: &Workload,
    bounds: &Bounds,
    measurement: &Measurement,
    way: Direction,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let samples = &measurement.samples;
    let share = |sample| attained(workload, bounds, way, sample).map(|attained| attained.share);
    let shares: Option<Vec<f64>> = samples.iter().map(share).collect();
    Some((shares?, samples.iter().map(|sample| kept_full(workload, way, sample)).collect()))
}

/// Where a mean lies, as far as noise lets one say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeanPosition {
    Below,
    Near,
    Above,
}

/// On which side of a threshold the mean of these samples lies, by Student's t. What differs from run to run is not
/// known better than that; it is taken of the threshold, because the question is whether the truth lies on the other
/// side of it.
fn place(samples: &[f64], threshold: f64, reach: f64) -> MeanPosition {
    let mean = Mean::of(samples);
    let reach = (mean.of_sample(CLEAR) / mean.count.sqrt()).max(threshold * reach);
    if (mean.value - threshold).abs() < reach {
        MeanPosition::Near
    } else if mean.value < threshold {
        MeanPosition::Below
    } else {
        MeanPosition::Above
    }
}

/// The mean of samples.
#[derive(Debug, Clone, Copy)]
struct Mean {
    value: f64,
    /// Standard deviation of one sample.
    deviation: f64,
    count: f64,
}

impl Mean {
    fn of(samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let value = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - value).powi(2)).sum();
        let deviation = if samples.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Self { value, deviation, count }
    }

    /// How far one sample is from the mean if it is `z` standard deviations off, by Student's t.
    fn of_sample(&self, z: f64) -> f64 {
        if self.count > 1.0 { self.deviation * student_quantile(z, self.count - 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
#[path = "sequential_tests.rs"]
mod tests;

//! Measuring until the verdict is clear: a workload near a threshold is measured again, a bounded number of times.

use kelpie_spaces::{Direction, Workload, loaded_directions};

use crate::measurement::{Bounds, Measurement};
use crate::verdict::{
    Assessment, Inconclusive, LOW_SHARE, PAUSE_RATIO, POSTING_LIMITED, Verdict, assess, assess_mean, attained,
    kept_full,
};

/// How often a workload is measured in all. Source: our choice.
pub const ATTEMPTS: u32 = 3;

/// Standard deviations of the mean between a rate and its threshold from which on a verdict is clear, if the deviation
/// of a sample were known.
///
/// Source: 2.13 leave 1.67 % on one side of the normal distribution; over three looks that is 5 % at most, which is the
/// stated rate of verdicts that noise turns (Bonferroni).
const CLEAR: f64 = 2.128;

/// How far a share on another day is from today's at most. Units: standard deviations from run to run. Source: our choice; two runs
/// differ by the root of two, two shares by 1.6 if the bound was calibrated each day, and a few calibrating runs may
/// understate by how much runs differ.
const ANOTHER_DAY: f64 = 2.0;

/// A measurement with its assessment.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
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
/// traffic says something if a second run bears it out. `measure` is told how often it was asked before, and says `None` if
/// it would show the same again; then the means decide.
///
/// # Errors
/// The first error of `measure`, unchanged.
pub fn measure_judged<E>(
    workload: &Workload,
    bounds: &Bounds,
    mut measure: impl FnMut(&Workload, u32) -> Result<Option<Measurement>, E>,
) -> Result<Judged, E> {
    let measurement = measure(workload, 0)?.unwrap_or_default();
    let assessment = assess(workload, bounds, &measurement);
    let mut runs = u32::from(says_something(&assessment));
    let mut judged = Judged { measurement, assessment, attempts: 1 };
    loop {
        let is_judged = judged.assessment.verdict != Verdict::Inconclusive;
        let noise = Noise { run_to_run: bounds.run_to_run.unwrap_or(0.0) / f64::from(runs).sqrt(), of_sample: false };
        if is_judged && is_clear(workload, bounds, &judged.measurement, noise) {
            break;
        }
        if judged.attempts == ATTEMPTS {
            if is_judged {
                judged.assessment = Assessment::of_nothing(Inconclusive::Marginal);
            }
            break;
        }
        let Some(again) = measure(workload, judged.attempts)? else { break };
        judged.attempts += 1;
        let alone = assess(workload, bounds, &again);
        if runs == 0 {
            runs = u32::from(says_something(&alone));
            (judged.measurement, judged.assessment) = (again, alone);
        } else if says_something(&alone) {
            runs += 1;
            judged.measurement.samples.extend(again.samples);
            judged.measurement.hardware_events.extend(again.hardware_events);
            judged.assessment = assess_mean(workload, bounds, &judged.measurement);
        }
    }
    Ok(judged)
}

/// Whether a run is evidence, alone or together with another.
fn says_something(alone: &Assessment) -> bool {
    matches!(alone.inconclusive, None | Some(Inconclusive::Unstable { .. }))
}

/// Where a mean lies, as far as noise lets one say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Below,
    Near,
    Above,
}

/// Whether a verdict is so clear that it is to be expected on another day, too; always if it is not known by how much equal
/// runs differ, or if it rests on no sample, as that of a host that fails. A run on another day may be as far from today's as
/// one sample is from the others.
pub fn shows_again(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> bool {
    let Some(run_to_run) = bounds.run_to_run.filter(|_| !measurement.samples.is_empty()) else { return true };
    is_clear(workload, bounds, measurement, Noise { run_to_run: ANOTHER_DAY * run_to_run, of_sample: true })
}

/// What a mean is uncertain by.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// Difference between runs. Units: relative standard deviation.
    run_to_run: f64,
    /// Whether it is uncertain by what one sample is from another, not by the standard error of their mean.
    of_sample: bool,
}

/// Whether noise of the size that the samples show, or that other runs would show, would not turn the verdict.
fn is_clear(workload: &Workload, bounds: &Bounds, measurement: &Measurement, noise: Noise) -> bool {
    let paused = measurement.samples.iter().filter_map(|sample| sample.pause.as_ref());
    let paused: Vec<bool> = paused.map(|pause| pause.longest() > PAUSE_RATIO).collect();
    if !paused.is_empty() && paused.iter().all(|is_paused| *is_paused) {
        return true;
    }
    if paused.contains(&true) {
        return false;
    }
    let places = |way: Direction| {
        let shares: Option<Vec<f64>> =
            measurement.samples.iter().map(|sample| attained(workload, bounds, way, sample)).collect();
        let full = measurement.samples.iter().map(|sample| kept_full(workload, way, sample));
        Some((place(&shares?, LOW_SHARE, noise), place(&full.collect::<Vec<_>>(), POSTING_LIMITED, noise)))
    };
    let places: Vec<(Place, Place)> = loaded_directions(workload).into_iter().filter_map(places).collect();
    places.contains(&(Place::Below, Place::Above))
        || places.iter().all(|(share, full)| *share == Place::Above || *full == Place::Below)
}

/// On which side of a threshold the mean of these samples lies, by Student's t. What differs from run to run is not known
/// better than that; it is taken of the threshold, because the question is whether the truth lies on the other side of it.
fn place(samples: &[f64], threshold: f64, noise: Noise) -> Place {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let of_mean = if noise.of_sample { 1.0 } else { count };
    let within =
        if samples.len() > 1 { (squares / (count - 1.0) / of_mean).sqrt() * student(count - 1.0) } else { 0.0 };
    let reach = within.max(threshold * noise.run_to_run * CLEAR);
    if (mean - threshold).abs() < reach {
        Place::Near
    } else if mean < threshold {
        Place::Below
    } else {
        Place::Above
    }
}

/// [`CLEAR`] if the deviation is estimated from samples with so many degrees of freedom.
///
/// Source: Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", 26.7.5.
fn student(freedom: f64) -> f64 {
    let z = CLEAR;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
#[path = "sequential_tests.rs"]
mod tests;

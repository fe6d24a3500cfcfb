//! Measuring until the verdict is clear: a workload near a threshold is measured again, a bounded number of times.

use kelpie_spaces::{Direction, Workload, loaded_directions};

use crate::measurement::{Bounds, Measurement};
use crate::verdict::{Assessment, Inconclusive, LOW_SHARE, PAUSE_RATIO, Verdict, assess, attained};

/// How often a workload is measured in all. Source: our choice.
pub const ATTEMPTS: u32 = 3;

/// Standard deviations of the mean between a rate and its threshold from which on a verdict is clear, if the deviation
/// of a sample were known.
///
/// Source: 2.13 leave 1.67 % on one side of the normal distribution; over three looks that is 5 % at most, which is the
/// stated rate of verdicts that noise turns (Bonferroni).
const CLEAR: f64 = 2.128;

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
/// Samples of a workload near a threshold are judged together; those of unsteady traffic are replaced. `measure` is told
/// how often it was asked before, and says `None` if it would show the same again; then the means decide.
///
/// # Errors
/// The first error of `measure`, unchanged.
pub fn measure_judged<E>(
    workload: &Workload,
    bounds: &Bounds,
    mut measure: impl FnMut(&Workload, u32) -> Result<Option<Measurement>, E>,
) -> Result<Judged, E> {
    let mut measurement = measure(workload, 0)?.unwrap_or_default();
    let mut attempts = 1;
    loop {
        let mut assessment = assess(workload, bounds, &measurement);
        let is_judged = assessment.verdict != Verdict::Inconclusive;
        let is_clear = is_judged && is_clear(workload, bounds, &measurement);
        if is_clear || attempts == ATTEMPTS {
            if is_judged && !is_clear {
                assessment = Assessment::of_nothing(Inconclusive::Marginal);
            }
            return Ok(Judged { measurement, assessment, attempts });
        }
        let Some(again) = measure(workload, attempts)? else {
            return Ok(Judged { measurement, assessment, attempts });
        };
        attempts += 1;
        if is_judged {
            measurement.samples.extend(again.samples);
            measurement.hardware_events.extend(again.hardware_events);
        } else {
            measurement = again;
        }
    }
}

/// Which side of a threshold a value lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Symptom,
    None,
    Unclear,
}

/// Whether noise of the size that the samples show would not turn the verdict.
fn is_clear(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> bool {
    let paused = measurement.samples.iter().filter_map(|sample| sample.pause.as_ref());
    let paused: Vec<bool> = paused.map(|pause| pause.longest() > PAUSE_RATIO).collect();
    if !paused.is_empty() && paused.iter().all(|is_paused| *is_paused) {
        return true;
    }
    if paused.contains(&true) {
        return false;
    }
    let sides: Vec<Side> =
        loaded_directions(workload).into_iter().map(|way| side(workload, bounds, way, measurement)).collect();
    sides.contains(&Side::Symptom) || !sides.contains(&Side::Unclear)
}

/// On which side of [`LOW_SHARE`] a direction is, by Student's t of its samples.
fn side(workload: &Workload, bounds: &Bounds, way: Direction, measurement: &Measurement) -> Side {
    let shares: Option<Vec<f64>> =
        measurement.samples.iter().map(|sample| attained(workload, bounds, way, sample)).collect();
    // What is not judged in some sample has no symptom, or the mean has the last word.
    let Some(shares) = shares.filter(|shares| shares.len() > 1) else { return Side::None };
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    let of_mean = (squares / (count - 1.0) / count).sqrt();
    if (mean - LOW_SHARE).abs() < of_mean * student(count - 1.0) {
        Side::Unclear
    } else if mean < LOW_SHARE {
        Side::Symptom
    } else {
        Side::None
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

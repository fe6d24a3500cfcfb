//! How far a model is from what was measured: residuals, their weights, and a loss that no single row decides.

use crate::parameters::Based;
use crate::simulator::{Halt, ParameterPoint, Simulator, TrafficResult};

/// What was measured of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredTarget {
    /// Goodput of all directions together. Units: bits/s.
    pub goodput_bps: f64,
    /// The larger share of time for which a NIC paused its peer, if it was measured.
    pub pause_ratio: Option<f64>,
}

/// Standard deviation of a measured share of time. Source: our choice, because shares near a threshold depend on much
/// that is not modelled, such as the switch's buffer.
const PAUSE_NOISE: f64 = 0.04;

/// Residuals, in standard deviations, from which on a row counts less. Source: Cauchy's loss; 2.385 keeps 95 % of the
/// efficiency of least squares (Holland and Welsch, 1977).
const TURN: f64 = 2.385;

/// Weight of the base's values: a parameter that no row shows stays there. Source: our choice, far below one row.
const PRIOR: f64 = 0.02;

/// Rows that were measured, and the simulation that is to agree with them.
pub struct FitProblem<'a> {
    /// The simulation.
    pub simulator: Simulator<'a>,
    /// The parameters.
    pub parameters: &'a [Based],
    /// What was measured of each row; none is not fitted.
    pub targets: Vec<Option<MeasuredTarget>>,
    /// Relative standard deviation of measured rates.
    noise: f64,
    /// Standard deviation of each row's rate (relative) and pause.
    pub sigma: Vec<[f64; 2]>,
}

impl<'a> FitProblem<'a> {
    /// Rows with noise of so much, relative.
    pub fn new(
        simulator: Simulator<'a>,
        parameters: &'a [Based],
        targets: Vec<Option<MeasuredTarget>>,
        noise: f64,
    ) -> Self {
        let sigma = vec![[noise, PAUSE_NOISE]; targets.len()];
        Self { simulator, parameters, targets, noise, sigma }
    }

    /// Every row.
    pub fn all(&self) -> Vec<usize> {
        (0..self.targets.len()).collect()
    }

    /// What a point says of every row.
    ///
    /// # Errors
    /// As [`Simulator::see`].
    pub fn see_all(&mut self, point: &ParameterPoint) -> Result<Vec<TrafficResult>, Halt> {
        let all = self.all();
        Ok(self.simulator.see(&[(point, &all)], 1)?.remove(0))
    }

    /// Learns how far each row's simulation depends on chance, from other seeds at this point.
    ///
    /// # Errors
    /// As [`Simulator::see`].
    pub fn learn_scatter(&mut self, point: &ParameterPoint) -> Result<(), Halt> {
        let all = self.all();
        let first = self.see_all(point)?;
        let mut others = Vec::new();
        for seed in [2, 3] {
            others.extend(self.simulator.see(&[(point, &all)], seed)?);
        }
        for row in all {
            let square = |part: usize| {
                let squares = others.iter().map(|seen| difference(&seen[row], &first[row])[part].powi(2));
                squares.sum::<f64>() / others.len() as f64
            };
            self.sigma[row] = [(self.noise.powi(2) + square(0)).sqrt(), (PAUSE_NOISE.powi(2) + square(1)).sqrt()];
        }
        Ok(())
    }

    /// Relative standard deviation of a row's simulated rate by chance.
    pub fn chance(&self, row: usize) -> f64 {
        (self.sigma[row][0].powi(2) - self.noise.powi(2)).max(0.0).sqrt()
    }

    /// Residuals of a row in standard deviations, which are `least` at least: rate, then pause.
    pub fn residuals(&self, row: usize, seen: &TrafficResult, least: f64) -> [f64; 2] {
        let Some(target) = self.targets[row] else { return [0.0; 2] };
        let [rate, pause] = self.sigma[row];
        let measured = TrafficResult {
            goodput_bps: target.goodput_bps,
            pause_ratio: target.pause_ratio.unwrap_or(seen.pause_ratio),
        };
        let [by_rate, by_pause] = difference(seen, &measured);
        [by_rate / rate.max(least), by_pause / pause.max(least)]
    }

    /// The loss of a row.
    pub fn loss_of(&self, row: usize, seen: &TrafficResult, least: f64) -> f64 {
        self.residuals(row, seen, least).iter().map(|residual| cauchy(*residual)).sum()
    }

    /// What leaving the base costs at a point.
    pub fn prior(point: &ParameterPoint) -> f64 {
        point.iter().map(|log| PRIOR * log * log / 2.0).sum()
    }
}

/// How far what is seen is off: logarithm of the ratio of rates, difference of pauses.
pub fn difference(seen: &TrafficResult, from: &TrafficResult) -> [f64; 2] {
    [(seen.goodput_bps / from.goodput_bps).ln(), seen.pause_ratio - from.pause_ratio]
}

/// Cauchy's loss: half of the square of a small residual.
fn cauchy(residual: f64) -> f64 {
    TURN * TURN / 2.0 * (residual / TURN).powi(2).ln_1p()
}

/// What a residual counts in least squares that have Cauchy's loss.
pub fn weight(residual: f64) -> f64 {
    1.0 / (1.0 + (residual / TURN).powi(2))
}

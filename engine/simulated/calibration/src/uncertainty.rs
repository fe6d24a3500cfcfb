//! How well rows determine each parameter: the interval in which the loss stays small, and which rows bound it.

use nalgebra::DMatrix;
use serde::Serialize;

use crate::descent::{RIDGE, STEP, Slopes};
use crate::problem::FitProblem;
use crate::search::SearchPoint;
use crate::simulator::{Halt, ParameterPoint};

/// What rows say of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Determinacy {
    /// Its interval lies within a tenth of its value.
    Determined,
    /// It is bounded on both sides, and not as closely.
    Within,
    /// Only lower values contradict the rows.
    AtLeast,
    /// Only higher values do.
    AtMost,
    /// No value does.
    NotDetermined,
}

/// How wide half of an interval may be, relative. Source: our choice, the accuracy that a calibration is to have; a
/// tenth, with what rounding adds.
pub const DETERMINED: f64 = 0.1;

/// Moves that bound an interval, as logarithms; the first is known from the slopes. Source: our choice; beyond the last
/// a parameter is not bounded.
const MOVES: [f64; 3] = [STEP, 0.2, 0.55];

/// The same of a count.
const COUNTS: [f64; 3] = [1.0, 3.0, 8.0];

/// By how much the loss may grow within an interval. Source: 99 % of a normal distribution, half of 2.576 squared: what
/// is called determined should be within its tenth on all NICs but few.
const GROWTH: f64 = 3.32;

/// What is known of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterInterval {
    /// The state.
    pub state: Determinacy,
    /// Lowest and highest logarithm of a factor of the base's value, if there are such.
    pub bounds: [Option<f64>; 2],
    /// Rows that bound it, those that do it most first.
    pub rows: Vec<usize>,
    /// Parameters with which it shows as a product only.
    pub tied: Vec<usize>,
}

/// Correlation from which on two parameters show together only. Source: our choice.
const TIED: f64 = 0.9;

/// Most rows that are named for a parameter. Source: our choice, a line of text.
const MOST_ROWS: usize = 8;

/// The interval of each parameter at a place where the loss is least, by the rows that react.
///
/// # Errors
/// When the simulation halts.
pub fn intervals(place: &SearchPoint, problem: &mut FitProblem<'_>) -> Result<Vec<ParameterInterval>, Halt> {
    let slopes = Slopes::at(place, problem)?;
    let (mut curvature, _) = slopes.normal();
    (0..curvature.nrows()).for_each(|at| curvature[(at, at)] += RIDGE);
    let covariance =
        curvature.clone().try_inverse().unwrap_or_else(|| DMatrix::identity(place.point.len(), place.point.len()));
    let scale = scale(problem, place);
    (0..place.point.len())
        .map(|parameter| {
            // What others can take back of a move makes the interval longer, which is the ratio of both deviations.
            let inflation = (curvature[(parameter, parameter)] * covariance[(parameter, parameter)]).max(1.0).sqrt();
            let bounds = bounds(place, problem, parameter, inflation, scale)?;
            let correlation = |other: usize| {
                covariance[(parameter, other)]
                    / (covariance[(parameter, parameter)] * covariance[(other, other)]).sqrt()
            };
            let tied = (0..place.point.len())
                .filter(|other| *other != parameter && correlation(*other).abs() > TIED)
                .collect();
            let pull =
                |row: &usize| -> f64 { (0..2).map(|part| slopes.matrix[(2 * row + part, parameter)].powi(2)).sum() };
            let mut rows: Vec<usize> =
                place.reacting[parameter].iter().copied().filter(|row| problem.targets[*row].is_some()).collect();
            rows.sort_by(|a, b| pull(b).total_cmp(&pull(a)).then(a.cmp(b)));
            let most = rows.first().map_or(0.0, pull);
            rows.retain(|row| pull(row) > most / 25.0 && pull(row) > 0.0);
            rows.truncate(MOST_ROWS);
            let log = problem.parameters[parameter].snapped(place.point[parameter]);
            Ok(ParameterInterval { state: state(&bounds, log), bounds, rows, tied })
        })
        .collect()
}

/// By how much the residuals scatter more than they should, squared.
fn scale(problem: &FitProblem<'_>, place: &SearchPoint) -> f64 {
    let fitted = problem.all().into_iter().filter(|row| problem.targets[*row].is_some());
    let mut squares: Vec<f64> = fitted.map(|row| problem.residuals(row, &place.seen[row], 0.0)[0].powi(2)).collect();
    squares.sort_by(f64::total_cmp);
    // The median of the square of a normal variable is 0.455.
    squares.get(squares.len() / 2).map_or(1.0, |median| (median / 0.455).max(1.0))
}

/// Where the loss has grown by what chance allows, each way.
fn bounds(
    place: &SearchPoint,
    problem: &mut FitProblem<'_>,
    parameter: usize,
    inflation: f64,
    scale: f64,
) -> Result<[Option<f64>; 2], Halt> {
    let rows = place.reacting[parameter].clone();
    let allowed = GROWTH * inflation * inflation * scale;
    let here: f64 = rows.iter().map(|row| problem.loss_of(*row, &place.seen[*row], 0.0)).sum();
    let based = &problem.parameters[parameter];
    let log = based.snapped(place.point[parameter]);
    let (value, is_count) = (based.value(log), based.is_count);
    let mut bounds = [None; 2];
    for (side, sign) in [-1.0, 1.0].into_iter().enumerate() {
        let moves: Vec<f64> = if is_count {
            let values = COUNTS.iter().map(|by| value + sign * by).filter(|other| *other >= 1.0);
            values.map(|other| (other / value).ln().abs()).collect()
        } else {
            MOVES.to_vec()
        };
        let points: Vec<ParameterPoint> = moves.iter().map(|by| place.with(parameter, log + sign * by)).collect();
        let asked: Vec<(&ParameterPoint, &[usize])> = points.iter().map(|point| (point, &rows[..])).collect();
        let seen = problem.simulator.see(&asked, 1)?;
        let (mut before, mut from) = (0.0, 0.0);
        for (by, seen) in moves.iter().zip(&seen) {
            let loss: f64 = rows.iter().zip(seen).map(|(row, seen)| problem.loss_of(*row, seen, 0.0)).sum();
            let growth = loss - here;
            if growth > allowed {
                // Between two moves the root of the loss grows evenly, as near the least of a square. A count is what
                // it was before.
                let [low, high, at] = [before, growth, allowed].map(|growth: f64| growth.max(0.0).sqrt());
                let share = if is_count { 0.0 } else { (at - low) / (high - low) };
                bounds[side] = Some(log + sign * (from + (by - from) * share));
                break;
            }
            (before, from) = (growth, *by);
        }
        if is_count && bounds[side].is_none() && sign < 0.0 && moves.len() < COUNTS.len() {
            bounds[side] = Some(-based.base.ln());
        }
    }
    Ok(bounds)
}

fn state(bounds: &[Option<f64>; 2], log: f64) -> Determinacy {
    match bounds {
        [Some(low), Some(high)] if (log - low).max(high - log) <= DETERMINED.ln_1p() => Determinacy::Determined,
        [Some(_), Some(_)] => Determinacy::Within,
        [Some(_), None] => Determinacy::AtLeast,
        [None, Some(_)] => Determinacy::AtMost,
        [None, None] => Determinacy::NotDetermined,
    }
}

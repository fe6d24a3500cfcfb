//! The fine search: damped Gauss-Newton steps (Levenberg and Marquardt) over all parameters that are no counts.

use nalgebra::{DMatrix, DVector};

use crate::parameters::FACTORS;
use crate::problem::{FitProblem, weight};
use crate::search::SearchPoint;
use crate::simulator::{Halt, ParameterPoint, TrafficResult};

/// How far a parameter is moved to see a slope, both ways, as a logarithm. Source: our choice, because a simulation is
/// discrete, and a hit rate of a cache moves in steps.
pub const STEP: f64 = 0.07;
/// How far one step goes at most, as a logarithm. Source: our choice, because slopes end where another part limits.
const LONGEST: f64 = 0.2;
/// Dampings that are tried beside each other. Source: our choice.
const DAMPINGS: [f64; 2] = [0.02, 1.0];
/// Steps at most. Source: our choice; tests end after three or four.
const STEPS: usize = 6;
/// Part of the loss by which a step has to be better so that there is another. Source: our choice.
const BETTER: f64 = 0.01;
/// A part of the diagonal that keeps the equations solvable. Source: our choice, as the weight of the base.
pub const RIDGE: f64 = 0.02;

/// Slopes of all residuals, in standard deviations per logarithm of a factor.
pub struct Slopes {
    /// Residuals in rows, rate and pause of each row in turn; parameters in columns.
    pub matrix: DMatrix<f64>,
    /// The residuals.
    pub residuals: DVector<f64>,
}

impl Slopes {
    /// Slopes at a place, by the rows that react.
    ///
    /// # Errors
    /// When the simulation halts.
    pub fn at(place: &SearchPoint, problem: &mut FitProblem<'_>) -> Result<Self, Halt> {
        let all = problem.all();
        let mut matrix = DMatrix::zeros(2 * all.len(), place.point.len());
        let mut residuals = DVector::zeros(2 * all.len());
        for row in &all {
            let here = problem.residuals(*row, &place.seen[*row], 0.0);
            (0..2).for_each(|part| residuals[2 * row + part] = here[part]);
        }
        for parameter in 0..place.point.len() {
            let ends = ends(place, problem, parameter);
            let rows = &place.reacting[parameter];
            let seen = problem.simulator.see(&[(&ends[0], rows), (&ends[1], rows)], 1)?;
            let span = ends[1][parameter] - ends[0][parameter];
            for (at, row) in rows.iter().enumerate() {
                let [below, above] = [0, 1].map(|end: usize| problem.residuals(*row, &seen[end][at], 0.0));
                (0..2).for_each(|part| matrix[(2 * row + part, parameter)] = (above[part] - below[part]) / span);
            }
        }
        Ok(Self { matrix, residuals })
    }

    /// The normal equations with Cauchy's weights: curvature and gradient.
    pub fn normal(&self) -> (DMatrix<f64>, DVector<f64>) {
        let weights =
            DVector::from_iterator(self.residuals.len(), self.residuals.iter().map(|residual| weight(*residual)));
        let weighted = DMatrix::from_diagonal(&weights) * &self.matrix;
        (self.matrix.transpose() * &weighted, weighted.transpose() * &self.residuals)
    }
}

/// The two points from which a slope is seen; a count moves by one at least.
fn ends(place: &SearchPoint, problem: &FitProblem<'_>, parameter: usize) -> [ParameterPoint; 2] {
    let based = &problem.parameters[parameter];
    let value = based.value(place.point[parameter]);
    [-1.0, 1.0].map(|sign: f64| {
        let mut point = place.point.clone();
        point[parameter] = if based.is_count {
            ((value + sign * (value * STEP).round().max(1.0)).max(1.0) / based.base).ln()
        } else {
            point[parameter] + sign * STEP
        };
        point
    })
}

/// Goes down as long as steps make the loss smaller. Says whether it came to an end by itself.
///
/// # Errors
/// When the simulation halts; the place is then the best so far.
pub fn descend(place: &mut SearchPoint, problem: &mut FitProblem<'_>) -> Result<bool, Halt> {
    let all = problem.all();
    for _ in 0..STEPS {
        let slopes = Slopes::at(place, problem)?;
        let (curvature, mut gradient) = slopes.normal();
        gradient += DVector::from_column_slice(&place.point) * RIDGE;
        let mut moves: Vec<ParameterPoint> = Vec::new();
        moves
            .extend(DAMPINGS.iter().filter_map(|damping| moved(place, problem, &curvature, &gradient, *damping, None)));
        for (parameter, log) in counts_beside(place, problem) {
            moves.extend(moved(place, problem, &curvature, &gradient, DAMPINGS[0], Some((parameter, log))));
        }
        let asked: Vec<(&ParameterPoint, &[usize])> = moves.iter().map(|point| (point, &all[..])).collect();
        let seen = problem.simulator.see(&asked, 1)?;
        let loss = |point: &ParameterPoint, seen: &[TrafficResult]| -> f64 {
            all.iter().map(|row| problem.loss_of(*row, &seen[*row], 0.0)).sum::<f64>() + FitProblem::prior(point)
        };
        let before = loss(&place.point, &place.seen);
        let losses: Vec<f64> = moves.iter().zip(&seen).map(|(point, seen)| loss(point, seen)).collect();
        let Some(best) = (0..losses.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b])) else { return Ok(true) };
        if losses[best] >= before {
            return Ok(true);
        }
        (place.point, place.seen) = (moves[best].clone(), seen[best].clone());
        if losses[best] > before * (1.0 - BETTER) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One more and one less of each count, as logarithms.
fn counts_beside(place: &SearchPoint, problem: &FitProblem<'_>) -> Vec<(usize, f64)> {
    let mut beside = Vec::new();
    for (at, based) in problem.parameters.iter().enumerate().filter(|(_, based)| based.is_count) {
        let value = based.value(place.point[at]);
        let others = [value - 1.0, value + 1.0].into_iter().filter(|other| *other >= 1.0);
        beside.extend(others.map(|other| (at, (other / based.base).ln())));
    }
    beside
}

/// Where a damped step leads. Counts stay, except for one that is set, to which all others then adapt: what shows as a
/// product of both could not change otherwise.
fn moved(
    place: &SearchPoint,
    problem: &FitProblem<'_>,
    curvature: &DMatrix<f64>,
    gradient: &DVector<f64>,
    damping: f64,
    set: Option<(usize, f64)>,
) -> Option<ParameterPoint> {
    let (mut damped, mut gradient) = (curvature.clone(), gradient.clone());
    let mut from = place.point.clone();
    if let Some((parameter, log)) = set {
        gradient += curvature.column(parameter) * (log - from[parameter]);
        from[parameter] = log;
    }
    for at in 0..damped.nrows() {
        damped[(at, at)] += damping * curvature[(at, at)] + RIDGE;
        if problem.parameters[at].is_count {
            damped.row_mut(at).fill(0.0);
            damped.column_mut(at).fill(0.0);
            damped[(at, at)] = 1.0;
            gradient[at] = 0.0;
        }
    }
    let step = damped.cholesky()?.solve(&gradient);
    let [low, high] = FACTORS.map(f64::ln);
    let to = |(log, step): (&f64, &f64)| (log - step.clamp(-LONGEST, LONGEST)).clamp(low, high);
    Some(from.iter().zip(step.iter()).map(to).collect())
}

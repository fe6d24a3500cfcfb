//! Rows that fight: they ask for another value of a parameter than other rows do, and no value serves all.

use serde::Serialize;

use crate::descent::Slopes;
use crate::problem::FitProblem;
use crate::row::MeasuredRow;
use crate::search::SearchPoint;
use crate::simulator::Halt;

/// A row's own value of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wish {
    /// Line of the table.
    pub line: u64,
    /// The value with which it would fit, as far as its slope says.
    pub value: f64,
}

/// Rows that ask for another value of a parameter than others do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conflict {
    /// Path of the parameter.
    pub parameter: &'static str,
    /// The value that fits best.
    pub fitted: f64,
    /// Rows that ask for less, the most urgent first.
    pub lower: Vec<Wish>,
    /// Rows that ask for more, the most urgent first.
    pub higher: Vec<Wish>,
    /// Lines of rows that fit as it is, those that depend on it most first.
    pub held_by: Vec<u64>,
}

/// Residual from which on a row fights. Units: standard deviations. Source: our choice: by chance, one of 15,000 rows.
const FIGHTS: f64 = 4.0;
/// Slope below which a row does not ask for anything. Source: our choice, a tenth of what a limiting part has.
const LEAST_SLOPE: f64 = 0.1;
/// Longest wish, as a logarithm; slopes say nothing beyond. Source: our choice.
const LONGEST: f64 = 1.0;
/// Residual up to which a row fits. Units: standard deviations. Source: 95 % of a normal distribution.
const FITS: f64 = 2.0;
/// Rows that are named on each side. Source: our choice, a line of text.
const MOST: usize = 4;

/// The fights at a place; none if rows agree.
///
/// # Errors
/// When the simulation halts.
pub fn conflicts(
    place: &SearchPoint,
    problem: &mut FitProblem<'_>,
    rows: &[MeasuredRow],
) -> Result<Vec<Conflict>, Halt> {
    let slopes = Slopes::at(place, problem)?;
    let pull = |row: usize, parameter: usize| (slopes.matrix[(2 * row, parameter)] * problem.sigma[row][0]).abs();
    let steepest = |row: usize| (0..place.point.len()).max_by(|a, b| pull(row, *a).total_cmp(&pull(row, *b)));
    let residual = |row: usize| slopes.residuals[2 * row];
    let mut all = problem.all();
    all.sort_by(|a, b| residual(*b).abs().total_cmp(&residual(*a).abs()));
    let conflict = |parameter: usize| {
        let based = &problem.parameters[parameter];
        let is_wish = |row: &&usize| {
            residual(**row).abs() > FIGHTS && steepest(**row) == Some(parameter) && pull(**row, parameter) > LEAST_SLOPE
        };
        let (mut lower, mut higher) = (Vec::new(), Vec::new());
        for row in all.iter().filter(is_wish) {
            let by = (-residual(*row) / slopes.matrix[(2 * row, parameter)]).clamp(-LONGEST, LONGEST);
            let wish = Wish { line: rows[*row].line, value: based.value(place.point[parameter] + by) };
            if by < 0.0 { lower.push(wish) } else { higher.push(wish) }
        }
        let fits = |row: &usize| {
            problem.targets[*row].is_some() && residual(*row).abs() < FITS && pull(*row, parameter) > LEAST_SLOPE
        };
        let mut holding: Vec<usize> = all.iter().copied().filter(fits).collect();
        holding.sort_by(|a, b| pull(*b, parameter).total_cmp(&pull(*a, parameter)).then(a.cmp(b)));
        let held_by = holding.iter().take(MOST).map(|row| rows[*row].line).collect();
        let fitted = based.value(place.point[parameter]);
        let is_fought = !lower.is_empty() || !higher.is_empty();
        is_fought.then_some(Conflict { parameter: based.parameter.path(), fitted, lower, higher, held_by })
    };
    Ok((0..place.point.len()).filter_map(conflict).collect())
}

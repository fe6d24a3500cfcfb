//! Rows that fight: each alone asks for another value of a parameter, and no value serves all.

use serde::Serialize;

use crate::descent::Slopes;
use crate::problem::Problem;
use crate::row::Row;
use crate::search::Place;
use crate::simulator::Halt;

/// A row's own value of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wish {
    /// Line of the table.
    pub line: u64,
    /// The value with which it would fit, as far as its slope says.
    pub value: f64,
}

/// Rows that ask for opposite values of a parameter.
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
}

/// Residual from which on a row fights. Units: standard deviations. Source: our choice: by chance, one of 15,000 rows.
const FIGHTS: f64 = 4.0;
/// Slope below which a row does not ask for anything. Source: our choice, a tenth of what a limiting part has.
const LEAST_SLOPE: f64 = 0.1;
/// Longest wish, as a logarithm; slopes say nothing beyond. Source: our choice.
const LONGEST: f64 = 1.0;
/// Rows that are named on each side. Source: our choice, a line of text.
const MOST: usize = 4;

/// The fights at a place; none if rows agree.
///
/// # Errors
/// When the simulation halts.
pub fn conflicts(place: &Place, problem: &mut Problem<'_>, rows: &[Row]) -> Result<Vec<Conflict>, Halt> {
    let slopes = Slopes::at(place, problem)?;
    let conflict = |parameter: usize| {
        let based = &problem.parameters[parameter];
        let mut sides = [Vec::new(), Vec::new()];
        for row in problem.all() {
            let (residual, slope) = (slopes.residuals[2 * row], slopes.matrix[(2 * row, parameter)]);
            let sigma = problem.sigma[row][0];
            if residual.abs() > FIGHTS && (slope * sigma).abs() > LEAST_SLOPE {
                let wish = (-residual / slope).clamp(-LONGEST, LONGEST);
                let value = based.value(place.point[parameter] + wish);
                sides[usize::from(wish > 0.0)].push((residual.abs(), Wish { line: rows[row].line, value }));
            }
        }
        let [lower, higher] = sides.map(|mut side| {
            side.sort_by(|a, b| b.0.total_cmp(&a.0));
            side.into_iter().take(MOST).map(|(_, wish)| wish).collect::<Vec<_>>()
        });
        let fitted = based.value(place.point[parameter]);
        (!lower.is_empty() && !higher.is_empty()).then_some(Conflict {
            parameter: based.parameter.path,
            fitted,
            lower,
            higher,
        })
    };
    Ok((0..place.point.len()).filter_map(conflict).collect())
}

//! What the rows of a plan will say of each parameter, if the NIC is the base: before anything is measured.

use std::sync::atomic::AtomicBool;

use kelpie_sim::SimSubsystem;

use crate::CalibrationError;
use crate::fit::{FittedParameter, estimate};
use crate::parameters::{Based, Parameter};
use crate::plan::Planned;
use crate::problem::{FitProblem, MeasuredTarget};
use crate::row::MeasuredRow;
use crate::search::SearchPoint;
use crate::simulator::{Halt, Simulator};
use crate::uncertainty::intervals;

/// The interval of each parameter that rows of this noise will allow, by the rows that the plan has for it.
///
/// # Errors
/// When it is stopped.
pub fn expected(
    base: &SimSubsystem,
    planned: &[Planned],
    parameters: &[Parameter],
    noise: f64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<FittedParameter>, CalibrationError> {
    let parameters: Vec<Based> = parameters.iter().map(|parameter| Based::over(*parameter, base)).collect();
    let traffic: Vec<_> = planned.iter().map(|row| &row.traffic).collect();
    let simulator = Simulator::new(base, &parameters, &traffic, u64::MAX, stop, progress);
    let mut problem = FitProblem::new(simulator, &parameters, vec![None; planned.len()], noise);
    let stopped = |_: Halt| CalibrationError::Stopped;
    let mut place = SearchPoint::base(&mut problem).map_err(stopped)?;
    let target = |seen: &crate::simulator::TrafficResult| MeasuredTarget {
        goodput_bps: seen.goodput_bps,
        pause_ratio: Some(seen.pause_ratio),
    };
    problem.targets = place.seen.iter().map(|seen| Some(target(seen))).collect();
    for (reacting, based) in place.reacting.iter_mut().zip(&parameters) {
        let is_for = |row: &usize| planned[*row].determines.contains(&based.parameter);
        *reacting = (0..planned.len()).filter(is_for).collect();
    }
    problem.learn_scatter(&place.point).map_err(stopped)?;
    let intervals = intervals(&place, &mut problem).map_err(stopped)?;
    let rows = planned.iter().zip(&place.seen).enumerate().map(|(at, (row, seen))| MeasuredRow {
        line: at as u64 + 2,
        traffic: row.traffic.clone(),
        target: target(seen),
        used_for: None,
    });
    let rows: Vec<MeasuredRow> = rows.collect();
    let each = parameters.iter().zip(&intervals);
    Ok(each.map(|(based, interval)| estimate(based, 0.0, interval, &rows, &parameters)).collect())
}

//! The coarse search: one parameter after the other over its range, by the rows that react to it. Slopes are not used,
//! because a rate that another part limits has none.

use crate::parameters::FACTORS;
use crate::problem::{FitProblem, difference};
use crate::simulator::{Halt, ParameterPoint, TrafficResult};

/// Where a search is, with what every row says there.
#[derive(Debug, Clone)]
pub struct SearchPoint {
    /// The point.
    pub point: ParameterPoint,
    /// What each row says.
    pub seen: Vec<TrafficResult>,
    /// The rows that react to each parameter.
    pub reacting: Vec<Vec<usize>>,
}

/// Change of a rate, relative, or of a share of time by which a row reacts. Source: our choice, above the scatter of
/// rows that do not depend on chance.
const REACTS: f64 = 0.01;

/// Factors of a first step, for which all rows are tried, and of the steps in between and beyond. Source: our choice.
const WIDE: [f64; 2] = [0.6, 1.6];
const BETWEEN: [f64; 4] = [0.7, 0.84, 1.19, 1.38];

/// Factors of the rounds after the first. Source: our choice.
pub const MIDDLE: [f64; 6] = [0.65, 0.78, 0.89, 1.12, 1.28, 1.54];
pub const NARROW: [f64; 4] = [0.87, 0.94, 1.07, 1.15];

impl SearchPoint {
    /// The base.
    ///
    /// # Errors
    /// When the simulation halts.
    pub fn base(problem: &mut FitProblem<'_>) -> Result<Self, Halt> {
        let point = vec![0.0; problem.parameters.len()];
        let seen = problem.see_all(&point)?;
        let reacting = vec![Vec::new(); point.len()];
        Ok(Self { point, seen, reacting })
    }

    /// A point that differs in one parameter.
    pub fn with(&self, parameter: usize, log: f64) -> ParameterPoint {
        let mut point = self.point.clone();
        point[parameter] = log;
        point
    }

    /// Tries every parameter from half to twice its value and beyond; `least` is the scatter that is let pass.
    ///
    /// # Errors
    /// When the simulation halts; the place is then the best so far.
    pub fn sweep_widely(&mut self, problem: &mut FitProblem<'_>, least: f64) -> Result<(), Halt> {
        let all = problem.all();
        for parameter in 0..self.point.len() {
            let wide = WIDE.map(|factor| self.with(parameter, self.point[parameter] + factor.ln()));
            let seen = problem.simulator.see(&[(&wide[0], &all), (&wide[1], &all)], 1)?;
            self.add_reacting(problem, parameter, &seen);
            self.try_factors(problem, parameter, &[&WIDE[..], &BETWEEN[..]].concat(), least)?;
        }
        self.seen = problem.see_all(&self.point)?;
        Ok(())
    }

    /// Tries some factors of every parameter, by the rows that are known to react.
    ///
    /// # Errors
    /// When the simulation halts; the place is then the best so far.
    pub fn sweep(&mut self, problem: &mut FitProblem<'_>, factors: &[f64], least: f64) -> Result<(), Halt> {
        for parameter in 0..self.point.len() {
            self.try_factors(problem, parameter, factors, least)?;
        }
        self.seen = problem.see_all(&self.point)?;
        Ok(())
    }

    /// Tries one more and one less of each count.
    ///
    /// # Errors
    /// When the simulation halts; the place is then the best so far.
    pub fn sweep_counts(&mut self, problem: &mut FitProblem<'_>, least: f64) -> Result<(), Halt> {
        for parameter in 0..self.point.len() {
            let based = &problem.parameters[parameter];
            if based.is_count {
                let value = based.value(self.point[parameter]);
                let factors = [(value - 1.0).max(1.0) / value, (value + 1.0) / value];
                self.try_factors(problem, parameter, &factors, least)?;
            }
        }
        Ok(())
    }

    /// Notes the rows that differ between here and there.
    pub fn add_reacting(&mut self, problem: &FitProblem<'_>, parameter: usize, others: &[Vec<TrafficResult>]) {
        for row in problem.all() {
            let reacts = others.iter().any(|seen| {
                let [rate, pause] = difference(&seen[row], &self.seen[row]);
                rate.abs() > REACTS.max(3.0 * problem.chance(row)) || pause.abs() > 2.0 * REACTS
            });
            if reacts && !self.reacting[parameter].contains(&row) {
                self.reacting[parameter].push(row);
            }
        }
    }

    /// Goes to the best of some factors of a parameter's value, and on in that direction as long as it gets better.
    fn try_factors(
        &mut self,
        problem: &mut FitProblem<'_>,
        parameter: usize,
        factors: &[f64],
        least: f64,
    ) -> Result<(), Halt> {
        let rows = self.reacting[parameter].clone();
        let [low, high] = FACTORS.map(f64::ln);
        let here = self.point[parameter];
        let mut logs: Vec<f64> = factors.iter().map(|factor| (here + factor.ln()).clamp(low, high)).collect();
        loop {
            let points: Vec<ParameterPoint> = logs.iter().map(|log| self.with(parameter, *log)).collect();
            let asked: Vec<(&ParameterPoint, &[usize])> = points.iter().map(|point| (point, &rows[..])).collect();
            let seen = problem.simulator.see(&asked, 1)?;
            let loss_at = |point: &ParameterPoint, answers: &mut dyn Iterator<Item = TrafficResult>| -> f64 {
                let rows = rows.iter().zip(answers);
                rows.map(|(row, seen)| problem.loss_of(*row, &seen, least)).sum::<f64>() + FitProblem::prior(point)
            };
            let now = loss_at(&self.point, &mut rows.iter().map(|row| self.seen[*row]));
            let losses = points.iter().zip(&seen).map(|(point, seen)| loss_at(point, &mut seen.iter().copied()));
            let Some((best, _)) = losses.enumerate().filter(|(_, loss)| *loss < now).min_by(|a, b| a.1.total_cmp(&b.1))
            else {
                return Ok(());
            };
            let before = self.point[parameter];
            self.point.clone_from(&points[best]);
            rows.iter().zip(&seen[best]).for_each(|(row, seen)| self.seen[*row] = *seen);
            let log = logs[best];
            let is_outermost = logs.iter().all(|other| (log > before) == (log >= *other)) && (low..high).contains(&log);
            if !is_outermost || problem.parameters[parameter].is_count && factors.len() == 2 {
                return Ok(());
            }
            let step = log - before;
            logs = [0.5, 1.0].map(|share| (log + share * step).clamp(low, high)).to_vec();
        }
    }
}

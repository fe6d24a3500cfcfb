//! The fit of parameters to rows: which rows are held back, the searches in turn, and what comes out.

use std::sync::atomic::AtomicBool;

use kelpie_sim::SimSubsystem;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::CalibrationError;
use crate::conflicts::{Conflict, conflicts};
use crate::descent::descend;
use crate::parameters::{Based, Parameter, described, rounded};
use crate::problem::{FitProblem, MeasuredTarget, difference};
use crate::row::{MeasuredRow, Use};
use crate::search::{MIDDLE, NARROW, SearchPoint};
use crate::simulator::{Halt, Simulator, TrafficResult};
use crate::uncertainty::{Determinacy, ParameterInterval, intervals};

/// What a fit is told besides its rows.
#[derive(Debug, Clone)]
pub struct FitSettings {
    /// The parameters that may change.
    pub parameters: Vec<Parameter>,
    /// Seed of the choice of rows that are held back, if the table does not say which.
    pub seed: u64,
    /// Relative standard deviation of the measured rates.
    pub noise: f64,
    /// Most simulated experiments.
    pub most_experiments: u64,
}

/// Relative standard deviation of measured rates. Source: the acceptance of Kelpie's calibration, 3 %.
pub const NOISE: f64 = 0.03;

/// Most experiments of a fit. Source: our choice, four times what 90 rows and all parameters take.
pub const MOST_EXPERIMENTS: u64 = 60_000;

/// Scatter that is let pass in each round of the search, relative. Source: our choice: a row that another
/// parameter decides must not pull much while that one is not fitted.
const COARSE: f64 = 0.15;
const MEDIUM: f64 = 0.1;
const FINE: f64 = 0.06;

/// One of so many rows is held back if the table does not say which. Source: our choice, a fifth.
const HELD_BACK: usize = 5;

/// One of so many fitted rows may fight. Source: our choice: chance and what is not modelled leave a few.
const MAY_FIGHT: usize = 20;

/// A parameter, fitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FittedParameter {
    /// The parameter.
    #[serde(flatten, serialize_with = "described")]
    pub parameter: Parameter,
    /// The base's value.
    pub base: f64,
    /// The value that fits best.
    pub fitted: f64,
    /// The value of the calibrated model: the fitted one if it is determined, else the base's, as far as the interval
    /// holds it.
    pub used: f64,
    /// The least value that rows allow.
    pub low: Option<f64>,
    /// The largest.
    pub high: Option<f64>,
    /// How well it is determined.
    pub state: Determinacy,
    /// Lines of the rows that bound it, those that do it most first.
    pub lines: Vec<u64>,
    /// Parameters with which it shows as a product only.
    pub tied_to: Vec<&'static str>,
}

/// A row beside what the calibrated model says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Residual {
    /// Line of the table.
    pub line: u64,
    /// Whether it was held back.
    pub held_back: bool,
    /// What was measured. Units: Gbit/s of goodput.
    pub measured_gbps: f64,
    /// What the model says. Units: Gbit/s of goodput.
    pub fitted_gbps: f64,
    /// By how much the model is above, relative.
    pub error: f64,
    /// Measured share of time. Units: percent.
    pub measured_pause_percent: Option<f64>,
    /// What the model says. Units: percent.
    pub fitted_pause_percent: f64,
}

/// How rows were held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBack {
    /// As the table says: these rows are not fitted.
    Table,
    /// A seeded fifth for the error, and then all rows are fitted.
    Fifth,
}

/// What a fit gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The parameters.
    pub parameters: Vec<FittedParameter>,
    /// All rows, in the order of lines.
    pub rows: Vec<Residual>,
    /// How rows were held back.
    pub held_back: HeldBack,
    /// Median of the relative error of rows while they were held back, or that of the calibrated model if that is
    /// larger; none without such rows.
    pub held_back_error: Option<f64>,
    /// Rows that ask for another value of a parameter than others do.
    pub conflicts: Vec<Conflict>,
    /// Whether the search came to an end by itself and few rows fight.
    pub converged: bool,
    /// Whether the user stopped it.
    pub stopped: bool,
    /// Whether it ended because it had used up its experiments.
    pub exhausted: bool,
    /// Simulated experiments.
    pub experiments: u64,
}

/// Fits parameters of `base` to `rows`, whose traffic it can run. Rows ask for values; `stop` ends the search with what
/// is best so far; `progress` is told of experiments.
///
/// # Errors
/// When the search ends before it has a beginning.
pub fn fit(
    base: &SimSubsystem,
    rows: &[MeasuredRow],
    settings: &FitSettings,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<Fit, CalibrationError> {
    let parameters: Vec<Based> = settings.parameters.iter().map(|parameter| Based::over(*parameter, base)).collect();
    let traffic: Vec<_> = rows.iter().map(|row| &row.traffic).collect();
    let simulator = Simulator::new(base, &parameters, &traffic, settings.most_experiments, stop, progress);
    let (held_back, is_held) = held_back(rows, settings.seed);
    let targets = rows.iter().zip(&is_held).map(|(row, held)| (!held).then_some(row.target)).collect();
    let mut problem = FitProblem::new(simulator, &parameters, targets, settings.noise);
    let mut place = SearchPoint::base(&mut problem).map_err(|halt| match halt {
        Halt::Stopped => CalibrationError::Stopped,
        Halt::Exhausted => CalibrationError::TooFewExperiments { most: settings.most_experiments },
    })?;
    let mut outcome = FitOutcome::default();
    let halt = outcome.reach(&mut place, &mut problem, rows, &is_held, held_back).err();
    let unknown =
        ParameterInterval { state: Determinacy::NotDetermined, bounds: [None; 2], rows: Vec::new(), tied: Vec::new() };
    let intervals = outcome.intervals.unwrap_or_else(|| vec![unknown; parameters.len()]);
    let estimates = parameters.iter().zip(&intervals).enumerate();
    let estimates: Vec<FittedParameter> = estimates
        .map(|(at, (based, interval))| estimate(based, place.point[at], interval, rows, &parameters))
        .collect();
    // What is not determined stays as in the base, so the model that is written is not the one that was fitted. One
    // that came to no end is not written.
    let written =
        parameters.iter().zip(&estimates).map(|(based, estimate)| (estimate.used / based.base).ln()).collect();
    let seen = match halt {
        None => problem.see_all(&written).unwrap_or(place.seen),
        Some(_) => place.seen,
    };
    let of_written = held_back_error(rows, &seen, &is_held);
    outcome.held_back_error = outcome.held_back_error.map(|error| error.max(of_written.unwrap_or(error)));
    let residuals = rows.iter().zip(&seen).zip(&is_held);
    Ok(Fit {
        parameters: estimates,
        rows: residuals.map(|((row, seen), held)| residual(row, seen, *held)).collect(),
        held_back,
        held_back_error: outcome.held_back_error,
        converged: outcome.converged && few_fight(&outcome.conflicts, &is_held) && halt.is_none(),
        conflicts: outcome.conflicts,
        stopped: halt == Some(Halt::Stopped),
        exhausted: halt == Some(Halt::Exhausted),
        experiments: problem.simulator.experiments(),
    })
}

/// How far a fit came.
#[derive(Default)]
struct FitOutcome {
    held_back_error: Option<f64>,
    converged: bool,
    conflicts: Vec<Conflict>,
    intervals: Option<Vec<ParameterInterval>>,
}

impl FitOutcome {
    fn reach(
        &mut self,
        place: &mut SearchPoint,
        problem: &mut FitProblem<'_>,
        rows: &[MeasuredRow],
        is_held: &[bool],
        held_back: HeldBack,
    ) -> Result<(), Halt> {
        problem.learn_scatter(&place.point)?;
        place.sweep_widely(problem, COARSE)?;
        place.sweep(problem, &MIDDLE, MEDIUM)?;
        place.sweep(problem, &NARROW, FINE)?;
        problem.learn_scatter(&place.point)?;
        self.converged = descend(place, problem)?;
        self.held_back_error = held_back_error(rows, &place.seen, is_held);
        if held_back == HeldBack::Fifth {
            problem.targets = rows.iter().map(|row| Some(row.target)).collect();
            self.converged = descend(place, problem)?;
        }
        place.sweep_counts(problem, 0.0)?;
        place.seen = problem.see_all(&place.point)?;
        self.conflicts = conflicts(place, problem, rows)?;
        self.intervals = Some(intervals(place, problem)?);
        Ok(())
    }
}

fn few_fight(conflicts: &[Conflict], is_held: &[bool]) -> bool {
    let fighting: usize = conflicts.iter().map(|conflict| conflict.lower.len() + conflict.higher.len()).sum();
    fighting * MAY_FIGHT <= is_held.iter().filter(|held| !**held).count()
}

fn held_back(rows: &[MeasuredRow], seed: u64) -> (HeldBack, Vec<bool>) {
    if rows.iter().any(|row| row.used_for.is_some()) {
        return (HeldBack::Table, rows.iter().map(|row| row.used_for == Some(Use::Check)).collect());
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
    let mut held = vec![false; rows.len()];
    order[..rows.len() / HELD_BACK].iter().for_each(|row| held[*row] = true);
    (HeldBack::Fifth, held)
}

/// The median of the relative error of the rows that were held back.
fn held_back_error(rows: &[MeasuredRow], seen: &[TrafficResult], is_held: &[bool]) -> Option<f64> {
    let held = rows.iter().zip(seen).zip(is_held).filter(|(_, held)| **held);
    let mut errors: Vec<f64> = held.map(|((row, seen), _)| residual(row, seen, true).error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    match errors.len() {
        0 => None,
        count if count % 2 == 0 => Some(f64::midpoint(errors[middle - 1], errors[middle])),
        _ => Some(errors[middle]),
    }
}

fn residual(row: &MeasuredRow, seen: &TrafficResult, held_back: bool) -> Residual {
    let MeasuredTarget { goodput_bps, pause_ratio } = row.target;
    let [log, _] = difference(seen, &TrafficResult { goodput_bps, pause_ratio: 0.0 });
    Residual {
        line: row.line,
        held_back,
        measured_gbps: goodput_bps / 1e9,
        fitted_gbps: seen.goodput_bps / 1e9,
        error: log.exp_m1(),
        measured_pause_percent: pause_ratio.map(|ratio| 100.0 * ratio),
        fitted_pause_percent: 100.0 * seen.pause_ratio,
    }
}

/// What is said of a parameter.
pub(crate) fn estimate(
    based: &Based,
    log: f64,
    interval: &ParameterInterval,
    rows: &[MeasuredRow],
    all: &[Based],
) -> FittedParameter {
    let Based { parameter, base, .. } = based;
    let fitted = based.value(log);
    let [low, high] = interval.bounds.map(|bound| bound.map(|log| base * log.exp()));
    let used = match interval.state {
        Determinacy::Determined => rounded(fitted),
        _ => match base.max(low.unwrap_or(*base)).min(high.unwrap_or(*base)) {
            kept if (kept / base - 1.0).abs() <= 1e-9 => *base,
            end => rounded(end),
        },
    };
    FittedParameter {
        parameter: *parameter,
        base: *base,
        fitted,
        used,
        low,
        high,
        state: interval.state,
        lines: interval.rows.iter().map(|row| rows[*row].line).collect(),
        tied_to: interval.tied.iter().map(|other| all[*other].parameter.path()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use crate::parameters::named;
    use crate::plan::plan;

    /// A NIC that differs in some parameters, and rows of the plan that are for them or check the fit.
    fn drawn(paths: &[&str], seed: u64) -> (SimSubsystem, SimSubsystem, FitSettings, Vec<MeasuredRow>) {
        let base = SimSubsystem::load("F").expect("embedded");
        let parameters = named(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).expect("known");
        let nic = generate::nic(&base, &parameters, seed);
        let is_for = |row: &&crate::plan::Planned| {
            row.determines.is_empty() || row.determines.iter().any(|parameter| paths.contains(&parameter.path()))
        };
        let planned: Vec<_> = plan(&base).into_iter().filter(|row| is_for(&row)).collect();
        let traffic: Vec<_> = planned.iter().map(|row| &row.traffic).collect();
        let targets = generate::measured(&nic, &traffic, NOISE, seed);
        let row = |(at, (row, target)): (usize, (&crate::plan::Planned, MeasuredTarget))| {
            let used_for = Some(if row.determines.is_empty() { Use::Check } else { Use::Fit });
            MeasuredRow { line: at as u64 + 2, traffic: row.traffic.clone(), target, used_for }
        };
        let rows = planned.iter().zip(targets).enumerate().map(row).collect();
        (base, nic, FitSettings { parameters, seed, noise: NOISE, most_experiments: 10_000 }, rows)
    }

    const FEW: [&str; 4] = ["port.line_rate_gbps", "pcie.gbps", "posting.doorbell_ns", "processing.max_reads"];

    #[test]
    fn a_drawn_nic_is_recovered_from_its_own_table() {
        let (base, nic, settings, rows) = drawn(&FEW, 5);
        let fit = fit(&base, &rows, &settings, &AtomicBool::new(false), &mut |_| ()).expect("a fit");
        assert!(fit.converged && fit.conflicts.is_empty(), "{fit:#?}");
        assert!(fit.held_back_error.expect("rows are held back") < 0.1, "{fit:#?}");
        let determined: Vec<&FittedParameter> =
            fit.parameters.iter().filter(|estimate| estimate.state == Determinacy::Determined).collect();
        assert!(determined.len() >= 2, "{fit:#?}");
        for estimate in determined {
            let truth = Based::over(estimate.parameter, &nic).base;
            assert!((estimate.used / truth - 1.0).abs() < 0.1, "{truth}: {estimate:#?}");
        }
    }

    #[test]
    fn rows_are_those_of_the_model_that_is_written() {
        // Doorbells and WQEs show as a sum only, so the fit changes both, and the model has neither.
        let (base, _, settings, rows) = drawn(&["posting.doorbell_ns", "posting.wqe_ns", "port.line_rate_gbps"], 4);
        let stop = AtomicBool::new(false);
        let fit = fit(&base, &rows, &settings, &stop, &mut |_| ()).expect("a fit");
        let based: Vec<Based> = settings.parameters.iter().map(|one| Based::over(*one, &base)).collect();
        let text = crate::model_file::write(&fit, "F", &based, "mine", "table.csv");
        let model = SimSubsystem::from_yaml("mine.yaml", &text).expect("a model");
        let traffic: Vec<_> = rows.iter().map(|row| &row.traffic).collect();
        let mut progress = |_| ();
        let mut simulator = Simulator::new(&model, &[], &traffic, 10_000, &stop, &mut progress);
        let all: Vec<usize> = (0..rows.len()).collect();
        let seen = simulator.see(&[(&Vec::new(), &all)], 1).expect("within its experiments").remove(0);
        for (row, seen) in fit.rows.iter().zip(&seen) {
            let is_same = (row.fitted_gbps / (seen.goodput_bps / 1e9) - 1.0).abs() < 1e-9;
            assert!(is_same, "line {}: {} and {}", row.line, row.fitted_gbps, seen.goodput_bps / 1e9);
        }
        assert!(fit.parameters.iter().any(|one| (one.used - one.fitted).abs() > 0.01 * one.base), "{fit:#?}");
        let error =
            held_back_error(&rows, &seen, &rows.iter().map(|row| row.used_for == Some(Use::Check)).collect::<Vec<_>>());
        assert!(fit.held_back_error >= error, "{:?} {error:?}", fit.held_back_error);
    }

    #[test]
    fn a_fit_that_is_stopped_or_out_of_experiments_says_so() {
        let (base, _, mut settings, rows) = drawn(&FEW[..2], 6);
        let stopped = fit(&base, &rows, &settings, &AtomicBool::new(true), &mut |_| ());
        assert!(matches!(stopped, Err(CalibrationError::Stopped)));
        settings.most_experiments = rows.len() as u64 + 3;
        let short = fit(&base, &rows, &settings, &AtomicBool::new(false), &mut |_| ()).expect("a beginning");
        assert!(short.exhausted && !short.converged && !short.stopped, "{short:#?}");
        assert!(short.parameters.iter().all(|estimate| estimate.state == Determinacy::NotDetermined));
        settings.most_experiments = 3;
        let none = fit(&base, &rows, &settings, &AtomicBool::new(false), &mut |_| ());
        assert!(matches!(none, Err(CalibrationError::TooFewExperiments { most: 3 })));
    }

    #[test]
    fn a_fifth_is_held_back_by_seed_unless_the_table_says_which() {
        let (_, _, _, mut rows) = drawn(&FEW[..1], 7);
        assert_eq!(held_back(&rows, 1).0, HeldBack::Table);
        for row in &mut rows {
            row.used_for = None;
        }
        let (how, held) = held_back(&rows, 1);
        assert_eq!((how, held.iter().filter(|held| **held).count()), (HeldBack::Fifth, rows.len() / 5));
        assert_eq!(held, held_back(&rows, 1).1);
        assert_ne!(held, held_back(&rows, 2).1);
    }
}

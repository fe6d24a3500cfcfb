//! Draws NICs, measures the plan on each with noise, fits, and prints how well the parameters come back.
//!
//! `cargo run --release -p kelpie-calibration --example recover -- --nics 8 --seed 100 [--base F] [--noise 0.03]`

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use kelpie_calibration::Determinacy;
use kelpie_calibration::fit::{self, FitSettings};
use kelpie_calibration::generate;
use kelpie_calibration::parameters::{Based, Parameter};
use kelpie_calibration::plan::plan;
use kelpie_calibration::row::{MeasuredRow, Use};
use kelpie_sim::SimSubsystem;

fn argument(name: &str, default: &str) -> String {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name);
    at.and_then(|at| arguments.get(at + 1).cloned()).unwrap_or_else(|| default.to_owned())
}

fn main() {
    let number = |name: &str, default: &str| argument(name, default).parse::<f64>().expect("a number");
    let (nics, seed, noise) = (number("--nics", "8") as u64, number("--seed", "100") as u64, number("--noise", "0.03"));
    let base = SimSubsystem::load(&argument("--base", "F")).expect("a model");
    let planned = plan(&base);
    let (mut all, mut good, mut held) = (0, 0, Vec::new());
    for seed in seed..seed + nics {
        let begin = Instant::now();
        let nic = generate::nic(&base, &Parameter::fitted(), seed);
        let traffic: Vec<_> = planned.iter().map(|row| &row.traffic).collect();
        let targets = generate::measured(&nic, &traffic, noise, seed);
        let rows = planned.iter().zip(targets).enumerate().map(|(at, (row, target))| {
            let used_for = Some(if row.determines.is_empty() { Use::Check } else { Use::Fit });
            MeasuredRow { line: at as u64 + 2, traffic: row.traffic.clone(), target, used_for }
        });
        let rows: Vec<MeasuredRow> = rows.collect();
        let settings =
            FitSettings { parameters: Parameter::fitted(), seed, noise, most_experiments: fit::MOST_EXPERIMENTS };
        let fit = fit::fit(&base, &rows, &settings, &AtomicBool::new(false), &mut |_| ()).expect("a fit");
        println!(
            "NIC {seed}: {} experiments, {:.0} s, converged {}",
            fit.experiments,
            begin.elapsed().as_secs_f64(),
            fit.converged
        );
        for estimate in &fit.parameters {
            let truth = Based::over(estimate.parameter, &nic).base;
            let error = estimate.fitted / truth - 1.0;
            let is_determined = estimate.state == Determinacy::Determined;
            all += u32::from(is_determined);
            good += u32::from(is_determined && error.abs() <= 0.1);
            let bound = |bound: Option<f64>| bound.map_or_else(|| "-".to_owned(), |bound| format!("{bound:.1}"));
            let mark = match (is_determined, error.abs() <= 0.1) {
                (true, false) => "WRONG",
                (true, true) => "",
                _ => "(not determined)",
            };
            println!(
                "  {:34} base {:7.1} true {truth:7.1} fitted {:7.1} ({:+5.1} %) [{}, {}] {:?} {mark}",
                estimate.parameter.path(),
                estimate.base,
                estimate.fitted,
                100.0 * error,
                bound(estimate.low),
                bound(estimate.high),
                estimate.state,
            );
        }
        let mut worst: Vec<_> = fit.rows.iter().collect();
        worst.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
        for row in worst.iter().take(5) {
            println!(
                "    row {} error {:+.1} % ({:.2} -> {:.2})",
                row.line,
                100.0 * row.error,
                row.measured_gbps,
                row.fitted_gbps
            );
        }
        println!(
            "  held back: median error {:.1} %; {} conflicts",
            100.0 * fit.held_back_error.unwrap_or(f64::NAN),
            fit.conflicts.len()
        );
        held.extend(fit.held_back_error);
    }
    println!("{good} of {all} determined parameters within 10 %; held-back medians {held:.3?}");
}

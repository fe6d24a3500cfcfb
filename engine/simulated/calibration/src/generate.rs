//! NICs that do not exist, and tables measured on them: to see how well a calibration recovers what is known.

use kelpie_sim::SimSubsystem;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

use crate::parameters::{Based, Parameter};
use crate::problem::MeasuredTarget;
use crate::simulator::{measure, settings_of};
use crate::traffic::Traffic;

/// Factors of the base's value between which a parameter is drawn. Source: our choice, one generation of NICs less and
/// most of one more.
pub const DRAWN: [f64; 2] = [0.6, 1.6];

/// A NIC whose parameters are those of a base times factors that are drawn evenly by their logarithms.
pub fn nic(base: &SimSubsystem, parameters: &[Parameter], seed: u64) -> SimSubsystem {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let [low, high] = DRAWN.map(f64::ln);
    let mut numbers = vec![(Parameter::Seed.path(), (seed % 1000 + 1000) as f64)];
    for parameter in parameters {
        let based = Based::over(*parameter, base);
        numbers.extend(based.settings(based.value(random.random_range(low..high))).collect::<Vec<_>>());
    }
    let mut nic = base.clone();
    nic.set_numbers(&numbers).expect("what is drawn lies within the range of each parameter");
    nic
}

/// What is measured of traffic on a NIC, each rate and each pause with relative noise.
pub fn measured(nic: &SimSubsystem, rows: &[&Traffic], noise: f64, seed: u64) -> Vec<MeasuredTarget> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let normal = Normal::new(1.0, noise).expect("a deviation is a finite number");
    let mut factor = || normal.sample(&mut random).clamp(1.0 - 4.0 * noise, 1.0 + 4.0 * noise);
    let each = rows.iter().map(|traffic| {
        let mut model = nic.clone();
        model.set_numbers(&settings_of(traffic)).expect("a sample and cores fit every model");
        let workload = traffic.workload().expect("plans hold valid traffic");
        let answer = measure(&mut model, &workload).expect("traffic in memory of a NUMA node is simulated");
        let (rate, pause) = (factor(), factor());
        MeasuredTarget {
            goodput_bps: answer.goodput_bps * rate,
            pause_ratio: Some((answer.pause_ratio * pause).min(1.0)),
        }
    });
    each.collect()
}

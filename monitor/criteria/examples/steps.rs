//! How well steps to skip and to measure are found in drawn series, whose period and warm-up are known: `steps [SEED]`.

use kelpie_criteria::Series;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Normal};
use rand_pcg::Pcg64Mcg;

/// Series of each kind, and their steps. Source of the steps: SuperBench's fixed ones, section 5.3.
const DRAWN: u64 = 30;
const STEPS: usize = 3144;

/// Steps of 1; the last of each cycle takes longer, and the first ones do until the machine is warm.
fn draw(period: usize, longer: f64, warm: usize, noise: f64, seed: u64) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let noise = Normal::new(1.0, noise).expect("a spread");
    let step = |nth: usize| {
        let cold = 1.0 + warm.saturating_sub(nth) as f64 / warm.max(1) as f64;
        let cycle = if period > 1 && nth % period == period - 1 { longer } else { 1.0 };
        cold * cycle * noise.sample(&mut random).max(0.1)
    };
    (0..STEPS).map(step).collect()
}

fn main() {
    let seed: u64 = std::env::args().nth(1).map_or(1000, |text| text.parse().expect("a seed"));
    println!(
        "noise | last step | period right | period none | no answer | skipped of the warm-up | steps run | mean off by"
    );
    for noise in [0.005, 0.02, 0.05, 0.1] {
        for longer in [1.0, 1.3, 3.0] {
            let (mut right, mut none, mut silent, mut skipped, mut run, mut off, mut count) = (0, 0, 0, 0.0, 0, 0.0, 0);
            for (period, warm) in [(2, 0), (5, 40), (8, 120), (20, 72), (50, 300)] {
                let period = if longer > 1.0 { period } else { 1 };
                for nth in 0..DRAWN {
                    let samples = draw(period, longer, warm, noise, seed + nth);
                    let line = format!("{{\"node\": \"a\", \"metric\": \"m\", \"samples\": {samples:?}}}");
                    let found = Series::from_lines("drawn", line.as_bytes()).expect("a line").steps();
                    count += 1;
                    let Some(steps) = &found["m"] else {
                        silent += 1;
                        continue;
                    };
                    right += usize::from(steps.period == period);
                    none += usize::from(steps.period.is_power_of_two() && steps.period != period);
                    skipped += if warm > 0 { steps.skip as f64 / warm as f64 } else { 1.0 };
                    run += steps.skip + steps.measure;
                    let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
                    let window = mean(&samples[steps.skip..steps.skip + steps.measure]);
                    off += (window / mean(&samples[STEPS / 2..]) - 1.0).abs();
                }
            }
            let answered = f64::from((count - silent).max(1));
            println!(
                "{noise} | {longer} | {right} of {count} | {none} | {silent} | {:.0} % | {:.1} % | {:.2} %",
                skipped / answered * 100.0,
                run as f64 / answered / STEPS as f64 * 100.0,
                off / answered * 100.0
            );
        }
    }
}

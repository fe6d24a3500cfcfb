//! How many steps of a benchmark to skip and to measure, so that no more are run than say what many would.
//!
//! Source: SuperBench, section 4. The paper leaves open how the period is chosen and how many cycles are to be alike.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::results::ResultLine;
use crate::similarity::{Norm, similarity};

/// Cycles that are no more alike than this are different. Source: section 3.4, the threshold of criteria.
const ALPHA: f64 = 0.95;
/// Cycles that are alike. Source: our choice; the paper says "a certain number".
const CYCLES: usize = 3;
/// By how much a longer period must be stronger. Source: our choice; multiples of the period are as strong.
const STRONGER: f64 = 0.02;
/// The strength from which on there is a period. Source: our choice: of noise alone, the strongest has up to 0.4.
const PERIODIC: f64 = 0.5;
/// Longest period, and most of the last steps that it is looked for in. Source: our choice.
const LONGEST: usize = 1024;
const MOST_STEPS: usize = 16_384;
/// Nodes whose steps are compared pair by pair, spread over all. Source: our choice.
const MOST_NODES: usize = 64;

/// Which steps of a metric to measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Steps {
    /// Steps to skip at the beginning.
    pub skip: usize,
    /// Steps to measure after them.
    pub measure: usize,
    /// Steps of a period, 1 if there is none.
    pub period: usize,
    /// How alike what is measured is: on two nodes, or in two cycles of the only one.
    pub repeatability: f64,
    /// Nodes that were recorded.
    pub nodes: usize,
    /// Nodes that have no cycles alike, which say nothing here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unstable: Vec<String>,
}

/// Three cycles of a series that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stable {
    skip: usize,
    /// Steps of each of the cycles that are compared: the period, or as many of it as noise asks for.
    cycle: usize,
    period: usize,
}

/// Steps of nodes, by metric and node, in the order in which they ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series(BTreeMap<String, BTreeMap<String, Vec<f64>>>);

/// Why series were refused.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {rule}")]
pub struct SeriesError {
    file: String,
    line: usize,
    rule: String,
}

impl Series {
    /// Reads JSON lines of a file, named for errors.
    ///
    /// # Errors
    /// Names file and line of the first mistake.
    pub fn from_lines(file: &str, bytes: &[u8]) -> Result<Self, SeriesError> {
        let refuse = |line: usize, rule: String| SeriesError { file: file.to_owned(), line, rule };
        let mut series = Self::default();
        for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if text.trim_ascii().is_empty() {
                continue;
            }
            let read: ResultLine = serde_json::from_slice(text).map_err(|error| {
                refuse(line, error.to_string().split(" at line ").next().unwrap_or_default().to_owned())
            })?;
            if !read.samples.iter().all(|value| value.is_finite() && *value >= 0.0) {
                return Err(refuse(line, "write samples from 0 up".to_owned()));
            }
            let metric =
                read.component.map_or(read.metric.clone(), |component| format!("{}[{component}]", read.metric));
            series.0.entry(metric).or_default().entry(read.node).or_default().extend(read.samples);
        }
        if series.0.is_empty() {
            let rule =
                "no step: write lines such as {\"node\": \"n1\", \"metric\": \"step_time\", \"samples\": [0.9, 0.5]}";
            return Err(refuse(1, rule.to_owned()));
        }
        Ok(series)
    }

    /// By metric, which steps to measure; none if no node has cycles that are alike.
    pub fn steps(&self) -> BTreeMap<String, Option<Steps>> {
        self.0.iter().map(|(metric, nodes)| (metric.clone(), steps(nodes))).collect()
    }
}

fn steps(nodes: &BTreeMap<String, Vec<f64>>) -> Option<Steps> {
    let found: Vec<Option<Stable>> = nodes.values().map(|series| stable(series)).collect();
    let mut all: Vec<Stable> = found.iter().copied().flatten().collect();
    // Of equal ones the shortest is first.
    all.sort_by_key(|one| (one.skip + CYCLES * one.cycle, *one));
    all.dedup();
    let stride = nodes.len().div_ceil(MOST_NODES);
    let some: Vec<&Vec<f64>> = nodes.values().step_by(stride).collect();
    let mut best: Option<(f64, Stable)> = None;
    for one in all.iter().step_by(all.len().div_ceil(MOST_NODES).max(1)) {
        let Stable { skip, cycle, .. } = *one;
        let windows: Option<Vec<Vec<f64>>> = if some.len() > 1 {
            some.iter().map(|series| Some(sorted(series.get(skip..skip + CYCLES * cycle)?))).collect()
        } else {
            Some(some[0][skip..skip + CYCLES * cycle].chunks(cycle).map(sorted).collect())
        };
        let Some(alike) = windows.map(|windows| mean_similarity(&windows)) else { continue };
        if best.is_none_or(|(most, _)| alike > most) {
            best = Some((alike, *one));
        }
    }
    let unstable =
        nodes.keys().zip(&found).filter(|(_, found)| found.is_none()).map(|(node, _)| node.clone()).collect();
    best.map(|(repeatability, Stable { skip, cycle, period })| Steps {
        skip,
        measure: CYCLES * cycle,
        period,
        repeatability,
        nodes: nodes.len(),
        unstable,
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

fn pairs<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    all.iter().enumerate().flat_map(|(nth, one)| all[..nth].iter().map(move |other| (one, other)))
}

fn mean_similarity(windows: &[Vec<f64>]) -> f64 {
    let (sum, count) = pairs(windows)
        .fold((0.0, 0.0), |(sum, count), (one, other)| (sum + similarity(one, other, Norm::Area), count + 1.0));
    sum / count
}

/// The first cycles of a series that are alike, and like its second half: a plateau before the machine is warm is alike
/// too. Cycles are as long as noise asks for.
fn stable(series: &[f64]) -> Option<Stable> {
    let settled = &series[series.len() / 2..];
    let period = period(&settled[settled.len().saturating_sub(MOST_STEPS)..]).unwrap_or(1);
    let lengths = std::iter::successors(Some(period), |length| Some(2 * length));
    let lengths: Vec<usize> = lengths.take_while(|length| length * CYCLES <= settled.len()).collect();
    let settled = sorted(settled);
    let is_alike = |one: &[f64], other: &[f64]| similarity(one, other, Norm::Area) > ALPHA;
    let first = |cycle: usize| {
        let cycles: Vec<Vec<f64>> = series.chunks_exact(cycle).map(sorted).collect();
        let nth = cycles.windows(CYCLES).position(|cycles| {
            pairs(cycles).all(|(one, other)| is_alike(one, other)) && is_alike(&sorted(&cycles.concat()), &settled)
        })?;
        Some(Stable { skip: nth * cycle, cycle, period })
    };
    lengths.into_iter().filter_map(first).min_by_key(|one| one.skip + CYCLES * one.cycle)
}

/// The shortest period that is about as strong as the strongest.
fn period(series: &[f64]) -> Option<usize> {
    let longest = (series.len() / CYCLES).min(LONGEST);
    let sum = |sum: &mut f64, step: &f64| {
        *sum += step;
        Some(*sum)
    };
    let sums: Vec<f64> = std::iter::once(0.0).chain(series.iter().scan(0.0, sum)).collect();
    let strengths: Vec<f64> = (2..=longest).map(|period| strength(series, &sums, period)).collect();
    let best = strengths.iter().copied().fold(0.0, f64::max);
    let nth = strengths.iter().position(|strength| *strength >= best - STRONGER)?;
    (best >= PERIODIC).then_some(nth + 2)
}

/// The share of what varies about the moving average that repeats with the period: classical seasonal decomposition,
/// less what any split into as many parts would explain.
fn strength(series: &[f64], sums: &[f64], period: usize) -> f64 {
    let half = period / 2;
    let mean = |at: usize| {
        let ends = if period.is_multiple_of(2) { f64::midpoint(series[at - half], series[at + half]) } else { 0.0 };
        (sums[at + half + 1] - sums[at - half] - ends) / period as f64
    };
    let detrended: Vec<f64> = (half..series.len() - half).map(|at| series[at] - mean(at)).collect();
    let count = detrended.len();
    if count <= 2 * period {
        return 0.0;
    }
    let squares = |values: &mut dyn Iterator<Item = f64>| {
        let (count, sum, square) =
            values.fold((0.0, 0.0, 0.0), |(n, sum, square), v| (n + 1.0, sum + v, square + v * v));
        (square - sum * sum / count).max(0.0)
    };
    let whole = squares(&mut detrended.iter().copied());
    let rest: f64 = (0..period).map(|phase| squares(&mut detrended.iter().copied().skip(phase).step_by(period))).sum();
    let (rest, whole) = (rest / (count - period) as f64, whole / (count - 1) as f64);
    if whole > 0.0 { (1.0 - rest / whole).max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, Normal};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Steps that take 1, the last of each cycle longer, the first ones while the machine gets warm longer too.
    fn series(period: usize, longer: f64, warm: usize, noise: f64, seed: u64) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let noise = Normal::new(1.0, noise).expect("a spread");
        let step = |nth: usize| {
            let cold = if nth < warm { 1.0 + (warm - nth) as f64 / warm as f64 } else { 1.0 };
            let cycle = if nth % period == period - 1 { longer } else { 1.0 };
            cold * cycle * noise.sample(&mut random).max(0.1)
        };
        (0..600).map(step).collect()
    }

    #[test]
    fn the_period_and_the_end_of_the_warm_up_are_found() {
        for (nth, (length, warm)) in [(8, 40), (20, 90), (5, 0), (50, 120), (2, 30)].into_iter().enumerate() {
            let found = stable(&series(length, 3.0, warm, 0.02, nth as u64)).expect("it is stable");
            assert_eq!(found.period, length);
            // Cycles are 5 % alike a little before the warm-up is over, and begin at a multiple of the period.
            assert!(
                (warm.saturating_sub(warm / 4 + length)..=warm + length).contains(&found.skip),
                "{length} {warm}: {found:?}"
            );
        }
    }

    #[test]
    fn a_plateau_before_the_machine_is_warm_is_not_measured() {
        let mut slow = series(10, 3.0, 0, 0.01, 1);
        slow[..100].iter_mut().for_each(|step| *step *= 2.0);
        assert_eq!(stable(&slow), Some(Stable { skip: 100, cycle: 10, period: 10 }));
    }

    #[test]
    fn without_a_period_noise_decides_how_many_steps_are_needed() {
        assert_eq!(stable(&[5.0; 60]), Some(Stable { skip: 0, cycle: 1, period: 1 }));
        let quiet = stable(&series(1, 1.0, 0, 0.01, 2)).expect("it is stable");
        let noisy = stable(&series(1, 1.0, 0, 0.15, 2)).expect("it is stable");
        assert!(quiet.cycle <= 2 && noisy.cycle >= 8, "{quiet:?} {noisy:?}");
        // Steps that become ever slower are never like the later ones.
        let drift: Vec<f64> = (0..600).map(|nth| 1.02_f64.powi(nth)).collect();
        assert_eq!(stable(&drift), None);
        assert_eq!(stable(&[]), None);
    }

    #[test]
    fn all_nodes_measure_the_steps_that_are_most_alike_and_those_without_are_named() {
        let line = |node: &str, samples: &[f64]| {
            format!("{{\"node\": \"{node}\", \"metric\": \"step\", \"samples\": {samples:?}}}\n")
        };
        let drift: Vec<f64> = (0..600).map(|nth| 1.02_f64.powi(nth)).collect();
        let text = line("a", &series(10, 3.0, 40, 0.01, 3)) + &line("b", &series(10, 3.0, 100, 0.01, 4));
        let found = Series::from_lines("s", text.as_bytes()).expect("lines").steps();
        let steps = found["step"].as_ref().expect("stable");
        // Node a is warm early, and b is not yet then.
        assert!(steps.skip >= 70 && steps.measure == 30 && steps.repeatability > 0.98, "{steps:?}");
        let text = text + &line("c", &drift);
        let found = Series::from_lines("s", text.as_bytes()).expect("lines").steps();
        assert_eq!(found["step"].as_ref().expect("stable").unstable, ["c"]);
        let error = Series::from_lines("s", b"\n{\"node\": \"a\"}").expect_err("no metric").to_string();
        assert!(error.starts_with("s:2: missing field `metric`"), "{error}");
    }
}

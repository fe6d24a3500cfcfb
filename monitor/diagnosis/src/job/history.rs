//! Each connection against its own past: finds slowdowns of a few percent that peers cannot show.
//!
//! A self-starting CUSUM chart (Hawkins, "Self-starting Cusum charts for location and scale", The Statistician 36,
//! 1987). Each value is held against the mean and spread of all before it, which makes values of an unchanged series
//! independent and standard normal, whatever its mean and spread are. So the rate of false alarms is known without any
//! training, which a Bayesian detector has only for its prior. It costs four numbers and no history per series.

use std::collections::BTreeMap;

use kelpie_monitor::statistics::{median, standard_normal};

use super::between::{Between, between};
use super::explain::{Shift, Terms, explain};
use super::pair_times::PairTimes;
use super::places::Fault;

/// Half the shift that is found fastest. Units: standard deviations. Source: our choice: 1 is what a slowdown of 3 % is
/// at 3 % noise; larger ones are found within a few iterations anyway.
const SLACK: f64 = 0.5;
/// A value counts for no more than this. Units: standard deviations. Source: our choice, so that no single hiccup, and
/// no tail that is heavier than a normal one, makes an alarm.
const MOST: f64 = 4.0;
/// Values before a series is judged. Source: our choice; with fewer the transformation below is off by over 1 %.
const LEAST: u32 = 8;
/// Iterations per false alarm of all series of a job together.
/// Source: our choice; ten times better than one in 10,000.
const FALSE_ALARM: f64 = 100_000.0;
/// Cells from which what all have in common in an iteration is taken away. Source: our choice; with few cells the slow
/// one would be a good part of that.
pub(super) const COMMON: usize = 8;
/// Least slowdown that is said. Source: our choice: 1 %; below, nobody acts.
const LEAST_SHIFT: f64 = 0.01;
/// The same if sizes vary, also for a whole job. Source: our choice: 10 %, because what a size usually takes is known
/// to a few percent, and each pair's sizes change together.
const LEAST_BY_SIZE: f64 = 0.095_3;
/// Neighbouring values are taken for no more alike than this. Source: our choice: nothing that is more alike has a
/// mean.
const MOST_ALIKE: f64 = 0.97;
/// Least slowdown between groups, as a logarithm. Source: our choice: 20 %, so that noise hides and makes no side.
const LEAST_GROUP: f64 = 0.182;
/// Least slowdown of a whole job that is said, as a logarithm. Source: our choice: 5 %, because a job has phases.
const LEAST_LEVEL: f64 = 0.048_8;

/// The alarm threshold for so many series. Units: standard deviations.
///
/// Source: Siegmund, "Sequential Analysis", 1985, section 2.6: an unchanged series alarms once in
/// `(exp(2k(h + 1.166)) - 2k(h + 1.166) - 1) / 2k²` values; of this the exponential is all that counts.
pub fn threshold(series: usize) -> f64 {
    (FALSE_ALARM * series.max(1) as f64 * 2.0 * SLACK * SLACK).ln() / (2.0 * SLACK) - 1.166
}

/// One series: its mean and spread so far, and the sum that alarms.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chart {
    count: u32,
    mean: f64,
    squares: f64,
    /// The CUSUM. Units: standard deviations.
    pub sum: f64,
    /// Index of the iteration from which the sum grew.
    pub since: u32,
}

impl Chart {
    /// The mean of what the chart learned.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Takes the value of iteration `at`. During an alarm nothing is learned, so that a change does not become the
    /// norm; before it all is, because values are independent only of a mean that takes all of them in.
    pub fn push(&mut self, value: f64, at: u32, threshold: f64) {
        if self.count >= LEAST {
            let n = f64::from(self.count);
            let spread = (self.squares / (n - 1.0)).sqrt().max(1e-9);
            let u = standard_normal((value - self.mean) / (spread * (1.0 + 1.0 / n).sqrt()), n - 1.0);
            self.sum = (self.sum + u.clamp(-MOST, MOST) - SLACK).clamp(0.0, 2.0 * threshold);
            if self.sum <= 0.0 {
                self.since = at + 1;
            }
        } else {
            self.since = at + 1;
        }
        if self.sum <= threshold {
            self.count += 1;
            let step = value - self.mean;
            self.mean += step / f64::from(self.count);
            self.squares += step * (value - self.mean);
        }
    }
}

/// What their own past says of the end of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobHistory {
    /// What is slow, with the factor by which it became slower.
    pub faults: Vec<(Fault, f64)>,
    /// Iteration from which it was so.
    pub since: Option<u64>,
    /// Number of series.
    pub series: usize,
    /// Whether there were enough iterations for an answer.
    pub is_judged: bool,
    /// Alarms earlier in the job that are over.
    pub past: usize,
    /// The groups between which messages became slower, if they explain more than single places, and the factor.
    pub between: Option<(Between, f64)>,
    /// By which factor all that was measured became slower together.
    pub all: Option<f64>,
}

/// Runs the charts of all cells, sources and destinations over all iterations.
pub fn history(cells: &PairTimes) -> JobHistory {
    if cells.times.len() <= LEAST as usize {
        return JobHistory::default();
    }
    let mut charts = Charts::new(cells);
    let mut alarmed = vec![false; charts.all.len()];
    for (at, times) in cells.times.iter().enumerate() {
        charts.push(times, at as u32);
        for (series, was) in charts.all.iter().zip(&mut alarmed) {
            *was |= series.sum > charts.threshold;
        }
    }
    let current: Vec<&Chart> = charts.all.iter().filter(|chart| chart.sum > charts.threshold).collect();
    let mut found = JobHistory {
        series: charts.all.len(),
        is_judged: true,
        past: alarmed.iter().filter(|was| **was).count() - current.len(),
        ..JobHistory::default()
    };
    // One chart in many began to rise before the change by chance, so the first quarter decides, not the first.
    let mut begins: Vec<u32> = current.iter().map(|chart| chart.since).collect();
    begins.sort_unstable();
    if let Some(&since) = begins.get(begins.len() / 4) {
        let first = located(cells, since as usize, charts.threshold);
        // A chart may rise by chance before the change, so what was found says itself when it began.
        let since = change(cells, &first).unwrap_or(since as usize);
        let last = located(cells, since, charts.threshold);
        // What sizes that vary leave unexplained is no doubt.
        if !(cells.are_by_size && last.faults.is_empty() && last.all.is_none()) {
            found.since = cells.iterations.get(since).copied();
        }
        found.faults = last.faults.into_iter().map(|(fault, shift, _)| (fault, shift.exp())).collect();
        found.all = last.all;
        found.between = last.between;
    }
    found
}

/// The places that changed, with their differences of logarithms and their cells, and the factor of all together.
#[derive(Default)]
struct Located {
    faults: Vec<(Fault, f64, Vec<u32>)>,
    all: Option<f64>,
    between: Option<(Between, f64)>,
}

/// The iteration that divides the times of the worst place best, by likelihood.
fn change(cells: &PairTimes, located: &Located) -> Option<usize> {
    let mut is_in = vec![located.faults.is_empty(); cells.pairs.len()];
    if let Some((_, _, line)) = located.faults.first() {
        for cell in line {
            is_in[*cell as usize] = true;
        }
    } else if located.all.is_none() {
        return None;
    }
    let mut sums = vec![(0.0, 0u32); cells.pairs.len()];
    for &(cell, time) in cells.times.iter().flatten() {
        let (sum, count) = &mut sums[cell as usize];
        *sum += time.ln();
        *count += 1;
    }
    let off = |(cell, time): &(u32, f64)| {
        let (sum, count) = sums[*cell as usize];
        time.ln() - sum / f64::from(count)
    };
    // What all others have in common is no part of the place, unless there are no others.
    let series: Vec<Option<f64>> = cells
        .times
        .iter()
        .map(|times| {
            let (mine, others): (Vec<_>, Vec<_>) = times.iter().partition(|(cell, _)| is_in[*cell as usize]);
            let mean = |times: &[(u32, f64)]| times.iter().map(off).sum::<f64>() / times.len() as f64;
            let common = if others.len() < COMMON { 0.0 } else { mean(&others) };
            (!mine.is_empty()).then(|| mean(&mine) - common)
        })
        .collect();
    divide(&series)
}

/// Where a rise divides a series best, by likelihood; what was not measured is `None`. At least [`LEAST`] values lie
/// before it.
pub(super) fn divide(series: &[Option<f64>]) -> Option<usize> {
    let total: f64 = series.iter().flatten().sum();
    let count = series.iter().flatten().count() as f64;
    let (mut sum, mut seen) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    for (at, value) in series.iter().enumerate() {
        if seen >= f64::from(LEAST) && seen < count {
            let step = (total - sum) / (count - seen) - sum / seen;
            let gain = step * step * seen * (count - seen) / count;
            if step > 0.0 && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, at));
            }
        }
        if let Some(value) = value {
            sum += value;
            seen += 1.0;
        }
    }
    best.map(|(_, at)| at)
}

/// The charts of a job: cells first, then sources, then destinations, at last what all have in common.
struct Charts<'c> {
    cells: &'c PairTimes,
    all: Vec<Chart>,
    /// Per cell the indices of its source's and its destination's chart.
    lines: Vec<[u32; 2]>,
    sums: Vec<(f64, u32)>,
    threshold: f64,
}

impl<'c> Charts<'c> {
    fn new(cells: &'c PairTimes) -> Self {
        let count = cells.pairs.len();
        let mut numbers: BTreeMap<(bool, u32), u32> = BTreeMap::new();
        let mut number = |is_source: bool, rank: u32| {
            let next = (count + numbers.len()) as u32;
            *numbers.entry((is_source, rank)).or_insert(next)
        };
        let lines: Vec<[u32; 2]> = cells
            .pairs
            .iter()
            .map(|(source, destination)| [number(true, *source), number(false, destination.unwrap_or(u32::MAX))])
            .collect();
        let all = vec![Chart::default(); count + numbers.len() + 1];
        let threshold = threshold(all.len());
        Self { cells, sums: vec![(0.0, 0); all.len()], all, lines, threshold }
    }

    fn push(&mut self, times: &[(u32, f64)], at: u32) {
        let excess = excess(times, |cell| self.all[cell as usize].mean());
        let common = excess.filter(|_| times.len() >= COMMON).unwrap_or(0.0);
        let whole = self.all.len() - 1;
        if let Some(excess) = excess {
            self.all[whole].push(excess, at, self.threshold);
        }
        self.sums.fill((0.0, 0));
        for &(cell, time) in times {
            let value = time.ln() - common;
            let chart = &mut self.all[cell as usize];
            if let Some(mean) = chart.mean() {
                for line in self.lines[cell as usize] {
                    let (sum, count) = &mut self.sums[line as usize];
                    *sum += value - mean;
                    *count += 1;
                }
            }
            chart.push(value, at, self.threshold);
        }
        for line in self.cells.pairs.len()..whole {
            let (sum, count) = self.sums[line];
            if count >= 2 {
                self.all[line].push(sum / f64::from(count), at, self.threshold);
            }
        }
    }
}

/// What all cells of an iteration have in common beyond their means, as a logarithm.
fn excess(times: &[(u32, f64)], mean: impl Fn(u32) -> Option<f64>) -> Option<f64> {
    median(&times.iter().filter_map(|(cell, time)| Some(time.ln() - mean(*cell)?)).collect::<Vec<_>>())
}

/// The places that explain best what changed at iteration `since`, with the factor of each, and the factor of all
/// cells together.
fn located(cells: &PairTimes, since: usize, threshold: f64) -> Located {
    let count = cells.pairs.len();
    let sums = |times: &[Vec<(u32, f64)>]| {
        let mut sums = vec![(0.0, 0u32); count];
        for &(cell, time) in times.iter().flatten() {
            let (sum, count) = &mut sums[cell as usize];
            *sum += time.ln();
            *count += 1;
        }
        sums
    };
    let (before, after) = (sums(&cells.times[..since]), sums(&cells.times[since..]));
    let mean = |cell: u32| {
        let (sum, count) = before[cell as usize];
        (count > 0).then(|| sum / f64::from(count))
    };
    // Squares of what is left before the change; what all have in common in an iteration, and how alike it is.
    let mut squares = vec![0.0; count];
    let mut likeness = Autocorrelation::new(count);
    let (mut levels, mut level_likeness) = ([Vec::new(), Vec::new()], Autocorrelation::new(1));
    for (at, times) in cells.times.iter().enumerate() {
        let Some(excess) = excess(times, mean) else { continue };
        levels[usize::from(at >= since)].push(excess);
        if at >= since {
            continue;
        }
        level_likeness.push(0, excess);
        let common = if times.len() < COMMON { 0.0 } else { excess };
        for &(cell, time) in times {
            let Some(left) = mean(cell).map(|mean| time.ln() - mean - common) else { continue };
            squares[cell as usize] += left * left;
            likeness.push(cell as usize, left);
        }
    }
    let judged = squares.iter().zip(&before).filter(|(_, (_, count))| *count >= LEAST);
    let variances: Vec<f64> = judged.map(|(squares, (_, count))| squares / f64::from(count - 1)).collect();
    let variance = median(&variances).unwrap_or(0.0).max(1e-8) * likeness.inflation(since, count);
    let shift = |((earlier, n), (later, m)): (&(f64, u32), &(f64, u32))| {
        // Of a cell that was hardly seen before, nothing is known.
        if *n < LEAST.min(since.max(1) as u32) || *m == 0 {
            return Shift::default();
        }
        let (n, m) = (f64::from(*n), f64::from(*m));
        Shift { value: later / m - earlier / n, weight: 1.0 / (2.0 * variance * (1.0 / n + 1.0 / m)) }
    };
    let shifts: Vec<Shift> = before.iter().zip(&after).map(shift).collect();
    let spread = |values: &Vec<f64>| {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        if count > 1.0 { squares / (count - 1.0) } else { 0.0 }
    };
    let [earlier, later] = levels.each_ref().map(|values| values.len().max(1) as f64);
    let level = spread(&levels[0]).max(variance / count.max(1) as f64) * level_likeness.inflation(since, 1);
    let level = level * (1.0 / earlier + 1.0 / later);
    let (least, least_level) =
        if cells.are_by_size { (LEAST_BY_SIZE, LEAST_BY_SIZE) } else { (LEAST_SHIFT, LEAST_LEVEL) };
    let found = explain(cells, &shifts, Terms { gain: threshold, least, level });
    let is_slower = found.level > least_level && found.level * found.level / (2.0 * level) >= threshold;
    let factor = if is_slower { found.level } else { found.faults.first().map_or(0.0, |(_, shift, _)| *shift) };
    let has = |is: fn(&Fault) -> bool| found.faults.iter().any(|(fault, ..)| is(fault));
    let is_single = has(|fault| matches!(fault, Fault::Rank(_) | Fault::Source(_) | Fault::Destination(_)))
        || (cells.twins().is_empty() && has(|fault| matches!(fault, Fault::Host(_))));
    let groups = if factor > LEAST_GROUP && !is_single { between(cells, &shifts, factor / 2.0) } else { None };
    Located {
        faults: found.faults,
        all: is_slower.then(|| found.level.exp()),
        between: groups.map(|groups| (groups, factor.exp())),
    }
}

/// How alike neighbouring values of a series are. On a loaded machine they are, and then many say little more than few.
pub(super) struct Autocorrelation {
    last: Vec<Option<f64>>,
    product: f64,
    squares: f64,
    pairs: usize,
}

impl Autocorrelation {
    pub(super) fn new(series: usize) -> Self {
        Self { last: vec![None; series], product: 0.0, squares: 0.0, pairs: 0 }
    }

    pub(super) fn push(&mut self, series: usize, value: f64) {
        if let Some(last) = self.last[series].replace(value) {
            self.product += last * value;
            self.squares += f64::midpoint(last * last, value * value);
            self.pairs += 1;
        }
    }

    /// By how much the variance of a mean is larger than that of independent values, at least 1.
    ///
    /// Source: an autoregression of the first order, whose coefficient is taken one standard error above what was
    /// measured, and freed of what fitting a mean takes away (Kendall 1954: `(1 + 3r) / n`).
    pub(super) fn inflation(&self, iterations: usize, series: usize) -> f64 {
        if self.squares <= 0.0 {
            return 1.0;
        }
        let n = iterations.max(2) as f64;
        let measured = self.product / self.squares;
        let measured = measured + (1.0 + 3.0 * measured.max(0.0)) / n;
        // Few series may all have the same load behind them.
        let independent = if series < COMMON { n } else { self.pairs as f64 };
        let r = (measured + 1.0 / independent.sqrt()).clamp(0.0, MOST_ALIKE);
        // Only what is more than chance counts, so that quiet jobs lose no power.
        if measured < 2.0 / independent.sqrt() { 1.0 } else { (1.0 + r) / (1.0 - r) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hiccup_is_no_alarm_and_a_lasting_change_is_one_with_its_begin() {
        let limit = threshold(64);
        let noise = |at: u32| 0.01 * [-1.0, 0.3, 0.9, -0.4, 1.2, -1.1, 0.1][at as usize % 7];
        let mut chart = Chart::default();
        for at in 0..100 {
            chart.push(noise(at) + if at == 50 { 5.0 } else { 0.0 }, at, limit);
            assert!(chart.sum < limit, "{at}");
        }
        for at in 100..110 {
            chart.push(noise(at) + 5.0, at, limit);
        }
        assert!(chart.sum > limit);
        assert_eq!(chart.since, 100);
    }
}

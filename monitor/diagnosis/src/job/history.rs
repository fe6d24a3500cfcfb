//! Each connection against its own past: finds slowdowns of a few percent that peers cannot show.
//!
//! A self-starting CUSUM chart (Hawkins, "Self-starting Cusum charts for location and scale", The Statistician 36,
//! 1987). Each value is held against the mean and spread of all before it, which makes values of an unchanged series
//! independent and standard normal, whatever its mean and spread are. So the rate of false alarms is known without any
//! training, which a Bayesian detector has only for its prior. It costs four numbers and no history per series.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::Cells;
use super::places::Fault;
use kelpie_monitor::statistics::{median, standard_normal};

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
const COMMON: usize = 8;
/// Least slowdown that is said. Source: our choice: 1 %; below, nobody acts.
const LEAST_SHIFT: f64 = 0.01;
/// Neighbouring values are taken for no more alike than this. Source: our choice: nothing that is more alike has a
/// mean.
const MOST_ALIKE: f64 = 0.97;
/// Most faults that are said at once. Source: our choice.
const MOST_FAULTS: usize = 16;

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
pub struct History {
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
    /// Whether what changed is all that was measured, and nobody in particular.
    pub is_common: bool,
}

/// Runs the charts of all cells, sources and destinations over all iterations.
pub fn history(cells: &Cells) -> History {
    if cells.times.len() <= LEAST as usize {
        return History::default();
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
    let mut found = History {
        series: charts.all.len(),
        is_judged: true,
        past: alarmed.iter().filter(|was| **was).count() - current.len(),
        ..History::default()
    };
    // One chart in many began to rise before the change by chance, so the first quarter decides, not the first.
    let mut begins: Vec<u32> = current.iter().map(|chart| chart.since).collect();
    begins.sort_unstable();
    if let Some(&since) = begins.get(begins.len() / 4) {
        found.since = cells.iterations.get(since as usize).copied();
        (found.faults, found.is_common) = located(cells, since as usize, charts.threshold);
    }
    found
}

/// The charts of a job: cells first, then sources, then destinations.
struct Charts<'c> {
    cells: &'c Cells,
    all: Vec<Chart>,
    /// Per cell the indices of its source's and its destination's chart.
    lines: Vec<[u32; 2]>,
    sums: Vec<(f64, u32)>,
    threshold: f64,
}

impl<'c> Charts<'c> {
    fn new(cells: &'c Cells) -> Self {
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
        let all = vec![Chart::default(); count + numbers.len()];
        let threshold = threshold(all.len());
        Self { cells, sums: vec![(0.0, 0); all.len()], all, lines, threshold }
    }

    fn push(&mut self, times: &[(u32, f64)], at: u32) {
        let common = common(times, |cell| self.all[cell as usize].mean());
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
        for line in self.cells.pairs.len()..self.all.len() {
            let (sum, count) = self.sums[line];
            if count >= 2 {
                self.all[line].push(sum / f64::from(count), at, self.threshold);
            }
        }
    }
}

/// What all cells of an iteration have in common beyond their means, as a logarithm.
fn common(times: &[(u32, f64)], mean: impl Fn(u32) -> Option<f64>) -> f64 {
    let excess: Vec<f64> = times.iter().filter_map(|(cell, time)| Some(time.ln() - mean(*cell)?)).collect();
    if excess.len() < COMMON { 0.0 } else { median(&excess).unwrap_or(0.0) }
}

/// The places that explain best what changed at iteration `since`: the one with the largest gain in likelihood, then
/// the best one of what that leaves, as long as chance would not gain as much. And whether all changed, so that none of
/// them stands out.
fn located(cells: &Cells, since: usize, threshold: f64) -> (Vec<(Fault, f64)>, bool) {
    let mut sums = vec![(0.0, 0u32); cells.pairs.len()];
    for &(cell, time) in cells.times[..since].iter().flatten() {
        let (sum, count) = &mut sums[cell as usize];
        *sum += time.ln();
        *count += 1;
    }
    let mean = |cell: u32| {
        let (sum, count) = sums[cell as usize];
        (count > 0).then(|| sum / f64::from(count))
    };
    // Squares of what is left before the change, and sums of what is left after it.
    let mut before = vec![0.0; cells.pairs.len()];
    let mut after = vec![(0.0, 0u32); cells.pairs.len()];
    let mut likeness = Likeness::new(cells.pairs.len());
    for (at, times) in cells.times.iter().enumerate() {
        let common = common(times, mean);
        for &(cell, time) in times {
            let Some(left) = mean(cell).map(|mean| time.ln() - mean - common) else { continue };
            if at < since {
                before[cell as usize] += left * left;
                likeness.push(cell as usize, left);
            } else {
                let (sum, count) = &mut after[cell as usize];
                *sum += left;
                *count += 1;
            }
        }
    }
    let judged = before.iter().zip(&sums).filter(|(_, (_, count))| *count >= LEAST);
    let variances: Vec<f64> = judged.map(|(squares, (_, count))| squares / f64::from(count - 1)).collect();
    let variance = median(&variances).unwrap_or(0.0).max(1e-8) * likeness.inflation(since, cells.pairs.len());
    let shifts: BTreeMap<u32, f64> = after
        .iter()
        .enumerate()
        .filter(|(_, (_, count))| *count > 0)
        .map(|(cell, (sum, count))| (cell as u32, sum / f64::from(*count)))
        .collect();
    // Both means are known within their noise alone.
    let (earlier, later) = (since.max(1) as f64, (cells.times.len() - since) as f64);
    let weight = 1.0 / (2.0 * variance * (1.0 / earlier + 1.0 / later));
    let usual = median(&shifts.values().copied().collect::<Vec<_>>()).unwrap_or(0.0);
    let found = pursue(cells, shifts, weight, threshold);
    // Of few cells nothing in common was taken away, so if half of them changed by themselves, all did.
    let is_alone = |(fault, _): &(Fault, f64)| matches!(fault, Fault::Connection(..) | Fault::Ambiguous(..));
    let is_common = usual > LEAST_SHIFT && weight * usual * usual >= threshold;
    if is_common && found.iter().all(is_alone) { (Vec::new(), true) } else { (found, is_common) }
}

/// How alike neighbouring values of a series are. On a loaded machine they are, and then many say little more than few.
struct Likeness {
    last: Vec<Option<f64>>,
    product: f64,
    squares: f64,
    pairs: usize,
}

impl Likeness {
    fn new(series: usize) -> Self {
        Self { last: vec![None; series], product: 0.0, squares: 0.0, pairs: 0 }
    }

    fn push(&mut self, series: usize, value: f64) {
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
    fn inflation(&self, iterations: usize, series: usize) -> f64 {
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

fn pursue(cells: &Cells, mut shifts: BTreeMap<u32, f64>, weight: f64, threshold: f64) -> Vec<(Fault, f64)> {
    let mut sent: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut received: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for &cell in shifts.keys() {
        let (source, destination) = cells.pairs[cell as usize];
        sent.entry(source).or_default().insert(cell);
        if let Some(destination) = destination {
            received.entry(destination).or_default().insert(cell);
        }
    }
    let mut found: Vec<(Fault, f64)> = Vec::new();
    let mut first_gain = None;
    while found.len() < MOST_FAULTS {
        let gain = |of: &mut dyn Iterator<Item = u32>| {
            let (sum, count) = of.fold((0.0, 0.0), |(sum, count), cell| (sum + shifts[&cell], count + 1.0));
            let mean: f64 = sum / count;
            (if mean > LEAST_SHIFT { weight * count * mean * mean } else { 0.0 }, mean)
        };
        let mut best: Option<(f64, f64, Fault, Vec<u32>)> = None;
        let mut offer = |fault: Fault, line: Vec<u32>| {
            let (gain, mean) = gain(&mut line.iter().copied());
            if best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                best = Some((gain, mean, fault, line));
            }
        };
        for (&rank, line) in &sent {
            match received.get(&rank) {
                Some(other) if line.len() >= 2 && other.len() >= 2 => {
                    offer(Fault::Rank(rank), line.union(other).copied().collect());
                }
                _ => {}
            }
        }
        for (rank, line) in sent.iter().filter(|(_, line)| line.len() >= 2) {
            offer(Fault::Source(*rank), line.iter().copied().collect());
        }
        for (rank, line) in received.iter().filter(|(_, line)| line.len() >= 2) {
            offer(Fault::Destination(*rank), line.iter().copied().collect());
        }
        for &cell in shifts.keys() {
            if let (source, Some(destination)) = cells.pairs[cell as usize] {
                let alone = sent[&source].len() < 2 || received[&destination].len() < 2;
                let fault =
                    if alone { Fault::Ambiguous(source, destination) } else { Fault::Connection(source, destination) };
                offer(fault, vec![cell]);
            }
        }
        let Some((gain, mean, fault, line)) = best else { break };
        // What is left of a large fault, because its cells are not slowed alike, is no fault of its own.
        if gain < threshold || first_gain.is_some_and(|first| gain < 0.05 * first) {
            break;
        }
        first_gain.get_or_insert(gain);
        found.push((fault, mean.exp()));
        for cell in line {
            shifts.entry(cell).and_modify(|shift| *shift -= mean);
        }
    }
    found
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

//! Places that are slow in some iterations only, again and again: neither their median nor their mean shows it well.

use kelpie_monitor::statistics::median;

use super::explain::{Shift, Terms, explain};
use super::history::COMMON;
use super::noise::CHANCE;
use super::pair_times::PairTimes;
use super::places::Fault;

/// A message is slow above this many times its own median. Source: our choice.
const HOT: f64 = 1.3;
/// And all messages together above this many times theirs. Source: our choice, because jobs have phases.
const HOT_ALL: f64 = 2.0;
/// And above this many times what its own values usually are off. Source: our choice, five standard deviations of the
/// normal distribution.
const FAR: f64 = 7.4;
/// Least share of its iterations in which a place is slow. Source: our choice.
const LEAST: f64 = 0.08;
/// Fewest separate times. Source: our choice, because load that lasts is one time.
const TIMES: usize = 4;
/// Iterations before anything is said. Source: our choice.
const ENOUGH: usize = 20;

/// A place that is slow now and then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// The place.
    pub fault: Fault,
    /// Share of the iterations in which it is slow.
    pub share: f64,
    /// By which factor it is slower then, in the median.
    pub factor: f64,
}

/// All messages together in some iterations: the share of these, and the factor.
pub fn bursts_of_all(cells: &PairTimes) -> Option<(f64, f64)> {
    // What sizes that vary usually take is not known well enough, and of few messages nothing is common.
    if cells.times.len() < ENOUGH || cells.are_by_size || cells.pairs.len() < TIMES {
        return None;
    }
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); cells.pairs.len()];
    for &(cell, time) in cells.times.iter().flatten() {
        values[cell as usize].push(time.ln());
    }
    let medians: Vec<f64> = values.iter().map(|values| median(values).unwrap_or(0.0)).collect();
    // The place that four messages in five are above: a few that are slow are not all.
    let common = |times: &Vec<(u32, f64)>| {
        let mut off: Vec<f64> = times.iter().map(|(cell, time)| time.ln() - medians[*cell as usize]).collect();
        off.sort_unstable_by(f64::total_cmp);
        off.get(off.len() / 5).copied()
    };
    let common: Vec<f64> = cells.times.iter().filter_map(common).collect();
    let middle = median(&common)?;
    let usual = median(&common.iter().map(|one| (one - middle).abs()).collect::<Vec<_>>())?;
    let limit = HOT_ALL.ln().max(FAR * usual);
    let is_hot = |at: &usize| common[*at] > limit;
    let hot: Vec<f64> = (0..common.len()).filter(is_hot).map(|at| common[at]).collect();
    let times = (0..common.len()).filter(|at| is_hot(at) && (*at == 0 || !is_hot(&(at - 1)))).count();
    let share = hot.len() as f64 / common.len() as f64;
    (times >= TIMES && share >= LEAST).then_some((share, median(&hot)?.exp()))
}

/// Places that are slow in some iterations, by more than what others are.
pub fn bursts(cells: &PairTimes) -> Vec<Burst> {
    if cells.times.len() < ENOUGH {
        return Vec::new();
    }
    let count = cells.pairs.len();
    let mut values: Vec<Vec<(u32, f64)>> = vec![Vec::new(); count];
    for (at, times) in cells.times.iter().enumerate() {
        for &(cell, time) in times {
            values[cell as usize].push((at as u32, time.ln()));
        }
    }
    let middle = |values: &[(u32, f64)]| median(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>());
    let medians: Vec<f64> = values.iter().map(|values| middle(values).unwrap_or(0.0)).collect();
    let common: Vec<f64> = cells
        .times
        .iter()
        .map(|times| {
            let off: Vec<f64> = times.iter().map(|(cell, time)| time.ln() - medians[*cell as usize]).collect();
            median(&off).filter(|_| off.len() >= COMMON).unwrap_or(0.0)
        })
        .collect();
    let mut shares = vec![0.0; count];
    let mut heights = vec![0.0; count];
    for (cell, values) in values.iter().enumerate() {
        let off: Vec<f64> = values.iter().map(|(at, value)| value - medians[cell] - common[*at as usize]).collect();
        let usual = median(&off.iter().map(|off| off.abs()).collect::<Vec<_>>()).unwrap_or(0.0);
        let limit = HOT.ln().max(FAR * usual);
        let hot: Vec<f64> = off.iter().copied().filter(|off| *off > limit).collect();
        let times = (0..off.len()).filter(|at| off[*at] > limit && (*at == 0 || off[at - 1] <= limit)).count();
        if times >= TIMES {
            shares[cell] = hot.len() as f64 / off.len() as f64;
            heights[cell] = median(&hot).unwrap_or(0.0);
        }
    }
    if shares.iter().all(|share| *share < LEAST) {
        return Vec::new();
    }
    let usual = median(&shares).unwrap_or(0.0);
    let shifts: Vec<Shift> = values
        .iter()
        .zip(&shares)
        .map(|(values, share)| {
            let n = values.len() as f64;
            let expected = usual.max(1.0 / n);
            let weight = if n < ENOUGH as f64 / 2.0 { 0.0 } else { n / (2.0 * expected * (1.0 - expected)) };
            Shift { value: *share, weight }
        })
        .collect();
    let gain = (count as f64 / CHANCE).ln();
    let found = explain(cells, &shifts, Terms { gain, least: LEAST, level: f64::INFINITY });
    let of = |(fault, share, line): (Fault, f64, Vec<u32>)| {
        let heights: Vec<f64> = line.iter().map(|cell| heights[*cell as usize]).filter(|one| *one > 0.0).collect();
        Burst { fault, share, factor: median(&heights).unwrap_or(0.0).exp() }
    };
    found.faults.into_iter().map(of).collect()
}

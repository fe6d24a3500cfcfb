//! How likely a workload of a subsystem is anomalous, from all that was measured on it. No I/O, no clock; equal
//! measurements give equal answers.

mod calibration;
mod encoding;
mod forest;

use std::collections::BTreeMap;

use kelpie_spaces::Workload;

use calibration::Calibration;
use encoding::Encoding;
use forest::{Forest, Rows};

pub use calibration::Interval;
pub use encoding::Strange;

/// Measured workloads near one, by which it is judged whether enough is known there. Source: our choice, because one
/// may be there by chance.
const NEAR: usize = 5;
/// Share of the measured workloads that have as many others as near as what counts as near. Source: our choice; what is
/// further away than 99 of 100 measured workloads are from theirs was not meant by any of them.
const NEAR_SHARE: f64 = 0.99;
/// Measured workloads of which that is looked up. Source: our choice, because it bounds the time to a second.
const LOOKED_UP: usize = 500;

/// What all measurements of one subsystem say of any workload.
#[derive(Debug)]
pub struct Belief<'w> {
    workloads: Vec<&'w Workload>,
    encoding: Encoding,
    rows: Rows,
    forest: Forest,
    calibration: Calibration,
    near: f32,
}

/// What is believed of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The probability that it is anomalous: that of measured workloads which look as bad to trees that have not seen
    /// them.
    pub probability: Interval,
    /// Measured workloads that look at least as healthy, again to trees that have not seen them.
    pub as_healthy: usize,
    /// How many of those were anomalous.
    pub anomalous_of_them: usize,
}

/// Most of the workloads called healthy that may be anomalous. Source: issue 14, section 5.
const SAFE_SHARE: f64 = 0.02;
/// Where the probability of one that is called healthy ends at most. Source: our choice, so that none hides among
/// healthier ones; on models A to H `SAFE_SHARE` mostly is the tighter.
const SAFE_HIGH: f64 = 0.15;

impl Estimate {
    /// Whether it is more likely anomalous than not, even at the lower end.
    pub fn is_likely(&self) -> bool {
        self.probability.low > 0.5
    }

    /// Whether it is healthy as far as one can say without measuring: of what looks at least as healthy, at most
    /// `SAFE_SHARE` was anomalous.
    ///
    /// The share is the mean of Jeffreys' posterior, so fewer than 25 workloads are too few.
    /// Source: Geifman and El-Yaniv 2017, "Selective Classification for Deep Neural Networks", for the idea to bound the
    /// share of wrong ones among those that are answered.
    pub fn is_safe(&self) -> bool {
        let share = (self.anomalous_of_them as f64 + 0.5) / (self.as_healthy as f64 + 1.0);
        share <= SAFE_SHARE && self.probability.high <= SAFE_HIGH
    }
}

/// A measured workload beside another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour<'w> {
    /// What was measured.
    pub workload: &'w Workload,
    /// Whether it was anomalous.
    pub is_anomalous: bool,
    /// How far it is: the sum of what features differ by, in ranges that were measured; 1 for another word.
    pub distance: f32,
}

impl<'w> Belief<'w> {
    /// Learns from workloads and whether each was anomalous; `None` without any.
    ///
    /// A workload that was measured more than once counts once, as anomalous if it ever was. Whatever was inconclusive
    /// says nothing and is left out by the caller. The order of the measurements changes nothing.
    pub fn new(measured: impl IntoIterator<Item = (&'w Workload, bool)>) -> Option<Self> {
        let mut outcomes: BTreeMap<&Workload, bool> = BTreeMap::new();
        for (workload, is_anomalous) in measured {
            *outcomes.entry(workload).or_default() |= is_anomalous;
        }
        if outcomes.is_empty() {
            return None;
        }
        let encoding = Encoding::of(outcomes.keys().copied());
        let mut rows = Rows::default();
        for (workload, is_anomalous) in &outcomes {
            let row = encoding.row(workload);
            rows.columns.resize_with(row.len(), Vec::new);
            rows.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            rows.outcomes.push(*is_anomalous);
        }
        let (forest, unseen) = Forest::grow(&rows);
        let scored = unseen.iter().zip(&rows.outcomes).filter_map(|(score, outcome)| Some(((*score)?, *outcome)));
        let calibration = Calibration::of(&scored.collect::<Vec<_>>());
        let workloads = outcomes.into_keys().collect();
        let mut belief = Self { workloads, encoding, rows, forest, calibration, near: 0.0 };
        belief.near = belief.usual_distance();
        Some(belief)
    }

    /// Workloads that were measured.
    pub fn measured(&self) -> usize {
        self.workloads.len()
    }

    /// What is believed of a workload.
    pub fn of(&self, workload: &Workload) -> Estimate {
        let score = self.forest.score(&self.encoding.row(workload));
        let (as_healthy, anomalous_of_them) = self.calibration.up_to(score);
        Estimate { probability: self.calibration.at(score), as_healthy, anomalous_of_them }
    }

    /// Whether a workload is unlike all that was measured, so that its probability says little.
    pub fn strange(&self, workload: &Workload) -> Option<Strange> {
        let is_far = || self.reach(&self.encoding.row(workload), None) > self.near;
        self.encoding.strange(workload).or_else(|| is_far().then_some(Strange::Far))
    }

    /// The measured workloads nearest to one, the nearest first, at most `most`.
    pub fn nearest(&self, workload: &Workload, most: usize) -> Vec<Neighbour<'w>> {
        let row = self.encoding.row(workload);
        let neighbour = |index: usize| Neighbour {
            workload: self.workloads[index],
            is_anomalous: self.rows.outcomes[index],
            distance: self.distance(&row, index),
        };
        let mut all: Vec<Neighbour<'_>> = (0..self.workloads.len()).map(neighbour).collect();
        all.sort_by(|a, b| a.distance.total_cmp(&b.distance));
        all.truncate(most);
        all
    }

    fn distance(&self, row: &[f32], index: usize) -> f32 {
        self.encoding.distance(|column| row[column], |column| self.rows.columns[column][index])
    }

    /// How far the measured workload is that is the `NEAR`-th nearest, without `but`.
    fn reach(&self, row: &[f32], but: Option<usize>) -> f32 {
        let others = (0..self.workloads.len()).filter(|index| Some(*index) != but);
        let mut distances: Vec<f32> = others.map(|index| self.distance(row, index)).collect();
        let Some(last) = distances.len().min(NEAR).checked_sub(1) else { return 0.0 };
        *distances.select_nth_unstable_by(last, f32::total_cmp).1
    }

    /// As far as measured workloads mostly are from others.
    fn usual_distance(&self) -> f32 {
        let step = self.workloads.len().div_ceil(LOOKED_UP).max(1);
        let reach = |index: usize| {
            let row: Vec<f32> = self.rows.columns.iter().map(|column| column[index]).collect();
            self.reach(&row, Some(index))
        };
        let mut reaches: Vec<f32> = (0..self.workloads.len()).step_by(step).map(reach).collect();
        reaches.sort_by(f32::total_cmp);
        reaches[((reaches.len() - 1) as f64 * NEAR_SHARE) as usize]
    }
}

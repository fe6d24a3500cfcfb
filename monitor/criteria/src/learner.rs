//! What a healthy host measures, learnt from the run of a fleet itself.

use std::collections::BTreeMap;

use crate::best::Way;
use crate::judged::{Judged, is_ahead};
use crate::learn::{Criterion, LearnError, is_below};
use crate::results::{Better, Direction};
use crate::similarity::Norm;

/// Hosts from which on a criterion can be learnt. Source: our choice; of two, nobody knows which is healthy.
pub const ENOUGH: usize = 3;
/// Times what values of healthy nodes typically differ by, as a ratio, that a value has to differ by to be slow.
/// Source: our choice, by `examples/alarms.rs`: 3.4 standard deviations of what is normally distributed, twice.
const NOISE: f64 = 5.0;
/// By how much more with few hosts, times their number. Source: our choice, by `examples/alarms.rs`.
const FEW: f64 = 4.0;
/// Values of a host that are less alike than this are two values, whatever the noise. Source: our choice.
const ONE_VALUE: f64 = 0.75;
/// The least alpha: what is ten times slower is slow, whatever the noise.
const LEAST_ALPHA: f64 = 0.1;

/// Learns what a healthy host measures from a run in which each host has few values, and the partners of a bad one are
/// slow with it. Source: ours; algorithm 2 of SuperBench is for many values of many nodes.
#[derive(Debug)]
pub struct HostLearner {
    direction: Direction,
    /// The median of each host's values, the best first; of two middle values that are far apart the better one,
    /// because the mean of a fast and a slow partner is neither.
    hosts: Vec<f64>,
    /// What each host reached twice, because one value may be luck: a host that is fast with few shows here.
    reached: Vec<f64>,
    /// All values, the best first.
    values: Vec<f64>,
    /// What the samples of a unit typically differ by.
    within: f64,
}

impl HostLearner {
    /// Of the values of a metric.
    pub fn new(judged: &BTreeMap<Way<'_>, Judged<'_>>) -> Self {
        let mut of_host: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut direction = Direction::default();
        let (mut values, mut within) = (Vec::new(), Vec::new());
        for ((from, to), Judged { value, .. }) in judged {
            direction = Direction { unit: value.unit.clone(), better: value.better };
            let typical = value.typical();
            for host in std::iter::once(from).chain(to) {
                of_host.entry(host).or_default().push(typical);
            }
            values.push(typical);
            within.push(noise(value.samples.iter().copied(), typical));
        }
        let in_order = |mut values: Vec<f64>| {
            values.sort_by(|one, other| match direction.better {
                Better::Higher => other.total_cmp(one),
                Better::Lower => one.total_cmp(other),
            });
            values
        };
        // Both ways of a pair differ by noise, and a bad end makes both slow as a rule.
        let one_value = ONE_VALUE.max((1.0 - both_ways(judged)).powf(NOISE));
        let middle = |values: Vec<f64>| {
            let (better, worse) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
            if better.min(worse) > one_value * better.max(worse) { f64::midpoint(better, worse) } else { better }
        };
        let of_host: Vec<Vec<f64>> = of_host.into_values().map(in_order).collect();
        let reached = of_host.iter().map(|values| values[1.min(values.len() - 1)]).collect();
        let hosts = in_order(of_host.into_iter().map(middle).collect());
        let values = in_order(values);
        within.sort_by(f64::total_cmp);
        let within = within.get(within.len() / 2).copied().unwrap_or_default();
        Self { direction, hosts, reached, values, within }
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Hosts next to which those at the criterion would be slow, by what is usual of them or by what they reached
    /// twice; not those that are too good to be believed.
    pub fn ahead(&self, criterion: &Criterion) -> usize {
        let count = |values: &[f64]| values.iter().filter(|value| is_ahead(**value, criterion)).count();
        count(&self.hosts).max(count(&self.reached))
    }

    /// The middle of the hosts; of two, the better one, because a bad host makes its partner's only pair slow, too. The
    /// floor counts where the middle is below it, or hosts are too few to learn from.
    ///
    /// # Errors
    /// All are below the floor, or alpha is no share.
    pub fn criterion(&self, name: &str, alpha: f64, floor: Option<f64>) -> Result<Criterion, LearnError> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(LearnError::Alpha(alpha));
        }
        let typical = self.hosts[(self.hosts.len() - 1) / 2];
        let of = |typical: f64, alpha: f64, between: f64| Criterion {
            criterion: vec![typical],
            defects: Vec::new(),
            repeatability: 1.0 - between,
            alpha,
            norm: Norm::default(),
            floor,
            direction: self.direction.clone(),
        };
        let is_below = |value: f64| floor.is_some_and(|floor| is_below(&[value], floor, self.direction.better));
        if let Some(floor) = floor {
            let nodes = self.hosts.len();
            if nodes >= ENOUGH && is_below(self.values[0]) {
                return Err(LearnError::BelowFloor { metric: name.to_owned(), below: nodes, nodes, floor });
            }
            let worst = self.values[self.values.len() - 1];
            if is_below(typical) || nodes < ENOUGH {
                return Ok(of(if is_below(worst) { floor } else { worst }, alpha, 0.0));
            }
        }
        // Bad hosts are on one side, and hosts that lie on the other.
        let side = |values: &[f64]| noise(values.iter().copied(), typical);
        let middle = self.values.len() / 2;
        let between = side(&self.values[..middle]).min(side(&self.values[middle..]));
        // What few hosts differ by says little of what they may differ by.
        let few = 1.0 + FEW / self.hosts.len() as f64;
        let seen = (1.0 - between.max(self.within)).powf(NOISE * few).max(LEAST_ALPHA);
        Ok(of(typical, alpha.min(seen), between))
    }
}

/// What both ways of pairs typically differ by; all if there is no pair.
fn both_ways(judged: &BTreeMap<Way<'_>, Judged<'_>>) -> f64 {
    let ratios = judged.iter().filter_map(|((from, to), there)| {
        let back = judged.get(&((*to)?, Some(*from)))?;
        let (there, back) = (there.value.typical(), back.value.typical());
        Some(if there.max(back) > 0.0 { there.min(back) / there.max(back) } else { 1.0 })
    });
    let mut apart: Vec<f64> = ratios.map(|ratio| 1.0 - ratio).collect();
    apart.sort_by(f64::total_cmp);
    apart.get(apart.len() / 2).copied().unwrap_or(1.0)
}

/// What values typically differ from one by; nothing if there is none.
fn noise(values: impl Iterator<Item = f64>, typical: f64) -> f64 {
    let apart = |value: f64| {
        let most = value.max(typical);
        if most > 0.0 { 1.0 - value.min(typical) / most } else { 0.0 }
    };
    let mut apart: Vec<f64> = values.map(apart).collect();
    apart.sort_by(f64::total_cmp);
    apart.get(apart.len() / 2).copied().unwrap_or_default()
}

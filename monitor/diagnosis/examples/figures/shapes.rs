//! Generated jobs of several shapes with one fault each, or none. They know nothing of the diagnosis.

use std::collections::BTreeMap;

use kelpie_diagnosis::job::{JobOperations, Operation};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

/// Who sends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Each rank to the next one.
    Ring,
    /// All to all.
    AllPairs,
    /// Forward from stage to stage, and back.
    Pipeline,
    /// Each rank to about four others, drawn once.
    Sparse,
}

pub const SHAPES: [(&str, Shape); 4] =
    [("ring", Shape::Ring), ("all pairs", Shape::AllPairs), ("pipeline", Shape::Pipeline), ("sparse", Shape::Sparse)];

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wrong {
    Nothing,
    Rank(u32, f64),
    Source(u32, f64),
    Destination(u32, f64),
    /// The nth of all connections.
    Connection(usize, f64),
    /// All ranks of a host.
    Host(u32, f64),
    /// All messages.
    All(f64),
    /// A rank comes late. Units: microseconds.
    Late(u32, f64),
    /// A rank, in every fifth iteration.
    Fifth(u32, f64),
}

/// A job.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    pub shape: Shape,
    pub ranks: u32,
    pub ranks_per_host: u32,
    pub iterations: u64,
    /// One standard deviation of the logarithm of a time.
    pub noise: f64,
    /// What is wrong from which iteration on.
    pub wrong: Wrong,
    pub from: u64,
    /// Whether all wait for all between iterations, without a record of it.
    pub has_barrier: bool,
}

/// What a message takes, and what a rank computes. Units: microseconds.
const MESSAGE: f64 = 1000.0;
const COMPUTE: f64 = 3000.0;

impl Traffic {
    pub fn pairs(&self, random: &mut Pcg64Mcg) -> Vec<(u32, u32)> {
        let ranks = self.ranks;
        match self.shape {
            Shape::Ring => (0..ranks).map(|rank| (rank, (rank + 1) % ranks)).collect(),
            Shape::AllPairs => {
                (0..ranks).flat_map(|one| (0..ranks).filter(move |to| *to != one).map(move |to| (one, to))).collect()
            }
            Shape::Pipeline => {
                (1..ranks).map(|rank| (rank - 1, rank)).chain((1..ranks).rev().map(|rank| (rank, rank - 1))).collect()
            }
            Shape::Sparse => {
                // So that each rank receives as much as it sends, each of four rounds is a permutation of a ring.
                let mut pairs: Vec<(u32, u32)> = Vec::new();
                for _ in 0..4 {
                    let mut order: Vec<u32> = (0..ranks).collect();
                    order.shuffle(random);
                    let next = |at: usize| (order[at], order[(at + 1) % order.len()]);
                    pairs.extend((0..order.len()).map(next));
                }
                pairs.sort_unstable();
                pairs.dedup();
                pairs
            }
        }
    }

    fn factor(&self, iteration: u64, nth: usize, (source, to): (u32, u32)) -> f64 {
        if iteration < self.from {
            return 1.0;
        }
        let host = |rank: u32| rank / self.ranks_per_host;
        match self.wrong {
            Wrong::Rank(rank, by) if source == rank || to == rank => by,
            Wrong::Source(rank, by) if source == rank => by,
            Wrong::Destination(rank, by) if to == rank => by,
            Wrong::Connection(one, by) if one == nth => by,
            Wrong::Host(one, by) if host(source) != host(to) && [host(source), host(to)].contains(&one) => by,
            Wrong::All(by) => by,
            Wrong::Fifth(rank, by) if iteration.is_multiple_of(5) && (source == rank || to == rank) => by,
            _ => 1.0,
        }
    }

    /// Draws a job, and the connections that it has. Connections differ by 10 %, iterations by 5 %.
    pub fn draw(&self, random: &mut Pcg64Mcg) -> (JobOperations, Vec<(u32, u32)>) {
        let normal = Normal::new(0.0, 1.0).expect("a positive spread");
        let pairs = self.pairs(random);
        let base: Vec<f64> = pairs.iter().map(|_| MESSAGE * random.random_range(0.9..1.1)).collect();
        let mut done = vec![0.0_f64; self.ranks as usize];
        let mut operations = Vec::with_capacity(pairs.len() * self.iterations as usize);
        for iteration in 0..self.iterations {
            let common = random.random_range(0.95..1.05);
            if self.has_barrier {
                let last = done.iter().copied().fold(0.0, f64::max);
                done.fill(last);
            }
            let late = |rank: u32| match self.wrong {
                Wrong::Late(who, by) if who == rank && iteration >= self.from => by,
                _ => 0.0,
            };
            let mut compute =
                |rank: u32, share: f64| share * (COMPUTE * (self.noise * normal.sample(random)).exp() + late(rank));
            let mut next = done.clone();
            let mut arrived: BTreeMap<u32, f64> = BTreeMap::new();
            let share = if self.shape == Shape::Pipeline { 0.5 } else { 1.0 };
            for rank in 0..self.ranks {
                arrived.insert(rank, done[rank as usize] + compute(rank, share));
            }
            let moments: Vec<f64> = (0..self.ranks).map(|rank| compute(rank, share)).collect();
            for (nth, &(source, to)) in pairs.iter().enumerate() {
                // A stage computes between what comes and what it passes on.
                let entered = if self.shape == Shape::Pipeline && nth > 0 && source + 1 < self.ranks.max(to + 2) {
                    let came = next[source as usize];
                    came.max(arrived[&source]) + if nth >= self.ranks as usize { 0.0 } else { moments[source as usize] }
                } else {
                    arrived[&source]
                };
                let ready = if self.shape == Shape::Pipeline { entered } else { arrived[&to] };
                let begin = entered.max(ready);
                let noise = (self.noise * normal.sample(random)).exp();
                let end = begin + base[nth] * common * noise * self.factor(iteration, nth, (source, to));
                for rank in [source, to] {
                    next[rank as usize] = next[rank as usize].max(end);
                }
                operations.push(Operation {
                    iteration,
                    source,
                    destination: Some(to),
                    bytes: 1 << 20,
                    entered: Some(entered),
                    begin: Some(begin),
                    end: Some(end),
                });
            }
            done = next;
        }
        let host = |rank: u32| (rank, format!("node{}", rank / self.ranks_per_host));
        let hosts = if self.ranks_per_host > 1 { (0..self.ranks).map(host).collect() } else { BTreeMap::new() };
        (JobOperations { operations, hosts, ranks: Some(self.ranks), ..JobOperations::default() }, pairs)
    }
}

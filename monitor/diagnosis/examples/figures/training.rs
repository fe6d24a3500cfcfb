//! Generated training jobs of sharded data parallel, and of mixtures of experts. They know nothing
//! of the diagnosis.

use std::collections::BTreeMap;

use kelpie_diagnosis::job::{JobOperations, Operation};
use rand::RngExt;
use rand_distr::{Distribution, Normal, StudentT};
use rand_pcg::Pcg64Mcg;

/// What a job trains with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `AllGather` and `ReduceScatter` of one communicator, layer by layer, with the moments of each rank.
    Sharded,
    /// The same as NCCL's Inspector writes: each rank's own time alone.
    Inspected,
    /// Messages to experts and back, whose sizes follow how often each expert is asked.
    Experts,
    /// The same, padded to blocks of tokens, so that sizes recur.
    PaddedExperts,
    /// The same, and a rank receives no faster than its port carries: messages to an expert that is often asked wait.
    CrowdedExperts,
}

pub const SCHEMES: [(&str, Scheme); 5] = [
    ("sharded", Scheme::Sharded),
    ("sharded, Inspector", Scheme::Inspected),
    ("experts", Scheme::Experts),
    ("experts, padded", Scheme::PaddedExperts),
    ("experts, crowded", Scheme::CrowdedExperts),
];

/// A job.
#[derive(Debug, Clone, Copy)]
pub struct Training {
    pub scheme: Scheme,
    pub ranks: u32,
    pub ranks_per_host: u32,
    pub layers: u64,
    pub steps: u64,
    /// One standard deviation of the logarithm of a time.
    pub noise: f64,
    /// Whether noise has the heavy tails of Student's distribution with 3 degrees of freedom.
    pub has_tails: bool,
    /// A rank whose messages to and from experts take longer from half of the job on, by this factor.
    pub slow: Option<(u32, f64)>,
}

/// Before the first byte of a message, and what a rank computes in a layer. Units: microseconds.
const LATENCY: f64 = 20.0;
const COMPUTE: f64 = 1500.0;
/// Units: bytes per microsecond.
const RATE: f64 = 40_000.0;
const TOKEN: u64 = 14_336;
/// Tokens of a rank, and of a block that messages are padded to.
const TOKENS: f64 = 4096.0;
const BLOCK: u64 = 128;
/// Iterations for which the same experts are asked often.
const LASTS: u64 = 20;

/// The factors of noise.
struct Noise {
    spread: f64,
    normal: Normal<f64>,
    tails: Option<StudentT<f64>>,
}

impl Noise {
    fn draw(&self, random: &mut Pcg64Mcg) -> f64 {
        let tails = self.tails.map(|tails| tails.sample(random) / 3f64.sqrt());
        (self.spread * tails.unwrap_or_else(|| self.normal.sample(random))).exp()
    }
}

impl Training {
    /// Draws what is judged: a job for each function.
    pub fn draw(&self, random: &mut Pcg64Mcg) -> Vec<JobOperations> {
        let noise = Noise {
            spread: self.noise,
            normal: Normal::new(0.0, 1.0).expect("a positive spread"),
            tails: self.has_tails.then(|| StudentT::new(3.0).expect("positive")),
        };
        let all = match self.scheme {
            Scheme::Sharded | Scheme::Inspected => self.sharded(&noise, random),
            _ => vec![(None, self.experts(&noise, random))],
        };
        let host = |rank: u32| (rank, format!("node{}", rank / self.ranks_per_host));
        let hosts: BTreeMap<u32, String> =
            if self.ranks_per_host > 1 { (0..self.ranks).map(host).collect() } else { BTreeMap::new() };
        let job = |(function, operations): (Option<&str>, Vec<Operation>)| JobOperations {
            function: function.map(str::to_owned),
            operations,
            hosts: hosts.clone(),
            ranks: Some(self.ranks),
            ..JobOperations::default()
        };
        all.into_iter().map(job).collect()
    }

    fn sharded(&self, noise: &Noise, random: &mut Pcg64Mcg) -> Vec<(Option<&'static str>, Vec<Operation>)> {
        let ranks = self.ranks as usize;
        let mut done = vec![0.0_f64; ranks];
        let mut all = vec![(Some("AllGather"), Vec::new()), (Some("ReduceScatter"), Vec::new())];
        let mut numbers = [0; 2];
        // The embedding is larger than other layers.
        let sizes: Vec<u64> = (0..self.layers).map(|layer| if layer == 0 { 96 << 20 } else { 24 << 20 }).collect();
        for _ in 0..self.steps {
            let forward = (0..sizes.len()).map(|layer| (0, layer, 1.0));
            // Backward, weights are gathered again, and gradients are scattered.
            let backward = (0..sizes.len()).rev().flat_map(|layer| [(0, layer, 0.1), (1, layer, 2.0)]);
            for (function, layer, compute) in forward.chain(backward) {
                let arrived: Vec<f64> = done.iter().map(|done| done + compute * COMPUTE * noise.draw(random)).collect();
                let start = arrived.iter().copied().fold(0.0, f64::max);
                let common = random.random_range(0.95..1.05) * noise.draw(random);
                let over = start + (LATENCY + sizes[layer] as f64 / RATE) * common;
                for rank in 0..ranks {
                    done[rank] = over + LATENCY * noise.draw(random);
                    let (begin, end) = (arrived[rank], done[rank]);
                    let is_inspected = self.scheme == Scheme::Inspected;
                    all[function].1.push(Operation {
                        iteration: numbers[function],
                        source: rank as u32,
                        destination: None,
                        bytes: sizes[layer],
                        entered: (!is_inspected).then_some(begin),
                        begin: Some(if is_inspected { 0.0 } else { begin }),
                        end: Some(if is_inspected { end - begin } else { end }),
                    });
                }
                numbers[function] += 1;
            }
        }
        all
    }

    fn experts(&self, noise: &Noise, random: &mut Pcg64Mcg) -> Vec<Operation> {
        let ranks = self.ranks as usize;
        let base: Vec<f64> = (0..ranks * ranks).map(|_| random.random_range(0.9..1.1)).collect();
        let mut done = vec![0.0_f64; ranks];
        let mut operations = Vec::new();
        let mut popular = vec![1.0; ranks];
        for iteration in 0..2 * self.layers * self.steps {
            if iteration % LASTS == 0 {
                for one in &mut popular {
                    *one = random.random_range(0.5..1.5);
                }
                for _ in 0..ranks.div_ceil(8) {
                    popular[random.random_range(0..ranks)] *= 3.0;
                }
            }
            let sum: f64 = popular.iter().sum();
            let is_back = iteration % 2 == 1;
            let share = |rank: usize| popular[rank] / sum * ranks as f64;
            // An expert computes for longer the more it was asked.
            let arrived: Vec<f64> = (0..ranks)
                .map(|rank| {
                    let work = if is_back { 0.9 + 0.1 * share(rank) } else { 1.0 };
                    done[rank] + COMPUTE * work * noise.draw(random)
                })
                .collect();
            let mut sizes = vec![0_u64; ranks * ranks];
            for from in 0..ranks {
                for to in 0..ranks {
                    let expert = if is_back { from } else { to };
                    let tokens = TOKENS * popular[expert] / sum * random.random_range(0.8..1.2);
                    let tokens = (tokens as u64).max(1);
                    sizes[from * ranks + to] = TOKEN
                        * if self.scheme == Scheme::PaddedExperts { tokens.next_multiple_of(BLOCK) } else { tokens };
                }
            }
            let common = random.random_range(0.95..1.05);
            let mut next = arrived.clone();
            for (cell, bytes) in sizes.iter().enumerate() {
                let (from, to) = (cell / ranks, cell % ranks);
                if from == to {
                    continue;
                }
                let received: u64 =
                    (0..ranks).filter(|other| *other != to).map(|other| sizes[other * ranks + to]).sum();
                let sent: u64 =
                    (0..ranks).filter(|other| *other != from).map(|other| sizes[from * ranks + other]).sum();
                let moved = if self.scheme == Scheme::CrowdedExperts { received.max(sent) } else { *bytes };
                let begin = arrived[from].max(arrived[to]);
                let is_slow =
                    |rank: u32| [from, to].contains(&(rank as usize)) && iteration >= self.layers * self.steps;
                let slow = self.slow.filter(|(rank, _)| is_slow(*rank)).map_or(1.0, |(_, by)| by);
                let end = begin + (LATENCY + moved as f64 / RATE) * base[cell] * common * slow * noise.draw(random);
                next[from] = next[from].max(end);
                next[to] = next[to].max(end);
                operations.push(Operation {
                    iteration,
                    source: from as u32,
                    destination: Some(to as u32),
                    bytes: *bytes,
                    entered: Some(arrived[from]),
                    begin: Some(begin),
                    end: Some(end),
                });
            }
            done = next;
        }
        operations
    }
}

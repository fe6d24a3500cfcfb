//! Generated jobs: what messages between all pairs of ranks take, slow places, noise. They know nothing of the
//! diagnosis.

use kelpie_diagnosis::job::{JobOperations, Operation};
use rand::RngExt;
use rand_distr::{Distribution, Normal, StudentT};
use rand_pcg::Pcg64Mcg;

/// Which messages are slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SlowMessages {
    Cell,
    Row,
    Column,
    Rank,
}

pub const PLACES: [(&str, SlowMessages); 4] = [
    ("cell", SlowMessages::Cell),
    ("row", SlowMessages::Row),
    ("column", SlowMessages::Column),
    ("rank", SlowMessages::Rank),
];

/// A job of all pairs.
#[derive(Debug, Clone, Copy)]
pub struct JobShape {
    pub ranks: u32,
    pub iterations: u64,
    /// One standard deviation, as a share.
    pub noise: f64,
    /// Whether noise has the heavy tails of Student's distribution with 3 degrees of freedom.
    pub has_tails: bool,
    /// What is slow, by which factor, from which iteration on.
    pub slow: Option<(SlowMessages, f64, u64)>,
}

impl JobShape {
    /// Draws a job. Connections differ by 10 %, iterations by 5 %. The slow cell is from rank 3 to 5; lines are those
    /// of 3.
    pub fn draw(&self, random: &mut Pcg64Mcg) -> JobOperations {
        let normal = Normal::new(0.0, 1.0).expect("a positive spread");
        let tails = StudentT::new(3.0).expect("positive");
        let pairs: Vec<(u32, u32)> = (0..self.ranks)
            .flat_map(|source| (0..self.ranks).filter(move |to| *to != source).map(move |to| (source, to)))
            .collect();
        let base: Vec<f64> = pairs.iter().map(|_| 1000.0 * random.random_range(0.9..1.1)).collect();
        let mut operations = Vec::with_capacity(pairs.len() * self.iterations as usize);
        for iteration in 0..self.iterations {
            let common = random.random_range(0.95..1.05);
            for (&(source, destination), base) in pairs.iter().zip(&base) {
                let noise = if self.has_tails { tails.sample(random) / 3f64.sqrt() } else { normal.sample(random) };
                let slow = match self.slow {
                    Some((place, factor, from)) if iteration >= from && is_slow(place, source, destination) => factor,
                    _ => 1.0,
                };
                let time = base * common * slow * (self.noise * noise).exp();
                operations.push(Operation {
                    iteration,
                    source,
                    destination: Some(destination),
                    bytes: 1 << 20,
                    entered: None,
                    begin: Some(0.0),
                    end: Some(time),
                });
            }
        }
        JobOperations { operations, ..JobOperations::default() }
    }
}

fn is_slow(place: SlowMessages, source: u32, destination: u32) -> bool {
    match place {
        SlowMessages::Cell => (source, destination) == (3, 5),
        SlowMessages::Row => source == 3,
        SlowMessages::Column => destination == 3,
        SlowMessages::Rank => source == 3 || destination == 3,
    }
}

//! Rings of ranks on loaded machines: nobody is accused of what is noise, and what is slow or late beyond it is found.
//!
//! `KELPIE_RINGS` is how many of each kind are drawn, `KELPIE_SEED` the first seed; the tests' own are few.

use kelpie_diagnosis::job::{JobOperations, JobQuestion, JobVerdict, Operation, diagnose};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

/// A ring in which each rank sends once an iteration, after it has computed.
#[derive(Debug, Clone, Copy)]
struct NoisyRing {
    ranks: u32,
    iterations: u64,
    /// One standard deviation of the logarithm of each time.
    noise: f64,
    /// How alike neighbouring iterations are: load lasts.
    alike: f64,
    /// Who sends slowly or comes late, by which factor.
    slow: Option<(u32, f64)>,
    late: Option<(u32, f64)>,
}

/// What a message takes, and what a rank computes. Units: microseconds.
const MESSAGE: f64 = 1000.0;
const COMPUTE: f64 = 600.0;

impl NoisyRing {
    fn draw(&self, random: &mut Pcg64Mcg) -> JobOperations {
        let normal = Normal::new(0.0, 1.0).expect("a positive spread");
        let count = self.ranks as usize;
        let mut load = |states: &mut Vec<f64>| -> Vec<f64> {
            for state in states.iter_mut() {
                let new = (1.0 - self.alike * self.alike).sqrt() * normal.sample(random);
                *state = self.alike * *state + new;
            }
            states.iter().map(|state| (self.noise * state).exp()).collect()
        };
        let (mut computing, mut moving) = (vec![0.0; count], vec![0.0; count]);
        // So that it does not begin quiet.
        for _ in 0..50 {
            load(&mut computing);
            load(&mut moving);
        }
        let mut done = vec![0.0_f64; count];
        let mut operations = Vec::new();
        for iteration in 0..self.iterations {
            let (compute, message) = (load(&mut computing), load(&mut moving));
            let of = |fault: Option<(u32, f64)>, rank: usize| {
                fault
                    .filter(|(who, _)| *who as usize == rank && iteration >= self.iterations / 2)
                    .map_or(1.0, |(_, by)| by)
            };
            let entered: Vec<f64> =
                (0..count).map(|rank| done[rank] + COMPUTE * compute[rank] * of(self.late, rank)).collect();
            let mut next = entered.clone();
            for source in 0..count {
                let to = (source + 1) % count;
                let begin = entered[source].max(entered[to]);
                let end = begin + MESSAGE * message[source] * of(self.slow, source);
                next[source] = next[source].max(end);
                next[to] = next[to].max(end);
                operations.push(Operation {
                    iteration,
                    source: source as u32,
                    destination: Some(to as u32),
                    bytes: 1 << 20,
                    entered: Some(entered[source]),
                    begin: Some(begin),
                    end: Some(end),
                });
            }
            done = next;
        }
        JobOperations { operations, ..JobOperations::default() }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// How many of so many rings are called slow, and how many healthy.
fn verdicts(ring: NoisyRing, rings: u64, is_right: impl Fn(&kelpie_diagnosis::job::JobDiagnosis) -> bool) -> [u64; 4] {
    let (seed, mut counts) = (number("KELPIE_SEED", 1), [0; 4]);
    for nth in 0..rings {
        let mut random = Pcg64Mcg::seed_from_u64(seed * 1_000_003 + nth);
        let _: u64 = random.random();
        let found = diagnose(JobQuestion::at_the_end(&ring.draw(&mut random)));
        if found.verdict == JobVerdict::Slow && std::env::var_os("KELPIE_RULES").is_some() {
            println!("  by {:?}", found.evidence.rule);
        }
        counts[match found.verdict {
            JobVerdict::Slow if is_right(&found) => 0,
            JobVerdict::Slow => 1,
            JobVerdict::Healthy => 2,
            JobVerdict::Undecided | JobVerdict::Hang | JobVerdict::Mismatch => 3,
        }] += 1;
    }
    counts
}

#[test]
fn a_healthy_ring_on_a_loaded_machine_is_not_accused() {
    let rings = number("KELPIE_RINGS", 10);
    // Load that lasts for a few iterations, and load that lasts for a good part of those that are judged.
    for (kinds, most) in
        [(&[(0.03, 0.0), (0.3, 0.0), (0.8, 0.0), (0.3, 0.8), (0.8, 0.8)][..], 0.015), (&[(0.5, 0.95)], 0.15)]
    {
        let (mut called, mut all) = (0, 0);
        for ranks in [3, 6, 8, 16] {
            for iterations in [6, 20, 60, 128] {
                for &(noise, alike) in kinds {
                    let ring = NoisyRing { ranks, iterations, noise, alike, slow: None, late: None };
                    let names_somebody = |found: &kelpie_diagnosis::job::JobDiagnosis| {
                        !(found.rank.is_empty() && found.ambiguous.is_empty() && found.connection.is_empty())
                    };
                    let [named, common, healthy, undecided] = verdicts(ring, rings, names_somebody);
                    println!(
                        "{ranks} ranks, {iterations} iterations, noise {noise}, alike {alike}: {named} accuse, {common} \
                         slow together, {healthy} healthy, {undecided} undecided"
                    );
                    if noise < 0.1 {
                        assert!(healthy * 10 >= rings * 9, "a quiet ring is called healthy");
                    }
                    called += named + common;
                    all += rings;
                }
            }
        }
        println!("{kinds:?}: {called} of {all} called slow");
        assert!(called as f64 <= most * all as f64, "{kinds:?}: {called} of {all} healthy rings were called slow");
    }
}

#[test]
fn what_is_slow_or_late_beyond_the_noise_is_found() {
    let rings = number("KELPIE_RINGS", 40);
    for (noise, alike, factor, least) in [(0.03, 0.0, 2.0, 0.98), (0.1, 0.0, 2.0, 0.95), (0.3, 0.0, 4.0, 0.9)] {
        let ring = NoisyRing { ranks: 8, iterations: 60, noise, alike, slow: Some((2, factor)), late: None };
        let slow = verdicts(ring, rings, |found| found.ambiguous == [(2, 3)] && found.rank.is_empty());
        let ring = NoisyRing { slow: None, late: Some((5, 2.0 * factor)), ..ring };
        let late = verdicts(ring, rings, |found| found.rank == [5]);
        println!("noise {noise}, alike {alike}, {factor} times: slow {slow:?}, late {late:?}");
        assert!(slow[0] as f64 >= least * rings as f64, "{slow:?}");
        assert!(late[0] as f64 >= least * rings as f64, "{late:?}");
    }
}

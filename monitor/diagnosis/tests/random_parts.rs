//! Hangs of jobs whose ranks take part by chance: the rank that hangs is blamed, or none is.
//!
//! `KELPIE_JOBS` is how many of each kind are drawn, `KELPIE_SEED` the first seed; the test's own are few.

use std::collections::BTreeSet;

use kelpie_diagnosis::job::{FaultClass, JobOperations, JobQuestion, JobVerdict, Operation, diagnose};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const RANKS: u32 = 8;

/// Who takes part in an iteration.
#[derive(Debug, Clone, Copy)]
enum Participation {
    /// Each rank with this chance.
    Chance(f64),
    /// One of two halves in turn, and all with a chance.
    Halves,
    /// Experts: two ranks that were drawn, and the first one always.
    Experts,
}

impl Participation {
    fn draw(self, iteration: u64, random: &mut Pcg64Mcg) -> Vec<u32> {
        loop {
            let ranks: Vec<u32> = match self {
                Self::Chance(chance) => (0..RANKS).filter(|_| random.random_bool(chance)).collect(),
                Self::Halves if random.random_bool(0.2) => (0..RANKS).collect(),
                Self::Halves => (0..RANKS).filter(|rank| u64::from(rank / 4) == iteration % 2).collect(),
                Self::Experts => {
                    let two: BTreeSet<u32> = (0..2).map(|_| random.random_range(1..RANKS)).collect();
                    std::iter::once(0).chain(two).collect()
                }
            };
            if ranks.len() >= 2 {
                return ranks;
            }
        }
    }
}

/// A ring of those who take part, complete.
fn ring(iteration: u64, ranks: &[u32]) -> Vec<Operation> {
    let start = Some(iteration as f64 * 1000.0);
    let next = |place: usize| ranks[(place + 1) % ranks.len()];
    let one = |place: usize| Operation {
        iteration,
        source: ranks[place],
        destination: Some(next(place)),
        bytes: 8,
        entered: start,
        begin: start.map(|start| start + 1.0),
        end: start.map(|start| start + 100.0),
    };
    (0..ranks.len()).map(one).collect()
}

/// How many jobs blame rightly, wrongly, or nobody.
fn outcomes(parts: Participation, is_absent: bool, jobs: u64, seed: u64) -> [u64; 3] {
    let mut counts = [0; 3];
    for nth in 0..jobs {
        let mut random = Pcg64Mcg::seed_from_u64(seed * 1_000_003 + nth);
        let iterations = random.random_range(1..40);
        let mut operations: Vec<Operation> = (0..iterations)
            .flat_map(|iteration| {
                let ranks = parts.draw(iteration, &mut random);
                ring(iteration, &ranks)
            })
            .collect();
        let ranks = parts.draw(iterations, &mut random);
        let mut last = ring(iterations, &ranks);
        let stuck = random.random_range(0..ranks.len());
        let before = (stuck + ranks.len() - 1) % ranks.len();
        if is_absent {
            // It did not come, so that nobody's message to it begins; what it would have sent has no record.
            (last[before].begin, last[before].end) = (None, None);
            last.remove(stuck);
        } else {
            // Its message does not move.
            last[stuck].end = None;
        }
        operations.extend(last);
        let found = diagnose(JobQuestion::at_the_end(&JobOperations { operations, ..JobOperations::default() }));
        assert_eq!(found.verdict, JobVerdict::Hang);
        let class = if is_absent { FaultClass::NonCommunication } else { FaultClass::Communication };
        counts[match (&found.rank[..], found.class) {
            ([rank], Some(named)) if *rank == ranks[stuck] && named == class => 0,
            ([], None) => 2,
            _ => 1,
        }] += 1;
    }
    counts
}

#[test]
fn who_stays_away_by_chance_is_not_blamed() {
    let number =
        |name: &str, otherwise| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (jobs, seed) = (number("KELPIE_JOBS", 300), number("KELPIE_SEED", 1));
    for parts in [
        Participation::Chance(0.9),
        Participation::Chance(0.6),
        Participation::Chance(0.3),
        Participation::Halves,
        Participation::Experts,
    ] {
        for is_absent in [true, false] {
            let [right, wrong, nobody] = outcomes(parts, is_absent, jobs, seed);
            let what = if is_absent { "absent" } else { "stuck" };
            println!("{parts:?}, {what}: {right} right, {wrong} wrong, {nobody} blame nobody");
            assert!(wrong * 50 <= jobs && right * 10 >= 9 * jobs, "{parts:?}, {what}: {right}, {wrong}, {nobody}");
        }
    }
}

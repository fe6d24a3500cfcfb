//! Drawn jobs of few ranks, halves of ranks and short times: who is late or slow is named, and nobody else.

use kelpie_diagnosis::job::{JobDiagnosis, JobOperations, JobQuestion, JobVerdict, Operation, diagnose};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

/// Who sends to whom, after 2000 us of computing; a barrier without a record may follow each iteration.
struct Messages<'m> {
    pairs: &'m [(u32, u32)],
    iterations: u64,
    has_barrier: bool,
    /// By iteration and rank. Units: microseconds.
    late: &'m dyn Fn(u64, u32) -> f64,
    /// By iteration, source and destination.
    factor: &'m dyn Fn(u64, u32, u32) -> f64,
}

impl Messages<'_> {
    fn judge(&self, random: &mut Pcg64Mcg) -> JobDiagnosis {
        let noise = Normal::new(1.0, 0.03).expect("a positive spread");
        let ranks = self.pairs.iter().map(|(from, to)| from.max(to) + 1).max().unwrap_or(0);
        let (mut now, mut operations) = (vec![0.0_f64; ranks as usize], Vec::new());
        for iteration in 0..self.iterations {
            let entered: Vec<f64> = (0..ranks)
                .map(|rank| now[rank as usize] + 2000.0 * noise.sample(random) + (self.late)(iteration, rank))
                .collect();
            for &(source, to) in self.pairs {
                let begin = entered[source as usize].max(entered[to as usize]);
                let end = begin + 1000.0 * noise.sample(random) * (self.factor)(iteration, source, to);
                for rank in [source, to] {
                    now[rank as usize] = now[rank as usize].max(end);
                }
                operations.push(Operation {
                    iteration,
                    source,
                    destination: Some(to),
                    bytes: 1 << 20,
                    entered: Some(entered[source as usize]),
                    begin: Some(begin),
                    end: Some(end),
                });
            }
            if self.has_barrier {
                let last = now.iter().copied().fold(0.0, f64::max);
                now.fill(last);
            }
        }
        diagnose(JobQuestion::at_the_end(&JobOperations { operations, ..JobOperations::default() }))
    }
}

const TWO: &[(u32, u32)] = &[(0, 1), (1, 0)];
const PIPELINE: &[(u32, u32)] = &[(0, 1), (1, 2), (1, 0), (2, 1)];
const TWICE_TWO: &[(u32, u32)] = &[(0, 1), (1, 0), (2, 3), (3, 2)];
const STAR: &[(u32, u32)] = &[(0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (2, 0), (3, 0), (4, 0)];

fn random(seed: u64) -> Pcg64Mcg {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let _: u64 = random.random();
    random
}

#[test]
fn of_few_ranks_the_late_one_and_the_slow_way_are_named() {
    let mut random = random(31);
    for pairs in [TWO, PIPELINE, TWICE_TWO, STAR] {
        for has_barrier in [false, true] {
            for by in [1.5, 3.0, 10.0] {
                let late = |iteration, rank| if iteration >= 40 && rank == 1 { 1000.0 * by } else { 0.0 };
                let factor = |iteration, source, _| if iteration >= 40 && source == 1 { by } else { 1.0 };
                let job = Messages { pairs, iterations: 80, has_barrier, late: &late, factor: &|_, _, _| 1.0 };
                let found = job.judge(&mut random);
                assert_eq!((found.verdict, &found.rank[..]), (JobVerdict::Slow, &[1][..]), "{pairs:?} {by} {found:?}");
                let found = Messages { late: &|_, _| 0.0, factor: &factor, ..job }.judge(&mut random);
                let named = (&found.source[..], found.connection.iter().chain(&found.ambiguous).collect::<Vec<_>>());
                let expected = if pairs == PIPELINE { (&[1][..], vec![]) } else { (&[][..], vec![&(1, 0)]) };
                assert_eq!((found.job, named), (false, expected), "{pairs:?} {by} {found:?}");
            }
            let job = Messages { pairs, iterations: 80, has_barrier, late: &|_, _| 0.0, factor: &|_, _, _| 1.0 };
            for _ in 0..10 {
                let found = job.judge(&mut random);
                assert_eq!(found.verdict, JobVerdict::Healthy, "{pairs:?} {found:?}");
            }
        }
    }
}

/// An all-reduce of 900 us, of which each rank's own time is known: who comes late does not wait.
fn collectives(ranks: u32, iterations: u64, random: &mut Pcg64Mcg, late: impl Fn(u64, u32) -> f64) -> JobOperations {
    let noise = Normal::new(900.0, 18.0).expect("a positive spread");
    let mut operations = Vec::new();
    for iteration in 0..iterations {
        let latest = (0..ranks).map(|rank| late(iteration, rank)).fold(0.0, f64::max);
        for source in 0..ranks {
            let end = noise.sample(random) + latest - late(iteration, source);
            let (begin, end) = (Some(0.0), Some(end));
            operations.push(Operation {
                iteration,
                source,
                destination: None,
                bytes: 1 << 26,
                entered: None,
                begin,
                end,
            });
        }
    }
    let hosts = (0..ranks).map(|rank| (rank, format!("gpu{}", rank / 8))).collect();
    JobOperations { operations, hosts, ranks: Some(ranks), ..JobOperations::default() }
}

#[test]
fn soon_after_a_rank_became_late_the_job_is_not_said_to_have_no_such_rank() {
    let mut random = random(32);
    let ring: Vec<(u32, u32)> = (0..8).map(|rank| (rank, (rank + 1) % 8)).collect();
    for after in [1, 2, 3, 4, 6, 10, 15, 20, 25, 40] {
        let late = |iteration, rank| if iteration >= 60 && rank == 3 { 4000.0 } else { 0.0 };
        let (pairs, iterations) = (&ring[..], 60 + after);
        let of_messages =
            Messages { pairs, iterations, has_barrier: true, late: &late, factor: &|_, _, _| 1.0 }.judge(&mut random);
        let job = collectives(8, iterations, &mut random, late);
        for found in [of_messages, diagnose(JobQuestion::at_the_end(&job))] {
            assert!(!found.job, "{after} {found:?}");
            assert!(after < 8 || (found.rank == [3] && found.since_iteration == Some(60)), "{after} {found:?}");
        }
    }
}

#[test]
fn late_ranks_are_named_with_the_less_late_ones() {
    let mut random = random(33);
    let job = collectives(16, 64, &mut random, |_, rank| {
        [(3, 9000.0), (9, 3500.0)].iter().find(|(who, _)| *who == rank).map_or(0.0, |(_, by)| *by)
    });
    let found = diagnose(JobQuestion::at_the_end(&job));
    assert_eq!((&found.rank[..], found.since_iteration), (&[3, 9][..], Some(0)), "{found:?}");
}

#[test]
fn a_late_host_of_two_is_named_with_all_of_its_lateness() {
    let mut random = random(34);
    for from in [0, 20] {
        let late = |at, rank| if at >= from && rank >= 8 { 3000.0 } else { 0.0 };
        let found = diagnose(JobQuestion::at_the_end(&collectives(16, 64, &mut random, late)));
        assert_eq!((&found.host[..], &found.rank[..]), (&["gpu1".to_owned()][..], &[][..]), "{found:?}");
        assert!(found.evidence.late_us.is_some_and(|late| (late - 3000.0).abs() < 50.0), "{found:?}");
        assert_eq!(found.since_iteration, Some(from), "{found:?}");
    }
}

#[test]
fn what_is_late_or_slow_in_each_fifth_iteration_is_named() {
    let mut random = random(35);
    let ring: Vec<(u32, u32)> = (0..8).map(|rank| (rank, (rank + 1) % 8)).collect();
    let late = |at: u64, rank| if at.is_multiple_of(5) && rank == 3 { 30_000.0 } else { 0.0 };
    let all = |at: u64, _, _| if at.is_multiple_of(5) { 6.0 } else { 1.0 };
    for has_barrier in [false, true] {
        let job = Messages { pairs: &ring, iterations: 100, has_barrier, late: &late, factor: &|_, _, _| 1.0 };
        let found = job.judge(&mut random);
        assert_eq!((&found.rank[..], found.job), (&[3][..], false), "{found:?}");
        assert!(found.evidence.in_share.is_some_and(|share| (share - 0.2).abs() < 0.03), "{found:?}");
        let found = Messages { late: &|_, _| 0.0, factor: &all, ..job }.judge(&mut random);
        assert_eq!((found.verdict, found.job, found.rank.len()), (JobVerdict::Slow, true, 0), "{found:?}");
    }
    let found = diagnose(JobQuestion::at_the_end(&collectives(16, 100, &mut random, late)));
    assert_eq!((&found.rank[..], found.job), (&[3][..], false), "{found:?}");
}

#[test]
fn a_rank_that_stops_before_the_others_is_named_and_the_job_is_not_called_healthy() {
    let mut random = random(36);
    let mut job = collectives(8, 100, &mut random, |_, _| 0.0);
    job.operations.retain(|operation| operation.source != 6 || operation.iteration < 40);
    let found = diagnose(JobQuestion::at_the_end(&job));
    assert_ne!(found.verdict, JobVerdict::Healthy, "{found:?}");
    assert!(found.evidence.notes.iter().any(|note| note.contains("6 (after iteration 39)")), "{found:?}");
}

//! Whole verdicts on jobs of several shapes: what is wrong is named and nothing else, and healthy jobs are left alone.
//!
//! `KELPIE_JOBS` is how many jobs a row has, `KELPIE_SEED` the seed; the test's own are few. `KELPIE_RANKS` (12 at
//! least) and `KELPIE_FROM` are the ranks, and the iteration of 100 from which on something is slow.

#[path = "../examples/figures/shapes.rs"]
mod shapes;
#[path = "../examples/figures/training.rs"]
mod training;

use kelpie_diagnosis::job::{JobDiagnosis, JobQuestion, JobVerdict, diagnose};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use shapes::{SHAPES, Shape, Traffic, Wrong};
use training::{SCHEMES, Scheme, Training};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Whether a verdict names what is wrong and nothing else. A connection that is all of its source or destination
/// cannot be told from these.
fn is_right(found: &JobDiagnosis, wrong: Wrong, pairs: &[(u32, u32)]) -> bool {
    let named = (
        &found.host[..],
        &found.rank[..],
        &found.source[..],
        &found.destination[..],
        &found.connection[..],
        &found.ambiguous[..],
    );
    let alone = |is_of: &dyn Fn(&(u32, u32)) -> bool| {
        let all: Vec<(u32, u32)> = pairs.iter().copied().filter(is_of).collect();
        let empty: &[u32] = &[];
        all.len() == 1
            && (found.rank.is_empty() && found.host.is_empty())
            && found.source == empty
            && found.destination == empty
            && found.connection.iter().chain(&found.ambiguous).eq(&all)
    };
    match wrong {
        Wrong::Nothing => found.verdict == JobVerdict::Healthy,
        Wrong::All(_) => found.verdict == JobVerdict::Slow && found.job && named == (&[], &[], &[], &[], &[], &[]),
        Wrong::Rank(rank, _) | Wrong::Late(rank, _) | Wrong::Fifth(rank, _) => {
            named == (&[], &[rank], &[], &[], &[], &[])
        }
        Wrong::Source(rank, _) => named == (&[], &[], &[rank], &[], &[], &[]) || alone(&|pair| pair.0 == rank),
        Wrong::Destination(rank, _) => named == (&[], &[], &[], &[rank], &[], &[]) || alone(&|pair| pair.1 == rank),
        Wrong::Connection(nth, _) => alone(&|pair| *pair == pairs[nth]),
        Wrong::Host(host, _) => found.host == [format!("node{host}")] && found.rank.is_empty(),
    }
}

/// Jobs of this kind whose verdict is right, of so many.
fn right(traffic: Traffic, jobs: u64, random: &mut Pcg64Mcg) -> u64 {
    let mut count = 0;
    for _ in 0..jobs {
        let (job, pairs) = traffic.draw(random);
        let found = diagnose(JobQuestion::at_the_end(&job));
        let is_dated = traffic.noise > 0.05
            || found.evidence.rule != Some("history")
            || found.since_iteration.is_some_and(|since| since.abs_diff(traffic.from) <= 5);
        let is = is_right(&found, traffic.wrong, &pairs) && is_dated;
        count += u64::from(is);
        if !is && std::env::var_os("KELPIE_WRONG").is_some() {
            let evidence = &found.evidence;
            println!(
                "{traffic:?}: {:?} by {:?}: job {} host {:?} rank {:?} source {:?} destination {:?} connection {:?} \
                 ambiguous {:?} since {:?} {:?}",
                found.verdict,
                evidence.rule,
                found.job,
                found.host,
                found.rank,
                found.source,
                found.destination,
                found.connection,
                found.ambiguous,
                found.since_iteration,
                evidence
            );
        }
    }
    count
}

fn traffic(shape: Shape, noise: f64, wrong: Wrong) -> Traffic {
    let (ranks, from) = (number("KELPIE_RANKS", 32) as u32, number("KELPIE_FROM", 50));
    let ranks_per_host = if matches!(wrong, Wrong::Host(..)) { ranks / 4 } else { 1 };
    Traffic { shape, ranks, ranks_per_host, iterations: 100, noise, wrong, from, has_barrier: false }
}

/// What is wrong, by its factor.
type MadeWrong = fn(f64) -> Wrong;

#[test]
fn what_is_slow_is_named_from_1_1_times_on_whatever_the_shape() {
    let jobs = number("KELPIE_JOBS", 2);
    let mut random = Pcg64Mcg::seed_from_u64(number("KELPIE_SEED", 5));
    let _: u64 = random.random();
    let (factors, noises): (&[f64], &[f64]) =
        if jobs > 2 { (&[1.1, 1.2, 1.35, 1.5, 2.0], &[0.03, 0.1]) } else { (&[1.1, 1.5], &[0.03]) };
    let kinds: [(&str, MadeWrong); 6] = [
        ("rank", |by| Wrong::Rank(11, by)),
        ("source", |by| Wrong::Source(11, by)),
        ("destination", |by| Wrong::Destination(11, by)),
        ("connection", |by| Wrong::Connection(17, by)),
        ("host", |by| Wrong::Host(1, by)),
        ("all", Wrong::All),
    ];
    let mut missed = Vec::new();
    for &noise in noises {
        for (shape_name, shape) in SHAPES {
            for (name, kind) in kinds {
                let shares: Vec<u64> = factors
                    .iter()
                    .map(|by| 100 * right(traffic(shape, noise, kind(*by)), jobs, &mut random) / jobs)
                    .collect();
                println!("{noise} {shape_name} {name}: {shares:?}");
                if noise < 0.05 && shares.iter().any(|share| *share < 95) {
                    missed.push(format!("{noise} {shape_name} {name}: {shares:?}"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_rank_that_comes_late_is_named_with_and_without_a_barrier() {
    let jobs = number("KELPIE_JOBS", 2);
    let mut random = Pcg64Mcg::seed_from_u64(number("KELPIE_SEED", 6));
    let _: u64 = random.random();
    let mut missed = Vec::new();
    for (name, shape) in SHAPES {
        for has_barrier in [false, true] {
            for from in [0, 20] {
                for ranks in [4, 8, 32] {
                    let late = Wrong::Late(2, 20_000.0);
                    let job = Traffic { ranks, iterations: 40, from, has_barrier, ..traffic(shape, 0.03, late) };
                    let share = right(job, jobs, &mut random);
                    if share < jobs {
                        missed.push(format!("{name}, barrier {has_barrier}, from {from}, {ranks}: {share} of {jobs}"));
                    }
                }
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_rank_that_is_slow_in_every_fifth_iteration_is_named() {
    let jobs = number("KELPIE_JOBS", 2);
    let mut random = Pcg64Mcg::seed_from_u64(number("KELPIE_SEED", 7));
    let _: u64 = random.random();
    for (name, shape) in SHAPES {
        let job = Traffic { from: 0, ..traffic(shape, 0.03, Wrong::Fifth(11, 2.0)) };
        assert_eq!(right(job, jobs, &mut random), jobs, "{name}");
    }
}

#[test]
fn healthy_jobs_are_healthy() {
    let jobs = number("KELPIE_JOBS", 2);
    let mut random = Pcg64Mcg::seed_from_u64(number("KELPIE_SEED", 8));
    let _: u64 = random.random();
    let (mut all, mut well) = (0, 0);
    for (_, shape) in SHAPES {
        for noise in [0.03, 0.1] {
            for has_barrier in [false, true] {
                for ranks in [3, 8, 32] {
                    let job = Traffic { ranks, has_barrier, ..traffic(shape, noise, Wrong::Nothing) };
                    all += jobs;
                    well += right(job, jobs, &mut random);
                }
            }
        }
    }
    println!("{well} of {all} healthy");
    assert!(well as f64 >= 0.99 * all as f64, "{well} of {all}");
}

#[test]
fn of_two_hosts_that_have_nobody_else_both_are_named() {
    let mut random = Pcg64Mcg::seed_from_u64(12);
    for shape in [Shape::Ring, Shape::AllPairs, Shape::Sparse] {
        let job = Traffic { ranks: 16, ranks_per_host: 8, ..traffic(shape, 0.03, Wrong::Host(1, 1.5)) };
        let found = diagnose(JobQuestion::at_the_end(&job.draw(&mut random).0));
        let hosts = found.between.as_ref().and_then(|between| between.hosts.clone()).map(|hosts| hosts.concat());
        assert_eq!(hosts.as_ref().unwrap_or(&found.host), &["node0", "node1"], "{shape:?} {found:?}");
        assert_eq!((found.rank.len(), found.connection.len()), (0, 0), "{shape:?} {found:?}");
    }
}

#[test]
fn healthy_training_is_healthy() {
    let jobs = number("KELPIE_JOBS", 2);
    let mut random = Pcg64Mcg::seed_from_u64(number("KELPIE_SEED", 10));
    let _: u64 = random.random();
    let (mut all, mut well, mut alarms) = (0, 0, 0);
    for (name, scheme) in SCHEMES {
        for (noise, has_tails) in [(0.03, false), (0.1, false), (0.03, true)] {
            let (mut slow, mut undecided) = (0, 0);
            for nth in 0..jobs {
                let ranks = [4, 8, 16, 32][nth as usize % 4];
                let ranks_per_host = [1, 4, 8][nth as usize % 3];
                let layers = random.random_range(1..6);
                let job = Training { scheme, ranks, ranks_per_host, layers, steps: 12, noise, has_tails, slow: None };
                for one in job.draw(&mut random) {
                    let found = diagnose(JobQuestion::at_the_end(&one));
                    undecided += u64::from(found.verdict == JobVerdict::Undecided);
                    slow += u64::from(![JobVerdict::Healthy, JobVerdict::Undecided].contains(&found.verdict));
                    if found.verdict != JobVerdict::Healthy && std::env::var_os("KELPIE_WRONG").is_some() {
                        println!("{job:?}: {found:?}");
                    }
                    all += 1;
                    well += u64::from(found.verdict == JobVerdict::Healthy);
                }
            }
            alarms += slow;
            println!("{name}, noise {noise}, tails {has_tails}: {slow} slow, {undecided} undecided of {jobs}");
        }
    }
    println!("{well} of {all} healthy, {alarms} called slow");
    assert!(well as f64 >= 0.99 * all as f64 && alarms * 500 <= all, "{well} and {alarms} of {all}");
}

#[test]
fn a_slow_rank_among_experts_is_named_though_no_size_recurs() {
    let jobs = number("KELPIE_JOBS", 2);
    let mut random = Pcg64Mcg::seed_from_u64(number("KELPIE_SEED", 11));
    let _: u64 = random.random();
    for scheme in [Scheme::Experts, Scheme::PaddedExperts, Scheme::CrowdedExperts] {
        for by in [1.2, 1.5, 2.0] {
            let slow = Some((3, by));
            let (ranks, layers, steps) = (16, 2, 20);
            let job = Training { scheme, ranks, ranks_per_host: 1, layers, steps, noise: 0.03, has_tails: false, slow };
            let is_named = |_: &u64| {
                let found = diagnose(JobQuestion::at_the_end(&job.draw(&mut random)[0]));
                if found.rank != [3] && std::env::var_os("KELPIE_WRONG").is_some() {
                    println!("{job:?}: {found:?}");
                }
                found.rank == [3] && found.source.is_empty() && found.destination.is_empty()
            };
            let named = (0..jobs).filter(is_named).count();
            println!("{scheme:?} {by}: {named} of {jobs}");
            assert!(named as f64 >= 0.95 * jobs as f64, "{scheme:?} {by}: {named}");
        }
    }
}

#[test]
fn iterations_that_take_longer_though_messages_do_not_are_the_whole_job() {
    let jobs = number("KELPIE_JOBS", 2);
    let mut random = Pcg64Mcg::seed_from_u64(number("KELPIE_SEED", 9));
    let _: u64 = random.random();
    // Of a pipeline the first stage alone shows when an iteration begins, so there it is that rank.
    for (name, shape) in SHAPES.into_iter().filter(|(_, shape)| *shape != Shape::Pipeline) {
        let (mut job, _) = traffic(shape, 0.03, Wrong::Nothing).draw(&mut random);
        for _ in 0..jobs {
            // Storage that all wait for: 8 ms more in each iteration from the 40th on.
            for operation in &mut job.operations {
                let later = 8000.0 * operation.iteration.saturating_sub(40) as f64;
                for time in [&mut operation.entered, &mut operation.begin, &mut operation.end] {
                    *time = time.map(|time| time + later);
                }
            }
            let found = diagnose(JobQuestion::at_the_end(&job));
            assert_eq!(
                (found.verdict, found.job, found.evidence.rule),
                (JobVerdict::Slow, true, Some("pace")),
                "{name} {found:?}"
            );
            assert!(found.since_iteration.is_some_and(|since| since.abs_diff(41) <= 2), "{name}: {found:?}");
        }
    }
}

//! The figures of docs/measured/host-diagnosis.md: `cargo run --release -p kelpie-diagnosis --example figures --
//! hosts`, or `busy`, `repeats`, and `scale` for jobs (each with a seed if another one is wanted). What is measured of
//! verdicts on jobs is the test `verdicts`.
//!
//! Hosts are drawn by seeds that nothing was tuned on; 20261124 is the one of the page.

mod hosts;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hosts::{FigureHost, KINDS, Load};
use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::host::{HostQuestion, HostVerdict, diagnose};
use kelpie_diagnosis::job;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

const SEED: u64 = 20_261_124;
const SHARES: [f64; 4] = [0.06, 0.25, 0.5, 0.75];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seed = args.get(1).and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    match args.first().map(String::as_str) {
        Some("hosts") => {
            singles_and_doubles(&mut random);
            noisy(&mut random);
            alarms(&mut random);
        }
        Some("busy") => busy(&mut random),
        Some("scale") => scale(&mut random),
        Some("repeats") => by_the_repeat_rule(&mut random),
        _ => eprintln!("usage: figures hosts|busy|repeats|scale [SEED]"),
    }
}

/// What an answer is worth, given the truth.
fn worth(found: &kelpie_diagnosis::host::HostDiagnosis, truth: &[String]) -> &'static str {
    let is_truth = |set: &Vec<String>| set.len() == truth.len() && truth.iter().all(|link| set.contains(link));
    match found.explanations.as_slice() {
        [only] if is_truth(only) => "exact",
        several if several.iter().any(is_truth) => "tie with the truth",
        _ if found.cannot_be_excluded.iter().any(is_truth) => "cannot be excluded",
        [] if found.verdict == HostVerdict::Undecided => "undecided",
        [] => "nothing",
        _ => "wrong",
    }
}

fn shown(counts: &BTreeMap<&str, usize>) -> String {
    let all: usize = counts.values().sum();
    let one = |(name, count): (&&str, &usize)| format!("{name} {count}");
    format!("{} of {all}", counts.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn ask(host: &FigureHost, matrices: &[Matrix], baseline: &Matrix) -> kelpie_diagnosis::host::HostDiagnosis {
    let (matrix, repeats) = matrices.split_first().expect("one at least");
    let baseline = Some(baseline);
    let question = HostQuestion { host: &host.topology, matrix, repeats, baseline, busy: false };
    diagnose(question).expect("matrix and topology fit")
}

/// Every single fault and every pair of faults of one host of each kind, without noise.
fn singles_and_doubles(random: &mut Pcg64Mcg) {
    println!("# single and double faults, no noise");
    for (name, kind) in KINDS {
        let host = FigureHost::draw(kind, random);
        let baseline = host.measured(&host.healthy, 0.0, random);
        let links = host.topology.links().len();
        let names = |faults: &[(usize, f64)]| -> Vec<String> {
            faults.iter().map(|(link, _)| host.topology.link_name(*link)).collect()
        };
        for share in SHARES {
            let (mut single, mut double, mut beside) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
            for one in 0..links {
                let faults = [(one, share)];
                let found = ask(&host, &[host.measured(&host.with_faults(&faults), 0.0, random)], &baseline);
                *single.entry(worth(&found, &names(&faults))).or_default() += 1;
                beside.push(found.cannot_be_excluded.len());
                for other in one + 1..links {
                    let faults = [(one, share), (other, share)];
                    let values = host.with_faults(&faults);
                    let found = ask(&host, &[host.measured(&values, 0.0, random)], &baseline);
                    let worth = worth(&found, &names(&faults));
                    *double.entry(worth).or_default() += 1;
                }
            }
            let most = beside.iter().max().unwrap_or(&0);
            println!(
                "{name} at {share}: single {}; beside it {} links in all, {most} at most; double {}",
                shown(&single),
                beside.iter().sum::<usize>(),
                shown(&double)
            );
        }
    }
}

/// The median of twenty earlier matrices with the same noise.
fn history(host: &FigureHost, noise: f64, random: &mut Pcg64Mcg) -> Matrix {
    let mut earlier: Vec<Matrix> = (0..20).map(|_| host.measured(&host.healthy, noise, random)).collect();
    let first = earlier.pop().expect("twenty");
    first.median_with(&earlier)
}

/// What every single fault of 20 hosts of each kind is found as, by the matrices that are taken of a host that carries
/// this.
fn single_faults(
    noise: f64,
    share: f64,
    random: &mut Pcg64Mcg,
    matrices: impl Fn(&FigureHost, &[Vec<f64>], &Matrix, &mut Pcg64Mcg) -> Vec<Matrix>,
) -> String {
    let mut counts = BTreeMap::new();
    for (_, kind) in KINDS {
        for _ in 0..20 {
            let host = FigureHost::draw(kind, random);
            let baseline = history(&host, noise, random);
            for link in 0..host.topology.links().len() {
                let measured = matrices(&host, &host.with_faults(&[(link, share)]), &baseline, random);
                let found = ask(&host, &measured, &baseline);
                *counts.entry(worth(&found, &[host.topology.link_name(link)])).or_default() += 1;
            }
        }
    }
    shown(&counts)
}

/// Single faults under noise, by the number of repeats.
fn noisy(random: &mut Pcg64Mcg) {
    println!("# single faults under noise: 20 hosts of each kind");
    for noise in [0.02, 0.05, 0.1] {
        for repeats in [1, 5, 10] {
            for share in SHARES {
                let found = single_faults(noise, share, random, |host, values, _, random| {
                    (0..repeats).map(|_| host.measured(values, noise, random)).collect()
                });
                println!("noise {noise}, {repeats} matrices, at {share}: {found}");
            }
        }
    }
}

/// Single faults by one matrix, and by four more if that one does not say healthy.
fn by_the_repeat_rule(random: &mut Pcg64Mcg) {
    println!("# single faults by the repeat rule: 20 hosts of each kind");
    for noise in [0.05, 0.1] {
        for share in SHARES {
            let found = single_faults(noise, share, random, |host, values, baseline, random| {
                let mut measured = vec![host.measured(values, noise, random)];
                if ask(host, &measured, baseline).verdict != HostVerdict::Healthy {
                    measured.extend((0..4).map(|_| host.measured(values, noise, random)));
                }
                measured
            });
            println!("noise {noise}, at {share}: {found}");
        }
    }
}

/// Healthy hosts: a first matrix, and four more if that one is not healthy.
fn alarms(random: &mut Pcg64Mcg) {
    println!("# healthy hosts that alarm, of 10,000 of each kind");
    for noise in [0.02, 0.05, 0.1] {
        for (name, kind) in KINDS {
            let (mut first, mut doubt, mut after) = (0, 0, 0);
            for _ in 0..100 {
                let host = FigureHost::draw(kind, random);
                let baseline = history(&host, noise, random);
                for _ in 0..100 {
                    let mut measured = vec![host.measured(&host.healthy, noise, random)];
                    let found = ask(&host, &measured, &baseline);
                    first += usize::from(found.verdict == HostVerdict::Abnormal);
                    if found.verdict != HostVerdict::Healthy {
                        doubt += 1;
                        measured.extend((0..4).map(|_| host.measured(&host.healthy, noise, random)));
                        after += usize::from(ask(&host, &measured, &baseline).verdict == HostVerdict::Abnormal);
                    }
                }
            }
            println!(
                "noise {noise}, {name}: {first} by one matrix, {doubt} asked for repeats, {after} after the repeats"
            );
        }
    }
}

/// Hosts that others use, healthy and with a fault of a memory, a GPU or an uplink, and hosts whose fault comes and
/// goes: how often each verdict is given, and how often the fault's link is named.
fn busy(random: &mut Pcg64Mcg) {
    println!("# hosts beside the load of others, noise 0.05: 120 of each kind");
    for load in [Load::PerRow, Load::PerCell, Load::Bursts] {
        for (is_known, with_baseline) in [(true, true), (true, false), (false, true), (false, false)] {
            for count in [1, 5] {
                for fault in [None, Some(0.06), Some(0.25), Some(0.5)] {
                    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                    for (_, kind) in KINDS {
                        for _ in 0..120 {
                            let host = FigureHost::draw(kind, random);
                            let baseline = history(&host, 0.05, random);
                            // Each RNIC's own link is invisible beside load.
                            let is_own = |link: &usize| host.topology.link_name(*link).starts_with("rnic");
                            let links: Vec<usize> =
                                (0..host.topology.links().len()).filter(|link| !is_own(link)).collect();
                            let link = links[random.random_range(0..links.len())];
                            let values =
                                fault.map_or_else(|| host.healthy.clone(), |share| host.with_faults(&[(link, share)]));
                            let measured: Vec<Matrix> =
                                (0..count).map(|_| host.beside(&values, load, 0.05, random)).collect();
                            let question = HostQuestion {
                                host: &host.topology,
                                matrix: &measured[0],
                                repeats: &measured[1..],
                                baseline: with_baseline.then_some(&baseline),
                                busy: is_known,
                            };
                            let found = diagnose(question).expect("they fit");
                            let truth = host.topology.link_name(link);
                            let is_suspected = found.notes.iter().any(|note| note.contains(&truth));
                            let is_named = found.explanations.iter().any(|set| set.contains(&truth));
                            *counts
                                .entry(match found.verdict {
                                    HostVerdict::Healthy => "healthy",
                                    HostVerdict::Undecided if fault.is_some() && is_suspected => "suspected",
                                    HostVerdict::Undecided => "undecided",
                                    HostVerdict::Abnormal if fault.is_some() && is_named => "named",
                                    HostVerdict::Abnormal => "wrong",
                                })
                                .or_default() += 1;
                        }
                    }
                    let fault = fault.map_or_else(|| "healthy".to_owned(), |share| format!("fault at {share}"));
                    let known = if is_known { "said to be busy" } else { "not said to be busy" };
                    let by = if with_baseline { "baseline" } else { "siblings" };
                    println!("{load:?}, {known}, {by}, {count} matrices, {fault}: {}", shown(&counts));
                }
            }
        }
    }
    println!("# faults that come and go, noise 0.05, baseline: 120 of each kind");
    for (count, share) in [(5, 0.25), (5, 0.5), (10, 0.25), (10, 0.5)] {
        for slow_in in [0, 1, 2, 3, 4] {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for (_, kind) in KINDS {
                for _ in 0..120 {
                    let host = FigureHost::draw(kind, random);
                    let baseline = history(&host, 0.05, random);
                    let link = random.random_range(0..host.topology.links().len());
                    let values = host.with_faults(&[(link, share)]);
                    let measured: Vec<Matrix> = (0..count)
                        .map(|round| host.measured(if round < slow_in { &values } else { &host.healthy }, 0.05, random))
                        .collect();
                    let found = ask(&host, &measured, &baseline);
                    let named = format!("{:?} {:?}", found.explanations, found.intermittent)
                        .contains(&host.topology.link_name(link));
                    *counts
                        .entry(match found.verdict {
                            HostVerdict::Healthy => "healthy",
                            HostVerdict::Undecided => "undecided",
                            HostVerdict::Abnormal if named => "named",
                            HostVerdict::Abnormal => "wrong",
                        })
                        .or_default() += 1;
                }
            }
            println!("at {share} in {slow_in} of {count} matrices: {}", shown(&counts));
        }
    }
}

/// How long it takes to read and judge an iteration of a large job, as CSV.
fn scale(random: &mut Pcg64Mcg) {
    let ring_and_tree = |ranks: u32| {
        let ring = (0..ranks).map(move |rank| (rank, (rank + 1) % ranks));
        ring.chain((1..ranks).flat_map(|rank| [(rank, (rank - 1) / 2), ((rank - 1) / 2, rank)])).collect::<Vec<_>>()
    };
    let full = |ranks: u32| (0..ranks * ranks).map(|pair| (pair / ranks, pair % ranks)).collect::<Vec<_>>();
    let mut mixed = full(1024);
    mixed.shuffle(random);
    for (name, pairs) in [
        ("16,384 ranks, ring and tree", ring_and_tree(16_384)),
        ("1,024 ranks, all pairs", full(1024)),
        ("1,024 ranks, all pairs in any order", mixed),
    ] {
        let mut text = "iteration,source,destination,bytes,begin,end,entered\n".to_owned();
        for (source, destination) in &pairs {
            let time = 1000 + (source * 7 + destination * 13) % 50;
            let _ = writeln!(text, "0,{source},{destination},1048576,10,{time},9");
        }
        let start = std::time::Instant::now();
        let jobs = job::read("scale", text.as_bytes()).expect("it keeps the rules").jobs;
        let read = start.elapsed();
        let verdict = job::diagnose(job::JobQuestion::at_the_end(&jobs[0])).verdict;
        println!("{name}: {} records, read {read:.2?}, in all {:.2?}, {verdict:?}", pairs.len(), start.elapsed());
    }
}

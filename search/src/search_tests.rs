//! Whole searches on subsystems in closed form: regions against the truth, their cost, determinism, the end of the budget.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Condition, Feature, Space};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::closed_form::{ClosedForm, Weakness, at_least, at_most, one_of, within};
use crate::{Algorithm, Config, SignalSet, run};

fn full() -> Space {
    Space::catalog("full").expect("in the catalog")
}

/// Conditions like those of the paper's Table 2, without a subsystem behind them.
fn table() -> Vec<(&'static str, Vec<Condition>)> {
    use Feature as F;
    let rc = || one_of(F::QpType, &["RC"]);
    let op = |word| one_of(F::Opcode, &[word]);
    let yes = |feature| one_of(feature, &["true"]);
    vec![
        ("loopback", vec![yes(F::Loopback)]),
        (
            "UD SEND, deep and batched",
            vec![one_of(F::QpType, &["UD"]), at_least(F::RecvBatch, 64), at_least(F::RecvWqDepth, 256)],
        ),
        ("long READ at small MTU", vec![rc(), op("READ"), at_most(F::Mtu, 1024), at_least(F::MessageMax, 16384)]),
        ("two-sided sizes", vec![rc(), op("SEND"), within(F::MessageMax, 2048, 8192)]),
        ("two transports, many QPs", vec![one_of(F::QpType, &["RC", "UC"]), op("WRITE"), at_least(F::TotalQps, 320)]),
        ("mixed sizes both ways", vec![yes(F::Bidirectional), at_least(F::SgeCount, 3), yes(F::MessageMix)]),
        ("many regions", vec![op("WRITE"), at_most(F::MessageMax, 1024), at_least(F::TotalMrs, 12000)]),
        (
            "across sockets",
            vec![
                yes(F::Bidirectional),
                one_of(F::MemoryRequester, &["dram:0"]),
                one_of(F::MemoryResponder, &["dram:1"]),
            ],
        ),
        (
            "short queues, many QPs",
            vec![
                rc(),
                op("WRITE"),
                at_most(F::SendWqDepth, 16),
                at_most(F::MessageMax, 1024),
                at_least(F::TotalQps, 480),
            ],
        ),
    ]
}

#[test]
fn print_costs() {
    let space = full();
    for (name, conditions) in table() {
        for seed in 0..4 {
            let weakness = Weakness::new(Symptom::Pause, &conditions);
            let mut oracle = ClosedForm::new(std::slice::from_ref(&weakness), 20000);
            oracle.wanted = 1;
            let config = Config::new(Algorithm::Random, SignalSet::Perf, seed);
            let _ = run(&space, &config, &mut oracle);
            let Some(finding) = oracle.findings.first() else {
                println!("{name} {seed}: not found");
                continue;
            };
            let mut rng = Pcg64::seed_from_u64(99);
            let mut drawn = 0;
            let mut healthy = 0;
            let mut missed = 0;
            let mut truth = 0;
            for _ in 0..400 {
                if let Some(w) = space.sample_in(&finding.mfs, &mut rng) {
                    drawn += 1;
                    healthy += usize::from(oracle.symptoms(&w).is_empty());
                }
                if let Some(w) = space.sample_in(&weakness.region, &mut rng) {
                    truth += 1;
                    missed += usize::from(!finding.mfs.contains(&w));
                }
            }
            println!(
                "{name} {seed}: at {} cost {} healthy {healthy}/{drawn} missed {missed}/{truth} narrowed {} insep {} conf {:.2} uncured {}: {}",
                finding.found_at,
                finding.experiments_for_mfs,
                finding.evidence.narrowed,
                finding.evidence.healthy_inside,
                finding.confidence,
                finding.evidence.cures.iter().filter(|c| c.cured != Some(true)).count(),
                finding.mfs
            );
        }
    }
}

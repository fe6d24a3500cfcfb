//! Whole searches on subsystems in closed form: regions, their cost, determinism, the end of the budget.

use kelpie_monitor::Symptom;
use kelpie_spaces::{Condition, Dimension, Feature, Region, Space, Workload};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::closed_form::{BudgetSpent, ClosedForm, Weakness, at_least, at_most, one_of, within};
use crate::{Algorithm, Config, Finding, Purpose, SignalSet, run};

fn full() -> Space {
    Space::catalog("full").expect("in the catalog")
}

fn yes(feature: Feature) -> Condition {
    one_of(feature, &["true"])
}

/// Conditions like those of the paper's Table 2, without a subsystem behind them.
fn boxes() -> Vec<(&'static str, Vec<Condition>)> {
    use Feature as F;
    let rc = || one_of(F::QpType, &["RC"]);
    let op = |word| one_of(F::Opcode, &[word]);
    vec![
        ("one condition", vec![yes(F::Loopback)]),
        (
            "deep and batched",
            vec![one_of(F::QpType, &["UD"]), at_least(F::RecvBatch, 64), at_least(F::RecvWqDepth, 256)],
        ),
        ("long READ", vec![op("READ"), at_most(F::Mtu, 1024), at_least(F::MessageMax, 16384)]),
        ("two ends", vec![rc(), op("SEND"), within(F::MessageMax, 2048, 8192)]),
        ("two words", vec![one_of(F::QpType, &["UC", "UD"]), at_most(F::RecvBatch, 8)]),
        ("mixed sizes", vec![yes(F::Bidirectional), at_least(F::SgeCount, 3), yes(F::MessageMix)]),
        ("a product", vec![op("WRITE"), at_most(F::MessageMax, 1024), at_least(F::TotalMrs, 12000)]),
        (
            "two devices",
            vec![
                yes(F::Bidirectional),
                one_of(F::MemoryRequester, &["dram:0"]),
                one_of(F::MemoryResponder, &["dram:1"]),
            ],
        ),
    ]
}

/// The first finding of a random search for this weakness alone, and what was asked.
fn first_finding(weakness: &Weakness, seed: u64, inconclusive_every: usize) -> (Finding, ClosedForm) {
    let mut oracle = ClosedForm::new(std::slice::from_ref(weakness), 20_000);
    oracle.wanted = 1;
    oracle.inconclusive_every = inconclusive_every;
    let config = Config::new(Algorithm::Random, SignalSet::Perf, seed);
    assert_eq!(run(&full(), &config, &mut oracle), Err(BudgetSpent));
    (oracle.findings.first().expect("the budget is ample").clone(), oracle)
}

/// Healthy points among 400 from inside.
fn healthy_inside(oracle: &ClosedForm, region: &Region) -> usize {
    let mut rng = Pcg64::seed_from_u64(99);
    let space = full();
    (0..400).filter_map(|_| space.sample_in(region, &mut rng)).filter(|w| oracle.symptoms(w).is_empty()).count()
}

#[test]
fn regions_are_exactly_the_weakness_at_a_bounded_cost() {
    for (name, conditions) in boxes() {
        for seed in 0..3 {
            let (finding, oracle) = first_finding(&Weakness::new(Symptom::Pause, &conditions), seed, usize::MAX);
            let mut truth = conditions.clone();
            truth.sort();
            let mut found = finding.mfs.conditions.clone();
            found.sort();
            // Few MRs on very many QPs are a region of their own inside a product, and the space samples other
            // requesters' memory so rarely that a region may leave it open.
            let exact = name != "a product" && name != "two devices";
            assert!(!exact || found == truth, "{name}, seed {seed}: {}", finding.mfs);
            assert!(found.len() <= truth.len() || name == "a product", "{name}, seed {seed}: {}", finding.mfs);
            let healthy = healthy_inside(&oracle, &finding.mfs);
            assert!(healthy <= if exact { 0 } else { 20 }, "{name}, seed {seed}: {healthy} of 400 in {}", finding.mfs);
            assert!(finding.experiments_for_mfs <= 110, "{name}, seed {seed}: {}", finding.experiments_for_mfs);
            assert!(finding.confidence > 0.9 && !finding.evidence.narrowed, "{name}, seed {seed}: {finding:?}");
            assert!(finding.mfs.contains(&finding.workload), "{name}, seed {seed}");
            assert!(finding.evidence.cures.iter().all(|cure| cure.cured == Some(true)), "{name}, seed {seed}");
        }
    }
}

#[test]
fn a_finding_is_as_plain_as_its_weakness_admits() {
    for (name, conditions) in boxes() {
        let (finding, _) = first_finding(&Weakness::new(Symptom::Pause, &conditions), 0, usize::MAX);
        let involved: Vec<Feature> = conditions.iter().map(|condition| condition.feature).collect();
        for (feature, plain) in [(Feature::SendBatch, 1), (Feature::SendWqDepth, 128), (Feature::Mrs, 1)] {
            let tied = involved.contains(&Feature::RecvBatch) || involved.contains(&Feature::TotalMrs);
            let value = number(&finding.workload, feature);
            assert!(tied || value == plain, "{name}: {feature} is {value}");
        }
    }
}

#[test]
fn what_simplifies_into_a_known_region_costs_no_region() {
    let oracle = campaign(Algorithm::Collie, SignalSet::Both, 0, 1500);
    assert!(oracle.findings.len() <= oracle.distinct() + 2, "{} for {}", oracle.findings.len(), oracle.distinct());
}

fn number(workload: &Workload, feature: Feature) -> u64 {
    workload.feature(feature).number().expect("an ordered feature")
}

#[test]
fn what_no_conjunction_says_is_approached_from_inside() {
    let curved = [
        Weakness::new(Symptom::Pause, &[one_of(Feature::Opcode, &["READ"])])
            .and(|w| number(w, Feature::TotalQps) * number(w, Feature::SendWqDepth) >= 65_536),
        Weakness::new(Symptom::LowThroughput, &[yes(Feature::Bidirectional)])
            .and(|w| number(w, Feature::SendBatch) * number(w, Feature::SgeCount) >= 128),
        Weakness::new(Symptom::LowThroughput, &[one_of(Feature::Opcode, &["WRITE"])]).and(|w| {
            let pattern = &w.flows[0].pattern;
            pattern.iter().map(|request| request.message().0).sum::<u64>() / pattern.len() as u64 <= 1024
        }),
    ];
    for (index, weakness) in curved.iter().enumerate() {
        for seed in 0..3 {
            let (finding, oracle) = first_finding(weakness, seed, usize::MAX);
            let healthy = healthy_inside(&oracle, &finding.mfs);
            assert!(healthy <= 20, "weakness {index}, seed {seed}: {healthy} of 400 in {}", finding.mfs);
            assert!(finding.experiments_for_mfs <= 150, "weakness {index}, seed {seed}");
        }
    }
}

#[test]
fn what_no_feature_says_is_narrowed_or_not_stored() {
    // Which of two elements is longer is no feature: half of any region is healthy.
    let hidden = Weakness::new(Symptom::Pause, &[at_least(Feature::SgeCount, 2)]).and(|w| {
        let sizes = &w.flows[0].pattern[0].sge;
        sizes[0] >= sizes[1]
    });
    let mut oracle = ClosedForm::new(&[hidden], 1500);
    let config = Config::new(Algorithm::Random, SignalSet::Perf, 5);
    assert_eq!(run(&full(), &config, &mut oracle), Err(BudgetSpent));
    assert!(oracle.asked.len() == 1500);
    for finding in &oracle.findings {
        assert!(finding.confidence >= 0.85, "{finding:?}");
        assert!(healthy_inside(&oracle, &finding.mfs) <= 20, "{}", finding.mfs);
    }
}

#[test]
fn inconclusive_answers_cost_experiments_but_no_truth() {
    for seed in 0..3 {
        let conditions = &boxes()[2].1;
        let (finding, oracle) = first_finding(&Weakness::new(Symptom::Pause, conditions), seed, 6);
        assert!(healthy_inside(&oracle, &finding.mfs) <= 8, "seed {seed}: {}", finding.mfs);
        let validated = oracle.asked.iter().filter(|asked| asked.1 == Purpose::Validate).count() as u64;
        assert!(finding.evidence.validated < validated, "seed {seed}");
    }
}

/// Every box at once, symptoms alternating, so that regions overlap.
fn crowded() -> Vec<Weakness> {
    let symptoms = [Symptom::Pause, Symptom::LowThroughput];
    boxes()
        .iter()
        .zip(symptoms.iter().cycle())
        .map(|((_, conditions), symptom)| Weakness::new(*symptom, conditions))
        .collect()
}

fn campaign(algorithm: Algorithm, signal: SignalSet, seed: u64, budget: usize) -> ClosedForm {
    let mut oracle = ClosedForm::new(&crowded(), budget);
    let outcome = run(&full(), &Config::new(algorithm, signal, seed), &mut oracle);
    assert_eq!(outcome, Err(BudgetSpent), "{algorithm} {signal} {seed}");
    oracle
}

#[test]
fn a_campaign_finds_overlapping_weaknesses_apart() {
    for (algorithm, signal) in [
        (Algorithm::Collie, SignalSet::Both),
        (Algorithm::Collie, SignalSet::Diag),
        (Algorithm::Collie, SignalSet::Perf),
        (Algorithm::Random, SignalSet::Perf),
    ] {
        for seed in 0..1 {
            let oracle = campaign(algorithm, signal, seed, 1500);
            let name = format!("{algorithm} {signal} {seed}");
            assert!(oracle.distinct() >= 6, "{name}: {} of {}", oracle.distinct(), oracle.weaknesses.len());
            assert!(oracle.skipped > 0, "{name}");
            for finding in &oracle.findings {
                assert!(healthy_inside(&oracle, &finding.mfs) <= 20, "{name}: {}", finding.mfs);
            }
        }
    }
}

#[test]
fn regions_known_beforehand_are_skipped_and_not_found_again() {
    let weaknesses =
        [boxes()[0].1.clone(), boxes()[1].1.clone()].map(|conditions| Weakness::new(Symptom::Pause, &conditions));
    let known = weaknesses[0].region.clone();
    for algorithm in [Algorithm::Collie, Algorithm::Random] {
        let config = Config { known: vec![known.clone()], ..Config::new(algorithm, SignalSet::Perf, 3) };
        let mut oracle = ClosedForm::new(&weaknesses, 600);
        assert_eq!(run(&full(), &config, &mut oracle), Err(BudgetSpent), "{algorithm}");
        let searched = oracle.asked.iter().filter(|asked| asked.1 == Purpose::Search);
        assert_eq!(searched.filter(|asked| known.contains(&asked.0)).count(), 0, "{algorithm}");
        assert!(oracle.skipped > 0 && !oracle.findings.is_empty(), "{algorithm}");
        assert!(oracle.findings.iter().all(|finding| !known.contains(&finding.workload)), "{algorithm}");
        let stored = serde_json::to_string(&config).expect("JSON");
        assert_eq!(serde_json::from_str::<Config>(&stored).expect("reads back"), config);
    }
}

#[test]
fn skipping_pays() {
    let known = |oracle: &ClosedForm| {
        let asked = oracle.asked.iter().filter(|asked| asked.1 == Purpose::Search);
        asked.filter(|asked| oracle.findings.iter().any(|finding| finding.mfs.contains(&asked.0))).count()
    };
    let anneal = campaign(Algorithm::Anneal, SignalSet::Perf, 1, 1000);
    let collie = campaign(Algorithm::Collie, SignalSet::Perf, 1, 1000);
    assert!(known(&anneal) > 2 * known(&collie), "{} against {}", known(&anneal), known(&collie));
}

#[test]
fn equal_seeds_ask_equal_questions() {
    for algorithm in Algorithm::ALL {
        let (first, second) =
            (campaign(algorithm, SignalSet::Both, 3, 400), campaign(algorithm, SignalSet::Both, 3, 400));
        assert!(first.asked == second.asked, "{algorithm}");
        assert_eq!(first.findings, second.findings, "{algorithm}");
        let other = campaign(algorithm, SignalSet::Both, 4, 400);
        assert!(first.asked != other.asked, "{algorithm}");
    }
}

#[test]
fn a_larger_budget_only_adds_to_the_questions() {
    let long = campaign(Algorithm::Collie, SignalSet::Both, 7, 300);
    for budget in [0, 1, 9, 10, 11, 40, 41, 77, 150, 299] {
        let short = campaign(Algorithm::Collie, SignalSet::Both, 7, budget);
        assert!(short.asked[..] == long.asked[..budget], "budget {budget}");
        assert_eq!(short.findings[..], long.findings[..short.findings.len()], "budget {budget}");
    }
}

#[test]
fn a_region_that_is_not_validated_when_the_budget_ends_is_not_stored() {
    let weakness = Weakness::new(Symptom::Pause, &boxes()[0].1);
    let (finding, oracle) = first_finding(&weakness, 0, usize::MAX);
    let needed = oracle.asked.len();
    assert_eq!(finding.found_at + finding.experiments_for_mfs, needed as u64);
    for budget in [needed - 1, needed / 2, finding.found_at as usize] {
        let mut short = ClosedForm::new(std::slice::from_ref(&weakness), budget);
        let config = Config::new(Algorithm::Random, SignalSet::Perf, 0);
        assert_eq!(run(&full(), &config, &mut short), Err(BudgetSpent));
        assert_eq!(short.findings, [], "budget {budget}");
    }
}

/// Features that a space has values for.
fn features_of(space: &Space) -> usize {
    Feature::ALL.into_iter().filter(|feature| !space.is_off(Dimension::of(*feature))).count()
}

#[test]
fn what_is_left_when_the_budget_ends_is_stored_pinned() {
    let pinned = |seed: u64| {
        let mut oracle = ClosedForm::new(&crowded(), 300);
        let config = Config { budget: Some(300), ..Config::new(Algorithm::Collie, SignalSet::Both, seed) };
        assert_eq!(run(&full(), &config, &mut oracle), Err(BudgetSpent));
        let (pinned, wide): (Vec<Finding>, Vec<Finding>) =
            oracle.findings.iter().cloned().partition(|finding| finding.mfs.conditions.len() == features_of(&full()));
        for finding in &pinned {
            assert!(finding.evidence.narrowed && finding.mfs.contains(&finding.workload), "{finding:?}");
            assert!(!wide.iter().any(|other| other.mfs.contains(&finding.workload)), "{finding:?}");
        }
        pinned.len()
    };
    let all: Vec<usize> = (0..6).map(pinned).collect();
    assert!(all.iter().sum::<usize>() >= 2, "{all:?}");
}

#[test]
fn a_space_that_is_covered_ends_the_search() {
    for algorithm in Algorithm::ALL {
        let mut oracle = ClosedForm::new(&[Weakness::new(Symptom::Pause, &[])], 5000);
        let outcome = run(&full(), &Config::new(algorithm, SignalSet::Both, 1), &mut oracle);
        assert_eq!(outcome, Ok(()), "{algorithm}");
        assert_eq!(oracle.findings.len(), 1, "{algorithm}");
        assert_eq!(oracle.findings[0].mfs, Region::default(), "{algorithm}");
    }
}

#[test]
fn findings_have_a_stable_json_shape() {
    let (finding, _) = first_finding(&Weakness::new(Symptom::Pause, &boxes()[0].1), 0, usize::MAX);
    let text = serde_json::to_string(&finding).expect("plain data");
    assert!(text.contains(r#""mfs":[{"feature":"loopback","in":["true"]}]"#), "{text}");
    assert_eq!(serde_json::from_str::<Finding>(&text).expect("its own output"), finding);
}

//! Properties of sampling and moving, over the catalog and over narrow spaces.

use std::sync::LazyLock;

use proptest::prelude::*;
use rand::RngExt;

use super::{full, rng, widest, writes};
use crate::dimensions::{Dimension, TABLE};
use crate::{Feature, Host, Space, Workload, check};

/// Spaces that leave little room, each in another corner.
const NARROW: &[(&str, &str)] = &[
    (
        "one point",
        "memory_requester: [dram:0]\nmemory_responder: [dram:0]\nmrs: [1]\nmr_size: [64KiB]\nqp_type: [RC]\n\
         opcode: [WRITE]\nmtu: [1024]\nqps: [4]\nsend_wq_depth: [16]\nrecv_wq_depth: [16]\nsend_batch: [1]\n\
         recv_batch: [1]\nsge_count: [1]\nrequests: [1]\nmessage: [4KiB]\nbidirectional: [false]\n\
         loopback: [false]\n",
    ),
    ("datagrams", "qp_type: [UD]\nmessage: {min: 200B, max: 1000B}\nsge_count: {min: 3, max: 5}\n"),
    (
        "tight queues",
        "send_wq_depth: [16, 20]\nrecv_wq_depth: [64]\nsend_batch: {min: 10, max: 100}\nrecv_batch: [60, 64, 90]\n",
    ),
    (
        "tight memory",
        "pinned_per_host: {max: 1MiB}\nmr_size: {min: 64KiB, max: 512KiB}\nmessage: {min: 64KiB, max: 128KiB}\n",
    ),
    (
        "tight totals",
        "total_qps: {min: 12, max: 13}\ntotal_mrs: {min: 60, max: 80}\nqps: {min: 3, max: 12}\nbidirectional: [true]\n",
    ),
    ("sets of sizes", "message: [100B, 1000B, 70000B]\nsge_count: [2, 7]\nmr_size: [128KiB]\n"),
    ("tiny messages", "message: {min: 1B, max: 16B}\nsge_count: {min: 1, max: 16}\n"),
    ("mixed operations", "mixed_opcodes: [false, true]\nrequests: {min: 2, max: 6}\n"),
    (
        "every operation",
        "opcode: [SEND, WRITE, READ, WRITE_WITH_IMM, SEND_WITH_IMM, FETCH_ADD, CMP_SWAP]\n\
         mixed_opcodes: [false, true]\nmessage: {min: 8B, max: 64KiB}\n",
    ),
    ("only atomics", "opcode: [FETCH_ADD, CMP_SWAP]\nmessage: [8B]\nsge_count: [1]\n"),
    ("only loopback added", "bidirectional: [true]\nloopback: [true]\nqps: {max: 20000}\ntotal_qps: {max: 20000}\n"),
];

static SPACES: LazyLock<Vec<Space>> = LazyLock::new(|| {
    let catalog = Space::catalog_names().iter().map(|name| Space::catalog(name).expect("the catalog names it"));
    let narrow = NARROW.iter().map(|(name, text)| {
        Space::from_yaml(name, &format!("kelpie: space/1\n{text}")).unwrap_or_else(|error| panic!("{error}"))
    });
    catalog.chain(narrow).collect()
});

/// The features that may change when this dimension moves: its own, and those of limits that depend on it.
fn may_change(dimension: Dimension) -> Vec<Feature> {
    use Dimension as D;
    let also: &[D] = match dimension {
        D::QpType => &[D::Opcode, D::Mtu, D::Message, D::MrSize, D::Mrs, D::TotalMrs],
        D::Opcode | D::MixedOpcodes => &[D::QpType, D::Opcode, D::Mtu, D::Message, D::MrSize, D::Mrs, D::TotalMrs],
        D::Mtu => &[D::QpType, D::Opcode, D::Message],
        D::Qps => &[D::TotalQps, D::TotalMrs, D::Mrs, D::MrSize],
        D::SendWqDepth | D::RecvWqDepth | D::SendBatch | D::RecvBatch => {
            &[D::SendWqDepth, D::RecvWqDepth, D::SendBatch, D::RecvBatch]
        }
        D::SgeCount => &[D::Message, D::MrSize, D::Mrs, D::TotalMrs],
        D::Requests => &[D::Message, D::SgeCount, D::Opcode, D::MrSize, D::Mrs, D::TotalMrs, D::Qps, D::TotalQps],
        D::Message => &[D::MrSize, D::Mrs, D::TotalMrs, D::Qps, D::TotalQps],
        D::Mrs => &[D::TotalMrs, D::Qps, D::TotalQps, D::MrSize],
        D::MrSize => &[D::Message, D::Mrs, D::TotalMrs, D::Qps, D::TotalQps],
        D::Bidirectional | D::Loopback => &[D::Qps, D::TotalQps, D::Mrs, D::TotalMrs, D::MrSize],
        _ => &[],
    };
    let own = [dimension].into_iter().chain(also.iter().copied());
    let own = own.flat_map(|dimension| dimension.row().features.iter().copied());
    // Which memory is written to depends on who asks for what, and on where.
    let decides =
        [D::QpType, D::Opcode, D::MixedOpcodes, D::Mtu, D::Requests, D::MemoryRequester, D::Bidirectional, D::Loopback];
    own.chain(decides.contains(&dimension).then_some(Feature::MemoryWritten)).collect()
}

fn changed(before: &Workload, after: &Workload) -> Vec<Feature> {
    Feature::ALL.into_iter().filter(|feature| before.feature(*feature) != after.feature(*feature)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sampled_and_mutated_workloads_are_valid_and_inside(seed: u64) {
        for space in SPACES.iter() {
            let mut rng = rng(seed);
            let mut workload = space.sample(&mut rng);
            for _ in 0..8 {
                prop_assert_eq!(check(&workload), Ok(()));
                prop_assert!(space.contains(&workload), "{}: {:?}", space.name(), workload);
                workload = space.mutate(&workload, &mut rng);
            }
        }
    }

    #[test]
    fn a_mutation_moves_one_dimension_and_what_depends_on_it(seed: u64) {
        let full = full();
        let mut rng = rng(seed);
        let mut workload = full.sample(&mut rng);
        for _ in 0..16 {
            let (moved, dimension) = full.mutate_one(&workload, &mut rng).expect("the full space has other points");
            prop_assert_ne!(&moved, &workload);
            let allowed = may_change(dimension);
            for feature in changed(&workload, &moved) {
                prop_assert!(allowed.contains(&feature), "{dimension:?} moved {feature}:\n{workload:?}\n{moved:?}");
            }
            workload = moved;
        }
    }

    #[test]
    fn each_host_keeps_one_memory_device_in_all_flows(seed: u64) {
        let full = full();
        let mut rng = rng(seed);
        let mut workload = full.sample(&mut rng);
        for _ in 0..8 {
            for host in Host::BOTH {
                let ends = workload.flows.iter().flat_map(|flow| {
                    [(flow.from, flow.memory.from.device), (flow.to, flow.memory.to.device)]
                });
                let mut devices: Vec<_> = ends.filter(|(end, _)| *end == host).map(|(_, device)| device).collect();
                devices.dedup();
                prop_assert_eq!(devices.len(), 1, "host {}: {:?}", host, workload);
            }
            workload = full.mutate(&workload, &mut rng);
        }
    }

    #[test]
    fn the_same_seed_samples_the_same(seed: u64) {
        let full = full();
        let walk = || {
            let mut rng = rng(seed);
            let first = full.sample(&mut rng);
            let second = full.mutate(&first, &mut rng);
            (first, second, rng.random::<u64>())
        };
        prop_assert_eq!(walk(), walk());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn with_feature_reaches_the_value_or_says_no(seed: u64) {
        for space in SPACES.iter() {
            let mut rng = rng(seed);
            let workload = space.sample(&mut rng);
            for feature in Feature::ALL {
                for value in space.feature_values(feature) {
                    let Some(moved) = space.with_feature(&workload, feature, &value) else { continue };
                    prop_assert!(space.contains(&moved));
                    if feature != Feature::TotalMrs {
                        prop_assert_eq!(moved.feature(feature), value);
                    }
                }
            }
        }
    }

    #[test]
    fn neighbours_are_inside_and_elsewhere(seed: u64) {
        for space in SPACES.iter() {
            let workload = space.sample(&mut rng(seed));
            for neighbour in space.neighbours(&workload) {
                prop_assert!(space.contains(&neighbour));
                prop_assert_ne!(&neighbour, &workload);
            }
        }
    }
}

#[test]
fn a_space_of_one_point_returns_it() {
    let space = SPACES.iter().find(|space| space.name() == "one point").expect("it is in the list");
    let mut rng = rng(1);
    let workload = space.sample(&mut rng);
    assert_eq!(space.mutate(&workload, &mut rng), workload);
    assert!(space.neighbours(&workload).is_empty());
    assert!(space.log10_size().abs() < 1e-9);
}

#[test]
fn a_space_of_two_points_moves_between_them() {
    for two in [
        "qps: [4, 5]",
        "message: [4KiB, 8KiB]",
        "qp_type: [RC, UC]",
        "loopback: [false, true]",
        "requests: [1, 2]",
        "sge_count: [1, 3]",
    ] {
        let key = two.split(':').next().expect("a key");
        let text: String = NARROW[0]
            .1
            .lines()
            .map(|line| if line.starts_with(key) { two } else { line })
            .collect::<Vec<_>>()
            .join("\n");
        let space = Space::from_yaml("two", &format!("kelpie: space/1\n{text}")).expect("two points");
        let mut rng = rng(2);
        let first = space.sample(&mut rng);
        let second = space.mutate(&first, &mut rng);
        assert_ne!(first, second, "{two}");
        assert!(!space.neighbours(&first).is_empty(), "{two}");
    }
}

/// What the prior promises: no corner of the paper's triggers is rare.
#[test]
fn the_prior_reaches_every_corner() {
    let full = full();
    let mut rng = rng(3);
    let samples: Vec<Workload> = (0..4000).map(|_| full.sample(&mut rng)).collect();
    let share = |test: &dyn Fn(&Workload) -> bool| samples.iter().filter(|w| test(w)).count() as f64 / 4000.0;
    let number = |w: &Workload, feature| w.feature(feature).number().expect("an ordered feature");
    let word = |w: &Workload, feature: Feature, expected: &str| w.feature(feature).to_string() == expected;
    let check = |name: &str, least: f64, most: f64, test: &dyn Fn(&Workload) -> bool| {
        let share = share(test);
        assert!((least..most).contains(&share), "{name}: {share}");
    };
    for qp_type in ["RC", "UC", "UD"] {
        check(qp_type, 0.1, 0.6, &|w| word(w, Feature::QpType, qp_type));
    }
    for op in ["SEND", "WRITE", "READ"] {
        check(op, 0.1, 0.6, &|w| word(w, Feature::Opcode, op));
    }
    check("both ways", 0.3, 0.7, &|w| word(w, Feature::Bidirectional, "true"));
    check("loopback", 0.1, 0.3, &|w| word(w, Feature::Loopback, "true"));
    check("mixed", 0.05, 0.5, &|w| word(w, Feature::MessageMix, "true"));
    check("one size", 0.3, 0.9, &|w| number(w, Feature::MessageMin) == number(w, Feature::MessageMax));
    check("short messages", 0.1, 0.7, &|w| number(w, Feature::MessageMax) <= 1024);
    check("long messages", 0.1, 0.7, &|w| number(w, Feature::MessageMax) >= 65_536);
    check("many QPs", 0.1, 0.7, &|w| number(w, Feature::TotalQps) >= 500);
    check("few QPs", 0.05, 0.7, &|w| number(w, Feature::TotalQps) <= 8);
    check("many MRs", 0.05, 0.7, &|w| number(w, Feature::TotalMrs) >= 12_000);
    check("deep queues", 0.1, 0.7, &|w| number(w, Feature::RecvWqDepth) >= 1024);
    check("no batching", 0.02, 0.4, &|w| number(w, Feature::SendBatch) == 1);
    check("large batches", 0.05, 0.5, &|w| number(w, Feature::SendBatch) >= 64);
    check("several elements", 0.1, 0.7, &|w| number(w, Feature::SgeCount) >= 3);
}

#[test]
fn every_dimension_is_moved() {
    let space = widest();
    let mut rng = rng(4);
    let mut seen = std::collections::BTreeSet::new();
    let mut workload = space.sample(&mut rng);
    for _ in 0..3000 {
        let (moved, dimension) = space.mutate_one(&workload, &mut rng).expect("the space has other points");
        seen.insert(dimension.name());
        workload = moved;
    }
    let bounds = [Dimension::TotalQps, Dimension::TotalMrs, Dimension::PinnedPerHost];
    for row in TABLE.iter().filter(|row| !bounds.contains(&row.dimension)) {
        assert!(seen.contains(row.name), "{} never moved", row.name);
    }
}

#[test]
fn a_workload_without_substance_stays_as_it_is() {
    let full = full();
    let empty = Workload::new(Vec::new());
    let mut hollow = full.sample(&mut rng(1));
    hollow.flows[0].pattern[0].sge.clear();
    let mut idle = hollow.clone();
    idle.flows[0].pattern.clear();
    for workload in [empty, hollow, idle] {
        assert!(!full.contains(&workload));
        assert_eq!(full.mutate(&workload, &mut rng(1)), workload);
        assert!(full.neighbours(&workload).is_empty());
    }
}

/// The elements of each request.
fn elements(workload: &Workload) -> Vec<Vec<u64>> {
    let sizes = |request: &crate::Request| request.sge.iter().map(|size| size.0).collect();
    workload.flows[0].pattern.iter().map(sizes).collect()
}

#[test]
fn the_smallest_element_moves_and_messages_stay() {
    for (pattern, min, expected) in [
        // Of several requests, those with smaller elements rise and the rest stays.
        ("[{op: WRITE, sge: [64, 1024]}, {op: WRITE, sge: [512, 512]}]", 256, vec![vec![256, 832], vec![512, 512]]),
        ("[{op: WRITE, sge: [64, 1024]}, {op: WRITE, sge: [64, 64]}]", 64, vec![vec![64, 1024], vec![64, 64]]),
        // Two elements cannot both be larger than half of their message.
        ("[{op: WRITE, sge: [64, 1024]}, {op: WRITE, sge: [64, 64]}]", 256, vec![]),
        // Each request that has the smallest element lowers one.
        ("[{op: WRITE, sge: [64, 1024]}, {op: WRITE, sge: [64, 64]}]", 16, vec![vec![16, 1072], vec![16, 112]]),
        // A lone element is its message, which stays.
        ("[{op: WRITE, sge: [1024]}]", 256, vec![]),
        ("[{op: WRITE, sge: [1024]}]", 2048, vec![]),
        ("[{op: WRITE, sge: [1024]}, {op: WRITE, sge: [2048, 1024]}]", 128, vec![vec![1024], vec![2944, 128]]),
    ] {
        let value = crate::FeatureValue::Number(min);
        let moved = full().with_feature(&writes(pattern), Feature::SgeMin, &value);
        assert_eq!(moved.as_ref().map(elements).unwrap_or_default(), expected, "{pattern} to {min}");
    }
}

#[test]
fn memory_that_is_written_moves_at_the_end_that_is_written() {
    let both = crate::FeatureValue::Category("true".to_owned());
    let one_way = writes("[{op: WRITE, sge: [1024]}]");
    let both_ways = full().with_feature(&one_way, Feature::Bidirectional, &both).expect("in the full space");
    let reads = writes("[{op: READ, sge: [1024]}]");
    for (name, workload, expected) in [
        ("WRITE", &one_way, ["dram:0", "dram:1"]),
        ("READ", &reads, ["dram:1", "dram:0"]),
        // The last device of all that are written to: both ends have it.
        ("both ways", &both_ways, ["dram:1", "dram:1"]),
    ] {
        let device = crate::FeatureValue::Category("dram:1".to_owned());
        let moved = full().with_feature(workload, Feature::MemoryWritten, &device).expect("in the full space");
        let ends = [Feature::MemoryRequester, Feature::MemoryResponder].map(|end| moved.feature(end).to_string());
        assert_eq!(ends, expected, "{name}");
    }
}

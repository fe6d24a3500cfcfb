//! A changed part moves its anomaly as the part's arithmetic says; and what must hold always.

use std::ops::RangeInclusive;

use kelpie_engine::Subsystem as _;
use kelpie_monitor::{DirectionRates, Measurement};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Space, Workload};
use rand::SeedableRng as _;

use super::cases::{ANOMALIES, Point, trigger};
use super::measured::GoldenModel;
use super::{GoldenResult, assert_none, limiting, load, measure, show, show_trigger};

/// What a model is changed to.
type Changes<'c> = &'c [(&'c str, &'c str)];

/// What a point is changed to.
type Breaks = fn(&mut Point);

fn changed(name: &str, changes: Changes) -> SimSubsystem {
    let mut subsystem = load(name);
    for (path, value) in changes {
        subsystem.set(path, value).expect("the model has this parameter");
    }
    subsystem
}

/// The first of these powers of two of a feature at which anomaly `id` shows, limited by the same part as its trigger.
fn first(name: &str, changes: Changes, id: u32, powers: RangeInclusive<u32>, set: fn(&mut Point, u32)) -> Option<u32> {
    let part = limiting(id);
    let mut subsystem = changed(name, changes);
    powers.into_iter().find(|power| {
        let mut point = trigger(id);
        set(&mut point, 1 << power);
        let shown = show(&mut subsystem, &point.workload());
        !shown.healthy() && shown.limiting == part
    })
}

/// A part grown by `times` moves where an anomaly starts, or cures it.
struct Move<'m> {
    name: &'m str,
    id: u32,
    path: &'m str,
    times: u32,
    /// The least power of two that is looked at, and the one at which the anomaly starts.
    powers: [u32; 2],
    set: fn(&mut Point, u32),
}

impl Move<'_> {
    /// What is wrong, if anything; looks at so many powers of two below the one at which the anomaly starts.
    fn complaint(&self, below: u32) -> Option<String> {
        let part = load(self.name).number(self.path).expect("a number");
        let larger = (part * f64::from(self.times)).to_string();
        let [least, from] = self.powers;
        let powers = least.max(from.saturating_sub(below))..=from;
        let before = first(self.name, &[], self.id, powers.clone(), self.set);
        let after = first(self.name, &[(self.path, &larger)], self.id, powers, self.set);
        let moved = before == Some(from) && after.is_none();
        (!moved).then(|| format!("{} {} x{}: from 2^{before:?} to 2^{after:?}", self.id, self.path, self.times))
    }
}

fn larger_caches_move(below: u32) {
    let depth: fn(&mut Point, u32) = |point, value| point.depth = value;
    let qps: fn(&mut Point, u32) = |point, value| point.qps = value;
    let mrs: fn(&mut Point, u32) = |point, value| point.mrs = value;
    let moves = [
        Move { name: "F", id: 1, path: "fetch.chain_lines", times: 4, powers: [6, 8], set: depth },
        Move { name: "F", id: 5, path: "fetch.chain_lines", times: 4, powers: [6, 10], set: depth },
        Move { name: "F", id: 2, path: "caches.ring_pages.kib", times: 4, powers: [0, 4], set: qps },
        Move { name: "F", id: 4, path: "caches.read_lists.kib", times: 4, powers: [2, 7], set: qps },
        Move { name: "F", id: 7, path: "caches.translations.kib", times: 4, powers: [4, 10], set: mrs },
        Move { name: "F", id: 8, path: "caches.contexts.kib", times: 2, powers: [4, 9], set: qps },
        Move { name: "H", id: 15, path: "caches.ring_pages.kib", times: 4, powers: [0, 5], set: qps },
        Move { name: "H", id: 16, path: "caches.read_lists.kib", times: 4, powers: [4, 9], set: qps },
    ];
    assert_none(&moves.iter().filter_map(|one| one.complaint(below)).collect::<Vec<_>>());
}

#[test]
fn larger_caches_move_where_anomalies_start() {
    larger_caches_move(1);
}

#[test]
fn better_parts_cure() {
    let cures: &[(&str, u32, Changes)] = &[
        // Enough reads at once hide the misses.
        ("F", 8, &[("fetch.send_misses", "24")]),
        ("F", 3, &[("processing.response_kib_ns", "40")]),
        ("F", 4, &[("fetch.read_list_misses", "16")]),
        ("F", 2, &[("fetch.ring_page_misses", "32")]),
        // A lookup blocks its QP, however many others may go.
        ("F", 7, &[("caches.translations.kib", "8192")]),
        // Reads and writes of both hosts' 200 Gbit/s cross it.
        ("F", 11, &[("host.remote_memory_gbps", "500")]),
        ("F", 12, &[("host.redirect_read_gbps", "300"), ("host.redirect_write_gbps", "300")]),
        ("H", 14, &[("processing.packet_memory_kib", "12288")]),
        ("H", 15, &[("fetch.ring_page_misses", "16")]),
        ("H", 16, &[("fetch.read_list_misses", "24")]),
    ];
    let complaints = cures.iter().filter_map(|(name, id, changes)| {
        let shown = show_trigger(&mut changed(name, changes), *id);
        (!shown.healthy()).then(|| format!("{id} with {changes:?}: {shown:?}"))
    });
    assert_none(&complaints.collect::<Vec<_>>());
}

#[test]
fn worse_parts_harm() {
    let harms: &[(&str, u32, Breaks, Changes)] = &[
        ("F", 4, |point| point.qps = 40, &[("caches.read_lists.kib", "40")]),
        ("F", 8, |point| point.qps = 240, &[("caches.contexts.kib", "32")]),
        ("F", 11, |point| point.both_ways = false, &[("host.interconnect_gbps", "150")]),
        ("H", 14, |point| point.qps = 512, &[("processing.packet_memory_kib", "2048")]),
    ];
    let complaints = harms.iter().filter_map(|(name, id, breaks, changes)| {
        let mut point = trigger(*id);
        breaks(&mut point);
        let workload = point.workload();
        let shows = |subsystem: &mut SimSubsystem| show(subsystem, &workload);
        let (before, after) = (shows(&mut load(name)), shows(&mut changed(name, changes)));
        (!before.healthy() || after.healthy()).then(|| format!("{id} with {changes:?}: {before:?}, then {after:?}"))
    });
    assert_none(&complaints.collect::<Vec<_>>());
}

/// What not every model has.
const MEMORY: &str = "processing.packet_memory_kib";

#[test]
fn nothing_is_anomalous_without_misses_and_delays() {
    let perfect: Changes = &[
        ("caches.contexts.kib", "65536"),
        ("caches.translations.kib", "65536"),
        ("caches.send_wqes.kib", "65536"),
        ("caches.receive_wqes.kib", "65536"),
        ("caches.receive_chains.kib", "65536"),
        ("caches.read_lists.kib", "65536"),
        ("caches.ring_pages.kib", "65536"),
        ("fetch.chain_lines", "65536"),
        ("processing.response_kib_ns", "0"),
        ("processing.pipeline_kib_ns", "0"),
        ("pcie.link_latency_ns", "0"),
        ("host.memory_latency_ns", "0"),
        ("host.interconnect_latency_ns", "0"),
    ];
    // What is left are ways that are too narrow: the interconnect, the turn at the root complex, PCIe.
    let of_bandwidth = [11, 12, 13];
    let complaints = ANOMALIES.iter().filter_map(|anomaly| {
        let mut subsystem = changed(anomaly.subsystem, perfect);
        if subsystem.number(MEMORY).is_some() {
            subsystem.set(MEMORY, "1048576").expect("the model has this parameter");
        }
        let shown = show_trigger(&mut subsystem, anomaly.id);
        (shown.healthy() == of_bandwidth.contains(&anomaly.id)).then(|| format!("{}: {shown:?}", anomaly.id))
    });
    assert_none(&complaints.collect::<Vec<_>>());
}

#[test]
fn the_pause_ratio_is_the_share_that_cannot_be_drained() {
    let mut subsystem = load("F");
    let sample = measure(&mut subsystem, &trigger(12).workload()).mean().expect("samples");
    let pause = sample.pause.expect("a simulated NIC counts pauses");
    for (direction, ratio) in sample.directions.iter().zip([pause.b.tx, pause.a.tx]) {
        let drained = direction.wire_bps / subsystem.bounds().max_bps;
        assert!((ratio - (1.0 - drained)).abs() < 0.05, "{direction:?} pauses {ratio:.3} of the time");
    }
}

/// Workloads of the whole space, the same each time.
fn sampled(count: usize) -> Vec<Workload> {
    let space = Space::catalog("full").expect("a space of the catalogue");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(11);
    (0..count).map(|_| space.sample(&mut random)).collect()
}

/// Looks at so many workloads, of which two in three show a direction at least.
fn no_more_arrives(workloads: usize) {
    let mut subsystem = load("F");
    let bounds = subsystem.bounds();
    subsystem.set("sampling.sample_us", "25").expect("F has it");
    let mut seen = 0;
    for workload in sampled(workloads) {
        // A workload may name a device that the hosts lack.
        let Ok(measurement) = subsystem.measure(&workload) else { continue };
        let sample = measurement.mean().expect("samples");
        for direction in sample.directions.iter().filter(|direction| direction.from != direction.to) {
            // What the buffers held when a sample began may arrive in it.
            assert!(direction.wire_bps <= 1.02 * bounds.max_bps, "{direction:?} of {workload:?}");
            assert!(direction.packets_per_sec <= 1.05 * bounds.max_pps, "{direction:?} of {workload:?}");
            assert!(direction.goodput_bps <= direction.wire_bps, "{direction:?} of {workload:?}");
            seen += 1;
        }
        let pause = sample.pause.expect("a simulated NIC counts pauses");
        let ratios = [pause.a.tx, pause.a.rx, pause.b.tx, pause.b.rx];
        assert!(ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)), "{pause:?} of {workload:?}");
    }
    assert!(3 * seen > 2 * workloads, "only {seen} directions were seen");
}

#[test]
fn no_more_arrives_than_the_wire_carries() {
    no_more_arrives(30);
}

#[test]
fn requests_that_pile_up_do_not_pass_for_steady_traffic() {
    let mut point = trigger(4);
    (point.qps, point.mtu, point.batch, point.pattern) = (100, 256, 16, vec![vec![192]]);
    let sample = measure(&mut load("F"), &point.workload()).mean().expect("samples");
    // Requests in one direction have their answers in the other.
    let sum = |rate: fn(&DirectionRates) -> f64| sample.directions.iter().map(rate).sum::<f64>();
    let packets = sum(|direction| direction.packets_per_sec) / sum(|direction| direction.messages_per_sec);
    assert!((packets - 2.0).abs() < 0.1, "a READ is a request and an answer, not {packets} packets");
}

#[test]
fn the_same_seed_gives_the_same_measurement() {
    let bytes = |changes: Changes, workload: &Workload| {
        serde_json::to_string(&measure(&mut changed("F", changes), workload)).expect("JSON")
    };
    let noisy: Changes = &[("sampling.noise", "0.02")];
    let other: Changes = &[("sampling.noise", "0.02"), ("sampling.seed", "2")];
    for id in [1, 4, 7, 13] {
        let workload = trigger(id).workload();
        assert_eq!(bytes(&[], &workload), bytes(&[], &workload));
        assert_eq!(bytes(noisy, &workload), bytes(noisy, &workload));
        assert_ne!(bytes(noisy, &workload), bytes(&[], &workload));
        assert_ne!(bytes(noisy, &workload), bytes(other, &workload));
    }
    // A subsystem keeps nothing from one experiment to the next.
    let (mut used, first, second) = (load("F"), trigger(2).workload(), trigger(9).workload());
    let alone: Vec<Measurement> = [&second, &first].map(|workload| measure(&mut load("F"), workload)).into();
    measure(&mut used, &first);
    assert_eq!(vec![measure(&mut used, &second), measure(&mut used, &first)], alone);
}

/// Triggers of which a little noise changes the verdict.
pub fn noise_changes(measured: &GoldenModel) -> Vec<String> {
    let noisy: Changes = &[("sampling.noise", "0.005")];
    let verdict = |shown: &GoldenResult| (shown.verdict, shown.symptoms.clone());
    let complaint = |(id, quiet): (u32, &GoldenResult)| {
        let noisy = show_trigger(&mut changed(measured.model, noisy), id);
        (verdict(quiet) != verdict(&noisy)).then(|| format!("{id}: {quiet:?}, with noise {noisy:?}"))
    };
    measured.triggers().filter_map(complaint).collect()
}

/// More of the same, by `make test-long`.
mod long {
    #[test]
    #[ignore = "long: make test-long runs it"]
    fn larger_caches_move_where_anomalies_start() {
        super::larger_caches_move(u32::MAX);
    }

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn no_more_arrives_than_the_wire_carries() {
        super::no_more_arrives(150);
    }
}

/// A bottleneck is what makes traffic faster when it is relieved, also where work waits for longest elsewhere, as
/// messages of anomaly 2 do for receives whose pages are looked up.
#[test]
fn the_part_of_an_anomaly_is_the_one_whose_relief_cures_it() {
    for (model, id, part) in [
        ("F", 2, "receive_ring_pages"),
        ("F", 7, "translation_cache"),
        ("F", 11, "socket_interconnect"),
        ("H", 18, "packet_processing"),
    ] {
        let reliefs = load(model).relieve(&trigger(id).workload()).expect("its hosts have the devices");
        let best = reliefs.parts.first().map(|best| (best.part, best.verdict));
        assert_eq!(best, Some((part, kelpie_monitor::Verdict::Healthy)), "{id}: {reliefs:?}");
    }
}

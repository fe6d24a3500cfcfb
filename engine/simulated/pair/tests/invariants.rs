//! What should hold for every workload and model: on the paper's triggers and on random points of the full space.
//!
//! `KELPIE_POINTS=500 cargo test --release -p kelpie-sim --test invariants -- --nocapture --ignored long::` measures
//! what `docs/measured/simulated-subsystem.md` says; few points are measured otherwise, and very few if it is not the
//! long suite. `KELPIE_SEED` draws other points, and `KELPIE_WORST=1` lists those that keep an invariant badly.

use std::collections::BTreeMap;

use kelpie_engine::Subsystem as _;
use kelpie_monitor::Sample;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Bytes, Flow, Host, Space, Workload, check, known};
use rand::SeedableRng as _;

/// Anomalies by whose triggers every run looks, and random points beside them.
///
/// Of so few points none may break an invariant, while the long suite allows some of its points to. So these were
/// chosen because all of them keep every invariant on models F and H: a run of them says whether a change broke
/// something, and only the long suite measures how far the invariants hold.
const FEW: (&[u32], usize) = (&[2, 7, 8, 11, 14], 2);
/// Random points of the long suite, which looks at all triggers, unless `KELPIE_POINTS` says otherwise.
const POINTS: usize = 6;
/// By how much a rate may differ if it should not.
const EQUAL: f64 = 0.03;
/// Part of the points that must keep an invariant; of a few points one more or less is much.
const LEAST: f64 = 0.85;
/// Part of the points that may be inconclusive, and that say nothing therefore.
const INCONCLUSIVE: f64 = 0.1;
/// A line of memory. Units: bytes.
const LINE: u64 = 64;
/// Messages that find no receive, of those that arrive, up to which traffic counts as one that loses nothing.
const LOST: f64 = 0.001;
/// Parts of the model that make nothing slower if they are twice as large.
const RESOURCES: [&str; 14] = [
    "pcie.gbps",
    "pcie.tags",
    "pcie.write_credit_kib",
    "port.line_rate_gbps",
    "port.max_mpps",
    "receive.capacity_kib",
    "caches.contexts.kib",
    "caches.translations.kib",
    "caches.send_wqes.kib",
    "caches.receive_wqes.kib",
    "caches.receive_chains.kib",
    "caches.read_lists.kib",
    "host.memory_gbps",
    "host.remote_memory_gbps",
];

/// How a workload is changed; nothing if it cannot be.
type WorkloadChange = fn(&Workload) -> Option<Workload>;
/// The part by which its rate may fall and grow, beside what should be equal.
type Room = fn(&Workload) -> [f64; 2];

/// A number that somebody set.
fn of_environment(key: &str) -> Option<u64> {
    std::env::var(key).ok().map(|value| value.parse().expect("a number"))
}

/// The triggers of these anomalies, and so many random points.
fn points(name: &str, anomalies: &[u32], count: usize) -> Vec<Workload> {
    let space = Space::catalog("full").expect("a space of the catalogue");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(of_environment("KELPIE_SEED").unwrap_or(1));
    let triggers = anomalies.iter().map(|id| known::anomaly(*id).expect("18 anomalies").trigger.workload());
    // A point may name a device that the hosts lack.
    let mut subsystem = load(name, &[]);
    let mut runs = |point: &Workload| subsystem.measure(point).is_ok();
    let triggers: Vec<Workload> = triggers.filter(&mut runs).collect();
    let sampled = std::iter::repeat_with(|| space.sample(&mut random)).filter(runs).take(count);
    triggers.into_iter().chain(sampled).collect()
}

fn load(name: &str, changes: &[(&str, String)]) -> SimSubsystem {
    let mut subsystem = SimSubsystem::load(name).expect("an embedded model");
    // Rates are compared, not verdicts.
    subsystem
        .set_numbers(&[("sampling.verdict_packets", 0.0), ("sampling.sample_us", 50.0)])
        .expect("all models have them");
    for (path, value) in changes {
        subsystem.set(path, value).expect("the model has this parameter");
    }
    subsystem
}

/// What an experiment says.
#[derive(Debug, Clone, Copy)]
struct MeasuredRate {
    /// Goodput of all directions together. Units: bits/s.
    goodput: f64,
    /// Half of its confidence interval, relative.
    half_width: f64,
    is_steady: bool,
    /// Whether messages find no receive.
    loses: bool,
}

/// Whether more messages than [`LOST`] of all find no receive: they are dropped, or answered by a NAK.
fn loses(mean: &Sample) -> bool {
    let refused = |host: &BTreeMap<String, f64>| {
        host.get("out_of_buffer").unwrap_or(&0.0) + host.get("rnr_naks_sent").unwrap_or(&0.0)
    };
    let messages: f64 = mean.directions.iter().map(|rates| rates.messages_per_sec).sum();
    refused(&mean.counters.a) + refused(&mean.counters.b) > LOST * messages
}

fn rate(subsystem: &mut SimSubsystem, workload: &Workload) -> Option<MeasuredRate> {
    let measurement = subsystem.measure(workload).ok()?;
    let confidence = measurement.confidence.expect("a simulated subsystem says how well it knows its rates");
    let mean = measurement.mean()?;
    Some(MeasuredRate {
        goodput: mean.directions.iter().map(|rates| rates.goodput_bps).sum(),
        half_width: confidence.half_width.unwrap_or(f64::INFINITY),
        is_steady: confidence.is_steady,
        loses: loses(&mean),
    })
}

/// All flows changed, if the result is a workload.
fn of_flows(workload: &Workload, change: fn(&mut Flow)) -> Option<Workload> {
    let mut changed = workload.clone();
    changed.flows.iter_mut().for_each(change);
    (check(&changed).is_ok() && changed != *workload).then_some(changed)
}

fn split(workload: &Workload) -> Option<Workload> {
    let even = workload.flows.iter().all(|flow| flow.qps.is_multiple_of(2));
    let halves = workload.flows.iter().flat_map(|flow| {
        let half = Flow { qps: flow.qps / 2, ..flow.clone() };
        [half.clone(), half]
    });
    even.then(|| Workload::new(halves.collect()))
}

/// One more of what every flow has at least `least` of, so that rates may grow by its part of it.
fn one_of(workload: &Workload, least: fn(&Flow) -> u32) -> [f64; 2] {
    [0.0, 1.0 / f64::from(workload.flows.iter().map(least).min().unwrap_or(1).max(1))]
}

/// One more of what caches hold, so that they miss more often by its part of it at most.
fn more_to_hold(workload: &Workload, least: fn(&Flow) -> u32) -> [f64; 2] {
    let [_, part] = one_of(workload, least);
    [part, 0.0]
}

/// Every request's first element longer by so many bytes, if none of them is then as long as whole lines.
fn longer(workload: &Workload, bytes: u64) -> Option<Workload> {
    let mut changed = workload.clone();
    for request in changed.flows.iter_mut().flat_map(|flow| &mut flow.pattern) {
        request.sge[0] = Bytes(request.sge[0].0 + bytes);
    }
    let is_inside = |workload: &Workload| {
        workload.flows.iter().flat_map(|flow| &flow.pattern).all(|request| !request.sge[0].0.is_multiple_of(LINE))
    };
    (check(&changed).is_ok() && is_inside(&changed)).then_some(changed)
}

const NONE: Room = |_| [0.0, 0.0];

/// Name, change, room.
const WORKLOADS: [(&str, WorkloadChange, Room); 7] = [
    ("hosts swapped", |w| of_flows(w, |flow| (flow.from, flow.to) = (flow.from.peer(), flow.to.peer())), NONE),
    ("flows split", split, NONE),
    ("requests rotated", |w| of_flows(w, |flow| flow.pattern.rotate_left(1)), NONE),
    (
        "a QP more",
        |w| of_flows(w, |flow| flow.qps += 1),
        |w| [more_to_hold(w, |flow| flow.qps)[0], one_of(w, |flow| flow.qps)[1]],
    ),
    (
        "a queue longer by one",
        |w| {
            of_flows(w, |flow| {
                (flow.wq_depth.send, flow.wq_depth.recv) = (flow.wq_depth.send + 1, flow.wq_depth.recv + 1);
            })
        },
        |w| one_of(w, |flow| flow.wq_depth.send),
    ),
    (
        "an MR more",
        |w| {
            of_flows(w, |flow| {
                (flow.memory.from.mrs, flow.memory.to.mrs) = (flow.memory.from.mrs + 1, flow.memory.to.mrs + 1);
            })
        },
        |w| more_to_hold(w, |flow| flow.memory.from.mrs.min(flow.memory.to.mrs)),
    ),
    (
        "MRs longer by a page",
        |w| {
            of_flows(w, |flow| {
                flow.memory.from.mr_size.0 += 4096;
                flow.memory.to.mr_size.0 += 4096;
            })
        },
        NONE,
    ),
];

/// By how much more than allowed a rate differs, and by how much more than both say that they do not know.
#[derive(Debug, Clone, Copy)]
struct Off {
    change: f64,
    unknown: f64,
}

/// Nothing if one of two rates is not steady.
fn off(before: MeasuredRate, after: MeasuredRate, [fall, growth]: [f64; 2]) -> Option<Off> {
    let change = after.goodput / before.goodput - 1.0;
    let off = (change.abs() - if change < 0.0 { fall } else { growth }).max(0.0);
    let unknown = off - (before.half_width.powi(2) + after.half_width.powi(2)).sqrt();
    (before.is_steady && after.is_steady).then_some(Off { change: off, unknown })
}

/// Says how an invariant held, and complains if at too few points.
fn judge(name: &str, title: &str, each: &[(usize, Option<Off>)], complaints: &mut Vec<String>) {
    let mut off: Vec<Off> = each.iter().filter_map(|(_, off)| *off).collect();
    if std::env::var_os("KELPIE_WORST").is_some() {
        for (point, off) in each {
            match off {
                Some(off) if off.change > EQUAL => println!(
                    "{name} | {title} | point {point} | {:.1} % | {:.1} % beyond what is known",
                    100.0 * off.change,
                    100.0 * off.unknown
                ),
                _ => {}
            }
        }
    }
    off.sort_by(|a, b| a.change.total_cmp(&b.change));
    let count = off.len();
    if count == 0 {
        return;
    }
    let part = |is_kept: fn(&Off) -> bool| 100.0 * off.iter().filter(|off| is_kept(off)).count() as f64 / count as f64;
    let (kept, known) = (part(|off| off.change <= EQUAL), part(|off| off.change <= EQUAL || off.unknown <= 0.0));
    let at = |part: f64| 100.0 * off[((count - 1) as f64 * part) as usize].change;
    let line = format!(
        "| {name} | {title} | {count} of {} | {kept:.0} % | {known:.0} % | {:.1} % | {:.0} % |",
        each.len(),
        at(0.9),
        at(1.0)
    );
    println!("{line}");
    if kept < 100.0 * LEAST || (count as f64) < (1.0 - INCONCLUSIVE) * each.len() as f64 - 1.0 {
        complaints.push(line);
    }
}

fn suite(name: &str, (anomalies, count): (&[u32], usize)) {
    let points = points(name, anomalies, count);
    let base: Vec<MeasuredRate> =
        points.iter().map(|point| rate(&mut load(name, &[]), point).expect("it ran before")).collect();
    let mut complaints = Vec::new();
    for (title, change, room) in WORKLOADS {
        let each = points.iter().zip(&base).enumerate().filter_map(|(at, (point, before))| {
            let after = rate(&mut load(name, &[]), &change(point)?)?;
            Some((at, off(*before, after, room(point))))
        });
        judge(name, title, &each.collect::<Vec<_>>(), &mut complaints);
    }
    let each = points.iter().enumerate().filter_map(|(at, point)| {
        let [inside, further] = [1, 2].map(|bytes| longer(point, bytes));
        let before = rate(&mut load(name, &[]), &inside?)?;
        Some((at, off(before, rate(&mut load(name, &[]), &further?)?, [0.0; 2])))
    });
    judge(name, "a byte more inside a line", &each.collect::<Vec<_>>(), &mut complaints);
    let model = load(name, &[]);
    let on = |changes: &[(&str, String)], room: [f64; 2]| -> Vec<(usize, Option<Off>)> {
        let mut subsystem = load(name, changes);
        let mut after = |point| rate(&mut subsystem, point).expect("it ran before");
        points
            .iter()
            .zip(&base)
            .enumerate()
            .map(|(at, (point, before))| (at, off(*before, after(point), room)))
            .collect()
    };
    judge(name, "another seed", &on(&[("sampling.seed", "2".to_owned())], [0.0; 2]), &mut complaints);
    let long = [("sampling.sample_us", "400".to_owned()), ("sampling.max_events", "100000000".to_owned())];
    judge(name, "eight times as long", &on(&long, [0.0; 2]), &mut complaints);
    let each = points.iter().enumerate().filter_map(|(at, point)| {
        let [one, other] = ways(&mut load(name, &[]), point)?;
        Some((at, off(one, other, [0.0; 2])))
    });
    let each: Vec<_> = each.collect();
    judge(name, "equal flows both ways", &each, &mut complaints);
    for path in RESOURCES {
        let mut twice = on(&[(path, (2.0 * model.number(path).expect("a number")).to_string())], [0.0, f64::INFINITY]);
        // A faster wire brings a receiver that refuses messages more of those, on which it spends its time.
        if path == "port.line_rate_gbps" {
            twice.retain(|(at, _)| !base[*at].loses);
        }
        judge(name, &format!("twice the {path}"), &twice, &mut complaints);
    }
    assert!(complaints.is_empty(), "too few points keep these:\n{}", complaints.join("\n"));
}

/// The rates of a point's first flow and of the same flow the other way round; nothing if it has none.
fn ways(subsystem: &mut SimSubsystem, point: &Workload) -> Option<[MeasuredRate; 2]> {
    let mut flow = point.flows.iter().find(|flow| flow.from != flow.to)?.clone();
    // What is read and what is written are of the same kind of memory only if both hosts use the same.
    flow.memory.to.device = flow.memory.from.device;
    let workload = Workload::new(vec![flow.clone(), flow.mirrored()]);
    let measurement = subsystem.measure(&workload).ok()?;
    let confidence = measurement.confidence.expect("a simulated subsystem says how well it knows its rates");
    let mean = measurement.mean().expect("samples");
    Some([0, 1].map(|way: usize| MeasuredRate {
        goodput: mean.directions[way].goodput_bps,
        // Directions may take turns, so that each is known less well than both.
        half_width: 2.0 * confidence.half_width.unwrap_or(f64::INFINITY),
        is_steady: confidence.is_steady,
        loses: loses(&mean),
    }))
}

#[test]
fn f_keeps_what_holds_for_every_workload() {
    suite("F", FEW);
}

#[test]
fn h_keeps_what_holds_for_every_workload() {
    suite("H", FEW);
}

/// All triggers and more points, by `make test-long`.
mod long {
    use super::{POINTS, known, of_environment, suite};

    fn all(name: &str) {
        let anomalies: Vec<u32> = known::anomalies().iter().map(|anomaly| anomaly.id).collect();
        suite(name, (&anomalies, of_environment("KELPIE_POINTS").map_or(POINTS, |count| count as usize)));
    }

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn f_keeps_what_holds_for_every_workload() {
        all("F");
    }

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn h_keeps_what_holds_for_every_workload() {
        all("H");
    }
}

#[test]
fn equal_traffic_both_ways_gets_equal_rates() {
    let mut subsystem = load("F", &[]);
    for (qps, op) in
        [(1, kelpie_spaces::Opcode::Write), (8, kelpie_spaces::Opcode::Send), (64, kelpie_spaces::Opcode::Read)]
    {
        let mut flow = Flow::plain(Host::A, Host::B);
        (flow.qps, flow.pattern[0].op) = (qps, op);
        let mirror = flow.mirrored();
        let mean = subsystem.measure(&Workload::new(vec![flow, mirror])).expect("measured").mean().expect("samples");
        let [one, other] = [&mean.directions[0], &mean.directions[1]].map(|way| way.goodput_bps);
        assert!((one / other - 1.0).abs() < EQUAL, "{qps} QPs of {op}: {one} and {other}");
    }
}

#[test]
fn what_lost_a_receive_takes_nothing_from_messages_that_come_with_its_rest() {
    let mut flow = Flow { qps: 4, qp_type: kelpie_spaces::QpType::Uc, ..Flow::plain(Host::A, Host::B) };
    flow.pattern[0].op = kelpie_spaces::Opcode::Send;
    // Messages of twelve packets; receives come when all are used up, so that some messages find none.
    (flow.mtu, flow.pattern[0].sge) = (kelpie_spaces::Mtu::try_from(2048).expect("an MTU"), vec![Bytes(24 << 10)]);
    (flow.wq_depth.send, flow.wq_depth.recv, flow.batch.send, flow.batch.recv) = (4096, 48, 96, 48);
    (flow.memory.from.mrs, flow.memory.to.mrs) = (128, 128);
    let mut subsystem = load("F", &[]);
    let workload = Workload::new(vec![flow.clone(), flow.mirrored()]);
    let mean = subsystem.measure(&workload).expect("measured").mean().expect("samples");
    let [one, other] = [&mean.directions[0], &mean.directions[1]].map(|way| way.goodput_bps);
    assert!((one / other - 1.0).abs() < 0.1, "{one} and {other}");
}

#[test]
fn an_application_that_posts_all_the_time_is_never_seen_with_full_queues() {
    let mut subsystem = load("F", &[]);
    let mut flow = Flow { qps: 1, ..Flow::plain(Host::A, Host::B) };
    // To fill the queue takes 70 us, longer than a sample, and the NIC sends faster than that.
    (flow.wq_depth.send, flow.batch.send, flow.pattern[0].sge) = (1024, 1, vec![Bytes(64)]);
    let measurement = subsystem.measure(&Workload::new(vec![flow])).expect("measured");
    let ratios = measurement.samples.iter().map(|sample| sample.counters.a["engine_send_queue_full_ratio"]);
    let ratios: Vec<f64> = ratios.collect();
    assert!(ratios.iter().all(|ratio| *ratio < 0.05), "{ratios:?}");
}

#[test]
fn reads_of_full_queues_never_wait_for_their_application() {
    let mut subsystem = load("F", &[]);
    let mut flow = Flow { qps: 256, mtu: kelpie_spaces::Mtu::ALL[1], ..Flow::plain(Host::A, Host::B) };
    (flow.wq_depth.send, flow.batch.send) = (64, 64);
    (flow.pattern[0].op, flow.pattern[0].sge) = (kelpie_spaces::Opcode::Read, vec![Bytes(96)]);
    let mirror = flow.mirrored();
    subsystem.measure(&Workload::new(vec![flow, mirror])).expect("measured");
    // The ends that only answer have nothing posted, and wait for no work of their own.
    assert!(!subsystem.limiting().starts_with("send_queue"), "{}", subsystem.limiting());
}

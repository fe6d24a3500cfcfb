//! One experiment: it goes on until rates are steady; its second half is the samples. What is steady is in `steady`.

use kelpie_engine::MeasureError;
use kelpie_events::Picos;
use kelpie_monitor::counters::{ACK_TIMEOUT, MADE, SEND_QUEUE_FULL, TIMEOUTS};
use kelpie_monitor::verdict::{PAUSE_RATIO, Verdict, assess};
use kelpie_monitor::{Bounds, Confidence, DirectionRates, Measurement, PauseRatios, PerHost, Sample};
use kelpie_nic::command::Object;
use kelpie_nic::nic::Pauses;
use kelpie_spaces::{Direction, Host, Workload, loaded_directions};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

use crate::control_thread::ControlThread;
use crate::counters::{Diagnostics, TrafficCounters};
use crate::limiting::{Snapshot, limiting};
use crate::model::{Model, Sampling};
use crate::network::ByPort;
use crate::pair::{Queues, SimulatedPair};
use crate::pair_models::PairModels;
use crate::rings::{FlowRings, Rings};
use crate::steady::{BATCHES, Moment, SteadyState, UNKNOWN, falls_behind_slowly, half_width};

/// The part of an experiment that is no sample is one of so many. Source: our choice.
const WARM_UP: usize = 3;
/// Slices after which it is seen whether an experiment may end.
const STEP: usize = BATCHES * WARM_UP / (WARM_UP - 1);
/// Slices after which an experiment ends, steady or not. Source: our choice; some tens of milliseconds.
const MOST_SLICES: usize = 384 * STEP;
/// Part of the time that cores are busy if their applications cannot keep queues full. Source: our choice.
const CORES_BUSY: f64 = 0.95;

/// What a run gives.
#[derive(Debug)]
pub struct SimulatedRun {
    /// The samples.
    pub measurement: Measurement,
    /// The part that limits, and whose traffic.
    pub limiting: String,
    /// Packets moved in all, for benchmarks.
    pub packets: u64,
    /// Payload of each flow to its responder, and to its requester, over all samples. Units: bytes/s.
    pub flows: Vec<[f64; 2]>,
    /// What each port moved, if hosts have two.
    pub by_port: Option<ByPort>,
}

/// Everything that is counted, at one moment.
struct Totals {
    time: Picos,
    traffic: [[TrafficCounters; 2]; 2],
    delivered: Vec<[u64; 2]>,
    counts: [Diagnostics; 2],
    /// By host and port.
    pauses: [[Pauses; 2]; 2],
    core_wait: [Picos; 2],
    timeouts: [u64; 2],
    /// QPs and MRs that were made beside traffic, by host.
    made: [Option<[u64; 2]>; 2],
}

impl Totals {
    fn of(pair: &mut SimulatedPair) -> Self {
        let core_wait = Host::BOTH.map(|host| pair.around.core_wait(pair.now, host));
        let around = &pair.around;
        Self {
            time: pair.now,
            traffic: around.traffic,
            delivered: around.delivered.clone(),
            counts: pair.nics.each_ref().map(Diagnostics::of),
            pauses: pair.nics.each_ref().map(|nic| nic.pauses(pair.now)),
            core_wait,
            timeouts: pair.nics.each_ref().map(|nic| nic.tally().timeouts),
            made: around.control.each_ref().map(|thread| thread.as_ref().map(ControlThread::made)),
        }
    }
}

/// Longest time between two commands of which a sample holds one. Source: our choice, because samples would take too
/// long for rarer ones, which take little of the NIC.
const LONGEST_PERIOD: Picos = Picos::new(500_000_000);

/// A sample of about `length` that holds whole pauses of the applications, and as many commands as any other.
fn whole_pauses(rings: &Rings, length: Picos) -> Picos {
    let longest = rings.flows.iter().map(|flow| flow.interarrival_ns).max().unwrap_or(0);
    let threads = Host::BOTH.into_iter().filter_map(|host| rings.control_thread(host));
    let periods = threads.flat_map(|thread| [Object::Qp, Object::Region].map(|object| thread.period(object)));
    let period = periods.flatten().filter(|period| *period <= LONGEST_PERIOD).max().unwrap_or(Picos::ZERO);
    let pause = Picos::from_nanos(longest.into()).max(period);
    if pause == Picos::ZERO { length } else { pause * (length.as_micros() / pause.as_micros()).ceil() as u64 }
}

/// What the longest path adds each way.
fn longest_path(rings: &Rings) -> Picos {
    Picos::from_nanos(rings.flows.iter().map(|flow| flow.path_delay_ns).max().unwrap_or(0).into())
}

/// What had happened by the end of a slice.
struct SliceMark {
    moment: Moment,
    totals: Totals,
    snapshot: Snapshot,
}

impl SliceMark {
    fn of(pair: &mut SimulatedPair) -> Self {
        Self { moment: Moment::of(pair), totals: Totals::of(pair), snapshot: Snapshot::of(pair) }
    }
}

/// Where the samples begin: what came before may still be a trace of the beginning.
fn begin(slices: usize) -> usize {
    slices / WARM_UP
}

/// How far rates may be from what was seen so far when a verdict is certain, in halves of their confidence intervals.
/// Source: our choice, because there are several looks at a course, and few batches in each.
const CERTAIN: f64 = 2.0;

/// Runs `workload` on the hosts of `models`; the noise is that of the `attempt`th run, counted from 0. If the bounds of
/// traffic are given, it ends as soon as the verdict is certain, though rates are not known to the model's
/// precision.
///
/// # Errors
/// When the model's hosts cannot run it, or its packets need longer than an experiment may take.
pub fn run(
    models: PairModels<'_>,
    workload: &Workload,
    attempt: u32,
    bounds: Option<&Bounds>,
) -> Result<SimulatedRun, MeasureError> {
    let model = models.common();
    let loaded = loaded_directions(workload);
    let Sampling { precision, verdict_packets, sample_us: _, samples: _, max_events: _, seed: _, noise: _ } =
        model.sampling;
    let qps = workload.flows.iter().map(|flow| u64::from(flow.qps)).sum();
    let steady = SteadyState { directions: &loaded, precision, verdict_packets, qps };
    let is_certain = |pair: &SimulatedPair, course: &[SliceMark]| {
        let moments = moments(course);
        let Some(bounds) = bounds.filter(|_| steady.is_telling(&moments)) else { return false };
        let halves: Vec<f64> = loaded.chunks(1).map(|way| half_width(&moments, way)).collect();
        let samples = samples(pair, course, &loaded, model, &mut || 1.0);
        let verdict = |by: f64| {
            let mut samples = samples.clone();
            for (rates, half) in samples.iter_mut().flat_map(|sample| sample.directions.iter_mut().zip(&halves)) {
                scale(rates, 1.0 + by * half);
            }
            assess(workload, bounds, &Measurement { samples, ..Measurement::default() })
        };
        let [low, high] = [-CERTAIN, CERTAIN].map(verdict);
        low == high && low.verdict != Verdict::Inconclusive && agree_on_pauses(&samples)
    };
    let (pair, course) = work(models, workload, &steady, is_certain)?;
    let moments = moments(&course);
    let half_width = Some(half_width(&moments, &loaded)).filter(|half| half.is_finite());
    let is_steady = steady.is_balanced(&moments) && half_width.is_some_and(|half| half <= UNKNOWN);
    let slices = course.len() - 1;
    let round_trip = longest_path(&pair.around.rings) * 2;
    let warm_up = course[begin(slices)].totals.time;
    if !is_steady && warm_up < round_trip {
        let reason = format!(
            "its path takes {:.0} us there and back, of which the simulation saw {:.0} us before its samples; a larger \
             sampling.max_events lets it go on for longer",
            round_trip.as_micros(),
            warm_up.as_micros()
        );
        return Err(MeasureError::Unsupported { reason });
    }
    let mut noise = RateNoise::new(model, workload, attempt.into());
    let samples = samples(&pair, &course, &loaded, model, &mut || noise.factor());
    Ok(SimulatedRun {
        measurement: Measurement {
            samples,
            confidence: Some(Confidence { half_width, is_steady }),
            ..Measurement::default()
        },
        limiting: limiting(&pair, &course[sampled(model, slices)[0]].snapshot),
        packets: pair.nics.iter().map(|nic| nic.tally().packets).sum(),
        flows: of_flows(&course[sampled(model, slices)[0]].totals, &course[slices].totals),
        by_port: pair.around.network.has_leaves().then(|| pair.around.network.moved()),
    })
}

/// Payload of each flow between two moments, to its responder and to its requester. Units: bytes/s.
fn of_flows(before: &Totals, after: &Totals) -> Vec<[f64; 2]> {
    let seconds = (after.time - before.time).max(Picos::new(1)).as_seconds();
    let rate = |(now, then): (&[u64; 2], &[u64; 2])| [0, 1].map(|end| (now[end] - then[end]) as f64 / seconds);
    after.delivered.iter().zip(&before.delivered).map(rate).collect()
}

/// All rates of a direction times a factor.
fn scale(rates: &mut DirectionRates, factor: f64) {
    let DirectionRates { goodput_bps, wire_bps, packets_per_sec, messages_per_sec, .. } = rates;
    for rate in [goodput_bps, wire_bps, packets_per_sec, messages_per_sec] {
        *rate *= factor;
    }
}

/// Whether all samples show a pause, or none does: what only some show may be a trace of the beginning, or begin later.
fn agree_on_pauses(samples: &[Sample]) -> bool {
    let is_paused = |sample: &Sample| sample.pause.as_ref().is_some_and(|pause| pause.longest() > PAUSE_RATIO);
    let paused = samples.iter().filter(|sample| is_paused(sample)).count();
    paused == 0 || paused == samples.len()
}

/// Where samples begin, and the slices of each, in an experiment of so many.
fn sampled(model: &Model, slices: usize) -> [usize; 2] {
    let count = (model.sampling.samples as usize).min(slices);
    let each = ((slices - begin(slices)) / count).max(1);
    [slices - count * each, each]
}

/// The samples of a course, rates times what `factor` gives.
fn samples(
    pair: &SimulatedPair,
    course: &[SliceMark],
    loaded: &[Direction],
    model: &Model,
    factor: &mut dyn FnMut() -> f64,
) -> Vec<Sample> {
    let slices = course.len() - 1;
    let [first, each] = sampled(model, slices);
    let bounds = (first..slices).step_by(each).map(|from| [&course[from].totals, &course[from + each].totals]);
    bounds.map(|[from, to]| sample(pair, loaded, from, to, factor)).collect()
}

/// Lets hosts work until rates are steady, or the verdict is certain, or for as long as an experiment may take; what
/// had happened after each slice.
fn work(
    models: PairModels<'_>,
    workload: &Workload,
    steady: &SteadyState<'_>,
    is_certain: impl Fn(&SimulatedPair, &[SliceMark]) -> bool,
) -> Result<(SimulatedPair, Vec<SliceMark>), MeasureError> {
    let sampling = &models.common().sampling;
    let rings = Rings::new(models, workload)?;
    // An application that pauses for longer than it posts is not ahead of its NIC.
    let pauses = |flow: &FlowRings| {
        let posting = &models.of(flow.from).posting;
        f64::from(flow.interarrival_ns) > posting.doorbell_ns + posting.wqe_ns * flow.batch as f64
    };
    let of_flow = |flow: &FlowRings| Queues { are_empty: pauses(flow), are_behind: false };
    let mut queues: Vec<Queues> = rings.flows.iter().map(of_flow).collect();
    let slice = whole_pauses(&rings, Picos::from_nanos(sampling.sample_us * 1e3));
    // What begins on a long path is over after some round trips; on one that is too long nothing is known in the end.
    let slice = slice.max(longest_path(&rings).min(LONGEST_PERIOD));
    let mut events_left = sampling.max_events;
    let mut has_restarted = false;
    let mut pair = SimulatedPair::new(models, rings, &queues);
    let mut course = vec![SliceMark::of(&mut pair)];
    loop {
        pair.run_until(pair.now + slice, &mut events_left);
        course.push(SliceMark::of(&mut pair));
        let slices = course.len() - 1;
        let is_look = slices.is_multiple_of(STEP);
        if is_look && !has_restarted && events_left > 0 && cannot_keep_up(&pair, &moments(&course), &mut queues) {
            has_restarted = true;
            pair = SimulatedPair::new(models, Rings::new(models, workload)?, &queues);
            course = vec![SliceMark::of(&mut pair)];
        } else if events_left == 0
            || slices == MOST_SLICES
            || (is_look && (steady.is_reached(&moments(&course)) || is_certain(&pair, &course)))
        {
            return Ok((pair, course));
        }
    }
}

/// From where the samples begin.
fn moments(course: &[SliceMark]) -> Vec<&Moment> {
    course[begin(course.len() - 1)..].iter().map(|mark| &mark.moment).collect()
}

/// Whether applications that began with full queues have no time to keep them full, so that these run empty, or NICs
/// use receives sooner than they read them: notes the flows that should begin so.
fn cannot_keep_up(pair: &SimulatedPair, course: &[&Moment], queues: &mut [Queues]) -> bool {
    let mut changed = false;
    for (flow, queues) in pair.around.rings.flows.iter().zip(queues) {
        let before = *queues;
        queues.are_empty |= pair.around.core_busy(pair.now, flow.from) > CORES_BUSY;
        queues.are_behind |= falls_behind_slowly(course, flow.to);
        changed |= *queues != before;
    }
    changed
}

fn sample(
    pair: &SimulatedPair,
    loaded: &[Direction],
    before: &Totals,
    after: &Totals,
    factor: &mut dyn FnMut() -> f64,
) -> Sample {
    let span = (after.time - before.time).max(Picos::new(1));
    let seconds = span.as_seconds();
    let mut rates = |Direction { from, to }: Direction| {
        let now = after.traffic[from.index()][to.index()];
        let then = before.traffic[from.index()][to.index()];
        let factor = factor();
        let rate = |now: u64, then: u64| (now - then) as f64 / seconds * factor;
        DirectionRates {
            from,
            to,
            goodput_bps: 8.0 * rate(now.payload_bytes, then.payload_bytes),
            wire_bps: 8.0 * rate(now.wire_bytes, then.wire_bytes),
            packets_per_sec: rate(now.packets, then.packets),
            messages_per_sec: rate(now.messages, then.messages),
        }
    };
    let directions = loaded.iter().copied().map(&mut rates).collect();
    let share = |now: Picos, then: Picos| (now - then).ratio_to(span);
    let per_host = |host: Host| {
        let index = host.index();
        let mut counters = after.counts[index].rates_since(&before.counts[index], seconds);
        let qps: u32 = pair.around.rings.flows.iter().filter(|flow| flow.from == host).map(|flow| flow.qps).sum();
        if qps > 0 {
            let waiting = share(after.core_wait[index], before.core_wait[index]) / f64::from(qps);
            counters.insert(SEND_QUEUE_FULL.to_owned(), (1.0 - waiting).clamp(0.0, 1.0));
        }
        if let Some(timeout) = pair.nics[index].ack_timeout() {
            counters.insert(ACK_TIMEOUT.to_owned(), timeout.as_seconds());
            counters.insert(TIMEOUTS.to_owned(), (after.timeouts[index] - before.timeouts[index]) as f64 / seconds);
        }
        for (now, then) in after.made[index].iter().zip(&before.made[index]) {
            let rates = MADE.iter().zip(now.iter().zip(then));
            counters.extend(rates.map(|(name, (now, then))| ((*name).to_owned(), (now - then) as f64 / seconds)));
        }
        counters
    };
    // Of two ports the one that is paused for longer speaks for its host.
    let longer = |host: Host, of: fn(&Pauses) -> Picos| {
        let [now, then] = [after, before].map(|totals| totals.pauses[host.index()].each_ref().map(of));
        share(now[0], then[0]).max(share(now[1], then[1]))
    };
    let pause =
        |host: Host| PauseRatios { tx: longer(host, |pauses| pauses.sent), rx: longer(host, |pauses| pauses.received) };
    Sample {
        seconds,
        directions,
        pause: Some(PerHost { a: pause(Host::A), b: pause(Host::B) }),
        counters: PerHost { a: per_host(Host::A), b: per_host(Host::B) },
    }
}

/// Multiplicative noise on rates, the same for the same attempt at the same workload and model.
pub struct RateNoise {
    normal: Option<Normal<f64>>,
    random: Pcg64Mcg,
}

impl RateNoise {
    /// That of an attempt at a workload.
    pub fn new(model: &Model, workload: &Workload, attempt: u64) -> Self {
        // FNV-1a over the workload's text form: stable over versions of the standard library, unlike its hashers.
        let text = format!("{}{}{workload:?}", model.name, model.sampling.seed);
        let seed = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let normal = (model.sampling.noise > 0.0).then(|| Normal::new(1.0, model.sampling.noise).ok()).flatten();
        Self { normal, random: Pcg64Mcg::seed_from_u64(seed.wrapping_add(attempt)) }
    }

    /// The next factor.
    pub fn factor(&mut self) -> f64 {
        self.normal.map_or(1.0, |normal| normal.sample(&mut self.random).max(0.0))
    }
}

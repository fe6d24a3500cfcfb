//! One experiment: it goes on until rates are steady; its second half is the samples. What is steady is in `steady`.

use kelpie_engine::MeasureError;
use kelpie_events::Picos;
use kelpie_monitor::counters::SEND_QUEUE_FULL;
use kelpie_monitor::{DirectionRates, Measurement, PauseRatios, PerHost, Sample};
use kelpie_spaces::{Direction, Host, Workload, loaded_directions};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

use crate::counters::{Diagnostics, Traffic};
use crate::limiting::{Snapshot, limiting};
use crate::model::Model;
use crate::pair::Pair;
use crate::rings::Rings;
use crate::steady::{Moment, Steady};

/// What a run gives.
#[derive(Debug)]
pub struct Run {
    /// The samples.
    pub measurement: Measurement,
    /// The part that limits, and whose traffic.
    pub limiting: String,
    /// Packets moved in all, for benchmarks.
    pub packets: u64,
}

/// Everything that is counted, at one moment.
struct Totals {
    time: Picos,
    traffic: [[Traffic; 2]; 2],
    counts: [Diagnostics; 2],
    /// By host and port.
    holding: [[Picos; 2]; 2],
    held: [[Picos; 2]; 2],
    core_wait: [Picos; 2],
}

impl Totals {
    fn of(pair: &Pair) -> Self {
        let around = &pair.around;
        Self {
            time: pair.now,
            traffic: around.traffic,
            counts: pair.nics.each_ref().map(Diagnostics::of),
            holding: around.holding.each_ref().map(|ports| ports.each_ref().map(|spell| spell.total(pair.now))),
            held: around.held.each_ref().map(|ports| ports.each_ref().map(|spell| spell.total(pair.now))),
            core_wait: Host::BOTH.map(|host| around.core_wait(pair.now, host)),
        }
    }
}

/// A sample of about `length` that holds whole pauses of the applications, so that all samples hold equally many posts.
fn whole_pauses(rings: &Rings, length: Picos) -> Picos {
    let longest = rings.flows.iter().map(|flow| flow.interarrival_ns).max().unwrap_or(0);
    let pause = Picos::from_nanos(longest.into());
    if pause == Picos::ZERO { length } else { pause * (length.as_micros() / pause.as_micros()).ceil() as u64 }
}

/// Runs `workload` on `model`.
///
/// # Errors
/// When the model's hosts cannot run it.
pub fn run(model: &Model, workload: &Workload) -> Result<Run, MeasureError> {
    let rings = Rings::new(model, workload)?;
    let sampling = &model.sampling;
    let samples = sampling.samples as usize;
    let slice = whole_pauses(&rings, Picos::from_nanos(sampling.sample_us * 1e3));
    let loaded = loaded_directions(workload);
    let queued = rings.flows.iter().map(|flow| u64::from(flow.qps) * flow.depth).sum();
    let steady = Steady { directions: &loaded, samples, precision: sampling.precision, queued };
    let mut pair = Pair::new(model, rings);
    let mut course = vec![(Moment::of(&pair), Totals::of(&pair), Snapshot::of(&pair))];
    let mut events_left = sampling.max_events;
    loop {
        pair.run_until(pair.now + slice, &mut events_left);
        course.push((Moment::of(&pair), Totals::of(&pair), Snapshot::of(&pair)));
        let slices = course.len() - 1;
        let may_end = slices.is_multiple_of(2 * samples);
        if events_left == 0 || (may_end && steady.is_reached(&course, |(moment, ..)| moment)) {
            break;
        }
    }
    let slices = course.len() - 1;
    let samples = samples.min(slices);
    let of_sample = (slices / 2 / samples).max(1);
    let begin = slices - samples * of_sample;
    let mut noise = Noise::new(model, workload);
    let bounds = (0..samples).map(|at| [begin + at * of_sample, begin + (at + 1) * of_sample]);
    let samples = bounds.map(|[from, to]| sample(&pair, &loaded, &course[from].1, &course[to].1, &mut noise)).collect();
    Ok(Run {
        measurement: Measurement { samples, ..Measurement::default() },
        limiting: limiting(&pair, &course[begin].2),
        packets: pair.nics.iter().map(|nic| nic.tally().packets).sum(),
    })
}

fn sample(pair: &Pair, loaded: &[Direction], before: &Totals, after: &Totals, noise: &mut Noise) -> Sample {
    let span = (after.time - before.time).max(Picos::new(1));
    let seconds = span.as_seconds();
    let mut rates = |Direction { from, to }: Direction| {
        let now = after.traffic[from.index()][to.index()];
        let then = before.traffic[from.index()][to.index()];
        let factor = noise.factor();
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
        counters
    };
    // Of two ports the one that is paused for longer speaks for its host.
    let longer = |now: [Picos; 2], then: [Picos; 2]| share(now[0], then[0]).max(share(now[1], then[1]));
    let pause = |host: Host| PauseRatios {
        tx: longer(after.holding[host.index()], before.holding[host.index()]),
        rx: longer(after.held[host.index()], before.held[host.index()]),
    };
    Sample {
        seconds,
        directions,
        pause: Some(PerHost { a: pause(Host::A), b: pause(Host::B) }),
        counters: PerHost { a: per_host(Host::A), b: per_host(Host::B) },
    }
}

/// Multiplicative noise on rates, the same for the same workload and model.
struct Noise {
    normal: Option<Normal<f64>>,
    random: Pcg64Mcg,
}

impl Noise {
    fn new(model: &Model, workload: &Workload) -> Self {
        // FNV-1a over the workload's text form: stable over versions of the standard library, unlike its hashers.
        let text = format!("{}{}{workload:?}", model.name, model.sampling.seed);
        let seed = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let normal = (model.sampling.noise > 0.0).then(|| Normal::new(1.0, model.sampling.noise).ok()).flatten();
        Self { normal, random: Pcg64Mcg::seed_from_u64(seed) }
    }

    fn factor(&mut self) -> f64 {
        self.normal.map_or(1.0, |normal| normal.sample(&mut self.random).max(0.0))
    }
}

//! How fast the simulated subsystem F is on a core: experiments/s over the full space, and packets/s.
//! `cargo bench -p kelpie-sim` runs it.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use kelpie_engine::Subsystem as _;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Space, Workload};
use rand::SeedableRng as _;
use rustix::time::{ClockId, clock_gettime};

/// Points of the full space, the same on every run.
const POINTS: usize = 200;
const SEED: u64 = 5;

fn points(subsystem: &mut SimSubsystem) -> Vec<Workload> {
    let space = Space::catalog("full").expect("a space of the catalogue");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(SEED);
    // A point may name a device that the hosts of F lack; it would cost nothing.
    let sampled = std::iter::repeat_with(|| space.sample(&mut random));
    sampled.filter(|point| subsystem.measure(point).is_ok()).take(POINTS).collect()
}

fn subsystem() -> SimSubsystem {
    SimSubsystem::load("F").expect("an embedded model")
}

/// One experiment at a time; the column `median` is that of the 200 points.
#[divan::bench(sample_count = POINTS as u32, sample_size = 1)]
fn experiments(bencher: Bencher) {
    let mut subsystem = subsystem();
    let points = points(&mut subsystem);
    let next = AtomicUsize::new(0);
    bencher
        .counter(ItemsCount::new(1_usize))
        .with_inputs(|| (subsystem.clone(), &points[next.fetch_add(1, Ordering::Relaxed) % POINTS]))
        .bench_local_values(|(mut subsystem, point)| black_box(subsystem.measure(point).is_ok()));
}

/// Seconds that a core spent on this thread: what else the machine does makes no difference but to caches.
fn core_seconds() -> f64 {
    let time: Duration = clock_gettime(ClockId::ThreadCPUTime).try_into().expect("time goes on");
    time.as_secs_f64()
}

/// Says both figures in one line, in seconds of a core, then lets divan give the distribution by the clock.
fn main() {
    let mut subsystem = subsystem();
    let points = points(&mut subsystem);
    let mut seconds: Vec<f64> = Vec::with_capacity(POINTS);
    let mut packets = 0;
    for point in &points {
        let begin = core_seconds();
        black_box(subsystem.measure(point).is_ok());
        seconds.push(core_seconds() - begin);
        packets += subsystem.packets();
    }
    let packets_per_second = packets as f64 / seconds.iter().sum::<f64>();
    seconds.sort_by(f64::total_cmp);
    println!(
        "sim:F, {POINTS} points of full: {:.0} experiments/s in the median, {:.0} at the 90th percentile, {:.2} \
         million packets/s",
        1.0 / seconds[POINTS / 2],
        1.0 / seconds[POINTS * 9 / 10],
        packets_per_second / 1e6
    );
    divan::main();
}

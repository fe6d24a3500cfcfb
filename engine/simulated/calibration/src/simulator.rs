//! What a model says of each row, from the simulation, in parallel and never twice. Knows no measured value.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kelpie_engine::{MeasureError, Subsystem as _};
use kelpie_monitor::Measurement;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Host, Workload};

use crate::parameters::{Based, Parameter};
use crate::traffic::Traffic;

/// What is measured of traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficResult {
    /// Goodput of all directions together. Units: bits/s.
    pub goodput_bps: f64,
    /// The larger share of time for which one of the NICs paused its peer.
    pub pause_ratio: f64,
}

/// Goodput below which nothing moves. Units: bits/s. Source: our choice, so that logarithms exist.
const LEAST_GOODPUT: f64 = 1.0;

impl TrafficResult {
    /// The means of a measurement; pauses that were not counted are none.
    pub fn of(measurement: &Measurement) -> Option<Self> {
        let mean = measurement.mean()?;
        let goodput: f64 = mean.directions.iter().map(|way| way.goodput_bps).sum();
        let pause =
            mean.pause.map_or(0.0, |pause| Host::BOTH.map(|host| pause.get(host).tx).into_iter().fold(0.0, f64::max));
        Some(Self { goodput_bps: goodput.max(LEAST_GOODPUT), pause_ratio: pause })
    }
}

/// Traffic with what its simulation needs.
#[derive(Debug, Clone)]
struct PreparedTraffic {
    workload: Workload,
    settings: Vec<(&'static str, f64)>,
}

/// Messages of a flow that are in flight at most so that samples are long. Source: our choice, because the shortest
/// sample of a model then holds only some of them.
const FEW: u64 = 16;
/// Length of such a sample. Units: µs.
const LONG_SAMPLE_US: f64 = 200.0;

/// Traffic's settings of a model besides the parameters.
pub fn settings_of(traffic: &Traffic) -> Vec<(&'static str, f64)> {
    let in_flight = u64::from(traffic.qps) * u64::from(traffic.depth);
    let sample = (in_flight <= FEW).then_some((Parameter::SampleUs.path(), LONG_SAMPLE_US));
    sample.into_iter().chain(traffic.cores.map(|cores| (Parameter::Cores.path(), cores.into()))).collect()
}

/// Events of an experiment of a fit at most. Source: our choice, half of a model's: most of a plan's rows settle
/// before.
const MOST_EVENTS: f64 = 200_000.0;

/// The same for a fit.
fn settings_of_fit(traffic: &Traffic) -> Vec<(&'static str, f64)> {
    let plain = [(Parameter::Noise, 0.0), (Parameter::VerdictPackets, 0.0), (Parameter::MaxEvents, MOST_EVENTS)];
    let mut settings: Vec<(&str, f64)> = plain.map(|(parameter, number)| (parameter.path(), number)).into();
    settings.extend(settings_of(traffic));
    settings
}

/// Why a simulation did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// The user asked for an end.
    Stopped,
    /// There were as many experiments as there may be.
    Exhausted,
}

/// A point in the space of parameters: the logarithm of each factor of the base's value.
pub type ParameterPoint = Vec<f64>;

/// Rows, a base, and what was simulated so far.
pub struct Simulator<'a> {
    base: &'a SimSubsystem,
    parameters: &'a [Based],
    rows: Vec<PreparedTraffic>,
    known: HashMap<(usize, u64, Vec<u64>), TrafficResult>,
    experiments: u64,
    most: u64,
    stop: &'a AtomicBool,
    threads: usize,
    progress: &'a mut dyn FnMut(u64),
}

/// One simulation to be done: row, seed, values of the parameters as bits.
type SimulationJob = (usize, u64, Vec<u64>);

impl<'a> Simulator<'a> {
    /// A simulator of these rows over a base, which does at most `most` experiments and ends once `stop` is raised.
    /// `progress` is told how many there were. Traffic must be valid.
    pub fn new(
        base: &'a SimSubsystem,
        parameters: &'a [Based],
        traffic: &[&Traffic],
        most: u64,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        let prepare = |traffic: &&Traffic| PreparedTraffic {
            workload: traffic.workload().expect("tables and plans hold valid traffic"),
            settings: settings_of_fit(traffic),
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let rows = traffic.iter().map(prepare).collect();
        Self { base, parameters, rows, known: HashMap::new(), experiments: 0, most, stop, threads, progress }
    }

    /// Experiments so far.
    pub fn experiments(&self) -> u64 {
        self.experiments
    }

    /// What each point says of each of its rows, in order.
    ///
    /// # Errors
    /// When it was stopped, or experiments are used up.
    pub fn see(&mut self, points: &[(&ParameterPoint, &[usize])], seed: u64) -> Result<Vec<Vec<TrafficResult>>, Halt> {
        let jobs = |(point, rows): &(&ParameterPoint, &[usize])| -> Vec<SimulationJob> {
            let values = self.values(point);
            rows.iter().map(|row| (*row, seed, values.clone())).collect()
        };
        let wanted: Vec<Vec<SimulationJob>> = points.iter().map(jobs).collect();
        let mut missing: Vec<SimulationJob> =
            wanted.iter().flatten().filter(|job| !self.known.contains_key(*job)).cloned().collect();
        missing.sort_unstable();
        missing.dedup();
        self.simulate(&missing)?;
        Ok(wanted.iter().map(|jobs| jobs.iter().map(|job| self.known[job]).collect()).collect())
    }

    /// The values at a point, as bits: two points of equal values are the same experiment.
    fn values(&self, point: &ParameterPoint) -> Vec<u64> {
        let each = self.parameters.iter().zip(point);
        each.map(|(parameter, log)| parameter.value(*log).to_bits()).collect()
    }

    fn simulate(&mut self, jobs: &[SimulationJob]) -> Result<(), Halt> {
        if self.experiments + jobs.len() as u64 > self.most {
            return Err(Halt::Exhausted);
        }
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs.len())));
        std::thread::scope(|scope| {
            for _ in 0..self.threads.min(jobs.len()) {
                scope.spawn(|| {
                    while !self.stop.load(Ordering::Relaxed) {
                        let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                        let seen = run(self.base, self.parameters, &self.rows[job.0], job);
                        done.lock().expect("no thread panics while it holds the lock").push((job.clone(), seen));
                    }
                });
            }
        });
        let done = done.into_inner().expect("no thread panics while it holds the lock");
        self.experiments += done.len() as u64;
        (self.progress)(self.experiments);
        let is_whole = done.len() == jobs.len();
        self.known.extend(done);
        if is_whole { Ok(()) } else { Err(Halt::Stopped) }
    }
}

fn run(
    base: &SimSubsystem,
    parameters: &[Based],
    row: &PreparedTraffic,
    (_, seed, values): &SimulationJob,
) -> TrafficResult {
    let mut numbers = row.settings.clone();
    numbers.push((Parameter::Seed.path(), *seed as f64));
    for (parameter, bits) in parameters.iter().zip(values) {
        numbers.extend(parameter.settings(f64::from_bits(*bits)));
    }
    let mut model = base.clone();
    model.set_numbers(&numbers).expect("the range of each parameter fits every model, which a test checks");
    measure(&mut model, &row.workload).expect("traffic in memory of a NUMA node is simulated")
}

/// What a model says of a workload.
///
/// # Errors
/// When its hosts cannot run it.
pub fn measure(model: &mut SimSubsystem, workload: &Workload) -> Result<TrafficResult, MeasureError> {
    let measurement = model.measure(workload)?;
    Ok(TrafficResult::of(&measurement).expect("a model takes at least one sample"))
}

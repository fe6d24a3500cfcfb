//! Campaigns side by side on simulated subsystems, in memory and on all cores: which weaknesses each touches and finds.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::Context;
use kelpie_engine::{MeasureError, Subsystem};
use kelpie_monitor::{Assessment, Inconclusive, Measurement, Symptom, measure_judged};
use kelpie_search::{Config, Finding, Observation, Oracle, Purpose};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Space, Workload};
use serde::Serialize;

/// One campaign on one subsystem.
#[derive(Debug, Clone)]
pub struct Job {
    pub subsystem: SimSubsystem,
    pub config: Config,
}

/// What one campaign came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub seed: u64,
    /// Weaknesses that some experiment showed.
    pub touched: usize,
    /// Weaknesses that some finding is about.
    pub found: usize,
    pub findings: usize,
    pub experiments: u64,
}

/// What a search must not see: the symptom, and the part of the subsystem that limits the traffic.
type Weakness = (Symptom, String);

/// Runs every job; `measured` is called after each experiment, from any thread. Jobs that `stop` ended have no outcome.
///
/// # Errors
/// A subsystem could not be measured.
pub fn run(
    space: &Space,
    budget: u64,
    jobs: &[Job],
    stop: &AtomicBool,
    measured: &(dyn Fn() + Sync),
) -> anyhow::Result<Vec<Option<Outcome>>> {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; jobs.len()]);
    let work = || -> anyhow::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return Ok(()) };
            // After a failure no other job begins.
            let outcome =
                job.run(space, budget, stop, measured).inspect_err(|_| next.store(jobs.len(), Ordering::Relaxed))?;
            outcomes.lock().expect("no thread panics while it holds the lock")[index] = outcome;
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a search does not panic"))
    })?;
    Ok(outcomes.into_inner().expect("no thread panicked"))
}

impl Job {
    fn run(
        &self,
        space: &Space,
        budget: u64,
        stop: &AtomicBool,
        measured: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Option<Outcome>> {
        let mut judge = Judge {
            subsystem: self.subsystem.clone(),
            budget,
            stop,
            measured,
            experiments: 0,
            findings: 0,
            touched: BTreeSet::new(),
            found: BTreeSet::new(),
        };
        match kelpie_search::run(space, &self.config, &mut judge) {
            Ok(()) | Err(End::Budget) => {}
            Err(End::Stopped) => return Ok(None),
            Err(End::Failed(error)) => {
                let name = judge.subsystem.name().to_owned();
                return Err(error).context(format!("{name}, seed {}", self.config.seed));
            }
        }
        Ok(Some(Outcome {
            seed: self.config.seed,
            touched: judge.touched.len(),
            found: judge.found.len(),
            findings: judge.findings,
            experiments: judge.experiments,
        }))
    }
}

/// Why a search ends.
enum End {
    Budget,
    Stopped,
    Failed(MeasureError),
}

/// The oracle of a search: answers from the subsystem, and keeps to itself what limited the traffic.
struct Judge<'a> {
    subsystem: SimSubsystem,
    budget: u64,
    stop: &'a AtomicBool,
    measured: &'a (dyn Fn() + Sync),
    experiments: u64,
    findings: usize,
    touched: BTreeSet<Weakness>,
    found: BTreeSet<Weakness>,
}

impl Oracle for Judge<'_> {
    type Error = End;

    fn measure(&mut self, workload: &Workload, _: Purpose) -> Result<Observation, End> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(End::Stopped);
        }
        if self.experiments == self.budget {
            return Err(End::Budget);
        }
        self.experiments += 1;
        let bounds = self.subsystem.bounds();
        let judged = measure_judged(workload, &bounds, |workload| self.subsystem.measure(workload));
        (self.measured)();
        let (measurement, assessment) = match judged {
            Ok(judged) => (judged.measurement, judged.assessment),
            Err(MeasureError::Unsupported { .. }) => {
                (Measurement::default(), Assessment::of_nothing(Inconclusive::NoSamples))
            }
            Err(error) => return Err(End::Failed(error)),
        };
        // As findings have it: pause before low throughput.
        if let Some(symptom) = assessment.symptoms.iter().min() {
            self.touched.insert((*symptom, self.subsystem.limiting().to_owned()));
        }
        Ok(Observation::new(&measurement, assessment, &bounds))
    }

    fn skipped(&mut self, _: &Workload) {}

    fn found(&mut self, number: u64, finding: &Finding) -> Result<(), End> {
        self.findings = self.findings.max(number as usize);
        // Equal workloads are measured equally, so this says what limited it when the search asked.
        self.subsystem.measure(&finding.workload).map_err(End::Failed)?;
        self.found.insert((finding.symptom, self.subsystem.limiting().to_owned()));
        Ok(())
    }
}

/// Mean and spread over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    /// Standard deviation of a sample; absent of a single seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of these counts; `None` of none.
    pub fn of(counts: impl Iterator<Item = usize>) -> Option<Self> {
        let counts: Vec<f64> = counts.map(|count| count as f64).collect();
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
        let deviation = (counts.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        (!counts.is_empty()).then_some(Self { mean, deviation })
    }
}

#[cfg(test)]
mod tests {
    use kelpie_search::{Algorithm, SignalSet};

    use super::*;

    fn jobs(seeds: &[u64]) -> Vec<Job> {
        let subsystem = SimSubsystem::load("F").expect("embedded");
        let config = |seed| Config { budget: Some(40), ..Config::new(Algorithm::Random, SignalSet::Perf, seed) };
        seeds.iter().map(|seed| Job { subsystem: subsystem.clone(), config: config(*seed) }).collect()
    }

    #[test]
    fn equal_seeds_come_to_the_same_whatever_thread_runs_them() {
        let space = Space::catalog("full").expect("in the catalog");
        let measured = AtomicUsize::new(0);
        let count = || _ = measured.fetch_add(1, Ordering::Relaxed);
        let outcomes = run(&space, 40, &jobs(&[1, 2, 1]), &AtomicBool::new(false), &count).expect("it is simulated");
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        assert_eq!(outcomes.iter().map(|outcome| outcome.seed).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(outcomes[0], outcomes[2]);
        assert!(outcomes.iter().all(|outcome| outcome.experiments == 40 && outcome.touched > 0), "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| outcome.found <= outcome.findings.min(outcome.touched)), "{outcomes:?}");
        assert_eq!(measured.into_inner(), 120);
    }

    #[test]
    fn a_search_that_is_stopped_has_no_outcome() {
        let space = Space::catalog("full").expect("in the catalog");
        let stopped = AtomicBool::new(true);
        assert_eq!(run(&space, 40, &jobs(&[1, 2]), &stopped, &|| {}).expect("nothing is measured"), [None, None]);
    }

    #[test]
    fn spread_is_over_seeds() {
        let (mean, deviation) = (2.0, Some(std::f64::consts::SQRT_2));
        assert_eq!(Spread::of([1, 3].into_iter()), Some(Spread { mean, deviation }));
        assert_eq!(Spread::of([2].into_iter()), Some(Spread { mean, deviation: None }));
        assert_eq!(Spread::of([].into_iter()), None);
    }
}

//! What is kept of a job that goes on: its first iterations, by which it is judged, and its latest ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

use super::diagnose::{JobDiagnosis, JobQuestion, JobVerdict, diagnose};
use super::operation::{JobOperations, Operation};
use super::record::{JobKey, OperationRecord, Reporter};

/// Iterations from the begin that are kept. Source: our choice; docs/measured/job-diagnosis.md has the power after 50.
const FIRST: usize = 64;
/// Latest iterations that are kept. Source: our choice, above the 50 that the published rule looks at.
const LATEST: usize = 64;

/// Iterations before the latest that have to be alike. Source: our choice, as in `hang`: who came to 20 comes always.
const ALIKE: usize = 20;

/// What a record did to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEffect {
    /// It belongs to the job.
    Kept,
    /// It begins another job: what was kept before is gone.
    NewJob,
}

/// One iteration.
#[derive(Debug, Clone, PartialEq)]
struct Iteration {
    number: u64,
    operations: Vec<Operation>,
    /// How many of them are open.
    open: usize,
    /// What they are between whom, in any order, as a number.
    print: u64,
}

/// The part of a communicator's job that is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredWindow", into = "StoredWindow")]
pub struct Window {
    communicator: Option<String>,
    function: Option<String>,
    hosts: BTreeMap<u32, String>,
    processes: BTreeMap<u32, u32>,
    ranks: Option<u32>,
    iterations: VecDeque<Iteration>,
    /// Operations, all together.
    count: usize,
    /// Whether operations were left out because one iteration has too many.
    is_cut: bool,
    /// The latest iteration of each rank that reported one.
    latest_of: BTreeMap<u32, u64>,
}

/// A window as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredWindow {
    communicator: Option<String>,
    #[serde(default)]
    function: Option<String>,
    #[serde(default)]
    hosts: BTreeMap<u32, String>,
    #[serde(default)]
    processes: BTreeMap<u32, u32>,
    ranks: Option<u32>,
    operations: Vec<Operation>,
}

impl From<StoredWindow> for Window {
    fn from(kept: StoredWindow) -> Self {
        let StoredWindow { communicator, function, hosts, processes, ranks, operations } = kept;
        let mut window = Self { communicator, function, hosts, processes, ranks, ..Self::default() };
        for operation in operations {
            let latest = window.latest_of.entry(operation.source).or_insert(operation.iteration);
            *latest = operation.iteration.max(*latest);
            window.append(operation);
        }
        window
    }
}

impl From<Window> for StoredWindow {
    fn from(window: Window) -> Self {
        let Window { communicator, function, hosts, processes, ranks, iterations, .. } = window;
        let operations = iterations.into_iter().flat_map(|one| one.operations).collect();
        Self { communicator, function, hosts, processes, ranks, operations }
    }
}

impl Window {
    /// What its job is told from others by.
    pub fn key(&self) -> JobKey {
        (self.communicator.clone(), self.function.clone())
    }

    /// Operations that it holds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes a record. One of an iteration long before the latest begins another job, and so does an earlier one than
    /// the latest if `is_new_file`.
    pub fn push(&mut self, record: OperationRecord, is_new_file: bool) -> RecordEffect {
        let operation = &record.operation;
        // Each process may write a file of its own, and one file be read long before another: a rank is held against
        // itself.
        let rank = record.reporter.as_ref().map_or(operation.source, |reporter| reporter.rank);
        let latest = self.latest_of.get(&rank).copied();
        let latest = latest.or(self.iterations.back().filter(|_| record.reporter.is_none()).map(|last| last.number));
        let latest = latest.unwrap_or(0);
        let reach = if is_new_file { 0 } else { LATEST as u64 };
        let seen =
            if operation.iteration.saturating_add(reach) < latest { RecordEffect::NewJob } else { RecordEffect::Kept };
        if seen == RecordEffect::NewJob {
            *self = Self::default();
        }
        let latest = self.latest_of.entry(rank).or_insert(operation.iteration);
        *latest = operation.iteration.max(*latest);
        let OperationRecord { communicator, function, ranks, reporter, operation } = record;
        (self.communicator, self.function, self.ranks) = (communicator, function, ranks.max(self.ranks));
        if let Some(Reporter { rank, host, process }) = reporter {
            host.map(|host| self.hosts.insert(rank, host));
            process.map(|process| self.processes.insert(rank, process));
        }
        self.append(operation);
        seen
    }

    fn append(&mut self, operation: Operation) {
        let place = self.iterations.partition_point(|iteration| iteration.number < operation.iteration);
        if self.iterations.get(place).is_none_or(|iteration| iteration.number != operation.iteration) {
            let iteration = Iteration { number: operation.iteration, operations: Vec::new(), open: 0, print: 0 };
            self.iterations.insert(place, iteration);
            if self.iterations.len() > FIRST + LATEST {
                self.remove(FIRST);
            }
        }
        let place = self.iterations.partition_point(|iteration| iteration.number < operation.iteration);
        if let Some(iteration) = self.iterations.get_mut(place) {
            self.count += usize::from(iteration.push(operation));
        }
    }

    /// Gives up the iteration that is missed least, or what comes last if there is one only.
    pub fn shrink(&mut self, most: usize) {
        while self.count > most && self.iterations.len() > 2 {
            // One of the first and one of the latest are the least that shows a change.
            self.remove(self.iterations.len() / 2);
        }
        while self.count > most && self.iterations.len() > 1 {
            self.remove(0);
        }
        if let Some(only) = self.iterations.front_mut().filter(|_| self.count > most) {
            only.operations.truncate(most);
            only.open = only.operations.iter().filter(|operation| operation.end.is_none()).count();
            only.print = only.operations.iter().map(print).fold(0, u64::wrapping_add);
            self.count = only.operations.len();
            self.is_cut = true;
        }
    }

    fn remove(&mut self, place: usize) {
        let place = place.min(self.iterations.len() - 1);
        self.count -= self.iterations.remove(place).map_or(0, |iteration| iteration.operations.len());
    }

    /// What the job suffers from. `silent_us` is how long nothing came; from `patience_us` on, it hangs or is over.
    pub fn judge(&self, silent_us: f64, patience_us: f64) -> JobDiagnosis {
        let missing = self.missing();
        let last = self.iterations.back();
        let is_open = last.is_some_and(|last| last.open > 0);
        let mut found = if silent_us < patience_us {
            // Of the latest iteration, records may be on their way.
            let count =
                self.iterations.len() - usize::from((is_open || !missing.is_empty()) && self.iterations.len() > 1);
            // What is open may go on: it hangs only if nothing comes any more.
            diagnose(JobQuestion { job: &self.job(count, &[]), now: Some(0.0), patience_us: f64::INFINITY })
        } else {
            diagnose(JobQuestion::at_the_end(&self.job(self.iterations.len(), &missing)))
        };
        if self.is_cut {
            found.evidence.notes.push("an iteration has more operations than are kept: some were left out".to_owned());
        }
        if silent_us >= patience_us {
            let silent = format!("no record came for {:.0} s", silent_us / 1e6);
            if found.verdict == JobVerdict::Hang && !is_open {
                found.class = None;
                found.evidence.notes.push(format!(
                    "{silent}; records of complete operations do not tell a rank that did not come from one whose \
                     messages do not move"
                ));
            } else if found.verdict == JobVerdict::Hang {
                found.evidence.open_us = Some(silent_us);
                found.evidence.notes.push(silent);
            } else if found.verdict == JobVerdict::Healthy {
                found.verdict = JobVerdict::Undecided;
                found.evidence.notes.push(format!("{silent}: the job is over, or hangs between two iterations"));
            } else {
                found.evidence.notes.push(silent);
            }
        }
        found
    }

    /// What the iteration before had and the latest has not, as operations to which nobody came. If iterations differ
    /// in what they have, nothing says what is missing.
    fn missing(&self) -> Vec<Operation> {
        let mut back = self.iterations.iter().rev();
        let (Some(last), Some(before)) = (back.next(), back.next()) else { return Vec::new() };
        if back.take(ALIKE).any(|earlier| earlier.print != before.print) {
            return Vec::new();
        }
        let there = last.keys();
        let gone = before.operations.iter().filter(|operation| !there.contains(&key(operation)));
        let nobody = |operation: &Operation| Operation {
            iteration: last.number,
            entered: None,
            begin: None,
            end: None,
            ..*operation
        };
        gone.map(nobody).collect()
    }

    /// The latest two iterations, which name every rank there is.
    pub fn latest(&self) -> JobOperations {
        let mut job = self.job(0, &[]);
        let latest = self.iterations.iter().rev().take(2).rev();
        job.operations = latest.flat_map(|iteration| &iteration.operations).copied().collect();
        job
    }

    /// The first `count` iterations that are kept, and operations more.
    fn job(&self, count: usize, more: &[Operation]) -> JobOperations {
        let kept = self.iterations.iter().take(count).flat_map(|iteration| &iteration.operations);
        JobOperations {
            communicator: self.communicator.clone(),
            function: self.function.clone(),
            hosts: self.hosts.clone(),
            processes: self.processes.clone(),
            ranks: self.ranks,
            operations: kept.chain(more).copied().collect(),
            ..JobOperations::default()
        }
    }
}

type OperationKey = (u32, Option<u32>, u64);

fn key(operation: &Operation) -> OperationKey {
    (operation.source, operation.destination, operation.bytes)
}

/// A number for what an operation is between whom, the same in each run.
fn print(operation: &Operation) -> u64 {
    let mut hasher = DefaultHasher::new();
    key(operation).hash(&mut hasher);
    hasher.finish()
}

impl Iteration {
    fn keys(&self) -> BTreeSet<OperationKey> {
        self.operations.iter().map(key).collect()
    }

    /// Takes an operation, which completes an open one if there is such; says whether there is one more.
    fn push(&mut self, operation: Operation) -> bool {
        let is_open = |open: &&mut Operation| open.end.is_none() && key(open) == key(&operation);
        if self.open > 0
            && let Some(open) = self.operations.iter_mut().find(is_open)
        {
            self.open -= usize::from(operation.end.is_some());
            *open = operation;
            return false;
        }
        self.open += usize::from(operation.end.is_none());
        self.print = self.print.wrapping_add(print(&operation));
        self.operations.push(operation);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::diagnose::FaultClass;
    use super::*;

    /// Rank, iteration and time of a ring of four.
    fn record(iteration: u64, source: u32, end: Option<f64>) -> OperationRecord {
        let start = iteration as f64 * 1000.0;
        let operation = Operation {
            iteration,
            source,
            destination: Some((source + 1) % 4),
            bytes: 8,
            entered: Some(start),
            begin: Some(start),
            end: end.map(|end| start + end),
        };
        OperationRecord::of(operation)
    }

    fn noise(iteration: u64, source: u32) -> f64 {
        100.0 + [-1.0, 0.6, 1.3, -0.2, -0.9, 0.4, 0.1][(iteration as usize * 3 + source as usize * 5) % 7]
    }

    fn run(window: &mut Window, iterations: std::ops::Range<u64>, factor: f64) {
        for iteration in iterations {
            for source in 0..4 {
                let factor = if source == 2 { factor } else { 1.0 };
                window.push(record(iteration, source, Some(factor * noise(iteration, source))), false);
            }
        }
    }

    const PATIENCE: f64 = 30e6;

    #[test]
    fn a_slowdown_stays_slow_however_long_it_lasts_and_memory_is_bounded() {
        let mut window = Window::default();
        run(&mut window, 0..100, 1.0);
        assert_eq!(window.judge(0.0, PATIENCE).verdict, JobVerdict::Healthy);
        run(&mut window, 100..5000, 1.1);
        let found = window.judge(0.0, PATIENCE);
        assert_eq!((found.verdict, found.ambiguous), (JobVerdict::Slow, vec![(2, 3)]));
        assert_eq!(window.count(), 4 * (FIRST + LATEST));
        run(&mut window, 5000..5100, 1.0);
        assert_eq!(window.judge(0.0, PATIENCE).verdict, JobVerdict::Healthy);
    }

    #[test]
    fn silence_is_a_hang_if_something_is_missing_or_open_and_else_not_known() {
        let mut window = Window::default();
        run(&mut window, 0..20, 1.0);
        let over = window.judge(PATIENCE, PATIENCE);
        assert!(
            over.verdict == JobVerdict::Undecided && over.evidence.notes[0].contains("the job is over"),
            "{over:?}"
        );
        for source in [0, 1, 3] {
            window.push(record(20, source, Some(100.0)), false);
        }
        assert_eq!(window.judge(PATIENCE - 1.0, PATIENCE).verdict, JobVerdict::Healthy);
        let absent = window.judge(PATIENCE, PATIENCE);
        assert_eq!((absent.verdict, absent.class, absent.rank), (JobVerdict::Hang, None, vec![2]));
        window.push(record(20, 2, None), false);
        let open = window.judge(PATIENCE, PATIENCE);
        let expected = (JobVerdict::Hang, Some(FaultClass::Communication), vec![2]);
        assert_eq!((open.verdict, open.class, open.rank), expected);
        window.push(record(20, 2, Some(101.0)), false);
        assert_eq!(window.judge(0.0, PATIENCE).verdict, JobVerdict::Healthy, "it completed after all");
        assert_eq!(window.count(), 84);
    }

    #[test]
    fn a_job_that_ends_with_an_iteration_of_fewer_does_not_hang() {
        let over = |without: &[(u64, u32)]| {
            let mut window = Window::default();
            for iteration in 0..20 {
                for source in (0..4).filter(|source| !without.contains(&(iteration, *source))) {
                    window.push(record(iteration, source, Some(noise(iteration, source))), false);
                }
            }
            let found = window.judge(PATIENCE, PATIENCE);
            (found.verdict, found.rank)
        };
        assert_eq!(over(&[(19, 2)]), (JobVerdict::Hang, vec![2]), "it came each time before");
        // It stayed away now and then.
        assert_eq!(over(&[(8, 2), (14, 1), (19, 2)]).0, JobVerdict::Undecided);
    }

    #[test]
    fn another_job_begins_where_iterations_go_back() {
        let mut window = Window::default();
        run(&mut window, 0..20, 1.0);
        assert_eq!(window.push(record(3, 0, Some(1.0)), false), RecordEffect::Kept, "late, or the same job");
        assert_eq!(window.push(record(0, 0, Some(1.0)), true), RecordEffect::NewJob);
        run(&mut window, 0..200, 1.0);
        assert_eq!(window.push(record(0, 0, Some(1.0)), false), RecordEffect::NewJob);
        assert_eq!(window.count(), 1);
    }

    #[test]
    fn a_rank_whose_file_is_read_later_is_of_the_same_job() {
        let mut window = Window::default();
        let reported = |rank: u32, iteration: u64| {
            let reporter = Some(Reporter { rank, host: None, process: None });
            OperationRecord { reporter, ..record(iteration, rank, Some(1.0)) }
        };
        for rank in 0..3 {
            for iteration in 0..200 {
                assert_eq!(window.push(reported(rank, iteration), true), RecordEffect::Kept, "{rank} {iteration}");
            }
        }
        assert_eq!(window.push(reported(2, 0), true), RecordEffect::NewJob);
    }

    #[test]
    fn a_window_shrinks_to_what_may_be_kept() {
        let mut window = Window::default();
        run(&mut window, 0..200, 1.0);
        window.shrink(40);
        let kept: Vec<u64> = window.iterations.iter().map(|one| one.number).collect();
        assert!(window.count() <= 40 && kept[0] == 0 && kept.last() == Some(&199), "{kept:?}");
        window.shrink(3);
        assert!(window.count() == 3 && window.is_cut);
    }
}

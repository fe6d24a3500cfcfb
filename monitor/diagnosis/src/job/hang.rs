//! Operations that never completed: who did not come, or between whom nothing moved.
//!
//! Source: C4 (Dong et al., HPCA 2025), C4D's classes of hangs; the rules are ours.

use std::collections::{BTreeMap, BTreeSet};

use super::operation::{Job, Operation};

/// An operation that is open for this long hangs. Units: microseconds. Source: our choice: 30 s are far above any
/// collective and far below the 30 minutes of NCCL's own timeout.
pub const PATIENCE_US: f64 = 30e6;

/// A hang.
#[derive(Debug, Clone, PartialEq)]
pub struct Hang {
    /// Whether ranks came but nothing moved; else ranks did not come.
    pub is_communication: bool,
    /// The ranks that it began with.
    pub ranks: Vec<u32>,
    /// Connections on which nothing moved.
    pub connections: Vec<(u32, u32)>,
    /// The iteration that is open.
    pub iteration: u64,
    /// How long it is open, if times say. Units: microseconds.
    pub open_us: Option<f64>,
}

/// Looks for a hang at the end of a job; `now` is when somebody looked, on the job's clock, and `patience_us` how long
/// an operation may be open then.
///
/// Without `now`, the file counts as written when the job was given up, so what is open then hangs.
pub fn hang(job: &Job, now: Option<f64>, patience_us: f64) -> Option<Hang> {
    let last = job.operations.last()?.iteration;
    let at_the_end = job.operations.iter().rev().take_while(|operation| operation.iteration == last);
    if at_the_end.clone().all(|operation| operation.end.is_some()) {
        return None;
    }
    let mut came: BTreeMap<u32, u64> = (0..job.ranks.unwrap_or(0)).map(|rank| (rank, 0)).collect();
    let open: Vec<_> = at_the_end.filter(|operation| operation.end.is_none()).collect();
    for operation in &job.operations {
        let has_come = operation.entered.is_some() || operation.begin.is_some() || operation.end.is_some();
        let latest = came.entry(operation.source).or_insert(0);
        if has_come {
            // One more than the number, so that a rank that never came is below all.
            *latest = (*latest).max(operation.iteration + 1);
        }
        if let Some(destination) = operation.destination {
            came.entry(destination).or_insert(0);
        }
    }
    // Who only receives never shows that it came.
    let sends: BTreeSet<u32> = job.operations.iter().map(|operation| operation.source).collect();
    let entered = open.iter().filter_map(|operation| operation.entered.or(operation.begin)).min_by(f64::total_cmp);
    let times = job.operations.iter().flat_map(|operation| [operation.entered, operation.begin, operation.end]);
    let seen = now.or_else(|| times.flatten().max_by(f64::total_cmp));
    let open_us = entered.zip(seen).map(|(entered, seen)| seen - entered);
    if now.is_some() && open_us.is_none_or(|open| open < patience_us) {
        return None;
    }
    if let Some(stopped) = stopped_midway(job, &open, last) {
        return Some(Hang {
            is_communication: false,
            ranks: stopped,
            connections: Vec::new(),
            iteration: last,
            open_us,
        });
    }
    let fewest = came.iter().filter(|(rank, _)| sends.contains(rank)).map(|(_, latest)| *latest).min()?;
    let is_communication = fewest > last;
    let (ranks, connections) = if is_communication {
        let still: Vec<_> = open.iter().filter(|operation| operation.bytes == 0).collect();
        // What began and does not end is stuck; what did not begin waits for it, or all of it is stuck.
        let begun = || open.iter().filter(|operation| operation.begin.is_some()).collect::<Vec<_>>();
        let still = if still.is_empty() { begun() } else { still };
        let still = if still.is_empty() { open.iter().collect() } else { still };
        let ranks: BTreeSet<u32> = still.iter().map(|operation| operation.source).collect();
        let pairs = still.iter().filter_map(|operation| Some((operation.source, operation.destination?)));
        (ranks.into_iter().collect(), pairs.collect())
    } else {
        let late = came.iter().filter(|(rank, latest)| sends.contains(rank) && **latest == fewest);
        (late.map(|(rank, _)| *rank).collect(), Vec::new())
    };
    Some(Hang { is_communication, ranks, connections, iteration: last, open_us })
}

/// Ranks that took part in the iteration and then posted nothing more, though what they waited for is there: they have
/// completed least, and where they send to is further on and waits for them.
fn stopped_midway(job: &Job, open: &[&Operation], last: u64) -> Option<Vec<u32>> {
    if open.iter().any(|operation| operation.begin.is_some()) {
        return None;
    }
    let mut done: BTreeMap<u32, u32> = BTreeMap::new();
    for operation in job.operations.iter().rev().take_while(|operation| operation.iteration == last) {
        *done.entry(operation.source).or_insert(0) += u32::from(operation.end.is_some());
    }
    // Of whom nothing is known here, who took part in the iteration before, did not come to this one.
    for operation in job.operations.iter().filter(|operation| operation.iteration + 1 == last) {
        done.entry(operation.source).or_insert(0);
    }
    let fewest = done.values().min().copied().filter(|fewest| *fewest > 0)?;
    let is_behind = |rank: u32| done.get(&rank) == Some(&fewest);
    let waits_for_receiver = |operation: &Operation| operation.destination.is_some_and(is_behind);
    let behind = open.iter().filter(|operation| is_behind(operation.source));
    let (waiting, stopped): (Vec<&Operation>, Vec<&Operation>) =
        behind.copied().partition(|operation| waits_for_receiver(operation));
    let stopped = if stopped.is_empty() { waiting } else { stopped };
    let ranks: BTreeSet<u32> = stopped.iter().map(|operation| operation.source).collect();
    (!ranks.is_empty()).then(|| ranks.into_iter().collect())
}

//! Operations that never completed: who did not come, or between whom nothing moved.
//!
//! Source: C4 (Dong et al., HPCA 2025), C4D's classes of hangs; the rules are ours.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::operation::{JobOperations, Operation};

/// An operation that is open for this long hangs. Units: microseconds. Source: our choice: 30 s are far above any
/// collective and far below the 30 minutes of NCCL's own timeout.
pub const PATIENCE_US: f64 = 30e6;

/// A hang.
#[derive(Debug, Clone, PartialEq)]
pub struct Hang {
    /// Whether ranks came but nothing moved, or ranks did not come; nothing if records do not tell.
    pub is_communication: Option<bool>,
    /// The ranks that it began with.
    pub ranks: Vec<u32>,
    /// Connections on which nothing moved.
    pub connections: Vec<(u32, u32)>,
    /// The iteration that is open.
    pub iteration: u64,
    /// How long it is open, if times say. Units: microseconds.
    pub open_us: Option<f64>,
    /// Why the answer has no more, in words.
    pub note: Option<&'static str>,
}

/// Looks for a hang at the end of a job; `now` is when somebody looked, on the job's clock, and `patience_us` how long
/// an operation may be open then.
///
/// Without `now`, the file counts as written when the job was given up, so what is open then hangs.
pub fn hang(job: &JobOperations, now: Option<f64>, patience_us: f64) -> Option<Hang> {
    let cut = up_to_the_stuck_one(job);
    let job = cut.as_ref().unwrap_or(job);
    let last = job.iterations().last()?;
    let open: Vec<&Operation> = last.iter().filter(|operation| operation.end.is_none()).collect();
    if open.is_empty() {
        return None;
    }
    let entered = open.iter().filter_map(|operation| operation.entered.or(operation.begin)).min_by(f64::total_cmp);
    let times = job.operations.iter().flat_map(|operation| [operation.entered, operation.begin, operation.end]);
    let seen = now.or_else(|| times.flatten().max_by(f64::total_cmp));
    let open_us = entered.zip(seen).map(|(entered, seen)| seen - entered);
    if now.is_some() && open_us.is_none_or(|open| open < patience_us) {
        return None;
    }
    let (iteration, presence) = (last[0].iteration, Presence::of(job, last));
    let blame = |is_communication, ranks: BTreeSet<u32>, connections, note| Hang {
        is_communication,
        ranks: ranks.into_iter().collect(),
        connections,
        iteration,
        open_us,
        note,
    };
    if !presence.absent.is_empty() {
        return Some(blame(Some(false), presence.origin(), Vec::new(), None));
    }
    if let Some(stopped) = stopped_midway(job, last, &open) {
        return Some(blame(Some(false), stopped, Vec::new(), None));
    }
    let still: Vec<_> = open.iter().filter(|operation| operation.bytes == 0).collect();
    let not_begun: BTreeSet<u32> =
        open.iter().filter(|operation| operation.begin.is_none()).map(|operation| operation.source).collect();
    let is_collective = open.iter().all(|operation| operation.destination.is_none());
    if is_collective && !not_begun.is_empty() && not_begun.len() < open.len() {
        return Some(blame(Some(false), not_begun, Vec::new(), Some(NOT_BEGUN)));
    }
    // A message that began and does not end is stuck; what did not begin waits for it, or all of it is stuck.
    let begun = || open.iter().filter(|operation| operation.begin.is_some()).collect::<Vec<_>>();
    let still = if still.is_empty() { begun() } else { still };
    let still = if still.is_empty() { open.iter().collect() } else { still };
    let pairs: Vec<(u32, u32)> =
        still.iter().filter_map(|operation| Some((operation.source, operation.destination?))).collect();
    let is_silent = |operation: &Operation| {
        operation.begin.is_none() && operation.destination.is_some_and(|rank| presence.is_unknown(rank))
    };
    if still.iter().any(|operation| is_silent(operation)) {
        let pairs = still.iter().filter(|operation| is_silent(operation));
        let pairs = pairs.filter_map(|operation| Some((operation.source, operation.destination?))).collect();
        return Some(blame(None, BTreeSet::new(), pairs, Some(SILENT)));
    }
    Some(blame(Some(true), still.iter().map(|operation| operation.source).collect(), pairs, None))
}

/// Of a receiver that has no record in the iteration.
const SILENT: &str = "who receives has no record of this iteration, and earlier ones do not say that it had to come: it \
    may not have come, or its messages do not move";

/// Of a collective that began at others.
const NOT_BEGUN: &str = "the ranks named called it, and it has not begun there: something before it keeps their GPUs";

/// The job without what was called after the collective that is stuck: ranks call ahead of what their GPUs do, each as
/// far as its program goes until it has to wait. Nothing if nothing was.
fn up_to_the_stuck_one(job: &JobOperations) -> Option<JobOperations> {
    if job.calls.is_empty() {
        return None;
    }
    let mut done: BTreeMap<u32, u64> = BTreeMap::new();
    for operation in job.operations.iter().filter(|operation| operation.end.is_some()) {
        done.insert(operation.source, operation.iteration);
    }
    // A communicator completes in order: what seems open before that is done too.
    let is_open = |operation: &&Operation| {
        operation.end.is_none() && done.get(&operation.source).is_none_or(|done| *done < operation.iteration)
    };
    let stuck = job.operations.iter().find(is_open)?.iteration;
    let operations = job.operations.iter().filter(|operation| operation.iteration <= stuck);
    let is_last = job.operations.last().is_some_and(|last| last.iteration == stuck);
    (!is_last).then(|| JobOperations { operations: operations.copied().collect(), ..job.clone() })
}

/// Who came to the iteration that is open, and who should have.
struct Presence {
    /// Ranks that came.
    came: BTreeSet<u32>,
    /// Ranks that did not and should have.
    absent: BTreeSet<u32>,
    /// Per absent rank the last iteration to which it came, if there is any, and whether it came to all up to it.
    latest: BTreeMap<u32, (Option<u64>, bool)>,
}

impl Presence {
    /// Communicators differ, and so do those who take part. So a rank should have come if the iteration names it as one
    /// that sends; or if it came to each earlier iteration with the same messages, to which all came who have come now;
    /// or if somebody waits for it, and it never received without sending.
    fn of(job: &JobOperations, last: &[Operation]) -> Self {
        let came = sources(last);
        let mut there: BTreeSet<u32> = last.iter().map(|operation| operation.source).collect();
        if !job.members.is_empty() {
            there.extend(job.operations.iter().map(|operation| operation.source));
        }
        let earlier: Vec<(&[Operation], BTreeSet<u32>)> = job
            .iterations()
            .rev()
            .skip(1)
            .take(LOOKED_AT)
            .map(|operations| (operations, sources(operations)))
            .collect();
        let (mut answers, mut only_receives) = (BTreeSet::new(), BTreeSet::new());
        for (operations, sources) in &earlier {
            for rank in operations.iter().filter_map(|operation| operation.destination) {
                if sources.contains(&rank) { &mut answers } else { &mut only_receives }.insert(rank);
            }
        }
        let awaited = last.iter().filter_map(|operation| operation.destination);
        there.extend(awaited.filter(|rank| answers.contains(rank) && !only_receives.contains(rank)));
        // Of a communicator that was never seen, others say nothing.
        let pair = |operation: &Operation| (operation.source, operation.destination);
        let pairs: BTreeSet<_> = last.iter().map(pair).collect();
        let has_pairs = |operations: &[Operation]| {
            let theirs: HashSet<_> = operations.iter().map(pair).collect();
            pairs.iter().all(|pair| theirs.contains(pair))
        };
        let same: Vec<&BTreeSet<u32>> =
            earlier.iter().filter(|(operations, _)| has_pairs(operations)).map(|(_, sources)| sources).collect();
        let varies = earlier.iter().any(|(_, sources)| *sources != earlier[0].1);
        let is_expected = |rank: u32, alike: usize| {
            let came = earlier.iter().filter(|(_, sources)| sources.contains(&rank)).count();
            !varies || is_regular(came, earlier.len(), alike)
        };
        for _ in 0..MOST_ROUNDS {
            let mut alike = 0_usize;
            let mut with: BTreeMap<u32, usize> = BTreeMap::new();
            for sources in same.iter().filter(|sources| there.is_subset(sources)) {
                alike += 1;
                sources.iter().for_each(|rank| *with.entry(*rank).or_default() += 1);
            }
            let before = there.len();
            let all = with.into_iter().filter(|(rank, count)| *count == alike && is_expected(*rank, alike));
            there.extend(all.map(|(rank, _)| rank));
            if there.len() == before {
                break;
            }
        }
        let absent: BTreeSet<u32> = there.difference(&came).copied().collect();
        let mut latest: BTreeMap<u32, (Option<u64>, bool)> = absent.iter().map(|rank| (*rank, (None, true))).collect();
        for (operations, sources) in earlier.iter().filter(|_| !absent.is_empty()) {
            for (rank, (iteration, is_regular)) in &mut latest {
                if sources.contains(rank) {
                    iteration.get_or_insert(operations[0].iteration);
                } else {
                    *is_regular &= iteration.is_none();
                }
            }
        }
        Self { came, absent, latest }
    }

    /// Of the absent ranks those that stayed away first, if that can be told: who takes part now and then may have been
    /// away for good reasons.
    fn origin(&self) -> BTreeSet<u32> {
        if self.latest.values().any(|(_, is_regular)| !is_regular) {
            return self.absent.clone();
        }
        let first = self.latest.values().map(|(iteration, _)| *iteration).min().flatten();
        let stayed = self.latest.iter().filter(|(_, (iteration, _))| *iteration == first);
        stayed.map(|(rank, _)| *rank).collect()
    }

    /// Whether nothing says that it came, or that it should have.
    fn is_unknown(&self, rank: u32) -> bool {
        !self.came.contains(&rank) && !self.absent.contains(&rank)
    }
}

/// Of jobs in which not always the same take part: whether a rank that came to so many of `all` iterations, and to each
/// of `alike` of them, did so by more than chance. It came to all for long; or its share of the other iterations, by
/// the rule of succession, would rarely have brought it to these.
fn is_regular(came: usize, all: usize, alike: usize) -> bool {
    let share = (came - alike + 1) as f64 / (all - alike + 2) as f64;
    (came == all && all >= LONG) || share.powf(alike as f64) < BY_CHANCE
}

/// A rank that came this often came always. Source: our choice: by the rule of succession it stays away once in 22
/// then.
const LONG: usize = 20;
/// How often chance may make a rank look as if it came with others. Source: our choice.
const BY_CHANCE: f64 = 0.02;

/// Who came to an iteration.
fn sources(operations: &[Operation]) -> BTreeSet<u32> {
    let has_come =
        |operation: &&Operation| operation.entered.is_some() || operation.begin.is_some() || operation.end.is_some();
    operations.iter().filter(has_come).map(|operation| operation.source).collect()
}

/// Earlier iterations that say who should have come. Source: our choice, above what `Window` keeps.
const LOOKED_AT: usize = 256;
/// Most times that ranks are added to those who should have come. Source: our choice; two are the most that was seen.
const MOST_ROUNDS: usize = 8;

/// Ranks that took part in the iteration and then posted nothing more, though what they waited for is there: they have
/// completed least, and where they send to is further on and waits for them. Who all have as many messages to send can
/// be compared so, and nobody else.
fn stopped_midway(job: &JobOperations, last: &[Operation], open: &[&Operation]) -> Option<BTreeSet<u32>> {
    if open.iter().any(|operation| operation.begin.is_some()) {
        return None;
    }
    let mut done: BTreeMap<u32, u32> = BTreeMap::new();
    for operation in last {
        *done.entry(operation.source).or_insert(0) += u32::from(operation.end.is_some());
    }
    if let Some(before) = job.iterations().rev().nth(1) {
        let mut usual: BTreeMap<u32, u32> = BTreeMap::new();
        for operation in before {
            *usual.entry(operation.source).or_insert(0) += 1;
        }
        if usual.values().min() != usual.values().max() {
            return None;
        }
    }
    let fewest = done.values().min().copied().filter(|fewest| *fewest > 0)?;
    let is_behind = |rank: u32| done.get(&rank) == Some(&fewest);
    let waits_for_receiver = |operation: &Operation| operation.destination.is_some_and(is_behind);
    let behind = open.iter().filter(|operation| is_behind(operation.source));
    let (waiting, stopped): (Vec<&Operation>, Vec<&Operation>) =
        behind.copied().partition(|operation| waits_for_receiver(operation));
    let stopped = if stopped.is_empty() { waiting } else { stopped };
    let ranks: BTreeSet<u32> = stopped.iter().map(|operation| operation.source).collect();
    (!ranks.is_empty()).then_some(ranks)
}

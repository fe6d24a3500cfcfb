//! Ranks that call a collective with another size than the others, or another collective: a mistake of the program, and
//! no slow part.

use std::collections::BTreeMap;

use super::operation::{JobOperations, Operation};

/// Iterations at the end that count, and the share of them that has to show it. Source: our choice.
const WINDOW: usize = 50;
const MOST: f64 = 0.8;
/// Fewest iterations that show it now and then, and their share. Source: our choice, as in `bursts`.
const TIMES: usize = 4;
const LEAST: f64 = 0.08;

/// What differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The ranks with another size or function; all of them, if none is that of most.
    pub ranks: Vec<u32>,
    /// What differs.
    pub what: Differs,
    /// Whether no size or function is that of most ranks.
    pub is_split: bool,
    /// Share of the iterations that show it.
    pub share: f64,
    /// First iteration of those at the end that show it.
    pub since: u64,
}

/// What most ranks pass or call, and another one.
#[derive(Debug, Clone, PartialEq)]
pub enum Differs {
    /// Sizes. Units: bytes.
    Bytes(u64, u64),
    /// Functions.
    Functions(String, String),
}

/// Ranks whose sizes differ at the end of a job. Only collectives have one size at all ranks, and of those whose sizes
/// may differ (such as an all-to-all of experts) not always the same few ranks are different.
pub fn mismatch(job: &JobOperations) -> Option<Mismatch> {
    let mut iterations = job.iterations().rev();
    let odd = |operations: &[Operation]| odd(job, operations);
    let last = iterations.find_map(odd)?;
    let (mut seen, mut same, mut since) = (1, 1, last.since);
    for one in iterations.take(WINDOW) {
        seen += 1;
        if odd(one).is_some_and(|odd| odd.ranks == last.ranks) {
            same += 1;
            since = one[0].iteration;
        } else if same < seen - same {
            break;
        }
    }
    // The end alone counts: before it, all may have been well.
    let at_the_end = job.iterations().rev().take(same.max(3));
    let is_lasting = at_the_end.filter(|one| odd(one).is_some_and(|odd| odd.ranks == last.ranks)).count() as f64
        >= MOST * same.max(3) as f64;
    is_lasting.then_some(Mismatch { since, share: 1.0, ..last })
}

/// The same few ranks in some iterations only, and nobody in the others.
pub fn mismatch_at_times(job: &JobOperations) -> Option<Mismatch> {
    let iterations: Vec<&[Operation]> = job.iterations().collect();
    let recent = &iterations[iterations.len().saturating_sub(WINDOW)..];
    let found: Vec<Mismatch> = recent.iter().filter_map(|one| odd(job, one)).collect();
    let share = found.len() as f64 / recent.len().max(1) as f64;
    let first = found.first()?;
    // What lasted for a while and is over is no fault now.
    let is_odd: Vec<bool> = recent.iter().map(|one| odd(job, one).is_some()).collect();
    let times = (0..is_odd.len()).filter(|at| is_odd[*at] && (*at == 0 || !is_odd[at - 1])).count();
    let is_same = found.iter().all(|one| one.ranks == first.ranks) && 2 * first.ranks.len() < recent[0].len();
    (is_same && times >= TIMES && share >= LEAST).then(|| Mismatch { share, ..first.clone() })
}

/// The same of the iteration alone in which a job hangs: once is enough then.
pub fn mismatch_of_a_hang(job: &JobOperations, iteration: u64) -> Option<Mismatch> {
    odd(job, job.iterations().rev().find(|operations| operations[0].iteration == iteration)?)
}

/// The ranks of one iteration whose function or size is another one than that of most.
fn odd(job: &JobOperations, operations: &[Operation]) -> Option<Mismatch> {
    let since = operations[0].iteration;
    if operations.iter().any(|operation| operation.destination.is_some()) {
        return None;
    }
    if let Some(odd) = job.calls.get(&since).and_then(odd_call) {
        return Some(Mismatch { since, ..odd });
    }
    if job.may_sizes_differ(since) {
        return None;
    }
    let mut sizes: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for operation in operations {
        sizes.entry(operation.bytes).or_default().push(operation.source);
    }
    let most = sizes.iter().max_by_key(|(_, ranks)| ranks.len()).map(|(bytes, _)| *bytes)?;
    let other = sizes.keys().copied().find(|bytes| *bytes != most)?;
    let is_majority = 2 * sizes[&most].len() > operations.len();
    let odd = sizes.iter().filter(|(bytes, _)| !is_majority || **bytes != most).flat_map(|(_, ranks)| ranks);
    let mut ranks: Vec<u32> = odd.copied().collect();
    ranks.sort_unstable();
    ranks.dedup();
    // A rank with several operations of different sizes in an iteration is a job whose iterations have several. If no
    // size is that of most, ranks share a few: where sizes may differ lawfully, each rank has its own.
    let is_shared = sizes.values().map(Vec::len).sum::<usize>() == ranks.len() && sizes.values().all(|of| of.len() > 1);
    (ranks.len() <= operations.len() / 2 || operations.len() == 2 || is_shared).then_some(Mismatch {
        ranks,
        what: Differs::Bytes(most, other),
        is_split: !is_majority,
        share: 1.0,
        since,
    })
}

/// The ranks that call another function than most.
fn odd_call(calls: &BTreeMap<String, Vec<u32>>) -> Option<Mismatch> {
    let (most, of_most) = calls.iter().max_by_key(|(_, ranks)| ranks.len())?;
    let other = calls.keys().find(|function| *function != most)?;
    let all: usize = calls.values().map(Vec::len).sum();
    let is_majority = 2 * of_most.len() > all;
    let odd = calls.iter().filter(|(function, _)| !is_majority || *function != most).flat_map(|(_, ranks)| ranks);
    let mut ranks: Vec<u32> = odd.copied().collect();
    ranks.sort_unstable();
    Some(Mismatch {
        ranks,
        what: Differs::Functions(most.clone(), other.clone()),
        is_split: !is_majority,
        share: 1.0,
        since: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(size: impl Fn(u64, u32) -> u64) -> JobOperations {
        let operation = |iteration, source| Operation {
            iteration,
            source,
            destination: None,
            bytes: size(iteration, source),
            entered: None,
            begin: Some(0.0),
            end: Some(300.0),
        };
        let operations = (0..30).flat_map(|iteration| (0..4).map(move |rank| (iteration, rank)));
        JobOperations {
            operations: operations.map(|(iteration, rank)| operation(iteration, rank)).collect(),
            ..JobOperations::default()
        }
    }

    #[test]
    fn a_rank_that_always_differs_is_named_and_sizes_that_vary_are_not() {
        let found = mismatch(&job(|at, rank| if rank == 2 && at >= 10 { 4096 } else { 1024 })).expect("rank 2");
        assert_eq!((found.ranks, found.what, found.since), (vec![2], Differs::Bytes(1024, 4096), 10));
        let halves = mismatch(&job(|_, rank| 1024 << (rank % 2))).expect("two sizes");
        let sizes = [Differs::Bytes(1024, 2048), Differs::Bytes(2048, 1024)];
        assert!(halves.ranks.len() == 4 && sizes.contains(&halves.what) && halves.since == 0, "{halves:?}");
        let every_fifth = job(|at, rank| if at % 5 == 0 && rank == 3 { 4096 } else { 1024 });
        assert_eq!(mismatch(&every_fifth), None);
        let found = mismatch_at_times(&every_fifth).expect("rank 3");
        assert_eq!((found.ranks, found.share, found.since), (vec![3], 0.2, 0));
        assert_eq!(mismatch(&job(|_, _| 1024)), None);
        assert_eq!(mismatch_at_times(&job(|_, _| 1024)), None);
        assert_eq!(mismatch(&job(|at, rank| 1024 + u64::from(rank) * 8 + at % 3)), None, "experts");
        assert_eq!(mismatch(&job(|at, rank| if at == 12 && rank == 1 { 4 } else { 1024 })), None, "once, long ago");
        let share = |_, rank| if rank == 2 { 4096 } else { 1024 };
        for (function, may_differ) in [
            ("AlltoAll", true),
            ("nccl:all_to_all", true),
            ("nccl:scatter", true),
            ("Gather", true),
            ("AllGatherV", true),
            ("ReduceScatter", false),
            ("nccl:_all_gather_base", false),
        ] {
            let one = JobOperations { function: Some(function.to_owned()), ..job(share) };
            assert_eq!(mismatch(&one).is_none(), may_differ, "{function}");
        }
    }
}

//! Hangs of several communicators at once: who waits because somebody waits elsewhere. Nothing is measured here.

use std::collections::BTreeSet;

use super::diagnose::{JobDiagnosis, JobVerdict};
use super::operation::{JobOperations, Operation};

/// Why a communicator hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Itself, as far as is known; so do those that do not hang.
    Own,
    /// Who did not come waits within the communicator of this number, or is the one that this one names already.
    Other(usize),
    /// Its ranks wait in other communicators, and the ranks of those wait in this one.
    Circle,
}

/// Why each communicator hangs, of those whose ranks count within the whole job.
pub fn causes(found: &[(&JobOperations, &JobDiagnosis)]) -> Vec<Cause> {
    let hangs: Vec<Option<Stuck>> = found.iter().map(|(job, found)| Stuck::of(job, found)).collect();
    let first_elsewhere = |this: &Stuck| {
        let is_elsewhere = |rank: &u32| !this.came.contains(rank);
        let there = |rank: &u32| hangs.iter().position(|one| one.as_ref().is_some_and(|one| one.waits.contains(rank)));
        let places: Option<Vec<usize>> =
            this.named.iter().map(|rank| there(rank).filter(|_| is_elsewhere(rank))).collect();
        places.and_then(|places| places.first().copied())
    };
    let next: Vec<Option<usize>> = hangs.iter().map(|one| one.as_ref().and_then(first_elsewhere)).collect();
    let mut causes: Vec<Cause> = (0..found.len())
        .map(|begin| {
            let mut seen = BTreeSet::from([begin]);
            let mut at = begin;
            while let Some(further) = next[at] {
                at = further;
                if !seen.insert(at) {
                    return if at == begin { Cause::Circle } else { Cause::Other(at) };
                }
            }
            if at == begin { Cause::Own } else { Cause::Other(at) }
        })
        .collect();
    // Of communicators that name the same ranks, most wait in the first.
    let mut own: Vec<(usize, &Stuck)> =
        hangs.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref()?))).collect();
    own.retain(|(at, one)| causes[*at] == Cause::Own && !one.named.is_empty());
    own.sort_by_key(|(_, one)| std::cmp::Reverse((one.named.len(), one.waits.len())));
    for (place, (at, one)) in own.iter().enumerate() {
        if let Some((first, _)) = own[..place].iter().find(|(_, before)| one.named.is_subset(&before.named)) {
            causes[*at] = Cause::Other(*first);
        }
    }
    for at in 0..causes.len() {
        if let Cause::Other(cause) = causes[at]
            && let Cause::Other(root) = causes[cause]
        {
            causes[at] = Cause::Other(root);
        }
    }
    causes
}

/// A communicator that hangs.
struct Stuck {
    /// The ranks that the answer names.
    named: BTreeSet<u32>,
    /// The ranks that came to the iteration that is open.
    came: BTreeSet<u32>,
    /// The ranks that wait in it.
    waits: BTreeSet<u32>,
}

impl Stuck {
    fn of(job: &JobOperations, found: &JobDiagnosis) -> Option<Self> {
        let since = found.since_iteration.filter(|_| found.verdict == JobVerdict::Hang && !job.members.is_empty())?;
        let ranks = |is_of: fn(&Operation) -> bool| {
            let operations = job.operations.iter().filter(|one| one.iteration == since && is_of(one));
            operations.map(|operation| operation.source).collect()
        };
        let waits = ranks(|operation| operation.end.is_none());
        Some(Self { named: found.rank.iter().copied().collect(), came: ranks(|_| true), waits })
    }
}

//! Ranks that come late to an operation, because of what they do besides communicating, and who waits for them.
//!
//! Source: C4 (Dong et al., HPCA 2025), the waiting chain of a ring: the late entrant waits least, while its
//! predecessor waits for its buffer and its successor for its data. The thresholds are ours.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use kelpie_monitor::statistics::median;

use super::noise::{CHANCE, PeerNoise};
use super::operation::{JobOperations, Operation};
use super::pair_times::PairTimes;

/// A rank is late that takes longer by this share of the median transfer than the median rank, from the end of its
/// operations in one iteration until it comes to the next.
/// Source: our choice: the same half that makes a message hot.
const LATE: f64 = 0.5;
/// Share of the iterations at the end in which it is late. Source: our choice.
const MOST: f64 = 0.8;
/// Iterations at the end that count. Source: our choice.
const WINDOW: usize = 50;
/// Share of the arrivals that come after the iteration before is over, if there is a barrier. Source: our choice.
const ALL: f64 = 0.95;
/// How much more alike times from a barrier on have to be. Source: our choice.
const MORE_ALIKE: f64 = 0.75;
/// Late now and then is what is late by this many times what ranks usually are off, in this share of the iterations, at
/// so many separate times, of so many iterations at least. Source: our choice, as in `bursts`.
const FAR_OFF: f64 = 7.4;
/// And by this many transfers, if others hardly are. Source: our choice.
const HIGH: f64 = 2.0;
const RARE: f64 = 0.02;
const LEAST_SHARE: f64 = 0.08;
const TIMES: usize = 4;
const ENOUGH: usize = 20;
/// Least lateness that is said beside that of the latest rank. Source: our choice.
const LESS: f64 = 0.3;
/// One half is late if it is apart from the other by more than this many times what the other one differs.
/// Source: our choice, as in `noise`.
const FAR: f64 = 3.0;
/// Fewest iterations since a job is slow that name a rank. Source: our choice.
const FEWEST: usize = 5;
/// Longest chain that is said.
const LONGEST_CHAIN: usize = 64;

/// A rank that comes late.
#[derive(Debug, Clone, PartialEq)]
pub struct LateRank {
    /// The rank.
    pub rank: u32,
    /// How late, in the median. Units: microseconds.
    pub by_us: f64,
    /// First iteration from which it was late.
    pub since: u64,
    /// Who waits for whom, from the rank on.
    pub chain: Vec<u32>,
}

/// How late each rank came: iteration, lateness, and from which lateness on that counts. Units: microseconds.
pub type Lateness = BTreeMap<u32, Vec<(u64, f64, f64)>>;

/// How late each rank came to each iteration.
pub fn lateness(job: &JobOperations, cells: &PairTimes) -> Lateness {
    let mut lateness = Lateness::new();
    let own = own_times(job);
    let is_of_two = job.seen_ranks().len() == 2;
    for ((operations, times), own) in job.iterations().zip(&cells.times).zip(own) {
        if operations.iter().all(|operation| operation.destination.is_none()) {
            shares(operations, &mut lateness);
            continue;
        }
        let Some(usual) = median(&times.iter().map(|(_, time)| *time).collect::<Vec<_>>()) else { continue };
        // Of two ranks, what they do by themselves says nothing of who waits for whom: stages may compute by turns.
        let own = if is_of_two { waits(operations) } else { own };
        let Some(middle) = in_time(own.values().copied().collect(), LATE * usual).filter(|_| own.len() >= 2) else {
            continue;
        };
        if own.len() < 3 && !is_of_two {
            continue;
        }
        for (rank, time) in own {
            lateness.entry(rank).or_default().push((operations[0].iteration, time - middle, LATE * usual));
        }
    }
    lateness
}

/// The median; but if one half is far above all of the other, the last of the lower half, because then the upper half
/// may be late.
fn in_time(mut values: Vec<f64>, least: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let lower = *values.get(values.len().checked_sub(1)? / 2)?;
    let gap = values[values.len() / 2] - lower;
    Some(if gap > (FAR * (lower - values[0])).max(least) { lower } else { lower + gap / 2.0 })
}

/// How long others wait for each rank when they send to it.
fn waits(operations: &[Operation]) -> BTreeMap<u32, f64> {
    let mut waits = BTreeMap::new();
    for operation in operations {
        if let (Some(rank), Some(wait)) = (operation.destination, operation.wait()) {
            let most: &mut f64 = waits.entry(rank).or_default();
            *most = most.max(wait);
        }
    }
    waits
}

/// The ranks that come late at the end of a job, and how many more do by what may be noise. `since` is from which
/// iteration on the job is known to be slow, if that is known.
pub fn late(job: &JobOperations, lateness: &Lateness, since: Option<u64>) -> (Vec<LateRank>, usize) {
    let window = |values: &'_ [(u64, f64, f64)]| {
        let from = since.map_or_else(
            || {
                let from = values.len().saturating_sub(WINDOW);
                from + (values.len() - from) / 2
            },
            |since| values.partition_point(|(iteration, ..)| *iteration < since),
        );
        from..values.len()
    };
    let recent = |values: &[(u64, f64, f64)]| -> Vec<f64> {
        values[window(values)].iter().map(|(_, late, limit)| LATE * late / limit).collect()
    };
    let mut shares: Vec<Vec<f64>> = lateness.values().map(|values| recent(values)).collect();
    let often = |shares: &Vec<f64>| {
        let count = shares.iter().filter(|share| **share > LATE).count();
        count > 0 && count as f64 >= MOST * shares.len() as f64
    };
    let candidates: Vec<usize> = (0..shares.len()).filter(|rank| often(&shares[*rank])).collect();
    if candidates.is_empty() {
        return (Vec::new(), 0);
    }
    // Who takes long varies by as much more, so large shares count as logarithms do.
    shares.iter_mut().flatten().for_each(|share| *share = libm::asinh(*share));
    let noise = PeerNoise::new(shares.iter().map(Vec::as_slice));
    let is_more = |rank: &usize| {
        (since.is_none() || shares[*rank].len() >= FEWEST) && noise.stand_out(std::iter::once(*rank), 0.0, shares.len())
    };
    let (confirmed, doubtful): (Vec<usize>, Vec<usize>) = candidates.into_iter().partition(is_more);
    let of = |(rank, values): (&u32, &Vec<(u64, f64, f64)>)| {
        let window = &values[window(values)];
        let by_us = median(&window.iter().map(|(_, late, _)| *late).collect::<Vec<_>>())?;
        Some(LateRank { rank: *rank, by_us, since: since_when(values, by_us)?, chain: chain(job, *rank) })
    };
    let mut found: Vec<LateRank> = lateness
        .iter()
        .enumerate()
        .filter(|(rank, _)| confirmed.contains(rank))
        .filter_map(|(_, one)| of(one))
        .collect();
    // What a late rank holds up may look late by its share, so what is much less late than the latest is not named.
    let most = found.iter().map(|late| late.by_us).fold(0.0, f64::max);
    found.retain(|late| late.by_us > LESS * most);
    (found, doubtful.len())
}

/// A rank that comes late in some iterations only, again and again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LateAtTimes {
    /// The rank.
    pub rank: u32,
    /// How late it comes then, in the median. Units: microseconds.
    pub by_us: f64,
    /// Share of the iterations in which it does.
    pub share: f64,
}

/// The ranks that come late now and then, more often than others by more than chance makes.
pub fn late_at_times(lateness: &Lateness) -> Vec<LateAtTimes> {
    let off = |values: &[(u64, f64, f64)]| median(&values.iter().map(|(_, late, _)| late.abs()).collect::<Vec<_>>());
    let usual = median(&lateness.values().filter_map(|values| off(values)).collect::<Vec<_>>()).unwrap_or(0.0);
    let one = |(rank, values): (&u32, &Vec<(u64, f64, f64)>)| {
        let is_late = |(_, late, limit): &(u64, f64, f64)| *late > (limit * HIGH / LATE).max(FAR_OFF * usual);
        let all: Vec<f64> = values.iter().filter(|value| is_late(value)).map(|(_, late, _)| *late).collect();
        let times = (0..values.len()).filter(|at| is_late(&values[*at]) && (*at == 0 || !is_late(&values[at - 1])));
        let (times, share) = (times.count(), all.len() as f64 / values.len().max(1) as f64);
        let by_us = median(&all).unwrap_or(0.0);
        let mut rest: Vec<f64> = values.iter().filter(|value| !is_late(value)).map(|(_, late, _)| late.abs()).collect();
        rest.sort_unstable_by(f64::total_cmp);
        // Noise has a tail, and what is late now and then is apart from it.
        let is_apart = rest.get(rest.len() * 19 / 20).is_some_and(|most| by_us >= FAR * most);
        (LateAtTimes { rank: *rank, by_us, share }, if is_apart { times } else { 0 }, values.len())
    };
    let all: Vec<(LateAtTimes, usize, usize)> = lateness.iter().map(one).collect();
    let usual = median(&all.iter().map(|(late, ..)| late.share).collect::<Vec<_>>()).unwrap_or(0.0);
    let stands_out = |(late, times, count): &&(LateAtTimes, usize, usize)| {
        let (n, above) = (*count as f64, late.share - usual);
        let expected = usual.max(1.0 / n);
        let gain = n * above * above / (2.0 * expected * (1.0 - expected));
        *count >= ENOUGH
            && *times >= TIMES
            && usual <= RARE
            && above >= LEAST_SHARE
            && gain >= (all.len() as f64 / CHANCE).ln()
    };
    all.iter().filter(stands_out).map(|(late, ..)| *late).collect()
}

/// The iteration from which a rank was late, apart from exceptions.
fn since_when(values: &[(u64, f64, f64)], by_us: f64) -> Option<u64> {
    let (mut score, mut best) = (0.0, None::<(f64, u64)>);
    for (iteration, late, limit) in values.iter().rev() {
        // What is late in less than the share that counts is not late yet.
        score += if *late > limit.min(by_us / 2.0) { 1.0 - MOST } else { -MOST };
        if best.is_none_or(|(most, _)| score >= most) {
            best = Some((score, *iteration));
        }
    }
    best.map(|(_, since)| since)
}

/// How long each rank was busy with itself in each iteration: from the end of an operation, or from its last arrival,
/// to its next arrival. So a rank that was held up by a slow message takes no longer by itself.
///
/// A barrier that the records do not have makes those wait who came in time, and looks like their own time. If nobody
/// ever comes before all of the iteration before is over, and times from then on are more alike, that is what counts.
fn own_times(job: &JobOperations) -> Vec<BTreeMap<u32, f64>> {
    let [by_rank, by_barrier] = [false, true].map(|is_barrier| own_times_from(job, is_barrier));
    let is_possible = by_barrier.1 as f64 >= ALL * by_barrier.2 as f64 && by_barrier.2 > 0;
    let spread = |all: &[BTreeMap<u32, f64>]| -> f64 {
        // What is late takes longer, so the quickest say what is usual if most wait for one.
        let of_one = |own: &BTreeMap<u32, f64>| {
            let mut times: Vec<f64> = own.values().copied().collect();
            times.sort_unstable_by(f64::total_cmp);
            let low = times.get(times.len().saturating_sub(1) / 8).copied().unwrap_or(0.0);
            times.iter().map(|time| (time - low).abs()).sum::<f64>()
        };
        // Of the first iteration nothing before it is known.
        all.iter().skip(1).map(of_one).sum()
    };
    let is_more_alike = spread(&by_barrier.0) < MORE_ALIKE * spread(&by_rank.0);
    if is_possible && is_more_alike { by_barrier.0 } else { by_rank.0 }
}

/// The same, each rank from its own last moment on, or all from the end of the iteration before; how many came after
/// that end, and how many came.
fn own_times_from(job: &JobOperations, is_barrier: bool) -> (Vec<BTreeMap<u32, f64>>, usize, usize) {
    let (mut after, mut all) = (0, 0);
    let mut last: HashMap<u32, f64> = HashMap::new();
    let mut over: Option<f64> = None;
    let mut found = Vec::new();
    for operations in job.iterations() {
        let mut arrivals: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let mut ends: HashMap<u32, Vec<f64>> = HashMap::new();
        for operation in operations {
            if let Some(time) = operation.entered {
                arrivals.entry(operation.source).or_default().push(time);
            }
            let Some(end) = operation.end else { continue };
            for rank in [Some(operation.source), operation.destination].into_iter().flatten() {
                ends.entry(rank).or_default().push(end);
            }
        }
        ends.values_mut().for_each(|ends| ends.sort_unstable_by(f64::total_cmp));
        let mut own = BTreeMap::new();
        for (rank, mut times) in arrivals {
            times.sort_unstable_by(f64::total_cmp);
            let ends = ends.get(&rank).map_or(&[][..], Vec::as_slice);
            let before = last.get(&rank).copied();
            let since = if is_barrier { [over, before].into_iter().flatten().max_by(f64::total_cmp) } else { before };
            if let (Some(over), Some(first)) = (over, times.first()) {
                all += 1;
                after += usize::from(*first >= over);
            }
            // Of the first iteration, arrivals alone are known.
            let mut moment = since.unwrap_or(0.0);
            let mut sum = 0.0;
            for time in times {
                let ended = ends[..ends.partition_point(|end| *end <= time)].last().copied();
                moment = ended.map_or(moment, |ended| moment.max(ended));
                sum += (time - moment).max(0.0);
                moment = moment.max(time);
            }
            own.insert(rank, sum);
            last.insert(rank, moment);
        }
        for (rank, ends) in ends {
            if let Some(end) = ends.last() {
                let moment = last.entry(rank).or_insert(*end);
                *moment = moment.max(*end);
                over = Some(over.map_or(*end, |over| over.max(*end)));
            }
        }
        found.push(own);
    }
    (found, after, all)
}

/// Of collectives only each rank's own time is known: who came late has the shortest one, by as much as the others
/// wait.
fn shares(operations: &[Operation], lateness: &mut Lateness) {
    let times: Vec<f64> = operations.iter().filter_map(Operation::duration).collect();
    let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
    // Who is in time takes longest.
    let usual = in_time(times.iter().map(|time| -time).collect(), LATE * shortest).map(|usual| -usual);
    let Some(usual) = usual.filter(|_| times.len() >= 3) else { return };
    for operation in operations {
        if let Some(time) = operation.duration() {
            lateness.entry(operation.source).or_default().push((operation.iteration, usual - time, LATE * shortest));
        }
    }
}

/// From the late rank along what it sends, as long as the next one has to wait or there is one way only.
fn chain(job: &JobOperations, origin: u32) -> Vec<u32> {
    let last = job.operations.last().map_or(0, |operation| operation.iteration);
    let recent = job.operations.iter().rev().take_while(|operation| operation.iteration == last);
    let mut next: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for operation in recent {
        if let Some(destination) = operation.destination {
            next.entry(operation.source).or_default().insert(destination);
        }
    }
    let mut chain = vec![origin];
    while let Some(after) = chain.last().and_then(|rank| next.get(rank)).filter(|all| all.len() == 1) {
        let Some(after) = after.first() else { break };
        if chain.contains(after) || chain.len() >= LONGEST_CHAIN {
            break;
        }
        chain.push(*after);
    }
    chain
}

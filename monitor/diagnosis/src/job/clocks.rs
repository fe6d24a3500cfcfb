//! How far the clocks of ranks are apart, from messages both ways: one way looks faster by as much as the other one
//! looks slower. What is slow for another reason is never faster.
//!
//! Source: the offset of two clocks from the times of messages both ways, as NTP has it (RFC 5905, section 8).

use std::collections::{BTreeMap, BTreeSet};

use kelpie_monitor::statistics::median;

use super::operation::{JobOperations, Operation};

/// Offsets below this share of a usual message are left alone. Source: our choice.
const LEAST: f64 = 0.2;
/// Differences both ways below this many times the median difference of pairs are none. Source: our choice.
const SPREADS: f64 = 4.0;
/// What offsets have to leave of the differences both ways. Source: our choice.
const LEFT: f64 = 0.2;
/// How much faster a message has to look, as a share of the offset. Source: our choice: half of it for noise.
const FASTER: f64 = 0.5;
/// Iterations at the end, and messages of them, that are looked at. Source: our choice, because clocks drift.
const RECENT: usize = 50;
const MOST_MESSAGES: usize = 1 << 17;
/// Share of messages that may be left out of what is healthy. Source: our choice.
const FEW: f64 = 0.05;
/// Share of the job that counts as its past. Source: our choice.
const EARLY: usize = 4;
/// Rounds in which offsets settle. Source: our choice.
const ROUNDS: usize = 50;

/// The clocks of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Clocks {
    /// By how much each rank's clock is ahead; none if clocks agree. Units: microseconds.
    ahead: BTreeMap<u32, f64>,
    /// Messages that end before they begin, if offsets are taken away as far as known, and all messages.
    pub impossible: (usize, usize),
}

impl Clocks {
    /// Of a job whose messages begin by the clock of the sender and end by that of the receiver.
    pub fn of(job: &JobOperations) -> Self {
        let begin = |operation: &Operation| operation.begin.or(operation.entered);
        let first = job.operations.iter().find_map(begin);
        // Times since each one's own begin have no clock.
        if job.operations.iter().all(|operation| begin(operation).is_none_or(|begin| Some(begin) == first)) {
            return Self::default();
        }
        let times = times(job.iterations().rev().take(RECENT));
        // Only a quarter of the job is its past: a fault may have begun soon.
        let early = job.iterations().count().div_ceil(EARLY).min(RECENT);
        let past = medians(&self::times(job.iterations().take(early)));
        let mut clocks = Self { ahead: offsets(&medians(&times), &past).unwrap_or_default(), ..Self::default() };
        let all = times.iter().flat_map(|((from, to), times)| times.iter().map(|time| time - clocks.apart(*from, *to)));
        let (mut wrong, mut count) = (0, 0);
        for time in all {
            count += 1;
            wrong += usize::from(time <= 0.0);
        }
        clocks.impossible = (wrong, count);
        clocks
    }

    /// By how much the clock of `to` is ahead of that of `from`. Units: microseconds.
    fn apart(&self, from: u32, to: u32) -> f64 {
        self.ahead(to) - self.ahead(from)
    }

    /// By how much a rank's clock is ahead. Units: microseconds.
    fn ahead(&self, rank: u32) -> f64 {
        self.ahead.get(&rank).copied().unwrap_or(0.0)
    }

    /// The job by one clock.
    pub fn corrected(&self, job: &JobOperations) -> JobOperations {
        let mut job = job.clone();
        for operation in &mut job.operations {
            let [from, to] =
                [operation.source, operation.destination.unwrap_or(operation.source)].map(|rank| self.ahead(rank));
            operation.entered = operation.entered.map(|time| time - from);
            operation.begin = operation.begin.map(|time| time - from);
            operation.end = operation.end.map(|time| time - to);
        }
        job
    }

    /// Whether so many messages end before they begin that no time can be trusted.
    pub fn are_too_far_apart(&self) -> bool {
        let (wrong, all) = self.impossible;
        wrong > 0 && wrong as f64 >= LEAST * all as f64
    }

    /// Whether messages that end before they begin are more than a few, so that what was left out may be slow.
    pub fn hide_much(&self) -> bool {
        let (wrong, all) = self.impossible;
        wrong as f64 > FEW * all as f64
    }

    /// The largest offset between two clocks. Units: microseconds.
    pub fn furthest(&self) -> Option<f64> {
        let values = || self.ahead.values().copied();
        (!self.ahead.is_empty()).then(|| values().fold(0.0, f64::max) - values().fold(0.0, f64::min))
    }
}

type Pairs<T> = BTreeMap<(u32, u32), T>;

/// What messages took by the clocks of both ends.
fn times<'j>(iterations: impl Iterator<Item = &'j [Operation]>) -> Pairs<Vec<f64>> {
    let mut times: Pairs<Vec<f64>> = BTreeMap::new();
    for operation in iterations.flatten().take(MOST_MESSAGES) {
        let begin = operation.begin.or(operation.entered);
        if let (Some(to), Some(begin), Some(end)) = (operation.destination, begin, operation.end) {
            times.entry((operation.source, to)).or_default().push(end - begin);
        }
    }
    times
}

fn medians(times: &Pairs<Vec<f64>>) -> Pairs<f64> {
    times.iter().filter_map(|(pair, times)| Some((*pair, median(times)?))).collect()
}

/// The offsets that explain the differences both ways, if they do and are worth it. `past` is what messages took at the
/// begin of the job.
fn offsets(took: &Pairs<f64>, past: &Pairs<f64>) -> Option<BTreeMap<u32, f64>> {
    let both = |(from, to): (u32, u32)| Some((took.get(&(from, to))? - took.get(&(to, from))?) / 2.0);
    let differences: BTreeMap<(u32, u32), f64> = took.keys().filter_map(|pair| Some((*pair, both(*pair)?))).collect();
    // What a message takes where nothing is slow, whatever the clocks: the mean of both ways, and of pairs the lower
    // quarter.
    let mean = |(from, to): &(u32, u32)| Some(f64::midpoint(*took.get(&(*from, *to))?, *took.get(&(*to, *from))?));
    let mut means: Vec<f64> = differences.keys().filter_map(mean).collect();
    means.sort_unstable_by(f64::total_cmp);
    let usual = *means.get(means.len() / 4)?;
    // Both ways of a pair differ a little by themselves, as pairs do, which must not add up from rank to rank.
    let spread = median(&means.iter().map(|mean| (mean - usual).abs()).collect::<Vec<_>>())?;
    let least = (SPREADS * spread).max(LEAST * usual.abs());
    let differences: BTreeMap<(u32, u32), f64> =
        differences.into_iter().map(|(pair, one)| (pair, if one.abs() < least { 0.0 } else { one })).collect();
    let large = median(&differences.values().map(|one| one.abs()).collect::<Vec<_>>())?;
    if differences.values().all(|one| *one == 0.0) {
        return None;
    }
    let mut partners: BTreeMap<u32, Vec<(u32, f64)>> = BTreeMap::new();
    for (&(from, to), difference) in &differences {
        partners.entry(to).or_default().push((from, *difference));
    }
    // Along a tree first, so that what is far from the first rank has its offset at once.
    let mut ahead: BTreeMap<u32, f64> = BTreeMap::new();
    for &first in partners.keys() {
        if ahead.contains_key(&first) {
            continue;
        }
        ahead.insert(first, 0.0);
        let mut next = vec![first];
        while let Some(rank) = next.pop() {
            for &(to, _) in &partners[&rank] {
                if !ahead.contains_key(&to) {
                    ahead.insert(to, ahead[&rank] + differences[&(rank, to)]);
                    next.push(to);
                }
            }
        }
    }
    for _ in 0..ROUNDS {
        let settled = |(rank, _): (&u32, &f64)| {
            let told: Vec<f64> = partners[rank].iter().map(|(from, difference)| ahead[from] + difference).collect();
            (*rank, median(&told).unwrap_or(0.0))
        };
        ahead = ahead.iter().map(settled).collect();
    }
    let middle = median(&ahead.values().copied().collect::<Vec<_>>())?;
    for one in ahead.values_mut() {
        *one -= middle;
    }
    // Only of a clock does a whole direction look faster than messages are.
    let faster = |rank: u32, took: &Pairs<f64>| {
        let way = |pair: fn(u32, u32) -> (u32, u32)| {
            let times = partners[&rank].iter().filter_map(|(other, _)| took.get(&pair(rank, *other)).copied());
            median(&times.collect::<Vec<_>>()).unwrap_or(f64::INFINITY)
        };
        way(|rank, other| (rank, other)).min(way(|rank, other| (other, rank)))
    };
    // A rank's own messages do not say how long messages are: if one way is slow, the mean of both ways is as well.
    let has_others = |rank: u32| differences.keys().any(|(from, to)| *from != rank && *to != rank);
    let is_clock = |rank: &u32, one: &f64| {
        let faster_now = faster(*rank, took);
        let usual = if has_others(*rank) { usual } else { faster(*rank, past) };
        faster_now <= 0.0 || usual - faster_now > FASTER * one.abs()
    };
    let wrong: BTreeSet<u32> = ahead
        .iter()
        .filter(|(rank, one)| one.abs() > LEAST * usual.abs() && !is_clock(rank, one))
        .map(|(rank, _)| *rank)
        .collect();
    for rank in wrong {
        ahead.insert(rank, 0.0);
    }
    let left = differences.iter().map(|((from, to), one)| (one - (ahead[to] - ahead[from])).abs());
    let left = median(&left.collect::<Vec<_>>())?;
    let far = ahead.values().any(|one| one.abs() > LEAST * usual.abs());
    (far && left <= (LEFT * large).max(LEAST * usual.abs())).then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages between all pairs of four ranks: 1000 us, as clocks show it, and what else is slow.
    fn took(ahead: [f64; 4], slow: impl Fn(u32, u32) -> f64) -> BTreeMap<(u32, u32), f64> {
        let pairs = (0..4).flat_map(|from| (0..4).filter(move |to| *to != from).map(move |to| (from, to)));
        pairs
            .map(|(from, to)| {
                let noise = f64::from(from * 7 + to * 3) % 5.0;
                ((from, to), 1000.0 + noise + slow(from, to) + ahead[to as usize] - ahead[from as usize])
            })
            .collect()
    }

    fn of(took: &Pairs<f64>) -> Option<BTreeMap<u32, f64>> {
        offsets(took, took)
    }

    #[test]
    fn a_slow_way_between_two_ranks_or_along_a_pipeline_is_no_clock() {
        let healthy = took([0.0; 4], |_, _| 0.0);
        let only = |all: Pairs<f64>, pairs: &[(u32, u32)]| -> Pairs<f64> {
            all.into_iter().filter(|(pair, _)| pairs.contains(pair)).collect()
        };
        for pairs in [&[(0, 1), (1, 0)][..], &[(0, 1), (1, 0), (1, 2), (2, 1)]] {
            for times in [1.5, 3.0, 10.0] {
                let slow = took([0.0; 4], |from, _| if from == 1 { 1000.0 * (times - 1.0) } else { 0.0 });
                let [slow, past] = [slow, healthy.clone()].map(|all| only(all, pairs));
                assert_eq!(offsets(&slow, &past), None, "{times} times from some iteration on");
                assert_eq!(offsets(&slow, &slow), None, "{times} times from the begin on");
            }
            let apart = only(took([0.0, 5e6, 0.0, 0.0], |_, _| 0.0), pairs);
            assert!(offsets(&apart, &apart).is_some(), "no message ends before it begins");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_is_found_and_a_slow_side_is_no_clock() {
        let ahead = of(&took([0.0, 0.0, 700.0, 0.0], |_, _| 0.0)).expect("a clock");
        assert!((ahead[&2] - 700.0).abs() < 10.0 && ahead[&0].abs() < 10.0, "{ahead:?}");
        let far = of(&took([0.0, 0.0, 5e6, 0.0], |_, _| 0.0)).expect("a clock");
        assert!((far[&2] - 5e6).abs() < 10.0, "{far:?}");
        for by in [100.0, 200.0, 900.0] {
            assert_eq!(of(&took([0.0; 4], |from, _| if from == 2 { by } else { 0.0 })), None, "a slow source");
            assert_eq!(of(&took([0.0; 4], |_, to| if to == 2 { by } else { 0.0 })), None, "a slow destination");
        }
        assert_eq!(of(&took([0.0; 4], |_, _| 0.0)), None);
    }
}

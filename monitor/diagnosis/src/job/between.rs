//! Two groups of ranks between which messages are slow, and not within them; or a host within which they are.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::explain::Shift;
use super::pair_times::PairTimes;

/// A group explains what is slow if this share of its messages is, and this share of what is slow is in it.
/// Source: our choice.
const MOST: f64 = 0.9;
/// Fewest messages, and ranks of a side, of a group. Source: our choice: fewer are named one by one.
const LEAST: usize = 4;
const RANKS: usize = 2;

/// The groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Between {
    /// Ranks that send.
    pub from: Vec<u32>,
    /// Ranks that receive; the same ones, if it is within a host.
    pub to: Vec<u32>,
    /// Whether it is so in both directions.
    pub both_ways: bool,
    /// The hosts of both sides, where the records name hosts and each is on one side with all of its ranks.
    pub hosts: Option<[Vec<String>; 2]>,
}

/// The groups that explain what is slower by at least `least`, as a logarithm.
pub fn between(cells: &PairTimes, shifts: &[Shift], least: f64) -> Option<Between> {
    let measured: Vec<u32> = (0..cells.pairs.len() as u32).filter(|cell| shifts[*cell as usize].weight > 0.0).collect();
    let ends = |cell: u32| cells.pairs[cell as usize].1.map(|to| (cells.pairs[cell as usize].0, to));
    let is_slow = |cell: u32| shifts[cell as usize].value > least;
    let slow: BTreeSet<(u32, u32)> =
        measured.iter().filter(|cell| is_slow(**cell)).filter_map(|cell| ends(*cell)).collect();
    let all: BTreeSet<(u32, u32)> = measured.iter().filter_map(|cell| ends(*cell)).collect();
    if slow.len() < LEAST || slow.len() == all.len() {
        return None;
    }
    let explains = |from: &BTreeSet<u32>, to: &BTreeSet<u32>| {
        let line = |from: &BTreeSet<u32>, to: &BTreeSet<u32>| {
            let of: Vec<_> = all.iter().filter(|(one, other)| from.contains(one) && to.contains(other)).collect();
            (of.len(), of.iter().filter(|pair| slow.contains(pair)).count())
        };
        let (count, hot) = line(from, to);
        let (back, hot_back) = if from == to { (0, 0) } else { line(to, from) };
        let is_most = |hot: usize, count: usize| count > 0 && hot as f64 >= MOST * count as f64;
        let (forth, back) = (is_most(hot, count), is_most(hot_back, back));
        let explained = if forth { hot } else { 0 } + if back { hot_back } else { 0 };
        (explained >= LEAST && is_most(explained, slow.len())).then(|| {
            let (from, to) = if forth { (from, to) } else { (to, from) };
            let hosts = [hosts(cells, from), hosts(cells, to)];
            Between {
                from: from.iter().copied().collect(),
                to: to.iter().copied().collect(),
                both_ways: forth && back,
                hosts: if let [Some(from), Some(to)] = hosts { Some([from, to]) } else { None },
            }
        })
    };
    let mut of_hosts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for rank in all.iter().flat_map(|(from, to)| [*from, *to]) {
        if let Some(host) = cells.host_of(rank) {
            of_hosts.entry(host).or_default().insert(rank);
        }
    }
    // The hosts of most of what is slow are the only ones that may explain it.
    let mut counts: BTreeMap<[u32; 2], usize> = BTreeMap::new();
    for (from, to) in &slow {
        if let (Some(from), Some(to)) = (cells.host_of(*from), cells.host_of(*to)) {
            *counts.entry([from.min(to), from.max(to)]).or_default() += 1;
        }
    }
    let pair = counts.iter().max_by_key(|(_, count)| **count).map(|(pair, _)| *pair);
    let pair = pair.filter(|pair| pair.iter().all(|host| of_hosts[host].len() >= RANKS));
    if let Some(found) = pair.and_then(|[one, other]| explains(&of_hosts[&one], &of_hosts[&other])) {
        return Some(found);
    }
    // Ranks that exchange messages that are not slow are of one side.
    let mut side: BTreeMap<u32, u32> = all.iter().flat_map(|(from, to)| [(*from, *from), (*to, *to)]).collect();
    for (from, to) in all.iter().filter(|(from, to)| !slow.contains(&(*from, *to)) && !slow.contains(&(*to, *from))) {
        let [one, other] = [side[from], side[to]];
        if one != other {
            side.values_mut().filter(|side| **side == other).for_each(|side| *side = one);
        }
    }
    let mut sides: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (rank, side) in side {
        sides.entry(side).or_default().insert(rank);
    }
    let mut sides = sides.into_values();
    match (sides.next(), sides.next(), sides.next()) {
        (Some(one), Some(other), None) if one.len().min(other.len()) >= RANKS => explains(&one, &other),
        _ => None,
    }
}

/// The hosts of ranks, if these are all ranks of them.
fn hosts(cells: &PairTimes, ranks: &BTreeSet<u32>) -> Option<Vec<String>> {
    let hosts: Option<BTreeSet<u32>> = ranks.iter().map(|rank| cells.host_of(*rank)).collect();
    let hosts = hosts?;
    let others = cells.pairs.iter().flat_map(|(from, to)| [Some(*from), *to]).flatten();
    let is_whole = others
        .filter(|rank| !ranks.contains(rank))
        .all(|rank| cells.host_of(rank).is_some_and(|host| !hosts.contains(&host)));
    is_whole.then(|| hosts.iter().map(|host| cells.host_names[*host as usize].clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sides_are_told_from_their_ranks_alone_and_a_slow_rank_is_none() {
        let pairs: Vec<(u32, u32)> =
            (0..12).flat_map(|one| (0..12).filter(move |to| *to != one).map(move |to| (one, to))).collect();
        let found = |is_slow: &dyn Fn(u32, u32) -> bool| {
            let shift = |(from, to): &(u32, u32)| if is_slow(*from, *to) { 1.0 } else { 0.0 };
            let shifts: Vec<Shift> = pairs.iter().map(|pair| Shift { value: shift(pair), weight: 1.0 }).collect();
            between(&PairTimes::of_pairs(&pairs), &shifts, 0.5)
        };
        let both = found(&|from, to| (from < 5) != (to < 5)).expect("two sides");
        assert_eq!((both.from.len() + both.to.len(), both.both_ways, both.hosts), (12, true, None));
        let one = found(&|from, to| from >= 5 && to < 5).expect("one way");
        assert_eq!((one.from, one.to, one.both_ways), ((5..12).collect(), (0..5).collect(), false));
        let others: [fn(u32, u32) -> bool; 4] =
            [|from, to| from == 3 || to == 3, |from, _| from == 3, |_, _| true, |_, _| false];
        for is_slow in others {
            assert_eq!(found(&is_slow), None);
        }
    }
}

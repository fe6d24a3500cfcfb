//! Which host of a slow pair is bad: decided from all its pairs, and from a few more that are chosen to tell. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// Pairs of a host from which on its own pairs decide. Source: our choice; one pair has two ends.
const ENOUGH: usize = 2;
/// Share of its pairs that are slow from which on a host is what is slow: two of three. Source: our choice: a bad host
/// is slow with all others, and one that is not is slow with bad ones alone, whose pairs no longer count.
const MOSTLY: f64 = 0.6;
/// Partners that a host is asked for at a time.
const PARTNERS: usize = 2;

/// Pairs of one metric, and which of them are slow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PairTable {
    pairs: BTreeMap<(usize, usize), bool>,
}

/// What the pairs of a metric say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Hosts that are slow themselves, with their slow pairs and all that count, the clearest first.
    pub hosts: Vec<(usize, usize, usize)>,
    /// Slow pairs, both of whose ends are fast with others: what lies between them is slow.
    pub between: Vec<(usize, usize)>,
    /// Slow pairs of which no other pair says which end is slow.
    pub open: Vec<(usize, usize)>,
}

impl PairTable {
    /// Adds a pair; measured twice, it is slow if it is each time.
    pub fn add(&mut self, one: usize, other: usize, is_slow: bool) {
        let kept = self.pairs.entry((one.min(other), one.max(other))).or_insert(true);
        *kept &= is_slow;
    }

    /// What the pairs say.
    pub fn decide(&self) -> Decision {
        let mut decision = Decision::default();
        let mut bad = BTreeSet::new();
        let fast = self.pairs.iter().filter(|(_, is_slow)| !**is_slow);
        let proven: BTreeSet<usize> = fast.flat_map(|((one, other), _)| [*one, *other]).collect();
        loop {
            let mut tally: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
            // Of hosts that are slow with each other alone, one may be well.
            let mut is_told: BTreeSet<usize> = BTreeSet::new();
            for ((one, other), is_slow) in
                self.pairs.iter().filter(|((one, other), _)| !bad.contains(one) && !bad.contains(other))
            {
                for (host, partner) in [(one, other), (other, one)] {
                    let (slow, all) = tally.entry(*host).or_default();
                    (*slow, *all) = (*slow + usize::from(*is_slow), *all + 1);
                    if *is_slow && proven.contains(partner) {
                        is_told.insert(*host);
                    }
                }
            }
            let is_bad = |(slow, all): (usize, usize)| slow >= ENOUGH && slow as f64 >= MOSTLY * all as f64;
            let rank = |(slow, all): (usize, usize)| (slow * 1000 / all, slow);
            let mut worst: Option<(usize, (usize, usize))> = None;
            for (host, counts) in tally.iter().filter(|(host, counts)| is_bad(**counts) && is_told.contains(host)) {
                if worst.is_none_or(|(_, best)| rank(*counts) > rank(best)) {
                    worst = Some((*host, *counts));
                }
            }
            let Some((host, (slow, all))) = worst else {
                let left = self
                    .pairs
                    .iter()
                    .filter(|((one, other), is_slow)| **is_slow && !bad.contains(one) && !bad.contains(other));
                for ((one, other), _) in left {
                    let is_fast = |host: &usize| tally.get(host).is_some_and(|(slow, all)| all > slow);
                    let pairs = if is_fast(one) && is_fast(other) { &mut decision.between } else { &mut decision.open };
                    pairs.push((*one, *other));
                }
                return decision;
            };
            bad.insert(host);
            decision.hosts.push((host, slow, all));
        }
    }

    /// Hosts all of whose partners are bad: a slow pair of theirs would be slow whatever they are.
    pub fn lonely(&self, bad: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut lonely: BTreeSet<usize> = self.pairs.keys().flat_map(|(one, other)| [*one, *other]).collect();
        for (one, other) in self.pairs.keys().filter(|(one, other)| !bad.contains(one) && !bad.contains(other)) {
            lonely.remove(one);
            lonely.remove(other);
        }
        lonely.difference(bad).copied().collect()
    }

    /// Pairs to measure next, so that each slow one has an answer: an end with too few pairs of its own is measured
    /// with hosts that are fast with all others. `is_there` says which hosts still answer.
    pub fn questions(&self, hosts: usize, is_there: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
        let decision = self.decide();
        let mut slow: BTreeMap<usize, usize> = BTreeMap::new();
        let mut count: BTreeMap<usize, usize> = BTreeMap::new();
        for ((one, other), is_slow) in &self.pairs {
            for host in [*one, *other] {
                *slow.entry(host).or_default() += usize::from(*is_slow);
                *count.entry(host).or_default() += 1;
            }
        }
        let is_good = |host: usize| count.contains_key(&host) && slow.get(&host) == Some(&0);
        let bad: BTreeSet<usize> = decision.hosts.iter().map(|(host, ..)| *host).collect();
        let lonely = self.lonely(&bad);
        let mut asked: BTreeSet<(usize, usize)> = BTreeSet::new();
        let mut load: BTreeMap<usize, usize> = BTreeMap::new();
        let ends = decision.open.iter().chain(&decision.between).map(|(one, other)| vec![*one, *other]);
        for hosts_of_pair in ends.chain([lonely.iter().copied().collect()]) {
            for host in hosts_of_pair {
                let others = (0..hosts).map(|step| (host + 1 + step) % hosts);
                let mut partners: Vec<usize> = others
                    .filter(|partner| *partner != host && is_there(*partner) && is_good(*partner))
                    .filter(|partner| !self.pairs.contains_key(&(host.min(*partner), host.max(*partner))))
                    .collect();
                // The same few are not asked for all.
                partners.sort_by_key(|partner| load.get(partner).copied().unwrap_or_default());
                // Pairs with bad hosts say nothing.
                let has = if lonely.contains(&host) { 0 } else { count.get(&host).copied().unwrap_or_default() };
                for partner in partners.into_iter().take(PARTNERS.min((ENOUGH + 1).saturating_sub(has))) {
                    *load.entry(partner).or_default() += 1;
                    asked.insert((host.min(partner), host.max(partner)));
                }
            }
        }
        asked.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(pairs: &[(usize, usize, bool)]) -> PairTable {
        let mut table = PairTable::default();
        for (one, other, is_slow) in pairs {
            table.add(*one, *other, *is_slow);
        }
        table
    }

    #[test]
    fn a_host_that_is_slow_with_all_others_is_what_is_slow() {
        let decision = table(&[(0, 1, true), (0, 2, true), (1, 2, false), (1, 3, false)]).decide();
        assert_eq!(decision, Decision { hosts: vec![(0, 2, 2)], ..Decision::default() });
    }

    #[test]
    fn a_slow_pair_of_two_that_are_fast_with_others_is_what_lies_between() {
        let decision = table(&[(0, 1, true), (0, 2, false), (1, 3, false)]).decide();
        assert_eq!((decision.between, decision.hosts.len()), (vec![(0, 1)], 0));
    }

    #[test]
    fn one_pair_alone_is_open_until_others_tell() {
        let mut one = table(&[(0, 1, true), (2, 3, false), (4, 5, false)]);
        assert_eq!(one.decide().open, [(0, 1)]);
        let questions = one.questions(6, |host| host != 5);
        assert_eq!(questions.iter().filter(|(end, _)| *end == 0).count(), 2, "{questions:?}");
        assert!(questions.iter().all(|(_, partner)| *partner != 5));
        for (end, partner) in &questions {
            one.add(*end, *partner, *end == 0);
        }
        assert_eq!(one.decide().hosts, [(0, 3, 3)]);
        assert!(one.questions(6, |_| true).is_empty());
    }

    #[test]
    fn a_pair_that_was_slow_once_of_two_times_is_not() {
        assert_eq!(table(&[(0, 1, true), (1, 0, false)]).decide(), Decision::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Whoever is bad, a quick scan and what is asked behind it names them and nobody else, as long as there are
        /// hosts enough that are good.
        #[test]
        fn those_that_are_bad_are_named(
            hosts in 8..40_usize,
            bad in proptest::collection::btree_set(0..40_usize, 0..3),
            shifts in proptest::collection::btree_set(1..4_usize, 1..3),
        ) {
            let bad: BTreeSet<usize> = bad.into_iter().filter(|host| *host < hosts).collect();
            let is_slow = |one: usize, other: usize| bad.contains(&one) || bad.contains(&other);
            let mut table = PairTable::default();
            for shift in shifts {
                for block in (0..hosts).step_by(2 * shift) {
                    for one in block..(block + shift).min(hosts) {
                        if one + shift < hosts {
                            table.add(one, one + shift, is_slow(one, one + shift));
                        }
                    }
                }
            }
            for _ in 0..3 {
                for (one, other) in table.questions(hosts, |_| true) {
                    table.add(one, other, is_slow(one, other));
                }
            }
            let decision = table.decide();
            let named: BTreeSet<usize> = decision.hosts.iter().map(|(host, _, _)| *host).collect();
            let measured: BTreeSet<usize> = table.pairs.keys().flat_map(|(one, other)| [*one, *other]).collect();
            prop_assert_eq!(named, bad.intersection(&measured).copied().collect::<BTreeSet<_>>());
            prop_assert!(decision.between.is_empty() && decision.open.is_empty());
        }
    }
}

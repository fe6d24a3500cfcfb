//! Rounds over hosts: who is measured with whom, and when. In each round a host has one partner at most, so that
//! nothing but the fabric is shared. Pure.
//!
//! Source: SuperBench (Xiong et al., ATC 2024), section 4; open points in `docs/explained/qualification.md`.

use std::collections::BTreeMap;

use kelpie_criteria::SMALL;

/// A round of pairs that share no host.
pub type Round = Vec<(usize, usize)>;

/// All pairs of `count` hosts by the circle method: each pair once, in as few rounds as can be (`count - 1`, or `count`
/// if that is odd and one host rests in each).
pub fn all_pairs(count: usize) -> Vec<Round> {
    if count < 2 {
        return Vec::new();
    }
    // An odd count gets a seat on which nobody sits.
    let seats = count.next_multiple_of(2);
    let others = seats - 1;
    let round = |turn: usize| {
        let seat = |place: usize| if place == 0 { others } else { (turn + place - 1) % others };
        let pairs = (0..seats / 2).map(|place| (seat(place), seat(seats - 1 - place)));
        pairs.filter(|(one, other)| *one < count && *other < count).map(ordered).collect()
    };
    (0..others).map(round).collect()
}

/// Groups of `size` hosts, in order; the last one has what is left. One that would be alone joins the group before.
pub fn batches(count: usize, size: usize) -> Vec<Vec<usize>> {
    let hosts: Vec<usize> = (0..count).collect();
    let mut groups: Vec<Vec<usize>> = hosts.chunks(size.max(1)).map(<[usize]>::to_vec).collect();
    if size > 1 && groups.len() > 1 && groups.last().is_some_and(|last| last.len() == 1) {
        let alone = groups.pop().expect("there are two at least");
        groups.last_mut().expect("there is one").extend(alone);
    }
    groups
}

/// Where a host stands: its pod and its leaf, as numbers; hosts of one leaf are of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Its group of leaves.
    pub pod: usize,
    /// The switch that it is connected to.
    pub leaf: usize,
}

/// How far apart two hosts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// At one leaf.
    Leaf,
    /// At two leaves of one pod.
    Pod,
    /// In two pods.
    Core,
}

impl Distance {
    /// All, from the nearest on.
    pub const ALL: [Self; 3] = [Self::Leaf, Self::Pod, Self::Core];

    /// Between two hosts.
    pub fn between(one: Position, other: Position) -> Self {
        if one.leaf == other.leaf {
            Self::Leaf
        } else if one.pod == other.pod {
            Self::Pod
        } else {
            Self::Core
        }
    }

    /// The name, as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Pod => "pod",
            Self::Core => "core",
        }
    }
}

/// As many pairs at exactly this distance as can be, no host twice.
///
/// Hosts at a distance are those of one group (a pod, say) that stand in different parts of it (leaves), so that the
/// most that can be paired is known: half of the group, or all that is outside of its largest part. Hosts are laid out
/// part by part, and each is paired with the one half a group further on.
pub fn matching(positions: &[Position], distance: Distance) -> Round {
    let group = |position: Position| match distance {
        Distance::Leaf => position.leaf,
        Distance::Pod => position.pod,
        Distance::Core => 0,
    };
    let part = |host: usize| match distance {
        // Two hosts of a leaf are always apart.
        Distance::Leaf => host,
        Distance::Pod => positions[host].leaf,
        Distance::Core => positions[host].pod,
    };
    let mut groups: BTreeMap<usize, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (host, position) in positions.iter().enumerate() {
        groups.entry(group(*position)).or_default().entry(part(host)).or_default().push(host);
    }
    let of_group = |parts: BTreeMap<usize, Vec<usize>>| {
        let mut parts: Vec<Vec<usize>> = parts.into_values().collect();
        parts.sort_by_key(|hosts| std::cmp::Reverse(hosts.len()));
        let largest = parts.first().map_or(0, Vec::len);
        let hosts: Vec<usize> = parts.concat();
        let pairs = (hosts.len() / 2).min(hosts.len() - largest);
        // From the largest part's last hosts on, if that is more than half.
        let step = largest.max(hosts.len() - pairs);
        (0..pairs).map(|place| ordered((hosts[place], hosts[place + step]))).collect::<Round>()
    };
    groups.into_values().flat_map(of_group).collect()
}

/// A round for each distance that the hosts have: every host is measured with one as far away as can be told from its
/// neighbours' by nobody else. A host that has no partner at a distance is measured with another one all the same, in a
/// round behind, so that each round's hosts are all of them. Of a small fleet all pairs are measured, and hosts of a
/// fleet of one distance have two partners.
///
/// Source: SuperBench, section 4 (quick scan); the maximum matching is ours, because a greedy one leaves hosts out.
pub fn quick_scan(positions: &[Position]) -> Vec<Round> {
    // With one partner each, half of a small fleet could be bad and no pair fast.
    if positions.len() <= SMALL {
        return all_pairs(positions.len());
    }
    let mut rounds = Vec::new();
    for distance in Distance::ALL {
        let round = matching(positions, distance);
        if round.is_empty() {
            continue;
        }
        let mut is_paired = vec![false; positions.len()];
        for (one, other) in &round {
            (is_paired[*one], is_paired[*other]) = (true, true);
        }
        let left: Vec<usize> = (0..positions.len()).filter(|host| !is_paired[*host]).collect();
        rounds.push(round);
        let has_partner = |host: usize| {
            let other = (0..positions.len())
                .find(|other| *other != host && Distance::between(positions[host], positions[*other]) == distance);
            other.map(|other| vec![ordered((host, other))])
        };
        rounds.extend(left.into_iter().filter_map(has_partner));
    }
    let has = |distance: Distance| matching(positions, distance).len().min(1);
    if Distance::ALL.into_iter().map(has).sum::<usize>() == 1 {
        rounds.push(others(positions.len()));
    }
    rounds
}

/// Second partners of hosts that have one distance: the ones after the next. With one partner each, the halves of the
/// list would be a bad and a good end of all pairs if one of them was bad, or every other host.
fn others(count: usize) -> Round {
    let whole = count / 4 * 4;
    let fours = (0..whole).filter(|host| host % 4 < 2).map(|host| (host, host + 2));
    fours.chain((count - whole >= 2).then_some((whole, whole + 1))).collect()
}

fn ordered((one, other): (usize, usize)) -> (usize, usize) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The most pairs at a distance, by trying.
    fn most(positions: &[Position], distance: Distance, used: u32) -> usize {
        let Some(host) = (0..positions.len()).find(|host| used >> host & 1 == 0) else { return 0 };
        let used = used | 1 << host;
        let partners = (host + 1..positions.len()).filter(|other| {
            used >> other & 1 == 0 && Distance::between(positions[host], positions[*other]) == distance
        });
        let with = partners.map(|other| 1 + most(positions, distance, used | 1 << other)).max();
        with.unwrap_or(0).max(most(positions, distance, used))
    }

    fn is_disjoint(round: &Round) -> bool {
        let hosts: BTreeSet<usize> = round.iter().flat_map(|(one, other)| [*one, *other]).collect();
        hosts.len() == 2 * round.len()
    }

    #[test]
    fn each_pair_has_its_round() {
        for count in 2..20 {
            let rounds = all_pairs(count);
            assert_eq!(rounds.len(), count.next_multiple_of(2) - 1);
            assert!(rounds.iter().all(|round| round.len() == count / 2 && is_disjoint(round)), "{count}");
            let pairs: BTreeSet<(usize, usize)> = rounds.into_iter().flatten().collect();
            assert_eq!(pairs.len(), count * (count - 1) / 2);
        }
        assert!(all_pairs(0).is_empty() && all_pairs(1).is_empty());
    }

    #[test]
    fn batches_leave_nobody_out() {
        assert_eq!(batches(7, 3), [vec![0, 1, 2], vec![3, 4, 5, 6]]);
        assert_eq!(batches(8, 3), [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
        assert_eq!(batches(3, 8), [vec![0, 1, 2]]);
    }

    /// Ten hosts at leaves of 4, 3 and 3: a greedy matching from the front leaves two of the last leaf alone.
    #[test]
    fn a_quick_scan_measures_every_host_at_every_distance() {
        let leaves = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2];
        let positions: Vec<Position> = leaves.map(|leaf| Position { pod: 0, leaf }).to_vec();
        assert_eq!(matching(&positions, Distance::Pod).len(), 5);
        let rounds = quick_scan(&positions);
        assert_eq!(rounds.len(), 4, "one at the leaf, two for the odd leaves' last hosts, and one across");
    }

    #[test]
    fn a_quick_scan_of_a_small_fleet_measures_all_pairs() {
        let positions = |count: usize| (0..count).map(|leaf| Position { pod: 0, leaf }).collect::<Vec<_>>();
        let pairs = |count: usize| quick_scan(&positions(count)).concat().len();
        assert_eq!([3, SMALL, SMALL + 2].map(pairs), [3, SMALL * (SMALL - 1) / 2, 10]);
    }

    #[test]
    fn a_half_that_is_bad_leaves_pairs_that_are_fast() {
        for count in (10..40).step_by(2) {
            for leaf in [|_: usize| 0, |host: usize| host] {
                let positions: Vec<Position> = (0..count).map(|host| Position { pod: 0, leaf: leaf(host) }).collect();
                let rounds = quick_scan(&positions);
                let is_bad: [&dyn Fn(usize) -> bool; 2] = [&|host| host < count / 2, &|host| host % 2 == 0];
                for is_bad in is_bad {
                    let fast = rounds.iter().flatten().filter(|(one, other)| !is_bad(*one) && !is_bad(*other));
                    assert!(8 * fast.count() >= count, "{count}: {rounds:?}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn no_more_pairs_can_be_had(hosts in proptest::collection::vec((0..3_usize, 0..3_usize), 2..11)) {
            let positions: Vec<Position> =
                hosts.iter().map(|(pod, leaf)| Position { pod: *pod, leaf: 3 * pod + leaf }).collect();
            for distance in Distance::ALL {
                let round = matching(&positions, distance);
                prop_assert!(is_disjoint(&round));
                let apart = |(one, other): &(usize, usize)| Distance::between(positions[*one], positions[*other]);
                prop_assert!(round.iter().all(|pair| apart(pair) == distance));
                prop_assert_eq!(round.len(), most(&positions, distance, 0));
            }
            let rounds = quick_scan(&positions);
            prop_assert!(rounds.iter().all(is_disjoint));
            for (host, position) in positions.iter().enumerate() {
                for distance in Distance::ALL {
                    let has_any = positions.iter().enumerate().any(|(other, there)| other != host && Distance::between(*position, *there) == distance);
                    let is_measured = rounds.iter().flatten().any(|(one, other)| (*one == host || *other == host) && Distance::between(positions[*one], positions[*other]) == distance);
                    prop_assert_eq!(has_any, is_measured);
                }
            }
        }
    }
}

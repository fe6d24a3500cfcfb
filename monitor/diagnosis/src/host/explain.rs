//! The smallest sets of links that explain all abnormal paths. Which paths are abnormal is decided elsewhere.
//!
//! Source: ours. Every measured bandwidth is a lower bound of each link that its path crosses, so an abnormal path at
//! `v` can only be limited by links of which nobody has seen more than about `v`.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::LoopbackPath;

/// How much more a link may have carried than a path that it is said to limit, at least.
/// Source: our choice; at 0.15 noise of 3 % does no harm, and faults of 75 % are told from health.
const TOLERANCE: f64 = 0.15;
/// The same in standard deviations of the noise, and at most: a path of noise below and the best of ten above differ by
/// about that. Source: our choice, by hosts of another seed than those of the page's figures.
const TOLERANCE_NOISE: (f64, f64) = (4.5, 0.25);
/// Largest explanation. Source: our choice, because a host with more faults at once is to be repaired first.
const MAX_SIZE: usize = 8;
/// Most explanations that are named.
const MAX_EXPLANATIONS: usize = 64;
/// Most steps of the search. Source: our choice; it bounds the time at about a second.
const MAX_STEPS: usize = 2_000_000;

/// The paths that cross each link.
pub type Crossing = BTreeMap<usize, Vec<usize>>;
/// Whether what a path carries is a bound of what a link does.
pub type IsBound<'a> = dyn Fn(usize, usize) -> bool + 'a;

/// Per abnormal path, the links that may limit it; below the share `slow` a path is slow. `is_bound` says whether what
/// a path carries is a bound of what a link does.
///
/// If no link fits by what it carried, those fit whose paths are all slower by this share: a link that makes every path
/// slower in proportion, as one does that repeats what it lost. If none does, those fit all of whose paths are slow: of
/// an interconnect, memory and GPUs of the other socket get unequal shares.
pub fn candidates(
    paths: &[LoopbackPath],
    (crossing, is_bound): (&Crossing, &IsBound<'_>),
    ratios: &[Option<f64>],
    abnormal: &[usize],
    noise: f64,
    slow: f64,
) -> Vec<Vec<usize>> {
    let (spreads, most_tolerance) = TOLERANCE_NOISE;
    let tolerance = (spreads * noise).clamp(TOLERANCE, most_tolerance);
    let most = |of: &dyn Fn(usize) -> Option<f64>| -> BTreeMap<usize, f64> {
        let most = |link: usize, crossing: &Vec<usize>| {
            let bounds = crossing.iter().filter(|path| is_bound(**path, link));
            bounds.filter_map(|path| of(*path)).fold(0.0, f64::max)
        };
        crossing.iter().map(|(link, crossing)| (*link, most(*link, crossing))).collect()
    };
    let carried = most(&|path| paths[path].bandwidth);
    let share = most(&|path| ratios[path]);
    let fitting = |path: usize, bounds: &BTreeMap<usize, f64>, value: Option<f64>| -> Vec<usize> {
        let limit = value.unwrap_or(0.0) * (1.0 + tolerance);
        paths[path].links.iter().copied().filter(|link| bounds[link] <= limit).collect()
    };
    abnormal
        .iter()
        .map(|&path| {
            let by_share = || fitting(path, &share, ratios[path]);
            let by_all = || paths[path].links.iter().copied().filter(|link| share[link] < slow).collect();
            let either =
                |links: Vec<usize>, other: &dyn Fn() -> Vec<usize>| if links.is_empty() { other() } else { links };
            either(either(fitting(path, &carried, paths[path].bandwidth), &by_share), &by_all)
        })
        .collect()
}

/// The smallest explanations, and whether these are all of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Explanations {
    /// Sets of links, each sorted.
    pub sets: Vec<Vec<usize>>,
    /// Whether more are equally small, or the search was stopped.
    pub is_cut: bool,
}

/// All smallest sets of links with at least one candidate of every path. A path without candidates is not explained.
pub fn smallest(candidates: &[Vec<usize>]) -> Explanations {
    let mut open: Vec<&Vec<usize>> = candidates.iter().filter(|links| !links.is_empty()).collect();
    open.sort_by_key(|links| (links.len(), links.as_slice()));
    open.dedup();
    if open.is_empty() {
        return Explanations::default();
    }
    // A path with one candidate leaves no choice, so however many such links there are, they cost no search.
    let mut certain: Vec<usize> = open.iter().filter(|links| links.len() == 1).map(|links| links[0]).collect();
    certain.sort_unstable();
    open.retain(|links| !links.iter().any(|link| certain.contains(link)));
    let mut search = ExplanationSearch { open: &open, found: BTreeSet::new(), steps: 0, is_cut: false };
    for size in 0..=MAX_SIZE {
        search.add(size, &mut certain.clone(), &mut BTreeSet::new());
        if !search.found.is_empty() || search.is_cut {
            break;
        }
    }
    let is_cut = search.is_cut || search.found.is_empty();
    Explanations { sets: search.found.into_iter().collect(), is_cut }
}

/// All sets with one link more than the smallest, each of whose links is needed: another way to explain the same.
pub fn one_larger(candidates: &[Vec<usize>], smallest: &Explanations) -> Vec<Vec<usize>> {
    let Some(size) = smallest.sets.first().map(Vec::len).filter(|size| *size < MAX_SIZE && !smallest.is_cut) else {
        return Vec::new();
    };
    let open: Vec<&Vec<usize>> = candidates.iter().filter(|links| !links.is_empty()).collect();
    let mut search = ExplanationSearch { open: &open, found: BTreeSet::new(), steps: 0, is_cut: false };
    search.add(size + 1, &mut Vec::new(), &mut BTreeSet::new());
    let is_more = |set: &Vec<usize>| smallest.sets.iter().any(|small| small.iter().all(|link| set.contains(link)));
    search.found.into_iter().filter(|set| !is_more(set)).collect()
}

struct ExplanationSearch<'c> {
    open: &'c [&'c Vec<usize>],
    found: BTreeSet<Vec<usize>>,
    steps: usize,
    is_cut: bool,
}

impl ExplanationSearch<'_> {
    /// Adds one candidate of the first path that is not explained yet. A candidate that was tried is ruled out for
    /// those after it, so no set comes twice.
    fn add(&mut self, left: usize, chosen: &mut Vec<usize>, ruled_out: &mut BTreeSet<usize>) {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.found.len() >= MAX_EXPLANATIONS {
            self.is_cut = true;
            return;
        }
        let next = self.open.iter().find(|links| !links.iter().any(|link| chosen.contains(link)));
        let Some(links) = next else {
            let mut set = chosen.clone();
            set.sort_unstable();
            self.found.insert(set);
            return;
        };
        if left == 0 {
            return;
        }
        let mut tried = Vec::new();
        for &link in *links {
            if ruled_out.contains(&link) {
                continue;
            }
            chosen.push(link);
            self.add(left - 1, chosen, ruled_out);
            chosen.pop();
            ruled_out.insert(link);
            tried.push(link);
        }
        for link in tried {
            ruled_out.remove(&link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_sets_are_all_named_once() {
        let check = |candidates: &[&[usize]], expected: &[&[usize]]| {
            let candidates: Vec<Vec<usize>> = candidates.iter().map(|links| links.to_vec()).collect();
            let found = smallest(&candidates);
            assert_eq!(found.sets, expected.iter().map(|set| set.to_vec()).collect::<Vec<_>>(), "{candidates:?}");
            assert!(!found.is_cut);
        };
        check(&[], &[]);
        check(&[&[]], &[]);
        check(&[&[3]], &[&[3]]);
        check(&[&[1, 2], &[2, 3]], &[&[2]]);
        check(&[&[1, 2], &[1, 2]], &[&[1], &[2]]);
        check(&[&[1, 2], &[3, 4]], &[&[1, 3], &[1, 4], &[2, 3], &[2, 4]]);
        check(&[&[1, 2], &[2, 3], &[1, 3]], &[&[1, 2], &[1, 3], &[2, 3]]);
    }

    #[test]
    fn what_needs_one_link_more_is_found_without_what_is_only_larger() {
        let check = |candidates: &[&[usize]], expected: &[&[usize]]| {
            let candidates: Vec<Vec<usize>> = candidates.iter().map(|links| links.to_vec()).collect();
            let larger = one_larger(&candidates, &smallest(&candidates));
            assert_eq!(larger, expected.iter().map(|set| set.to_vec()).collect::<Vec<_>>(), "{candidates:?}");
        };
        check(&[], &[]);
        check(&[&[3]], &[]);
        check(&[&[1, 2], &[2, 3]], &[&[1, 3]]);
        check(&[&[1, 2], &[2, 3], &[2, 4]], &[]);
        check(&[&[1, 2], &[1, 2]], &[]);
    }

    #[test]
    fn too_many_explanations_are_said_to_be_more() {
        let pairs: Vec<Vec<usize>> = (0..7).map(|pair| vec![2 * pair, 2 * pair + 1]).collect();
        let found = smallest(&pairs);
        assert_eq!((found.sets.len(), found.is_cut), (MAX_EXPLANATIONS, true));
        let pairs: Vec<Vec<usize>> = (0..=MAX_SIZE).map(|pair| vec![2 * pair, 2 * pair + 1]).collect();
        assert_eq!(smallest(&pairs), Explanations { sets: Vec::new(), is_cut: true });
        let singles: Vec<Vec<usize>> = (0..32).map(|link| vec![link]).collect();
        assert_eq!(smallest(&singles), Explanations { sets: vec![(0..32).collect()], is_cut: false });
    }
}

//! Faults that come and go: links that are slow in some of several matrices and not in most.

use std::collections::BTreeMap;

use kelpie_topology::HostTopology;
use serde::Serialize;

use super::expected::ABNORMAL;
use super::explain::{Crossing, candidates, smallest};
use super::paths::LoopbackPath;
use super::rounds::{Noise, Rounds};
use kelpie_monitor::statistics::ln_tail;

/// Matrices in which a link has to be slow. Source: our choice: once may be load that no counter showed.
const TWICE: usize = 2;

/// A link that is slow in some of the matrices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Intermittent {
    /// The link, or several of which each would explain it.
    pub links: Vec<String>,
    /// Matrices in which it was slow.
    pub slow_in: usize,
    /// All matrices.
    pub of: usize,
    /// The least that a path over it carried. Units: Gbit/s.
    pub worst_gbps: f64,
    /// What was expected of that path. Units: Gbit/s.
    pub expected_gbps: f64,
}

/// What came and went.
#[derive(Debug, Default)]
pub struct Found {
    /// Links that were slow at least twice.
    pub links: Vec<Intermittent>,
    /// Paths that were slow once, beyond noise.
    pub once: Vec<usize>,
}

/// What is asked: `is_judged` says of which paths, `noise` is that of one matrix, `chance` the logarithm of how often
/// noise alone may look so.
pub struct Asked<'a> {
    pub host: &'a HostTopology,
    pub paths: &'a [LoopbackPath],
    pub crossing: &'a Crossing,
    pub expected: &'a [Option<f64>],
    pub rounds: &'a Rounds,
    pub noise: Noise,
    pub chance: f64,
    pub is_judged: &'a dyn Fn(usize) -> bool,
}

/// Finds them.
pub fn find(asked: &Asked<'_>) -> Found {
    let Asked { host, paths, crossing, expected, rounds, noise, .. } = *asked;
    let judged: Vec<usize> = (0..paths.len()).filter(|path| (asked.is_judged)(*path)).collect();
    let tries = (judged.len() * rounds.count()).max(1) as f64;
    let is_slow = |path: usize, round: usize| {
        let share = rounds.share(path, round).filter(|share| *share < ABNORMAL);
        share.is_some_and(|share| tries.ln() + ln_tail(noise.normal(share)) < asked.chance)
    };
    let mut named: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut slow_paths: Vec<(usize, usize)> = Vec::new();
    for round in 0..rounds.count() {
        let slow: Vec<usize> = judged.iter().copied().filter(|path| is_slow(*path, round)).collect();
        if slow.is_empty() {
            continue;
        }
        slow_paths.extend(slow.iter().map(|path| (*path, round)));
        let ratios: Vec<Option<f64>> = (0..paths.len()).map(|path| rounds.share(path, round)).collect();
        let seen = |(index, path): (usize, &LoopbackPath)| LoopbackPath {
            bandwidth: ratios[index].zip(expected[index]).map(|(share, usual)| share * usual),
            ..path.clone()
        };
        let now: Vec<LoopbackPath> = paths.iter().enumerate().map(seen).collect();
        let is_bound = |path: usize, link: usize| now[path].is_bound_of(host, link);
        let limits = candidates(&now, (crossing, &is_bound), &ratios, &slow, noise.share, ABNORMAL);
        let mut links: Vec<usize> = smallest(&limits).sets.into_iter().flatten().collect();
        links.sort_unstable();
        links.dedup();
        for link in links {
            named.entry(link).or_default().push(round);
        }
    }
    let mut open = slow_paths.clone();
    let mut found = Found::default();
    // The link of most matrices first; what it explains needs no other.
    loop {
        let explains = |link: usize, rounds: &[usize]| {
            let on = |(path, round): &&(usize, usize)| paths[*path].links.contains(&link) && rounds.contains(round);
            let mut explained: Vec<usize> = open.iter().filter(on).map(|(_, round)| *round).collect();
            let cells = explained.len();
            explained.dedup();
            (explained.len(), cells)
        };
        let best = named.iter().map(|(link, rounds)| explains(*link, rounds)).max().unwrap_or((0, 0));
        if best.0 < TWICE {
            break;
        }
        let links: Vec<usize> =
            named.iter().filter(|(link, rounds)| explains(**link, rounds) == best).map(|(link, _)| *link).collect();
        let crosses = |path: usize| links.iter().any(|link| paths[path].links.contains(link));
        let of_them: Vec<(usize, usize)> = open.iter().copied().filter(|(path, _)| crosses(*path)).collect();
        let share = |(path, round): &(usize, usize)| rounds.share(*path, *round).unwrap_or(1.0);
        let worst = of_them.iter().min_by(|one, other| share(one).total_cmp(&share(other)));
        if let Some(worst) = worst {
            let expected_gbps = expected[worst.0].unwrap_or(0.0);
            found.links.push(Intermittent {
                links: links.iter().map(|link| host.link_name(*link)).collect(),
                slow_in: best.0,
                of: rounds.count(),
                worst_gbps: share(worst) * expected_gbps,
                expected_gbps,
            });
        }
        open.retain(|(path, _)| !crosses(*path));
    }
    found.once = open.iter().map(|(path, _)| *path).collect();
    found.once.dedup();
    // Load is slow now here, now there; a fault is slow again at the same link.
    let scattered = open.len() + found.links.iter().skip(1).map(|link| link.slow_in).sum::<usize>();
    if found.links.first().is_some_and(|first| scattered > 0 && first.slow_in <= 2 * scattered) {
        let open_links: Vec<String> = found.links.drain(..).flat_map(|link| link.links).collect();
        let is_named = |path: usize| paths[path].links.iter().any(|link| open_links.contains(&host.link_name(*link)));
        found.once.extend(slow_paths.iter().map(|(path, _)| *path).filter(|path| is_named(*path)));
        found.once.sort_unstable();
        found.once.dedup();
    }
    found
}

//! What the values of a run cannot say: a node is in only by values that would have shown a fault. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::best::Way;
use crate::judged::Judged;
use crate::learn::Criterion;
use crate::learner::HostLearner;
use crate::names::stem;

/// A criterion by which half of what is healthy is no fault says of no node that it is well. Source: our choice; links
/// that lose half of their lanes are half as fast.
const LEAST_ALPHA: f64 = 0.5;
/// One host in so many that is ahead of the middle makes the middle doubtful. Source: our choice: with one partner
/// each, two bad hosts of six make four slow, and of 64 hosts, as many as 15 are bad before that is so.
const ONE_IN: usize = 4;

/// Most hosts of a small fleet: all pairs of it are measured by a quick scan, and most of it can be bad by chance.
/// Source: our choice; 28 pairs.
pub const SMALL: usize = 8;
/// Shares of the best loopback that pairs carry: below the first nothing says that they are fast, and from the second
/// on no healthy host is much faster. Source: our choice; a PCIe link is less than twice as fast as the port that it is
/// made for, and the next generation of it twice as fast.
const LEAST_CARRIED: f64 = 0.4;
const MUCH_CARRIED: f64 = 0.75;

type Judgements<'u> = BTreeMap<Way<'u>, Judged<'u>>;

/// Why a criterion that was learnt shows too little, if so. `learners` are of its metric, and of that metric at larger
/// distances, at which nothing healthy is better.
pub fn blind<'l>(learners: impl Iterator<Item = &'l HostLearner>, criterion: &Criterion) -> Option<String> {
    if criterion.alpha < LEAST_ALPHA {
        return Some("hosts differ so much that half as much would not show: give --criteria or --floor".to_owned());
    }
    let counts = learners.map(|learner| (learner.ahead(criterion), learner.hosts()));
    let (ahead, all) = counts.into_iter().find(|(ahead, all)| *ahead > 0 && ONE_IN * ahead >= *all)?;
    Some(format!(
        "{ahead} of {all} hosts are better than those in the middle, and may be the healthy ones: give --criteria or --floor"
    ))
}

/// Why pairs that are all alike say nothing of hosts, if so: each may have a bad end. `loopback` is the best that a NIC
/// moves through itself, in the unit of the criterion.
pub fn hidden(pairs: &BTreeSet<(usize, usize)>, criterion: &Criterion, loopback: Option<f64>) -> Option<String> {
    let carried = loopback.filter(|most| *most > 0.0).map(|most| criterion.typical() / most);
    let hosts: BTreeSet<usize> = pairs.iter().flat_map(|(one, other)| [*one, *other]).collect();
    if let Some(share) = carried.filter(|share| *share < LEAST_CARRIED && hosts.len() <= SMALL) {
        let percent = 100.0 * share;
        return Some(format!(
            "all pairs carry {percent:.0} % of what a NIC moves through itself: ports are made for less, or most are slow: \
             give --criteria or --floor"
        ));
    }
    (carried.is_none_or(|share| share < MUCH_CARRIED) && two_cover(pairs)).then(|| {
        "two bad hosts would make all of these pairs slow, and nothing says that they are fast: give --criteria or \
         --floor"
            .to_owned()
    })
}

/// Whether two hosts are in all pairs.
fn two_cover(pairs: &BTreeSet<(usize, usize)>) -> bool {
    let without = |host: usize| pairs.iter().filter(move |(one, other)| *one != host && *other != host);
    let covers = |host: usize| {
        let Some((one, other)) = without(host).next() else { return true };
        [one, other].into_iter().any(|second| without(host).all(|(one, other)| one == second || other == second))
    };
    pairs.first().is_some_and(|(one, other)| covers(*one) || covers(*other))
}

/// Leaves out what was measured in another unit than that of most values of a metric, and says so of its host.
pub fn other_units<'u>(metrics: &mut BTreeMap<String, Judgements<'u>>) -> Vec<(&'u str, String)> {
    let mut odd = Vec::new();
    for (name, judged) in metrics {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for judged in judged.values() {
            *count.entry(judged.value.unit.as_str()).or_default() += 1;
        }
        let Some(usual) = count.into_iter().max_by_key(|(_, count)| *count).map(|(unit, _)| unit.to_owned()) else {
            continue;
        };
        judged.retain(|(host, _), judged| {
            let unit = &judged.value.unit;
            if *unit != usual {
                odd.push((*host, format!("{name} is in `{unit}` and not in `{usual}` as of others")));
            }
            *unit == usual
        });
    }
    odd
}

/// Hosts that lack a metric that most of those have which the same check measured.
pub fn missing<'u>(metrics: &BTreeMap<String, Judgements<'u>>) -> Vec<(&'u str, String)> {
    let mut of_check: BTreeMap<(&str, &str), BTreeMap<&str, BTreeSet<&'u str>>> = BTreeMap::new();
    for (name, judged) in metrics {
        for ((from, to), judged) in judged {
            let key = &judged.unit.key;
            // Not every host has a partner at each distance.
            let metric = if to.is_some() { stem(name) } else { judged.value.metric.as_str() };
            let hosts = of_check.entry((&key.check, &key.component)).or_default().entry(metric).or_default();
            hosts.extend(std::iter::once(*from).chain(*to));
        }
    }
    let mut missing = Vec::new();
    for by_metric in of_check.values() {
        let all: BTreeSet<&str> = by_metric.values().flatten().copied().collect();
        for (metric, hosts) in by_metric.iter().filter(|(_, hosts)| 2 * hosts.len() > all.len()) {
            let without = all.difference(hosts);
            missing.extend(without.map(|host| (*host, format!("{metric} is missing, which most others have"))));
        }
    }
    missing
}

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

type Judgements<'u> = BTreeMap<Way<'u>, Judged<'u>>;

/// Why a criterion that was learnt shows too little, if so.
pub fn blind(learner: &HostLearner, criterion: &Criterion) -> Option<String> {
    if criterion.alpha < LEAST_ALPHA {
        return Some("hosts differ so much that half as much would not show: give --criteria or --floor".to_owned());
    }
    let ahead = learner.ahead(criterion);
    let all = learner.hosts();
    (ahead > 1 && ONE_IN * ahead >= all).then(|| {
        format!("{ahead} of {all} hosts are better than those in the middle, and may be the healthy ones: give --criteria or --floor")
    })
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

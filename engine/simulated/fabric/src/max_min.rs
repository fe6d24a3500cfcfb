//! Max-min fair rates by progressive filling. What the flows and links stand for is elsewhere.
//!
//! Source: Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Flows that rise together, as those of a job in lockstep: how many of them cross each link, a link at most once.
pub type FlowGroup = Vec<(usize, f64)>;

/// The rate of a flow of each group: all rise together until a link is full, whose groups then stay as they are. A
/// group without links has no limit here, so its rate is infinite.
pub fn rates(capacity: &[f64], groups: &[FlowGroup]) -> Vec<f64> {
    let mut links: Vec<LinkState> =
        capacity.iter().map(|left| LinkState { left: *left, weight: 0.0, at: 0.0 }).collect();
    let mut crossing: Vec<Vec<usize>> = vec![Vec::new(); capacity.len()];
    for (group, on) in groups.iter().enumerate() {
        for (link, weight) in on {
            links[*link].weight += weight;
            crossing[*link].push(group);
        }
    }
    let mut open: Vec<usize> = crossing.iter().map(Vec::len).collect();
    let mut queue: BinaryHeap<Full> = BinaryHeap::new();
    for (link, state) in links.iter().enumerate().filter(|(link, _)| open[*link] > 0) {
        queue.push(Full { level: state.full_at(), link });
    }
    let mut rates = vec![f64::INFINITY; groups.len()];
    while let Some(Full { level, link }) = queue.pop() {
        // A link whose groups stopped elsewhere is full later than it was said to be; its later entry waits.
        if open[link] == 0 || links[link].full_at() > level {
            continue;
        }
        for group in std::mem::take(&mut crossing[link]) {
            if rates[group].is_finite() {
                continue;
            }
            rates[group] = level;
            for (other, weight) in &groups[group] {
                open[*other] -= 1;
                links[*other].stop(level, *weight);
                if open[*other] > 0 && *other != link {
                    queue.push(Full { level: links[*other].full_at(), link: *other });
                }
            }
        }
    }
    rates
}

/// A link while rates rise.
#[derive(Debug, Clone, Copy)]
struct LinkState {
    /// What is free at level `at`.
    left: f64,
    /// Flows that still rise.
    weight: f64,
    at: f64,
}

impl LinkState {
    fn full_at(&self) -> f64 {
        if self.weight > 0.0 { self.at + (self.left / self.weight).max(0.0) } else { f64::INFINITY }
    }

    fn stop(&mut self, level: f64, weight: f64) {
        self.left -= self.weight * (level - self.at);
        self.at = level;
        self.weight -= weight;
    }
}

/// When a link is full.
struct Full {
    level: f64,
    link: usize,
}

impl Ord for Full {
    /// The lowest level is the greatest; equal ones in the order of the links.
    fn cmp(&self, other: &Self) -> Ordering {
        other.level.total_cmp(&self.level).then(other.link.cmp(&self.link))
    }
}

impl PartialOrd for Full {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Full {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Full {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn textbook_rates() {
        // Source: Bertsekas and Gallager, figure 6.17's kind: a long flow and short ones.
        let ones = |links: &[usize]| links.iter().map(|link| (*link, 1.0)).collect::<FlowGroup>();
        for (capacity, groups, expected) in [
            (vec![200.0], vec![ones(&[0])], vec![200.0]),
            (vec![10.0, 4.0], vec![ones(&[0, 1]), ones(&[0]), ones(&[1])], vec![2.0, 8.0, 2.0]),
            (vec![9.0], vec![vec![(0, 2.0)], ones(&[0])], vec![3.0, 3.0]),
            (vec![0.0, 5.0], vec![ones(&[0, 1]), ones(&[1])], vec![0.0, 5.0]),
            (vec![5.0], vec![vec![], ones(&[0])], vec![f64::INFINITY, 5.0]),
        ] {
            assert_eq!(rates(&capacity, &groups), expected, "{capacity:?} {groups:?}");
        }
    }

    proptest! {
        /// Max-min fair: no link carries more than it can, and each group has a full link on which nobody is faster.
        #[test]
        fn each_group_has_a_bottleneck(
            capacity in proptest::collection::vec(0.0..400.0_f64, 1..12),
            flows in proptest::collection::vec(proptest::collection::btree_map(0..12_usize, 1..4_u32, 1..6), 1..30),
        ) {
            let on = |flow: &std::collections::BTreeMap<usize, u32>| -> FlowGroup {
                let links = flow.iter().map(|(link, weight)| (link % capacity.len(), f64::from(*weight)));
                let merged: std::collections::BTreeMap<usize, f64> = links.collect();
                merged.into_iter().collect()
            };
            let groups: Vec<FlowGroup> = flows.iter().map(on).collect();
            let found = rates(&capacity, &groups);
            let mut used = vec![0.0; capacity.len()];
            let mut fastest = vec![0.0_f64; capacity.len()];
            for (group, rate) in groups.iter().zip(&found) {
                for (link, weight) in group {
                    used[*link] += weight * rate;
                    fastest[*link] = fastest[*link].max(*rate);
                }
            }
            for (used, capacity) in used.iter().zip(&capacity) {
                prop_assert!(*used <= capacity + 1e-6);
            }
            for (group, rate) in groups.iter().zip(&found) {
                let bottleneck = |link: usize| used[link] >= capacity[link] - 1e-6 && *rate >= fastest[link] - 1e-6;
                prop_assert!(group.iter().any(|(link, _)| bottleneck(*link)));
            }
        }
    }
}

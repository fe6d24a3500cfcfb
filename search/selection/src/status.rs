//! What a node went through, and what of it foretells incidents.

use std::collections::BTreeMap;

use crate::cox::Sample;
use crate::hazard::Gap;

/// Statuses of the past at regular times, of all nodes. Source: our choice; SuperBench learns from 37,000.
const MOST_REGULAR: f64 = 20_000.0;
/// Statuses in all. Source: our choice.
const MOST_SAMPLES: usize = 40_000;
/// Categories with a covariate of their own, those with most incidents. Source: our choice.
const MOST_CATEGORIES: usize = 16;

/// Shares of the typical time since an incident below which it does not count how recent the incident is. Source: our
/// choice.
const RECENT: f64 = 0.01;

/// What a node went through, by the hours that it was up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Past {
    /// When incidents came, in order, and the number of their category.
    pub incidents: Vec<(f64, usize)>,
    /// For how long it was up. Units: hours.
    pub up: f64,
}

impl Past {
    /// How long the node has been up since its last incident, or since it is known.
    pub fn since(&self) -> f64 {
        self.up - self.incidents.last().map_or(0.0, |(time, _)| *time)
    }

    /// The hours between incidents; of several at once, one counts.
    fn gaps(&self) -> impl Iterator<Item = Gap> {
        let begins = std::iter::once(0.0).chain(self.incidents.iter().map(|(time, _)| *time));
        let ends = self.incidents.iter().map(|(time, _)| (*time, true)).chain([(self.up, false)]);
        begins
            .zip(ends)
            .map(|(begin, (end, incident))| Gap { hours: end - begin, incident })
            .filter(|gap| gap.hours > 0.0)
    }
}

/// What all nodes went through.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    nodes: BTreeMap<String, Past>,
    /// Hours for each incident.
    typical: f64,
    /// The same for each category, the most frequent first.
    by_category: Vec<(usize, f64)>,
}

impl Fleet {
    /// Takes nodes, and how many categories of incidents there are.
    pub fn new(nodes: BTreeMap<String, Past>, categories: usize) -> Self {
        let up: f64 = nodes.values().map(|past| past.up).sum();
        let mut counts = vec![0_usize; categories];
        nodes.values().flat_map(|past| &past.incidents).for_each(|(_, category)| counts[*category] += 1);
        let mean = |count: usize| up / count.max(1) as f64;
        let mut by_category: Vec<(usize, f64)> = counts.iter().map(|count| mean(*count)).enumerate().collect();
        by_category.sort_by(|one, other| one.1.total_cmp(&other.1));
        by_category.truncate(MOST_CATEGORIES);
        Self { nodes, typical: mean(counts.iter().sum()), by_category }
    }

    /// Nodes by name.
    pub const fn nodes(&self) -> &BTreeMap<String, Past> {
        &self.nodes
    }

    /// Incidents of all nodes; of several at once, one counts.
    pub fn incidents(&self) -> usize {
        self.gaps().filter(|gap| gap.incident).count()
    }

    /// Hours of all nodes.
    pub fn up(&self) -> f64 {
        self.nodes.values().map(|past| past.up).sum()
    }

    /// How long nodes were up between incidents.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> {
        self.nodes.values().flat_map(Past::gaps)
    }

    /// How many categories can have covariates.
    pub(crate) const fn categories(&self) -> usize {
        self.by_category.len()
    }

    /// The covariates of a node when it had been up for some hours: hours since the last incident twice, so that recent
    /// and late ones have a slope of their own, hours in all, how many incidents there were, and for each of some
    /// categories how many and how many hours for each. Hours are told in those that the fleet has for each incident,
    /// so that their unit does not count, and a node of few hours is taken for a typical one.
    pub fn status(&self, past: &Past, up: f64, categories: usize) -> Vec<f64> {
        self.seen(past).status(up, categories)
    }

    fn seen<'a>(&'a self, past: &'a Past) -> Seen<'a> {
        Seen { fleet: self, past, count: 0, by_category: [0; MOST_CATEGORIES] }
    }

    /// Statuses of the past, at regular times and right after incidents, and what came of them within some hours.
    pub fn samples(&self, horizon: f64, categories: usize) -> Vec<Sample> {
        let every = self.up() / MOST_REGULAR;
        let times = |past: &Past| {
            let regular = (0..=(past.up / every) as usize).map(|nth| nth as f64 * every);
            let mut times: Vec<f64> = regular.chain(past.incidents.iter().map(|(time, _)| *time)).collect();
            times.sort_by(f64::total_cmp);
            times
        };
        let pasts = || self.nodes.values().filter(|past| past.up > 0.0);
        let most = pasts().map(|past| (past.up / every) as usize + 1 + past.incidents.len()).sum::<usize>();
        let stride = most.div_ceil(MOST_SAMPLES).max(1);
        let mut number = 0;
        let mut samples = Vec::new();
        for past in pasts() {
            let mut seen = self.seen(past);
            for up in times(past) {
                number += 1;
                if number % stride > 0 {
                    continue;
                }
                let status = seen.status(up, categories);
                let next = past.incidents.get(seen.count).map(|(time, _)| *time);
                let hours = next.unwrap_or(past.up) - up;
                let incident = next.is_some() && hours <= horizon;
                samples.push(Sample { status, hours: hours.min(horizon), incident });
            }
        }
        samples.retain(|sample| sample.hours > 0.0);
        samples
    }
}

/// What is known of a node at some time of its past; the time goes on.
struct Seen<'f> {
    fleet: &'f Fleet,
    past: &'f Past,
    /// Incidents until then.
    count: usize,
    by_category: [usize; MOST_CATEGORIES],
}

impl Seen<'_> {
    fn status(&mut self, up: f64, categories: usize) -> Vec<f64> {
        let Fleet { typical, by_category, .. } = self.fleet;
        let (incidents, by_category) = (&self.past.incidents, &by_category[..categories]);
        while let Some((_, category)) = incidents.get(self.count).filter(|(time, _)| *time <= up) {
            self.count += 1;
            if let Some(nth) = by_category.iter().position(|(of, _)| of == category) {
                self.by_category[nth] += 1;
            }
        }
        let since = up - incidents[..self.count].last().map_or(0.0, |(time, _)| *time);
        // Hours for each of all incidents are told by hours in all and incidents.
        let recent = (since / typical + RECENT).ln();
        let mut status = vec![recent, (since / typical).ln_1p(), (up / typical).ln_1p(), (self.count as f64).ln_1p()];
        for ((_, typical), count) in by_category.iter().zip(self.by_category) {
            let count = (count as f64).ln_1p();
            status.extend([count, (up / typical).ln_1p() - count]);
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Fleet {
        let past = Past { incidents: vec![(10.0, 0), (10.0, 1), (30.0, 0)], up: 60.0 };
        Fleet::new([("a".to_owned(), past), ("b".to_owned(), Past { incidents: vec![], up: 30.0 })].into(), 2)
    }

    #[test]
    fn incidents_at_the_same_time_end_one_gap() {
        let gaps: Vec<(f64, bool)> = fleet().gaps().map(|gap| (gap.hours, gap.incident)).collect();
        assert_eq!(gaps, [(10.0, true), (20.0, true), (30.0, false), (30.0, false)]);
        assert_eq!(fleet().incidents(), 2);
        assert!((fleet().nodes()["a"].since() - 30.0).abs() < 1e-12);
    }

    #[test]
    fn the_status_knows_what_came_before_and_nothing_of_what_came_after() {
        // 90 h and 3 incidents: 30 h for each; 45 h for each of the category 0, 90 h of 1.
        let fleet = fleet();
        let status = fleet.status(&fleet.nodes()["a"], 20.0, 2);
        let ln = f64::ln;
        let expected = [
            ln(10.0 / 30.0 + 0.01),
            ln(10.0 / 30.0 + 1.0),
            ln(20.0 / 30.0 + 1.0),
            ln(3.0),
            ln(2.0),
            ln(20.0 / 45.0 + 1.0) - ln(2.0),
            ln(2.0),
            ln(20.0 / 90.0 + 1.0) - ln(2.0),
        ];
        assert!(status.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{status:?}");
    }

    #[test]
    fn samples_end_with_the_next_incident_or_with_looking() {
        let samples = fleet().samples(15.0, 0);
        assert!(samples.iter().all(|sample| sample.hours > 0.0 && sample.hours <= 15.0));
        // Of 90 h, 10 h come before the first incident and 15 h are the last before the second.
        let share = samples.iter().filter(|sample| sample.incident).count() as f64 / samples.len() as f64;
        assert!((share - 25.0 / 90.0).abs() < 0.01, "{share}");
    }
}

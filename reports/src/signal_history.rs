//! Signals over the experiments of a campaign, thinned while they are read: what is kept of a signal does not grow with
//! the campaign. What is drawn of them lives in the site.

use std::collections::BTreeMap;

use kelpie_search::Purpose as Asked;
use kelpie_store::StoredPurpose;

/// Stretches of a campaign of which the ends are kept. Source: our choice, because a plot has not many more pixels.
const STRETCHES: u64 = 800;

/// A stretch of experiments: its lowest and its highest value, each with its experiment.
#[derive(Debug, Clone)]
struct Stretch {
    index: u64,
    lowest: (u64, f64),
    highest: (u64, f64),
}

/// The lowest and the highest value of each stretch of experiments.
#[derive(Debug, Clone, Default)]
pub struct Extremes(Vec<Stretch>);

impl Extremes {
    fn take(&mut self, index: u64, experiment: u64, value: f64) {
        let here = (experiment, value);
        match self.0.last_mut() {
            Some(last) if last.index == index => {
                if value < last.lowest.1 {
                    last.lowest = here;
                }
                if value > last.highest.1 {
                    last.highest = here;
                }
            }
            _ => self.0.push(Stretch { index, lowest: here, highest: here }),
        }
    }

    /// What is kept, in order.
    pub fn values(&self) -> Vec<(u64, f64)> {
        let both = self.0.iter().flat_map(|Stretch { lowest, highest, .. }| {
            let (first, second) = if lowest.0 <= highest.0 { (lowest, highest) } else { (highest, lowest) };
            std::iter::once(*first).chain((first.0 != second.0).then_some(*second))
        });
        both.collect()
    }
}

/// A signal over a campaign.
#[derive(Debug, Clone, Default)]
pub struct SignalHistory {
    /// Of experiments that search.
    pub searching: Extremes,
    /// Of experiments that reduce a finding to its conditions.
    pub reducing: Extremes,
    /// Its values where findings were first seen, by experiment.
    pub at_findings: BTreeMap<u64, f64>,
    /// Its highest value.
    pub highest: f64,
    sum: f64,
    count: u64,
}

impl SignalHistory {
    /// Its mean over the experiments that have it.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

/// All signals of a campaign.
#[derive(Debug, Clone, Default)]
pub struct SignalHistories {
    /// Experiments of a stretch.
    stretch: u64,
    found_at: Vec<u64>,
    by_name: BTreeMap<String, SignalHistory>,
}

impl SignalHistories {
    /// Of a campaign of about so many experiments, whose findings were first seen in these.
    pub fn new(experiments: u64, found_at: Vec<u64>) -> Self {
        Self { stretch: experiments.div_ceil(STRETCHES).max(1), found_at, by_name: BTreeMap::new() }
    }

    /// Takes the signals of the next experiment.
    pub fn take(&mut self, experiment: u64, purpose: &StoredPurpose, signals: BTreeMap<String, f64>) {
        let is_aimed = purpose.asked().is_some_and(Asked::is_aimed);
        let is_marked = self.found_at.contains(&experiment);
        for (name, value) in signals {
            let course = self.by_name.entry(name).or_default();
            course.highest = course.highest.max(value);
            (course.sum, course.count) = (course.sum + value, course.count + 1);
            if is_marked {
                course.at_findings.insert(experiment, value);
            }
            let ends = if is_aimed { &mut course.reducing } else { &mut course.searching };
            ends.take(experiment / self.stretch, experiment, value);
        }
    }

    /// A signal; `None` if no experiment has it.
    pub fn get(&self, name: &str) -> Option<&SignalHistory> {
        self.by_name.get(name)
    }

    /// Every signal by its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SignalHistory)> {
        self.by_name.iter().map(|(name, course)| (name.as_str(), course))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(experiments: u64, values: impl Fn(u64) -> f64) -> SignalHistory {
        let mut courses = SignalHistories::new(experiments, vec![2]);
        for number in 1..=experiments {
            let signals = BTreeMap::from([("x".to_owned(), values(number))]);
            let purpose = if number % 10 == 0 { Asked::Mfs } else { Asked::Search };
            courses.take(number, &purpose.into(), signals);
        }
        courses.get("x").unwrap().clone()
    }

    #[test]
    fn short_campaigns_keep_every_value() {
        let course = taken(30, |number| number as f64);
        assert_eq!(course.reducing.values(), [(10, 10.0), (20, 20.0), (30, 30.0)]);
        assert_eq!(course.searching.values().len(), 27);
        assert_eq!((course.highest, course.mean()), (30.0, 15.5));
        assert_eq!(course.at_findings, BTreeMap::from([(2, 2.0)]));
    }

    #[test]
    fn long_campaigns_keep_their_peaks() {
        let course = taken(100_000, |number| if number == 50_001 { 9.0 } else { 0.1 });
        let values = course.searching.values();
        assert!(values.len() <= 2 * STRETCHES as usize + 2, "{}", values.len());
        assert!(values.contains(&(50_001, 9.0)));
        assert!(values.is_sorted_by_key(|(experiment, _)| *experiment));
    }
}

//! By which counters an anomaly shows: those that fall whichever of its factors goes back to plain.

use std::collections::BTreeMap;

use super::experiments::SearchExperiment;

/// Fall from which on a counter belongs to an anomaly. Units: decades. Source: our choice, a factor of five.
const FALLS: f64 = 0.7;
/// Part of a counter that is left in another workload with the same anomaly. Units: decades below. Source: our choice.
const LEFT: f64 = 1.0;
/// Part of its fall that a counter has to fall with another anomaly of the same cause. Source: our choice.
const FOLLOWS: f64 = 0.5;
/// Sum of falls from which on signatures say something. Units: decades. Source: our choice; below, noise decides.
const SAYS: f64 = 1.0;

impl From<Signature> for BTreeMap<String, f64> {
    fn from(signature: Signature) -> Self {
        signature.0
    }
}

/// How far each counter falls at least, if any cure is known. Units: decades of its rate for each share of the bounds
/// that is used.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Signature(BTreeMap<String, f64>);

impl Signature {
    /// Takes in a removal that cures.
    pub(super) fn add(&mut self, anomaly: &SearchExperiment, cured: &SearchExperiment) {
        for (name, _) in anomaly.counters() {
            let fall = (anomaly.decades(name) - cured.decades(name)).max(0.0);
            let least = self.0.entry(name.to_owned()).or_insert(fall);
            *least = least.min(fall);
        }
    }

    /// Whether both may be those of one anomaly: the loudest counter of each falls with the other, too.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let fall = |one: &Self, name: &str| one.0.get(name).copied().unwrap_or(0.0);
        let follows = |one: &Self, other: &Self| {
            let loudest = one.0.iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|(_, most)| **most >= FALLS);
            loudest.is_none_or(|(name, most)| fall(other, name) >= FOLLOWS * most)
        };
        follows(self, other) && follows(other, self)
    }

    /// How far two are apart. Shape: 0 to 1; 0 if both say nothing.
    pub(super) fn distance(&self, other: &Self) -> f64 {
        let of = |one: &Self, name: &String| one.0.get(name).copied().unwrap_or(0.0);
        let own = self.0.iter().map(|(name, fall)| (*fall, of(other, name)));
        let others = other.0.iter().filter(|(name, _)| !self.0.contains_key(*name)).map(|(_, fall)| (0.0, *fall));
        let (apart, all) = own.chain(others).fold((0.0, 0.0), |(apart, all), (one, other): (f64, f64)| {
            (apart + (one - other).abs(), all + one.max(other))
        });
        if all < SAYS { 0.0 } else { apart / all }
    }

    /// Whether a counter falls with both.
    pub(super) fn has_in_common(&self, other: &Self) -> bool {
        let falls = |one: &Self, name: &String| one.0.get(name).is_some_and(|fall| *fall >= FALLS);
        self.0.keys().any(|name| falls(self, name) && falls(other, name))
    }

    /// Whether a counter tells the anomaly from what cures it.
    pub(super) fn says_something(&self) -> bool {
        self.0.values().any(|fall| *fall >= FALLS)
    }

    /// Whether the counters of the anomaly are loud in another experiment, too.
    pub(super) fn is_in(&self, anomaly: &SearchExperiment, other: &SearchExperiment) -> bool {
        let mut own = self.0.iter().filter(|(_, fall)| **fall >= FALLS);
        own.all(|(name, _)| other.decades(name) >= anomaly.decades(name) - LEFT)
    }
}

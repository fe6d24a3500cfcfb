//! The configuration of a search: algorithm, signals, seed, budget, constants. One row per algorithm and signal set.

use std::fmt;
use std::str::FromStr;

use kelpie_spaces::Region;
use serde::{Deserialize, Serialize};

use crate::tuning::Tuning;

/// How points are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Algorithm 1 of the paper.
    Collie,
    /// The same, but known regions are measured again.
    Anneal,
    /// Independent random points outside known regions.
    Random,
}

/// Which signals guide the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalSet {
    /// The performance signal.
    Perf,
    /// Diagnostic counters.
    Diag,
    /// Performance first, then diagnostic counters.
    Both,
}

/// A word that names nothing here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not one of {known}")]
pub struct UnknownName {
    /// The word, shortened.
    pub word: String,
    /// What would have been right.
    pub known: String,
}

const ALGORITHMS: [(Algorithm, &str, &str); 3] = [
    (Algorithm::Collie, "collie", "simulated annealing that skips known regions (Collie, Algorithm 1)"),
    (Algorithm::Anneal, "anneal", "the same without skipping, to see what skipping is worth"),
    (Algorithm::Random, "random", "random points outside known regions, the baseline"),
];

const SIGNALS: [(SignalSet, &str); 3] =
    [(SignalSet::Perf, "perf"), (SignalSet::Diag, "diag"), (SignalSet::Both, "both")];

impl Algorithm {
    /// Every algorithm, in the order of the help.
    pub const ALL: [Algorithm; 3] = [Algorithm::Collie, Algorithm::Anneal, Algorithm::Random];

    fn row(self) -> (Algorithm, &'static str, &'static str) {
        ALGORITHMS[self as usize]
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// One line for the help.
    pub fn about(self) -> &'static str {
        self.row().2
    }
}

impl SignalSet {
    /// Every set, in the order of the help.
    pub const ALL: [SignalSet; 3] = [SignalSet::Perf, SignalSet::Diag, SignalSet::Both];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        SIGNALS[self as usize].1
    }
}

fn named<T: Copy>(word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, UnknownName> {
    all.iter().copied().find(|item| name(*item) == word).ok_or_else(|| UnknownName {
        word: word.chars().take(40).collect(),
        known: all.iter().map(|item| name(*item)).collect::<Vec<_>>().join(", "),
    })
}

impl FromStr for Algorithm {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        named(word, &Self::ALL, Self::name)
    }
}

impl FromStr for SignalSet {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        named(word, &Self::ALL, Self::name)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for SignalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// How points are chosen.
    pub algorithm: Algorithm,
    /// What guides them.
    pub signal: SignalSet,
    /// Seed of every random choice.
    pub seed: u64,
    /// Experiments that the search may plan with; it does not end there. `None`: no end is known.
    #[serde(default)]
    pub budget: Option<u64>,
    /// The constants of the search.
    #[serde(flatten)]
    pub tuning: Tuning,
    /// Regions that are known beforehand: they are skipped, and not found again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<Region>,
}

impl Config {
    /// A search with the default constants.
    pub fn new(algorithm: Algorithm, signal: SignalSet, seed: u64) -> Self {
        Self { algorithm, signal, seed, budget: None, tuning: Tuning::default(), known: Vec::new() }
    }

    /// Random points that the search begins with; none if no budget is known.
    pub(crate) fn warm_up(&self) -> u64 {
        (self.budget.unwrap_or(0) / self.tuning.pace.warm_up_part).min(self.tuning.pace.most_warm_up)
    }

    /// How many of its first experiments are independent random points, as long as it finds nothing.
    pub fn random_points(&self) -> u64 {
        let ranked = if self.signal == SignalSet::Perf { 0 } else { u64::from(self.tuning.schedule.ranking_points) };
        match self.algorithm {
            Algorithm::Random => u64::MAX,
            Algorithm::Collie | Algorithm::Anneal => self.warm_up().max(ranked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            assert_eq!(algorithm.row().0, algorithm);
        }
        for signal in SignalSet::ALL {
            assert_eq!(signal.name().parse(), Ok(signal));
            assert_eq!(SIGNALS[signal as usize].0, signal);
        }
        let error = "bayes".parse::<Algorithm>().expect_err("not there");
        assert_eq!(error.to_string(), "`bayes` is not one of collie, anneal, random");
    }
}

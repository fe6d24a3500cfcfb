//! The configuration of a search: algorithm, signals, seed, constants. One row per algorithm and signal set.

use std::fmt;
use std::str::FromStr;

use kelpie_spaces::Region;
use serde::{Deserialize, Serialize};

/// An enum whose variants have a name each: a variant is nowhere else, so that none can be left out of `ALL`.
macro_rules! names {
    ($(#[$about:meta])* $kind:ident { $($(#[$of:meta])* $variant:ident $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $kind {
            $($(#[$of])* #[serde(rename = $name)] $variant,)*
        }

        impl $kind {
            /// All of them, in the order of the help.
            pub const ALL: [$kind; [$($name),*].len()] = [$($kind::$variant),*];

            /// The name on the command line and in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $($kind::$variant => $name,)*
                }
            }
        }
    };
}

names! {
    /// How points are chosen.
    Algorithm {
        /// Discover first, refine later.
        Kelpie "kelpie",
        /// Algorithm 1 of the paper.
        Collie "collie",
        /// The same without minimal feature sets: anomalies are stored as they are, and nothing else is skipped.
        Anneal "anneal",
        /// Independent random points outside known regions.
        Random "random",
        /// Bayesian optimisation outside known regions.
        Bayes "bayes",
    }
}

names! {
    /// Which signals guide the search.
    SignalSet {
        /// The performance signal.
        Perf "perf",
        /// Diagnostic counters.
        Diag "diag",
        /// Performance first, then diagnostic counters.
        Both "both",
    }
}

impl Algorithm {
    /// Whether signals guide it.
    pub fn is_guided(self) -> bool {
        match self {
            Algorithm::Collie | Algorithm::Anneal | Algorithm::Bayes => true,
            Algorithm::Kelpie | Algorithm::Random => false,
        }
    }
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

/// The annealing schedule. Temperatures are in relative change of a signal.
///
/// Source: the symbols are those of Collie, Algorithm 1; it gives no values, only that they are relaxed. The defaults,
/// seven temperatures of four steps, are our choice, because one run over ten signals then fits a budget of 1,500
/// beside the experiments for regions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnnealingSchedule {
    /// `T_0`.
    pub initial: f64,
    /// `T_min`.
    pub lowest: f64,
    /// Decay factor alpha, between 0 and 1.
    pub decay: f64,
    /// `n`, steps at each temperature.
    pub steps: u32,
    /// Random points that are measured first, to rank diagnostic counters.
    pub ranking_points: u32,
}

impl Default for AnnealingSchedule {
    fn default() -> Self {
        Self { initial: 1.0, lowest: 0.1, decay: 0.7, steps: 4, ranking_points: 10 }
    }
}

impl AnnealingSchedule {
    /// Every temperature, falling.
    pub(crate) fn temperatures(self) -> impl Iterator<Item = f64> {
        std::iter::successors(Some(self.initial), move |temperature| Some(temperature * self.decay))
            .take_while(move |temperature| *temperature > self.lowest)
    }

    /// Steps of one annealing.
    pub(crate) fn run(self) -> usize {
        self.temperatures().count() * self.steps as usize
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
    /// The annealing schedule.
    #[serde(default)]
    pub schedule: AnnealingSchedule,
    /// Regions that are known beforehand: they are skipped, and not found again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<Region>,
    /// Whether workloads under which a host fails are reduced to their conditions, which makes it fail many times more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reduce_host_failures: bool,
}

impl Config {
    /// A search with the default schedule.
    pub fn new(algorithm: Algorithm, signal: SignalSet, seed: u64) -> Self {
        Self {
            algorithm,
            signal,
            seed,
            schedule: AnnealingSchedule::default(),
            known: Vec::new(),
            reduce_host_failures: false,
        }
    }

    /// How many of its first experiments are independent random points, as long as none is anomalous.
    pub fn random_points(&self) -> u64 {
        match (self.algorithm, self.signal) {
            (Algorithm::Random, _) => u64::MAX,
            (Algorithm::Kelpie, _) => 0,
            (Algorithm::Collie | Algorithm::Anneal, SignalSet::Perf) => 1,
            (Algorithm::Collie | Algorithm::Anneal | Algorithm::Bayes, _) => u64::from(self.schedule.ranking_points),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_every_algorithm_is_explained() {
        let page = include_str!("../../docs/explained/search.md");
        for algorithm in Algorithm::ALL {
            let name = algorithm.name();
            assert_eq!(name.parse(), Ok(algorithm));
            assert!(page.contains(&format!("\n| `{name}`")), "docs/explained/search.md has no row for {name}");
        }
        for signal in SignalSet::ALL {
            assert_eq!(signal.name().parse(), Ok(signal));
        }
        let error = "magic".parse::<Algorithm>().expect_err("not there");
        assert_eq!(error.to_string(), "`magic` is not one of kelpie, collie, anneal, random, bayes");
    }
}

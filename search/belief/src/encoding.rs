//! Workloads as rows of numbers: what the trees cut, and how far two workloads are apart.

use std::collections::BTreeSet;

use kelpie_spaces::{Feature, Workload};

/// The columns of a row: numbers as logarithms, then a column for each word that was met.
#[derive(Debug)]
pub(crate) struct Encoding {
    words: Vec<(Feature, String)>,
    /// The least and the greatest of each number.
    ranges: Vec<(Feature, u64, u64)>,
    /// Features of [`LATER`] that were always off, which have no column.
    off: Vec<Feature>,
}

/// A workload unlike all that was measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Strange {
    /// No workload with this word was measured.
    Word {
        /// Of this feature.
        feature: Feature,
        /// The word.
        word: String,
    },
    /// A number beyond all that were measured.
    Number {
        /// Of this feature.
        feature: Feature,
        /// The number, in the feature's unit.
        number: u64,
        /// The nearest that was measured.
        nearest: u64,
    },
}

fn ordered() -> impl Iterator<Item = Feature> {
    Feature::ALL.into_iter().filter(|feature| feature.is_ordered())
}

/// Features that have a column only if something was measured with them on, so that campaigns of spaces without them
/// decide as they did before there were such features.
const LATER: [Feature; 4] = [Feature::QpsMadePerSec, Feature::MrsMadePerSec, Feature::LossPpm, Feature::PathDelayNs];

fn number(workload: &Workload, feature: Feature) -> u64 {
    workload.feature(feature).number().unwrap_or(0)
}

fn log(number: u64) -> f32 {
    ((1.0 + number as f64).log2()) as f32
}

impl Encoding {
    /// What these workloads need.
    pub(crate) fn of<'w>(workloads: &(impl Iterator<Item = &'w Workload> + Clone)) -> Self {
        let mut words = BTreeSet::new();
        for workload in workloads.clone() {
            for feature in Feature::ALL {
                words.extend(workload.feature(feature).into_word().map(|word| (feature, word)));
            }
        }
        let range = |feature| {
            let numbers = || workloads.clone().map(|workload| number(workload, feature));
            (feature, numbers().min().unwrap_or(0), numbers().max().unwrap_or(0))
        };
        let is_on = |(feature, _, high): &(Feature, u64, u64)| !LATER.contains(feature) || *high > 0;
        let (ranges, off): (Vec<_>, Vec<_>) = ordered().map(range).partition(is_on);
        let off = off.into_iter().map(|(feature, ..)| feature).collect();
        Self { words: words.into_iter().collect(), ranges, off }
    }

    /// The row of a workload.
    pub(crate) fn row(&self, workload: &Workload) -> Vec<f32> {
        let mut row: Vec<f32> = self.ranges.iter().map(|(feature, ..)| log(number(workload, *feature))).collect();
        // Words of one feature stand together, so that its own is put together once.
        for words in self.words.chunk_by(|(feature, _), (other, _)| feature == other) {
            let own = workload.feature(words[0].0).into_word();
            row.extend(words.iter().map(|(_, word)| f32::from(u8::from(own.as_ref() == Some(word)))));
        }
        row
    }

    /// Features without a column in which a workload is unlike all that was measured.
    pub(crate) fn count_off(&self, workload: &Workload) -> usize {
        self.off.iter().filter(|feature| number(workload, **feature) > 0).count()
    }

    /// How far two rows are apart: numbers by their share of the range that was measured, another word by 1, and so
    /// another number if only one was measured.
    pub(crate) fn distance(&self, one: impl Fn(usize) -> f32, other: impl Fn(usize) -> f32) -> f32 {
        let numbers = self.ranges.iter().enumerate().map(|(column, (_, low, high))| {
            let span = log(*high) - log(*low);
            let apart = (one(column) - other(column)).abs();
            if span > 0.0 { apart / span } else { apart.min(1.0) }
        });
        let first = self.ranges.len();
        // Another word changes two columns.
        let words = (first..first + self.words.len()).map(|column| (one(column) - other(column)).abs() / 2.0);
        numbers.chain(words).sum()
    }

    /// A word or number of the workload that was never measured.
    pub(crate) fn strange(&self, workload: &Workload) -> Option<Strange> {
        for feature in Feature::ALL {
            if let Some(word) = workload.feature(feature).into_word()
                && !self.words.contains(&(feature, word.clone()))
            {
                return Some(Strange::Word { feature, word });
            }
        }
        let off = self.off.iter().map(|feature| (feature, &0, &0));
        let ranges = self.ranges.iter().map(|(feature, low, high)| (feature, low, high));
        ranges.chain(off).find_map(|(feature, low, high)| {
            let number = number(workload, *feature);
            let nearest = number.clamp(*low, *high);
            (nearest != number).then_some(Strange::Number { feature: *feature, number, nearest })
        })
    }
}

//! How much of a space a campaign has measured: shares of values, and of pairs of values. No experiment is judged here.

use kelpie_spaces::{Feature, FeatureValue, Space, Workload};

/// Which values of one feature were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureCoverage {
    /// The feature.
    pub feature: Feature,
    /// How many of its values were measured.
    pub seen: usize,
    /// The values that were not, in the space's order.
    pub missing: Vec<FeatureValue>,
}

impl FeatureCoverage {
    /// How many values the space has.
    pub fn values(&self) -> usize {
        self.seen + self.missing.len()
    }
}

/// How much of a space was measured.
///
/// The values of a feature are those of [`Space::feature_values`]: the words of a category, the steps of an ordered
/// feature. A workload measures each word that its value is joined of (`RC+UD` is two), and of an ordered feature the
/// highest step that is not above its value; a value below all steps measures none. A pair is two values of two
/// different features, measured when one workload measures both.
///
/// The rules of verbs forbid some pairs, such as UD with WRITE, and these count as not measured: the share of pairs
/// does not reach 1, and is for comparing campaigns over one space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Every feature that has a value in the space, in the order of [`Feature::ALL`].
    pub features: Vec<FeatureCoverage>,
    /// Pairs measured.
    pub pairs_seen: usize,
    /// Pairs that two values of two features can make.
    pub pairs: usize,
}

impl Coverage {
    /// Share of the pairs that were measured.
    ///
    /// Units: 0 to 1; 0 if there are none.
    pub fn pair_share(&self) -> f64 {
        if self.pairs == 0 { 0.0 } else { self.pairs_seen as f64 / self.pairs as f64 }
    }
}

/// The coverage of `space` by the workloads that were measured.
pub fn coverage<'w>(space: &Space, measured: impl IntoIterator<Item = &'w Workload>) -> Coverage {
    let columns = columns(space);
    let total = columns.last().map_or(0, |column| column.start + column.values.len());
    // `pairs[i * total + j]`: a workload measured the values i and j; i = j says that it measured i at all.
    let mut pairs = vec![false; total * total];
    for workload in measured {
        let seen: Vec<usize> = columns.iter().flat_map(|column| column.measured_by(workload)).collect();
        for i in &seen {
            for j in &seen {
                pairs[i * total + j] = true;
            }
        }
    }
    let is_seen = |i: usize, j: usize| pairs[i * total + j];
    let mut coverage = Coverage { features: Vec::new(), pairs_seen: 0, pairs: 0 };
    for (index, column) in columns.iter().enumerate() {
        let unseen = column.indices().filter(|i| !is_seen(*i, *i)).map(|i| column.values[i - column.start].clone());
        let missing: Vec<FeatureValue> = unseen.collect();
        let seen = column.values.len() - missing.len();
        coverage.features.push(FeatureCoverage { feature: column.feature, seen, missing });
        for other in &columns[index + 1..] {
            coverage.pairs += column.values.len() * other.values.len();
            let both = column.indices().flat_map(|i| other.indices().map(move |j| (i, j)));
            coverage.pairs_seen += both.filter(|(i, j)| is_seen(*i, *j)).count();
        }
    }
    coverage
}

/// A feature with its values, numbered on from `start`.
struct FeatureColumn {
    feature: Feature,
    values: Vec<FeatureValue>,
    start: usize,
}

fn columns(space: &Space) -> Vec<FeatureColumn> {
    let mut start = 0;
    let mut columns = Vec::new();
    for feature in Feature::ALL {
        let values = space.feature_values(feature);
        if !values.is_empty() {
            let length = values.len();
            columns.push(FeatureColumn { feature, values, start });
            start += length;
        }
    }
    columns
}

impl FeatureColumn {
    fn indices(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.values.len()
    }

    fn measured_by(&self, workload: &Workload) -> Vec<usize> {
        match workload.feature(self.feature) {
            value @ FeatureValue::Number(_) => {
                let above = self.values.partition_point(|step| *step <= value);
                above.checked_sub(1).map(|step| self.start + step).into_iter().collect()
            }
            FeatureValue::Category(words) => {
                let index = |word: &str| {
                    self.values.iter().position(|value| matches!(value, FeatureValue::Category(known) if known == word))
                };
                words.split('+').filter_map(index).map(|index| self.start + index).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TINY_SPACE, workload};

    #[test]
    fn values_and_pairs_of_a_tiny_space() {
        let space = Space::from_yaml("tiny", TINY_SPACE).unwrap();
        let nothing = coverage(&space, []);
        assert_eq!(nothing.pairs_seen, 0);
        assert!(nothing.features.iter().all(|feature| feature.seen == 0));
        let values: usize = nothing.features.iter().map(FeatureCoverage::values).sum();
        let squares: usize = nothing.features.iter().map(|feature| feature.values().pow(2)).sum();
        assert_eq!(nothing.pairs, (values * values - squares) / 2, "each two values of two features are one pair");

        let of = |coverage: &Coverage, feature: Feature| {
            let row = coverage.features.iter().find(|row| row.feature == feature).unwrap();
            (row.seen, row.values())
        };
        let first = workload(1, 1024);
        let one = coverage(&space, [&first]);
        assert_eq!(of(&one, Feature::Mtu), (1, 2));
        assert_eq!(of(&one, Feature::Qps), (1, 4), "1, 2, 3 and 4");
        let again = coverage(&space, [&first, &first]);
        assert_eq!(again, one, "the same workload again adds nothing");

        // One value of each feature makes one pair of each two features.
        let seen = one.features.iter().filter(|feature| feature.seen == 1).count();
        assert_eq!(one.pairs_seen, seen * (seen - 1) / 2);

        let second = workload(4, 4096);
        let two = coverage(&space, [&first, &second]);
        assert_eq!(of(&two, Feature::Mtu), (2, 2));
        assert_eq!(of(&two, Feature::Qps), (2, 4));
        assert!(two.pairs_seen > one.pairs_seen && two.pairs_seen < two.pairs);
        assert!(two.pair_share() > 0.0 && two.pair_share() < 1.0);
    }

    #[test]
    fn a_number_counts_for_the_step_below_and_words_count_one_by_one() {
        let space = Space::from_yaml("tiny", TINY_SPACE).unwrap();
        let columns = columns(&space);
        let column = |feature| columns.iter().find(|column| column.feature == feature).unwrap();
        let mtu = column(Feature::Mtu);
        for (bytes, expected) in [(512, None), (1024, Some(0)), (2048, Some(0)), (4096, Some(1))] {
            let measured = mtu.measured_by(&workload(1, bytes));
            assert_eq!(measured, expected.map(|step| mtu.start + step).into_iter().collect::<Vec<_>>(), "{bytes}");
        }
        let mut both = workload(1, 1024);
        both.flows.extend(workload(1, 1024).flows);
        both.flows[1].pattern[0].op = kelpie_spaces::Opcode::Read;
        assert_eq!(column(Feature::Opcode).measured_by(&both).len(), 2, "READ+WRITE");
    }
}

//! Workloads as numbers: ordered features on a logarithmic scale, words as one number each.

use kelpie_spaces::{Feature, FeatureValue, Space, Workload};

/// What stands for a word that the workload has; two different words are then as far apart as both ends of a range.
const WORD: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// How the features of one space become numbers between 0 and 1.
#[derive(Debug)]
pub(super) struct FeatureEncoding {
    scales: Vec<(Feature, FeatureScale)>,
}

#[derive(Debug)]
enum FeatureScale {
    /// Logarithms of the least and of the largest value.
    Range(f64, f64),
    Words(Vec<FeatureValue>),
}

impl FeatureEncoding {
    pub(super) fn new(space: &Space) -> Self {
        let scale = |feature: Feature| {
            let values = space.feature_values(feature);
            let scale = match (values.first()?.number(), values.last()?.number()) {
                (Some(least), Some(largest)) => FeatureScale::Range(log(least), log(largest)),
                _ => FeatureScale::Words(values.clone()),
            };
            (values.len() > 1).then_some((feature, scale))
        };
        Self { scales: Feature::ALL.into_iter().filter_map(scale).collect() }
    }

    /// The workload as a point, the same length for every workload.
    pub(super) fn features(&self, workload: &Workload) -> Vec<f64> {
        let mut point = Vec::new();
        for (feature, scale) in &self.scales {
            let value = workload.feature(*feature);
            match scale {
                FeatureScale::Range(least, largest) => {
                    point.push((log(value.number().unwrap_or(0)) - least) / (largest - least));
                }
                FeatureScale::Words(words) => {
                    point.extend(words.iter().map(|word| if *word == value { WORD } else { 0.0 }));
                }
            }
        }
        point
    }
}

/// Of 1 more, because some features can be 0.
fn log(number: u64) -> f64 {
    (number as f64 + 1.0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_words_are_one_apart() {
        let space = Space::catalog("full").expect("in the catalog");
        let encoding = FeatureEncoding::new(&space);
        let plain = kelpie_spaces::known::anomaly(1).expect("18 anomalies").trigger.workload();
        let distance = |feature: Feature, values: [FeatureValue; 2]| {
            let at = |value: &FeatureValue| {
                encoding.features(&space.with_feature(&plain, feature, value).expect("in the space"))
            };
            let [left, right] = [at(&values[0]), at(&values[1])];
            left.iter().zip(&right).map(|(left, right)| (left - right).powi(2)).sum::<f64>().sqrt()
        };
        let mrs = space.feature_values(Feature::MrSize);
        let all = distance(Feature::MrSize, [mrs[0].clone(), mrs[mrs.len() - 1].clone()]);
        assert!((all - 1.0).abs() < 0.1, "{all}");
        let devices = space.feature_values(Feature::MemoryRequester);
        let words = distance(Feature::MemoryRequester, [devices[0].clone(), devices[1].clone()]);
        assert!((words - 1.0).abs() < 1e-9, "{words}");
    }
}

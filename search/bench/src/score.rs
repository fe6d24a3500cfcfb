//! Scores of one algorithm over its campaigns: counts after so many experiments, experiments to so many weaknesses.

use std::collections::BTreeMap;

use kelpie_search::{Algorithm, Purpose, SignalSet};
use serde::Serialize;

use super::known::Known;
use super::quality::QualityScore;
use super::record::{Record, Sightings};

/// Mean and spread over campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Units: of the values.
    pub mean: f64,
    /// Standard deviation of a sample; absent of a single campaign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of these values; `None` of none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        (!values.is_empty()).then_some(Self { mean, deviation })
    }
}

/// Experiments until so many weaknesses were found, or touched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reach {
    /// How many.
    pub weaknesses: usize,
    /// Campaigns that got there count with their experiments, the others with their budget: if there are any, the
    /// true mean is larger.
    #[serde(flatten)]
    pub experiments: Spread,
    /// Campaigns that got there.
    pub reached: usize,
}

/// The campaigns of one algorithm on one subsystem, or on all.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Name of what was searched, or `mean`.
    pub subsystem: String,
    /// Which search.
    pub algorithm: Algorithm,
    /// `None` if no signal guides it.
    pub signal: Option<SignalSet>,
    /// Experiments of each campaign.
    pub budget: u64,
    /// Its campaigns.
    pub records: Vec<Record>,
}

impl Score {
    /// The algorithm with its signals, such as `collie diag`.
    pub fn name(&self) -> String {
        let signal = self.signal.map_or(String::new(), |signal| format!(" {signal}"));
        format!("{}{signal}", self.algorithm)
    }

    /// Weaknesses found by then.
    pub fn found(&self, by: u64) -> Option<Spread> {
        self.count(|record| &record.found, by)
    }

    /// Weaknesses touched by then.
    pub fn touched(&self, by: u64) -> Option<Spread> {
        self.count(|record| &record.touched, by)
    }

    fn count(&self, of: fn(&Record) -> &Sightings, by: u64) -> Option<Spread> {
        Spread::of(self.records.iter().map(|record| of(record).weaknesses(by).len() as f64))
    }

    /// Findings of each campaign.
    pub fn findings(&self) -> Option<Spread> {
        Spread::of(self.records.iter().map(|record| record.findings as f64))
    }

    /// Experiments that each stage asked for, in the mean.
    pub fn purposes(&self) -> BTreeMap<&'static str, f64> {
        let mean = |purpose: Purpose| {
            let of = |record: &Record| record.purposes.get(purpose.name()).copied().unwrap_or(0) as f64;
            let mean = Spread::of(self.records.iter().map(of))?.mean;
            (mean > 0.0).then_some((purpose.name(), mean))
        };
        Purpose::ALL.into_iter().filter_map(mean).collect()
    }

    /// Weaknesses found, those of each transport and operation counted apart.
    pub fn witnesses(&self) -> Option<Spread> {
        Spread::of(self.records.iter().map(|record| record.found.witnesses() as f64))
    }

    /// Share of the known weaknesses of its subsystem that were found by then. Units: 0 to 1.
    pub fn known_share(&self, known: &[Known], by: u64) -> Option<Spread> {
        let share = |record: &Record| {
            let known = known.iter().find(|known| known.subsystem == record.subsystem)?;
            known.share(&record.found.weaknesses(by))
        };
        Spread::of(self.records.iter().filter_map(share))
    }

    /// How good the findings of its campaigns are; `None` if that was not asked.
    pub fn quality(&self) -> Option<QualityScore> {
        QualityScore::of(self.records.iter().filter_map(|record| record.quality.as_ref()))
    }

    /// Experiments to the first, second and further weaknesses, as far as any campaign found them.
    pub fn to_found(&self) -> Vec<Reach> {
        self.reaches(|record| &record.found)
    }

    /// The same of touching them.
    pub fn to_touched(&self) -> Vec<Reach> {
        self.reaches(|record| &record.touched)
    }

    fn reaches(&self, of: fn(&Record) -> &Sightings) -> Vec<Reach> {
        let firsts: Vec<Vec<u64>> = self.records.iter().map(|record| of(record).firsts()).collect();
        let most = firsts.iter().map(Vec::len).max().unwrap_or(0);
        let reach = |weaknesses: usize| {
            let at = |firsts: &Vec<u64>| firsts.get(weaknesses - 1).copied();
            let experiments = Spread::of(firsts.iter().map(|firsts| at(firsts).unwrap_or(self.budget) as f64))?;
            Some(Reach { weaknesses, experiments, reached: firsts.iter().filter_map(at).count() })
        };
        (1..=most).filter_map(reach).collect()
    }
}

/// The scores, and those of each algorithm over all subsystems if there are several.
pub fn with_means(scores: &[Score]) -> Vec<Score> {
    let mut all = scores.to_vec();
    let Some(first) = scores.first().filter(|first| scores.iter().any(|score| score.subsystem != first.subsystem))
    else {
        return all;
    };
    for own in scores.iter().filter(|score| score.subsystem == first.subsystem) {
        let same = scores.iter().filter(|score| (score.algorithm, score.signal) == (own.algorithm, own.signal));
        let records = same.flat_map(|score| score.records.clone()).collect();
        all.push(Score { subsystem: "all".to_owned(), records, ..own.clone() });
    }
    all
}

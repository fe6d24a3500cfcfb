//! Every constant of the search that can be tuned, with its default, its unit and where it comes from.
//!
//! Defaults are what a campaign is made with; they are not stored with it, but for the schedule and the limits of
//! regions.

use serde::{Deserialize, Serialize};

/// The constants of a search.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Tuning {
    /// The annealing schedule.
    #[serde(default)]
    pub schedule: Schedule,
    /// How much is spent on the region of one anomaly.
    #[serde(default)]
    pub mfs: MfsLimits,
    /// What the budget goes into.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pace: Pace,
    /// When two anomalies are taken for the same weakness.
    #[serde(default, skip_serializing_if = "is_default")]
    pub likeness: Likeness,
    /// How an anomaly is reduced to its region.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reduction: Reduction,
    /// What is remembered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Memory,
}

/// Whether nothing was tuned: then nothing is stored, and campaigns keep their bytes.
fn is_default<T: Default + PartialEq>(group: &T) -> bool {
    *group == T::default()
}

/// The annealing schedule. Temperatures are in relative change of a signal.
///
/// Source: the symbols are those of Collie, Algorithm 1; it gives no values, only that they are relaxed. The defaults,
/// seven temperatures of four steps, are our choice, because one run over ten signals then fits a budget of 1,500
/// beside the experiments for regions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
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

impl Default for Schedule {
    fn default() -> Self {
        Self { initial: 1.0, lowest: 0.1, decay: 0.7, steps: 4, ranking_points: 10 }
    }
}

/// How much is spent on the region of one anomaly.
///
/// Source: our choice, because a region with 5 % healthy points passes 36 in a row once in six times, and every other
/// point is sampled where healthy ones mostly are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MfsLimits {
    /// Experiments after which the next healthy point inside has a region narrowed around its anomaly.
    pub experiments: u32,
    /// Random points inside that must be anomalous in a row before a region is stored.
    pub validation_run: u32,
}

impl Default for MfsLimits {
    fn default() -> Self {
        Self { experiments: 80, validation_run: 36 }
    }
}

/// What the budget goes into. A part of `n` is one `n`th.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Part of its budget that a search spends on random points before its first region.
    ///
    /// Source: our choice, because known healthy points halve the cost of a region, and anomalies can be compared.
    pub warm_up_part: u64,
    /// Random points after which more before the first region would help little, whatever the budget.
    ///
    /// Source: our choice, because on subsystem F the first 400 random points show 11 of the 13 weaknesses, and because
    /// a campaign may be stopped long before its budget is spent.
    pub most_warm_up: u64,
    /// Share of all experiments that regions of new weaknesses may take. Units: 0 to 1.
    ///
    /// Source: our choice, because on subsystem F the first 400 random points show 11 of the 13 weaknesses.
    pub new_share: f64,
    /// Share of all experiments that regions may take once everything seen resembles a known region. Units: 0 to 1.
    ///
    /// Source: our choice, because such an anomaly is mostly a corner of a region already found.
    pub familiar_share: f64,
    /// Part of its budget in which a search stores what it has seen without looking for its region.
    ///
    /// Source: our choice, because a region takes about 100 experiments, and the last one would not be finished.
    pub closing_part: u64,
    /// Random points in a row that may lie in known regions before the space counts as covered.
    ///
    /// Source: our choice, because then at most 0.3 % of the space is left, with 95 % confidence.
    pub covered_after: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            warm_up_part: 5,
            most_warm_up: 400,
            new_share: 0.85,
            familiar_share: 0.8,
            closing_part: 8,
            covered_after: 1000,
        }
    }
}

/// When two anomalies are taken for the same weakness: by how high their counters are, and by their words.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Likeness {
    /// Decades below the largest value of a counter that was ever seen, over which its values count as different.
    ///
    /// Source: our choice, because counters of one weakness spread over about a decade in random workloads of subsystem
    /// F.
    pub decades: f64,
    /// Squared distance that a word adds which says how packets are processed: transport, operation, loopback.
    ///
    /// Source: our choice, because weaknesses of one part for two transports show equal counters.
    pub path_word: f64,
    /// Squared distance that any other word adds. Source: our choice, a quarter of the above.
    pub word: f64,
    /// Squared distance below which two anomalies are taken for the same weakness.
    ///
    /// Source: our choice, because of 547 anomalies of random workloads on subsystem F the nearest other one had the
    /// same cause in about 85 % of cases.
    pub alike: f64,
    /// Anomalies like it beyond which more say nothing new about whether one is worth a region.
    ///
    /// Source: our choice, because three are no coincidence.
    pub witnesses: usize,
}

impl Default for Likeness {
    fn default() -> Self {
        Self { decades: 3.0, path_word: 1.0, word: 0.25, alike: 0.8, witnesses: 3 }
    }
}

/// How an anomaly is reduced to its region.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reduction {
    /// How much of what an anomaly costs in utilisation may be lost when it is simplified. Units: 0 to 1.
    ///
    /// Source: our choice, because with less left its border would be the anomaly itself.
    pub loss: f64,
    /// Restorations that are measured before a feature is blamed without.
    ///
    /// Source: our choice, because rules rarely tie more features together.
    pub restorations: usize,
    /// Words beyond which substitution is not tried and a condition admits only what is known anomalous.
    ///
    /// Source: our choice, because each costs an experiment.
    pub most_words: usize,
    /// Steps of the ladder that a healthy point may lie outside of where the symptom begins, for a bound to move over
    /// it.
    ///
    /// Source: our choice, because four steps of a range are a factor of four.
    pub nudge: usize,
    /// Steps of the random walk from the anomaly that stands in if the space has no sample inside a region.
    ///
    /// Source: our choice, because there are about twenty features.
    pub walk_steps: u32,
    /// Part of the validation run that is added for each healthy point that validation has found.
    ///
    /// Source: our choice, because a run that may be tried again after each of them passes more often than one that may
    /// not.
    pub doubt_part: u32,
    /// Part of the validation run that is left out of a wide region once as many more random points were seen inside.
    ///
    /// Source: our choice, because what was shut out last was rare then.
    pub well_known_part: u32,
    /// Healthy points that validation may find in a wide region before it is narrowed.
    ///
    /// Source: our choice, because wide regions of subsystem F that could be validated had 0 to 3, few of them more.
    pub wide_failures: u32,
    /// Healthy points that validation may find in a narrowed region before it is narrowed again, or given up.
    ///
    /// Source: our choice, because a narrowed region has few workloads left.
    pub pinned_failures: u32,
    /// Part of the limit of experiments by which that of a narrowed region is higher. Source: our choice.
    pub pinned_part: u32,
    /// Limits of experiments after which a region is given up, because most answers are inconclusive. Source: our
    /// choice.
    pub most_limits: u32,
    /// Broken points that are measured for one condition, to see whether breaking it cures. Source: our choice.
    pub breaks: usize,
    /// Conditions that a point of the neighbourhood may break.
    ///
    /// Source: our choice, because products of two features (QPs and MRs of each) bound many weaknesses, and a
    /// conjunction cuts their corners.
    pub broken_by_neighbours: usize,
    /// Confidence below which a region is not stored, because no conjunction of features separates its healthy points.
    /// Units: 0 to 1.
    ///
    /// Source: our choice, because a validated region reaches 0.91, and one whose healthy points no feature separates
    /// does not.
    pub least_confidence: f64,
}

impl Default for Reduction {
    fn default() -> Self {
        Self {
            loss: 0.5,
            restorations: 4,
            most_words: 8,
            nudge: 4,
            walk_steps: 40,
            doubt_part: 6,
            well_known_part: 3,
            wide_failures: 3,
            pinned_failures: 1,
            pinned_part: 2,
            most_limits: 3,
            breaks: 3,
            broken_by_neighbours: 2,
            least_confidence: 0.85,
        }
    }
}

/// What is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Workloads with their outcomes; the oldest half is forgotten beyond that.
    ///
    /// Source: our choice, because it holds a day of simulated experiments in some tens of megabytes.
    pub outcomes: usize,
    /// Anomalies; every other one is forgotten beyond that, so that every weakness keeps some.
    ///
    /// Source: our choice, because choosing compares all with all.
    pub sightings: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { outcomes: 1 << 16, sightings: 1024 }
    }
}

/// Why a tuning was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {key}: {rule}")]
pub struct TuningError {
    /// Where the text came from.
    pub file: String,
    /// Key path, such as `pace.new_share`.
    pub key: String,
    /// What is wrong.
    pub rule: String,
}

impl Tuning {
    /// Reads a tuning; what the text leaves out has its default.
    ///
    /// # Errors
    /// Not YAML, an unknown key, or a value that no search can work with.
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, TuningError> {
        /// A [`Tuning`] without unknown keys, which it cannot refuse itself because it is flattened into a config.
        #[derive(Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[derive(Default)]
        struct Document {
            schedule: Schedule,
            mfs: MfsLimits,
            pace: Pace,
            likeness: Likeness,
            reduction: Reduction,
            memory: Memory,
        }
        let refused = |key: String, rule: String| TuningError { file: file.to_owned(), key, rule };
        let reader = serde_yaml::Deserializer::from_str(text);
        let document: Document = serde_path_to_error::deserialize(reader)
            .map_err(|error| refused(error.path().to_string(), error.inner().to_string()))?;
        let Document { schedule, mfs, pace, likeness, reduction, memory } = document;
        let tuning = Self { schedule, mfs, pace, likeness, reduction, memory };
        match tuning.broken_rule() {
            Some((key, rule)) => Err(refused(key.to_owned(), rule.to_owned())),
            None => Ok(tuning),
        }
    }

    /// The first key whose value no search can work with, and what it needs.
    fn broken_rule(&self) -> Option<(&'static str, &'static str)> {
        let Self { schedule, mfs, pace, likeness, reduction, memory } = self;
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        let is_positive = |value: f64| value > 0.0 && value.is_finite();
        let rules = [
            ("schedule.initial", is_positive(schedule.initial), "write a temperature above 0"),
            ("schedule.lowest", is_positive(schedule.lowest), "write a temperature above 0"),
            ("schedule.decay", is_share(schedule.decay) && schedule.decay < 1.0, "write 0 to below 1"),
            ("mfs.validation_run", mfs.validation_run > 0, "write at least 1"),
            ("pace.warm_up_part", pace.warm_up_part > 0, "write at least 1"),
            ("pace.new_share", is_share(pace.new_share), "write 0 to 1"),
            ("pace.familiar_share", is_share(pace.familiar_share), "write 0 to 1"),
            ("pace.closing_part", pace.closing_part > 0, "write at least 1"),
            ("pace.covered_after", pace.covered_after > 0, "write at least 1"),
            ("likeness.decades", is_positive(likeness.decades), "write a number above 0"),
            ("likeness.path_word", likeness.path_word >= 0.0, "write 0 or more"),
            ("likeness.word", likeness.word >= 0.0, "write 0 or more"),
            ("likeness.alike", is_positive(likeness.alike), "write a number above 0"),
            ("reduction.loss", is_share(reduction.loss), "write 0 to 1"),
            ("reduction.doubt_part", reduction.doubt_part > 0, "write at least 1"),
            ("reduction.well_known_part", reduction.well_known_part > 0, "write at least 1"),
            ("reduction.pinned_part", reduction.pinned_part > 0, "write at least 1"),
            ("reduction.most_limits", reduction.most_limits > 0, "write at least 1"),
            ("reduction.least_confidence", is_share(reduction.least_confidence), "write 0 to 1"),
            ("memory.outcomes", memory.outcomes >= 2, "write at least 2"),
            ("memory.sightings", memory.sightings >= 2, "write at least 2"),
        ];
        rules.into_iter().find(|(_, holds, _)| !holds).map(|(key, _, rule)| (key, rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Config, SignalSet};

    #[test]
    fn what_is_not_tuned_is_not_stored() {
        let config = Config::new(Algorithm::Collie, SignalSet::Both, 7);
        let stored = "{\"algorithm\":\"collie\",\"signal\":\"both\",\"seed\":7,\"budget\":null,\
             \"schedule\":{\"initial\":1.0,\"lowest\":0.1,\"decay\":0.7,\"steps\":4,\"ranking_points\":10},\
             \"mfs\":{\"experiments\":80,\"validation_run\":36}}";
        assert_eq!(serde_json::to_string(&config).expect("plain data"), stored);
        assert_eq!(serde_json::from_str::<Config>(stored).expect("as it was always stored"), config);
    }

    #[test]
    fn what_is_tuned_is_stored_and_reads_back() {
        let mut config = Config::new(Algorithm::Random, SignalSet::Perf, 1);
        config.tuning.likeness.alike = 0.5;
        config.tuning.schedule.steps = 8;
        let stored = serde_json::to_string(&config).expect("plain data");
        assert!(stored.contains("\"likeness\":{\"decades\":3.0,") && !stored.contains("pace"), "{stored}");
        assert_eq!(serde_json::from_str::<Config>(&stored).expect("JSON"), config);
    }

    #[test]
    fn files_set_what_they_name() {
        let tuning = Tuning::from_yaml("t", "pace: {new_share: 0.5}\nmfs: {experiments: 40}\n").expect("a tuning");
        let expected = Tuning {
            pace: Pace { new_share: 0.5, ..Pace::default() },
            mfs: MfsLimits { experiments: 40, ..MfsLimits::default() },
            ..Tuning::default()
        };
        assert_eq!(tuning, expected);
        assert_eq!(Tuning::from_yaml("t", "{}"), Ok(Tuning::default()));
    }

    #[test]
    fn files_that_no_search_can_work_with_are_refused_by_their_key() {
        for (text, key) in [
            ("speed: 9", "speed"),
            ("pace: {fast: true}", "pace.fast"),
            ("pace: {new_share: 1.5}", "pace.new_share"),
            ("pace: {warm_up_part: 0}", "pace.warm_up_part"),
            ("schedule: {decay: 1}", "schedule.decay"),
            ("schedule: {initial: .nan}", "schedule.initial"),
            ("schedule: {steps: many}", "schedule.steps"),
            ("reduction: {doubt_part: 0}", "reduction.doubt_part"),
            ("memory: {outcomes: 1}", "memory.outcomes"),
            ("[1, 2]", "."),
        ] {
            let error = Tuning::from_yaml("t.yaml", text).expect_err(text);
            assert_eq!((error.file.as_str(), error.key.as_str()), ("t.yaml", key), "{error}");
        }
    }
}

//! Regions: conjunctions of conditions on features, which is what a minimal feature set (MFS) is. Finding them lives in
//! the search.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::features::{Feature, FeatureValue};
use crate::workload::Workload;

/// One condition: a feature and the values it may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawCondition", into = "RawCondition")]
pub struct Condition {
    /// What is looked at.
    pub feature: Feature,
    /// What it must be.
    pub test: Test,
}

/// The values that a condition admits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// One of these words; for features without an order.
    In(Vec<String>),
    /// Both ends inclusive, either open; for ordered features, in the feature's unit.
    Range {
        /// Lower end.
        min: Option<u64>,
        /// Upper end.
        max: Option<u64>,
    },
}

impl Condition {
    /// Whether the workload fulfils the condition.
    pub fn holds(&self, workload: &Workload) -> bool {
        self.admits(&workload.feature(self.feature))
    }

    /// Whether this value of the feature fulfils the condition.
    pub fn admits(&self, value: &FeatureValue) -> bool {
        match (&self.test, value) {
            (Test::In(words), FeatureValue::Category(word)) => words.contains(word),
            (Test::Range { min, max }, FeatureValue::Number(number)) => {
                min.is_none_or(|min| *number >= min) && max.is_none_or(|max| *number <= max)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |number: u64| self.feature.written(number);
        write!(f, "{} ", self.feature)?;
        match &self.test {
            Test::In(words) => write!(f, "is {}", words.join(" or ")),
            Test::Range { min: Some(min), max: Some(max) } if min == max => write!(f, "is {}", show(*min)),
            Test::Range { min: Some(min), max: Some(max) } => write!(f, "from {} to {}", show(*min), show(*max)),
            Test::Range { min: Some(min), max: None } => write!(f, "at least {}", show(*min)),
            Test::Range { min: None, max: Some(max) } => write!(f, "at most {}", show(*max)),
            Test::Range { min: None, max: None } => f.write_str("is anything"),
        }
    }
}

/// A conjunction of conditions; without any it is the whole space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Region {
    /// All must hold.
    pub conditions: Vec<Condition>,
}

impl Region {
    /// Whether the workload fulfils every condition.
    pub fn contains(&self, workload: &Workload) -> bool {
        self.conditions.iter().all(|condition| condition.holds(workload))
    }

    /// The conditions that the workload does not fulfil.
    pub fn missed(&self, workload: &Workload) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().filter(|condition| !condition.holds(workload))
    }

    /// Those, if they are bounds, at most `most` and not all.
    pub fn missed_bounds(&self, workload: &Workload, most: usize) -> Option<Vec<&Condition>> {
        let missed: Vec<&Condition> = self.missed(workload).collect();
        let are_few = missed.len() <= most && missed.len() < self.conditions.len();
        (are_few && missed.iter().all(|condition| condition.feature.is_ordered())).then_some(missed)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.conditions.is_empty() {
            return f.write_str("any workload");
        }
        for (index, condition) in self.conditions.iter().enumerate() {
            let glue = if index == 0 { "" } else { " and " };
            write!(f, "{glue}{condition}")?;
        }
        Ok(())
    }
}

/// A condition as it is written: `{feature, in}` or `{feature, min, max}`.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum RawCondition {
    Words {
        feature: Feature,
        r#in: Vec<Word>,
    },
    Range {
        feature: Feature,
        #[serde(default)]
        min: Option<u64>,
        #[serde(default)]
        max: Option<u64>,
    },
}

/// A word, or a boolean that YAML or JSON made of `true`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Truth(bool),
}

/// A condition that does not fit its feature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCondition {
    /// A range on words.
    #[error("{0} has no order: write {{feature: {0}, in: [...]}}")]
    NoOrder(Feature),
    /// Words on an ordered feature.
    #[error("{0} is ordered: write {{feature: {0}, min: ..., max: ...}}")]
    Ordered(Feature),
    /// Nothing can fulfil it.
    #[error("no value of {0} fulfils the condition")]
    Empty(Feature),
}

impl TryFrom<RawCondition> for Condition {
    type Error = BadCondition;

    fn try_from(raw: RawCondition) -> Result<Self, Self::Error> {
        match raw {
            RawCondition::Words { feature, .. } if feature.is_ordered() => Err(BadCondition::Ordered(feature)),
            RawCondition::Words { feature, r#in } if r#in.is_empty() => Err(BadCondition::Empty(feature)),
            RawCondition::Words { feature, r#in } => {
                let text = |word| match word {
                    Word::Text(text) => text,
                    Word::Truth(truth) => truth.to_string(),
                };
                Ok(Condition { feature, test: Test::In(r#in.into_iter().map(text).collect()) })
            }
            RawCondition::Range { feature, .. } if !feature.is_ordered() => Err(BadCondition::NoOrder(feature)),
            RawCondition::Range { feature, min: Some(min), max: Some(max) } if min > max => {
                Err(BadCondition::Empty(feature))
            }
            RawCondition::Range { feature, min, max } => Ok(Condition { feature, test: Test::Range { min, max } }),
        }
    }
}

impl From<Condition> for RawCondition {
    fn from(condition: Condition) -> Self {
        let feature = condition.feature;
        match condition.test {
            Test::In(words) => RawCondition::Words { feature, r#in: words.into_iter().map(Word::Text).collect() },
            Test::Range { min, max } => RawCondition::Range { feature, min, max },
        }
    }
}

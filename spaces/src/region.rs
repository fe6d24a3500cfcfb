//! Regions: conjunctions of conditions on features, which is what a minimal feature set (MFS) is. Finding them lives in
//! the search.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::features::{Feature, FeatureValue};
use crate::workload::Workload;

/// One condition: a feature and the values it may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "ReadCondition", into = "RawCondition")]
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

    /// As short as a table needs it, such as `qps≥512`; a word of yes or no is its feature.
    pub fn brief(&self) -> String {
        let show = |number: u64| self.feature.written(number);
        match &self.test {
            Test::In(words) => match words.as_slice() {
                [word] if word == "true" => self.feature.to_string(),
                [word] if word == "false" => format!("no {}", self.feature),
                words => format!("{} {}", self.feature, words.join("|")),
            },
            Test::Range { min: Some(min), max: Some(max) } if min == max => format!("{} {}", self.feature, show(*min)),
            Test::Range { min: Some(min), max: Some(max) } => {
                format!("{} {}–{}", self.feature, show(*min), show(*max))
            }
            Test::Range { min: Some(min), max: None } => format!("{}≥{}", self.feature, show(*min)),
            Test::Range { min: None, max: Some(max) } => format!("{}≤{}", self.feature, show(*max)),
            Test::Range { min: None, max: None } => format!("any {}", self.feature),
        }
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

    /// The condition on a feature.
    pub fn condition(&self, feature: Feature) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.feature == feature)
    }

    /// Puts a condition in the place of the one on its feature, and all in order.
    pub fn set(&mut self, condition: Condition) {
        self.conditions.retain(|old| old.feature != condition.feature);
        self.conditions.push(condition);
        self.conditions.sort();
    }

    /// The conditions that the workload does not fulfil.
    pub fn missed(&self, workload: &Workload) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().filter(|condition| !condition.holds(workload))
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
#[derive(Serialize)]
#[serde(untagged)]
enum RawCondition {
    Words { feature: Feature, r#in: Vec<ConditionWord> },
    Range { feature: Feature, min: Option<u64>, max: Option<u64> },
}

/// A condition as it is read: with every key that either form has, so that a mistake is told by its rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadCondition {
    feature: Feature,
    #[serde(default)]
    r#in: Option<Vec<ConditionWord>>,
    #[serde(default)]
    min: Option<u64>,
    #[serde(default)]
    max: Option<u64>,
}

/// A word, or what YAML or JSON made of `true` or `3`.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "write a word or a whole number")]
enum ConditionWord {
    Text(String),
    Truth(bool),
    Number(u64),
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

impl TryFrom<ReadCondition> for Condition {
    type Error = BadCondition;

    fn try_from(ReadCondition { feature, r#in, min, max }: ReadCondition) -> Result<Self, Self::Error> {
        let has_range = min.is_some() || max.is_some();
        let test = match r#in {
            Some(_) if feature.is_ordered() => return Err(BadCondition::Ordered(feature)),
            None if !feature.is_ordered() => return Err(BadCondition::NoOrder(feature)),
            Some(_) if has_range => return Err(BadCondition::NoOrder(feature)),
            Some(words) if words.is_empty() => return Err(BadCondition::Empty(feature)),
            Some(words) => {
                let text = |word| match word {
                    ConditionWord::Text(text) => text,
                    ConditionWord::Truth(truth) => truth.to_string(),
                    ConditionWord::Number(number) => number.to_string(),
                };
                Test::In(words.into_iter().map(text).collect())
            }
            None if min.zip(max).is_some_and(|(min, max)| min > max) => return Err(BadCondition::Empty(feature)),
            None => Test::Range { min, max },
        };
        Ok(Condition { feature, test })
    }
}

impl From<Condition> for RawCondition {
    fn from(condition: Condition) -> Self {
        let feature = condition.feature;
        match condition.test {
            Test::In(words) => {
                RawCondition::Words { feature, r#in: words.into_iter().map(ConditionWord::Text).collect() }
            }
            Test::Range { min, max } => RawCondition::Range { feature, min, max },
        }
    }
}

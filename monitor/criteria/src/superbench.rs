//! Rules and baselines of SuperBench: files of its users are read and say what they say there, as its documentation has
//! it (<https://microsoft.github.io/superbenchmark/docs/user-tutorial/data-diagnosis>). Criteria are parsed, and never
//! run as code; a metric without a baseline is missing by itself, and the others are judged.

mod expression;
mod summary;

use std::collections::{BTreeMap, BTreeSet};

use regex_lite::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::learn::NodeState;

pub use expression::{Expression, ExpressionError};
pub use summary::{Summary, SummaryError};

/// Most rules, and most metrics of a rule. Source: our choice; files of SuperBench have dozens.
const MOST_RULES: usize = 1024;
/// Longest compiled pattern. Units: bytes. Source: our choice.
const PATTERN_LIMIT: usize = 1 << 20;

/// What a rule does with a metric. Source: the documentation's `function`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleFunction {
    /// The criterion of the share by which a value differs from its baseline.
    Variance,
    /// The criterion of the value.
    Value,
    /// As `value`, and a metric that nobody measured violates it, too.
    FailureCheck,
    /// The criterion of how often other rules were violated.
    MultiRules,
}

/// A rule as a file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleKeys {
    function: RuleFunction,
    criteria: String,
    categories: Option<String>,
    #[serde(default)]
    store: bool,
    #[serde(default)]
    metrics: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct RulesKey {
    rules: BTreeMap<String, RuleKeys>,
}

#[derive(Debug, Deserialize)]
struct FileKeys {
    superbench: RulesKey,
}

/// A rule.
#[derive(Debug)]
struct Rule {
    name: String,
    function: RuleFunction,
    criterion: Expression,
    category: String,
    /// Whether it only counts for rules over several.
    is_stored: bool,
    /// As written, and what it matches.
    metrics: Vec<(String, Regex)>,
}

/// The rules of a file, those over several last.
#[derive(Debug)]
pub struct Rules(Vec<Rule>);

/// Values of healthy nodes, by metric.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Baseline(pub BTreeMap<String, f64>);

/// Why a file of rules was refused.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// It is no such YAML.
    #[error("{0}")]
    Yaml(#[from] serde_yaml::Error),
    /// A rule breaks one of ours.
    #[error("superbench.rules.{rule}.{key}: {why}")]
    Rule {
        /// The rule's name.
        rule: String,
        /// The key.
        key: &'static str,
        /// What is wrong.
        why: String,
    },
    /// There is no rule, or there are too many.
    #[error("superbench.rules: write 1 to {MOST_RULES} rules")]
    Count,
}

/// A metric that violates a rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Violation {
    /// The rule.
    pub rule: String,
    /// What the rule says is broken.
    pub category: String,
    /// The metric; of a rule over several, how often each was violated.
    pub metric: String,
    /// The value; none if nobody measured it.
    pub value: Option<f64>,
    /// The share by which it differs from its baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variance: Option<f64>,
}

/// What the rules say of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleVerdict {
    /// Whether it may take jobs.
    pub state: NodeState,
    /// What it violates, in order of the rules.
    pub violations: Vec<Violation>,
    /// Metrics that a rule is about, and nothing can be said of.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub missing: BTreeSet<String>,
}

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// Names the rule and the key that are wrong.
    pub fn from_yaml(text: &str) -> Result<Self, RulesError> {
        let keys = serde_yaml::from_str::<FileKeys>(text)?.superbench.rules;
        if !(1..=MOST_RULES).contains(&keys.len()) {
            return Err(RulesError::Count);
        }
        let mut rules: Vec<Rule> =
            keys.into_iter().map(|(name, keys)| Rule::new(name, keys)).collect::<Result<_, _>>()?;
        rules.sort_by_key(|rule| rule.function == RuleFunction::MultiRules);
        let names: BTreeSet<String> = rules.iter().map(|rule| rule.name.clone()).collect();
        for rule in rules.iter().filter(|rule| rule.function == RuleFunction::MultiRules) {
            if let Some(unknown) = rule.criterion.labels().into_iter().find(|label| !names.contains(*label)) {
                return Err(rule.refuse("criteria", format!("there is no rule `{unknown}`")));
            }
        }
        Ok(Self(rules))
    }

    /// What the rules say of each node.
    pub fn judge(&self, summary: &Summary, baseline: &Baseline) -> BTreeMap<String, RuleVerdict> {
        summary.nodes.iter().map(|(node, metrics)| (node.clone(), self.judge_node(metrics, baseline))).collect()
    }

    fn judge_node(&self, metrics: &BTreeMap<String, f64>, baseline: &Baseline) -> RuleVerdict {
        let mut verdict = RuleVerdict { state: NodeState::Pass, violations: Vec::new(), missing: BTreeSet::new() };
        let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
        for rule in &self.0 {
            let violations = if rule.function == RuleFunction::MultiRules {
                rule.over_several(&counts)
            } else {
                rule.violations(metrics, baseline, &mut verdict.missing)
            };
            counts.insert(&rule.name, violations.len() as f64);
            if !rule.is_stored {
                verdict.violations.extend(violations);
            }
        }
        verdict.state = match (verdict.violations.is_empty(), verdict.missing.is_empty()) {
            (false, _) => NodeState::Fail,
            (true, false) => NodeState::Unknown,
            (true, true) => NodeState::Pass,
        };
        verdict
    }
}

impl Rule {
    fn new(name: String, keys: RuleKeys) -> Result<Self, RulesError> {
        let RuleKeys { function, criteria, categories, store, metrics } = keys;
        let refuse = |key, why| RulesError::Rule { rule: name.clone(), key, why };
        let criterion = Expression::parse(&criteria).map_err(|error| refuse("criteria", error.to_string()))?;
        let is_over_several = function == RuleFunction::MultiRules;
        if is_over_several == criterion.labels().is_empty() {
            let why =
                if is_over_several { "write `lambda label: label[\"rule\"] > 0`" } else { "write `lambda x: x > 0`" };
            return Err(refuse("criteria", why.to_owned()));
        }
        if is_over_several != metrics.is_empty() || metrics.len() > MOST_RULES {
            return Err(refuse("metrics", format!("write 1 to {MOST_RULES}, and none of multi_rules")));
        }
        let category = match categories {
            Some(category) => category,
            None if store => String::new(),
            None => return Err(refuse("categories", "write what is broken, or `store: true`".to_owned())),
        };
        let compile = |text: String| {
            let pattern = RegexBuilder::new(&text).size_limit(PATTERN_LIMIT).build();
            pattern.map(|pattern| (text, pattern)).map_err(|error| refuse("metrics", error.to_string()))
        };
        let metrics = metrics.into_iter().map(compile).collect::<Result<_, _>>()?;
        Ok(Self { name, function, criterion, category, is_stored: store, metrics })
    }

    fn refuse(&self, key: &'static str, why: String) -> RulesError {
        RulesError::Rule { rule: self.name.clone(), key, why }
    }

    fn violation(&self, metric: &str, value: Option<f64>, variance: Option<f64>) -> Violation {
        let (rule, category, metric) = (self.name.clone(), self.category.clone(), metric.to_owned());
        Violation { rule, category, metric, value, variance }
    }

    fn violations(
        &self,
        metrics: &BTreeMap<String, f64>,
        baseline: &Baseline,
        missing: &mut BTreeSet<String>,
    ) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut seen = BTreeSet::new();
        for (text, pattern) in &self.metrics {
            let matched: Vec<(&String, f64)> =
                metrics.iter().filter(|(name, _)| pattern.is_match(name)).map(|(name, value)| (name, *value)).collect();
            if matched.is_empty() {
                if self.function == RuleFunction::FailureCheck {
                    violations.push(self.violation(text, None, None));
                } else {
                    missing.insert(text.clone());
                }
            }
            for (name, value) in matched.into_iter().filter(|(name, _)| seen.insert((*name).clone())) {
                let mut variance = None;
                if self.function == RuleFunction::Variance {
                    let Some(of) = baseline.0.get(name).filter(|of| **of != 0.0) else {
                        missing.insert(name.clone());
                        continue;
                    };
                    variance = Some((value - of) / of);
                }
                if self.criterion.is_true(variance.unwrap_or(value), &BTreeMap::new()) {
                    violations.push(self.violation(name, Some(value), variance));
                }
            }
        }
        violations
    }

    fn over_several(&self, counts: &BTreeMap<&str, f64>) -> Vec<Violation> {
        if !self.criterion.is_true(0.0, counts) {
            return Vec::new();
        }
        let labels = self.criterion.labels().into_iter();
        let counted: Vec<String> =
            labels.map(|label| format!("{label}: {}", counts.get(label).copied().unwrap_or_default())).collect();
        vec![self.violation(&counted.join(", "), None, None)]
    }
}

//! A check: one thing that was examined, its state, the evidence, and the step that repairs it. Who looks is elsewhere.

use serde::{Deserialize, Serialize};

use crate::checks::{CHECKS, CheckKind, CheckRow, Gauge, Repair};
use crate::machine::Machine;

/// The state of a thing; the later, the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// The host has nothing of the kind.
    NotApplicable,
    /// The setting is as it should be.
    #[serde(alias = "ok")]
    Pass,
    /// The state could not be determined.
    Unknown,
    /// Measurements run, but may show less, or show the setting instead of the NIC.
    Warn,
    /// Measurements fail, or show the setting instead of the NIC.
    #[serde(alias = "bad")]
    Fail,
}

impl CheckState {
    /// All states, the best first.
    pub const ALL: [Self; 5] = [Self::NotApplicable, Self::Pass, Self::Unknown, Self::Warn, Self::Fail];

    /// The word for it in files, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "not_applicable",
            Self::Pass => "pass",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One source that a check rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckEvidence {
    /// A file, or whatever else was asked.
    pub source: String,
    /// What the source said.
    pub value: String,
}

/// A value that a check measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckValue {
    /// What it is.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit; empty for a count or a share.
    pub unit: String,
    /// The value at which the check passes, if there is one. The table of checks says on which side values are good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

/// One thing that was examined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What it is about: `host`, `mlx5_0 port 1` or `pair`.
    pub about: String,
    /// A word for it, the same on every host.
    #[serde(rename = "check")]
    pub name: String,
    /// Its state.
    pub state: CheckState,
    /// What it is, and what follows from it.
    pub summary: String,
    /// The files and values behind the state.
    pub evidence: Vec<CheckEvidence>,
    /// What was measured, as numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<CheckValue>,
    /// The command or setting that repairs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    /// A check without evidence yet, about nothing in particular.
    pub fn new(kind: CheckKind, state: CheckState, summary: impl Into<String>) -> Self {
        let (about, name, summary) = (String::new(), kind.name().to_owned(), summary.into());
        Self { about, name, state, summary, evidence: Vec::new(), measured: Vec::new(), fix: None }
    }

    /// Says what it is about.
    #[must_use]
    pub fn about(self, about: impl Into<String>) -> Self {
        Self { about: about.into(), ..self }
    }

    /// Adds a file as evidence; one that could not be read says so.
    #[must_use]
    pub fn file(self, machine: &Machine, name: &str) -> Self {
        let value = machine.text(name).unwrap_or_else(|| "cannot be read".to_owned());
        self.seen(format!("/{name}"), value.lines().collect::<Vec<_>>().join("; "))
    }

    /// Adds evidence.
    #[must_use]
    pub fn seen(mut self, source: impl Into<String>, value: impl Into<String>) -> Self {
        self.evidence.push(CheckEvidence { source: source.into(), value: value.into() });
        self
    }

    /// Adds a value, and that at which the check passes.
    #[must_use]
    pub fn measured(mut self, gauge: Gauge, value: f64, limit: impl Into<Option<f64>>) -> Self {
        let (row, limit) = (gauge.row(), limit.into());
        debug_assert_eq!(row.kind.name(), self.name, "{gauge:?} is of another check");
        self.measured.push(CheckValue { name: row.name.to_owned(), value, unit: row.unit.to_owned(), limit });
        self
    }

    /// Says what repairs it, with what each word of the table stands for; a second step comes after the first.
    #[must_use]
    pub fn repair(mut self, repair: Repair, words: &[(&str, &str)]) -> Self {
        let is_offered = |row: &CheckRow| row.name == self.name && row.repairs.contains(&repair);
        debug_assert!(CHECKS.iter().any(is_offered), "{repair:?} repairs another check than {}", self.name);
        let text = repair.text(words);
        debug_assert!(!text.contains(" <"), "a word is missing: {text}");
        self.fix = Some(self.fix.map_or_else(|| text.clone(), |first| format!("{first}, then {text}")));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_one_word_each_and_older_ones_are_understood() {
        for state in CheckState::ALL {
            assert_eq!(serde_json::to_value(state).expect("plain data"), state.name());
        }
        for (word, expected) in [("\"ok\"", CheckState::Pass), ("\"bad\"", CheckState::Fail)] {
            assert_eq!(serde_json::from_str::<CheckState>(word).expect("what Kelpie 0.1 began with"), expected);
        }
        assert!(CheckState::ALL.is_sorted(), "the worst is the last");
    }
}

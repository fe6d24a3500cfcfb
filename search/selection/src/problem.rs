//! The fewest minutes of checks after which an incident is as unlikely as was asked for. Source: algorithm 1.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Checks up to which all subsets are tried. Source: our choice; 4,096 subsets take no time.
pub const MOST_EXACT: usize = 12;
/// Most checks, nodes and defects of a check. Source: our choice.
const MOST: usize = 1 << 20;
/// What products and sums of floating-point numbers may be off by.
const EPSILON: f64 = 1e-12;

/// What a selection is made from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// By node, how likely an incident is within the time that is asked for, if nothing is checked.
    pub p: Vec<f64>,
    /// The most that the probability of an incident of any node may be.
    pub p0: f64,
    /// By check, how long it takes. Units: minutes.
    pub minutes: BTreeMap<String, f64>,
    /// By check, the defects that it found in the past, under any names.
    #[serde(default)]
    pub found: BTreeMap<String, Vec<Value>>,
}

/// Why a problem was refused.
#[derive(Debug, thiserror::Error)]
pub enum ProblemError {
    /// It is no such JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It breaks a rule.
    #[error("{key}: {rule}")]
    Rule {
        /// Where.
        key: String,
        /// What is wrong.
        rule: &'static str,
    },
}

/// Why checks were selected, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// An incident is unlikely enough without a check.
    NothingNeeded,
    /// Nobody knows what the checks find, so all are made.
    NoHistory,
    /// Checks bring the probability as low as was asked for.
    Enough,
    /// All checks that find something do not.
    NotEnough,
}

impl Reason {
    /// Whether an incident is as unlikely as was asked for.
    pub const fn is_enough(self) -> bool {
        matches!(self, Self::NothingNeeded | Self::Enough)
    }
}

/// A check that was added.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelectionStep {
    /// Its name.
    pub check: String,
    /// By how much the probability falls for each minute.
    pub fall_per_minute: f64,
    /// The probability of an incident after it.
    pub residual: f64,
}

/// Some checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subset {
    /// Their names, in the order in which they were added.
    pub selected: Vec<String>,
    /// The probability of an incident that remains.
    pub residual: f64,
    /// How long they take. Units: minutes.
    pub minutes: f64,
}

/// What is to be checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Selection {
    /// The probability of an incident without a check.
    pub probability: f64,
    /// The checks.
    #[serde(flatten)]
    pub subset: Subset,
    /// Why these.
    pub reason: Reason,
    /// How they were chosen, one after the other.
    pub trace: Vec<SelectionStep>,
    /// The subset that takes the fewest minutes, if there are few enough checks to try all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<Subset>,
}

impl Problem {
    /// Reads a problem.
    ///
    /// # Errors
    /// Names the key and the rule that it breaks.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ProblemError> {
        let problem: Self = serde_json::from_slice(bytes)?;
        let is_share = |value: &f64| (0.0..=1.0).contains(value);
        let refuse = |key: &str, rule| Err(ProblemError::Rule { key: key.to_owned(), rule });
        if problem.p.is_empty() || problem.p.len() > MOST || !problem.p.iter().all(is_share) {
            return refuse("p", "write a probability from 0 to 1 for each node");
        }
        if !is_share(&problem.p0) {
            return refuse("p0", "write a probability from 0 to 1");
        }
        if problem.minutes.is_empty() || problem.minutes.len() > MOST {
            return refuse("minutes", "write how long each check takes");
        }
        if let Some((name, _)) = problem.minutes.iter().find(|(_, minutes)| !(minutes.is_finite() && **minutes > 0.0)) {
            return refuse(&format!("minutes.{name}"), "write a number of minutes above 0");
        }
        if let Some(name) = problem.found.keys().find(|name| !problem.minutes.contains_key(*name)) {
            return refuse(&format!("found.{name}"), "`minutes` has no such check");
        }
        Ok(problem)
    }

    /// Selects checks one after the other, each time the one by which the probability of an incident falls most for
    /// each minute, until it is low enough or nothing helps.
    pub fn select(&self) -> Selection {
        self.select_within(f64::INFINITY)
    }

    /// The same, of the checks for which there is time. Units: minutes.
    pub fn select_within(&self, most: f64) -> Selection {
        let probability = 1.0 - self.p.iter().map(|p| 1.0 - p).product::<f64>();
        let checks = self.checks();
        let of = |reason, chosen: &[usize], trace| Selection {
            probability,
            subset: subset(&checks, chosen, probability),
            reason,
            trace,
            exact: None,
        };
        if probability <= self.p0 + EPSILON {
            return of(Reason::NothingNeeded, &[], Vec::new());
        }
        if checks.iter().all(|check| check.found.is_empty()) {
            let all: Vec<usize> = (0..checks.len()).collect();
            // What they find is unknown, so nothing is said to be gained.
            let selection = of(Reason::NoHistory, &all, Vec::new());
            return Selection { subset: Subset { residual: probability, ..selection.subset }, ..selection };
        }
        let (mut chosen, mut trace): (Vec<usize>, Vec<SelectionStep>) = (Vec::new(), Vec::new());
        let mut residual = probability;
        while residual > self.p0 + EPSILON {
            let fall = |check: usize| {
                let with: Vec<usize> = chosen.iter().copied().chain([check]).collect();
                let now = subset(&checks, &with, probability).residual;
                ((residual - now) / checks[check].minutes, now)
            };
            let left = most - chosen.iter().map(|check: &usize| checks[*check].minutes).sum::<f64>();
            let open =
                (0..checks.len()).filter(|check| !chosen.contains(check) && checks[*check].minutes <= left + EPSILON);
            let mut best: Option<(usize, f64, f64)> = None;
            for check in open {
                let (per_minute, now) = fall(check);
                if per_minute > best.map_or(EPSILON, |(_, best, _)| best + EPSILON) {
                    best = Some((check, per_minute, now));
                }
            }
            let Some((check, fall_per_minute, now)) = best else { break };
            chosen.push(check);
            residual = now;
            trace.push(SelectionStep { check: checks[check].name.to_owned(), fall_per_minute, residual });
        }
        let reason = if residual <= self.p0 + EPSILON { Reason::Enough } else { Reason::NotEnough };
        Selection { exact: self.exact(&checks, probability, most), ..of(reason, &chosen, trace) }
    }

    fn checks(&self) -> Vec<Check<'_>> {
        // Defects are told apart by how they are written.
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut number = |defect: &Value| {
            let next = numbers.len();
            *numbers.entry(defect.to_string()).or_insert(next)
        };
        let mut found = |name: &String| self.found.get(name).into_iter().flatten().map(&mut number).collect();
        let all: Vec<(&String, f64, BTreeSet<usize>)> =
            self.minutes.iter().map(|(name, minutes)| (name, *minutes, found(name))).collect();
        let defects = numbers.len();
        all.into_iter().map(|(name, minutes, found)| Check { name, minutes, found, defects }).collect()
    }

    /// The subset of the fewest minutes that is enough, or that leaves the least if none is; no longer than there is
    /// time.
    fn exact(&self, checks: &[Check<'_>], probability: f64, most: f64) -> Option<Subset> {
        (checks.len() <= MOST_EXACT).then(|| {
            let subsets = (0_u32..1 << checks.len()).map(|bits| {
                let chosen: Vec<usize> = (0..checks.len()).filter(|check| bits >> check & 1 == 1).collect();
                subset(checks, &chosen, probability)
            });
            let rank = |one: &Subset| (one.residual.max(self.p0 + EPSILON), one.minutes);
            let better = |best: Subset, one: Subset| {
                let ((best_left, best_minutes), (left, minutes)) = (rank(&best), rank(&one));
                let is_better =
                    left < best_left - EPSILON || (left <= best_left + EPSILON && minutes < best_minutes - EPSILON);
                if is_better { one } else { best }
            };
            let in_time = subsets.filter(|subset| subset.minutes <= most + EPSILON);
            in_time.reduce(better).expect("there is the empty one")
        })
    }
}

struct Check<'p> {
    name: &'p str,
    minutes: f64,
    /// Numbers of the defects that it found.
    found: BTreeSet<usize>,
    /// Defects that all checks found.
    defects: usize,
}

/// What some checks leave: coverage is the share of all defects ever found that these found.
fn subset(checks: &[Check<'_>], chosen: &[usize], probability: f64) -> Subset {
    let defects = checks.first().map_or(0, |check| check.defects);
    let mut found = vec![false; defects];
    chosen.iter().flat_map(|check| &checks[*check].found).for_each(|defect| found[*defect] = true);
    let count = found.into_iter().filter(|is_found| *is_found).count();
    let coverage = if defects == 0 { 0.0 } else { count as f64 / defects as f64 };
    Subset {
        selected: chosen.iter().map(|check| checks[*check].name.to_owned()).collect(),
        residual: probability * (1.0 - coverage),
        // The sum of nothing is -0.
        minutes: chosen.iter().map(|check| checks[*check].minutes).sum::<f64>() + 0.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(text: &str) -> Problem {
        Problem::from_json(text.as_bytes()).expect("a problem")
    }

    #[test]
    fn checks_are_added_by_what_they_lower_for_each_minute() {
        let selection = problem(
            r#"{"p": [0.1, 0.1], "p0": 0.04, "minutes": {"a": 10, "b": 1, "c": 5},
                "found": {"a": [1, 2, 3, 4], "b": [1, 2], "c": [3, 4, 5]}}"#,
        )
        .select();
        assert!((selection.probability - 0.19).abs() < 1e-12);
        assert_eq!(
            (&selection.subset.selected[..], selection.reason),
            (&["b".to_owned(), "c".to_owned()][..], Reason::Enough)
        );
        assert!((selection.subset.residual, selection.subset.minutes) == (0.0, 6.0));
        let residuals: Vec<f64> = selection.trace.iter().map(|step| (step.residual * 1e6).round() / 1e6).collect();
        assert_eq!(residuals, [0.114, 0.0]);
        assert_eq!(selection.exact.expect("three checks").selected, ["b", "c"]);
    }

    #[test]
    fn nothing_is_checked_where_nothing_is_needed_and_all_where_nothing_is_known() {
        let of = |p: f64, found: &str| {
            problem(&format!(r#"{{"p": [{p}], "p0": 0.1, "minutes": {{"b": 1, "a": 2}}, "found": {found}}}"#)).select()
        };
        let selection = of(0.1, r#"{"a": [1]}"#);
        assert_eq!((selection.subset.selected.len(), selection.reason), (0, Reason::NothingNeeded));
        let selection = of(0.2, "{}");
        assert_eq!(
            (&selection.subset.selected[..], selection.reason),
            (&["a".to_owned(), "b".to_owned()][..], Reason::NoHistory)
        );
        assert!((selection.subset.residual - 0.2).abs() < 1e-12);
        // Of equal ones the first, and one that lowers nothing ends it.
        let selection = of(0.9, r#"{"a": [1], "b": []}"#);
        assert_eq!((&selection.subset.selected[..], selection.reason), (&["a".to_owned()][..], Reason::Enough));
    }

    #[test]
    fn only_checks_for_which_there_is_time_are_selected() {
        let problem = problem(
            r#"{"p": [0.1, 0.1], "p0": 0.04, "minutes": {"a": 10, "b": 1, "c": 5},
                "found": {"a": [1, 2, 3, 4], "b": [1, 2], "c": [3, 4, 5]}}"#,
        );
        let selection = problem.select_within(5.5);
        assert_eq!(
            (&selection.subset.selected[..], selection.reason),
            (&["b".to_owned()][..], Reason::NotEnough),
            "with `c`, which says more, 6 minutes"
        );
        assert_eq!(selection.exact.expect("three checks").selected, ["c"]);
        assert_eq!(problem.select_within(6.0), problem.select());
    }

    #[test]
    fn problems_that_break_rules_are_refused_by_key() {
        for (text, expected) in [
            (r#"{"p": [], "p0": 0.1, "minutes": {"a": 1}}"#, "p: write a probability"),
            (r#"{"p": [2], "p0": 0.1, "minutes": {"a": 1}}"#, "p: write a probability"),
            (r#"{"p": [0.2], "p0": -1, "minutes": {"a": 1}}"#, "p0: write a probability"),
            (r#"{"p": [0.2], "p0": 0.1, "minutes": {"a": 0}}"#, "minutes.a: write a number"),
            (r#"{"p": [0.2], "p0": 0.1, "minutes": {"a": 1}, "found": {"b": []}}"#, "found.b: `minutes` has no"),
            (r#"{"p": [0.2], "p0": 0.1, "minute": {}}"#, "unknown field `minute`"),
        ] {
            let error = Problem::from_json(text.as_bytes()).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn the_exact_subset_is_never_longer_than_the_greedy_one(
            checks in proptest::collection::vec((1..60_u32, proptest::collection::vec(0..12_u32, 0..6)), 1..8),
            p0 in 0.0..0.5_f64,
        ) {
            let minutes = checks.iter().enumerate().map(|(nth, (minutes, _))| (format!("c{nth}"), f64::from(*minutes))).collect();
            let found = checks.iter().enumerate().map(|(nth, (_, found))| (format!("c{nth}"), found.iter().map(|id| Value::from(*id)).collect())).collect();
            let selection = Problem { p: vec![0.3; 4], p0, minutes, found }.select();
            if let Some(exact) = selection.exact {
                prop_assert!(exact.residual <= selection.subset.residual.max(p0) + 1e-9);
                prop_assert!(selection.reason != Reason::Enough || exact.minutes <= selection.subset.minutes + 1e-9);
            }
        }
    }
}

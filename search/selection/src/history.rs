//! The past of a fleet as JSON lines: how long nodes were observed, their incidents, what checks take, and which check
//! found which defect.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::status::{Fleet, Past};

/// Most lines. Source: our choice: 3,000 nodes with 300 incidents each are fewer.
const MOST_LINES: usize = 1 << 20;
/// Longest name. Units: bytes. Source: our choice.
const MAX_NAME: usize = 512;
/// Longest time, on either side of its origin. Units: hours. Source: our choice; hours since 1970 are fewer.
const MAX_HOURS: f64 = 1e7;

/// A line.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Observed { node: String, begin: f64, end: f64 },
    Incident { node: String, time: f64, category: String, until: Option<f64> },
    Check { check: String, minutes: f64 },
    Found { check: String, defect: Value },
}

/// Why a history was refused.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {rule}")]
pub struct HistoryError {
    /// The file.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub rule: String,
}

/// By check, the defects that it found.
pub type Found = BTreeMap<String, Vec<Value>>;

/// The past of a fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// What nodes went through.
    pub fleet: Fleet,
    /// By check, how long it takes. Units: minutes.
    pub minutes: BTreeMap<String, f64>,
    /// By check, the defects that it found.
    pub found: Found,
}

/// A node as its lines say it.
#[derive(Debug, Default)]
struct Lines {
    observed: Vec<(f64, f64)>,
    /// Begin, end, category, and line.
    incidents: Vec<(f64, f64, String, usize)>,
}

impl History {
    /// Reads JSON lines of a file, named for errors.
    ///
    /// # Errors
    /// Names the line of the first mistake.
    pub fn from_lines(file: &str, bytes: &[u8]) -> Result<Self, HistoryError> {
        let refuse = |line: usize, rule: String| HistoryError { file: file.to_owned(), line, rule };
        let (mut minutes, mut found): (BTreeMap<String, f64>, Found) = Default::default();
        let mut nodes: BTreeMap<String, Lines> = BTreeMap::new();
        let mut finders: BTreeMap<String, usize> = BTreeMap::new();
        let mut count = 0;
        for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if text.trim_ascii().is_empty() {
                continue;
            }
            count += 1;
            if count > MOST_LINES {
                return Err(refuse(line, format!("more than {MOST_LINES} lines: leave older ones out")));
            }
            let read: Line = serde_json::from_slice(text).map_err(|error| {
                let what = error.to_string();
                refuse(
                    line,
                    format!(
                        "{}: see `kelpie qualify select --help`",
                        what.split(" at line ").next().unwrap_or_default()
                    ),
                )
            })?;
            read.check().map_err(|rule| refuse(line, rule))?;
            match read {
                Line::Observed { node, begin, end } => nodes.entry(node).or_default().observed.push((begin, end)),
                Line::Incident { node, time, category, until } => {
                    let incident = (time, until.unwrap_or(time), category, line);
                    nodes.entry(node).or_default().incidents.push(incident);
                }
                Line::Check { check, minutes: takes } => {
                    if minutes.insert(check.clone(), takes).is_some_and(|before| (before - takes).abs() > 0.0) {
                        return Err(refuse(
                            line,
                            format!("{check} takes other minutes in a line above: leave one out"),
                        ));
                    }
                }
                Line::Found { check, defect } => {
                    finders.entry(check.clone()).or_insert(line);
                    found.entry(check).or_default().push(defect);
                }
            }
        }
        if let Some((check, line)) = finders.iter().find(|(check, _)| !minutes.contains_key(*check)) {
            let rule = format!(
                "how long {check} takes is missing: add {{\"kind\": \"check\", \"check\": \"{check}\", \"minutes\": 2}}"
            );
            return Err(refuse(*line, rule));
        }
        if minutes.is_empty() {
            let rule = "no check: add lines such as {\"kind\": \"check\", \"check\": \"loopback\", \"minutes\": 2}";
            return Err(refuse(1, rule.to_owned()));
        }
        let categories: BTreeSet<&str> =
            nodes.values().flat_map(|node| &node.incidents).map(|(_, _, category, _)| category.as_str()).collect();
        let categories: Vec<String> = categories.into_iter().map(str::to_owned).collect();
        let past = |(node, lines): (String, Lines)| match lines.past(&node, &categories) {
            Ok(past) => Ok((node, past)),
            Err((line, rule)) => Err(refuse(line, rule)),
        };
        let nodes = nodes.into_iter().map(past).collect::<Result<_, _>>()?;
        Ok(Self { fleet: Fleet::new(nodes, categories.len()), minutes, found })
    }
}

impl Line {
    fn check(&self) -> Result<(), String> {
        let names: &[&String] = match self {
            Self::Observed { node, .. } => &[node],
            Self::Incident { node, category, .. } => &[node, category],
            Self::Check { check, .. } | Self::Found { check, .. } => &[check],
        };
        if names.iter().any(|name| name.is_empty() || name.len() > MAX_NAME) {
            return Err(format!("write names of 1 to {MAX_NAME} bytes"));
        }
        let is_time = |hours: f64| hours.abs() <= MAX_HOURS;
        match self {
            Self::Observed { begin, end, .. } if !(is_time(*begin) && is_time(*end) && begin <= end) => {
                Err("write `begin` and a later `end` in hours".to_owned())
            }
            Self::Incident { time, until, .. }
                if !(is_time(*time) && until.is_none_or(|until| is_time(until) && *time <= until)) =>
            {
                Err("write `time` and, if anything, a later `until` in hours".to_owned())
            }
            Self::Check { minutes, .. } if !(minutes.is_finite() && *minutes > 0.0) => {
                Err("write `minutes` above 0".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Intervals in order, those that touch put together.
fn merged(mut intervals: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    intervals.sort_by(|one, other| one.0.total_cmp(&other.0));
    intervals.dedup_by(|later, first| {
        let is_one = later.0 <= first.1;
        if is_one {
            first.1 = first.1.max(later.1);
        }
        is_one
    });
    intervals
}

impl Lines {
    /// The past by the hours that the node was up: observed, and not after an incident that goes on.
    fn past(mut self, node: &str, categories: &[String]) -> Result<Past, (usize, String)> {
        let observed = merged(self.observed);
        self.incidents.sort_by(|one, other| (one.0, &one.2).partial_cmp(&(other.0, &other.2)).expect("numbers"));
        let down = merged(self.incidents.iter().map(|(begin, end, ..)| (*begin, *end)).collect());
        // Begin, end, and the hours before.
        let mut spells: Vec<(f64, f64, f64)> = Vec::new();
        let mut hours = 0.0;
        let mut add = |begin: f64, end: f64| {
            spells.push((begin, end, hours));
            hours += end - begin;
        };
        for (begin, end) in &observed {
            let mut at = *begin;
            let first = down.partition_point(|(_, until)| until <= begin);
            for (from, until) in down[first..].iter().take_while(|(from, _)| from < end) {
                add(at, from.max(at));
                at = at.max(*until);
            }
            add(at.min(*end), *end);
        }
        let up = |time: f64| {
            let before = spells.partition_point(|(begin, ..)| *begin <= time);
            before.checked_sub(1).map_or(0.0, |nth| spells[nth].2 + (time.min(spells[nth].1) - spells[nth].0))
        };
        let mut past = Past { incidents: Vec::new(), up: up(f64::INFINITY) };
        for (time, _, category, line) in &self.incidents {
            let nth = observed.partition_point(|(begin, _)| begin <= time);
            if !nth.checked_sub(1).is_some_and(|nth| *time <= observed[nth].1) {
                let rule =
                    format!("{node} is not observed at {time} h: write an `observed` line that holds the incident");
                return Err((*line, rule));
            }
            let category = categories.binary_search(category).expect("all are there");
            past.incidents.push((up(*time), category));
        }
        Ok(past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: &str = r#"{"kind": "check", "check": "loopback", "minutes": 2}"#;

    fn read(lines: &[&str]) -> Result<History, HistoryError> {
        History::from_lines("h.jsonl", [&[CHECK], lines].concat().join("\n").as_bytes())
    }

    #[test]
    fn hours_count_while_a_node_is_observed_and_up() {
        // Observed for 10 to 20 h and 50 to 60 h; down for 12 to 15 h, and from 58 h on.
        let history = read(&[
            r#"{"kind": "incident", "node": "a", "time": 58, "category": "gpu", "until": 99}"#,
            r#"{"kind": "observed", "node": "a", "begin": 50, "end": 60}"#,
            r#"{"kind": "observed", "node": "a", "begin": 10, "end": 20}"#,
            r#"{"kind": "incident", "node": "a", "time": 12, "category": "hca", "until": 15}"#,
            r#"{"kind": "incident", "node": "a", "time": 13, "category": "gpu"}"#,
        ])
        .expect("a history");
        let past = &history.fleet.nodes()["a"];
        assert_eq!((&past.incidents[..], past.up), (&[(2.0, 1), (2.0, 0), (15.0, 0)][..], 15.0));
    }

    #[test]
    fn mistakes_name_file_line_and_what_to_write() {
        for (line, expected) in [
            (
                r#"{"kind": "observed", "node": "a", "begin": 5, "end": 4}"#,
                "h.jsonl:2: write `begin` and a later `end`",
            ),
            (r#"{"kind": "observed", "node": "", "begin": 0, "end": 4}"#, "h.jsonl:2: write names"),
            (r#"{"kind": "observed", "node": "a", "begin": 0}"#, "h.jsonl:2: missing field `end`: see"),
            (r#"{"kind": "seen"}"#, "h.jsonl:2: unknown variant `seen`"),
            (r#"{"kind": "check", "check": "x", "minutes": 0}"#, "h.jsonl:2: write `minutes`"),
            (r#"{"kind": "check", "check": "loopback", "minutes": 3}"#, "h.jsonl:2: loopback takes other minutes"),
            (r#"{"kind": "found", "check": "x", "defect": 1}"#, "h.jsonl:2: how long x takes is missing"),
            (r#"{"kind": "incident", "node": "a", "time": 1, "category": "c"}"#, "h.jsonl:2: a is not observed at 1 h"),
            (r#"{"kind": "incident", "node": "a", "time": 1, "category": "c", "until": 0}"#, "h.jsonl:2: write `time`"),
            ("[", "h.jsonl:2: "),
        ] {
            let error = read(&[line]).expect_err(line).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(History::from_lines("h.jsonl", b"").expect_err("empty").to_string().starts_with("h.jsonl:1: no check"));
    }
}

//! Accepted anomalies, format `baseline/1`: regions with their symptoms, as a file. What a gate does with them is in
//! `gate`.

use std::fmt::Write as _;

use kelpie_monitor::{Severity, Symptom};
use kelpie_spaces::document::{DocumentError, utf8};
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Test, Workload, read_tagged_with_null};
use kelpie_store::Anomaly;
use kelpie_text::steers;
use serde::{Deserialize, Serialize};

use crate::explained::Explained;

/// The format tag of this version.
const FORMAT: &str = "baseline/1";

/// What every number fulfils; in a file it is a bound that was forgotten.
const OPEN: Test = Test::Range { min: None, max: None };

/// Workloads whose symptom is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    /// Only this symptom; of an anomaly with both it is pause.
    pub symptom: Symptom,
    /// Where it is accepted.
    pub region: Region,
}

/// A file of accepted anomalies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Baseline {
    /// Each with the comment that stands above it in the file.
    accepted: Vec<(String, Accepted)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BaselineFile {
    accepted: Vec<Accepted>,
}

impl Baseline {
    /// Reads a file; `file` stands for its name in errors.
    ///
    /// # Errors
    /// Names file, line, column, key and rule of the first mistake.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        let (document, BaselineFile { accepted }) = read_tagged_with_null(file, utf8(file, bytes)?, FORMAT)?;
        let conditions = accepted.iter().enumerate().flat_map(|(at, one)| {
            let conditions = one.region.conditions.iter().enumerate();
            conditions.map(move |(of, condition)| (format!("accepted[{at}].region[{of}]"), condition))
        });
        document.refuse_all(conditions.flat_map(|(key, condition)| mistakes(&key, condition)))?;
        Ok(Self { accepted: accepted.into_iter().map(|one| (String::new(), one)).collect() })
    }

    /// Accepts the findings of a campaign; `all` accepts each anomaly beside them as well, as it was measured.
    pub fn of(explained: &Explained<'_>, all: bool) -> Self {
        let mut baseline = Self::default();
        for found in explained.all() {
            let severity = Severity::in_words(found.severity);
            let known = if found.finding.is_refined() { "" } else { "; healthy workloads may lie inside" };
            let about = format!("finding {}: {severity}{known}", found.finding.number);
            baseline.accept(about, found.finding.symptom, found.finding.mfs.clone());
        }
        for anomaly in explained.anomalies.iter().filter(|_| all) {
            if !baseline.accepts(anomaly.symptom, &anomaly.workload) {
                let about =
                    format!("experiment {}: {}; {}", anomaly.number, anomaly.severity, anomaly.workload.summary());
                baseline.accept(about, anomaly.symptom, exactly(anomaly));
            }
        }
        baseline
    }

    fn accept(&mut self, about: String, symptom: Symptom, mut region: Region) {
        region.conditions.retain(|condition| condition.test != OPEN);
        self.accepted.push((about, Accepted { symptom, region }));
    }

    /// Whether this symptom of a workload is accepted.
    pub fn accepts(&self, symptom: Symptom, workload: &Workload) -> bool {
        self.accepted.iter().any(|(_, one)| one.symptom == symptom && one.region.contains(workload))
    }

    /// How many regions it accepts.
    pub fn len(&self) -> usize {
        self.accepted.len()
    }

    /// Whether it accepts nothing.
    pub fn is_empty(&self) -> bool {
        self.accepted.is_empty()
    }

    /// Writes the file; [`Baseline::from_bytes`] reads the same regions back.
    pub fn to_yaml(&self) -> String {
        let mut text = format!("kelpie: {FORMAT}\naccepted:{}\n", if self.is_empty() { " []" } else { "" });
        for (about, Accepted { symptom, region }) in &self.accepted {
            let none = if region.conditions.is_empty() { " []" } else { "" };
            let _ = write!(text, "  # {about}\n  - symptom: {}\n    region:{none}\n", symptom.name());
            for condition in &region.conditions {
                let _ = writeln!(text, "      - {}", written(condition));
            }
        }
        text
    }
}

/// What in a condition nobody means: bounds that were forgotten, and words that no workload shows; each with its key.
fn mistakes(key: &str, Condition { feature, test }: &Condition) -> Vec<(String, String)> {
    let wrong = |(index, word): (usize, &String)| {
        let rule = feature.check_word(word).err()?;
        let word: String = word.chars().take(40).collect();
        Some((format!("{key}.in[{index}]"), format!("no workload has `{word}` as its {feature}: {rule}")))
    };
    match test {
        Test::In(words) => words.iter().enumerate().filter_map(wrong).collect(),
        test if *test == OPEN => vec![(key.to_owned(), "write `min`, `max` or both".to_owned())],
        Test::Range { .. } => Vec::new(),
    }
}

/// A condition on one line, sizes with what they mean.
fn written(Condition { feature, test }: &Condition) -> String {
    match test {
        // JSON is YAML, with every special character escaped.
        Test::In(words) => {
            let words = serde_json::Value::from(words.clone()).to_string();
            // JSON leaves some of what steers a terminal as it is.
            let escaped = |c: char| if steers(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
            format!("{{feature: {feature}, in: {}}}", words.chars().map(escaped).collect::<String>())
        }
        Test::Range { min, max } => {
            let end = |name: &str, end: &Option<u64>| end.map_or_else(String::new, |end| format!(", {name}: {end}"));
            let text = format!("{{feature: {feature}{}{}}}", end("min", min), end("max", max));
            let sizes: Vec<String> = [min, max]
                .into_iter()
                .flatten()
                .filter(|_| feature.is_size())
                .map(|end| feature.written(*end))
                .collect();
            if sizes.is_empty() { text } else { format!("{text}  # {}", sizes.join(" to ")) }
        }
    }
}

/// The region of all workloads that no feature tells from this one.
fn exactly(anomaly: &Anomaly) -> Region {
    let condition = |feature: Feature| {
        let test = match anomaly.workload.feature(feature) {
            FeatureValue::Number(number) => Test::Range { min: Some(number), max: Some(number) },
            FeatureValue::Category(word) => Test::In(vec![word]),
        };
        Condition { feature, test }
    };
    Region { conditions: Feature::ALL.into_iter().map(condition).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{anomaly, finding, workload};

    #[test]
    fn a_baseline_reads_back_and_accepts_what_it_was_made_of() {
        let findings = [finding(1, 2, workload(4, 4096))];
        let anomalies = [anomaly(1, workload(1, 1024), 0.3), anomaly(2, workload(4, 4096), 0.4)];
        let explained = Explained::new(&findings, &anomalies);
        for (all, accepted) in [(false, [false, true]), (true, [true, true])] {
            let baseline = Baseline::of(&explained, all);
            let text = baseline.to_yaml();
            let read =
                Baseline::from_bytes("b.yaml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
            let regions = |baseline: &Baseline| baseline.accepted.iter().map(|one| one.1.clone()).collect::<Vec<_>>();
            assert_eq!(regions(&read), regions(&baseline), "{text}");
            for (anomaly, accepted) in anomalies.iter().zip(accepted) {
                assert_eq!(read.accepts(anomaly.symptom, &anomaly.workload), accepted, "{text}");
                assert!(!read.accepts(Symptom::Pause, &anomaly.workload), "another symptom: {text}");
            }
        }
        assert!(!Baseline::of(&explained, true).accepts(Symptom::LowThroughput, &workload(2, 1024)));
    }

    #[test]
    fn a_file_is_for_people() {
        let findings = [finding(1, 2, workload(4, 4096))];
        let anomalies = [anomaly(2, workload(4, 4096), 0.4)];
        let text = Baseline::of(&Explained::new(&findings, &anomalies), true).to_yaml();
        let expected = "kelpie: baseline/1\naccepted:\n  # finding 1: 40.0 % lost\n  \
                        - symptom: low_throughput\n    region:\n      - {feature: qps, min: 3}\n";
        assert_eq!(text, expected);
        let nothing = Baseline::default().to_yaml();
        assert_eq!(nothing, "kelpie: baseline/1\naccepted: []\n");
        assert!(Baseline::from_bytes("b", nothing.as_bytes()).expect("its own text").is_empty());
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let with = |condition: &str| {
            format!("kelpie: baseline/1\naccepted:\n  - symptom: pause\n    region:\n      - {condition}\n")
        };
        for (text, expected) in [
            ("kelpie: baseline/2\naccepted: []\n".to_owned(), "b.yaml:1:9: kelpie: this is format `baseline/2`"),
            ("kelpie: baseline/1\n".to_owned(), "b.yaml:1:1: the document: key `accepted` is missing"),
            (
                "kelpie: baseline/1\naccepted:\n  - symptom: slow\n    region: []\n".to_owned(),
                "b.yaml:3:14: accepted[0].symptom: ",
            ),
            (with("{feature: qps, in: [3]}"), "b.yaml:5:9: accepted[0].region[0]: qps is ordered"),
            (with("{feature: qps, min: 4, max: 3}"), "no value of qps"),
            (with("{feature: qps}"), "b.yaml:5:9: accepted[0].region[0]: write `min`, `max` or both"),
            (
                with("{feature: qp_type, in: [RC, UDX]}"),
                "b.yaml:5:37: accepted[0].region[0].in[1]: no workload has `UDX` as its qp_type: write one of RC, UC, UD",
            ),
            (with("{feature: opcode, in: [SEND+READ]}"), "write `READ+SEND`"),
            (with("{feature: speed, min: 4}"), "b.yaml:5:19: accepted[0].region[0].feature: "),
            ("\u{0}".to_owned(), "b.yaml:1:1: a control character"),
        ] {
            let error = Baseline::from_bytes("b.yaml", text.as_bytes()).expect_err(&text);
            let said = error.to_string();
            assert!(said.starts_with("b.yaml") && said.contains(expected), "{said} instead of {expected}");
        }
    }
}

//! In what two subsystems differ: parameters of models and pair files, and what was looked at on hosts.

use std::collections::BTreeMap;

use kelpie_monitor::Check;
use serde::Serialize;
use serde_yaml::Value;

/// What one of two subsystems has otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// A key path such as `port.max_mpps`, or what was looked at, such as `host a: firmware`.
    pub about: String,
    /// Of the one; nothing if it has none.
    pub a: Option<String>,
    /// Of the other.
    pub b: Option<String>,
}

/// In what two models or pair files differ, by key path. A text that is no YAML is one value.
pub fn of_sources(a: &str, b: &str) -> Vec<Difference> {
    let [a, b] = [a, b].map(|text| {
        let mut leaves = BTreeMap::new();
        let tree = serde_yaml::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        collect(&tree, String::new(), &mut leaves);
        leaves
    });
    compared(&a, &b)
}

/// Differences that are listed. Source: our choice, because more do not fit into a line.
const MOST: usize = 8;

/// The second of two subsystems by what it has otherwise, as a phrase.
pub fn in_words(differences: &[Difference]) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    let words = |one: &Difference| format!("{} {} instead of {}", one.about, value(&one.b), value(&one.a));
    let all: Vec<String> = differences.iter().take(MOST).map(words).collect();
    all.join(", ") + if differences.len() > MOST { ", …" } else { "" }
}

/// In what two hosts differ by what the doctor looked at before each campaign.
pub fn of_checks(a: &[Check], b: &[Check]) -> Vec<Difference> {
    let [a, b] = [a, b].map(|checks| {
        let words = |check: &Check| {
            let evidence: Vec<&str> = check.evidence.iter().map(|read| read.value.as_str()).collect();
            if evidence.is_empty() { check.summary.clone() } else { evidence.join(", ") }
        };
        checks.iter().map(|check| (format!("{}: {}", check.about, check.name), words(check))).collect()
    });
    compared(&a, &b)
}

fn compared(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Difference> {
    let all: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let difference = |about: &String| {
        let [a, b] = [a, b].map(|side| side.get(about).cloned());
        (a != b).then(|| Difference { about: about.clone(), a, b })
    };
    all.into_iter().filter_map(difference).collect()
}

/// Every leaf by its key path.
fn collect(value: &Value, path: String, leaves: &mut BTreeMap<String, String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Mapping(map) => {
            for (key, value) in map {
                let key = serde_yaml::to_string(key).unwrap_or_default();
                collect(value, below(key.trim()), leaves);
            }
        }
        Value::Sequence(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, below(&index.to_string()), leaves);
            }
        }
        leaf => {
            let text = serde_yaml::to_string(leaf).unwrap_or_default();
            leaves.insert(path, text.trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::CheckState;

    use super::*;

    #[test]
    fn what_differs_is_named_with_both_values() {
        let one = "port: {rate: 200, mtu: 4096}\nfixes: {3: {a: 1}}\ngpus: [x]\n";
        let other = "port: {rate: 100, mtu: 4096}\ngpus: [x, y]\n";
        let text = |value: &str| Some(value.to_owned());
        assert_eq!(
            of_sources(one, other),
            [
                Difference { about: "fixes.3.a".to_owned(), a: text("1"), b: None },
                Difference { about: "gpus.1".to_owned(), a: None, b: text("y") },
                Difference { about: "port.rate".to_owned(), a: text("200"), b: text("100") },
            ]
        );
        assert_eq!(of_sources(one, one), []);
        assert_eq!(of_sources("[", "x: 1").len(), 2, "what cannot be read differs as a whole");
    }

    #[test]
    fn hosts_differ_in_what_was_read_of_them() {
        let check = |value: &str| Check {
            about: "host a, mlx5_0 port 1".to_owned(),
            name: "firmware".to_owned(),
            state: CheckState::Pass,
            summary: value.to_owned(),
            evidence: Vec::new(),
            measured: Vec::new(),
            fix: None,
        };
        let found = of_checks(&[check("20.1")], &[check("20.2")]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].about, "host a, mlx5_0 port 1: firmware");
    }
}

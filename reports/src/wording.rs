//! Conditions, cures and rates in words for people. No markup; the words for features are in their table.

use kelpie_monitor::{Severity, Symptom, Verdict};
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Test, units};

use kelpie_search::Purpose as Asked;
use kelpie_store::{Ended, StoredPurpose};

/// A value of a feature with its unit.
pub(crate) fn value(feature: Feature, value: &FeatureValue) -> String {
    match value {
        FeatureValue::Number(number) => feature.written(*number),
        FeatureValue::Category(word) => truth(word).map_or_else(|| word.clone(), str::to_owned),
    }
}

fn truth(word: &str) -> Option<&'static str> {
    match word {
        "true" => Some("yes"),
        "false" => Some("no"),
        _ => None,
    }
}

/// What an experiment did, after "which"; the name of a purpose that this Kelpie does not know is text of others.
pub(crate) fn purpose(purpose: &StoredPurpose) -> String {
    let words = match purpose {
        StoredPurpose::Other(word) => return format!("was for `{word}`"),
        StoredPurpose::Import => "came with a recipe",
        StoredPurpose::Search(Asked::Search) => "looked for anomalies",
        StoredPurpose::Search(Asked::Rank) => "was a random point to rank counters",
        StoredPurpose::Search(Asked::Relieve) => "looked behind a known weakness",
        StoredPurpose::Search(Asked::Explain) => "asked whether a finding explains an anomaly",
        StoredPurpose::Search(Asked::Mfs) => "asked what an anomaly needs",
        StoredPurpose::Search(Asked::Survey) => "was a random point of the space",
        StoredPurpose::Search(Asked::Validate) => "was a random point inside a finding",
    };
    words.to_owned()
}

/// A condition as a sentence without its full stop.
pub(crate) fn condition(condition: &Condition) -> String {
    let noun = condition.feature.phrase();
    let show = |end: &u64| condition.feature.written(*end);
    match &condition.test {
        Test::In(words) => match words.as_slice() {
            [word] if truth(word).is_some() => format!("{noun}: {}", truth(word).unwrap_or_default()),
            words => format!("{noun} is {}", words.join(" or ")),
        },
        Test::Range { min: Some(min), max: Some(max) } if min == max => format!("{noun}: {}", show(min)),
        Test::Range { min: Some(min), max: Some(max) } => format!("{noun}: {} to {}", show(min), show(max)),
        Test::Range { min: Some(min), max: None } => format!("{noun}: at least {}", show(min)),
        Test::Range { min: None, max: Some(max) } => format!("{noun}: at most {}", show(max)),
        Test::Range { min: None, max: None } => format!("{noun}: anything"),
    }
}

/// The conditions of a finding, at most `most` of them, then how many more there are.
pub(crate) fn conditions(region: &Region, most: usize) -> Vec<String> {
    if region.conditions.is_empty() {
        return vec!["any workload".to_owned()];
    }
    let mut words: Vec<String> = region.conditions.iter().take(most).map(condition).collect();
    if region.conditions.len() > most {
        words.push(format!("and {} more", region.conditions.len() - most));
    }
    words
}

/// How a condition is broken, as an advice without its full stop; `None` if every value fulfils it.
pub(crate) fn cure(condition: &Condition) -> Option<String> {
    let noun = condition.feature.phrase();
    let show = |end: &u64| condition.feature.written(*end);
    Some(match &condition.test {
        Test::In(words) => match words.as_slice() {
            [word] if word == "true" => format!("do without {noun}"),
            [word] if word == "false" => format!("use {noun}"),
            words => format!("use another {noun} than {}", words.join(" or ")),
        },
        Test::Range { min: Some(min), max: Some(max) } if min == max => format!("keep {noun} off {}", show(min)),
        Test::Range { min: Some(min), max: Some(max) } => {
            format!("keep {noun} below {} or above {}", show(min), show(max))
        }
        Test::Range { min: Some(min), max: None } => format!("keep {noun} below {}", show(min)),
        Test::Range { min: None, max: Some(max) } => format!("keep {noun} above {}", show(max)),
        Test::Range { min: None, max: None } => return None,
    })
}

/// A symptom in words.
pub(crate) fn symptom(symptom: Symptom) -> &'static str {
    match symptom {
        Symptom::Pause => "pause frames for more than 0.1 % of the time on a network without congestion",
        Symptom::LowThroughput => {
            "throughput 20 % or more below every bound of the traffic: wire, packets/s, PCIe, queues"
        }
        Symptom::HostFailure => "a host that fails under this workload each time, and not under others",
    }
}

/// How bad it is, or that nobody knows.
pub(crate) fn severity(severity: Option<Severity>) -> String {
    severity.map_or_else(|| "not measured".to_owned(), |severity| severity.to_string())
}

/// How an experiment ended, in one word.
pub(crate) fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Judged(Verdict::Healthy) => "healthy",
        Ended::Judged(Verdict::Anomalous) => "anomalous",
        Ended::Judged(Verdict::Inconclusive) => "inconclusive",
        Ended::Unsupported => "unsupported",
    }
}

/// A share as a percentage with one decimal, or with two figures if that would show nothing.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 0.1 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

/// A value with an SI prefix, such as `187.3 G`; what that would show as zero with its power of ten.
pub(crate) fn si(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.05 { format!("{value:.1e} ") } else { units::si(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_and_cures_read_as_sentences() {
        let words = |words: &[&str]| Test::In(words.iter().map(|&word| word.to_owned()).collect());
        let range = |min, max| Test::Range { min, max };
        for (feature, test, expected, cured) in [
            (Feature::Mtu, range(None, Some(256)), "path MTU: at most 256B", "keep path MTU above 256B"),
            (Feature::Qps, range(Some(3), None), "QPs of one flow: at least 3", "keep QPs of one flow below 3"),
            (
                Feature::Qps,
                range(Some(3), Some(5)),
                "QPs of one flow: 3 to 5",
                "keep QPs of one flow below 3 or above 5",
            ),
            (Feature::Qps, range(Some(3), Some(3)), "QPs of one flow: 3", "keep QPs of one flow off 3"),
            (Feature::QpType, words(&["RC", "UD"]), "transport is RC or UD", "use another transport than RC or UD"),
            (Feature::Loopback, words(&["true"]), "loopback traffic: yes", "do without loopback traffic"),
        ] {
            let tested = Condition { feature, test };
            assert_eq!(condition(&tested), expected);
            assert_eq!(cure(&tested).as_deref(), Some(cured));
        }
        let anything = Condition { feature: Feature::Qps, test: range(None, None) };
        assert_eq!(cure(&anything), None);
        assert_eq!(conditions(&Region::default(), 1), ["any workload"]);
        let many = Region { conditions: vec![anything; 3] };
        assert_eq!(conditions(&many, 1), ["QPs of one flow: anything", "and 2 more"]);
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!([si(999_960.0), si(0.0), si(0.000_012)], ["1.0 M", "0.0 ", "1.2e-5 "]);
        assert_eq!([percent(0.5), percent(0.0004), percent(0.0)], ["50.0 %", "0.04 %", "0.0 %"]);
    }
}

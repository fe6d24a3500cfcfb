//! A campaign's anomalies as `junit.xml`, for CI systems: a case for each finding, and one for all that none explains.
//! No other markup.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_monitor::{Check, CheckState, Severity, Symptom};
use kelpie_search::TriedTransport;
use kelpie_spaces::{Feature, FeatureValue};
use kelpie_store::{Anomaly, FindingRecord};
use kelpie_text::plain;
use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::explained::{Explained, Weighed, explains};
use crate::gate::Gate;
use crate::identity;
use crate::stored_campaign::StoredCampaign;
use crate::times;
use crate::wording;

/// Longest readable part of a case's name. Units: characters. Source: our choice, because CI systems show about so
/// many.
const READABLE: usize = 120;
/// Experiments that a failed finding names. Source: our choice.
const NAMED: usize = 5;

/// The document; a case fails where the gate stops, and no name depends on a number of the database.
pub(crate) fn junit(stored: &StoredCampaign, explained: &Explained<'_>, gate: &Gate) -> Result<String, SerializeError> {
    let definition = &stored.campaign.definition;
    let mut suite = TestSuite::new(format!("{} over {}", definition.subsystem, definition.space));
    let said = [("name", &stored.label.name), ("note", &stored.label.note)];
    for (key, value) in said {
        if let Some(value) = value {
            suite.add_property((key, value.as_str()));
        }
    }
    let mut properties = vec![
        ("algorithm", definition.algorithm.clone()),
        ("seed", definition.seed.to_string()),
        ("started", times::started(stored.clock)),
        ("measured_for", times::measured(stored.clock)),
    ];
    if !stored.changed.is_empty() {
        properties.push(("changed", identity::in_words(&stored.changed)));
    }
    for (key, value) in properties {
        suite.add_property((key, value.as_str()));
    }
    let stopping = gate.stopping(explained);
    let names = names_of_findings(explained.firsts().map(|found| found.finding));
    for found in explained.firsts() {
        let name = &names[&found.finding.number];
        suite.add_test_case(finding(stored, explained, found, name, &stopping, gate.stops_unmeasured(found)));
    }
    if !explained.unexplained.is_empty() {
        suite.add_test_case(unexplained(stored, explained, gate));
    }
    if suite.test_cases.is_empty() {
        let status = if stored.has_verdict() { TestCaseStatus::success() } else { TestCaseStatus::skipped() };
        suite.add_test_case(case("kelpie.campaign", "no anomaly", status));
    }
    if let Some(reason) = stored.campaign.open_end() {
        let mut status = TestCaseStatus::skipped();
        status.set_message(reason);
        suite.add_test_case(case("kelpie.campaign", "every experiment", status));
    }
    for check in stored.checks.iter().filter(|check| is_of_paths(check)) {
        suite.add_test_case(of_paths(check));
    }
    let mut report = Report::new("kelpie");
    report.add_test_suite(suite);
    Ok(plain(&report.to_string()?))
}

/// Whether a check is of the ports of one direction, as `campaign run --paths` asks for them.
fn is_of_paths(check: &Check) -> bool {
    matches!(check.about.as_str(), "a to b" | "b to a")
}

fn of_paths(check: &Check) -> TestCase {
    let status = match check.state {
        CheckState::Fail => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let seen: Vec<String> = check.evidence.iter().map(|one| format!("{}: {}", one.source, one.value)).collect();
            status.set_message(check.summary.clone());
            status.set_description([seen.join("\n"), check.fix.clone().unwrap_or_default()].join("\n"));
            status
        }
        CheckState::NotApplicable | CheckState::Unknown => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(check.summary.clone());
            status
        }
        CheckState::Pass | CheckState::Warn => TestCaseStatus::success(),
    };
    case("kelpie.paths", &format!("{}, {}", check.about, check.name), status)
}

fn case(class: &str, name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(class);
    case
}

fn failed(symptom: Symptom, message: String, description: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(symptom.name());
    status.set_message(message);
    status.set_description(description);
    status
}

fn finding(
    stored: &StoredCampaign,
    explained: &Explained<'_>,
    found: &Weighed<'_>,
    name: &str,
    stopping: &[&Anomaly],
    is_unmeasured: bool,
) -> TestCase {
    let record = found.finding;
    let mut own = explained.variants_of(record.number).map(|variant| variant.finding).collect::<Vec<_>>();
    own.push(record);
    let explains = |anomaly: &&&Anomaly| own.iter().any(|one| explains(one, anomaly));
    let inside: Vec<&&Anomaly> = stopping.iter().filter(explains).collect();
    let status = if inside.is_empty() && !is_unmeasured {
        TestCaseStatus::success()
    } else {
        let conditions = wording::conditions(&record.region_by_need(), usize::MAX);
        let severity = Severity::in_words(found.severity);
        let shown: Vec<String> = inside.iter().take(NAMED).map(|anomaly| line(anomaly)).collect();
        let description = format!(
            "finding {}.{}, found at experiment {}, confidence {:.2}\n{severity}: {}\n{}\n{} experiments inside:\n{}\n",
            stored.campaign.id,
            record.number,
            record.found_at,
            record.confidence,
            record.workload.summary(),
            conditions.join("\n"),
            inside.len(),
            shown.join("\n")
        );
        let message = format!("{}; {severity}; {}", wording::symptom(record.symptom), conditions.join("; "));
        failed(record.symptom, message, description)
    };
    case("kelpie.finding", name, status)
}

/// One case for all that no finding explains: it fails if any of it stops the gate.
fn unexplained(stored: &StoredCampaign, explained: &Explained<'_>, gate: &Gate) -> TestCase {
    let stopping: Vec<&&Anomaly> = explained.unexplained.iter().filter(|anomaly| gate.stops_anomaly(anomaly)).collect();
    let status = match stopping.first() {
        None => TestCaseStatus::success(),
        Some(worst) => {
            let lines: Vec<String> = stopping.iter().take(NAMED).map(|anomaly| line(anomaly)).collect();
            let message = format!("{explained}; the worst: {}; {}", wording::symptom(worst.symptom), worst.severity);
            let description =
                format!("campaign {}, {} stop the gate:\n{}\n", stored.campaign.id, stopping.len(), lines.join("\n"));
            failed(worst.symptom, message, description)
        }
    };
    case("kelpie.unexplained", "anomalies that no finding explains", status)
}

fn line(anomaly: &Anomaly) -> String {
    let Anomaly { number, symptom, severity, workload, reason, .. } = anomaly;
    let reason = reason.as_ref().map_or_else(String::new, |reason| format!("; {reason}"));
    format!("experiment {number} {}, {severity}: {}{reason}", symptom.name(), workload.summary())
}

/// The name of each finding by its number; where several would have the same, the later ones count on.
fn names_of_findings<'f>(findings: impl Iterator<Item = &'f FindingRecord>) -> BTreeMap<u64, String> {
    let mut findings: Vec<&FindingRecord> = findings.collect();
    findings.sort_by_key(|finding| finding.number);
    let mut met: BTreeMap<String, u32> = BTreeMap::new();
    let name = |finding: &FindingRecord| {
        let name = name_of_finding(finding);
        let count = met.entry(name.clone()).or_default();
        *count += 1;
        (finding.number, if *count > 1 { format!("{name} {count}") } else { name })
    };
    findings.into_iter().map(name).collect()
}

/// The same for equal symptoms, transports and features that matter: bounds move while a campaign goes on, and differ
/// from one campaign to the next.
fn name_of_finding(finding: &FindingRecord) -> String {
    let cures = finding.evidence().map_or_else(Vec::new, |evidence| evidence.cures);
    let mut features: BTreeSet<Feature> = cures.iter().map(|cure| cure.condition.feature).collect();
    if features.is_empty() {
        features.extend(finding.mfs.conditions.iter().map(|condition| condition.feature));
    }
    let [qp_type, opcode] = TriedTransport::FEATURES.map(|feature| finding.workload.feature(feature));
    let others = features.into_iter().filter(|feature| !TriedTransport::FEATURES.contains(feature));
    let others: Vec<String> = others
        .map(|feature| match finding.workload.feature(feature) {
            FeatureValue::Category(word) => format!("{feature} {word}"),
            FeatureValue::Number(_) => feature.to_string(),
        })
        .collect();
    let with = if others.is_empty() { String::new() } else { format!(" with {}", others.join(", ")) };
    let readable = format!("{} of {qp_type} {opcode}{with}", finding.symptom.name());
    named(&readable, &readable)
}

/// A readable part, and eight figures that tell apart what reads alike.
fn named(readable: &str, identity: &impl Serialize) -> String {
    let identity = serde_json::to_vec(identity).expect("plain data with text as keys");
    let digest = Sha256::digest(&identity);
    let short: String = readable.chars().take(READABLE).collect();
    let rest = if short.len() < readable.len() { "…" } else { "" };
    format!("{short}{rest} [{:02x}{:02x}{:02x}{:02x}]", digest[0], digest[1], digest[2], digest[3])
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::checks::{CheckKind, Repair};
    use kelpie_spaces::Test;
    use kelpie_store::CampaignState;

    use super::*;
    use crate::baseline::Baseline;
    use crate::testing::{
        HOSTILE, anomaly, finding, inconclusive, measured, one_finding, sample, stored_campaign, unsupported, workload,
    };

    fn cases(text: &str) -> Vec<(String, bool)> {
        let report = Report::deserialize_from_str(text).expect("JUnit reads back");
        let is_failed = |case: &TestCase| !matches!(case.status, TestCaseStatus::Success { .. });
        report.test_suites[0].test_cases.iter().map(|case| (case.name.to_string(), is_failed(case))).collect()
    }

    #[test]
    fn checks_of_paths_are_cases_and_those_of_hosts_are_not() {
        let mut stored = one_finding();
        let check = |kind, state, about: &str| Check::new(kind, state, "what it is").about(about).seen("bytes", "1, 9");
        stored.checks = vec![
            check(CheckKind::Mtu, CheckState::Fail, "host a"),
            check(CheckKind::Balance, CheckState::Fail, "a to b").repair(Repair::Steer, &[]),
            check(CheckKind::Pairing, CheckState::Pass, "b to a"),
            check(CheckKind::Failover, CheckState::Unknown, "b to a"),
        ];
        let text = junit(&stored, &Explained::new(&stored.findings, &[]), &Gate::default()).unwrap();
        let named: Vec<(String, bool)> = cases(&text).into_iter().filter(|(name, _)| name.contains(" to ")).collect();
        let expected = [("a to b, balance", true), ("b to a, pairing", false), ("b to a, failover", true)];
        for (name, is_no_success) in expected {
            assert!(named.contains(&(name.to_owned(), is_no_success)), "{name}: {text}");
        }
        assert!(!text.contains("host a") && text.contains("bytes: 1, 9"), "{text}");
    }

    #[test]
    fn each_finding_is_a_case_and_so_is_what_none_explains() {
        let mut stored = one_finding();
        stored.campaign.definition.subsystem = HOSTILE.to_owned();
        let anomalies = [
            anomaly(2, workload(4, 4096), 0.7),
            anomaly(6, workload(1, 1024), 0.3),
            anomaly(7, workload(1, 1024), 0.3),
        ];
        let explained = Explained::new(&stored.findings, &anomalies);
        let text = junit(&stored, &explained, &Gate::default()).unwrap();
        let all = cases(&text);
        assert_eq!(all.len(), 2, "one case for all that is not explained: {text}");
        assert!(all[0].0.starts_with("low_throughput of RC WRITE with qps ["), "{text}");
        assert_eq!(all[1].0, "anomalies that no finding explains");
        assert!(all.iter().all(|case| case.1), "{text}");
        assert!(!text.contains("<script") && !text.contains('\u{1}'), "{text}");

        let baseline = Baseline::of(&explained, false);
        let accepted = cases(&junit(&stored, &explained, &Gate { least: 0.0, baseline }).unwrap());
        let names = |cases: &[(String, bool)]| cases.iter().map(|case| case.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&accepted), names(&all));
        assert_eq!([accepted[0].1, accepted[1].1], [false, true], "what is accepted passes");
        let mild = cases(&junit(&stored, &explained, &Gate { least: 0.5, ..Gate::default() }).unwrap());
        assert_eq!([mild[0].1, mild[1].1], [true, false], "what is not severe passes");
    }

    #[test]
    fn names_depend_on_no_number() {
        let one = finding(1, 2, workload(4, 4096));
        let mut again = FindingRecord { confidence: 0.2, ..finding(7, 90, workload(3, 1024)) };
        assert_eq!(name_of_finding(&one), name_of_finding(&again));
        again.mfs.conditions[0].test = Test::Range { min: Some(2), max: Some(3) };
        assert_eq!(name_of_finding(&one), name_of_finding(&again), "bounds move");
        let pause = FindingRecord { symptom: Symptom::Pause, ..one.clone() };
        assert_ne!(name_of_finding(&one), name_of_finding(&pause));
        // A version that names them otherwise loses the history of every CI system.
        assert_eq!(name_of_finding(&one), "low_throughput of RC WRITE with qps [77d92003]");
        assert!(named(&"x".repeat(500), &0).len() < READABLE + 20);
        let names = names_of_findings([&again, &one].into_iter());
        assert_eq!((&names[&1], names[&7].clone()), (&name_of_finding(&one), name_of_finding(&one) + " 2"));
    }

    #[test]
    fn a_finding_of_which_nothing_is_stored_fails() {
        let stored = one_finding();
        let text = junit(&stored, &Explained::new(&stored.findings, &[]), &Gate::default()).unwrap();
        assert!(matches!(&cases(&text)[..], [(_, true)]), "{text}");
        assert!(text.contains("severity not measured"), "{text}");
    }

    #[test]
    fn no_anomaly_is_one_case_which_passes_if_anything_was_healthy() {
        let healthy = measured(1, workload(1, 1024), sample(0.95, Some(0.0)), Vec::new());
        for (experiments, is_no_success) in [(vec![healthy], false), (vec![inconclusive(1), unsupported(2)], true)] {
            let stored = stored_campaign(experiments, Vec::new());
            let text = junit(&stored, &Explained::new(&[], &[]), &Gate::default()).unwrap();
            assert_eq!(cases(&text), [("no anomaly".to_owned(), is_no_success)], "{text}");
        }
    }

    #[test]
    fn a_campaign_that_stopped_before_its_end_has_a_case_that_is_skipped() {
        let healthy = measured(1, workload(1, 1024), sample(0.95, Some(0.0)), Vec::new());
        let mut stored = stored_campaign(vec![healthy], Vec::new());
        for (state, budget, expected) in [
            (CampaignState::Running, Some(2), true),
            (CampaignState::Stopped, Some(2), true),
            (CampaignState::Stopped, Some(1), false),
            (CampaignState::Stopped, None, true),
            (CampaignState::Finished, Some(2), false),
            (CampaignState::Finished, None, false),
        ] {
            (stored.campaign.state, stored.campaign.definition.budget) = (state, budget);
            let text = junit(&stored, &Explained::new(&[], &[]), &Gate::default()).unwrap();
            assert_eq!(cases(&text).contains(&("every experiment".to_owned(), true)), expected, "{text}");
        }
    }
}

//! A campaign's findings as `junit.xml`, for CI systems: one failed case for each. No other markup.

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use crate::stored_campaign::StoredCampaign;
use crate::wording;

/// The document; a campaign without findings is one case that passed.
pub(crate) fn junit(stored: &StoredCampaign) -> Result<String, SerializeError> {
    let campaign = &stored.campaign;
    let definition = &campaign.definition;
    let mut suite = TestSuite::new(format!("{} over {}", definition.subsystem, definition.space));
    let class = format!("kelpie.campaign-{}", campaign.id);
    for finding in &stored.findings {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        let conditions = wording::conditions(&finding.mfs, usize::MAX);
        status.set_type(finding.symptom.name());
        status.set_message(format!("{}; {}", wording::symptom(finding.symptom), conditions.join("; ")));
        status.set_description(format!(
            "found at experiment {}, confidence {:.2}\n{}\n",
            finding.found_at,
            finding.confidence,
            conditions.join("\n")
        ));
        let name = format!("finding {}.{} {}", campaign.id, finding.number, finding.symptom.name());
        let mut case = TestCase::new(name, status);
        case.set_classname(class.clone());
        suite.add_test_case(case);
    }
    if stored.findings.is_empty() {
        let mut case =
            TestCase::new(format!("no finding in {} experiments", campaign.experiments), TestCaseStatus::success());
        case.set_classname(class);
        suite.add_test_case(case);
    }
    let mut report = Report::new(format!("kelpie campaign {}", campaign.id));
    report.add_test_suite(suite);
    report.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HOSTILE, one_finding, stored_campaign};

    #[test]
    fn each_finding_is_a_failed_case() {
        let mut stored = one_finding();
        stored.campaign.definition.subsystem = HOSTILE.to_owned();
        let text = junit(&stored).unwrap();
        let report = Report::deserialize_from_str(&text).expect("JUnit reads back");
        let cases = &report.test_suites[0].test_cases;
        assert_eq!((report.tests, report.failures, cases.len()), (1, 1, 1), "{text}");
        assert!(cases[0].name.as_str().contains("finding 1.1 low_throughput"));
        assert!(!text.contains("<script") && !text.contains('\u{1}'), "{text}");
    }

    #[test]
    fn no_finding_is_one_passed_case() {
        let text = junit(&stored_campaign(Vec::new(), Vec::new())).unwrap();
        let report = Report::deserialize_from_str(&text).expect("JUnit reads back");
        assert_eq!((report.tests, report.failures), (1, 0), "{text}");
    }
}

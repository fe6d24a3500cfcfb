//! The nodes of a qualification as `junit.xml`, for CI systems: a case for each node.

use kelpie_criteria::{FleetState, FleetVerdict, NodeQualification};
use kelpie_text::plain;
use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::reason::reason;

/// The document. A node that is out fails, and one of which nobody can say is an error.
pub fn junit(run: i64, verdict: &FleetVerdict) -> Result<String, SerializeError> {
    let mut suite = TestSuite::new(format!("qualification {run}"));
    for (name, node) in &verdict.nodes {
        suite.add_test_case(TestCase::new(plain(name), status(run, node)));
    }
    let mut report = Report::new("kelpie qualify");
    report.add_test_suite(suite);
    report.to_string()
}

fn status(run: i64, node: &NodeQualification) -> TestCaseStatus {
    let (kind, message) = match node.state {
        FleetState::In => return TestCaseStatus::success(),
        FleetState::Out => (NonSuccessKind::Failure, reason(run, node).unwrap_or_default()),
        FleetState::Unknown => (NonSuccessKind::Error, node.unsure.join("; ")),
    };
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(plain(&message));
    status
}

//! The lines with all of one finding: where it was seen, its conditions, its workload. No layout.

use kelpie_monitor::Severity;
use kelpie_reports::explained::Weighed;
use kelpie_spaces::{Workload, workload_to_yaml};
use kelpie_store::Anomaly;
use kelpie_text::clean;
use kelpie_text::plural;

use crate::for_people::wrapped;

/// Everything of a finding, in lines of at most `width` columns.
pub fn of_finding(Weighed { finding, severity, .. }: &Weighed<'_>, width: usize) -> Vec<String> {
    let mut lines = vec![
        Severity::in_words(*severity),
        format!(
            "found at experiment {}, reduced in {}, confidence {:.2}",
            finding.found_at,
            plural(finding.experiments_for_mfs, "experiment"),
            finding.confidence
        ),
    ];
    if finding.is_pinned() {
        lines.push("pinned: no wider region held or was searched".to_owned());
    }
    lines.push(String::new());
    let region = finding.region_by_need();
    if region.conditions.is_empty() {
        lines.push(region.to_string());
    }
    lines.extend(region.conditions.iter().map(|condition| clean(&condition.to_string())));
    lines.push(String::new());
    with_workload(lines, &finding.workload, width)
}

/// Everything of an anomaly that no finding explains, in lines of at most `width` columns.
pub fn of_anomaly(anomaly: &Anomaly, width: usize) -> Vec<String> {
    let lines = vec![anomaly.severity.to_string(), "in the region of no finding".to_owned(), String::new()];
    with_workload(lines, &anomaly.workload, width)
}

fn with_workload(mut lines: Vec<String>, workload: &Workload, width: usize) -> Vec<String> {
    lines.extend(workload_to_yaml(workload).lines().map(clean));
    lines.iter().flat_map(|line| wrapped(line, width)).collect()
}

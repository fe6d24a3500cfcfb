//! The lines with all of one finding: where it was seen, its conditions, its workload. No layout.

use kelpie_spaces::workload_to_yaml;
use kelpie_store::FindingRecord;

use super::safe_text::{clean, wrapped};
use crate::output::plural;

/// Everything of a finding, in lines of at most `width` columns.
pub fn lines(finding: &FindingRecord, width: usize) -> Vec<String> {
    let mut lines = vec![format!(
        "found at experiment {}, reduced in {}, confidence {:.2}",
        finding.found_at,
        plural(finding.experiments_for_mfs, "experiment"),
        finding.confidence
    )];
    if finding.is_pinned() {
        lines.push("pinned: no wider region held or was searched".to_owned());
    }
    lines.push(String::new());
    if finding.mfs.conditions.is_empty() {
        lines.push(finding.mfs.to_string());
    }
    lines.extend(finding.mfs.conditions.iter().map(|condition| clean(&condition.to_string())));
    lines.push(String::new());
    lines.extend(workload_to_yaml(&finding.workload).lines().map(clean));
    lines.iter().flat_map(|line| wrapped(line, width)).collect()
}

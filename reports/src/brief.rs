//! A finding in the cells of a table: what it needs, with which transports it shows, how sure that is. No layout.

use std::collections::BTreeMap;

use kelpie_monitor::{Severity, Symptom};
use kelpie_search::{FindingEvidence, TriedTransport};
use kelpie_spaces::known::{self, PaperAnomaly, Sign};
use kelpie_spaces::{Condition, Feature, Workload};
use kelpie_store::FindingRecord;

use crate::wording;

/// Its conditions without those on the transport, which [`shows_with`] has.
pub fn conditions(finding: &FindingRecord) -> String {
    if finding.is_pinned() {
        return format!("exactly {}", finding.workload.summary());
    }
    let others = finding.region_by_need().conditions.into_iter();
    let others: Vec<String> =
        others.filter(|one| !TriedTransport::FEATURES.contains(&one.feature)).map(|one| one.brief()).collect();
    if others.is_empty() { "none".to_owned() } else { others.join(", ") }
}

/// The transports and operations with which it shows, as far as they were tried: `RC|UC WRITE, RC READ`, or `any`.
pub fn shows_with(finding: &FindingRecord) -> String {
    let tried = finding.evidence().map_or_else(Vec::new, |evidence| evidence.transports);
    if !tried.is_empty() {
        return if tried.len() > 1 && tried.iter().all(|one| one.shows) {
            "any".to_owned()
        } else {
            joined(&tried, true)
        };
    }
    let of = |feature: Feature| finding.mfs.condition(feature).map(words);
    match TriedTransport::FEATURES.map(of) {
        [None, None] => "any".to_owned(),
        both => both.into_iter().flatten().collect::<Vec<_>>().join(" "),
    }
}

/// The transports and operations that show a symptom, or that do not, those of one operation together.
pub fn joined(tried: &[TriedTransport], shows: bool) -> String {
    let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in tried.iter().filter(|one| one.shows == shows) {
        types.entry(&one.opcode).or_default().push(&one.qp_type);
    }
    types.into_iter().map(|(opcode, types)| format!("{} {opcode}", types.join("|"))).collect::<Vec<_>>().join(", ")
}

fn words(condition: &Condition) -> String {
    let brief = condition.brief();
    brief.split_once(' ').map_or(brief.clone(), |(_, words)| words.to_owned())
}

/// How many of the random workloads that meet its conditions show its symptom, and how many another one, such as
/// `17/20` or `4+9/13`; `-` if none was measured.
pub fn inside(finding: &FindingRecord) -> String {
    match finding.evidence() {
        Some(FindingEvidence { validated: of @ 1.., shows_inside, healthy_inside, .. }) => {
            match of.saturating_sub(shows_inside.saturating_add(healthy_inside)) {
                0 => format!("{shows_inside}/{of}"),
                others => format!("{shows_inside}+{others}/{of}"),
            }
        }
        _ => "-".to_owned(),
    }
}

/// What rids its workload of the symptom, by what was measured on both sides of each bound; empty before that.
pub fn ways_out(evidence: &FindingEvidence) -> Vec<String> {
    let measured = evidence.cures.iter().filter(|cure| !cure.sides.is_empty());
    measured.filter_map(|cure| wording::cure(&cure.condition)).collect()
}

/// How bad it is, as the share by which findings are compared; `-` if that was not measured.
pub fn lost(severity: Option<Severity>) -> String {
    severity.map_or("-".to_owned(), |severity| format!("{:.0} %", severity.share() * 100.0))
}

/// The counters by which it shows, and how many times less each is whichever condition is broken, the most first.
pub fn falls(evidence: &FindingEvidence) -> Vec<(&str, f64)> {
    /// Times from which on a fall is told. Source: our choice.
    const LEAST: f64 = 2.0;
    let falls = evidence.signature.iter().map(|(name, fall)| (name.as_str(), 10_f64.powf(*fall)));
    let mut falls: Vec<(&str, f64)> = falls.filter(|(_, times)| *times >= LEAST).collect();
    falls.sort_by(|a, b| b.1.total_cmp(&a.1));
    falls
}

/// The row of the paper's table 2 whose conditions this workload meets, of several that with the most.
pub fn row_of_the_paper(symptom: Symptom, workload: &Workload) -> Option<PaperAnomaly> {
    let sign = match symptom {
        Symptom::Pause => Sign::Pause,
        Symptom::LowThroughput => Sign::Low,
        Symptom::HostFailure => return None,
    };
    known::like(sign, workload)
}

/// The number of that row.
pub fn like_the_papers(finding: &FindingRecord) -> Option<u32> {
    row_of_the_paper(finding.symptom, &finding.workload).map(|row| row.id)
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::Test;

    use super::*;
    use crate::testing::{finding, workload};

    fn tried(qp_type: &str, opcode: &str, shows: bool) -> TriedTransport {
        TriedTransport { qp_type: qp_type.to_owned(), opcode: opcode.to_owned(), shows }
    }

    #[test]
    fn the_cells_of_a_finding_are_short() {
        let mut found = finding(1, 2, workload(3, 4096));
        found.evidence["narrowed"] = false.into();
        found.mfs.set(Condition { feature: Feature::Opcode, test: Test::In(vec!["WRITE".to_owned()]) });
        assert_eq!([conditions(&found), shows_with(&found), inside(&found)], ["qps≥3", "WRITE", "0+36/36"]);
        let all = [tried("RC", "WRITE", true), tried("UC", "WRITE", true), tried("RC", "READ", false)];
        found.evidence["transports"] = serde_json::to_value(&all).unwrap();
        assert_eq!(shows_with(&found), "RC|UC WRITE");
        found.evidence["transports"] = serde_json::to_value(&all[..2]).unwrap();
        assert_eq!(shows_with(&found), "any");
        found.mfs.conditions.clear();
        found.evidence["validated"] = 0.into();
        assert_eq!([conditions(&found), inside(&found)], ["none", "-"]);
    }

    #[test]
    fn a_finding_is_like_the_row_that_its_workload_meets() {
        let row = known::anomaly(3).expect("the table has it");
        let mut found = FindingRecord { symptom: Symptom::Pause, ..finding(1, 2, row.trigger.workload()) };
        assert_eq!(like_the_papers(&found), Some(3));
        found.symptom = Symptom::LowThroughput;
        assert_ne!(like_the_papers(&found), Some(3));
        found.workload = workload(1, 4096);
        assert_eq!(like_the_papers(&found), None);
    }
}

//! A campaign's findings as a page of Markdown, for the summaries of CI systems. No HTML.

use std::fmt::Write as _;

use kelpie_store::Anomaly;

use crate::absence::absence;
use crate::brief;
use crate::coverage::Coverage;
use crate::explained::{Explained, Weighed};
use crate::identity;
use crate::markdown::escaped;
use crate::stored_campaign::StoredCampaign;
use crate::times;
use crate::wording;

/// Unexplained anomalies that are listed. Source: our choice, because a summary is to be read at a glance.
const MOST_UNEXPLAINED: usize = 10;

/// The page.
pub(crate) fn summary(stored: &StoredCampaign, explained: &Explained<'_>, coverage: &Coverage) -> String {
    let campaign = &stored.campaign;
    let definition = &campaign.definition;
    let mut text = format!(
        "# Kelpie campaign {}: {} over {}\n\n{} experiments, {} skipped, {}; {} of the pairs of feature \
         values measured. Algorithm {}, seed {}, {}, begun {} by Kelpie {}, measured \
         for {}.\n",
        campaign.id,
        escaped(&definition.subsystem),
        escaped(&definition.space),
        campaign.experiments,
        campaign.skipped,
        explained.findings_in_words(),
        wording::percent(coverage.pair_share()),
        escaped(&definition.algorithm),
        definition.seed,
        campaign.state,
        times::started(stored.clock),
        escaped(&definition.kelpie_version),
        times::measured(stored.clock),
    );
    if !stored.changed.is_empty() {
        let _ = writeln!(text, "\nThe subsystem has {}.", escaped(&identity::in_words(&stored.changed)));
    }
    if stored.findings.is_empty() {
        let evidence = absence(stored, coverage).map(|absence| format!(" {absence}.")).unwrap_or_default();
        let _ = writeln!(text, "\nNo finding.{evidence}");
        return text + &unexplained(explained);
    }
    text += "\n| finding | symptom | severity | shows with | conditions | inside | seen |\n|---|---|---|---|---|---:|---:|\n";
    for Weighed { finding, severity, seen } in explained.firsts() {
        let _ = writeln!(
            text,
            "| {}.{} | {} | {} | {} | {} | {} | {seen} |",
            campaign.id,
            finding.number,
            escaped(finding.symptom.name()),
            wording::severity(*severity),
            escaped(&brief::shows_with(finding)),
            escaped(&brief::conditions(finding)),
            brief::inside(finding),
        );
    }
    text + &unexplained(explained)
}

/// The anomalies that no finding explains, as a table.
fn unexplained(explained: &Explained<'_>) -> String {
    let mut text = format!("\nNot explained: {explained}.\n");
    if explained.unexplained.is_empty() {
        return text;
    }
    text += "\n| experiment | symptom | severity | workload |\n|---:|---|---|---|\n";
    for anomaly in explained.unexplained.iter().take(MOST_UNEXPLAINED) {
        let Anomaly { number, symptom, severity, workload, reason, .. } = anomaly;
        let shown = reason.as_deref().map_or_else(|| severity.to_string(), escaped);
        let _ = writeln!(text, "| {number} | {} | {shown} | {} |", escaped(symptom.name()), workload.summary());
    }
    if let Some(more @ 1..) = explained.unexplained.len().checked_sub(MOST_UNEXPLAINED) {
        let _ = writeln!(text, "\nand {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::coverage;
    use crate::testing::{HOSTILE, measured, one_finding, sample, stored_campaign, workload};
    use kelpie_monitor::Symptom;

    fn of(stored: &StoredCampaign) -> String {
        let anomalies = stored.anomalies();
        summary(stored, &Explained::new(&stored.findings, &anomalies), &coverage(&stored.space, []))
    }

    #[test]
    fn findings_are_rows_and_names_stay_text() {
        let mut stored = one_finding();
        stored.campaign.definition.subsystem = format!("{HOSTILE}\n# heading");
        let text = of(&stored);
        let row = "| 1.1 | low\\_throughput | 70.0 % lost, paused 20.0 % of the time | any | exactly a to b RC \
                   WRITE 2KiB, 4 QPs, depth 16, batch 1, MTU 4096 | 0+36/36 | 1 |";
        assert!(text.contains(row), "{text}");
        assert!(text.ends_with("Not explained: the anomalous experiment is explained by a finding.\n"), "{text}");
        assert!(!text.contains("<script") || text.contains("\\<script\\>"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), 1, "{text}");
    }

    #[test]
    fn what_is_not_explained_is_listed() {
        // Sixteen messages of 2 KiB at a time carry less than the port does, which counts as what could be had.
        let low = vec![Symptom::LowThroughput];
        let of_number = |number| measured(number, workload(1, 1024), sample(0.1, None), low.clone());
        let text = of(&stored_campaign((1..=12).map(of_number).collect(), Vec::new()));
        assert!(text.contains("Not explained: 12 of 12 anomalous experiments are explained by no finding."), "{text}");
        assert!(text.contains("| 1 | low\\_throughput | 75.7 % lost | a to b RC WRITE 2KiB, 1 QP,"), "{text}");
        assert!(text.ends_with("\nand 2 more\n"), "{text}");
    }

    #[test]
    fn a_campaign_may_have_found_nothing() {
        let text = of(&stored_campaign(Vec::new(), Vec::new()));
        assert!(text.ends_with("No finding.\n\nNot explained: no experiment was anomalous.\n"), "{text}");
    }
}

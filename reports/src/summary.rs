//! A campaign's findings as a page of Markdown, for the summaries of CI systems. No HTML.

use std::fmt::Write as _;

use crate::absence::absence;
use crate::coverage::Coverage;
use crate::stored_campaign::StoredCampaign;
use crate::wording;

/// The page.
pub(crate) fn summary(stored: &StoredCampaign, coverage: &Coverage) -> String {
    let campaign = &stored.campaign;
    let definition = &campaign.definition;
    let mut text = format!(
        "# Kelpie campaign {}: {} over {}\n\n{} experiments, {} skipped, {} findings; {} of the pairs of feature \
         values measured. Algorithm {}, signals {}, seed {}, {}, begun by Kelpie {}.\n",
        campaign.id,
        escaped(&definition.subsystem),
        escaped(&definition.space),
        campaign.experiments,
        campaign.skipped,
        stored.findings.len(),
        wording::percent(coverage.pair_share()),
        escaped(&definition.algorithm),
        escaped(&definition.signal),
        definition.seed,
        campaign.state,
        escaped(&definition.kelpie_version),
    );
    if stored.findings.is_empty() {
        let evidence = absence(stored, coverage).map(|absence| format!(" {absence}.")).unwrap_or_default();
        let _ = writeln!(text, "\nNo finding.{evidence}");
        return text;
    }
    text += "\n| finding | symptom | conditions | confidence | found at |\n|---|---|---|---:|---:|\n";
    for finding in &stored.findings {
        let conditions = wording::conditions(&finding.mfs, wording::MOST_CONDITIONS).join("; ");
        let _ = writeln!(
            text,
            "| {}.{} | {} | {} | {:.2} | {} |",
            campaign.id,
            finding.number,
            escaped(finding.symptom.name()),
            escaped(&conditions),
            finding.confidence,
            finding.found_at
        );
    }
    text
}

/// Text that Markdown takes as it is, on one line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // Source: CommonMark 0.31, section 2.4 (any ASCII punctuation may be escaped); these begin something.
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '!' | '|' | '~' | '&' => {
                escaped.extend(['\\', c]);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::coverage;
    use crate::testing::{HOSTILE, one_finding, stored_campaign};

    #[test]
    fn findings_are_rows_and_names_stay_text() {
        let mut stored = one_finding();
        stored.campaign.definition.subsystem = format!("{HOSTILE}\n# heading");
        let text = summary(&stored, &coverage(&stored.space, []));
        assert!(text.contains("| 1.1 | low\\_throughput | QPs of one flow: at least 3 | 0.93 | 2 |"), "{text}");
        assert!(!text.contains("<script") || text.contains("\\<script\\>"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), 1, "{text}");
    }

    #[test]
    fn a_campaign_may_have_found_nothing() {
        let stored = stored_campaign(Vec::new(), Vec::new());
        assert!(summary(&stored, &coverage(&stored.space, [])).ends_with("No finding.\n"));
    }
}

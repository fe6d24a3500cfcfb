//! The page of two campaigns side by side. What belongs together is decided in `compare`.

use kelpie_monitor::Severity;
use kelpie_store::Campaign;
use maud::{Markup, html};

use super::file::SiteFile;
use super::index::weight;
use super::page::{page, wide};
use crate::identity::Difference;

/// Differences between the subsystems that are listed. Source: our choice, as of unexplained anomalies.
const MOST_DIFFERENCES: usize = 100;

/// A finding of either campaign.
#[derive(Debug)]
pub struct ComparedRow {
    /// What became of it.
    pub fate: String,
    /// Its name, and that of the one it corresponds to.
    pub finding: String,
    /// What is seen.
    pub symptom: String,
    /// How bad it is where it was found.
    pub severity: Option<Severity>,
    /// Its conditions, or those that changed.
    pub conditions: String,
}

/// Two campaigns, the older first.
#[derive(Debug)]
pub struct CampaignComparison<'a> {
    /// The campaigns.
    pub campaigns: [&'a Campaign; 2],
    /// In what their subsystems differ.
    pub differences: &'a [Difference],
    /// How many findings came to each fate.
    pub counts: String,
    /// The findings, those to look at first.
    pub rows: Vec<ComparedRow>,
}

impl CampaignComparison<'_> {
    /// The page as a site of its own.
    pub fn file(&self) -> SiteFile {
        let [older, newer] = self.campaigns;
        let content = html! {
            p { (self.counts) "." }
            section aria-labelledby="findings" { h2 #findings { "Findings" } (self.findings()) }
            section aria-labelledby="differences" {
                h2 #differences { "In what the subsystems differ" }
                (self.differences())
            }
            section aria-labelledby="campaigns" { h2 #campaigns { "Campaigns" } (self.campaigns()) }
        };
        let title = format!("Campaigns {} and {} compared", older.id, newer.id);
        SiteFile::of("index.html", page(&title, &html! { p.soft { "Kelpie comparison" } }, &content))
    }

    fn campaigns(&self) -> Markup {
        html! {
            dl.facts {
                @for (name, campaign) in [("Older", self.campaigns[0]), ("Newer", self.campaigns[1])] {
                    dt { (name) }
                    dd {
                        "campaign " (campaign.id) ": " (campaign.definition.subsystem) " over "
                        (campaign.definition.space) ", " (campaign.experiments) " experiments, " (campaign.findings)
                        " findings, begun by Kelpie " (campaign.definition.kelpie_version)
                    }
                }
            }
        }
    }

    fn differences(&self) -> Markup {
        if self.differences.is_empty() {
            return html! { p { "In nothing, as far as they were recorded." } };
        }
        let more = self.differences.len().saturating_sub(MOST_DIFFERENCES);
        let table = html! {
            table.cards {
                caption #differences-caption { "Parameters of models, pair files, and what was read of the hosts." }
                thead { tr { th scope="col" { "What" } th scope="col" { "Older" } th scope="col" { "Newer" } } }
                tbody {
                    @for Difference { about, a, b } in self.differences.iter().take(MOST_DIFFERENCES) {
                        tr {
                            th scope="row" { (about) }
                            td data-label="Older" { (a.as_deref().unwrap_or("–")) }
                            td data-label="Newer" { (b.as_deref().unwrap_or("–")) }
                        }
                    }
                }
            }
        };
        html! {
            (wide("differences-caption", &table))
            @if more > 0 { p { "and " (more) " more" } }
        }
    }

    fn findings(&self) -> Markup {
        if self.rows.is_empty() {
            return html! { p { "Neither campaign has a finding." } };
        }
        let table = html! {
            table.sortable.cards {
                caption #findings-caption { "What became of each finding; those to look at come first, the worst first." }
                thead {
                    tr {
                        th scope="col" { "Finding" }
                        th scope="col" { "Fate" }
                        th scope="col" { "Symptom" }
                        th scope="col" data-number { "Severity" }
                        th scope="col" { "Conditions" }
                    }
                }
                tbody {
                    @for row in &self.rows {
                        tr {
                            th scope="row" { (row.finding) }
                            td data-label="Fate" { (row.fate) }
                            td data-label="Symptom" { (row.symptom) }
                            (weight(row.severity))
                            td.long data-label="Conditions" { (row.conditions) }
                        }
                    }
                }
            }
        };
        wide("findings-caption", &table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HOSTILE, one_finding};

    #[test]
    fn a_comparison_shows_text_as_text() {
        let stored = one_finding();
        let text = |value: &str| Some(value.to_owned());
        let differences = [Difference { about: HOSTILE.to_owned(), a: text(HOSTILE), b: None }];
        let row = ComparedRow {
            fate: "new".to_owned(),
            finding: "1.1".to_owned(),
            symptom: "pause".to_owned(),
            severity: None,
            conditions: HOSTILE.to_owned(),
        };
        let comparison = CampaignComparison {
            campaigns: [&stored.campaign; 2],
            differences: &differences,
            counts: "1 new".to_owned(),
            rows: vec![row],
        };
        let page = String::from_utf8(comparison.file().bytes).unwrap();
        assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<img"), "{page}");
        assert_eq!(page.matches("<script").count(), 1);
    }
}

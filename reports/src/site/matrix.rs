//! Findings by features: which features are conditions of which finding, with their bounds.

use kelpie_spaces::{Condition, Feature};
use maud::{Markup, html};

use super::page::wide;
use crate::explained::{Explained, Weighed};
use crate::stored_campaign::StoredCampaign;

/// Findings that are shown. Source: our choice, because a picture of more is none.
const MOST: usize = 40;

/// A row for each finding and a column for each feature that is a condition of any, those of most findings first.
pub(super) fn by_features(stored: &StoredCampaign, explained: &Explained<'_>) -> Markup {
    let findings: Vec<&Weighed<'_>> = explained.findings.iter().filter(|found| !found.finding.is_pinned()).collect();
    let count = |feature: &Feature| findings.iter().filter(|found| condition(found, *feature).is_some()).count();
    let mut features: Vec<Feature> = Feature::ALL.into_iter().filter(|feature| count(feature) > 0).collect();
    features.sort_by_key(|feature| std::cmp::Reverse(count(feature)));
    if findings.len() < 2 || features.is_empty() {
        return html! {};
    }
    let table = html! {
        table.matrix {
            caption #matrix-caption { "Findings by features: each mark is a condition, with its bound." }
            thead {
                tr {
                    th scope="col" { "Finding" }
                    @for feature in &features { th scope="col" { (feature) } }
                }
            }
            tbody {
                @for found in findings.iter().take(MOST) {
                    tr {
                        th scope="row" {
                            a href={ "finding-" (found.finding.number) ".html" } {
                                (stored.campaign.id) "." (found.finding.number)
                            }
                        }
                        @for feature in &features { (cell(condition(found, *feature))) }
                    }
                }
            }
        }
    };
    wide("matrix-caption", &table)
}

fn condition<'f>(found: &Weighed<'f>, feature: Feature) -> Option<&'f Condition> {
    found.finding.mfs.condition(feature)
}

fn cell(condition: Option<&Condition>) -> Markup {
    let Some(condition) = condition else { return html! { td {} } };
    let name = condition.feature.name();
    let brief = condition.brief();
    let bound = brief.strip_prefix(name).map_or(brief.as_str(), str::trim_start);
    html! { td.mark { (if bound.is_empty() { "yes" } else { bound }) } }
}

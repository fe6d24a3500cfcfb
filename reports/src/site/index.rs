//! The first page of a site: the campaign, its findings, its course, its coverage. A finding has a page of its own.

use std::fmt::Write as _;

use kelpie_monitor::{Bounds, Verdict};
use kelpie_store::Ended;
use maud::{Markup, html};

use super::error::SiteError;
use super::hosts;
use super::page::{self, campaign_title, figure, named, wide};
use super::plot::Titled;
use crate::coverage::{Coverage, FeatureCoverage};
use crate::stored_campaign::StoredCampaign;
use crate::wording;

/// Values named of those that were not measured. Source: our choice, because more make a row higher than a phone.
const NAMED: usize = 8;

pub(super) fn page(stored: &StoredCampaign, coverage: &Coverage, timeline: &[Titled]) -> Result<String, SiteError> {
    let figures = timeline.iter().map(figure).collect::<Result<Vec<_>, _>>()?;
    let content = html! {
        section aria-labelledby="summary" {
            h2 #summary { "Summary" }
            (summary(stored, coverage))
            ul.inline {
                li { a href="summary.md" { "Summary as Markdown" } }
                li { a href="junit.xml" { "Findings as JUnit XML" } }
            }
        }
        section aria-labelledby="findings" {
            h2 #findings { "Findings" }
            (findings(stored))
        }
        section aria-labelledby="course" {
            h2 #course { "Course of the search" }
            @if figures.is_empty() { p { "No experiment has samples, so there is nothing to plot." } }
            @for figure in &figures { (figure) }
        }
        section aria-labelledby="coverage" {
            h2 #coverage { "Coverage of the space" }
            (coverage_table(coverage))
        }
        (hosts::section(&stored.checks))
    };
    Ok(page::page(&campaign_title(stored), &html! { p.soft { "Kelpie report" } }, &content))
}

fn summary(stored: &StoredCampaign, coverage: &Coverage) -> Markup {
    let campaign = &stored.campaign;
    let definition = &campaign.definition;
    let counts = [Verdict::Healthy, Verdict::Anomalous, Verdict::Inconclusive].map(Ended::Judged);
    let counts: Vec<String> = counts
        .into_iter()
        .chain([Ended::Unsupported])
        .map(|ended| format!("{} {}", stored.count(ended), wording::ended(ended)))
        .collect();
    html! {
        dl.facts {
            dt { "Subsystem" } dd { (definition.subsystem) }
            dt { "Space" } dd { (definition.space) }
            dt { "Search" } dd { (definition.algorithm) " by " (definition.signal) " signals, seed " (definition.seed) }
            dt { "Experiments" } dd { (stored.points.len()) ": " (counts.join(", ")) }
            dt { "Budget" } dd { @if let Some(budget) = definition.budget { (budget) } @else { "none" } }
            dt { "Skipped" } dd { (campaign.skipped) " workloads that a finding explains" }
            dt { "Findings" } dd { (stored.findings.len()) }
            dt { "State" } dd { (campaign.state) }
            dt { "Coverage" } dd { (wording::percent(coverage.pair_share())) " of the pairs of feature values" }
            dt { "Bounds" } dd { (bounds(&definition.bounds)) }
            dt { "Begun by" } dd { "Kelpie " (definition.kelpie_version) }
        }
    }
}

fn bounds(bounds: &Bounds) -> String {
    let mut text =
        format!("{}bit/s and {}packets/s of a port", wording::si(bounds.max_bps), wording::si(bounds.max_pps));
    if let Some(seconds) = bounds.base_rtt_seconds {
        let _ = write!(text, "; round trip {:.2} µs", seconds * 1e6);
    }
    if let Some(max_bps) = bounds.max_pcie_bps {
        let _ = write!(text, "; {}bit/s of the PCIe link", wording::si(max_bps));
    }
    text
}

fn findings(stored: &StoredCampaign) -> Markup {
    if stored.findings.is_empty() {
        return html! { p { "No finding in " (stored.points.len()) " experiments." } };
    }
    let table = html! {
        table.sortable {
            caption #findings-caption { "Findings, in the order they were made; a heading sorts by its column." }
            thead {
                tr {
                    th scope="col" data-number { "Finding" }
                    th scope="col" { "Symptom" }
                    th scope="col" { "Conditions" }
                    th.figure scope="col" data-number { "Confidence" }
                    th.figure scope="col" data-number { "Found at" }
                    th.figure scope="col" data-number { "Reduced in" }
                }
            }
            tbody {
                @for finding in &stored.findings {
                    tr {
                        th scope="row" data-value=(finding.number) {
                            a href={ "finding-" (finding.number) ".html" } { (stored.campaign.id) "." (finding.number) }
                        }
                        td { (finding.symptom.name()) }
                        td {
                            ul.cell {
                                @for words in wording::conditions(&finding.mfs, wording::MOST_CONDITIONS) {
                                    li { (words) }
                                }
                            }
                            @if finding.is_pinned() { span.badge { "pinned" } }
                        }
                        td.figure data-value=(finding.confidence) { (format!("{:.2}", finding.confidence)) }
                        td.figure data-value=(finding.found_at) { (finding.found_at) }
                        td.figure data-value=(finding.experiments_for_mfs) { (finding.experiments_for_mfs) }
                    }
                }
            }
        }
    };
    wide("findings-caption", &table)
}

fn coverage_table(coverage: &Coverage) -> Markup {
    let share = |row: &FeatureCoverage| row.seen as f64 / row.values().max(1) as f64;
    let table = html! {
        table.sortable {
            caption #coverage-caption { "The values of each feature that were measured with a verdict." }
            thead {
                tr {
                    th scope="col" { "Feature" }
                    th.figure scope="col" data-number { "Values" }
                    th scope="col" data-number { "Measured" }
                    th scope="col" { "Not measured" }
                }
            }
            tbody {
                @for row in &coverage.features {
                    tr {
                        th scope="row" { (named(row.feature)) }
                        td.figure data-value=(row.values()) { (row.values()) }
                        td.figure data-value=(share(row)) {
                            span.share aria-hidden="true" {
                                span style={ "width:" (format!("{:.1}", share(row) * 100.0)) "%" } {}
                            }
                            (wording::percent(share(row)))
                        }
                        td { (missing(row)) }
                    }
                }
            }
        }
    };
    html! {
        p {
            (coverage.pairs_seen) " of " (coverage.pairs) " pairs of feature values were measured in one workload ("
            (wording::percent(coverage.pair_share())) "). The rules of verbs forbid some pairs, such as UD with WRITE, \
            so no campaign reaches 100 %. The figure compares campaigns over one space."
        }
        (wide("coverage-caption", &table))
    }
}

fn missing(row: &FeatureCoverage) -> String {
    let mut named: Vec<String> =
        row.missing.iter().take(NAMED).map(|value| wording::value(row.feature, value)).collect();
    if row.missing.len() > NAMED {
        named.push(format!("{} more", row.missing.len() - NAMED));
    }
    if named.is_empty() { "–".to_owned() } else { named.join(", ") }
}

//! The first page of a site: the campaign, its findings, its course, its coverage. A finding has a page of its own.

use std::fmt::Write as _;

use kelpie_monitor::{Bounds, Severity, Verdict};
use kelpie_store::{CampaignId, Ended};
use maud::{Markup, html};

use super::error::SiteError;
use super::hosts;
use super::matrix;
use super::page::{self, campaign_title, figure, named, wide};
use super::plot::Titled;
use crate::brief;
use crate::coverage::{Coverage, FeatureCoverage};
use crate::explained::{AnomalyGroup, Explained, Weighed};
use crate::identity;
use crate::repeats::ControlReport;
use crate::stored_campaign::StoredCampaign;
use crate::times;
use crate::wording;

/// Values named of those that were not measured. Source: our choice, because more make a row higher than a phone.
const NAMED: usize = 8;

/// Unexplained anomalies that are listed. Source: our choice, because nobody reads more, and a campaign may have
/// thousands.
const MOST_UNEXPLAINED: usize = 100;

pub(super) fn page(
    stored: &StoredCampaign,
    explained: &Explained<'_>,
    coverage: &Coverage,
    timeline: &[Titled],
) -> Result<String, SiteError> {
    let figures = timeline.iter().map(figure).collect::<Result<Vec<_>, _>>()?;
    let content = html! {
        section aria-labelledby="summary" {
            h2 #summary { "Summary" }
            (summary(stored, explained, coverage))
            ul.inline {
                li { a href="summary.md" { "Summary as Markdown" } }
                li { a href="junit.xml" { "Findings as JUnit XML" } }
            }
        }
        section aria-labelledby="findings" {
            h2 #findings { "Findings" }
            (findings(stored, explained))
        }
        section aria-labelledby="unexplained" {
            h2 #unexplained { "What is not explained" }
            (unexplained(explained, stored.campaign.id))
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

fn summary(stored: &StoredCampaign, explained: &Explained<'_>, coverage: &Coverage) -> Markup {
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
            @if let Some(name) = &stored.label.name { dt { "Name" } dd { (name) } }
            @if let Some(control) = ControlReport::of(&stored.again) { dt { "Control" } dd { (control) } }
            @if let Some(note) = &stored.label.note { dt { "Note" } dd { (note) } }
            dt { "Subsystem" }
            dd {
                (definition.subsystem)
                @if !stored.changed.is_empty() { ", with " (identity::in_words(&stored.changed)) }
            }
            dt { "Space" } dd { (definition.space) }
            dt { "Search" } dd { (definition.algorithm) ", seed " (definition.seed) }
            dt { "Experiments" } dd { (stored.points.len()) ": " (counts.join(", ")) }
            dt { "Budget" } dd { @if let Some(budget) = definition.budget { (budget) } @else { "none" } }
            dt { "Skipped" } dd { (campaign.skipped) " workloads that a finding explains" }
            dt { "Findings" } dd { (explained.findings_in_words()) }
            dt { "Unexplained" } dd { (explained) }
            dt { "State" } dd { (campaign.state) }
            dt { "Coverage" } dd { (wording::percent(coverage.pair_share())) " of the pairs of feature values" }
            dt { "Bounds" } dd { (bounds(&definition.bounds)) }
            dt { "Begun" } dd { (times::started(stored.clock)) ", by Kelpie " (definition.kelpie_version) }
            dt { "Measured for" } dd { (times::measured(stored.clock)) }
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
    if let Some(deviation) = bounds.run_to_run {
        let _ = write!(text, "; equal runs differ by {}", kelpie_spaces::units::percent(deviation));
    }
    text
}

fn findings(stored: &StoredCampaign, explained: &Explained<'_>) -> Markup {
    if stored.findings.is_empty() {
        return html! { p { "No finding in " (stored.points.len()) " experiments." } };
    }
    let table = html! {
        table.sortable.cards {
            caption #findings-caption {
                "Findings, the worst first; a heading sorts by its column. Inside: random workloads measured that meet the \
                 conditions and show the symptom, + those that show another one. Seen: anomalous experiments that it explains. \
                 Not measured: from where on its conditions hold."
            }
            thead {
                tr {
                    th scope="col" data-number { "Finding" }
                    th scope="col" { "Symptom" }
                    th scope="col" data-number { "Severity" }
                    th scope="col" { "Shows with" }
                    th scope="col" { "Conditions" }
                    th.figure scope="col" data-number { "Inside" }
                    th.figure scope="col" data-number { "Seen" }
                }
            }
            tbody {
                @for Weighed { finding, severity, seen } in explained.firsts() {
                    tr {
                        th scope="row" data-value=(finding.number) {
                            a href={ "finding-" (finding.number) ".html" } { (stored.campaign.id) "." (finding.number) }
                        }
                        td data-label="Symptom" { (finding.symptom.name()) }
                        (weight(*severity))
                        td.long data-label="Shows with" { (brief::shows_with(finding)) }
                        td.long data-label="Conditions" {
                            (brief::conditions(finding))
                            @if finding.is_pinned() { " " span.badge { "pinned" } }
                            @if finding.is_candidate() { " " span.badge { "not measured" } }
                        }
                        td.figure data-label="Inside" data-value=(finding.confidence) { (brief::inside(finding)) }
                        td.figure data-label="Seen" data-value=(seen) { (seen) }
                    }
                }
            }
        }
    };
    html! { (wide("findings-caption", &table)) (matrix::by_features(stored, explained)) }
}

/// A cell that sorts by the share of the port.
pub(super) fn weight(severity: Option<Severity>) -> Markup {
    html! { td.weight data-label="Severity" data-value=(severity.map_or(-1.0, Severity::share)) { (wording::severity(severity)) } }
}

fn unexplained(explained: &Explained<'_>, id: CampaignId) -> Markup {
    let more = explained.unexplained.len().saturating_sub(MOST_UNEXPLAINED);
    let table = html! {
        table.sortable.cards {
            caption #unexplained-caption { "Anomalous experiments in no finding, the worst first." }
            thead {
                tr {
                    th scope="col" data-number { "Experiment" }
                    th scope="col" { "Symptom" }
                    th scope="col" data-number { "Severity" }
                    th scope="col" { "Workload" }
                }
            }
            tbody {
                @for anomaly in explained.unexplained.iter().take(MOST_UNEXPLAINED) {
                    tr {
                        th scope="row" data-value=(anomaly.number) { (anomaly.number) }
                        td data-label="Symptom" {
                            (anomaly.symptom.name())
                            @if let Some(reason) = &anomaly.reason { ": " (reason) }
                        }
                        (weight(Some(anomaly.severity)))
                        td.long data-label="Workload" { (anomaly.workload.summary()) }
                    }
                }
            }
        }
    };
    html! {
        p { (explained) "." }
        @if !explained.unexplained.is_empty() {
            ul.plain { @for group in explained.groups() { li { (group.count) " " (near(&group, id)) } } }
        }
        @if !explained.unexplained.is_empty() { (wide("unexplained-caption", &table)) }
        @if more > 0 { p { "and " (more) " more" } }
    }
}

/// What a group of them has in common.
fn near(group: &AnomalyGroup<'_>, id: CampaignId) -> String {
    let Some((finding, missed)) = &group.nearest else { return "are near no finding".to_owned() };
    let missed: Vec<&str> = missed.iter().map(|feature| feature.name()).collect();
    format!("would be {id}.{finding} but for {}", missed.join(" and "))
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

//! A qualification as one HTML page: the worst nodes first, a heat map of pairs, and each metric with its criterion.

use std::collections::BTreeMap;

use kelpie_criteria::{
    Better, Criterion, FleetState, FleetVerdict, MeasuredValue, NodeQualification, Unit, UnitValue, best_values,
    full_name, pair_name,
};
use kelpie_text::natural;
use maud::{Markup, html};

use super::history::{EarlierRun, history};
use super::reason::value;
use crate::site::page::{page, wide};

/// Hosts of a heat map at most: the worst, and others in order. Source: our choice; a larger one is a blur.
const MOST_HOSTS: usize = 64;
/// Columns of a distribution. Source: our choice.
const COLUMNS: usize = 40;

/// The page.
pub fn html(run: i64, verdict: &FleetVerdict, units: &[Unit], earlier: &[EarlierRun]) -> String {
    let [out, unknown, well] = [FleetState::Out, FleetState::Unknown, FleetState::In].map(|state| verdict.count(state));
    let title = format!("Qualification {run}: {out} out, {unknown} unknown, {well} in");
    // As they were judged.
    let best = best_values(units).into_iter();
    let metrics: BTreeMap<String, Values<'_>> =
        best.map(|(name, values)| (name, values.into_values().collect())).collect();
    let content = html! {
        (nodes(verdict))
        (between(verdict))
        (history(run, verdict, earlier))
        @for (metric, values) in by_pairs(&metrics) { (heat_map(verdict, &metric, &values)) }
        h2 { "Metrics" }
        @for (metric, values) in &metrics { (distribution(verdict, metric, values)) }
    };
    page(&title, &html! {}, &content)
}

type Values<'u> = Vec<MeasuredValue<'u>>;

/// The metrics of pairs, at all distances together.
fn by_pairs<'u>(metrics: &BTreeMap<String, Values<'u>>) -> BTreeMap<String, Values<'u>> {
    let mut all: BTreeMap<String, Values<'u>> = BTreeMap::new();
    for (name, values) in metrics {
        let pairs: Values<'u> = values.iter().filter(|(_, value)| value.to.is_some()).copied().collect();
        if !pairs.is_empty() {
            all.entry(pair_name(name)).or_default().extend(pairs);
        }
    }
    all
}

/// The criterion of a value, whichever distance it is of.
fn criterion_of<'v>(verdict: &'v FleetVerdict, (unit, value): MeasuredValue<'_>) -> Option<&'v Criterion> {
    verdict.criteria.metrics.get(&full_name(&value.metric, &unit.key.component))
}

fn nodes(verdict: &FleetVerdict) -> Markup {
    let mut worst: Vec<(&String, &NodeQualification)> =
        verdict.nodes.iter().filter(|(_, node)| node.state != FleetState::In).collect();
    let badness =
        |node: &NodeQualification| (node.state, node.faults.first().map_or(0.0, |fault| fault.goodness().max(0.0)));
    worst.sort_by(|one, other| {
        let (one, other) = (badness(one.1), badness(other.1));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    if worst.is_empty() {
        return html! { p { "All nodes are in." } };
    }
    let table = html! {
        table {
            caption #nodes-caption { "Nodes that are out or unknown, the worst first." }
            thead { tr {
                th scope="col" { "Node" } th scope="col" { "State" } th scope="col" { "Metric" }
                th scope="col" { "Measured" } th scope="col" { "Should be" } th scope="col" { "How" }
            } }
            tbody {
                @for (name, node) in worst {
                    @for (nth, fault) in node.faults.iter().enumerate() {
                        tr {
                            @if nth == 0 { th scope="rowgroup" rowspan=(node.faults.len()) { (name) } }
                            td { "out" }
                            @match &fault.measured {
                                Some(measured) => {
                                    td { (measured.metric) @if !fault.component.is_empty() { " " (fault.component) } }
                                    td.number { (value(measured.got)) " " (measured.unit) }
                                    td.number { (value(measured.want)) " " (measured.unit) }
                                }
                                None => { td { (fault.check) } td {} td {} }
                            }
                            td { (fault.detail) }
                        }
                    }
                    @if node.faults.is_empty() {
                        tr { th scope="row" { (name) } td { "unknown" } td colspan="4" { (node.unsure.join("; ")) } }
                    }
                }
            }
        }
    };
    wide("nodes-caption", &table)
}

fn between(verdict: &FleetVerdict) -> Markup {
    html! {
        @if !verdict.between.is_empty() {
            h2 { "Slow paths" }
            p { "Both ends are fast with others: look at the cables and switches between them." }
            ul {
                @for path in &verdict.between {
                    li {
                        (path.hosts[0]) " and " (path.hosts[1]) ": " (path.measured.metric) " "
                        (value(path.measured.got)) " of " (value(path.measured.want)) " " (path.measured.unit)
                    }
                }
            }
        }
    }
}

/// A cell for each pair that was measured, shaded if it is slow: the darker, the slower.
fn heat_map(verdict: &FleetVerdict, metric: &str, values: &[MeasuredValue<'_>]) -> Markup {
    let cells: BTreeMap<(&str, &str), (f64, bool, &UnitValue)> = values
        .iter()
        .filter_map(|of| {
            let criterion = criterion_of(verdict, *of)?;
            let (got, want) = (of.1.typical(), criterion.typical());
            let share = if of.1.better == Better::Higher { got / want } else { want / got };
            let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 };
            Some(((of.1.from.as_str(), of.1.to.as_deref()?), (share, share <= criterion.alpha, of.1)))
        })
        .collect();
    let mut hosts: Vec<(&str, FleetState)> =
        verdict.nodes.iter().map(|(name, node)| (name.as_str(), node.state)).collect();
    hosts.retain(|(host, _)| cells.keys().any(|(from, to)| from == host || to == host));
    let all = hosts.len();
    if all == 0 {
        return html! {};
    }
    // The worst come first where not all have room, and then all are in order.
    hosts.sort_by_key(|(_, state)| *state);
    hosts.truncate(MOST_HOSTS);
    hosts.sort_by_cached_key(|(host, _)| natural(host));
    let id = format!("pairs-{}", metric.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"));
    let shade = |share: f64, is_slow: bool| if is_slow { (9 - (9.0 * share).floor() as u32).max(1) } else { 0 };
    let table = html! {
        table.heat {
            caption id=(id) {
                (metric) ": what each row's node sends to each column's, against its criterion. Shaded is slow."
                @if all > hosts.len() { " " (hosts.len()) " of " (all) " nodes." }
            }
            thead { tr { th scope="col" { "From" } @for (to, _) in &hosts { th scope="col" { (to) } } } }
            tbody {
                @for (from, _) in &hosts {
                    tr {
                        th scope="row" { (from) }
                        @for (to, _) in &hosts {
                            @match cells.get(&(*from, *to)) {
                                Some((good, is_slow, cell)) => {
                                    td class={ "heat-" (shade(*good, *is_slow)) }
                                        title={ (from) " to " (to) ": " (value(cell.typical())) " " (cell.unit) } {
                                        (format!("{:.0} %", 100.0 * good))
                                    }
                                }
                                None => { td {} }
                            }
                        }
                    }
                }
            }
        }
    };
    wide(&id, &table)
}

/// How many values lie where, and the criterion's limit.
fn distribution(verdict: &FleetVerdict, metric: &str, values: &[MeasuredValue<'_>]) -> Markup {
    let typical: Vec<f64> = values.iter().map(|(_, value)| value.typical()).collect();
    let Some((_, first)) = values.first() else { return html! {} };
    let (least, most) =
        (typical.iter().copied().fold(f64::MAX, f64::min), typical.iter().copied().fold(f64::MIN, f64::max));
    let width = if most > least { (most - least) / COLUMNS as f64 } else { 1.0 };
    let mut counts = [0_u32; COLUMNS];
    for value in &typical {
        counts[(((value - least) / width) as usize).min(COLUMNS - 1)] += 1;
    }
    let tallest = counts.iter().copied().max().unwrap_or(1).max(1);
    let limit = verdict.criteria.metrics.get(metric).map(|criterion| match criterion.direction.better {
        Better::Higher => criterion.typical() * criterion.alpha,
        Better::Lower => criterion.typical() / criterion.alpha,
    });
    let at = |value: f64| ((value - least) / width * 10.0).clamp(0.0, 10.0 * COLUMNS as f64);
    let unit = &first.unit;
    html! {
        figure {
            div.plot tabindex="0" role="img" aria-label={ (metric) ": " (typical.len()) " values from " (value(least)) " to " (value(most)) " " (unit) } {
                svg viewBox={ "0 0 " (10 * COLUMNS) " 60" } width="400" height="60" {
                    @for (column, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                        @let height = (50 * count).div_ceil(tallest);
                        rect.bar x=(10 * column) y=(55 - height) width="9" height=(height) {}
                    }
                    @if let Some(limit) = limit.filter(|limit| (least..=most).contains(limit)) {
                        line.limit x1=(at(limit)) x2=(at(limit)) y1="0" y2="58" {}
                    }
                }
            }
            figcaption {
                strong { (metric) } ": " (typical.len()) " values from " (value(least)) " to " (value(most)) " " (unit)
                @match (limit, verdict.without.get(metric)) {
                    (Some(limit), _) => { ", limit " (value(limit)) }
                    (None, Some(why)) => { ", without a criterion: " (why) }
                    (None, None) => {}
                }
                "."
            }
        }
    }
}

//! What earlier qualifications said of the nodes: a row for each node that was not always in, a column for each run.

use std::collections::BTreeMap;

use kelpie_criteria::{FleetState, FleetVerdict, NodeQualification};
use kelpie_text::natural;
use maud::{Markup, html};

use super::reason::value;
use crate::site::page::wide;
use crate::times;

/// Runs that are shown, the latest. Source: our choice, the width of a page.
const MOST_RUNS: usize = 12;
/// Nodes that are shown. Source: our choice, two screens.
const MOST_NODES: usize = 64;

/// A qualification that ended before.
#[derive(Debug, Clone)]
pub struct EarlierRun {
    /// Its number.
    pub run: i64,
    /// When it began. Units: seconds since 1970.
    pub began: i64,
    /// What was said of its nodes.
    pub nodes: BTreeMap<String, NodeQualification>,
}

/// The table; nothing if there is no earlier run of these nodes, or all were always in.
pub(super) fn history(run: i64, verdict: &FleetVerdict, earlier: &[EarlierRun]) -> Markup {
    let has_one =
        |earlier: &&EarlierRun| earlier.run != run && earlier.nodes.keys().any(|node| verdict.nodes.contains_key(node));
    let all: Vec<&EarlierRun> = earlier.iter().filter(has_one).collect();
    let shown = &all[all.len().saturating_sub(MOST_RUNS)..];
    let was_well = |name: &String| {
        let before = shown.iter().filter_map(|earlier| earlier.nodes.get(name));
        before.chain([&verdict.nodes[name]]).all(|node| node.state == FleetState::In)
    };
    let mut nodes: Vec<(&String, &NodeQualification)> =
        verdict.nodes.iter().filter(|(name, _)| !was_well(name)).collect();
    if shown.is_empty() || nodes.is_empty() {
        return html! {};
    }
    let count = nodes.len();
    nodes.sort_by_cached_key(|(name, node)| (node.state, natural(name)));
    nodes.truncate(MOST_NODES);
    let table = html! {
        table {
            caption #history-caption {
                "What qualifications said of nodes that were not always in: the state, and the worst metric."
                @if count > nodes.len() { " " (nodes.len()) " of " (count) " nodes." }
                @if all.len() > shown.len() { " The latest " (shown.len()) " of " (all.len()) " earlier runs." }
            }
            thead { tr {
                th scope="col" { "Node" }
                @for earlier in shown {
                    th scope="col" title=(times::utc(u64::try_from(earlier.began).ok())) { (earlier.run) }
                }
                th scope="col" { (run) " (this)" }
            } }
            tbody {
                @for (name, node) in nodes {
                    tr {
                        th scope="row" { (name) }
                        @for earlier in shown { (cell(earlier.nodes.get(name))) }
                        (cell(Some(node)))
                    }
                }
            }
        }
    };
    html! { h2 { "History" } (wide("history-caption", &table)) }
}

fn cell(node: Option<&NodeQualification>) -> Markup {
    let Some(node) = node else { return html! { td { "not measured" } } };
    match (node.state, node.faults.first()) {
        (FleetState::In, _) => html! { td { "in" } },
        (FleetState::Unknown, _) | (FleetState::Out, None) => html! { td title=(node.unsure.join("; ")) { "unknown" } },
        (FleetState::Out, Some(fault)) => html! {
            td title=(fault.detail) {
                "out: "
                @match &fault.measured {
                    Some(of) => { (of.metric) " " (value(of.got)) " of " (value(of.want)) " " (of.unit) }
                    None => { (fault.check) }
                }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use kelpie_criteria::{MeasuredFault, NodeFault};

    use super::*;

    fn node(got: Option<f64>) -> NodeQualification {
        let measured = |got: f64| MeasuredFault {
            metric: "pair_bandwidth.leaf".to_owned(),
            got,
            want: 392.0,
            unit: "Gb/s".to_owned(),
            similarity: got / 392.0,
        };
        let fault = |got: f64| NodeFault {
            check: "pair".to_owned(),
            component: String::new(),
            measured: Some(measured(got)),
            detail: "with 7 of 7 hosts".to_owned(),
        };
        let state = if got.is_some() { FleetState::Out } else { FleetState::In };
        NodeQualification { state, faults: got.into_iter().map(fault).collect(), unsure: Vec::new(), values: 1 }
    }

    fn nodes(all: &[(&str, Option<f64>)]) -> BTreeMap<String, NodeQualification> {
        all.iter().map(|(name, got)| ((*name).to_owned(), node(*got))).collect()
    }

    #[test]
    fn nodes_that_were_out_once_have_a_row_and_others_none() {
        let earlier =
            |run: i64, all: &[(&str, Option<f64>)]| EarlierRun { run, began: 86_400 * run, nodes: nodes(all) };
        let runs: Vec<EarlierRun> = [
            earlier(1, &[("other", None)]),
            earlier(2, &[("a", Some(98.0)), ("b", None)]),
            earlier(3, &[("a", None), ("b", None), ("c", Some(300.0))]),
        ]
        .into();
        let verdict = FleetVerdict {
            nodes: nodes(&[("a", None), ("b", None), ("c", Some(200.0)), ("d", Some(1.0))]),
            ..FleetVerdict::default()
        };
        let page = history(9, &verdict, &runs).into_string();
        let rows: Vec<Vec<String>> = page
            .split("<tr>")
            .skip(2)
            .map(|row| {
                let cells = row.split("</t").map(|cell| cell.rsplit('>').next().unwrap_or_default().to_owned());
                cells.filter(|cell| !cell.is_empty()).collect()
            })
            .collect();
        let out = |got: &str| format!("out: pair_bandwidth.leaf {got} of 392 Gb/s");
        let own = |text: &str| text.to_owned();
        assert_eq!(
            rows,
            [
                vec![own("c"), own("not measured"), out("300"), out("200")],
                vec![own("d"), own("not measured"), own("not measured"), out("1.00")],
                vec![own("a"), out("98.0"), own("in"), own("in")],
            ]
        );
        assert!(page.contains("title=\"1970-01-03T00:00:00Z\">2<") && !page.contains("title=\"1970-01-02"), "{page}");
        assert_eq!(history(9, &verdict, &runs[..1]).into_string(), "");
    }
}

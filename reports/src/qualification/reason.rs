//! A node in one line: as JSON, as a reason that a scheduler keeps, and as LBNL's Node Health Check (NHC) writes it.

use kelpie_criteria::{Better, FleetState, FleetVerdict, MeasuredFault, NodeFault, NodeQualification, full_name};
use kelpie_monitor::check::{Check, CheckState};
use kelpie_text::clean;
use serde::Serialize;

/// Longest reason. Units: bytes. Source: our choice; what lists of nodes show.
const LONGEST: usize = 200;

/// A number with as many digits as people compare.
pub(super) fn value(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Why a node is drained, with this run's number: `kelpie: run=7 check=pair metric=pair_bandwidth.leaf got=98.0
/// want=392 Gb/s`. None of a node that is not out.
pub fn reason(run: i64, node: &NodeQualification) -> Option<String> {
    let fault = (node.state == FleetState::Out).then(|| node.faults.first())??;
    let NodeFault { check, component, measured, detail } = fault;
    let port = if component.is_empty() { String::new() } else { format!(" port={component}") };
    let what = match measured {
        Some(MeasuredFault { metric, got, want, unit, .. }) => {
            let metric = if metric == check { String::new() } else { format!(" metric={metric}") };
            format!("{metric} got={} want={} {unit}", value(*got), value(*want))
        }
        None => format!(" failed: {detail}"),
    };
    Some(one_line(&format!("kelpie: run={run}{port} check={check}{what}")))
}

/// The number of the qualification that a reason is of, if it is of one.
pub fn run_of_reason(reason: &str) -> Option<i64> {
    reason.strip_prefix("kelpie: run=")?.split(' ').next()?.parse().ok()
}

/// Why a node is drained by the checks of its own host, if one fails: `kelpie: health check=NAME port=mlx5_0/1:
/// words`.
pub fn health_reason(checks: &[Check]) -> Option<String> {
    let failed = checks.iter().find(|check| check.state == CheckState::Fail)?;
    let Check { about, name, summary, .. } = failed;
    let port = about.split_once(" port ").map_or(String::new(), |(device, port)| format!(" port={device}/{port}"));
    Some(one_line(&format!("kelpie: health check={name}{port}: {summary}")))
}

fn unbroken(text: &str) -> String {
    clean(&text.replace(['\n', '\r', '\t'], " "))
}

/// Schedulers keep one line.
fn one_line(text: &str) -> String {
    let mut text = unbroken(text);
    if let Some((end, _)) = text.char_indices().find(|(at, letter)| at + letter.len_utf8() > LONGEST) {
        text.truncate(end);
    }
    text
}

#[derive(Serialize)]
struct NodeLine<'n> {
    run: i64,
    node: &'n str,
    state: FleetState,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    rest: NodeRest<'n>,
}

#[derive(Serialize)]
struct NodeRest<'n> {
    faults: &'n [NodeFault],
    unsure: &'n [String],
    values: usize,
}

/// A node as a line of JSON, without the line's end.
///
/// # Errors
/// Only what JSON cannot hold.
pub fn node_line(run: i64, name: &str, node: &NodeQualification) -> serde_json::Result<String> {
    let rest = NodeRest { faults: &node.faults, unsure: &node.unsure, values: node.values };
    serde_json::to_string(&NodeLine { run, node: name, state: node.state, reason: reason(run, node), rest })
}

/// What NHC says of a node: `n1 | Healthy`, or `n1 | ERROR: pair_bandwidth.leaf: expected >= 372 Gb/s, but measured
/// 98.0 Gb/s`. The limit is the least that passes.
pub fn nhc_line(verdict: &FleetVerdict, name: &str, node: &NodeQualification) -> String {
    // Programs and agents give metrics and reasons, and none of them is to begin the line of another node.
    unbroken(&nhc_text(verdict, name, node))
}

fn nhc_text(verdict: &FleetVerdict, name: &str, node: &NodeQualification) -> String {
    let fault = match (node.state, node.faults.first()) {
        (FleetState::In, _) => return format!("{name} | Healthy"),
        (FleetState::Out, Some(fault)) => fault,
        _ => return format!("{name} | UNKNOWN: {}", node.unsure.join("; ")),
    };
    let Some(MeasuredFault { metric, got, want, unit, .. }) = &fault.measured else {
        return format!("{name} | ERROR: {}: {}", fault.check, fault.detail);
    };
    let full = full_name(metric, &fault.component);
    let criterion = verdict.criteria.metrics.get(&full);
    let alpha = criterion.map_or(1.0, |criterion| criterion.alpha);
    let (sign, limit) = match criterion.map(|criterion| criterion.direction.better) {
        Some(Better::Lower) => ("<=", want / alpha),
        _ => (">=", want * alpha),
    };
    format!("{name} | ERROR: {full}: expected {sign} {} {unit}, but measured {} {unit}", value(limit), value(*got))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(measured: Option<MeasuredFault>, detail: &str) -> NodeQualification {
        let fault =
            NodeFault { check: "pair".to_owned(), component: String::new(), measured, detail: detail.to_owned() };
        NodeQualification { state: FleetState::Out, faults: vec![fault], unsure: Vec::new(), values: 3 }
    }

    fn slow() -> MeasuredFault {
        let (metric, unit) = ("pair_bandwidth.leaf".to_owned(), "Gb/s".to_owned());
        MeasuredFault { metric, got: 98.04, want: 392.1, unit, similarity: 0.25 }
    }

    #[test]
    fn a_reason_says_run_check_and_both_values_in_one_short_line() {
        let text = reason(7, &node(Some(slow()), "")).expect("out");
        assert_eq!(text, "kelpie: run=7 check=pair metric=pair_bandwidth.leaf got=98.0 want=392 Gb/s");
        let text = reason(7, &node(None, &format!("no agent:\n{}", "x".repeat(300)))).expect("out");
        assert!(text.starts_with("kelpie: run=7 check=pair failed: no agent: xxx") && text.len() <= LONGEST, "{text}");
        let unknown = NodeQualification { state: FleetState::Unknown, ..node(Some(slow()), "") };
        assert_eq!(reason(7, &unknown), None, "nothing is done to a node of which nobody knows");
    }

    #[test]
    fn a_reason_of_a_host_names_the_first_check_that_fails_and_no_run() {
        let check = |state, about: &str| Check {
            about: about.to_owned(),
            name: "link".to_owned(),
            state,
            summary: "down\nsince a minute".to_owned(),
            evidence: Vec::new(),
            measured: Vec::new(),
            fix: None,
        };
        let reason = health_reason(&[check(CheckState::Warn, "host"), check(CheckState::Fail, "mlx5_0 port 1")]);
        let reason = reason.expect("one fails");
        assert_eq!(reason, "kelpie: health check=link port=mlx5_0/1: down since a minute");
        assert_eq!((run_of_reason(&reason), health_reason(&[check(CheckState::Warn, "host")])), (None, None));
        assert_eq!(run_of_reason("kelpie: run=12 check=pair got=1 want=2 Gb/s"), Some(12));
        assert_eq!([run_of_reason("kelpie: run=x"), run_of_reason("by hand: run=1")], [None, None]);
    }

    #[test]
    fn nobody_writes_a_line_of_another_node() {
        let mut node = node(None, "");
        (node.state, node.unsure) = (FleetState::Unknown, vec!["cannot do c: x\nn9 | Healthy\u{1b}[2J".to_owned()]);
        let line = nhc_line(&FleetVerdict::default(), "n1", &node);
        assert!(!line.contains(['\n', '\u{1b}']) && line.starts_with("n1 | UNKNOWN: cannot do c: x n9"), "{line}");
    }

    #[test]
    fn nhc_hears_what_was_expected() {
        let line = nhc_line(&FleetVerdict::default(), "n1", &node(Some(slow()), ""));
        assert_eq!(line, "n1 | ERROR: pair_bandwidth.leaf: expected >= 392 Gb/s, but measured 98.0 Gb/s");
    }
}

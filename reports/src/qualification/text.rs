//! A qualification in words: how many nodes are out, what is wrong with the worst, and the next step.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kelpie_criteria::{FleetState, FleetVerdict, NodeFault};
use kelpie_text::{Table, clean};

use super::reason::value;
use crate::wording::percent;

/// Nodes and paths that are shown, the worst. Source: our choice, a screen.
const SHOWN: usize = 20;
/// Nodes that are named of those that are unknown for one reason. Source: our choice, a line.
const NAMED: usize = 16;

/// What is said of a fleet, a screen at most.
pub fn text(run: i64, verdict: &FleetVerdict) -> String {
    let [out, unknown, well] = [FleetState::Out, FleetState::Unknown, FleetState::In].map(|state| verdict.count(state));
    let mut text = format!("qualification {run}: {out} out, {unknown} unknown, {well} in\n");
    let mut worst: Vec<(&String, &NodeFault, usize)> = (verdict.nodes.iter())
        .filter_map(|(name, node)| Some((name, node.faults.first()?, node.faults.len() - 1)))
        .collect();
    worst.sort_by(|one, other| one.1.goodness().total_cmp(&other.1.goodness()));
    let mut table = Table::new(&["out", "what", "measured", "should be", "as good", "how"], &[2, 3, 4]);
    for (name, fault, more) in worst.iter().take(SHOWN) {
        let NodeFault { check, component, measured, detail } = fault;
        let part = if component.is_empty() { String::new() } else { format!(" {component}") };
        let more = if *more > 0 {
            format!("{}and {more} more", if detail.is_empty() { "" } else { ", " })
        } else {
            String::new()
        };
        let [what, got, want, good] = match measured {
            Some(measured) => [
                format!("{}{part}", measured.metric),
                format!("{} {}", value(measured.got), measured.unit),
                format!("{} {}", value(measured.want), measured.unit),
                percent(measured.similarity),
            ],
            None => [format!("{check}{part}"), String::new(), String::new(), String::new()],
        };
        table.row(vec![(*name).clone(), what, got, want, good, clean(&format!("{detail}{more}"))]);
    }
    if !table.is_empty() {
        text += &table.render("");
    }
    rest(&mut text, worst.len(), "node that is out", "nodes that are out");
    for path in verdict.between.iter().take(SHOWN) {
        let ([one, other], measured) = (&path.hosts, &path.measured);
        let (got, want, unit) = (value(measured.got), value(measured.want), &measured.unit);
        let _ = writeln!(
            text,
            "{one} and {other}: {} {got} of {want} {unit}, and both are fast with others: look at the cables and switches between them",
            measured.metric
        );
    }
    rest(&mut text, verdict.between.len(), "slow path", "slow paths");
    let mut unknown: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, node) in verdict.nodes.iter().filter(|(_, node)| node.state == FleetState::Unknown) {
        unknown.entry(node.unsure.join("; ")).or_default().push(name);
    }
    for (why, names) in unknown.iter().take(SHOWN) {
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "{names}{more}: unknown: {}", clean(why));
    }
    rest(&mut text, unknown.len(), "reason of nodes that are unknown", "reasons of nodes that are unknown");
    for (metric, least) in &verdict.noisy {
        let _ = writeln!(text, "{metric} varies by itself: only what is {} worse shows", percent(*least));
    }
    let is_said = |metric: &str, why: &str| {
        unknown.keys().any(|said| said.split("; ").any(|said| said.contains(metric) && said.ends_with(why)))
    };
    let mut without: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (metric, why) in verdict.without.iter().filter(|(metric, why)| !is_said(metric, why)) {
        without.entry(why).or_default().push(metric);
    }
    for (why, metrics) in without {
        let _ = writeln!(text, "not judged: {}: {why}", metrics.join(", "));
    }
    text
}

fn rest(text: &mut String, all: usize, one: &str, many: &str) {
    if let Some(more) = all.checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} more {}; --json has all", if more == 1 { one } else { many });
    }
}

#[cfg(test)]
mod tests {
    use kelpie_criteria::{MeasuredFault, NodeQualification};

    use super::*;

    #[test]
    fn nodes_of_one_reason_are_named_together_and_shares_have_one_digit() {
        let few = "2 hosts are too few to learn from: give --criteria or --floor".to_owned();
        let node = |state: FleetState, faults: Vec<NodeFault>, unsure: Vec<String>| NodeQualification {
            state,
            faults,
            unsure,
            values: 1,
        };
        let unknown = || node(FleetState::Unknown, Vec::new(), vec![format!("loopback_write, pair.leaf: {few}")]);
        let measured = MeasuredFault {
            metric: "m".to_owned(),
            got: 48.61,
            want: 97.1,
            unit: "Gb/s".to_owned(),
            similarity: 0.50087,
        };
        let (check, component, detail) = ("m".to_owned(), String::new(), String::new());
        let fault = NodeFault { check, component, measured: Some(measured), detail };
        let nodes = [
            ("n1".to_owned(), unknown()),
            ("n2".to_owned(), unknown()),
            ("n3".to_owned(), node(FleetState::Out, vec![fault], Vec::new())),
        ];
        let without = ["loopback_write", "pair.leaf", "latency"].map(|metric| (metric.to_owned(), few.clone()));
        let noisy = [("m".to_owned(), 0.057_412)].into();
        let verdict = FleetVerdict { nodes: nodes.into(), without: without.into(), noisy, ..FleetVerdict::default() };
        let said = text(7, &verdict);
        assert!(said.contains("50.1 %") && said.contains("only what is 5.7 % worse shows"), "{said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("too few")).collect();
        assert_eq!(
            lines,
            [format!("n1, n2: unknown: loopback_write, pair.leaf: {few}"), format!("not judged: latency: {few}")]
        );
    }
}

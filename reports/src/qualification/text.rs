//! A qualification in words: how many nodes are out, what is wrong with the worst, and the next step.

use std::fmt::Write as _;

use kelpie_criteria::{FleetState, FleetVerdict, NodeFault};
use kelpie_text::{Table, clean, percent};

use super::reason::value;

/// Nodes and paths that are shown, the worst. Source: our choice, a screen.
const SHOWN: usize = 20;

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
    let unknown: Vec<_> = verdict.nodes.iter().filter(|(_, node)| node.state == FleetState::Unknown).collect();
    for (name, node) in unknown.iter().take(SHOWN) {
        let _ = writeln!(text, "{name}: unknown: {}", clean(&node.unsure.join("; ")));
    }
    rest(&mut text, unknown.len(), "node that is unknown", "nodes that are unknown");
    for (metric, least) in &verdict.noisy {
        let _ = writeln!(text, "{metric} varies by itself: only what is {} worse shows", percent(*least));
    }
    for (metric, why) in &verdict.without {
        let _ = writeln!(text, "{metric}: nothing is said of it: {why}");
    }
    text
}

fn rest(text: &mut String, all: usize, one: &str, many: &str) {
    if let Some(more) = all.checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} more {}; --json has all", if more == 1 { one } else { many });
    }
}

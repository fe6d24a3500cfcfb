//! What is said of a fleet: criteria that were learnt, nodes that were judged, checks that were selected.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kelpie_criteria::superbench::RuleVerdict;
use kelpie_criteria::{FailedMetric, Learned, NodeState, Steps, Verdicts};
use kelpie_selection::{Choice, Model, Reason, Selection, Subset};
use kelpie_text::{Table, percent, plural};

/// Metrics and nodes that are shown, the worst. Source: our choice, a screen.
const SHOWN: usize = 20;

/// Criteria, those with defects first and then those that vary most.
pub fn learned(learned: &Learned, nodes: usize) -> String {
    let metrics = &learned.criteria.metrics;
    let mut rows: Vec<_> = metrics.iter().collect();
    rows.sort_by(|(_, one), (_, other)| {
        let defects = other.defects.len().cmp(&one.defects.len());
        defects.then(one.repeatability.total_cmp(&other.repeatability))
    });
    let mut text = format!(
        "criteria of {}, learnt from {}\n",
        plural(metrics.len() as u64, "metric"),
        plural(nodes as u64, "node")
    );
    let mut table = Table::new(&["metric", "criterion", "repeatability", "defects", "which"], &[1, 2, 3]);
    for (name, criterion) in rows.iter().take(SHOWN) {
        let which: Vec<&str> = criterion.defects.iter().map(String::as_str).take(4).collect();
        let more = if criterion.defects.len() > which.len() { ", …" } else { "" };
        let typical = criterion.criterion[criterion.criterion.len() / 2];
        table.row(vec![
            (*name).clone(),
            format!("{typical} {}", criterion.direction.unit).trim_end().to_owned(),
            percent(criterion.repeatability),
            criterion.defects.len().to_string(),
            which.join(", ") + more,
        ]);
    }
    text += &table.render("");
    if let Some(more) = rows.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {} with no more defects", plural(more as u64, "metric"));
    }
    for name in &learned.unsettled {
        let _ = writeln!(text, "{name}: healthy and defective nodes change places for ever; its last round counts");
    }
    text
}

/// How many nodes are out, unknown and in, and the worst of them.
pub fn verdicts(verdicts: &Verdicts) -> String {
    let count = |state: NodeState| verdicts.nodes.values().filter(|node| node.state == state).count();
    let [failed, unknown, passed] = [NodeState::Fail, NodeState::Unknown, NodeState::Pass].map(count);
    let mut text = format!("{failed} out, {unknown} unknown, {passed} in\n");
    let mut worst: Vec<(&String, &FailedMetric, usize)> = (verdicts.nodes.iter())
        .filter_map(|(name, node)| Some((name, node.failed.first()?, node.failed.len() - 1)))
        .collect();
    worst.sort_by(|one, other| one.1.similarity.total_cmp(&other.1.similarity));
    let mut table = Table::new(&["node", "metric", "measured", "criterion", "as good", "more"], &[2, 3, 4, 5]);
    for (node, metric, more) in worst.iter().take(SHOWN) {
        let value = |value: f64| format!("{value} {}", metric.unit).trim_end().to_owned();
        let more = if *more > 0 { format!("{more} metrics") } else { String::new() };
        let good = percent(metric.similarity);
        let cells =
            [(*node).clone(), metric.metric.clone(), value(metric.observed), value(metric.criterion), good, more];
        table.row(cells.into());
    }
    if !worst.is_empty() {
        text += &table.render("");
    }
    if let Some(more) = worst.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {} that are out; --json has all", plural(more as u64, "node"));
    }
    let unknown = verdicts.nodes.iter().filter(|(_, node)| node.state == NodeState::Unknown);
    for (node, verdict) in unknown.take(SHOWN) {
        let missing = verdict.missing.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let more = if verdict.missing.len() > 3 { ", …" } else { "" };
        let _ = writeln!(text, "{node}: unknown, no result of {missing}{more}: run these checks again");
    }
    text
}

/// What `SuperBench`'s rules say of nodes: how many fail, and what each violates.
pub fn rule_verdicts(verdicts: &BTreeMap<String, RuleVerdict>) -> String {
    let count = |state: NodeState| verdicts.values().filter(|node| node.state == state).count();
    let [failed, unknown, passed] = [NodeState::Fail, NodeState::Unknown, NodeState::Pass].map(count);
    let mut text = format!("{failed} out, {unknown} unknown, {passed} in\n");
    let mut table = Table::new(&["node", "category", "rule", "metric", "measured", "against baseline"], &[4, 5]);
    let all = verdicts.iter().flat_map(|(node, verdict)| verdict.violations.iter().map(move |one| (node, one)));
    for (node, one) in all.clone().take(SHOWN) {
        table.row(vec![
            node.clone(),
            one.category.clone(),
            one.rule.clone(),
            one.metric.clone(),
            one.value.map_or_else(|| "not measured".to_owned(), |value| value.to_string()),
            one.variance.map_or_else(String::new, |variance| format!("{:+.1} %", 100.0 * variance)),
        ]);
    }
    if !table.is_empty() {
        text += &table.render("");
    }
    if let Some(more) = all.count().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {} of rules; --json has all", plural(more as u64, "violation"));
    }
    for (node, verdict) in verdicts.iter().filter(|(_, verdict)| verdict.state == NodeState::Unknown).take(SHOWN) {
        let missing: Vec<&str> = verdict.missing.iter().map(String::as_str).take(3).collect();
        let _ = writeln!(text, "{node}: unknown, no value or no baseline of {}", missing.join(", "));
    }
    text
}

/// The checks, why these, and what remains.
pub fn selection(selection: &Selection) -> String {
    let subset = |subset: &Subset| {
        let names = if subset.selected.is_empty() { "none".to_owned() } else { subset.selected.join(", ") };
        format!("{names}: {} min, which leaves {}", subset.minutes, percent(subset.residual))
    };
    let mut text = format!("probability of an incident without a check: {}\n", percent(selection.probability));
    let why = match selection.reason {
        Reason::NothingNeeded => "that is accepted, so nothing is checked",
        Reason::NoHistory => "no check has found a defect yet, so all are made",
        Reason::Enough => "these checks are enough",
        Reason::NotEnough => "no further check finds anything, and this is not enough",
    };
    let _ = writeln!(text, "{}\n{why}", subset(&selection.subset));
    for step in &selection.trace {
        let (check, fall) = (&step.check, percent(step.fall_per_minute));
        let _ = writeln!(text, "  {check}: {fall} less for each minute, {} remain", percent(step.residual));
    }
    if let Some(exact) = selection.exact.as_ref().filter(|exact| exact.minutes < selection.subset.minutes) {
        let _ = writeln!(text, "fewest minutes: {}", subset(exact));
    }
    text
}

/// The same, and of which nodes.
pub fn choice(choice: &Choice) -> String {
    let mut text = selection(&choice.selection);
    let by = match choice.model {
        Model::None => "no node was observed".to_owned(),
        Model::RuleOfThree => "no incident came; this many may have been to come with 5 % of chance".to_owned(),
        Model::NelsonAalen => format!("{} by hours since the last one", plural(choice.incidents as u64, "incident")),
        Model::Cox => format!("{} by what each node went through", plural(choice.incidents as u64, "incident")),
    };
    let _ = writeln!(text, "learnt from: {by}");
    let mut nodes: Vec<(&String, f64)> =
        choice.probabilities.iter().filter_map(|(node, p)| Some((node, (*p)?))).collect();
    nodes.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut table = Table::new(&["node", "incident"], &[1]);
    nodes.iter().take(SHOWN).for_each(|(node, p)| table.row(vec![(*node).clone(), percent(*p)]));
    if !nodes.is_empty() {
        text += &table.render("");
    }
    if let Some(more) = nodes.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {} with no likelier incident; --json has all", plural(more as u64, "node"));
    }
    for (node, _) in choice.probabilities.iter().filter(|(_, p)| p.is_none()).take(SHOWN) {
        let _ = writeln!(
            text,
            "{node}: nothing is known, so all checks are made: add a line of when the node was observed"
        );
    }
    text
}

/// By metric, how many steps to skip and to measure.
pub fn steps(found: &BTreeMap<String, Option<Steps>>) -> String {
    let mut table = Table::new(&["metric", "skip", "measure", "period", "repeatability", "nodes"], &[1, 2, 3, 4, 5]);
    for (metric, steps) in found {
        if let Some(steps) = steps {
            let counts = [steps.skip, steps.measure, steps.period].map(|count| count.to_string());
            let rest = [percent(steps.repeatability), steps.nodes.to_string()];
            table.row([metric.clone()].into_iter().chain(counts).chain(rest).collect());
        }
    }
    let mut text = if found.values().any(Option::is_some) { table.render("") } else { String::new() };
    for metric in found.iter().filter(|(_, steps)| steps.is_none()).map(|(metric, _)| metric) {
        let _ = writeln!(text, "{metric}: no three cycles one after the other are alike: record more steps");
    }
    text
}

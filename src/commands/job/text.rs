//! What was found of a job, in words.

use std::fmt::Write as _;

use kelpie_diagnosis::job::{Class, Diagnosis, Placement, Verdict};

use crate::output::plural;

/// Verdict, class and begin.
fn verdict(found: &Diagnosis) -> String {
    let mut text = match found.verdict {
        Verdict::Healthy => "healthy",
        Verdict::Slow => "slow",
        Verdict::Hang => "hang",
        Verdict::Undecided => "undecided",
    }
    .to_owned();
    match found.class {
        Some(Class::Communication) => text.push_str(", in communication"),
        Some(Class::NonCommunication) => text.push_str(", outside communication"),
        None => {}
    }
    if let Some(since) = found.since_iteration {
        let _ = write!(text, ", since iteration {since}");
    }
    text
}

/// What a scheduler's list of reasons has room for.
pub fn brief(found: &Diagnosis) -> String {
    let mut text = verdict(found);
    for (name, ranks) in [("rank", &found.rank), ("source", &found.source), ("destination", &found.destination)] {
        if let Some(first) = ranks.first() {
            let more = if ranks.len() > 1 { format!(" and {} more", ranks.len() - 1) } else { String::new() };
            let _ = write!(text, ", {name} {first}{more}");
        }
    }
    text
}

/// What was found, in words.
pub fn text(found: &Diagnosis, placement: Option<&Placement>) -> String {
    let mut text = verdict(found);
    let evidence = &found.evidence;
    let pairs = plural(evidence.cells as u64, "pair");
    let _ = writeln!(text, " ({}, {pairs})", plural(evidence.iterations as u64, "iteration"));
    for (name, ranks) in [("rank", &found.rank), ("source", &found.source), ("destination", &found.destination)] {
        if !ranks.is_empty() {
            let _ = writeln!(text, "{name}: {}", joined(ranks.iter().map(u32::to_string)));
        }
    }
    let pair = |(source, destination): &(u32, u32)| format!("{source} to {destination}");
    if !found.connection.is_empty() {
        let _ = writeln!(text, "connection: {}", joined(found.connection.iter().map(pair)));
    }
    if !found.ambiguous.is_empty() {
        let ends = joined(found.ambiguous.iter().map(pair));
        let _ = writeln!(text, "connection or one of its ends, nothing else was measured of them: {ends}");
    }
    if evidence.rule == Some("history") {
        for (fault, factor) in &evidence.history {
            let _ = writeln!(text, "{fault:?} takes {factor:.2} times what it took");
        }
    }
    if let Some(late) = evidence.late_us {
        let chain = joined(evidence.waiting_chain.iter().map(u32::to_string));
        let _ = writeln!(text, "comes {:.1} ms late; who waits, in order: {chain}", late / 1e3);
    }
    if let Some(open) = evidence.open_us.filter(|open| *open > 0.0) {
        let _ = writeln!(text, "open for {:.1} s", open / 1e6);
    }
    if let Some(placement) = placement {
        places(&mut text, placement);
    }
    for note in &evidence.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn places(text: &mut String, placement: &Placement) {
    if !placement.leaf.is_empty() {
        let _ = writeln!(text, "leaf: {}", joined(placement.leaf.iter().map(u32::to_string)));
    }
    if !placement.host.is_empty() {
        let _ = writeln!(text, "host: {}", joined(placement.host.iter().cloned()));
    }
    let of = placement.ranks.iter().map(|(rank, place)| {
        let leaves = place.leaf.iter().map(u32::to_string).collect::<Vec<_>>().join(" and ");
        format!("rank {rank} on host {} nic {} at leaf {leaves}", place.host, place.nic)
    });
    if !placement.ranks.is_empty() {
        let _ = writeln!(text, "where: {}", joined(of));
    }
    if !placement.unknown.is_empty() {
        let ranks = joined(placement.unknown.iter().map(u32::to_string));
        let _ = writeln!(text, "note: the topology has no NIC for rank {ranks}");
    }
}

/// At most twenty, because a report of thousands tells nobody anything.
fn joined(items: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = items.collect();
    let more = if all.len() > 20 { format!(" and {} more", all.len() - 20) } else { String::new() };
    format!("{}{more}", all[..all.len().min(20)].join(", "))
}

//! What was found of a job, in words: what is broken, where, how much, and the next step.

use std::fmt::Write as _;

use kelpie_diagnosis::job::{FaultClass, JobDiagnosis, JobVerdict, Placement};

use kelpie_text::plural;

/// Verdict, class and begin.
fn verdict(found: &JobDiagnosis) -> String {
    let mut text = match found.verdict {
        JobVerdict::Healthy => "healthy",
        JobVerdict::Slow if found.job => "the whole job is slow",
        JobVerdict::Slow => "slow",
        JobVerdict::Hang => "hang",
        JobVerdict::Mismatch if found.evidence.functions.is_some() => "ranks call different collectives",
        JobVerdict::Mismatch => "sizes differ between ranks",
        JobVerdict::Undecided => "undecided",
    }
    .to_owned();
    match found.class {
        Some(FaultClass::Communication) => text.push_str(", in communication"),
        Some(FaultClass::NonCommunication) => text.push_str(", outside communication"),
        None => {}
    }
    if let Some(times) = found.times_slower {
        let _ = write!(text, ", {times:.2} times slower");
    }
    if let Some(since) = found.since_iteration {
        let _ = write!(text, ", since iteration {since}");
    }
    text
}

/// What a scheduler's list of reasons has room for.
pub fn brief(found: &JobDiagnosis) -> String {
    let mut text = verdict(found);
    if let Some(first) = found.host.first() {
        let _ = write!(text, ", host {first}{}", more(found.host.len()));
    }
    for (name, ranks) in [("rank", &found.rank), ("source", &found.source), ("destination", &found.destination)] {
        if let Some(first) = ranks.first() {
            let _ = write!(text, ", {name} {first}{}", more(ranks.len()));
        }
    }
    if let Some((source, destination)) = found.connection.first().or(found.ambiguous.first()) {
        let count = found.connection.len() + found.ambiguous.len();
        let _ = write!(text, ", connection {source} to {destination}{}", more(count));
    }
    text
}

fn more(count: usize) -> String {
    if count > 1 { format!(" and {} more", count - 1) } else { String::new() }
}

/// The shortest time that is shown. Units: microseconds. Source: our choice, what rounds to 0.1 s.
const SHOWN_US: f64 = 0.05e6;

/// What was found, in words.
pub fn text(found: &JobDiagnosis, placement: Option<&Placement>) -> String {
    let mut text = verdict(found);
    let evidence = &found.evidence;
    let pairs = plural(evidence.cells as u64, "pair");
    let _ = writeln!(text, " ({}, {pairs})", plural(evidence.iterations as u64, "iteration"));
    if let Some(communicator) = &evidence.communicator {
        let function = evidence.function.as_ref().map_or_else(String::new, |function| format!(", {function}"));
        let _ = writeln!(text, "communicator: {communicator}{function}");
    }
    if !found.host.is_empty() {
        let _ = writeln!(text, "host: {}", joined(found.host.iter().cloned()));
    }
    let rank = |rank: &u32| named(found, *rank);
    if !found.rank.is_empty() {
        let _ = writeln!(text, "rank: {}", joined(found.rank.iter().map(rank)));
    }
    if !found.source.is_empty() {
        let _ = writeln!(text, "sending from rank {}", joined(found.source.iter().map(rank)));
    }
    if !found.destination.is_empty() {
        let _ = writeln!(text, "receiving at rank {}", joined(found.destination.iter().map(rank)));
    }
    let pair =
        |(source, destination): &(u32, u32)| format!("{} to {}", named(found, *source), named(found, *destination));
    if !found.connection.is_empty() {
        let _ = writeln!(text, "connection: {}", joined(found.connection.iter().map(pair)));
    }
    if !found.ambiguous.is_empty() {
        let ends = joined(found.ambiguous.iter().map(pair));
        let _ = writeln!(text, "connection or one of its ends, nothing else was measured of them: {ends}");
    }
    if let Some(between) = &found.between {
        let side = |ranks: &[u32], nth: usize| match &between.hosts {
            Some(hosts) => {
                format!(
                    "{} {}",
                    if hosts[nth].len() > 1 { "hosts" } else { "host" },
                    joined(hosts[nth].iter().cloned())
                )
            }
            None => format!("ranks {}", joined(ranks.iter().map(u32::to_string))),
        };
        let (from, to) = (side(&between.from, 0), side(&between.to, 1));
        let _ = match (between.from == between.to, between.both_ways) {
            (true, _) => writeln!(text, "inside {from}"),
            (false, true) => writeln!(text, "between {from} and {to}"),
            (false, false) => writeln!(text, "from {from} to {to}, and not back"),
        };
    }
    if !found.missing.is_empty() {
        let _ = writeln!(text, "no record of rank: {}", joined(found.missing.iter().map(u32::to_string)));
    }
    if let Some(late) = evidence.late_us {
        let _ = write!(text, "comes {:.1} ms late", late / 1e3);
        // The chain begins with the late rank.
        if evidence.waiting_chain.len() > 1 {
            let chain = joined(evidence.waiting_chain[1..].iter().map(u32::to_string));
            let _ = write!(text, "; who waits, in order: {chain}");
        }
        text.push('\n');
    }
    if let Some(open) = evidence.open_us.filter(|open| *open >= SHOWN_US) {
        let _ = writeln!(text, "open for {:.1} s", open / 1e6);
    }
    if let Some(placement) = placement {
        places(&mut text, placement, found.host.is_empty());
    }
    for note in &evidence.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(next) = next(found) {
        let _ = writeln!(text, "next: {next}");
    }
    text
}

/// A rank with its host and process, where the records have them.
fn named(found: &JobDiagnosis, rank: u32) -> String {
    let Some(at) = found.whereabouts.get(&rank) else { return rank.to_string() };
    let process = at.process.map(|process| format!("process {process}"));
    let host = at.host.as_ref().map(|host| format!("on {host}"));
    let words: Vec<String> = host.into_iter().chain(process).collect();
    format!("{rank} ({})", words.join(", "))
}

/// What to do about it.
fn next(found: &JobDiagnosis) -> Option<&'static str> {
    let has_ends = !(found.connection.is_empty() && found.ambiguous.is_empty());
    Some(match (found.verdict, found.class) {
        (JobVerdict::Healthy, _) => return None,
        (JobVerdict::Hang | JobVerdict::Mismatch, _) if found.evidence.functions.is_some() => {
            "compare what the program calls at the ranks named and at the others; they wait for each other for ever"
        }
        (JobVerdict::Hang, Some(FaultClass::NonCommunication)) if found.evidence.sizes.is_some() => {
            "deadlock: compare what the ranks named pass to the collective"
        }
        (JobVerdict::Hang, None) if !found.missing.is_empty() => {
            "look whether the processes of the ranks named still run, and read their logs; give their files as well"
        }
        (JobVerdict::Hang, Some(FaultClass::NonCommunication)) => {
            "look at what the rank does instead: the stack of its process (py-spy dump, gdb), its host's kernel log"
        }
        (JobVerdict::Hang, _) => "`kelpie doctor` on the hosts at both ends, then `kelpie paths check` between them",
        (JobVerdict::Mismatch, _) => "compare what the ranks named pass to the collective: buffer, count and type",
        (JobVerdict::Slow, _) if found.job && found.class == Some(FaultClass::Communication) => {
            "no rank stands out: look at what all share, the switches (pause, ECN marks, errors) and other jobs on them"
        }
        (JobVerdict::Slow, _) if found.job => {
            "no rank stands out: look at what all wait for, such as storage, a checkpoint, or a barrier of the program"
        }
        (JobVerdict::Slow, Some(FaultClass::NonCommunication)) => {
            "look at what the rank does between operations: its clocks and thermal state, data loading, a profile"
        }
        (JobVerdict::Slow, _) if found.between.as_ref().is_some_and(|between| between.from == between.to) => {
            "`kelpie host diagnose` on the host: its links between GPUs"
        }
        (JobVerdict::Slow, _) if found.between.is_some() => {
            "`kelpie paths check` between both sides: uplinks, spines and the cables between them"
        }
        (JobVerdict::Slow, _) if has_ends && found.rank.is_empty() && found.host.is_empty() => {
            "`kelpie paths check` between both hosts: ports, cables and the paths that the connection takes"
        }
        (JobVerdict::Slow, _) => "`kelpie doctor` on its host, then `kelpie host diagnose` for the links inside of it",
        (JobVerdict::Undecided, _) if !found.missing.is_empty() => {
            "give the files of the ranks that are missing as well, or look whether these ranks still run"
        }
        (JobVerdict::Undecided, _) if found.evidence.is_doubtful => {
            "give more iterations, or watch the job with `kelpie job watch`"
        }
        (JobVerdict::Undecided, _) => {
            "give at least 20 iterations with begin (or entered) and end; of fewer, nothing is known"
        }
    })
}

fn places(text: &mut String, placement: &Placement, with_hosts: bool) {
    if !placement.leaf.is_empty() {
        let _ = writeln!(text, "leaf: {}", joined(placement.leaf.iter().map(u32::to_string)));
    }
    if with_hosts && !placement.host.is_empty() {
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
pub fn joined(items: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = items.collect();
    let more = if all.len() > 20 { format!(" and {} more", all.len() - 20) } else { String::new() };
    format!("{}{more}", all[..all.len().min(20)].join(", "))
}

//! `kelpie job`: what a job suffers from, in words and as JSON. The judging lives in `kelpie_diagnosis`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_diagnosis::job::{Class, Diagnosis, Question, Verdict, diagnose as judge, read};

use crate::args::Common;
use crate::cli::JobArgs;
use crate::exit;
use crate::inputs::read_file_up_to;
use crate::output::{plural, print, print_json};

/// Longest file of operations. Units: bytes. Source: our choice, because 8 million operations need no more.
const MAX_FILE: u64 = 1 << 30;

/// Runs `kelpie job diagnose`.
pub fn diagnose(args: &JobArgs, common: Common) -> anyhow::Result<ExitCode> {
    let name = if args.file == Path::new("-") { "stdin".to_owned() } else { args.file.display().to_string() };
    let jobs = read(&name, &read_file_up_to(&args.file, MAX_FILE)?)?;
    // Of several communicators the worst one is the answer; its name is in the evidence.
    let all = jobs.iter().map(|job| judge(Question { job, now: args.now }));
    let rank = |found: &Diagnosis| match found.verdict {
        Verdict::Hang => 3,
        Verdict::Slow => 2,
        Verdict::Undecided => 1,
        Verdict::Healthy => 0,
    };
    let found = all.max_by_key(rank).context("a file that is read has a job")?;
    if common.json { print_json(&found) } else { print(&text(&found)) }?;
    Ok(match found.verdict {
        Verdict::Healthy => exit::HEALTHY,
        Verdict::Slow | Verdict::Hang => exit::anomalous(),
        Verdict::Undecided => exit::failed(),
    })
}

fn text(found: &Diagnosis) -> String {
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
    for note in &evidence.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// At most twenty, because a report of thousands tells nobody anything.
fn joined(items: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = items.collect();
    let more = if all.len() > 20 { format!(" and {} more", all.len() - 20) } else { String::new() };
    format!("{}{more}", all[..all.len().min(20)].join(", "))
}

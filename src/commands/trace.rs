//! `kelpie trace`: runs a verbs program with a recording library. `kelpie_trace` concludes from the record.

mod run;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kelpie_examine::files::read_file_up_to;
use kelpie_reports::folder;
use kelpie_spaces::{Flow, workload_to_yaml};
use kelpie_trace::{Derived, ObservedTraffic, Trace, Unsaid, derive};
use serde_json::{Value, json};

use crate::args::Common;
use crate::cli::trace::TraceArgs;
use crate::exit;
use crate::output::{note, plural, print, print_json, si};

/// Longest `trace.json` that is read. Units: bytes. Source: our choice, because 32,768 QPs take a third of it.
const MAX_TRACE: u64 = 256 << 20;

/// Where the record stands in a directory.
const RECORD: &str = "trace.json";

/// Runs the command.
pub fn run(args: &TraceArgs, common: Common) -> anyhow::Result<ExitCode> {
    // Before the program runs, because that may take a day.
    folder::check(&args.out).with_context(|| args.out.display().to_string())?;
    let peer = args.peer.as_deref().map(read).transpose()?;
    let trace = match &args.from {
        Some(folder) => read(folder)?,
        None => run::record(&args.command, common.json)?,
    };
    let derived = derive(&trace, peer.as_ref());
    if matches!(derived, Err(Unsaid::NoDevice)) {
        bail!("{}", Unsaid::NoDevice);
    }
    let mut files = vec![(RECORD, serde_json::to_string(&trace)?)];
    if let Ok(derived) = &derived {
        files.push(("workload.yaml", workload_to_yaml(&derived.workload)));
        files.push(("space.yaml", derived.space.to_yaml()));
    }
    folder::write(&args.out, &files).with_context(|| args.out.display().to_string())?;
    match derived {
        Ok(derived) if common.json => print_json(&document(&args.out, &trace, &derived))?,
        Ok(derived) => print(&text(&args.out, &trace, &derived))?,
        // Half of a pair is worth keeping.
        Err(Unsaid::OnlyAnswered(reason)) => {
            note(&Unsaid::OnlyAnswered(reason).to_string());
            if common.json {
                print_json(&json!({"out": args.out, "program": trace.program, "flows": []}))?;
            } else {
                print(&format!("{}\n", args.out.join(RECORD).display()))?;
            }
        }
        Err(error) => return Err(error).with_context(|| args.out.join(RECORD).display().to_string()),
    }
    Ok(exit::HEALTHY)
}

fn read(folder: &Path) -> anyhow::Result<Trace> {
    let path = folder.join(RECORD);
    let name = || format!("{}: no record; name a directory that `kelpie trace` wrote", path.display());
    let trace: Trace =
        serde_json::from_slice(&read_file_up_to(&path, MAX_TRACE).with_context(name)?).with_context(name)?;
    if trace.kelpie != Trace::FORMAT {
        bail!("{}: format `{}`; this program reads `{}`", path.display(), trace.kelpie.escape_debug(), Trace::FORMAT);
    }
    if !trace.is_bounded() {
        bail!("{}: lists longer than any that `kelpie trace` writes", path.display());
    }
    Ok(trace)
}

fn document(out: &Path, trace: &Trace, derived: &Derived) -> Value {
    let flow = |(flow, seen): (&Flow, &ObservedTraffic)| {
        json!({
            "flow": flow, "messages": seen.messages, "bytes": seen.bytes, "active_ns": seen.active_ns,
            "guessed": seen.is_guessed,
        })
    };
    json!({
        "out": out, "program": trace.program, "processes": trace.processes.len(),
        "flows": derived.workload.flows.iter().zip(&derived.seen).map(flow).collect::<Vec<_>>(),
        "log10_size": derived.space.log10_size(), "notes": derived.notes,
    })
}

fn text(out: &Path, trace: &Trace, derived: &Derived) -> String {
    let qps: usize = trace.processes.iter().map(|process| process.qps.len()).sum();
    let mut text = format!(
        "{}: {}, process{} {}\n",
        trace.program.escape_debug(),
        plural(qps as u64, "QP"),
        if trace.processes.len() == 1 { "" } else { "es" },
        trace.processes.iter().map(|process| process.pid.to_string()).collect::<Vec<_>>().join(", ")
    );
    for (flow, seen) in derived.workload.flows.iter().zip(&derived.seen) {
        let _ = writeln!(text, "  {}", line(flow, seen));
    }
    for note in &derived.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    let workload = out.join("workload.yaml");
    let _ = writeln!(
        text,
        "{}\n{}: 10^{:.1} workloads\nnext: kelpie mfs check {}",
        workload.display(),
        out.join("space.yaml").display(),
        derived.space.log10_size(),
        workload.display()
    );
    text
}

/// A flow on one line.
fn line(flow: &Flow, seen: &ObservedTraffic) -> String {
    let mut ops: Vec<&str> = flow.pattern.iter().map(|request| request.op.name()).collect();
    ops.sort_unstable();
    ops.dedup();
    let sizes = || flow.pattern.iter().map(kelpie_spaces::Request::message);
    let (least, most) = (sizes().min().unwrap_or_default(), sizes().max().unwrap_or_default());
    let size = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let seconds = seen.active_ns as f64 / 1e9;
    let seen = if seen.is_guessed {
        "concluded from receives".to_owned()
    } else if seconds > 0.0 {
        let (rate, bits) = (seen.messages as f64 / seconds, 8.0 * seen.bytes as f64 / seconds);
        format!("{} messages in {seconds:.1} s, {}/s, {}b/s", seen.messages, si(rate), si(bits))
    } else {
        format!("{} messages", seen.messages)
    };
    format!(
        "{} to {}: {}, {} of {size}, {}batch {}, depth {}/{}, MTU {}; {seen}",
        flow.from,
        flow.to,
        plural(flow.qps.into(), &format!("{} QP", flow.qp_type)),
        ops.join("+"),
        if flow.pattern.len() > 1 { format!("vector of {}, ", flow.pattern.len()) } else { String::new() },
        flow.batch.send,
        flow.wq_depth.send,
        flow.wq_depth.recv,
        flow.mtu.bytes(),
    )
}

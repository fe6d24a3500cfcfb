//! `kelpie job`: what a job suffers from, in words and as JSON. The judging lives in `kelpie_diagnosis`.

mod event;
mod files;
mod records;
mod run;
mod scheduler;
mod state;
mod text;
mod watch;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_diagnosis::job::{Baseline, Diagnosis, Jobs, Placement, Question, Verdict, diagnose as judge, placement};
use kelpie_examine::files::read_file;
use serde::Serialize;

use crate::args::Common;
use crate::cli::JobArgs;
use crate::exit;
use crate::inputs::read_cluster;
use crate::output::{print, print_json};

pub use run::{pairs, run};
pub use watch::watch;

use text::text;

/// Runs `kelpie job diagnose`.
pub fn diagnose(args: &JobArgs, common: Common) -> anyhow::Result<ExitCode> {
    let Jobs { jobs, notes } = files::read(&args.files)?;
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    let cluster = args.topology.as_deref().map(read_cluster).transpose()?;
    // Of several communicators the worst one is the answer; its name is in the evidence.
    let all = jobs.iter().map(|job| {
        let mut found = judge(Question { now: args.now, ..Question::at_the_end(job) });
        found.evidence.notes.extend(notes.iter().cloned());
        if let Some(slower) = baseline.as_ref().and_then(|baseline| baseline.compare(job)) {
            slower.add_to(&mut found);
        }
        let placement = cluster.as_ref().map(|cluster| placement(&found, job, cluster));
        Answer { found, placement }
    });
    let rank = |answer: &Answer| match answer.found.verdict {
        Verdict::Hang => 3,
        Verdict::Slow => 2,
        Verdict::Undecided => 1,
        Verdict::Healthy => 0,
    };
    let answer = all.max_by_key(rank).context("a file that is read has a job")?;
    if common.json { print_json(&answer) } else { print(&text(&answer.found, answer.placement.as_ref())) }?;
    Ok(status(answer.found.verdict))
}

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    let name = path.display().to_string();
    let bytes = read_file(path)?;
    Baseline::from_text(&String::from_utf8_lossy(&bytes)).map_err(anyhow::Error::msg).context(name)
}

/// The answer on a job.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    found: Diagnosis,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<Placement>,
}

fn status(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Healthy => exit::HEALTHY,
        Verdict::Slow | Verdict::Hang => exit::anomalous(),
        Verdict::Undecided => exit::failed(),
    }
}

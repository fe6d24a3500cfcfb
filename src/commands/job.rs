//! `kelpie job`: what a job suffers from, in words and as JSON. The judging lives in `kelpie_diagnosis`.

mod event;
mod records;
mod run;
mod text;
mod watch;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_diagnosis::job::{
    Baseline, JobDiagnosis, JobQuestion, JobVerdict, Jobs, Placement, diagnose as judge, placement,
};
use kelpie_examine::files::read_file;
use kelpie_examine::job::files;
use serde::Serialize;

use crate::args::Common;
use crate::cli::JobArgs;
use crate::exit;
use crate::inputs::read_cluster;
use crate::output::{plural, print, print_json};

pub use run::{pairs, run};
pub use watch::watch;

use text::text;

/// Runs `kelpie job diagnose`.
pub fn diagnose(args: &JobArgs, common: Common) -> anyhow::Result<ExitCode> {
    let Jobs { mut jobs, notes } = files::read(&args.files)?;
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    let cluster = args.topology.as_deref().map(read_cluster).transpose()?;
    let mut answers: Vec<JobReport> = Vec::new();
    for job in &mut jobs {
        if let Some(cluster) = cluster.as_ref().filter(|_| job.hosts.is_empty()) {
            job.place_on(cluster);
        }
        let mut found = judge(JobQuestion { now: args.now, ..JobQuestion::at_the_end(job) });
        found.evidence.notes.extend(notes.iter().cloned());
        if let Some(slower) = baseline.as_ref().and_then(|baseline| baseline.compare(job)) {
            slower.add_to(&mut found);
        }
        let placement = cluster.as_ref().map(|cluster| placement(&found, job, cluster));
        answers.push(JobReport { found, placement });
    }
    answers.sort_by(|one, other| other.found.severity().total_cmp(&one.found.severity()));
    let mut answers = answers.into_iter();
    let worst = answers.next().context("a file that is read has a job")?;
    let status = status(worst.found.verdict);
    let (sick, well): (Vec<JobReport>, Vec<JobReport>) = answers
        .partition(|answer| matches!(answer.found.verdict, JobVerdict::Hang | JobVerdict::Mismatch | JobVerdict::Slow));
    if common.json {
        print_json(&Answers { worst, others: sick })?;
    } else {
        let mut all = text(&worst.found, worst.placement.as_ref());
        for answer in sick.iter().take(MOST_COMMUNICATORS) {
            all.push('\n');
            all.push_str(&text(&answer.found, answer.placement.as_ref()));
        }
        let (cut, others) = (sick.len().saturating_sub(MOST_COMMUNICATORS), well.len());
        if cut + others > 0 {
            let cut = if cut > 0 {
                format!("{} more that are slow or hang, ", plural(cut as u64, "communicator"))
            } else {
                String::new()
            };
            let _ = write!(all, "\nbesides: {cut}{} without a finding\n", plural(others as u64, "communicator"));
        }
        print(&all)?;
    }
    Ok(status)
}

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    let name = path.display().to_string();
    let bytes = read_file(path)?;
    Baseline::from_text(&String::from_utf8_lossy(&bytes)).map_err(anyhow::Error::msg).context(name)
}

/// Most communicators that are shown in words beside the worst one. Source: our choice, a screen.
const MOST_COMMUNICATORS: usize = 8;

/// The answer on the worst communicator of a job, and on others that are slow or hang, worst first.
#[derive(Serialize)]
struct Answers {
    #[serde(flatten)]
    worst: JobReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<JobReport>,
}

/// The answer on a communicator.
#[derive(Serialize)]
struct JobReport {
    #[serde(flatten)]
    found: JobDiagnosis,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<Placement>,
}

fn status(verdict: JobVerdict) -> ExitCode {
    match verdict {
        JobVerdict::Healthy => exit::HEALTHY,
        JobVerdict::Slow | JobVerdict::Hang | JobVerdict::Mismatch => exit::anomalous(),
        JobVerdict::Undecided => exit::failed(),
    }
}

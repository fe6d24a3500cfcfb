//! `kelpie job`: what a job suffers from, in words and as JSON. The judging lives in `kelpie_diagnosis`.

mod records;
mod run;
mod watch;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_diagnosis::job::{
    Baseline, Cause, JobDiagnosis, JobOperations, JobQuestion, JobVerdict, Jobs, Placement, causes, diagnose as judge,
    placement,
};
use kelpie_examine::files::read_file;
use kelpie_examine::job::files;
use kelpie_reports::for_operators::job::{joined, text};
use serde::Serialize;

use crate::args::Common;
use crate::cli::JobArgs;
use crate::exit;
use crate::inputs::read_cluster;
use crate::output::{plural, print, print_json};

pub use run::{pairs, run};
pub use watch::watch;

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
        match baseline.as_ref().map(|baseline| baseline.compare(job)) {
            Some(Ok(slower)) => slower.add_to(&mut found),
            Some(Err(why)) => found.evidence.notes.push(format!("the baseline is not compared: {why}")),
            None => {}
        }
        let placement = cluster.as_ref().map(|cluster| placement(&found, job, cluster));
        answers.push(JobReport { found, placement, waits_for: None, waiting: Vec::new() });
    }
    blame(&mut answers, &jobs);
    answers.sort_by(|one, other| {
        let is_own = other.waits_for.is_none().cmp(&one.waits_for.is_none());
        other.found.severity().total_cmp(&one.found.severity()).then(is_own)
    });
    let mut answers = answers.into_iter();
    let worst = answers.next().context("a file that is read has a job")?;
    let status = status(worst.found.verdict);
    let (sick, well): (Vec<JobReport>, Vec<JobReport>) = answers
        .partition(|answer| matches!(answer.found.verdict, JobVerdict::Hang | JobVerdict::Mismatch | JobVerdict::Slow));
    if common.json {
        print_json(&Answers { worst, others: sick })?;
    } else {
        let mut all = worst.text();
        let own: Vec<&JobReport> = sick.iter().filter(|answer| answer.waits_for.is_none()).collect();
        for answer in own.iter().take(MOST_COMMUNICATORS) {
            all.push('\n');
            all.push_str(&answer.text());
        }
        let (cut, others) = (own.len().saturating_sub(MOST_COMMUNICATORS), well.len());
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
    /// The communicator because of which this one hangs.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// Communicators that hang because of this one.
    #[serde(skip)]
    waiting: Vec<String>,
}

impl JobReport {
    fn text(&self) -> String {
        let mut all = text(&self.found, self.placement.as_ref());
        if !self.waiting.is_empty() {
            let _ = writeln!(all, "hang because of that: communicator {}", joined(self.waiting.iter().cloned()));
        }
        all
    }
}

/// Says which communicators hang because of which other one.
fn blame(answers: &mut [JobReport], jobs: &[JobOperations]) {
    let found: Vec<_> = jobs.iter().zip(answers.iter().map(|answer| &answer.found)).collect();
    let causes = causes(&found);
    for (at, cause) in causes.into_iter().enumerate() {
        let name = |at: usize| jobs[at].communicator.clone().unwrap_or_default();
        match cause {
            Cause::Own => {}
            Cause::Other(root) => {
                answers[at].waits_for = Some(name(root));
                answers[root].waiting.push(name(at));
            }
            Cause::Circle => answers[at].found.evidence.notes.push(CIRCLE.to_owned()),
        }
    }
}

/// Of communicators of which each waits for ranks that wait in another one.
const CIRCLE: &str = "the ranks named wait in another communicator, whose ranks wait in this one: the program calls their \
    collectives in different orders at different ranks";

fn status(verdict: JobVerdict) -> ExitCode {
    match verdict {
        JobVerdict::Healthy => exit::HEALTHY,
        JobVerdict::Slow | JobVerdict::Hang | JobVerdict::Mismatch => exit::anomalous(),
        JobVerdict::Undecided => exit::failed(),
    }
}

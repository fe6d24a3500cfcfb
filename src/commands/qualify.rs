//! `kelpie qualify`: criteria of a fleet, the nodes that do not meet them, and the checks that are worth their time.
//! What is learnt and judged lives in `kelpie_criteria`, what is selected in `kelpie_selection`, and their words in
//! reports.

mod run;
mod slurm;

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_criteria::superbench::{Rules, Summary};
use kelpie_criteria::{Criteria, LearnOptions, NodeState, Norm, Results, ResultsReader, Series};
use kelpie_examine::files::{open, read_file, read_file_up_to};
use kelpie_reports::folder::write_file;
use kelpie_reports::for_operators::fleet as text;
use kelpie_selection::{History, Problem};
use serde::Serialize;

use crate::args::Common;
use crate::cli::qualify::{JudgeArgs, LearnArgs, NormArg, QualifyCommand, SelectArgs};
use crate::exit;
use crate::output::{note, print, print_json};

/// Longest file of criteria. Units: bytes. Source: our choice; thousands of metrics with ten values each are shorter.
const MAX_CRITERIA: u64 = 1 << 28;

/// Runs `kelpie qualify`.
pub fn run(command: &QualifyCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        QualifyCommand::Learn(args) => learn(args, common),
        QualifyCommand::Judge(args) => judge(args, common),
        QualifyCommand::Run(args) => run::run(args, common),
        QualifyCommand::Resume(args) => run::resume(args, common),
        QualifyCommand::Show(args) => run::show(args, common),
        QualifyCommand::Slurm(command) => slurm::run(command, common),
        QualifyCommand::Select(args) => select(args, common),
        QualifyCommand::Steps { results } => steps(results, common),
    }
}

fn read(names: &[PathBuf]) -> anyhow::Result<Results> {
    let mut reader = ResultsReader::default();
    for path in names {
        let name = path.display().to_string();
        if path == Path::new("-") {
            reader.add("stdin", &mut std::io::stdin().lock())?;
        } else {
            reader.add(&name, &mut BufReader::new(open(path).with_context(|| name.clone())?))?;
        }
    }
    reader.notes().iter().for_each(|line| note(line));
    Ok(reader.finish()?)
}

/// What `learn` says beside the criteria.
#[derive(Serialize)]
struct LearntDocument<'l> {
    #[serde(flatten)]
    criteria: &'l Criteria,
    nodes: usize,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unsettled: &'l [String],
}

fn learn(args: &LearnArgs, common: Common) -> anyhow::Result<ExitCode> {
    let results = read(&args.results)?;
    let norm = if args.norm == NormArg::Area { Norm::Area } else { Norm::Xmax };
    let options = LearnOptions {
        alpha: args.alpha,
        norm,
        floors: args.floor.iter().cloned().collect(),
        ..LearnOptions::default()
    };
    let learned = Criteria::learn(&results, &options)?;
    let text = serde_json::to_string(&learned.criteria)? + "\n";
    write_file(&args.out, text.as_bytes(), true).with_context(|| args.out.display().to_string())?;
    let (nodes, criteria, unsettled) = (results.nodes.len(), &learned.criteria, &learned.unsettled[..]);
    show(common, &LearntDocument { criteria, nodes, unsettled }, &text::learned(&learned, nodes))?;
    note(&format!("criteria {}", args.out.display()));
    Ok(exit::HEALTHY)
}

fn criteria(path: &Path) -> anyhow::Result<Criteria> {
    Criteria::from_json(&read_file_up_to(path, MAX_CRITERIA)?).with_context(|| path.display().to_string())
}

fn judge(args: &JudgeArgs, common: Common) -> anyhow::Result<ExitCode> {
    let Some(path) = &args.criteria else { return judge_by_rules(args, common) };
    let verdicts = criteria(path)?.judge(&read(&args.results)?);
    show(common, &verdicts, &text::verdicts(&verdicts))?;
    if !verdicts.without_criterion.is_empty() {
        note(&format!("no criterion of {}: nothing is said of these", verdicts.without_criterion.join(", ")));
    }
    Ok(status(verdicts.nodes.values().map(|node| node.state)))
}

/// What the worst of the nodes' states comes to.
fn status(mut states: impl Iterator<Item = NodeState> + Clone) -> ExitCode {
    let is_unknown = states.clone().any(|state| state == NodeState::Unknown);
    match (states.any(|state| state == NodeState::Fail), is_unknown) {
        (true, _) => exit::anomalous(),
        (false, true) => exit::failed(),
        (false, false) => exit::HEALTHY,
    }
}

fn judge_by_rules(args: &JudgeArgs, common: Common) -> anyhow::Result<ExitCode> {
    let rules = args.rules.as_ref().context("clap asks for criteria or rules")?;
    let name = || rules.display().to_string();
    let rules = Rules::from_yaml(std::str::from_utf8(&read_file(rules)?).with_context(name)?).with_context(name)?;
    let baseline = args.baseline.as_ref().map(|path| {
        serde_json::from_slice(&read_file_up_to(path, MAX_CRITERIA)?).with_context(|| path.display().to_string())
    });
    let mut summary = Summary::default();
    for path in &args.results {
        summary.add(&path.display().to_string(), &mut BufReader::new(open(path)?))?;
    }
    let verdicts = rules.judge(&summary, &baseline.transpose()?.unwrap_or_default());
    show(common, &serde_json::json!({"nodes": verdicts}), &text::rule_verdicts(&verdicts))?;
    Ok(status(verdicts.values().map(|node| node.state)))
}

fn select(args: &SelectArgs, common: Common) -> anyhow::Result<ExitCode> {
    let reason = if let (Some(path), Some(target), Some(within)) = (&args.history, args.target, args.within) {
        let history = History::from_lines(&path.display().to_string(), &read_file_up_to(path, MAX_CRITERIA)?)?;
        let choice = history.select(target, within.as_secs_f64() / 3600.0, &args.nodes);
        show(common, &choice, &text::choice(&choice))?;
        choice.selection.reason
    } else {
        let path = args.problem.as_deref().expect("one of both is there");
        let problem = Problem::from_json(&read_file(path)?).with_context(|| path.display().to_string())?;
        let selection = problem.select();
        show(common, &selection, &text::selection(&selection))?;
        selection.reason
    };
    Ok(if reason.is_enough() { exit::HEALTHY } else { exit::anomalous() })
}

fn steps(path: &Path, common: Common) -> anyhow::Result<ExitCode> {
    let series = Series::from_lines(&path.display().to_string(), &read_file_up_to(path, MAX_CRITERIA)?)?;
    let found = series.steps();
    show(common, &found, &text::steps(&found))?;
    Ok(if found.values().all(Option::is_some) { exit::HEALTHY } else { exit::anomalous() })
}

/// Prints an answer as JSON, or in words.
fn show(common: Common, answer: &impl Serialize, words: &str) -> anyhow::Result<()> {
    if common.json { print_json(answer) } else { print(words) }
}

//! `kelpie qualify`: criteria of a fleet, the nodes that do not meet them, and the checks that are worth their time.
//! What is learnt and judged lives in `kelpie_criteria`, what is selected in `kelpie_selection`.

use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::{BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_criteria::{
    Criteria, FailedMetric, LearnOptions, Learned, NodeState, Norm, Results, ResultsReader, Verdicts,
};
use kelpie_examine::files::{open, read_file, read_file_up_to};
use kelpie_selection::{Problem, Reason, Selection, Subset};
use serde::Serialize;

use crate::args::Common;
use crate::cli::qualify::{JudgeArgs, LearnArgs, NormArg, QualifyCommand, SelectArgs};
use crate::exit;
use crate::output::{Table, note, percent, plural, print, print_json};

/// Longest file of criteria. Units: bytes. Source: our choice; thousands of metrics with ten values each are shorter.
const MAX_CRITERIA: u64 = 1 << 28;
/// Metrics and nodes that text shows, the worst. Source: our choice, a screen.
const SHOWN: usize = 20;

/// Runs `kelpie qualify`.
pub fn run(command: &QualifyCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        QualifyCommand::Learn(args) => learn(args, common),
        QualifyCommand::Judge(args) => judge(args, common),
        QualifyCommand::Select(args) => select(args, common),
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
    let options = LearnOptions { alpha: args.alpha, norm, floors: args.floor.iter().cloned().collect() };
    let learned = Criteria::learn(&results, &options)?;
    write(&args.out, &learned.criteria).with_context(|| args.out.display().to_string())?;
    if common.json {
        let (criteria, unsettled) = (&learned.criteria, &learned.unsettled[..]);
        print_json(&LearntDocument { criteria, nodes: results.nodes.len(), unsettled })?;
    } else {
        print(&learnt_text(&learned, results.nodes.len()))?;
    }
    note(&format!("criteria {}", args.out.display()));
    Ok(exit::HEALTHY)
}

/// Replaces the file as a whole.
fn write(path: &Path, criteria: &Criteria) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    {
        let mut writer = std::io::BufWriter::new(file.as_file_mut());
        serde_json::to_writer(&mut writer, criteria)?;
        writer.write_all(b"\n")?;
        writer.flush()?;
    }
    file.as_file().sync_all()?;
    let file: File = file.persist(path)?;
    // A temporary file is its owner's alone; criteria are for all.
    file.set_permissions(Permissions::from_mode(0o644))?;
    Ok(())
}

fn learnt_text(learned: &Learned, nodes: usize) -> String {
    let metrics = &learned.criteria.metrics;
    let mut rows: Vec<_> = metrics.iter().collect();
    // Those with defects first, and then those that vary most.
    rows.sort_by(|(_, one), (_, other)| {
        let defects = other.defects.len().cmp(&one.defects.len());
        defects.then(one.repeatability.total_cmp(&other.repeatability))
    });
    let mut text = format!("{} of {}\n", plural(metrics.len() as u64, "criterion"), plural(nodes as u64, "node"));
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

fn judge(args: &JudgeArgs, common: Common) -> anyhow::Result<ExitCode> {
    let name = || args.criteria.display().to_string();
    let criteria = Criteria::from_json(&read_file_up_to(&args.criteria, MAX_CRITERIA)?).with_context(name)?;
    let verdicts = criteria.judge(&read(&args.results)?);
    if common.json {
        print_json(&verdicts)?;
    } else {
        print(&verdicts_text(&verdicts))?;
    }
    if !verdicts.without_criterion.is_empty() {
        note(&format!("no criterion of {}: nothing is said of these", verdicts.without_criterion.join(", ")));
    }
    let is = |state: NodeState| verdicts.nodes.values().any(|node| node.state == state);
    Ok(if is(NodeState::Fail) {
        exit::anomalous()
    } else if is(NodeState::Unknown) {
        exit::failed()
    } else {
        exit::HEALTHY
    })
}

fn verdicts_text(verdicts: &Verdicts) -> String {
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

fn select(args: &SelectArgs, common: Common) -> anyhow::Result<ExitCode> {
    let name = || args.problem.display().to_string();
    let selection = Problem::from_json(&read_file(&args.problem)?).with_context(name)?.select();
    if common.json {
        print_json(&selection)?;
    } else {
        print(&selection_text(&selection))?;
    }
    Ok(match selection.reason {
        Reason::NothingNeeded | Reason::Enough => exit::HEALTHY,
        Reason::NoHistory | Reason::NotEnough => exit::anomalous(),
    })
}

fn selection_text(selection: &Selection) -> String {
    let subset = |subset: &Subset| {
        let names = if subset.selected.is_empty() { "none".to_owned() } else { subset.selected.join(", ") };
        format!("{names}: {} min, an incident remains with {}", subset.minutes, percent(subset.residual))
    };
    let mut text = format!("without a check an incident comes with {}\n", percent(selection.probability));
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

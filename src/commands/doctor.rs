//! `kelpie doctor`: shows what on a host spoils a measurement. The checks live in the monitor.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use console::{Style, Term, style};
use kelpie_examine::files::read_file;
use kelpie_monitor::check::{Check, CheckState};
use kelpie_monitor::doctor::{Earlier, Examination, compare, examine_since};
use kelpie_monitor::machine::Machine;
use kelpie_spaces::from_json;
use serde::Serialize;

use crate::args::Common;
use crate::cli::doctor::DoctorArgs;
use crate::exit;
use crate::output::{plural, print, print_json};

/// The document of `--json`: an examination with its worst state, and the comparison.
#[derive(Serialize)]
struct DoctorReport<'a> {
    state: CheckState,
    #[serde(flatten)]
    seen: &'a Examination,
    #[serde(skip_serializing_if = "Option::is_none")]
    pair: Option<&'a [Check]>,
}

/// Runs the command.
pub fn run(args: &DoctorArgs, common: Common) -> anyhow::Result<ExitCode> {
    let machine = match &args.root {
        Some(root) => Machine::recorded(root),
        None => Machine::live(),
    };
    if !machine.has("sys") && !machine.has("proc") {
        bail!("{}: neither sys nor proc is there, so there is no host to examine", machine.root().display());
    }
    let other: Option<Examination> = match &args.against {
        Some(path) => Some(
            from_json(&path.display().to_string(), &read_file(path)?)
                .context("not what `kelpie doctor --json` prints")?,
        ),
        None => None,
    };
    let look = |earlier| examine_since(&machine, args.device.as_deref(), args.port, args.traffic_class, earlier);
    let mut seen = look(None);
    if let Some(time) = args.again {
        let began = Instant::now();
        std::thread::sleep(time);
        seen = look(Some(Earlier { counted: &seen.counted, seconds: Some(began.elapsed().as_secs_f64()) }));
    } else if let Some(before) = other.as_ref().filter(|other| !other.host.is_empty() && other.host == seen.host) {
        seen = look(Some(Earlier { counted: &before.counted, seconds: None }));
    }
    if let (Some(other), Some(path)) = (&other, &args.against) {
        one_port(seen.ports, "this host has", "kelpie doctor DEVICE --port N --against FILE")?;
        one_port(other.ports, &format!("{} is of", path.display()), "kelpie doctor DEVICE --port N --json")?;
    }
    let pair = other.as_ref().map(|other| compare(&seen, other));
    let all = seen.checks.iter().chain(pair.iter().flatten());
    let state = all.map(|check| check.state).max().unwrap_or(CheckState::Unknown);
    if common.json {
        print_json(&DoctorReport { state, seen: &seen, pair: pair.as_deref() })?;
    } else {
        let terminal = Term::stdout();
        let width = terminal.is_term().then(|| usize::from(terminal.size().1));
        print(&text(&seen, pair.as_deref().unwrap_or_default(), common.verbose > 0, width))?;
    }
    Ok(if state == CheckState::Fail { exit::anomalous() } else { exit::HEALTHY })
}

/// A pair is one port on each host.
fn one_port(ports: usize, whose: &str, command: &str) -> anyhow::Result<()> {
    if ports != 1 {
        bail!(
            "{whose} {} and a pair is one on each host: name it, as in `{command}`",
            plural(ports as u64, "RDMA port")
        );
    }
    Ok(())
}

/// Columns before a summary: two spaces, the state, the check.
const INDENT: usize = 28;

fn text(seen: &Examination, pair: &[Check], verbose: bool, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut about = "";
    let mut checks: Vec<&Check> = seen.checks.iter().chain(pair).collect();
    worst_first(&mut checks);
    for check in &checks {
        if check.about != about {
            about = &check.about;
            let gap = if text.is_empty() { "" } else { "\n" };
            let name = if about == "host" { format!("host {}", seen.host) } else { about.to_owned() };
            let _ = writeln!(text, "{gap}{}", style(name.trim()).bold());
        }
        show(&mut text, check, verbose, width);
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count() as u64;
    let failed = style(format!("{} fail", count(CheckState::Fail)));
    let failed = if count(CheckState::Fail) > 0 { failed.red().bold() } else { failed };
    let (warnings, passed, unknown) =
        (plural(count(CheckState::Warn), "warning"), count(CheckState::Pass), count(CheckState::Unknown));
    let absent = match count(CheckState::NotApplicable) {
        0 => String::new(),
        absent => format!(", {absent} not applicable"),
    };
    let _ = writeln!(text, "\n{failed}, {warnings}, {passed} pass, {unknown} unknown{absent}");
    text
}

/// What fails is read first, of whatever it is about; the order of the table holds among the others.
pub(super) fn worst_first(checks: &mut [&Check]) {
    checks.sort_by_key(|check| match check.state {
        CheckState::Fail => 0,
        CheckState::Warn => 1,
        CheckState::Unknown => 2,
        CheckState::Pass | CheckState::NotApplicable => 3,
    });
}

/// One check as lines: state, name and words; the evidence and the repair of what does not pass.
pub(super) fn show(text: &mut String, check: &Check, verbose: bool, width: Option<usize>) {
    let (word, look) = match check.state {
        CheckState::NotApplicable => ("n/a", Style::new().dim()),
        CheckState::Pass => ("pass", Style::new().green()),
        CheckState::Unknown => ("?", Style::new().cyan()),
        CheckState::Warn => ("warn", Style::new().yellow().bold()),
        CheckState::Fail => ("fail", Style::new().red().bold()),
    };
    // Padded before it is coloured: what colours is no part of the width.
    let start = format!("  {}  {:<18}  ", look.apply_to(format!("{word:<4}")), check.name);
    lines(text, &start, INDENT, &check.summary, width, &Style::new());
    if matches!(check.state, CheckState::Pass | CheckState::NotApplicable) && !verbose {
        return;
    }
    let inset = " ".repeat(INDENT);
    let dim = Style::new().dim();
    for seen in &check.evidence {
        lines(text, &inset, INDENT + 2, &format!("{}: {}", seen.source, seen.value), width, &dim);
    }
    if let Some(fix) = &check.fix {
        lines(text, &format!("{inset}{} ", style("->").bold()), INDENT + 3, fix, width, &Style::new());
    }
}

/// Writes `words` behind `start`, wrapped at `width` with the rest behind `indent` spaces; one line without a width.
fn lines(text: &mut String, start: &str, indent: usize, words: &str, width: Option<usize>, look: &Style) {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let whole_words = textwrap::Options::new(room)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    let rows = textwrap::wrap(&words, whole_words);
    for (index, row) in rows.iter().enumerate() {
        let before = if index == 0 { start.to_owned() } else { " ".repeat(indent) };
        let _ = writeln!(text, "{before}{}", look.apply_to(row));
    }
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::checks::CheckKind;

    use super::*;

    #[test]
    fn what_fails_comes_first_of_whatever_it_is_about() {
        let check = |about: &str, kind, state| Check::new(kind, state, "words").about(about);
        let checks = vec![
            check("host", CheckKind::Memlock, CheckState::Pass),
            check("host", CheckKind::Governor, CheckState::Warn),
            check("a port 1", CheckKind::Numa, CheckState::Unknown),
            check("a port 1", CheckKind::Pcie, CheckState::Fail),
        ];
        let shown = text(&Examination { checks, ..Examination::default() }, &[], false, None);
        let shown = console::strip_ansi_codes(&shown);
        let at = |word: &str| shown.find(word).unwrap_or_else(|| panic!("no {word}: {shown}"));
        assert!([at("pcie"), at("cpu governor"), at("numa"), at("memlock")].is_sorted(), "{shown}");
        assert_eq!(shown.matches("a port 1").count(), 2, "each part is under its heading: {shown}");
    }

    #[test]
    fn long_lines_are_wrapped_for_a_terminal_only() {
        let wrapped = |width| {
            let mut text = String::new();
            lines(&mut text, "> ", 4, "one two three four five six", width, &Style::new());
            text
        };
        assert_eq!(wrapped(None), "> one two three four five six\n");
        assert_eq!(wrapped(Some(24)), "> one two three four\n    five six\n");
        assert_eq!(wrapped(Some(3)), wrapped(Some(24)), "a terminal of no width still shows words");
    }
}

//! `kelpie host`: which links of a host are slow, in words and as JSON. The judging lives in `kelpie_diagnosis`.

pub mod matrix;
mod metrics;
pub mod watch;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::discover::{discover, fill_in};
use kelpie_diagnosis::host::{
    HostDiagnosis, HostQuestion, HostVerdict, Intermittent, PathState, Reference, diagnose as judge,
};
use kelpie_diagnosis::import::{import, to_nccl};
use kelpie_examine::files::read_file;
use kelpie_monitor::check::Check;
use kelpie_monitor::machine::Machine;
use kelpie_text::clean;
use kelpie_topology::HostTopology;
use serde_json::json;

use crate::args::Common;
use crate::cli::{DiagnoseArgs, TopologyArgs};
use crate::exit;
use crate::output::{Table, percent, print, print_json};

/// Runs `kelpie host topology`.
pub fn topology(args: &TopologyArgs, common: Common) -> anyhow::Result<ExitCode> {
    let (topology, readings, devices) = found(args)?;
    if args.nccl {
        print(&to_nccl(&topology).map_err(|problem| anyhow::anyhow!("{problem}"))?)?;
        return Ok(exit::HEALTHY);
    }
    let yaml = topology.to_yaml();
    if common.json {
        print_json(&json!({"topology": yaml, "readings": readings, "devices": devices}))?;
        return Ok(exit::HEALTHY);
    }
    let mut text = yaml;
    for device in &devices {
        let _ = writeln!(text, "# {}", clean(device));
    }
    for reading in &readings {
        let fix = reading.fix.as_ref().map_or_else(String::new, |fix| format!(" -> {fix}"));
        let (state, about, name, summary) = (reading.state.name(), &reading.about, &reading.name, &reading.summary);
        let _ = writeln!(text, "# {state}: {about} {name}: {summary}{fix}");
    }
    print(&text)?;
    Ok(exit::HEALTHY)
}

/// The host that the arguments name, readings that bear on its links, and what its devices are.
fn found(args: &TopologyArgs) -> anyhow::Result<(HostTopology, Vec<Check>, Vec<String>)> {
    if let Some(name) = &args.subsystem {
        return Ok((matrix::by_name(name)?.topology, Vec::new(), Vec::new()));
    }
    if let Some(path) = &args.from {
        let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
        let found = import(&name, &read_file(path)?).map_err(|problem| anyhow::anyhow!("{problem}"))?;
        return Ok((found.topology, Vec::new(), found.notes));
    }
    let machine = args.root.as_ref().map_or_else(Machine::live, Machine::recorded);
    let found = discover(&machine).map_err(|problem| anyhow::anyhow!("{}: {problem}", machine.root().display()))?;
    Ok((found.topology, found.readings, found.devices))
}

/// Runs `kelpie host diagnose`.
pub fn diagnose(args: &DiagnoseArgs, common: Common) -> anyhow::Result<ExitCode> {
    let host = HostTopology::from_bytes(&args.topology.display().to_string(), &read_file(&args.topology)?)?;
    let matrices: Vec<Matrix> = args.matrices.iter().map(|path| read_matrix(path)).collect::<anyhow::Result<_>>()?;
    let baseline = args.baseline.as_deref().map(read_matrix).transpose()?;
    let (matrix, repeats) = matrices.split_first().context("name a matrix")?;
    let question = HostQuestion { host: &host, matrix, repeats, baseline: baseline.as_ref(), busy: args.busy };
    let mut found =
        judge(question).with_context(|| format!("{} on {}", args.matrices[0].display(), args.topology.display()))?;
    let machine = args.root.as_ref().map(Machine::recorded).or_else(|| args.live.then(Machine::live));
    if let Some(machine) = machine {
        fill_in(&mut found.causes, &machine);
    }
    if common.json { print_json(&found) } else { print(&text(&found)) }?;
    Ok(match found.verdict {
        HostVerdict::Healthy => exit::HEALTHY,
        HostVerdict::Abnormal => exit::anomalous(),
        HostVerdict::Undecided => exit::failed(),
    })
}

fn read_matrix(path: &Path) -> anyhow::Result<Matrix> {
    let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
    Ok(Matrix::from_bytes(&name, &read_file(path)?)?)
}

/// Most sets of links, links and causes that are shown; `--json` has all. Source: our choice, a screen.
const MOST_SETS: usize = 3;
const MOST_LINKS: usize = 8;
const MOST_CAUSES: usize = 4;

/// A link for people; of names that people gave, the name by which `--set` knows the link.
fn place(link: &str) -> String {
    match link.split_once('|') {
        Some((one, other)) if link.contains(':') => format!("{} to {}", node(one), node(other)),
        _ => link.to_owned(),
    }
}

/// A node for people.
fn node(name: &str) -> String {
    if let Some(address) = name.strip_prefix("psw:") {
        return format!("PCIe switch {}", address.strip_prefix("0000:").unwrap_or(address));
    }
    let numbered = |start: &str, word: &str| {
        let number = name.strip_prefix(start)?.parse::<u32>().ok()?;
        Some(format!("{word} {number}"))
    };
    let kinds = [("cpu", "CPU"), ("mem", "memory"), ("gpu", "GPU")];
    kinds.into_iter().find_map(|(start, word)| numbered(start, word)).unwrap_or_else(|| name.to_owned())
}

fn places(set: &[String]) -> String {
    set.iter().map(|link| place(link)).collect::<Vec<_>>().join(" and ")
}

/// The node at which all links of one explanation end, if each has several.
fn common_part(explanations: &[Vec<String>]) -> Option<String> {
    explanations.iter().filter(|set| set.len() > 1).find_map(|set| {
        let (one, other) = set[0].split_once('|')?;
        let ends_at = |node: &str| set.iter().all(|link| link.split('|').any(|end| end == node));
        [one, other].into_iter().find(|node| ends_at(node)).map(str::to_owned)
    })
}

fn text(found: &HostDiagnosis) -> String {
    let mut text = String::new();
    let count = |state| found.paths.values().flat_map(|row| row.values()).filter(|known| **known == state).count();
    let all = found.paths.values().flat_map(|row| row.values()).count();
    let verdict = match found.verdict {
        HostVerdict::Healthy => "healthy",
        HostVerdict::Abnormal => "abnormal",
        HostVerdict::Undecided => "undecided",
    };
    let noise = percent(found.noise);
    let _ = match (count(PathState::Abnormal), found.verdict) {
        (0, HostVerdict::Abnormal) if !found.intermittent.is_empty() => {
            writeln!(text, "{verdict}: comes and goes, and is in few of the matrices (noise {noise})")
        }
        (0, HostVerdict::Undecided) => {
            writeln!(text, "{verdict}: no path of {all} is abnormal for sure (noise {noise})")
        }
        (abnormal, _) => writeln!(text, "{verdict}: {abnormal} of {all} paths abnormal (noise {noise})"),
    };
    for setting in &found.misconfiguration {
        let _ = writeln!(text, "wrong setting: {setting}");
    }
    match found.explanations.as_slice() {
        [] => {}
        [only] => {
            let _ = writeln!(text, "slow: {}", places(only));
        }
        several => {
            let more = if found.more_explanations { " and more" } else { "" };
            let _ = writeln!(text, "slow, one of {}{more} explanations of the same size:", several.len());
            for set in several.iter().take(MOST_SETS) {
                let _ = writeln!(text, "  {}", places(set));
            }
            if several.len() > MOST_SETS {
                let _ = writeln!(text, "  {} more (--json)", several.len() - MOST_SETS);
            }
        }
    }
    if let Some(part) = common_part(&found.explanations) {
        let _ = writeln!(text, "  the common part of these links is {}", node(&part));
    }
    for slow in &found.slow {
        let by = match slow.reference {
            Reference::Baseline => "that the baseline has",
            Reference::Siblings => "that paths of its kind carry",
            Reference::Port => "that its port has",
            Reference::Topology => "that the topology declares",
        };
        let trained = slow.trained.as_ref().map_or_else(String::new, |trained| format!(", trained to {trained}"));
        let (carried, expected) = (slow.carried_gbps, slow.expected_gbps);
        let _ = writeln!(text, "  {}: {carried:.0} of {expected:.0} Gbit/s {by}{trained}", place(&slow.link));
    }
    for fault in &found.intermittent {
        let Intermittent { links, slow_in, of, worst_gbps, expected_gbps } = fault;
        let any = if links.len() > 1 { "one of " } else { "" };
        let _ = writeln!(
            text,
            "comes and goes: {any}{}: slow in {slow_in} of {of} matrices, {worst_gbps:.0} of {expected_gbps:.0} Gbit/s at \
            worst; a cable, a riser, or load that no counter showed",
            links.iter().map(|link| place(link)).collect::<Vec<_>>().join(", ")
        );
    }
    if found.explanations.is_empty() && found.more_explanations {
        let _ = writeln!(text, "no small set of links explains these paths");
    }
    if !found.cannot_be_excluded.is_empty() {
        let mut beside: Vec<&str> = Vec::new();
        for link in found.cannot_be_excluded.iter().flatten() {
            let is_named = found.explanations.iter().any(|set| set.contains(link));
            if !is_named && !beside.contains(&link.as_str()) {
                beside.push(link);
            }
        }
        let _ = if beside.is_empty() {
            // All of them are named above, but in other sets.
            let sets: Vec<String> = found.cannot_be_excluded.iter().take(MOST_SETS).map(|set| places(set)).collect();
            let more = found.cannot_be_excluded.len().saturating_sub(MOST_SETS);
            let more = if more > 0 { format!(", or {more} more (--json)") } else { String::new() };
            writeln!(text, "cannot be ruled out: {}{more}", sets.join(", or "))
        } else {
            let links: Vec<String> = beside.iter().take(MOST_LINKS).map(|link| place(link)).collect();
            let more = beside.len().saturating_sub(MOST_LINKS);
            let more = if more > 0 { format!(" and {more} more (--json)") } else { String::new() };
            writeln!(text, "cannot be ruled out: one of {}{more}", links.join(", "))
        };
    }
    for [row, column] in &found.unexplained {
        let _ = writeln!(text, "no link explains {row} to {column}");
    }
    for cause in found.causes.iter().take(MOST_CAUSES) {
        let _ = writeln!(text, "\n{}: {}: {}", place(&cause.about), cause.cause, cause.summary);
        let mut table = Table::new(&["read", "confirmed if", "seen"], &[]);
        for reading in &cause.readings {
            let what =
                reading.pci.as_ref().map_or_else(|| reading.what.clone(), |pci| format!("{} of {pci}", reading.what));
            table.row(vec![what, reading.confirms.clone(), reading.seen.clone().unwrap_or_default()]);
        }
        text.push_str(&table.render("  "));
    }
    if found.causes.len() > MOST_CAUSES {
        let _ = writeln!(text, "\n{} more causes (--json)", found.causes.len() - MOST_CAUSES);
    }
    if found.causes.iter().any(|cause| cause.readings.iter().any(|reading| reading.seen.is_none())) {
        let _ = writeln!(text, "\nnext: read on the host what the tables name; `--live` on that host fills in `seen`");
    }
    if !found.notes.is_empty() {
        text.push('\n');
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_found_hosts_are_words_and_those_that_people_named_keep_their_names() {
        assert_eq!(place("psw:0000:29:00.0|cpu0"), "PCIe switch 29:00.0 to CPU 0");
        assert_eq!(place("mlx5_3|psw:0000:29:00.0"), "mlx5_3 to PCIe switch 29:00.0");
        assert_eq!(place("psw0|cpu0"), "psw0|cpu0");
    }

    #[test]
    fn links_that_end_at_one_node_have_it_in_common() {
        let sets = |sets: &[&[&str]]| -> Vec<Vec<String>> {
            sets.iter().map(|set| set.iter().map(|link| (*link).to_owned()).collect()).collect()
        };
        assert_eq!(common_part(&sets(&[&["a|p", "q|cpu1"], &["p|cpu1", "q|cpu1"]])).as_deref(), Some("cpu1"));
        assert_eq!(common_part(&sets(&[&["a|p", "b|q"]])), None);
        assert_eq!(common_part(&sets(&[&["p|cpu1"]])), None, "one link is named itself");
    }
}

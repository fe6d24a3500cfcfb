//! What was found of a host, in words.

use std::fmt::Write as _;

use kelpie_diagnosis::host::{HostDiagnosis, HostVerdict, Intermittent, PathState, Reference};
use kelpie_text::{Table, percent};

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

/// The verdict, how many paths show it, and the noise.
fn headline(text: &mut String, found: &HostDiagnosis) {
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
}

/// The answer on a host: verdict, slow links, causes and what to read next.
pub fn text(found: &HostDiagnosis) -> String {
    let mut text = String::new();
    headline(&mut text, found);
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
            let any = if beside.len() > 1 { "one of " } else { "" };
            writeln!(text, "cannot be ruled out: {any}{}{more}", links.join(", "))
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

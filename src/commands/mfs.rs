//! `kelpie mfs`: the findings' conditions, and whether a workload meets them all.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::process::ExitCode;

use kelpie_monitor::Severity;
use kelpie_reports::explained::Weighed;
use kelpie_reports::lookup::{self, Kept, Lookup, Placed};
use kelpie_spaces::advice::WayOut;
use kelpie_spaces::{Feature, FeatureValue, Workload};
use kelpie_store::Store;
use serde_json::{Value, json};

use crate::args::Common;
use crate::cli::{MfsCheckArgs, MfsListArgs};
use crate::commands::findings::{FindingDocument, condition_lines, finding_text};
use crate::exit;
use crate::inputs;
use crate::output::{plural, print, print_json};

fn kept(args: &MfsListArgs) -> anyhow::Result<Vec<Kept>> {
    let mut store = Store::open_to_read(&args.database.path()?)?;
    Ok(lookup::kept(&mut store, args.campaign)?)
}

/// Lists the findings' conditions, the worst first.
pub fn list(args: &MfsListArgs, common: Common) -> anyhow::Result<ExitCode> {
    let kept = kept(args)?;
    let mut store = Store::open_to_read(&args.database.path()?)?;
    let mut anomalies = BTreeMap::new();
    for campaign in kept.iter().map(|kept| kept.campaign) {
        if let Entry::Vacant(entry) = anomalies.entry(campaign) {
            entry.insert(store.anomalies(campaign)?);
        }
    }
    let mut listed: Vec<(&Kept, Weighed<'_>)> =
        kept.iter().map(|kept| (kept, Weighed::new(&kept.finding, &anomalies[&kept.campaign]))).collect();
    listed.sort_by(|(_, one), (_, other)| Severity::worst_first(one.severity, other.severity));
    if common.json {
        let row = |(kept, found): &(&Kept, Weighed<'_>)| {
            json!({
                "campaign": kept.campaign, "subsystem": kept.subsystem, "finding": FindingDocument::from(*found),
            })
        };
        print_json(&json!({"findings": listed.iter().map(row).collect::<Vec<_>>()}))?;
    } else {
        let texts: Vec<String> = listed.iter().map(|(kept, found)| finding_text(kept.campaign, found)).collect();
        print(&format!("{}\n{}", plural(listed.len() as u64, "finding"), texts.concat()))?;
    }
    Ok(exit::HEALTHY)
}

/// Looks a workload up among the findings.
pub fn check(args: &MfsCheckArgs, common: Common) -> anyhow::Result<ExitCode> {
    let workload = inputs::read_workload(&args.workload)?;
    let kept = kept(&args.list)?;
    let lookup = Lookup::new(&kept, &workload);
    if common.json { print_json(&document(&lookup)) } else { print(&text(&lookup)) }?;
    Ok(if lookup.inside().is_empty() { exit::HEALTHY } else { exit::anomalous() })
}

fn document(lookup: &Lookup<'_>) -> Value {
    let change = |way: &WayOut| {
        json!({
            "condition": way.condition, "value": way.value, "safe": way.is_safe, "words": way.words,
            "also_changes": way.others, "workload": way.workload,
        })
    };
    let name = |kept: &Kept| {
        json!({
            "campaign": kept.campaign, "subsystem": kept.subsystem, "id": kept.finding.number,
            "symptom": kept.finding.symptom, "mfs": kept.finding.mfs,
        })
    };
    let inside = lookup.inside().iter().map(|placed| {
        let mut row = name(placed.kept);
        row["break_one_of"] = placed.ways.iter().map(change).collect();
        row
    });
    let outside = lookup.outside().iter().map(|placed| {
        let mut row = name(placed.kept);
        let missed = placed.missed.iter().map(|missed| json!({"condition": missed.condition, "steps": missed.steps}));
        row["missed"] = missed.collect();
        row
    });
    json!({
        "inside": inside.collect::<Vec<_>>(), "advice": lookup.advice().map(change),
        "outside": outside.collect::<Vec<_>>(), "findings_checked": lookup.count(),
        "findings_of_other_spaces": lookup.elsewhere,
    })
}

fn text(lookup: &Lookup<'_>) -> String {
    let others = if lookup.elsewhere > 0 {
        format!(" ({} of campaigns whose space does not hold it)", plural(lookup.elsewhere as u64, "other finding"))
    } else {
        String::new()
    };
    let checked = format!("{}{others}", plural(lookup.count() as u64, "stored finding"));
    let (inside, outside) = (lookup.inside(), lookup.outside());
    let advised = match lookup.advice() {
        Some(way) => format!("advice: {}{}", way.words, also(way)),
        None => "advice: none, because no single change leaves all findings".to_owned(),
    };
    let mut text = if inside.is_empty() {
        format!("outside {checked}\n")
    } else {
        format!("inside {} of {checked}\n{advised}\n", inside.len())
    };
    for Placed { kept, ways, .. } in inside {
        let Kept { campaign, subsystem, finding, .. } = kept;
        let _ = writeln!(text, "\n{campaign}.{} {} on {subsystem}", finding.number, finding.symptom.name());
        text += &condition_lines(&finding.mfs);
        text += if ways.is_empty() {
            "  no single condition can be broken within the rules of verbs\n"
        } else {
            "  ways out, the cheapest first:\n"
        };
        for way in ways {
            let caution = if way.is_safe { "" } else { " (falls into another finding)" };
            let _ = writeln!(text, "    {}{}{caution}", way.words, also(way));
        }
    }
    if let Some(Placed { kept, missed, .. }) = outside.first() {
        let missed: Vec<String> = missed.iter().map(|missed| missed.condition.to_string()).collect();
        let _ = writeln!(
            text,
            "\nnearest of those outside: {}.{} {} on {}; not met: {}",
            kept.campaign,
            kept.finding.number,
            kept.finding.symptom.name(),
            kept.subsystem,
            missed.join(", ")
        );
    }
    text
}

/// What moves with a change.
fn also(way: &WayOut) -> String {
    if way.others.is_empty() {
        return String::new();
    }
    let others: Vec<String> =
        way.others.iter().map(|feature| format!("{feature} {}", shown(*feature, &way.workload))).collect();
    format!(" (then {})", others.join(", "))
}

fn shown(feature: Feature, workload: &Workload) -> String {
    match workload.feature(feature) {
        FeatureValue::Number(number) => feature.written(number),
        FeatureValue::Category(word) => word,
    }
}

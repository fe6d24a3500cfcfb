//! `kelpie mfs`: the findings' conditions, and whether a workload meets them all.

use std::fmt::Write as _;
use std::process::ExitCode;

use kelpie_reports::{CampaignId, FindingRecord, Store};
use kelpie_spaces::{Bytes, Condition, FeatureValue, Space, Test, Workload};
use serde::Serialize;
use serde_json::json;

use crate::campaign::name_of;
use crate::cli::{Common, MfsCheckArgs, MfsListArgs};
use crate::commands::findings::{FindingDocument, finding_text};
use crate::exit;
use crate::output::{plural, print, print_json};

/// A finding with where it is kept.
struct Kept {
    campaign: CampaignId,
    subsystem: String,
    finding: FindingRecord,
}

fn kept(args: &MfsListArgs) -> anyhow::Result<Vec<Kept>> {
    let mut store = Store::open_to_read(&args.database.path()?)?;
    let campaigns = match args.campaign {
        Some(id) => vec![store.campaign(id)?],
        None => store.campaigns()?,
    };
    let mut kept = Vec::new();
    for campaign in campaigns {
        let subsystem = campaign.plan.subsystem;
        let with_campaign = |finding| Kept { campaign: campaign.id, subsystem: subsystem.clone(), finding };
        kept.extend(store.findings(campaign.id)?.into_iter().map(with_campaign));
    }
    Ok(kept)
}

/// Lists the findings' conditions.
pub fn list(args: &MfsListArgs, common: Common) -> anyhow::Result<ExitCode> {
    let kept = kept(args)?;
    if common.json {
        let row = |kept: &Kept| {
            json!({
                "campaign": kept.campaign, "subsystem": kept.subsystem,
                "finding": FindingDocument::from(&kept.finding),
            })
        };
        print_json(&json!({"findings": kept.iter().map(row).collect::<Vec<_>>()}))?;
    } else {
        let texts: Vec<String> = kept.iter().map(|kept| finding_text(kept.campaign, &kept.finding)).collect();
        print(&format!("{}\n{}", plural(kept.len() as u64, "finding"), texts.concat()))?;
    }
    Ok(exit::HEALTHY)
}

/// A way out of a finding: one condition, broken.
#[derive(Debug, Serialize)]
struct WayOut {
    /// The condition to break.
    condition: Condition,
    /// The nearest value that breaks it.
    value: FeatureValue,
    /// Whether the changed workload is outside every stored finding.
    safe: bool,
    /// In words.
    #[serde(skip)]
    words: String,
}

/// Looks a workload up among the findings.
pub fn check(args: &MfsCheckArgs, common: Common) -> anyhow::Result<ExitCode> {
    let workload = super::read_workload(&args.workload)?;
    let kept = kept(&args.list)?;
    let inside: Vec<(&Kept, Vec<WayOut>)> = kept
        .iter()
        .filter(|kept| kept.finding.mfs.contains(&workload))
        .map(|inside| (inside, ways_out(&workload, &inside.finding, &kept)))
        .collect();
    if common.json {
        let row = |(kept, ways): &(&Kept, Vec<WayOut>)| {
            json!({
                "campaign": kept.campaign, "subsystem": kept.subsystem, "id": kept.finding.number,
                "symptom": kept.finding.symptom, "mfs": kept.finding.mfs, "break_one_of": ways,
            })
        };
        print_json(&json!({
            "inside": inside.iter().map(row).collect::<Vec<_>>(), "findings_checked": kept.len(),
        }))?;
    } else {
        print(&text(&inside, kept.len() as u64))?;
    }
    Ok(if inside.is_empty() { exit::HEALTHY } else { exit::anomalous() })
}

fn text(inside: &[(&Kept, Vec<WayOut>)], checked: u64) -> String {
    if inside.is_empty() {
        return format!("outside: none of {} matches this workload\n", plural(checked, "stored finding"));
    }
    let mut text = format!("inside {} of {}\n", inside.len(), plural(checked, "stored finding"));
    for (kept, ways) in inside {
        let Kept { campaign, subsystem, finding } = kept;
        let _ = writeln!(text, "\n{campaign}.{} {} on {subsystem}", finding.number, name_of(&finding.symptom));
        for condition in &finding.mfs.conditions {
            let _ = writeln!(text, "    {condition}");
        }
        match ways.iter().find(|way| way.safe).or(ways.first()) {
            Some(best) => {
                let _ = writeln!(text, "  break one condition:");
                for way in ways {
                    let mark = if std::ptr::eq(way, best) { "->" } else { "  " };
                    let caution = if way.safe { "" } else { " (falls into another finding)" };
                    let _ = writeln!(text, "   {mark} {}{caution}", way.words);
                }
            }
            None => text += "  no single condition can be broken within the rules of verbs\n",
        }
    }
    text
}

/// Each condition of a finding that one changed feature breaks, safe ones first.
fn ways_out(workload: &Workload, finding: &FindingRecord, all: &[Kept]) -> Vec<WayOut> {
    let space = Space::catalog("full").expect("the catalog has the full space");
    let safe = |changed: &Workload| !all.iter().any(|kept| kept.finding.mfs.contains(changed));
    let mut ways: Vec<WayOut> = Vec::new();
    for condition in &finding.mfs.conditions {
        let mut values: Vec<FeatureValue> =
            space.feature_values(condition.feature).into_iter().filter(|value| !condition.admits(value)).collect();
        if let Test::Range { min: Some(min), .. } = condition.test {
            // Just below the range is nearer than what the space has at its start.
            values.sort_by_key(|value| match value {
                FeatureValue::Number(number) => min.abs_diff(*number),
                FeatureValue::Category(_) => 0,
            });
        }
        let candidates = values.into_iter().filter_map(|value| {
            let changed = space.with_feature(workload, condition.feature, &value)?;
            (!finding.mfs.contains(&changed)).then(|| (value, safe(&changed)))
        });
        let candidates: Vec<_> = candidates.collect();
        if let Some((value, safe)) = candidates.iter().find(|(_, safe)| *safe).or(candidates.first()).cloned() {
            let words = words(condition, &value);
            ways.push(WayOut { condition: condition.clone(), value, safe, words });
        }
    }
    ways.sort_by_key(|way| !way.safe);
    ways
}

fn words(condition: &Condition, value: &FeatureValue) -> String {
    let feature = condition.feature;
    match value {
        FeatureValue::Category(word) => format!("make {feature} {word}"),
        FeatureValue::Number(number) if feature.is_size() => format!("set {feature} to {}", Bytes(*number)),
        FeatureValue::Number(number) => format!("set {feature} to {number}"),
    }
}

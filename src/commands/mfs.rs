//! `kelpie mfs`: the findings' conditions, and whether a workload meets them all.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::rc::Rc;

use kelpie_spaces::advice::{Missed, WayOut, missed, ways_out};
use kelpie_spaces::{Feature, FeatureValue, Space, Workload};
use kelpie_store::{CampaignId, FindingRecord, Store};
use serde_json::{Value, json};

use crate::campaign::name_of;
use crate::cli::{Common, MfsCheckArgs, MfsListArgs};
use crate::commands::findings::{FindingDocument, finding_text};
use crate::exit;
use crate::output::{plural, print, print_json};

/// A finding with where it is kept.
struct Kept {
    campaign: CampaignId,
    subsystem: String,
    /// What the campaign searched; its findings say nothing about other workloads.
    space: Rc<Space>,
    finding: FindingRecord,
}

impl Kept {
    fn holds(&self, workload: &Workload) -> bool {
        self.space.contains(workload) && self.finding.mfs.contains(workload)
    }
}

fn kept(args: &MfsListArgs) -> anyhow::Result<Vec<Kept>> {
    let mut store = Store::open_to_read(&args.database.path()?)?;
    let campaigns = match args.campaign {
        Some(id) => vec![store.campaign(id)?],
        None => store.campaigns()?,
    };
    let mut kept = Vec::new();
    for campaign in campaigns {
        let plan = campaign.plan;
        let space = Rc::new(plan.space()?);
        let with_campaign = |finding| Kept {
            campaign: campaign.id,
            subsystem: plan.subsystem.clone(),
            space: Rc::clone(&space),
            finding,
        };
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

/// A finding and how far a workload is from it.
struct Compared<'k> {
    kept: &'k Kept,
    /// Nothing where the workload is inside.
    missed: Vec<Missed<'k>>,
    /// Nothing where it is outside.
    ways: Vec<WayOut>,
}

impl<'k> Compared<'k> {
    fn new(kept: &'k Kept, workload: &Workload, is_known: impl Fn(&Workload) -> bool) -> Self {
        let region = &kept.finding.mfs;
        let missed = missed(&kept.space, workload, region);
        let ways = if missed.is_empty() { ways_out(&kept.space, workload, region, is_known) } else { Vec::new() };
        Self { kept, missed, ways }
    }
}

/// Looks a workload up among the findings.
pub fn check(args: &MfsCheckArgs, common: Common) -> anyhow::Result<ExitCode> {
    let workload = super::read_workload(&args.workload)?;
    let kept = kept(&args.list)?;
    let is_known = |changed: &Workload| kept.iter().any(|kept| kept.holds(changed));
    let (about, elsewhere): (Vec<&Kept>, Vec<&Kept>) = kept.iter().partition(|kept| kept.space.contains(&workload));
    let mut compared: Vec<Compared<'_>> =
        about.into_iter().map(|kept| Compared::new(kept, &workload, is_known)).collect();
    compared.sort_by_key(|compared| distance(&compared.missed));
    let is_inside = compared.first().is_some_and(|nearest| nearest.missed.is_empty());
    if common.json {
        print_json(&document(&compared, elsewhere.len()))
    } else {
        print(&text(&compared, elsewhere.len()))
    }?;
    Ok(if is_inside { exit::anomalous() } else { exit::HEALTHY })
}

/// Conditions that are not met, then how far.
fn distance(missed: &[Missed<'_>]) -> (usize, usize) {
    (missed.len(), missed.iter().map(|missed| missed.steps).sum())
}

/// The cheapest change that leaves all findings at once.
fn advice<'c>(compared: &'c [Compared<'_>]) -> Option<&'c WayOut> {
    compared.iter().flat_map(|compared| &compared.ways).filter(|way| way.is_safe).min_by_key(|way| way.cost)
}

fn document(compared: &[Compared<'_>], elsewhere: usize) -> Value {
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
    let inside = compared.iter().filter(|compared| compared.missed.is_empty()).map(|compared| {
        let mut row = name(compared.kept);
        row["break_one_of"] = compared.ways.iter().map(change).collect();
        row
    });
    let outside = compared.iter().filter(|compared| !compared.missed.is_empty()).map(|compared| {
        let mut row = name(compared.kept);
        let missed = compared.missed.iter().map(|missed| json!({"condition": missed.condition, "steps": missed.steps}));
        row["missed"] = missed.collect();
        row
    });
    json!({
        "inside": inside.collect::<Vec<_>>(), "advice": advice(compared).map(change),
        "outside": outside.collect::<Vec<_>>(), "findings_checked": compared.len(),
        "findings_of_other_spaces": elsewhere,
    })
}

fn text(compared: &[Compared<'_>], elsewhere: usize) -> String {
    let others = if elsewhere > 0 {
        format!(" ({} of campaigns whose space does not hold it)", plural(elsewhere as u64, "other finding"))
    } else {
        String::new()
    };
    let checked = format!("{}{others}", plural(compared.len() as u64, "stored finding"));
    let split = compared.partition_point(|compared| compared.missed.is_empty());
    let (inside, outside) = compared.split_at(split);
    let advised = match advice(compared) {
        Some(way) => format!("advice: {}{}", way.words, also(way)),
        None => "advice: none, for no single change leaves all findings".to_owned(),
    };
    let mut text = if inside.is_empty() {
        format!("outside {checked}\n")
    } else {
        format!("inside {} of {checked}\n{advised}\n", inside.len())
    };
    for Compared { kept, ways, .. } in inside {
        let Kept { campaign, subsystem, finding, .. } = kept;
        let _ = writeln!(text, "\n{campaign}.{} {} on {subsystem}", finding.number, name_of(&finding.symptom));
        for condition in &finding.mfs.conditions {
            let _ = writeln!(text, "    {condition}");
        }
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
    if let Some(Compared { kept, missed, .. }) = outside.first() {
        let missed: Vec<String> = missed.iter().map(|missed| missed.condition.to_string()).collect();
        let _ = writeln!(
            text,
            "\nnearest of those outside: {}.{} {} on {}; not met: {}",
            kept.campaign,
            kept.finding.number,
            name_of(&kept.finding.symptom),
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

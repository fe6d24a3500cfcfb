//! How a campaign and its findings are printed; shared by `campaign` and `mfs`.

use std::fmt::Write as _;

use anyhow::Context as _;
use kelpie_monitor::{Check, Severity, Symptom};
use kelpie_reports::StoredCampaign;
use kelpie_reports::absence::{Absence, absence};
use kelpie_reports::again::{Control, Repeats};
use kelpie_reports::explained::{self, Explained, Weighed};
use kelpie_reports::gate::Ruling;
use kelpie_reports::identity::{self, Difference};
use kelpie_reports::times;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Condition, Region, Workload};
use kelpie_store::{
    Anomaly, Campaign, CampaignClock, CampaignDefinition, CampaignId, CampaignState, Experiment, FindingRecord,
    MeasuredAgain, Outcome, Store,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::labels::words;
use crate::output::{Table, plural, print};
use crate::safe_text::{clean, clean_json};

/// Unexplained anomalies that are listed. Source: our choice, because a terminal shows some more lines.
const MOST_UNEXPLAINED: usize = 10;

/// The document of `campaign run|resume|show --json`. Equal seeds give equal bytes, but for `campaign`, `checks` and `clock`.
#[derive(Serialize)]
pub struct CampaignDocument {
    campaign: CampaignId,
    /// Only if somebody said one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Only if somebody said one.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    subsystem: String,
    space: String,
    /// In what a simulated subsystem differs from the embedded model of its name (`a` there, `b` here); only if it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<Difference>,
    algorithm: String,
    signal: String,
    seed: u64,
    state: CampaignState,
    /// Experiments that end it; absent without such a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<u64>,
    /// When it ran; only if it is shown, because what a run prints depends on no clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<CampaignClock>,
    experiments: u64,
    skipped: u64,
    /// What was looked at on both hosts before it began; empty for a simulated subsystem.
    checks: Vec<Check>,
    /// The worst first.
    findings: Vec<FindingDocument>,
    /// How many experiments were anomalous.
    anomalous: usize,
    /// Those that lie in no finding, the worst first.
    unexplained: Vec<Anomaly>,
    /// Only if there are no findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    none_found: Option<Absence>,
    /// Only if the control workload was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<Control>,
    /// Only with `--gate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<Ruling>,
    /// Only with `--experiments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Vec<Value>>,
}

/// A finding as JSON.
#[derive(Serialize)]
pub struct FindingDocument {
    id: u64,
    symptom: Symptom,
    /// `null` if its workload was not measured.
    severity: Option<Severity>,
    found_at: u64,
    experiments_for_mfs: u64,
    mfs: Vec<Condition>,
    workload: Workload,
    confidence: f64,
    refined: bool,
    /// Only if its workload was measured again.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<Repeats>,
}

impl From<Weighed<'_>> for FindingDocument {
    fn from(Weighed { finding, severity }: Weighed<'_>) -> Self {
        Self {
            id: finding.number,
            symptom: finding.symptom,
            severity,
            found_at: finding.found_at,
            experiments_for_mfs: finding.experiments_for_mfs,
            mfs: finding.mfs.conditions.clone(),
            workload: finding.workload.clone(),
            confidence: finding.confidence,
            refined: finding.is_refined(),
            repeats: None,
        }
    }
}

/// The document of a stored campaign.
pub fn document(store: &mut Store, id: CampaignId, experiments: bool) -> anyhow::Result<CampaignDocument> {
    let campaign = store.campaign(id)?;
    let (findings, anomalies) = explained::read(store, id)?;
    let explained = Explained::new(&findings, &anomalies);
    let none_found = none_found(store, id, &findings)?;
    let log = if experiments { Some(log(store, &campaign)?) } else { None };
    let label = store.label(id)?;
    let again = store.measured_again(id)?;
    let with_repeats = |weighed: Weighed<'_>| FindingDocument {
        repeats: repeats(&again, weighed.finding, &anomalies),
        ..FindingDocument::from(weighed)
    };
    Ok(CampaignDocument {
        campaign: id,
        name: label.name,
        note: label.note,
        changed: changed(&campaign.definition),
        subsystem: campaign.definition.subsystem,
        space: campaign.definition.space,
        algorithm: campaign.definition.algorithm,
        signal: campaign.definition.signal,
        seed: campaign.definition.seed,
        state: campaign.state,
        budget: campaign.definition.budget,
        clock: None,
        experiments: campaign.experiments,
        skipped: campaign.skipped,
        checks: store.checks(id)?,
        findings: explained.findings.into_iter().map(with_repeats).collect(),
        anomalous: anomalies.len(),
        unexplained: explained.unexplained.into_iter().cloned().collect(),
        none_found,
        control: Control::of(&again),
        gate: None,
        log,
    })
}

fn repeats(again: &[MeasuredAgain], finding: &FindingRecord, anomalies: &[Anomaly]) -> Option<Repeats> {
    Repeats::of(again, finding.number, explained::witness(finding, anomalies).map(|witness| witness.number))
}

/// The same with when it ran.
pub fn document_with_clock(store: &mut Store, id: CampaignId) -> anyhow::Result<CampaignDocument> {
    Ok(CampaignDocument { clock: Some(store.clock(id)?), ..document(store, id, false)? })
}

/// The same with what a gate says of it.
pub fn document_with_ruling(
    store: &mut Store,
    id: CampaignId,
    gate: Option<Ruling>,
) -> anyhow::Result<CampaignDocument> {
    Ok(CampaignDocument { gate, ..document(store, id, false)? })
}

fn log(store: &mut Store, campaign: &Campaign) -> anyhow::Result<Vec<Value>> {
    let mut log = Vec::new();
    store.experiments(campaign.id, |experiment| {
        // One that runs may have gone on meanwhile.
        if experiment.number <= campaign.experiments {
            log.push(entry(&experiment));
        }
    })?;
    Ok(log)
}

fn entry(experiment: &Experiment) -> Value {
    let Experiment { number, purpose, skipped_before, workload, outcome } = experiment;
    let mut entry = json!({
        "number": number, "purpose": purpose, "skipped_before": skipped_before, "workload": workload,
    });
    match outcome {
        Outcome::Measured { measurement, assessment, attempts } => {
            entry["assessment"] = json!(assessment);
            entry["attempts"] = json!(attempts);
            entry["measurement"] = json!(measurement);
        }
        Outcome::Unsupported { reason } => entry["unsupported"] = json!(reason),
    }
    entry
}

/// Prints the document with every experiment, one at a time: a campaign need not fit into memory.
pub fn print_with_experiments(store: &mut Store, id: CampaignId) -> anyhow::Result<()> {
    let most = store.campaign(id)?.experiments;
    let document = serde_json::to_string_pretty(&document_with_clock(store, id)?)?;
    let head = document.strip_suffix("\n}").context("an object with something in it")?;
    print(&clean_json(format!("{head},\n  \"log\": [")))?;
    let (mut separator, mut outcome) = ("\n", Ok(()));
    store.experiments(id, |experiment| {
        // One that runs may have gone on meanwhile.
        if experiment.number <= most && outcome.is_ok() {
            outcome = serde_json::to_string_pretty(&entry(&experiment))
                .map_err(anyhow::Error::from)
                .and_then(|text| print(&clean_json(format!("{separator}    {}", text.replace('\n', "\n    ")))));
            separator = ",\n";
        }
    })?;
    outcome?;
    print(if separator == "\n" { "]\n}\n" } else { "\n  ]\n}\n" })
}

/// What it means that nothing was found; `None` if something was.
fn none_found(store: &mut Store, id: CampaignId, findings: &[FindingRecord]) -> anyhow::Result<Option<Absence>> {
    if !findings.is_empty() {
        return Ok(None);
    }
    let stored = StoredCampaign::read(store, id)?;
    Ok(absence(&stored, &stored.coverage()))
}

/// A campaign with its findings, as text.
pub fn text(store: &mut Store, id: CampaignId) -> anyhow::Result<String> {
    let campaign = store.campaign(id)?;
    let definition = &campaign.definition;
    let mut text = format!(
        "campaign {id} ({}): {} over {}, {} by {} signals, seed {}\n",
        campaign.state,
        clean(&definition.subsystem),
        clean(&definition.space),
        clean(&definition.algorithm),
        clean(&definition.signal),
        definition.seed
    );
    let (findings, anomalies) = explained::read(store, id)?;
    let explained = Explained::new(&findings, &anomalies);
    let _ = writeln!(
        text,
        "  {}, {} skipped, {}",
        plural(campaign.experiments, "experiment"),
        campaign.skipped,
        explained.findings_in_words()
    );
    let changed = changed(definition);
    if !changed.is_empty() {
        let _ = writeln!(text, "  with {}", identity::in_words(&changed));
    }
    let clock = store.clock(id)?;
    let _ = writeln!(text, "  begun {}, measured for {}", times::started(clock), times::measured(clock));
    let label = words(&store.label(id)?);
    if !label.is_empty() {
        let _ = writeln!(text, "  {label}");
    }
    let again = store.measured_again(id)?;
    if let Some(control) = Control::of(&again) {
        let _ = writeln!(text, "  {control}");
    }
    if let Some(absence) = none_found(store, id, &findings)? {
        let _ = writeln!(text, "  {absence}");
    }
    let _ = writeln!(text, "  {explained}");
    for (index, found) in explained.findings.iter().enumerate() {
        text += &finding_text(id, found);
        let is_like = |other: &&Weighed<'_>| other.finding.has_conditions_of(found.finding);
        if let Some(twin) = explained.findings[..index].iter().find(is_like) {
            let _ = writeln!(text, "  its conditions are those of {id}.{}", twin.finding.number);
        }
        if let Some(repeats) = repeats(&again, found.finding, &anomalies) {
            let _ = writeln!(text, "  {repeats}");
        }
    }
    Ok(text + &unexplained_text(&explained))
}

/// In what a simulated subsystem differs from the embedded model of its name; nothing for others.
pub fn changed(definition: &CampaignDefinition) -> Vec<Difference> {
    let embedded = definition.subsystem.strip_prefix("sim:").and_then(SimSubsystem::embedded);
    embedded.map_or_else(Vec::new, |model| identity::of_sources(&model.yaml(), &definition.subsystem_source))
}

/// The worst of the anomalies that no finding explains; nothing if there are none.
pub fn unexplained_text(explained: &Explained<'_>) -> String {
    if explained.unexplained.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["experiment", "symptom", "severity", "workload"], &[0]);
    for anomaly in explained.unexplained.iter().take(MOST_UNEXPLAINED) {
        let Anomaly { number, symptom, severity, workload, .. } = anomaly;
        let shown = anomaly.reason.clone().unwrap_or_else(|| severity.to_string());
        table.row(vec![number.to_string(), symptom.name().to_owned(), shown, workload.summary()]);
    }
    let mut text = format!("\n{}\n{}", console::style("not explained").bold(), table.render("    "));
    if let Some(more @ 1..) = explained.unexplained.len().checked_sub(MOST_UNEXPLAINED) {
        let _ = writeln!(text, "    and {more} more");
    }
    text
}

/// A finding as a few lines of text.
pub fn finding_text(id: CampaignId, Weighed { finding, severity }: &Weighed<'_>) -> String {
    let mut text = String::new();
    let title = format!("{id}.{} {}", finding.number, finding.symptom.name());
    let pinned = if finding.is_pinned() { "; pinned, because no wider region held or was searched" } else { "" };
    let _ = writeln!(
        text,
        "\n{}  found at experiment {}, reduced in {}, confidence {:.2}{pinned}",
        console::style(title).red().bold(),
        finding.found_at,
        plural(finding.experiments_for_mfs, "experiment"),
        finding.confidence
    );
    let _ = writeln!(text, "  {}: {}", Severity::in_words(*severity), finding.workload.summary());
    text += &condition_lines(&finding.region_by_need());
    text
}

/// Each condition on a line, with the phrase that says what its feature means.
pub fn condition_lines(region: &Region) -> String {
    if region.conditions.is_empty() {
        return format!("    {region}\n");
    }
    let lines = region.conditions.iter().map(|condition| (condition.to_string(), condition.feature.phrase()));
    let width = lines.clone().map(|(condition, _)| condition.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (condition, phrase) in lines {
        let _ = writeln!(text, "    {condition:width$}   {phrase}");
    }
    text
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::{Feature, Test};

    use super::*;

    #[test]
    fn the_terminal_names_every_feature_as_the_table_does() {
        for feature in Feature::ALL {
            let word = || Test::In(vec!["true".to_owned()]);
            let test = if feature.is_ordered() { Test::Range { min: Some(3), max: None } } else { word() };
            let lines = condition_lines(&Region { conditions: vec![Condition { feature, test }] });
            assert!(lines.trim_start().starts_with(&format!("{feature} ")), "{lines}");
            assert!(lines.trim_end().ends_with(&format!("   {}", feature.phrase())), "{lines}");
        }
    }
}

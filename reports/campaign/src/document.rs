//! A campaign and its findings as a document, and what is read for it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Check, Severity, Symptom};
use kelpie_reports::StoredCampaign;
use kelpie_reports::absence::{Absence, absence};
use kelpie_reports::brief;
use kelpie_reports::explained::{self, Explained, Weighed};
use kelpie_reports::gate::Ruling;
use kelpie_reports::identity::{self, Difference};
use kelpie_reports::repeats::{ControlReport, Repeats};
use kelpie_search::TriedTransport;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Condition, Workload};
use kelpie_store::{
    Anomaly, Campaign, CampaignClock, CampaignDefinition, CampaignId, CampaignState, Experiment, ExperimentOutcome,
    FindingRecord, MeasuredAgain, Store,
};
use serde::Serialize;
use serde_json::{Value, json};

/// The document of `campaign run|resume|show --json`. Equal seeds give equal bytes, but for `campaign`, `checks` and
/// `clock`.
#[derive(Debug, Serialize)]
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
    /// In what a simulated subsystem differs from the embedded model of its name (`a` there, `b` here); only if it
    /// does.
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
    /// The worst first; candidates as long as there are no others.
    findings: Vec<FindingDocument>,
    /// The other candidates: those whose conditions are still to be measured.
    candidates: Vec<FindingDocument>,
    /// How many experiments were anomalous.
    anomalous: usize,
    /// Those that lie in no finding, the worst first.
    unexplained: Vec<Anomaly>,
    /// Only if there are no findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    none_found: Option<Absence>,
    /// Only if the control workload was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<ControlReport>,
    /// Only with `--gate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<Ruling>,
    /// Only with `--experiments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Vec<Value>>,
}

/// A finding as JSON.
#[derive(Debug, Serialize)]
pub struct FindingDocument {
    id: u64,
    symptom: Symptom,
    /// `null` if its workload was not measured.
    severity: Option<Severity>,
    found_at: u64,
    experiments_for_mfs: u64,
    mfs: Vec<ConditionDocument>,
    workload: Workload,
    /// Share of the workloads that meet the conditions and show the symptom, at least, with 95 % confidence.
    confidence: f64,
    /// Random workloads measured that meet the conditions, and those that show the symptom.
    own: ShownShare,
    /// The same, and those that show any symptom.
    any: ShownShare,
    /// How many times each counter falls, whichever condition is broken.
    signature: BTreeMap<String, f64>,
    /// Transports and operations with which the workload was tried; empty before its bounds were measured.
    transports: Vec<TriedTransport>,
    /// Anomalous experiments that it explains, or a variant of it.
    seen: usize,
    /// Whether its conditions were measured one by one; else bounds are those of its workload.
    measured: bool,
    /// The finding of which it is a variant; absent of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant_of: Option<u64>,
    /// Its variants.
    variants: Vec<u64>,
    /// The row of the Collie paper's table 2 that its workload meets.
    #[serde(skip_serializing_if = "Option::is_none")]
    like_the_papers: Option<u32>,
    /// The part that limits its workload on a simulated subsystem; no search sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    limiting: Option<String>,
    /// Only if its workload was measured again.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<Repeats>,
}

/// A condition, and what breaking it did.
#[derive(Debug, Serialize)]
struct ConditionDocument {
    #[serde(flatten)]
    condition: Condition,
    /// Absent if it was not broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<CureDocument>,
}

#[derive(Debug, Serialize)]
struct CureDocument {
    /// Whether it rids the workload of the symptom; `null` if that was not measured.
    cured: Option<bool>,
    /// For each bound the workload at it, and the next one.
    sides: Vec<SideDocument>,
}

#[derive(Debug, Serialize)]
struct SideDocument {
    shows: Workload,
    gone: Workload,
}

/// Such as 17 of 20.
#[derive(Debug, Serialize)]
struct ShownShare {
    shown: u64,
    of: u64,
}

impl From<Weighed<'_>> for FindingDocument {
    fn from(Weighed { finding, severity, seen }: Weighed<'_>) -> Self {
        let evidence = finding.evidence().unwrap_or_default();
        let cure = |condition: &Condition| {
            let cure = evidence.cures.iter().find(|cure| cure.condition.feature == condition.feature)?;
            let side = |[shows, gone]: &[Workload; 2]| SideDocument { shows: shows.clone(), gone: gone.clone() };
            Some(CureDocument { cured: cure.cured, sides: cure.sides.iter().map(side).collect() })
        };
        let conditions = finding.mfs.conditions.iter();
        Self {
            id: finding.number,
            symptom: finding.symptom,
            severity,
            found_at: finding.found_at,
            experiments_for_mfs: finding.experiments_for_mfs,
            mfs: conditions.map(|one| ConditionDocument { condition: one.clone(), cure: cure(one) }).collect(),
            workload: finding.workload.clone(),
            confidence: finding.confidence,
            own: ShownShare { shown: evidence.shows_inside, of: evidence.validated },
            any: ShownShare {
                shown: evidence.validated.saturating_sub(evidence.healthy_inside),
                of: evidence.validated,
            },
            signature: evidence.signature.iter().map(|(name, fall)| (name.clone(), 10_f64.powf(*fall))).collect(),
            transports: evidence.transports,
            seen,
            measured: !finding.is_candidate(),
            variant_of: finding.variant_of(),
            variants: Vec::new(),
            like_the_papers: brief::like_the_papers(finding),
            limiting: None,
            repeats: None,
        }
    }
}

/// Which findings are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Only those with this symptom.
    pub symptom: Option<Symptom>,
    /// At most so many; if nobody said, people see some and programs all.
    pub top: Option<usize>,
    /// However many there are, and their variants.
    pub all: bool,
}

impl Wanted {
    /// Whether this one is.
    pub fn has(&self, found: &Weighed<'_>) -> bool {
        self.symptom.is_none_or(|symptom| symptom == found.finding.symptom)
    }
}

/// What is read of a campaign to show it.
#[derive(Debug)]
pub struct CampaignContents {
    /// The campaign.
    pub campaign: Campaign,
    /// Its findings, in the order of their numbers.
    pub findings: Vec<FindingRecord>,
    /// Its anomalous experiments.
    pub anomalies: Vec<Anomaly>,
    /// What was measured beside experiments.
    pub again: Vec<MeasuredAgain>,
}

impl CampaignContents {
    /// Reads it.
    ///
    /// # Errors
    /// The store has no such campaign, or cannot be read.
    pub fn of(store: &mut Store, id: CampaignId) -> anyhow::Result<Self> {
        let campaign = store.campaign(id)?;
        let (findings, anomalies) = explained::read(store, id)?;
        Ok(Self { campaign, findings, anomalies, again: store.measured_again(id)? })
    }

    /// What its findings explain.
    pub fn explained(&self) -> Explained<'_> {
        Explained::new(&self.findings, &self.anomalies)
    }

    /// One of its findings.
    ///
    /// # Errors
    /// There is none with this number.
    pub fn weighed(&self, number: u64) -> anyhow::Result<Weighed<'_>> {
        let id = self.campaign.id;
        let explained = self.explained();
        let found = explained.all().find(|found| found.finding.number == number).copied();
        found.with_context(|| {
            format!("campaign {id} has no finding {number}; `kelpie campaign show {id} --all` lists them")
        })
    }

    /// What a workload shows that was measured anomalous, such as `pause 76 %`.
    pub fn shown(&self, workload: &Workload) -> Option<String> {
        let anomaly = self.anomalies.iter().find(|anomaly| anomaly.workload == *workload)?;
        Some(format!("{} {}", anomaly.symptom.name(), brief::lost(Some(anomaly.severity))))
    }

    /// What came of a finding's workload measured again; `None` if it was not.
    pub fn repeats(&self, finding: &FindingRecord) -> Option<Repeats> {
        let since = explained::witness(finding, &self.anomalies).map(|witness| witness.number);
        Repeats::of(&self.again, finding.number, since)
    }

    /// What says which part limits a workload: the simulated subsystem of the campaign; `None` on others.
    ///
    /// # Errors
    /// The stored model cannot be read.
    pub fn limiter(&self) -> anyhow::Result<Option<SimSubsystem>> {
        let definition = &self.campaign.definition;
        let is_simulated = definition.subsystem.starts_with("sim:");
        let open = || SimSubsystem::from_yaml(&definition.subsystem, &definition.subsystem_source);
        Ok(is_simulated.then(open).transpose()?)
    }

    /// A finding as JSON, with all that is known of it.
    pub fn document(
        &self,
        found: Weighed<'_>,
        explained: &Explained<'_>,
        limiter: &mut Option<SimSubsystem>,
    ) -> FindingDocument {
        FindingDocument {
            repeats: self.repeats(found.finding),
            limiting: limiter.as_mut().and_then(|subsystem| limiting(subsystem, &found.finding.workload)),
            variants: explained.variants_of(found.finding.number).map(|variant| variant.finding.number).collect(),
            ..FindingDocument::from(found)
        }
    }
}

/// The part that limits a workload on a simulated subsystem; no search sees it.
pub fn limiting(subsystem: &mut SimSubsystem, workload: &Workload) -> Option<String> {
    subsystem.measure(workload).ok().map(|_| subsystem.limiting().to_owned())
}

/// The document of a stored campaign with these of its findings.
///
/// # Errors
/// The store has no such campaign, or cannot be read.
pub fn of_campaign(
    store: &mut Store,
    id: CampaignId,
    wanted: Wanted,
    experiments: bool,
) -> anyhow::Result<CampaignDocument> {
    let read = CampaignContents::of(store, id)?;
    let explained = read.explained();
    let mut limiter = read.limiter()?;
    let mut left = wanted.top.unwrap_or(usize::MAX);
    let mut documents = |all: &[Weighed<'_>]| -> Vec<FindingDocument> {
        let shown: Vec<&Weighed<'_>> = all.iter().filter(|found| wanted.has(found)).take(left).collect();
        left -= shown.len();
        shown.into_iter().map(|found| read.document(*found, &explained, &mut limiter)).collect()
    };
    let (findings, candidates) = (documents(&explained.findings), documents(&explained.candidates));
    let campaign = &read.campaign;
    let none_found = none_found(store, id, &read.findings)?;
    let log = if experiments { Some(log(store, campaign)?) } else { None };
    let label = store.label(id)?;
    let definition = campaign.definition.clone();
    Ok(CampaignDocument {
        campaign: id,
        name: label.name,
        note: label.note,
        changed: changed(&definition),
        subsystem: definition.subsystem,
        space: definition.space,
        algorithm: definition.algorithm,
        signal: definition.signal,
        seed: definition.seed,
        state: campaign.state,
        budget: definition.budget,
        clock: None,
        experiments: campaign.experiments,
        skipped: campaign.skipped,
        checks: store.checks(id)?,
        findings,
        candidates,
        anomalous: read.anomalies.len(),
        unexplained: explained.unexplained.iter().copied().cloned().collect(),
        none_found,
        control: ControlReport::of(&read.again),
        gate: None,
        log,
    })
}

/// The same with when it ran.
///
/// # Errors
/// As above.
pub fn with_clock(store: &mut Store, id: CampaignId, wanted: Wanted) -> anyhow::Result<CampaignDocument> {
    Ok(CampaignDocument { clock: Some(store.clock(id)?), ..of_campaign(store, id, wanted, false)? })
}

/// The same with what a gate says of it.
///
/// # Errors
/// As above.
pub fn with_ruling(store: &mut Store, id: CampaignId, gate: Option<Ruling>) -> anyhow::Result<CampaignDocument> {
    Ok(CampaignDocument { gate, ..of_campaign(store, id, Wanted::default(), false)? })
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

/// An experiment of the log.
pub fn entry(experiment: &Experiment) -> Value {
    let Experiment { number, purpose, skipped_before, workload, outcome } = experiment;
    let mut entry = json!({
        "number": number, "purpose": purpose, "skipped_before": skipped_before, "workload": workload,
    });
    match outcome {
        ExperimentOutcome::Measured { measurement, assessment, attempts } => {
            entry["assessment"] = json!(assessment);
            entry["attempts"] = json!(attempts);
            entry["measurement"] = json!(measurement);
        }
        ExperimentOutcome::Unsupported { reason } => entry["unsupported"] = json!(reason),
    }
    entry
}

/// What it means that nothing was found; `None` if something was.
///
/// # Errors
/// The store cannot be read.
pub fn none_found(store: &mut Store, id: CampaignId, findings: &[FindingRecord]) -> anyhow::Result<Option<Absence>> {
    if !findings.is_empty() {
        return Ok(None);
    }
    let stored = StoredCampaign::read(store, id)?;
    Ok(absence(&stored, &stored.coverage()))
}

/// In what a simulated subsystem differs from the embedded model of its name; nothing for others.
pub fn changed(definition: &CampaignDefinition) -> Vec<Difference> {
    let embedded = definition.subsystem.strip_prefix("sim:").and_then(SimSubsystem::embedded);
    embedded.map_or_else(Vec::new, |model| identity::of_sources(&model.yaml(), &definition.subsystem_source))
}

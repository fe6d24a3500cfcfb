//! Recipes of findings of the store, and of anomalies of the paper, which are measured now.

use std::collections::BTreeMap;

use anyhow::Context;
use kelpie_engine::Subsystem as _;
use kelpie_examine::Say;
use kelpie_monitor::{Verdict, measure_judged};
use kelpie_reports::StoredCampaign;
use kelpie_reports::recipe::{self, HealthyNeighbour, MeasuredAnomaly, Recipe, RecipeMeasurement};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::known::{self, PaperAnomaly};
use kelpie_spaces::perftest::{Inexpressible, Lines};
use kelpie_spaces::{Region, Space, Workload};
use kelpie_store::{Campaign, CampaignId, FindingRecord, Store};

use crate::environment;

/// One finding of the database.
///
/// # Errors
///
/// There is no such campaign or finding, or the database cannot be read.
pub fn finding(store: &mut Store, id: CampaignId, number: u64) -> anyhow::Result<FindingRecord> {
    let id = store.campaign(id)?.id;
    numbered(&store.findings(id)?, id, number).cloned()
}

fn numbered(findings: &[FindingRecord], id: CampaignId, number: u64) -> anyhow::Result<&FindingRecord> {
    findings
        .iter()
        .find(|finding| finding.number == number)
        .with_context(|| format!("campaign {id} has no finding {number}; `kelpie campaign show {id}` lists them"))
}

/// One anomaly of the paper.
///
/// # Errors
///
/// The paper has no anomaly of this number.
pub fn known(id: u32) -> anyhow::Result<PaperAnomaly> {
    known::anomaly(id).with_context(|| format!("no anomaly {id}; the paper has 1 to 18"))
}

/// A stored finding on its way out.
pub struct ExportedFinding {
    /// Without its environment.
    pub recipe: Recipe,
    /// How perftest sends it.
    pub lines: Result<Lines, Inexpressible>,
    /// The campaign that has it.
    pub campaign: Campaign,
}

/// A recipe of a stored finding.
///
/// # Errors
///
/// As for [`finding`]; or no stored measurement shows the finding.
pub fn kept(store: &mut Store, id: CampaignId, number: u64) -> anyhow::Result<ExportedFinding> {
    let stored = StoredCampaign::read(store, id)?;
    let finding = numbered(&stored.findings, id, number)?;
    let lines = recipe::perftest_of(&stored, finding);
    let recipe = recipe::of_finding(&stored, finding).with_context(|| {
        format!(
            "campaign {id} holds no measurement of finding {number}'s workload that shows it, so there is no evidence"
        )
    })?;
    Ok(ExportedFinding { recipe, lines, campaign: stored.campaign })
}

/// A recipe of an anomaly of the paper, measured now on the simulated subsystem that shows it.
///
/// # Errors
///
/// The paper has no anomaly of this number, or the model does not show it.
pub fn of_paper(id: u32) -> anyhow::Result<Recipe> {
    let anomaly = known(id)?;
    let name = anomaly.subsystem.clone();
    let mut subsystem = SimSubsystem::load(&name)?;
    let workload = anomaly.trigger.workload();
    let (_, anomalous) = measure(&mut subsystem, &workload)?;
    let healthy = healthy_neighbour(&mut subsystem, &anomaly.conditions, &workload)?;
    let (bounds, model) = (subsystem.bounds(), subsystem.yaml());
    recipe::of_anomaly(MeasuredAnomaly { anomaly, bounds, model, anomalous, healthy })
        .with_context(|| format!("anomaly {id} does not show on sim:{name} as this Kelpie models it"))
}

fn measure(subsystem: &mut SimSubsystem, workload: &Workload) -> anyhow::Result<(Verdict, RecipeMeasurement)> {
    let bounds = subsystem.bounds();
    let judged = measure_judged(workload, &bounds, |workload, attempt| subsystem.measure_again(workload, attempt))?;
    let seen = RecipeMeasurement::new(&judged.measurement, &judged.assessment)
        .context("the simulated subsystem took no sample")?;
    Ok((judged.assessment.verdict, seen))
}

/// The first healthy workload among the nearest outside the conditions.
fn healthy_neighbour(
    subsystem: &mut SimSubsystem,
    mfs: &Region,
    workload: &Workload,
) -> anyhow::Result<Option<HealthyNeighbour>> {
    let space = Space::catalog("full").expect("the catalog has the full space");
    for workload in space.outside(mfs, workload) {
        let (verdict, seen) = measure(subsystem, &workload)?;
        if verdict == Verdict::Healthy {
            return Ok(Some(HealthyNeighbour { workload, seen }));
        }
    }
    Ok(None)
}

/// The recipes of a campaign's findings as archives, by the findings' numbers; none if a finding has no evidence.
///
/// `say` hears of a finding that a recipe cannot hold.
///
/// # Errors
///
/// The stored subsystem cannot be read, or an archive cannot be written.
pub fn archives(stored: &StoredCampaign, say: Say<'_>) -> anyhow::Result<BTreeMap<u64, Vec<u8>>> {
    let known = environment::of(&stored.campaign.definition, false, [None; 2])?;
    let mut archives = BTreeMap::new();
    for finding in &stored.findings {
        let Some(recipe) = recipe::of_finding(stored, finding) else { continue };
        let recipe = Recipe { environment: known.environment.clone(), ..recipe };
        let recipe = recipe::without_names(recipe, &known.names);
        let lines = recipe::perftest_of(stored, finding);
        match recipe::entries(&recipe, &lines) {
            Ok(entries) => {
                archives.insert(finding.number, recipe::archive(&entries)?);
            }
            // One finding that a recipe cannot hold is no reason to go without a report.
            Err(error) => say(&format!("finding {}: no recipe: {error}", recipe.finding)),
        }
    }
    Ok(archives)
}

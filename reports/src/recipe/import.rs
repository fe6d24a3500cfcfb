//! A recipe as a campaign of its own in the store, whose experiments are the measurements that came with it.

use kelpie_monitor::{Assessment, Measurement, Symptom};
use kelpie_spaces::{Space, Workload};
use kelpie_store::{
    CampaignDefinition, CampaignId, CampaignState, Experiment, ExperimentClock, ExperimentOutcome, FindingRecord,
    Store, StoreError, StoredPurpose, unix_ms,
};
use serde_json::json;

use super::format::{Recipe, RecipeMeasurement};

/// In the place of an algorithm: the campaign of an imported finding.
pub const IMPORT: &str = "import";

/// Stores a recipe; says which campaign holds it, and whether that had to be made.
///
/// # Errors
/// The database cannot be read or written, or somebody else is importing the same recipe.
pub fn import(store: &mut Store, recipe: &Recipe) -> Result<(CampaignId, bool), StoreError> {
    let definition = definition(recipe);
    let finding = finding(recipe);
    let mut begun = None;
    for campaign in store.campaigns()?.into_iter().filter(|campaign| campaign.definition == definition) {
        let findings = store.findings(campaign.id)?;
        if findings.first() == Some(&finding) && campaign.state == CampaignState::Finished {
            return Ok((campaign.id, false));
        }
        // An import that was killed left what it had got to; its rest is stored now.
        if findings.first().is_none_or(|first| *first == finding) && campaign.state == CampaignState::Stopped {
            begun = Some(campaign);
        }
    }
    let (id, lock) = match &begun {
        Some(campaign) => (campaign.id, store.lock_campaign(campaign.id)?),
        None => store.begin_campaign(&definition, &[])?,
    };
    let (experiments_done, findings_done) = begun.map_or((0, 0), |campaign| (campaign.experiments, campaign.findings));
    for experiment in experiments(recipe).into_iter().filter(|experiment| experiment.number > experiments_done) {
        store.append_experiment(id, &experiment, clock())?;
    }
    if findings_done == 0 {
        store.put_finding(id, &finding)?;
    }
    store.finish_campaign(id, 0)?;
    drop(lock);
    Ok((id, true))
}

fn definition(recipe: &Recipe) -> CampaignDefinition {
    let space = Space::catalog("full").expect("the catalog has the full space");
    CampaignDefinition {
        kelpie_version: recipe.kelpie_version.clone(),
        subsystem: recipe.environment.subsystem.clone(),
        subsystem_source: recipe.environment.model.clone().unwrap_or_default(),
        bounds: recipe.expected.bounds,
        space: space.name().to_owned(),
        space_source: space.to_yaml(),
        algorithm: IMPORT.to_owned(),
        signal: "none".to_owned(),
        seed: recipe.seed.unwrap_or(0),
        config: json!({"recipe": recipe.finding}).to_string(),
        budget: None,
    }
}

fn finding(recipe: &Recipe) -> FindingRecord {
    let symptoms = &recipe.expected.symptoms;
    FindingRecord {
        number: 1,
        symptom: symptoms.first().copied().unwrap_or(Symptom::Pause),
        found_at: 1,
        experiments_for_mfs: 0,
        confidence: recipe.expected.confidence,
        mfs: recipe.mfs.clone(),
        workload: recipe.workload.clone(),
        evidence: json!({"imported": recipe.finding, "symptoms": symptoms, "hosts": recipe.environment.hosts}),
    }
}

/// The measurements that came with the recipe: the anomalous one, then the healthy one.
fn experiments(recipe: &Recipe) -> Vec<Experiment> {
    let experiment = |number, workload: &Workload, seen: &RecipeMeasurement| Experiment {
        number,
        purpose: StoredPurpose::Import,
        skipped_before: 0,
        workload: workload.clone(),
        outcome: ExperimentOutcome::Measured {
            measurement: Measurement {
                samples: vec![seen.mean.clone()],
                hardware_events: seen.hardware_events.clone(),
                capacity: seen.capacity,
                ..Measurement::default()
            },
            assessment: Assessment::of_symptoms(seen.symptoms.clone()),
            attempts: 1,
        },
    };
    let anomalous = experiment(1, &recipe.workload, &recipe.anomalous);
    let healthy = recipe.healthy.as_ref().map(|healthy| experiment(2, &healthy.workload, &healthy.seen));
    std::iter::once(anomalous).chain(healthy).collect()
}

/// When it was imported; when it was measured is not known.
fn clock() -> ExperimentClock {
    ExperimentClock { started_unix_ms: unix_ms(), duration_seconds: 0.0 }
}

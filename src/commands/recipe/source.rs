//! What a recipe is made of: a finding with its measurements from the store, or an anomaly of the paper measured now.

use anyhow::{Context, bail};
use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Assessment, Measurement, Symptom, Verdict, measure_judged};
use kelpie_reports::recipe::{Background, Environment, Expected, Neighbour, Recipe, Seen};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::known::{self, Anomaly, Sign};
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Space, Test, Workload};
use kelpie_store::{Campaign, CampaignId, FindingRecord, Outcome, Store};

use crate::cli::DatabaseArgs;
use crate::commands::findings::claims;

/// Workloads that are measured in each round to find a healthy one beside an anomaly of the paper. Source: our choice,
/// because the nearest few nearly always suffice.
const MOST_TRIED: usize = 64;

/// One finding of the database.
pub fn finding(database: &DatabaseArgs, id: CampaignId, number: u64) -> anyhow::Result<FindingRecord> {
    let path = database.path()?;
    let mut store = Store::open_to_read(&path)?;
    of_campaign(&mut store, id, number)
}

fn of_campaign(store: &mut Store, id: CampaignId, number: u64) -> anyhow::Result<FindingRecord> {
    let campaign = store.campaign(id)?;
    claims(store, &campaign)?
        .into_iter()
        .find(|finding| finding.number == number)
        .with_context(|| format!("campaign {id} has no finding {number}; `kelpie campaign show {id}` lists them"))
}

/// One anomaly of the paper.
pub fn known(id: u32) -> anyhow::Result<Anomaly> {
    known::anomaly(id).with_context(|| format!("no anomaly {id}; the paper has 1 to 18"))
}

/// A recipe of a stored finding, without its environment, and the campaign that has it.
pub fn kept(database: &DatabaseArgs, id: CampaignId, number: u64) -> anyhow::Result<(Recipe, Campaign)> {
    let mut store = Store::open_to_read(&database.path()?)?;
    let campaign = store.campaign(id)?;
    let finding = of_campaign(&mut store, id, number)?;
    let recipe = of_findings(&mut store, &campaign, vec![finding])?.pop().with_context(|| {
        format!(
            "campaign {id} holds no measurement of finding {number}'s workload that shows it, so there is no evidence"
        )
    })?;
    Ok((recipe.1, campaign))
}

/// Recipes of these findings of a campaign with their numbers, without their environment; none of a finding without evidence.
pub fn of_findings(
    store: &mut Store,
    campaign: &Campaign,
    findings: Vec<FindingRecord>,
) -> anyhow::Result<Vec<(u64, Recipe)>> {
    let measured = measurements(store, campaign, &findings)?;
    let of = |(finding, (anomalous, healthy)): (FindingRecord, Measured)| {
        let anomalous = anomalous?;
        let expected = Expected {
            verdict: Verdict::Anomalous,
            symptoms: ordered(finding.symptom, &anomalous.symptoms),
            bounds: campaign.plan.bounds,
            confidence: finding.confidence,
        };
        let (name, seed) = (format!("{}.{}", campaign.id, finding.number), Some(campaign.plan.seed));
        Some((finding.number, recipe(name, seed, finding.workload, finding.mfs, expected, anomalous, healthy)))
    };
    Ok(findings.into_iter().zip(measured).filter_map(of).collect())
}

fn recipe(
    finding: String,
    seed: Option<u64>,
    workload: Workload,
    mfs: Region,
    expected: Expected,
    anomalous: Seen,
    healthy: Option<Neighbour>,
) -> Recipe {
    Recipe {
        kelpie: Recipe::FORMAT.to_owned(),
        kelpie_version: env!("CARGO_PKG_VERSION").to_owned(),
        finding,
        seed,
        workload,
        mfs,
        expected,
        anomalous,
        healthy,
        environment: Environment::default(),
        background: None,
    }
}

/// The finding's own symptom first, then whatever else was seen.
fn ordered(own: Symptom, seen: &[Symptom]) -> Vec<Symptom> {
    let others = seen.iter().copied().filter(|symptom| *symptom != own);
    std::iter::once(own).chain(others).collect()
}

/// What shows a finding, and a healthy neighbour.
type Measured = (Option<Seen>, Option<Neighbour>);

/// For each finding the latest measurement of its workload that shows it, and the healthy workload outside its region that
/// differs in the fewest features.
fn measurements(store: &mut Store, campaign: &Campaign, findings: &[FindingRecord]) -> anyhow::Result<Vec<Measured>> {
    let mut measured: Vec<Measured> = findings.iter().map(|_| (None, None)).collect();
    let mut nearest = vec![usize::MAX; findings.len()];
    store.experiments(campaign.id, |experiment| {
        let Outcome::Measured { measurement, assessment, .. } = experiment.outcome else { return };
        let workload = experiment.workload;
        for ((finding, nearest), (anomalous, healthy)) in findings.iter().zip(&mut nearest).zip(&mut measured) {
            if workload == finding.workload && assessment.symptoms.contains(&finding.symptom) {
                *anomalous = seen(&measurement, &assessment);
            } else if assessment.verdict == Verdict::Healthy && !finding.mfs.contains(&workload) {
                let distance = workload.differing(&finding.workload).len();
                if distance < *nearest {
                    *nearest = distance;
                    let neighbour = |seen| Neighbour { workload: workload.clone(), seen };
                    *healthy = seen(&measurement, &assessment).map(neighbour);
                }
            }
        }
    })?;
    Ok(measured)
}

fn seen(measurement: &Measurement, assessment: &Assessment) -> Option<Seen> {
    Some(Seen {
        symptoms: assessment.symptoms.clone(),
        mean: measurement.mean()?,
        hardware_events: measurement.hardware_events.clone(),
    })
}

/// A recipe of an anomaly of the paper, measured now on the simulated subsystem that shows it.
pub fn of_paper(id: u32) -> anyhow::Result<Recipe> {
    let anomaly = known(id)?;
    let mut subsystem = SimSubsystem::load(&anomaly.subsystem)?;
    let workload = anomaly.trigger.workload();
    let symptom = match anomaly.symptom {
        Sign::Pause => Symptom::Pause,
        Sign::Low => Symptom::LowThroughput,
    };
    let (verdict, anomalous) = measure(&mut subsystem, &workload)?;
    if verdict != Verdict::Anomalous || !anomalous.symptoms.contains(&symptom) {
        bail!("anomaly {id} does not show on sim:{} as this Kelpie models it", anomaly.subsystem);
    }
    let healthy = broken(&workload, &anomaly.conditions, &mut subsystem)?;
    let expected = Expected {
        verdict,
        symptoms: ordered(symptom, &anomalous.symptoms),
        bounds: subsystem.bounds(),
        // No workload inside the paper's conditions was measured but this one.
        confidence: 0.0,
    };
    let recipe = recipe(format!("anomaly:{id}"), None, workload, anomaly.conditions, expected, anomalous, healthy);
    Ok(Recipe {
        environment: Environment {
            subsystem: format!("sim:{}", anomaly.subsystem),
            model: Some(subsystem.yaml()),
            hosts: None,
        },
        background: Some(Background {
            source: format!("Collie (Kong et al., NSDI 2022), table 2 and appendix A, anomaly {id}"),
            premise: anomaly.premise,
            cause: anomaly.cause,
            fix: anomaly.fix,
            note: anomaly.note,
        }),
        ..recipe
    })
}

fn measure(subsystem: &mut SimSubsystem, workload: &Workload) -> anyhow::Result<(Verdict, Seen)> {
    let bounds = subsystem.bounds();
    let judged = measure_judged(workload, &bounds, |workload| subsystem.measure(workload))?;
    let seen = seen(&judged.measurement, &judged.assessment).context("the simulated subsystem took no sample")?;
    Ok((judged.assessment.verdict, seen))
}

/// The first healthy workload among those with one condition broken, the nearest first; where these all fall into
/// another anomaly, among those with one feature more changed.
fn broken(workload: &Workload, mfs: &Region, subsystem: &mut SimSubsystem) -> anyhow::Result<Option<Neighbour>> {
    let space = Space::catalog("full").expect("the catalog has the full space");
    let outside = |condition: &Condition| {
        let values = values_outside(&space, workload, condition).into_iter();
        let changed = values.filter_map(|value| space.with_feature(workload, condition.feature, &value));
        changed.filter(|changed| !mfs.contains(changed)).collect::<Vec<_>>()
    };
    let nearest = |mut candidates: Vec<Workload>| {
        candidates.sort_by_key(|changed| changed.differing(workload).len());
        candidates.truncate(MOST_TRIED);
        candidates
    };
    let once = nearest(mfs.conditions.iter().flat_map(outside).collect());
    let twice = once.iter().flat_map(|changed| {
        let moves = Feature::ALL
            .into_iter()
            .flat_map(|feature| space.feature_values(feature).into_iter().map(move |value| (feature, value)));
        moves.filter_map(|(feature, value)| space.with_feature(changed, feature, &value)).collect::<Vec<_>>()
    });
    let twice = nearest(twice.filter(|changed| !mfs.contains(changed)).collect());
    for workload in once.into_iter().chain(twice) {
        let (verdict, seen) = measure(subsystem, &workload)?;
        if verdict == Verdict::Healthy {
            return Ok(Some(Neighbour { workload, seen }));
        }
    }
    Ok(None)
}

fn values_outside(space: &Space, workload: &Workload, condition: &Condition) -> Vec<FeatureValue> {
    let values = space.feature_values(condition.feature).into_iter();
    let mut outside: Vec<FeatureValue> = values.filter(|value| !condition.admits(value)).collect();
    if let (Test::Range { .. }, Some(now)) = (&condition.test, workload.feature(condition.feature).number()) {
        outside.sort_by_key(|value| value.number().map(|number| number.abs_diff(now)));
    }
    outside
}

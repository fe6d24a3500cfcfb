//! From a finding, stored or of the paper, to its recipe and the files of that. Nothing is measured.

use kelpie_monitor::{Assessment, Bounds, Measurement, Symptom, Verdict};
use kelpie_spaces::known::{PaperAnomaly, Sign};
use kelpie_spaces::perftest::{self, Inexpressible, Lines};
use kelpie_store::FindingRecord;

use super::check::{parse, told_plainly};
use super::error::RecipeError;
use super::format::{
    Background, Environment, ExpectedVerdict, HealthyNeighbour, PERFTEST, README, RECIPE, Recipe, RecipeMeasurement,
};
use super::readme::{perftest_text, readme};
use super::scrub::scrub;
use crate::stored_campaign::{ExperimentSummary, StoredCampaign};

/// The recipe of a campaign's finding, without its environment; `None` if no measurement of its workload shows it.
pub fn of_finding(stored: &StoredCampaign, finding: &FindingRecord) -> Option<Recipe> {
    let anomalous = seen_at(stored, stored.proof(finding)?)?;
    let definition = &stored.campaign.definition;
    let expected = ExpectedVerdict {
        verdict: Verdict::Anomalous,
        symptoms: ordered(finding.symptom, &anomalous.symptoms),
        bounds: definition.bounds,
        confidence: finding.confidence,
    };
    let neighbour = |point: &ExperimentSummary| {
        Some(HealthyNeighbour { workload: point.workload.clone(), seen: seen_at(stored, point)? })
    };
    Some(Recipe {
        kelpie: Recipe::FORMAT.to_owned(),
        kelpie_version: env!("CARGO_PKG_VERSION").to_owned(),
        finding: format!("{}.{}", stored.campaign.id, finding.number),
        seed: Some(definition.seed),
        workload: finding.workload.clone(),
        mfs: stored.space.in_whole_space(&finding.mfs),
        expected,
        anomalous,
        healthy: stored.healthy_neighbour(finding).and_then(neighbour),
        environment: Environment::default(),
        background: None,
    })
}

/// An anomaly of the paper as it was measured just now on the simulated subsystem that is to show it.
#[derive(Debug)]
pub struct MeasuredAnomaly {
    /// The anomaly.
    pub anomaly: PaperAnomaly,
    /// What the subsystem does at best.
    pub bounds: Bounds,
    /// Its whole model as YAML.
    pub model: String,
    /// What the anomaly's workload shows.
    pub anomalous: RecipeMeasurement,
    /// A healthy workload outside the anomaly's conditions.
    pub healthy: Option<HealthyNeighbour>,
}

/// The recipe of an anomaly of the paper; `None` if what was measured does not show its symptom.
pub fn of_anomaly(measured: MeasuredAnomaly) -> Option<Recipe> {
    let MeasuredAnomaly { anomaly, bounds, model, anomalous, healthy } = measured;
    let symptom = match anomaly.symptom {
        Sign::Pause => Symptom::Pause,
        Sign::Low => Symptom::LowThroughput,
    };
    if !anomalous.symptoms.contains(&symptom) {
        return None;
    }
    // No workload inside the paper's conditions was measured but this one.
    let confidence = 0.0;
    let symptoms = ordered(symptom, &anomalous.symptoms);
    Some(Recipe {
        kelpie: Recipe::FORMAT.to_owned(),
        kelpie_version: env!("CARGO_PKG_VERSION").to_owned(),
        finding: format!("anomaly:{}", anomaly.id),
        seed: None,
        workload: anomaly.trigger.workload(),
        mfs: anomaly.conditions,
        expected: ExpectedVerdict { verdict: Verdict::Anomalous, symptoms, bounds, confidence },
        anomalous,
        healthy,
        environment: Environment { subsystem: format!("sim:{}", anomaly.subsystem), model: Some(model), hosts: None },
        background: Some(Background {
            source: format!("Collie (Kong et al., NSDI 2022), table 2 and appendix A, anomaly {}", anomaly.id),
            premise: anomaly.premise,
            cause: anomaly.cause,
            fix: anomaly.fix,
            note: anomaly.note,
        }),
    })
}

/// How perftest sends a finding: its workload, else the first one of its region that was measured with its symptom and
/// that perftest can send.
///
/// # Errors
/// Why perftest cannot send the finding's own workload, if it can send none of them.
pub fn perftest_of(stored: &StoredCampaign, finding: &FindingRecord) -> Result<Lines, Inexpressible> {
    perftest::lines(&finding.workload).or_else(|reason| {
        let shows = |point: &&ExperimentSummary| point.symptoms.contains(&finding.symptom);
        let other = stored.fulfilling(&finding.mfs.conditions).filter(shows).find_map(|point| {
            let mut lines = perftest::lines(&point.workload).ok()?;
            lines.differences.insert(
                0,
                format!(
                    "perftest cannot send the workload of the recipe ({reason}), so these lines send another one within \
                     its conditions that showed the symptom, experiment {}: {}",
                    point.number,
                    point.workload.summary()
                ),
            );
            Some(lines)
        });
        other.ok_or(reason)
    })
}

impl RecipeMeasurement {
    /// What a measurement showed; `None` if it has no samples.
    pub fn new(measurement: &Measurement, assessment: &Assessment) -> Option<Self> {
        Some(Self {
            symptoms: assessment.symptoms.clone(),
            mean: measurement.mean()?,
            hardware_events: measurement.hardware_events.clone(),
            capacity: measurement.capacity,
        })
    }
}

fn seen_at(stored: &StoredCampaign, point: &ExperimentSummary) -> Option<RecipeMeasurement> {
    let detail = stored.detail(point)?;
    let (symptoms, hardware_events) = (point.symptoms.clone(), detail.events.clone());
    Some(RecipeMeasurement { symptoms, mean: detail.mean.clone()?, hardware_events, capacity: detail.capacity })
}

/// The finding's own symptom first, then whatever else was seen.
fn ordered(own: Symptom, seen: &[Symptom]) -> Vec<Symptom> {
    let others = seen.iter().copied().filter(|symptom| *symptom != own);
    std::iter::once(own).chain(others).collect()
}

/// Takes names and addresses out of the only free text that a recipe's measurements have.
#[must_use]
pub fn without_names(mut recipe: Recipe, names: &[String]) -> Recipe {
    let seen = std::iter::once(&mut recipe.anomalous).chain(recipe.healthy.as_mut().map(|healthy| &mut healthy.seen));
    for event in seen.flat_map(|seen| &mut seen.hardware_events) {
        *event = scrub(event, names);
    }
    recipe
}

/// The files of a recipe; without those of perftest if that cannot send its workload.
///
/// # Errors
/// The recipe breaks a rule, so that whoever gets it could not read it.
pub fn entries(
    recipe: &Recipe,
    lines: &Result<Lines, Inexpressible>,
) -> Result<Vec<(&'static str, String)>, RecipeError> {
    let recipe = &told_plainly(recipe.clone());
    let json = serde_json::to_string_pretty(recipe);
    let refused =
        |problem: serde_json::Error| RecipeError::Json { key: "the whole".to_owned(), problem: problem.to_string() };
    let mut text = json.map_err(refused)?;
    text.push('\n');
    parse(&text)?;
    let mut entries = vec![(RECIPE, text), (README, readme(recipe, lines))];
    if let Ok(lines) = lines {
        entries.push((PERFTEST, perftest_text(lines)));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{finding, measured, one_finding, sample, stored_campaign, workload};

    #[test]
    fn a_recipe_shows_the_finding_and_the_neighbour_of_its_page() {
        let stored = one_finding();
        let recipe = of_finding(&stored, &stored.findings[0]).expect("it was measured");
        assert_eq!((recipe.finding.as_str(), recipe.seed), ("1.1", Some(7)));
        assert_eq!(recipe.expected.symptoms, [Symptom::LowThroughput]);
        assert_eq!(recipe.healthy.expect("one is healthy").workload, workload(2, 4096));
    }

    #[test]
    fn what_a_driver_says_keeps_no_finding_from_being_told() {
        let stored = one_finding();
        let mut recipe = of_finding(&stored, &stored.findings[0]).expect("it was measured");
        recipe.environment.subsystem = "pair".to_owned();
        let hostile = "rx\u{1b}[2J\u{0}_errors";
        let counters = &mut recipe.anomalous.mean.counters.a;
        counters.insert(hostile.to_owned(), 7.0);
        counters.insert(String::new(), 1.0);
        counters.insert("x".repeat(5000), 1.0);
        counters.extend((0..9000).map(|number| (format!("y{number}"), 0.0)));
        recipe.anomalous.hardware_events = vec!["\u{202e}".repeat(900); 900];
        let lines = perftest::lines(&recipe.workload);
        let files = entries(&recipe, &lines).expect("a recipe all the same");
        let read = parse(&files[0].1).expect("whoever gets it can read it");
        assert_eq!(read.anomalous.mean.counters.a.get("rx\\u{1b}[2J\\u{0}_errors"), Some(&7.0));
    }

    #[test]
    fn without_a_measurement_there_is_no_recipe() {
        let mut stored = one_finding();
        stored.points[1].symptoms.clear();
        assert!(of_finding(&stored, &stored.findings[0]).is_none());
    }

    #[test]
    fn the_findings_own_symptom_comes_first() {
        let both = vec![Symptom::Pause, Symptom::LowThroughput];
        let anomalous = measured(1, workload(4, 4096), sample(0.3, Some(0.2)), both);
        let stored = stored_campaign(vec![anomalous], vec![finding(1, 1, workload(4, 4096))]);
        let recipe = of_finding(&stored, &stored.findings[0]).expect("it was measured");
        assert_eq!(recipe.expected.symptoms, [Symptom::LowThroughput, Symptom::Pause]);
        assert_eq!(recipe.anomalous.symptoms, [Symptom::Pause, Symptom::LowThroughput]);
    }

    #[test]
    fn perftest_sends_another_workload_of_the_region_if_it_cannot_send_the_findings_own() {
        let low = || vec![Symptom::LowThroughput];
        let mut wide = workload(4, 4096);
        wide.flows[0].pattern[0].sge = vec![kelpie_spaces::Bytes(1024); 2];
        assert!(perftest::lines(&wide).is_err());
        let inside = measured(2, workload(3, 4096), sample(0.3, None), low());
        let all = |second| vec![measured(1, wide.clone(), sample(0.3, None), low()), second];
        let lines = |second| {
            let stored = stored_campaign(all(second), vec![finding(1, 1, wide.clone())]);
            perftest_of(&stored, &stored.findings[0])
        };
        let found = lines(inside).expect("the second experiment can be sent");
        assert_eq!(found.client, perftest::lines(&workload(3, 4096)).expect("plain traffic").client);
        assert!(found.differences[0].contains("experiment 2"), "{:?}", found.differences);
        for other in [
            measured(2, workload(1, 4096), sample(0.3, None), low()),
            measured(2, workload(3, 4096), sample(0.95, None), Vec::new()),
        ] {
            assert!(lines(other).is_err(), "it is outside of the region, or healthy");
        }
    }
}

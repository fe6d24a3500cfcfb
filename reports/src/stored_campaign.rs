//! A campaign as a report needs it: its findings, and each experiment with its samples averaged. No words, no markup.

use std::collections::BTreeMap;

use kelpie_monitor::{Bounds, Check, Sample, Severity, Symptom, Verdict};
use kelpie_search::Observation;
use kelpie_spaces::{Space, SpaceError, Workload, nearest_outside};
use kelpie_store::{
    Anomaly, Campaign, CampaignId, Ended, Experiment, FindingRecord, Label, Outcome, Purpose, Store, StoreError,
};

use crate::coverage::{Coverage, coverage};

/// What went wrong while a campaign was read for a report.
#[derive(Debug, thiserror::Error)]
pub enum StoredCampaignError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The space stored with the campaign.
    #[error("the space stored with campaign {id}, which Kelpie {version} began, cannot be read")]
    Space {
        /// The campaign.
        id: CampaignId,
        /// Who began it.
        version: String,
        /// Why.
        #[source]
        source: Box<SpaceError>,
    },
}

/// All that a report says of a campaign.
#[derive(Debug)]
pub struct StoredCampaign {
    /// The campaign.
    pub campaign: Campaign,
    /// The space that it searched.
    pub space: Space,
    /// Its findings, in the order they were made.
    pub findings: Vec<FindingRecord>,
    /// Its experiments, in order.
    pub points: Vec<Point>,
    /// What was looked at on its hosts before it began.
    pub checks: Vec<Check>,
    /// What people say of it.
    pub label: Label,
}

/// One experiment, its samples averaged.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its number in the campaign, from 1.
    pub number: u64,
    /// What it was for.
    pub purpose: Purpose,
    /// What was run.
    pub workload: Workload,
    /// How it ended.
    pub ended: Ended,
    /// What was seen; nothing if it is not anomalous.
    pub symptoms: Vec<Symptom>,
    /// The mean of its samples, if it has any.
    pub mean: Option<Sample>,
    /// The signals that the search looks at.
    pub signals: BTreeMap<String, f64>,
    /// What went wrong on the hardware's side.
    pub events: Vec<String>,
    /// How bad it was, if it was anomalous.
    pub severity: Option<Severity>,
}

impl Point {
    /// An experiment on a subsystem with these bounds.
    pub fn new(experiment: Experiment, bounds: &Bounds) -> Self {
        let Experiment { number, purpose, workload, outcome, .. } = experiment;
        let (ended, symptoms, mean, signals, events, severity) = match outcome {
            Outcome::Measured { measurement, assessment, .. } => {
                let anomaly = Anomaly::of(number, &workload, &measurement, &assessment, bounds);
                let severity = anomaly.map(|anomaly| anomaly.severity);
                let observation = Observation::new(&measurement, assessment, bounds);
                let ended = Ended::Judged(observation.assessment.verdict);
                let symptoms = observation.assessment.symptoms;
                (ended, symptoms, measurement.mean(), observation.signals, measurement.hardware_events, severity)
            }
            Outcome::Unsupported { .. } => (Ended::Unsupported, Vec::new(), None, BTreeMap::new(), Vec::new(), None),
        };
        Self { number, purpose, workload, ended, symptoms, mean, signals, events, severity }
    }

    /// Whether it says something about its workload.
    pub fn is_conclusive(&self) -> bool {
        matches!(self.ended, Ended::Judged(Verdict::Healthy | Verdict::Anomalous))
    }
}

/// The space that a campaign searched.
pub(crate) fn space_of(campaign: &Campaign) -> Result<Space, StoredCampaignError> {
    campaign.definition.space().map_err(|source| StoredCampaignError::Space {
        id: campaign.id,
        version: campaign.definition.kelpie_version.clone(),
        source: Box::new(source),
    })
}

impl StoredCampaign {
    /// Reads a campaign.
    ///
    /// # Errors
    /// The database cannot be read, there is no such campaign, or it was stored with a space that is none.
    pub fn read(store: &mut Store, id: CampaignId) -> Result<Self, StoredCampaignError> {
        let campaign = store.campaign(id)?;
        // Before the experiments: a campaign that is running may add to both, and a finding names its experiment.
        let findings = store.findings(id)?;
        let space = space_of(&campaign)?;
        let mut points = Vec::new();
        store.experiments(id, |experiment| points.push(Point::new(experiment, &campaign.definition.bounds)))?;
        let (checks, label) = (store.checks(id)?, store.label(id)?);
        Ok(Self { campaign, space, findings, points, checks, label })
    }

    /// An experiment by its number.
    pub fn point(&self, number: u64) -> Option<&Point> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.points.get(index).filter(|point| point.number == number)
    }

    /// Its anomalous experiments, in order.
    pub fn anomalies(&self) -> Vec<Anomaly> {
        let anomaly = |point: &Point| {
            let (symptom, severity) = (*point.symptoms.first()?, point.severity?);
            let reason = (symptom == Symptom::HostFailure).then(|| point.events.last().cloned()).flatten();
            Some(Anomaly { number: point.number, symptom, severity, workload: point.workload.clone(), reason })
        };
        self.points.iter().filter_map(anomaly).collect()
    }

    /// How much of its space was measured with a verdict.
    pub fn coverage(&self) -> Coverage {
        let conclusive = self.points.iter().filter(|point| point.is_conclusive());
        coverage(&self.space, conclusive.map(|point| &point.workload))
    }

    /// How many experiments ended so.
    pub fn count(&self, ended: Ended) -> usize {
        self.points.iter().filter(|point| point.ended == ended).count()
    }

    /// The experiment that shows a finding: the first of its own, simplified workload that shows its symptom.
    pub fn proof(&self, finding: &FindingRecord) -> Option<&Point> {
        let shows = |point: &&Point| point.symptoms.contains(&finding.symptom) && point.workload == finding.workload;
        self.points.iter().find(shows)
    }

    /// The healthy experiment that a finding is compared with: outside its region, unlike its workload in the fewest
    /// features, of several the first.
    pub fn healthy_neighbour(&self, finding: &FindingRecord) -> Option<&Point> {
        let healthy = self.points.iter().filter(|point| point.ended == Ended::Judged(Verdict::Healthy));
        nearest_outside(&finding.workload, &finding.mfs, healthy, |point| &point.workload).into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        finding, inconclusive, measured, one_finding, sample, stored_campaign, unsupported, workload,
    };
    use kelpie_monitor::Symptom;
    use kelpie_spaces::Feature;

    #[test]
    fn the_neighbour_is_healthy_and_differs_least() {
        let stored = one_finding();
        let neighbour = stored.healthy_neighbour(&stored.findings[0]).unwrap();
        assert_eq!(neighbour.number, 5, "experiment 1 differs in the MTU too");
        let differs = stored.findings[0].workload.differing(&neighbour.workload);
        assert!(differs.contains(&Feature::Qps) && !differs.contains(&Feature::Mtu));
    }

    #[test]
    fn without_healthy_experiments_there_is_no_neighbour() {
        let low = vec![Symptom::LowThroughput];
        let stored = stored_campaign(
            vec![measured(1, workload(4, 1024), sample(0.2, None), low), inconclusive(2), unsupported(3)],
            vec![finding(1, 1, workload(4, 1024))],
        );
        assert!(stored.healthy_neighbour(&stored.findings[0]).is_none());
        assert_eq!(stored.count(Ended::Unsupported), 1);
        assert_eq!(stored.count(Ended::Judged(Verdict::Inconclusive)), 1);
        assert!(!stored.points[1].is_conclusive() && !stored.points[2].is_conclusive());
    }

    #[test]
    fn a_healthy_workload_inside_the_region_is_no_neighbour() {
        // It differs in one feature only, the one outside in more.
        let inside = measured(6, workload(4, 1024), sample(0.9, None), Vec::new());
        let mut stored = one_finding();
        stored.points.push(Point::new(inside, &stored.campaign.definition.bounds));
        assert_eq!(stored.healthy_neighbour(&stored.findings[0]).unwrap().number, 5);
    }

    #[test]
    fn of_equal_neighbours_the_first_counts() {
        let again = measured(6, workload(2, 4096), sample(0.99, None), Vec::new());
        let mut stored = one_finding();
        stored.points.push(Point::new(again, &stored.campaign.definition.bounds));
        assert_eq!(stored.healthy_neighbour(&stored.findings[0]).unwrap().number, 5);
    }

    #[test]
    fn only_the_findings_own_workload_with_its_symptom_is_a_proof() {
        let mut stored = one_finding();
        assert_eq!(stored.proof(&stored.findings[0]).unwrap().number, 2);
        stored.findings[0].symptom = Symptom::Pause;
        assert!(stored.proof(&stored.findings[0]).is_none(), "another symptom");
        stored.findings[0].symptom = Symptom::LowThroughput;
        stored.findings[0].workload = workload(4, 1024);
        assert!(stored.proof(&stored.findings[0]).is_none(), "another workload");
        assert!(stored.point(0).is_none() && stored.point(6).is_none());
    }
}

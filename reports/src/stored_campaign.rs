//! A campaign as a report needs it: its findings, a little of each experiment, more of those that findings rest on. No
//! words, no markup.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_monitor::{Bounds, Check, Sample, Severity, Symptom, Verdict};
use kelpie_search::{UTILISATION, measured_signals};
use kelpie_spaces::{Condition, Space, SpaceError, Workload};
use kelpie_store::{
    Anomaly, Campaign, CampaignClock, CampaignId, Ended, Experiment, ExperimentOutcome, FindingRecord, Label,
    MeasuredAgain, Store, StoreError, StoredPurpose,
};

use crate::coverage::{Coverage, coverage};
use crate::feature_codes::FeatureCodes;
use crate::identity::Difference;
use crate::signal_history::SignalHistories;

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

/// Experiments for which room is made at once. Source: our choice, some hundred megabytes.
const MOST_AT_ONCE: u64 = 1 << 20;

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
    pub points: Vec<ExperimentSummary>,
    /// Their workloads, to test conditions on.
    codes: FeatureCodes,
    /// The place of the healthy neighbour of each finding, by its number, once all experiments are read.
    neighbours: BTreeMap<u64, Option<usize>>,
    /// Its signals over the experiments.
    pub courses: SignalHistories,
    /// What was seen in the experiments that reports look at more closely, by their numbers.
    pub details: BTreeMap<u64, Detail>,
    /// What was looked at on its hosts before it began.
    pub checks: Vec<Check>,
    /// What people say of it.
    pub label: Label,
    /// What was measured beside its experiments.
    pub again: Vec<MeasuredAgain>,
    /// When it ran.
    pub clock: CampaignClock,
    /// In what a simulated subsystem differs from the embedded model of its name; the caller fills it in, because
    /// models are unknown here.
    pub changed: Vec<Difference>,
}

/// One experiment, as much of it as is kept of every one.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentSummary {
    /// Its number in the campaign, from 1.
    pub number: u64,
    /// What it was for.
    pub purpose: StoredPurpose,
    /// What was run.
    pub workload: Workload,
    /// How it ended.
    pub ended: Ended,
    /// What was seen; nothing if it is not anomalous.
    pub symptoms: Vec<Symptom>,
    /// How bad it was, if it was anomalous.
    pub severity: Option<Severity>,
    /// The use of the port by its slowest direction, if that is known. Units: share.
    pub utilisation: Option<f64>,
    /// The longest pause of both ports, if they count it. Units: share of the time.
    pub pause: Option<f64>,
    /// Whether an anomaly is to be expected on another day, too.
    pub shows_again: bool,
    /// What a host said last, if it failed.
    pub reason: Option<String>,
}

/// What was seen in an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Detail {
    /// The mean of its samples, if it has any.
    pub mean: Option<Sample>,
    /// What went wrong on the hardware's side.
    pub events: Vec<String>,
    /// As [`kelpie_monitor::Measurement::capacity`].
    pub capacity: Option<f64>,
}

impl Detail {
    /// Of an experiment; nothing was seen in one that could not be run.
    pub fn of(experiment: Experiment) -> Self {
        match experiment.outcome {
            ExperimentOutcome::Measured { measurement, .. } => {
                let capacity = measurement.capacity;
                Self { mean: measurement.mean(), events: measurement.hardware_events, capacity }
            }
            ExperimentOutcome::Unsupported { .. } => Self::default(),
        }
    }
}

impl ExperimentSummary {
    /// An experiment on a subsystem with these bounds, and its signals.
    pub fn new(experiment: Experiment, bounds: &Bounds) -> (Self, BTreeMap<String, f64>) {
        let Experiment { number, purpose, workload, outcome, .. } = experiment;
        let mut point = Self {
            number,
            purpose,
            // What was read has room for more flows and requests than it has; a copy has not.
            workload: workload.clone(),
            ended: Ended::Unsupported,
            symptoms: Vec::new(),
            severity: None,
            utilisation: None,
            pause: None,
            shows_again: true,
            reason: None,
        };
        let ExperimentOutcome::Measured { measurement, assessment, .. } = outcome else {
            return (point, BTreeMap::new());
        };
        let anomaly = Anomaly::of(number, &point.workload, &measurement, &assessment, bounds);
        let signals = measured_signals(&measurement, bounds);
        point.ended = Ended::Judged(assessment.verdict);
        point.symptoms = assessment.symptoms;
        point.symptoms.shrink_to_fit();
        point.utilisation = signals.get(UTILISATION).copied();
        point.pause = measurement.mean().and_then(|mean| mean.pause).map(|pause| pause.longest());
        if let Some(Anomaly { severity, shows_again, reason, .. }) = anomaly {
            (point.severity, point.shows_again, point.reason) = (Some(severity), shows_again, reason);
        }
        (point, signals)
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
    /// One whose experiments are still to be read.
    pub(crate) fn begin(campaign: Campaign, space: Space, findings: Vec<FindingRecord>) -> Self {
        let found_at = findings.iter().map(|finding| finding.found_at).collect();
        Self {
            courses: SignalHistories::new(campaign.experiments, found_at),
            space,
            findings,
            // Room at once, because growing needs up to three times as much. Nobody's database is believed without a
            // limit.
            points: Vec::with_capacity(campaign.experiments.min(MOST_AT_ONCE) as usize),
            codes: FeatureCodes::default(),
            neighbours: BTreeMap::new(),
            campaign,
            details: BTreeMap::new(),
            checks: Vec::new(),
            label: Label::default(),
            again: Vec::new(),
            clock: CampaignClock { started_unix_ms: None, measured_seconds: 0.0 },
            changed: Vec::new(),
        }
    }

    /// Takes the next experiment.
    pub(crate) fn take(&mut self, experiment: Experiment) {
        let (point, signals) = ExperimentSummary::new(experiment, &self.campaign.definition.bounds);
        self.courses.take(point.number, &point.purpose, signals);
        self.codes.push(&point.workload);
        self.neighbours.clear();
        self.points.push(point);
    }

    /// Reads a campaign: most of it one experiment at a time, so that it need not fit into memory.
    ///
    /// # Errors
    /// The database cannot be read, there is no such campaign, or it was stored with a space that is none.
    pub fn read(store: &mut Store, id: CampaignId) -> Result<Self, StoredCampaignError> {
        let campaign = store.campaign(id)?;
        // Before the experiments: a campaign that is running may add to both, and a finding names its experiment.
        let findings = store.findings(id)?;
        let space = space_of(&campaign)?;
        let mut stored = Self::begin(campaign, space, findings);
        store.experiments(id, |experiment| stored.take(experiment))?;
        stored.neighbours =
            stored.findings.iter().map(|finding| (finding.number, stored.nearest_healthy(finding))).collect();
        let closer = stored.findings.iter().flat_map(|finding| {
            [stored.witness(finding), stored.healthy_neighbour(finding)].into_iter().flatten().map(|point| point.number)
        });
        for number in closer.collect::<BTreeSet<u64>>() {
            if let Some(experiment) = store.experiment(id, number)? {
                stored.details.insert(number, Detail::of(experiment));
            }
        }
        (stored.checks, stored.label, stored.clock) = (store.checks(id)?, store.label(id)?, store.clock(id)?);
        stored.again = store.measured_again(id)?;
        Ok(stored)
    }

    /// What was seen in an experiment that reports look at more closely.
    pub fn detail(&self, point: &ExperimentSummary) -> Option<&Detail> {
        self.details.get(&point.number)
    }

    /// An experiment by its number.
    pub fn point(&self, number: u64) -> Option<&ExperimentSummary> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.points.get(index).filter(|point| point.number == number)
    }

    /// Its anomalous experiments, in order.
    pub fn anomalies(&self) -> Vec<Anomaly> {
        let anomaly = |point: &ExperimentSummary| {
            let (symptom, severity) = (*point.symptoms.first()?, point.severity?);
            let (shows_again, reason) = (point.shows_again, point.reason.clone());
            let workload = point.workload.clone();
            Some(Anomaly { number: point.number, symptom, severity, workload, shows_again, reason })
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

    /// Whether any experiment was conclusive.
    pub fn has_verdict(&self) -> bool {
        self.count(Ended::Judged(Verdict::Healthy)) + self.count(Ended::Judged(Verdict::Anomalous)) > 0
    }

    /// The experiment that shows a finding: the first of its own, simplified workload that shows its symptom.
    pub fn proof(&self, finding: &FindingRecord) -> Option<&ExperimentSummary> {
        let shows = |point: &&ExperimentSummary| {
            point.symptoms.contains(&finding.symptom) && point.workload == finding.workload
        };
        self.points.iter().find(shows)
    }

    /// The experiment that a finding is looked at by: the one that shows it, else the one that found it.
    pub fn witness(&self, finding: &FindingRecord) -> Option<&ExperimentSummary> {
        self.proof(finding).or_else(|| self.point(finding.found_at))
    }

    /// The healthy experiment that a finding is compared with: its workload with one condition broken, if its bounds
    /// were measured; else outside its region, unlike its workload in the fewest features, of several the first. One
    /// that loads the same directions can be compared, so it comes before others.
    pub fn healthy_neighbour(&self, finding: &FindingRecord) -> Option<&ExperimentSummary> {
        let known = self.neighbours.get(&finding.number).copied();
        self.points.get(known.unwrap_or_else(|| self.nearest_healthy(finding))?)
    }

    fn nearest_healthy(&self, finding: &FindingRecord) -> Option<usize> {
        let cures = finding.evidence().map_or_else(Vec::new, |evidence| evidence.cures);
        let gone = cures.iter().flat_map(|cure| &cure.sides).map(|[_, gone]| gone);
        let beyond = |gone: &Workload| {
            let is_it =
                |point: &ExperimentSummary| point.workload == *gone && point.ended == Ended::Judged(Verdict::Healthy);
            self.points.iter().position(is_it)
        };
        if let Some(at) =
            gone.filter_map(beyond).min_by_key(|at| self.points[*at].workload.differing(&finding.workload).len())
        {
            return Some(at);
        }
        let is_inside = self.codes.fulfil(&finding.mfs.conditions);
        let is_alike = self.codes.loads_like(&finding.workload);
        let differing = self.codes.differing(&finding.workload);
        let is_healthy = |at: &usize| self.points[*at].ended == Ended::Judged(Verdict::Healthy);
        let outside = (0..self.points.len()).filter(|at| is_healthy(at) && !is_inside(*at));
        outside.min_by_key(|at| (!is_alike(*at), differing(*at)))
    }

    /// The experiments whose workloads fulfil all of these conditions, in order.
    pub(crate) fn fulfilling<'c>(
        &self,
        conditions: impl IntoIterator<Item = &'c Condition>,
    ) -> impl Iterator<Item = &ExperimentSummary> {
        let fulfils = self.codes.fulfil(conditions);
        self.points.iter().enumerate().filter(move |(at, _)| fulfils(*at)).map(|(_, point)| point)
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
        stored.take(inside);
        assert_eq!(stored.healthy_neighbour(&stored.findings[0]).unwrap().number, 5);
    }

    #[test]
    fn of_equal_neighbours_the_first_counts() {
        let again = measured(6, workload(2, 4096), sample(0.99, None), Vec::new());
        let mut stored = one_finding();
        stored.take(again);
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

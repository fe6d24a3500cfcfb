//! What stops a pipeline: confirmed anomalies that are severe enough and that no baseline accepts.

use std::fmt;

use kelpie_monitor::{Severity, Symptom};
use kelpie_spaces::Workload;
use kelpie_store::{Anomaly, Campaign, CampaignState};
use serde::Serialize;

use crate::baseline::Baseline;
use crate::explained::{Explained, Weighed};

/// What is let through.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    /// [`Severity::share`] below which anomalies pass. Units: 0 to 1.
    pub least: f64,
    /// What is accepted.
    pub baseline: Baseline,
}

/// What a gate says of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Something stops.
    Red,
    /// Nothing stops, and the campaign ran to its budget, or as long as it was told.
    Green,
    /// Nothing stops so far, and what was not measured is not known.
    Unknown,
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Red => "red",
            Self::Green => "green",
            Self::Unknown => "unknown",
        })
    }
}

/// A colour with what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ruling {
    /// The answer.
    pub colour: Colour,
    /// Numbers of the anomalous experiments that stop, worst first.
    pub stopped_by: Vec<u64>,
    /// Numbers of the findings that stop although no anomalous experiment of them is stored.
    pub stopped_by_findings: Vec<u64>,
    /// Anomalous experiments that pass.
    pub let_through: usize,
    /// The worst of the experiments that stop, in words.
    #[serde(skip)]
    pub worst: Option<String>,
    /// Why the colour is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a campaign came to its end, as far as a gate has to know.
#[derive(Debug, Clone, Copy)]
pub struct Course<'a> {
    /// The campaign.
    pub campaign: &'a Campaign,
    /// Whether any of its experiments has a verdict.
    pub has_verdict: bool,
    /// Whether somebody stopped it just now.
    pub was_interrupted: bool,
}

impl Course<'_> {
    /// Why more is not known, if so. Whether a campaign without a budget was interrupted is known only to who ran it.
    fn open_end(&self) -> Option<String> {
        let Campaign { state, experiments: done, .. } = self.campaign;
        let budget = self.campaign.definition.budget.map_or_else(String::new, |budget| format!(" of {budget}"));
        if *state == CampaignState::Running {
            return Some(format!("the campaign is running: {done}{budget} experiments so far"));
        }
        if self.was_interrupted || self.campaign.stopped_before().is_some() {
            return Some(format!("the campaign stopped after {done}{budget} experiments"));
        }
        (!self.has_verdict).then(|| "no experiment has a verdict".to_owned())
    }
}

impl Gate {
    /// Whether this stops; what was not measured may be as bad as can be.
    fn stops(&self, symptom: Symptom, severity: Option<Severity>, workload: &Workload) -> bool {
        severity.is_none_or(|severity| severity.share() >= self.least) && !self.baseline.accepts(symptom, workload)
    }

    /// Whether an anomaly stops.
    pub fn stops_anomaly(&self, anomaly: &Anomaly) -> bool {
        self.stops(anomaly.symptom, Some(anomaly.severity), &anomaly.workload)
    }

    /// The anomalies of a campaign that stop, in a finding or not, worst first.
    pub fn stopping<'a>(&self, explained: &Explained<'a>) -> Vec<&'a Anomaly> {
        explained.anomalies.iter().copied().filter(|anomaly| self.stops_anomaly(anomaly)).collect()
    }

    /// Whether a finding stops although no anomalous experiment of it is stored, as of a recipe that recorded none.
    pub fn stops_unmeasured(&self, found: &Weighed<'_>) -> bool {
        found.severity.is_none() && self.stops(found.finding.symptom, None, &found.finding.workload)
    }

    /// What is said of a campaign with these anomalies.
    pub fn rule(&self, explained: &Explained<'_>, course: Course<'_>) -> Ruling {
        let stopping = self.stopping(explained);
        let stopped_by: Vec<u64> = stopping.iter().map(|anomaly| anomaly.number).collect();
        let worst = stopping
            .first()
            .map(|worst| format!("experiment {}, {}, {}", worst.number, worst.symptom.name(), worst.severity));
        let unmeasured = explained.findings.iter().filter(|found| self.stops_unmeasured(found));
        let stopped_by_findings: Vec<u64> = unmeasured.map(|found| found.finding.number).collect();
        let is_red = !stopped_by.is_empty() || !stopped_by_findings.is_empty();
        let reason = if is_red { None } else { course.open_end() };
        let colour = match &reason {
            _ if is_red => Colour::Red,
            Some(_) => Colour::Unknown,
            None => Colour::Green,
        };
        let let_through = explained.anomalies.len() - stopped_by.len();
        Ruling { colour, stopped_by, stopped_by_findings, let_through, worst, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{anomaly, finding, stored_campaign, workload};

    #[test]
    fn what_is_in_no_finding_stops_as_well() {
        let found = [finding(1, 2, workload(4, 4096))];
        let [inside, outside] = [anomaly(1, workload(4, 4096), 0.5), anomaly(2, workload(1, 1024), 0.3)];
        let accepted = Baseline::of(&Explained::new(&found, std::slice::from_ref(&inside)), false);
        let none = Baseline::default();
        for (anomalies, least, baseline, expected) in [
            (vec![], 0.0, &none, vec![]),
            (vec![&inside, &outside], 0.0, &none, vec![1, 2]),
            (vec![&inside, &outside], 0.3, &none, vec![1, 2]),
            (vec![&inside, &outside], 0.4, &none, vec![1]),
            (vec![&inside, &outside], 0.0, &accepted, vec![2]),
            (vec![&inside, &outside], 0.4, &accepted, vec![]),
            (vec![&inside], 0.0, &accepted, vec![]),
        ] {
            let anomalies: Vec<Anomaly> = anomalies.into_iter().cloned().collect();
            let explained = Explained::new(&[], &anomalies);
            let gate = Gate { least, baseline: baseline.clone() };
            let stopping: Vec<u64> = gate.stopping(&explained).iter().map(|anomaly| anomaly.number).collect();
            assert_eq!(stopping, expected, "{least} {baseline:?}");
            let campaign = stored_campaign(vec![], vec![]).campaign;
            let colour = if expected.is_empty() { Colour::Green } else { Colour::Red };
            let let_through = anomalies.len() - expected.len();
            let worst = gate.rule(&explained, finished(&campaign)).worst;
            assert_eq!(worst.is_some(), !expected.is_empty());
            let ruling =
                Ruling { colour, stopped_by: expected, stopped_by_findings: vec![], let_through, worst, reason: None };
            assert_eq!(gate.rule(&explained, finished(&campaign)), ruling);
        }
    }

    #[test]
    fn a_finding_of_which_nothing_is_stored_stops_until_it_is_accepted() {
        let found = [finding(1, 2, workload(4, 4096))];
        let explained = Explained::new(&found, &[]);
        let campaign = stored_campaign(vec![], vec![]).campaign;
        let strict = Gate { least: 1.0, ..Gate::default() }.rule(&explained, finished(&campaign));
        assert_eq!((strict.colour, strict.stopped_by_findings), (Colour::Red, vec![1]));
        let accepting = Gate { least: 0.0, baseline: Baseline::of(&explained, false) };
        assert_eq!(accepting.rule(&explained, finished(&campaign)).colour, Colour::Green);
    }

    #[test]
    fn what_was_not_measured_is_unknown_unless_something_stops_already() {
        let anomalies = [anomaly(1, workload(1, 1024), 0.3)];
        let (nothing, something) = (Explained::new(&[], &[]), Explained::new(&[], &anomalies));
        let mut campaign = stored_campaign(vec![], vec![]).campaign;
        let known = finished(&campaign);
        for (course, expected) in [
            (Course { has_verdict: false, ..known }, "no experiment has a verdict"),
            (Course { was_interrupted: true, ..known }, "stopped after"),
        ] {
            let ruling = Gate::default().rule(&nothing, course);
            assert_eq!(ruling.colour, Colour::Unknown);
            assert!(ruling.reason.as_ref().is_some_and(|reason| reason.contains(expected)), "{ruling:?}");
            assert_eq!(Gate::default().rule(&something, course).colour, Colour::Red);
        }
        campaign.state = CampaignState::Stopped;
        campaign.definition.budget = Some(campaign.experiments + 1);
        let ruling = Gate::default().rule(&nothing, finished(&campaign));
        assert!(
            ruling.colour == Colour::Unknown && ruling.reason.is_some_and(|reason| reason.contains("stopped after"))
        );
    }

    fn finished(campaign: &Campaign) -> Course<'_> {
        Course { campaign, has_verdict: true, was_interrupted: false }
    }
}

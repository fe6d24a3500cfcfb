//! What stops a pipeline: confirmed anomalies that are severe enough and that no baseline accepts.

use std::fmt;

use kelpie_monitor::{Severity, Symptom};
use kelpie_spaces::Workload;
use kelpie_store::{Anomaly, Campaign};
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
pub enum GateColour {
    /// Something stops.
    Red,
    /// Nothing stops, and the campaign ran to its end.
    Green,
    /// Nothing stops so far, and what was not measured is not known.
    Unknown,
}

impl fmt::Display for GateColour {
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
    pub colour: GateColour,
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

    /// What is said of a campaign with these anomalies, of whose experiments any or none has a verdict.
    pub fn rule(&self, explained: &Explained<'_>, campaign: &Campaign, has_verdict: bool) -> Ruling {
        let stopping = self.stopping(explained);
        let stopped_by: Vec<u64> = stopping.iter().map(|anomaly| anomaly.number).collect();
        let worst = stopping
            .first()
            .map(|worst| format!("experiment {}, {}, {}", worst.number, worst.symptom.name(), worst.severity));
        let unmeasured = explained.all().filter(|found| self.stops_unmeasured(found));
        let stopped_by_findings: Vec<u64> = unmeasured.map(|found| found.finding.number).collect();
        let is_red = !stopped_by.is_empty() || !stopped_by_findings.is_empty();
        let nothing = || (!has_verdict).then(|| "no experiment has a verdict".to_owned());
        let reason = if is_red { None } else { campaign.open_end().or_else(nothing) };
        let colour = match &reason {
            _ if is_red => GateColour::Red,
            Some(_) => GateColour::Unknown,
            None => GateColour::Green,
        };
        let let_through = explained.anomalies.len() - stopped_by.len();
        Ruling { colour, stopped_by, stopped_by_findings, let_through, worst, reason }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_store::CampaignState;

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
            let colour = if expected.is_empty() { GateColour::Green } else { GateColour::Red };
            let let_through = anomalies.len() - expected.len();
            let worst = gate.rule(&explained, &campaign, true).worst;
            assert_eq!(worst.is_some(), !expected.is_empty());
            let ruling =
                Ruling { colour, stopped_by: expected, stopped_by_findings: vec![], let_through, worst, reason: None };
            assert_eq!(gate.rule(&explained, &campaign, true), ruling);
        }
    }

    #[test]
    fn a_finding_of_which_nothing_is_stored_stops_until_it_is_accepted() {
        let found = [finding(1, 2, workload(4, 4096))];
        let explained = Explained::new(&found, &[]);
        let campaign = stored_campaign(vec![], vec![]).campaign;
        let strict = Gate { least: 1.0, ..Gate::default() }.rule(&explained, &campaign, true);
        assert_eq!((strict.colour, strict.stopped_by_findings), (GateColour::Red, vec![1]));
        let accepting = Gate { least: 0.0, baseline: Baseline::of(&explained, false) };
        assert_eq!(accepting.rule(&explained, &campaign, true).colour, GateColour::Green);
    }

    #[test]
    fn what_was_not_measured_is_unknown_unless_something_stops_already() {
        let anomalies = [anomaly(1, workload(1, 1024), 0.3)];
        let (nothing, something) = (Explained::new(&[], &[]), Explained::new(&[], &anomalies));
        let mut campaign = stored_campaign(vec![], vec![]).campaign;
        for (state, budget, has_verdict, expected) in [
            (CampaignState::Finished, None, false, Some("no experiment has a verdict")),
            (CampaignState::Running, Some(2), true, Some("the campaign is running: 1 of 2 experiments so far")),
            (CampaignState::Stopped, Some(2), true, Some("the campaign stopped after 1 of 2 experiments")),
            (CampaignState::Stopped, None, true, Some("the campaign stopped after 1 experiment")),
            (CampaignState::Stopped, Some(1), true, None),
            (CampaignState::Finished, None, true, None),
        ] {
            (campaign.state, campaign.experiments, campaign.definition.budget) = (state, 1, budget);
            let ruling = Gate::default().rule(&nothing, &campaign, has_verdict);
            let colour = if expected.is_some() { GateColour::Unknown } else { GateColour::Green };
            assert_eq!((ruling.colour, ruling.reason.as_deref()), (colour, expected));
            assert_eq!(Gate::default().rule(&something, &campaign, has_verdict).colour, GateColour::Red);
        }
    }
}

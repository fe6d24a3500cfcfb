//! What stops a pipeline: confirmed anomalies that are severe enough and that no baseline accepts.

use kelpie_monitor::{Severity, Symptom};
use kelpie_spaces::Workload;
use kelpie_store::Anomaly;

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

    /// Whether a campaign stops. One without a verdict on any experiment does not, and says nothing either.
    pub fn is_red(&self, explained: &Explained<'_>) -> bool {
        explained.anomalies.iter().any(|anomaly| self.stops_anomaly(anomaly))
            || explained.findings.iter().any(|found| self.stops_unmeasured(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{anomaly, finding, workload};

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
            assert_eq!(gate.is_red(&explained), !expected.is_empty());
        }
    }

    #[test]
    fn a_finding_of_which_nothing_is_stored_stops_until_it_is_accepted() {
        let found = [finding(1, 2, workload(4, 4096))];
        let explained = Explained::new(&found, &[]);
        assert!(Gate { least: 1.0, ..Gate::default() }.is_red(&explained));
        assert!(!Gate { least: 0.0, baseline: Baseline::of(&explained, false) }.is_red(&explained));
    }
}

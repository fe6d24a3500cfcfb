//! What the findings of a campaign explain of its anomalies, and what they do not; all of it the worst first.

use std::fmt;

use kelpie_monitor::{Severity, Symptom};
use kelpie_store::{Anomaly, CampaignId, FindingRecord, Store, StoreError};

use crate::codes::Codes;

/// A finding with how bad it is.
#[derive(Debug, Clone, Copy)]
pub struct Weighed<'a> {
    /// The finding.
    pub finding: &'a FindingRecord,
    /// That of the first experiment with its workload; `None` if the campaign did not measure that.
    pub severity: Option<Severity>,
}

impl<'a> Weighed<'a> {
    /// Weighs a finding by the anomalies of its campaign.
    pub fn new(finding: &'a FindingRecord, anomalies: &[Anomaly]) -> Self {
        Self { finding, severity: witness(finding, anomalies).map(|anomaly| anomaly.severity) }
    }
}

/// The first experiment with the workload of a finding, if the campaign measured that.
pub fn witness<'a>(finding: &FindingRecord, anomalies: &'a [Anomaly]) -> Option<&'a Anomaly> {
    anomalies.iter().find(|anomaly| anomaly.workload == finding.workload)
}

/// Anomalies told apart by findings: each lies in the region of some finding, or is unexplained.
#[derive(Debug)]
pub struct Explained<'a> {
    /// The findings, worst first, those that were not measured last.
    pub findings: Vec<Weighed<'a>>,
    /// Every anomalous experiment, worst first.
    pub anomalies: Vec<&'a Anomaly>,
    /// Those that lie in no finding's region, worst first.
    pub unexplained: Vec<&'a Anomaly>,
}

impl<'a> Explained<'a> {
    /// Tells the anomalies of a campaign apart by its findings.
    pub fn new(findings: &'a [FindingRecord], anomalies: &'a [Anomaly]) -> Self {
        let mut weighed: Vec<Weighed<'a>> = findings.iter().map(|finding| Weighed::new(finding, anomalies)).collect();
        weighed.sort_by(|one, other| Severity::worst_first(one.severity, other.severity));
        let mut sorted: Vec<&'a Anomaly> = anomalies.iter().collect();
        sorted.sort_by(|one, other| Severity::worst_first(Some(one.severity), Some(other.severity)));
        let codes = Codes::of(sorted.iter().map(|anomaly| &anomaly.workload));
        let regions: Vec<_> =
            findings.iter().map(|finding| (fails(finding.symptom), codes.fulfil(&finding.mfs.conditions))).collect();
        let is_explained = |at: usize, anomaly: &Anomaly| {
            regions.iter().any(|(of_failure, holds)| *of_failure == fails(anomaly.symptom) && holds(at))
        };
        let unexplained = sorted.iter().enumerate().filter(|(at, anomaly)| !is_explained(*at, anomaly));
        let unexplained = unexplained.map(|(_, anomaly)| *anomaly).collect();
        Self { findings: weighed, anomalies: sorted, unexplained }
    }
}

impl Explained<'_> {
    /// How many findings there are, and of how many the region is known well, as a phrase.
    pub fn findings_in_words(&self) -> String {
        let all = self.findings.len();
        let refined = match self.findings.iter().filter(|found| found.finding.is_refined()).count() {
            _ if all == 0 => return "0 findings".to_owned(),
            0 => "none".to_owned(),
            refined => refined.to_string(),
        };
        format!("{all} finding{}, {refined} refined", if all == 1 { "" } else { "s" })
    }
}

/// Whether an anomaly lies in a finding's region. Slow traffic there does not explain a host that fails.
pub(crate) fn explains(finding: &FindingRecord, anomaly: &Anomaly) -> bool {
    fails(finding.symptom) == fails(anomaly.symptom) && finding.mfs.contains(&anomaly.workload)
}

fn fails(symptom: Symptom) -> bool {
    symptom == Symptom::HostFailure
}

/// How many anomalies no finding explains, as a sentence without its full stop.
impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.anomalies.len(), self.unexplained.len()) {
            (0, _) => f.write_str("no experiment was anomalous"),
            (1, 0) => f.write_str("the anomalous experiment lies in a finding"),
            (1, _) => f.write_str("the anomalous experiment lies in no finding"),
            (all, 0) => write!(f, "all {all} anomalous experiments lie in findings"),
            (all, none) => write!(f, "{none} of {all} anomalous experiments lie in no finding"),
        }?;
        match self.unexplained.iter().filter(|anomaly| !anomaly.shows_again).count() {
            0 => Ok(()),
            1 => f.write_str("; one may not show on another day"),
            unsure => write!(f, "; {unsure} may not show on another day"),
        }
    }
}

/// The findings and the anomalies of a campaign, for [`Explained::new`].
///
/// # Errors
/// The database cannot be read, or there is no such campaign.
pub fn read(store: &mut Store, id: CampaignId) -> Result<(Vec<FindingRecord>, Vec<Anomaly>), StoreError> {
    // Findings first: a campaign that is running may add to both, and a finding rests on its experiments.
    let findings = store.findings(id)?;
    Ok((findings, store.anomalies(id)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{anomaly, finding, workload};

    #[test]
    fn each_anomaly_is_in_a_finding_or_unexplained() {
        // The region is 3 QPs and more.
        let findings = [finding(1, 2, workload(3, 4096)), finding(2, 9, workload(3, 1024))];
        let anomalies = [
            anomaly(1, workload(1, 1024), 0.3),
            anomaly(2, workload(3, 4096), 0.4),
            anomaly(3, workload(4, 1024), 0.9),
            anomaly(4, workload(2, 1024), 0.7),
            anomaly(5, workload(3, 4096), 0.8),
        ];
        let explained = Explained::new(&findings, &anomalies);
        let numbers = |all: &[&Anomaly]| all.iter().map(|one| one.number).collect::<Vec<_>>();
        assert_eq!(numbers(&explained.anomalies), [3, 5, 4, 2, 1]);
        assert_eq!(numbers(&explained.unexplained), [4, 1]);
        let found: Vec<_> = explained.findings.iter().map(|one| (one.finding.number, one.severity)).collect();
        assert_eq!(found, [(1, Some(anomalies[1].severity)), (2, None)], "its own workload was not measured");
    }

    #[test]
    fn slow_traffic_does_not_explain_a_host_that_fails() {
        let slow = anomaly(1, workload(3, 4096), 0.4);
        let failed = Anomaly { symptom: Symptom::HostFailure, ..slow.clone() };
        let found = |symptom| FindingRecord { symptom, ..finding(1, 1, workload(3, 4096)) };
        for (symptom, explained) in [(Symptom::LowThroughput, [true, false]), (Symptom::HostFailure, [false, true])] {
            assert_eq!([&slow, &failed].map(|anomaly| explains(&found(symptom), anomaly)), explained, "{symptom:?}");
        }
    }

    #[test]
    fn what_may_not_show_on_another_day_is_counted() {
        let mut anomalies = [anomaly(1, workload(4, 4096), 0.3), anomaly(2, workload(3, 4096), 0.8)];
        anomalies[0].shows_again = false;
        let said = Explained::new(&[], &anomalies).to_string();
        assert_eq!(said, "2 of 2 anomalous experiments lie in no finding; one may not show on another day");
    }

    #[test]
    fn without_findings_nothing_is_explained() {
        let anomalies = [anomaly(1, workload(4, 4096), 0.3)];
        assert_eq!(Explained::new(&[], &anomalies).unexplained.len(), 1);
    }
}

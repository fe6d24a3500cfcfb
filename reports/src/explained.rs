//! What the findings of a campaign explain of its anomalies, and what they do not; all of it the worst first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kelpie_monitor::Severity;
use kelpie_spaces::Feature;
use kelpie_store::{Anomaly, CampaignId, FindingRecord, Store, StoreError};

use crate::feature_codes::FeatureCodes;

/// A finding with how bad it is.
#[derive(Debug, Clone, Copy)]
pub struct Weighed<'a> {
    /// The finding.
    pub finding: &'a FindingRecord,
    /// That of the first experiment with its workload; `None` if the campaign did not measure that.
    pub severity: Option<Severity>,
    /// Anomalous experiments that it explains, or a variant of it.
    pub seen: usize,
}

impl<'a> Weighed<'a> {
    /// Weighs a finding by the anomalies of its campaign.
    pub fn new(finding: &'a FindingRecord, anomalies: &[Anomaly]) -> Self {
        let severity = witness(finding, anomalies).map(|anomaly| anomaly.severity);
        Self { finding, severity, seen: anomalies.iter().filter(|anomaly| explains(finding, anomaly)).count() }
    }
}

/// The first experiment with the workload of a finding, if the campaign measured that.
pub fn witness<'a>(finding: &FindingRecord, anomalies: &'a [Anomaly]) -> Option<&'a Anomaly> {
    anomalies.iter().find(|anomaly| anomaly.workload == finding.workload)
}

/// Anomalies told apart by findings: each is explained by some finding, or by none.
#[derive(Debug)]
pub struct Explained<'a> {
    /// The findings that are neither variants nor candidates, worst first, those that were not measured last;
    /// candidates as long as there are no others.
    pub findings: Vec<Weighed<'a>>,
    /// The other candidates: those whose conditions are still to be measured, in the same order.
    pub candidates: Vec<Weighed<'a>>,
    /// The variants, in the same order.
    pub variants: Vec<Weighed<'a>>,
    /// Every anomalous experiment, worst first.
    pub anomalies: Vec<&'a Anomaly>,
    /// Those that no finding explains, worst first.
    pub unexplained: Vec<&'a Anomaly>,
}

/// A finding, and the features whose conditions are missed.
type Near = (u64, Vec<Feature>);

/// Anomalies that no finding explains and that have something in common.
#[derive(Debug, Clone, PartialEq)]
pub struct AnomalyGroup<'a> {
    /// The finding of their symptom of which they miss the fewest conditions, and those; `None` if they miss more than
    /// one of each, or all.
    pub nearest: Option<Near>,
    /// How many there are.
    pub count: usize,
    /// The worst of them.
    pub worst: &'a Anomaly,
}

/// Conditions that an anomaly may miss to be near a finding. Source: our choice.
const MOST_MISSED: usize = 1;

impl<'a> Explained<'a> {
    /// Tells the anomalies of a campaign apart by its findings.
    pub fn new(findings: &'a [FindingRecord], anomalies: &'a [Anomaly]) -> Self {
        let mut sorted: Vec<&'a Anomaly> = anomalies.iter().collect();
        sorted.sort_by(|one, other| Severity::worst_first(Some(one.severity), Some(other.severity)));
        let codes = FeatureCodes::of(sorted.iter().map(|anomaly| &anomaly.workload));
        let mut is_explained = vec![false; sorted.len()];
        let mut seen_by: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for finding in findings {
            let holds = codes.fulfil(&finding.mfs.conditions);
            let mut own = BTreeSet::new();
            for (at, _) in sorted.iter().enumerate().filter(|(_, anomaly)| anomaly.symptom == finding.symptom) {
                if holds(at) {
                    is_explained[at] = true;
                    own.insert(at);
                }
            }
            if let Some(first) = first_of(findings, finding) {
                seen_by.entry(first).or_default().extend(own.iter().copied());
            }
            seen_by.entry(finding.number).or_default().extend(own);
        }
        let weighed = findings.iter().map(|finding| {
            let severity = witness(finding, anomalies).map(|anomaly| anomaly.severity);
            Weighed { finding, severity, seen: seen_by.get(&finding.number).map_or(0, BTreeSet::len) }
        });
        let mut weighed: Vec<Weighed<'a>> = weighed.collect();
        weighed.sort_by(|one, other| Severity::worst_first(one.severity, other.severity));
        let (variants, firsts): (Vec<_>, Vec<_>) =
            weighed.into_iter().partition(|found| first_of(findings, found.finding).is_some());
        let (mut candidates, mut findings): (Vec<_>, Vec<_>) =
            firsts.into_iter().partition(|found| found.finding.is_candidate());
        if findings.is_empty() {
            findings.append(&mut candidates);
        }
        let unexplained = sorted.iter().zip(is_explained).filter(|(_, is_explained)| !is_explained);
        let unexplained = unexplained.map(|(anomaly, _)| *anomaly).collect();
        Self { findings, candidates, variants, anomalies: sorted, unexplained }
    }

    /// All of them: findings, candidates, variants.
    pub fn all(&self) -> impl Iterator<Item = &Weighed<'a>> {
        self.firsts().chain(&self.variants)
    }

    /// All but variants: findings and candidates, worst first.
    pub fn firsts(&self) -> impl Iterator<Item = &Weighed<'a>> {
        let mut firsts: Vec<&Weighed<'a>> = self.findings.iter().chain(&self.candidates).collect();
        firsts.sort_by(|a, b| Severity::worst_first(a.severity, b.severity));
        firsts.into_iter()
    }

    /// The variants of a finding, worst first.
    pub fn variants_of(&self, number: u64) -> impl Iterator<Item = &Weighed<'a>> {
        self.variants.iter().filter(move |found| found.finding.variant_of() == Some(number))
    }

    /// What the anomalies that no finding explains have in common, the largest group first.
    pub fn groups(&self) -> Vec<AnomalyGroup<'a>> {
        let mut groups: BTreeMap<Option<Near>, AnomalyGroup<'a>> = BTreeMap::new();
        // The worst first.
        for anomaly in &self.unexplained {
            let own = self.firsts().filter(|found| found.finding.symptom == anomaly.symptom);
            let missed = own.map(|found| {
                let missed = found.finding.mfs.missed(&anomaly.workload).map(|condition| condition.feature);
                (missed.collect::<Vec<Feature>>(), found.finding)
            });
            let near = missed
                .filter(|(missed, finding)| missed.len() <= MOST_MISSED && missed.len() < finding.mfs.conditions.len());
            let nearest = near.min_by_key(|(missed, _)| missed.len());
            let nearest = nearest.map(|(missed, finding)| (finding.number, missed));
            let group = groups.entry(nearest.clone()).or_insert(AnomalyGroup { nearest, count: 0, worst: anomaly });
            group.count += 1;
        }
        let mut groups: Vec<AnomalyGroup<'a>> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups
    }
}

impl Explained<'_> {
    /// How many findings there are, as a phrase.
    pub fn findings_in_words(&self) -> String {
        let words = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let is_open = self.findings.first().is_some_and(|found| found.finding.is_candidate());
        let open = if is_open { " not measured yet" } else { "" };
        let candidates = match self.candidates.len() {
            0 => String::new(),
            candidates => format!(", {} not measured yet", words(candidates, "candidate")),
        };
        let variants = match self.variants.len() {
            0 => String::new(),
            variants => format!(", {} of these", words(variants, "variant")),
        };
        format!("{}{open}{candidates}{variants}", words(self.findings.len(), "finding"))
    }
}

/// The finding of which one is a variant; `None` if it is none, or names no other finding.
fn first_of(findings: &[FindingRecord], finding: &FindingRecord) -> Option<u64> {
    let is_there = |first: &u64| *first != finding.number && findings.iter().any(|other| other.number == *first);
    finding.variant_of().filter(is_there)
}

/// Whether an anomaly meets the conditions of a finding and shows its symptom.
pub(crate) fn explains(finding: &FindingRecord, anomaly: &Anomaly) -> bool {
    finding.symptom == anomaly.symptom && finding.mfs.contains(&anomaly.workload)
}

/// How many anomalies no finding explains, as a sentence without its full stop.
impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.anomalies.len(), self.unexplained.len()) {
            (0, _) => f.write_str("no experiment was anomalous"),
            (1, 0) => f.write_str("the anomalous experiment is explained by a finding"),
            (1, _) => f.write_str("the anomalous experiment is explained by no finding"),
            (all, 0) => write!(f, "all {all} anomalous experiments are explained by findings"),
            (all, none) => write!(f, "{none} of {all} anomalous experiments are explained by no finding"),
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
    use kelpie_monitor::Symptom;
    use kelpie_spaces::{Condition, Test};

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
    fn a_variant_counts_for_its_finding_and_what_is_near_one_is_a_group() {
        let variant = |number, of: u64| {
            let mut variant = finding(number, 2, workload(2, 1024));
            variant.mfs.set(Condition { feature: Feature::Qps, test: Test::Range { min: Some(2), max: Some(2) } });
            variant.evidence["variant_of"] = of.into();
            variant
        };
        let mut first = finding(1, 2, workload(3, 4096));
        first.mfs.set(Condition { feature: Feature::Mtu, test: Test::Range { min: Some(4096), max: None } });
        let findings = [first, variant(2, 1)];
        let anomalies = [
            anomaly(1, workload(3, 4096), 0.4),
            anomaly(2, workload(2, 1024), 0.4),
            anomaly(3, workload(3, 1024), 0.4),
            anomaly(4, workload(1, 1024), 0.4),
        ];
        let explained = Explained::new(&findings, &anomalies);
        assert_eq!(explained.findings_in_words(), "1 finding, 1 variant of these");
        assert_eq!((explained.findings[0].seen, explained.variants_of(1).count()), (2, 1));
        let groups = explained.groups();
        let near = AnomalyGroup { nearest: Some((1, vec![Feature::Mtu])), count: 1, worst: &anomalies[2] };
        assert!(groups.len() == 2 && groups.contains(&near), "{groups:?}");
        assert!(groups.contains(&AnomalyGroup { nearest: None, count: 1, worst: &anomalies[3] }), "{groups:?}");
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
        assert_eq!(said, "2 of 2 anomalous experiments are explained by no finding; one may not show on another day");
    }

    #[test]
    fn without_findings_nothing_is_explained() {
        let anomalies = [anomaly(1, workload(4, 4096), 0.3)];
        assert_eq!(Explained::new(&[], &anomalies).unexplained.len(), 1);
    }
}

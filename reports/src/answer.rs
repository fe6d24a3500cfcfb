//! Whether a workload is safe on a subsystem, and why: from its findings and from all that was measured. No words.

use kelpie_belief::{Belief, Estimate, MeasuredNeighbour, Strange, WorkloadOutcome};
use kelpie_spaces::{Space, Workload};
use kelpie_store::CampaignId;
use serde::Serialize;

use crate::subsystem_history::{StoredExperiment, StoredFinding, SubsystemHistory};

/// Measured workloads that are shown beside one. Source: our choice, because more are not read.
const NEAREST: usize = 3;

/// What is answered. The order is that of what to care for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Measured anomalous, or meets the conditions of a refined finding.
    Anomalous,
    /// More likely anomalous than not.
    Likely,
    /// Too little is known.
    Unknown,
    /// Measured healthy, or as good as that.
    Safe,
}

/// Why.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// This experiment measured the workload.
    Stored(StoredExperiment),
    /// It was measured to be sure; `None` if that was inconclusive.
    Settled(Option<bool>),
    /// The finding with the highest confidence of those that hold it.
    Inside,
    /// What measured workloads suggest.
    Estimated(Estimate),
    /// It is unlike all that was measured.
    Strange(Strange),
    /// Nothing was measured.
    Nothing,
}

/// An answer for one subsystem.
#[derive(Debug)]
pub struct Answered<'k> {
    /// The answer.
    pub answer: Answer,
    /// Why.
    pub reason: Reason,
    /// The probability that the workload is anomalous: 90 % lie between.
    pub probability: [f64; 2],
    /// The findings that hold it, the surest first.
    pub findings: Vec<&'k StoredFinding>,
    /// The measured workloads nearest to it.
    pub nearest: Vec<(MeasuredNeighbour<'k>, StoredExperiment)>,
}

/// What is known of a subsystem, with what follows from it for workloads that were not measured.
#[derive(Debug)]
pub struct Adviser<'k> {
    pub(crate) known: &'k SubsystemHistory,
    pub(crate) belief: Option<Belief<'k>>,
}

impl<'k> Adviser<'k> {
    /// Learns from what is known. Seconds for 20,000 experiments.
    pub fn new(known: &'k SubsystemHistory) -> Self {
        let outcome = |measured: &StoredExperiment| WorkloadOutcome {
            is_anomalous: measured.is_anomalous,
            is_aimed: measured.is_aimed,
        };
        let measured = known.measured.iter().map(|(workload, measured)| (workload, outcome(measured)));
        Self { known, belief: Belief::new(measured) }
    }

    /// The subsystem.
    pub fn subsystem(&self) -> &'k str {
        &self.known.subsystem
    }

    /// The campaigns on it.
    pub fn campaigns(&self) -> &'k [CampaignId] {
        &self.known.campaigns
    }

    /// Workloads that were measured.
    pub fn measured(&self) -> usize {
        self.known.measured.len()
    }

    /// The findings whose conditions a workload meets, the surest first; no variants.
    pub(crate) fn findings(&self, workload: &Workload) -> Vec<&'k StoredFinding> {
        let is_first = |kept: &&StoredFinding| kept.finding.variant_of().is_none();
        let mut findings: Vec<&StoredFinding> =
            self.known.findings.iter().filter(is_first).filter(|kept| kept.holds(workload)).collect();
        findings.sort_by(|a, b| b.finding.confidence.total_cmp(&a.finding.confidence));
        findings
    }

    /// The space in which the workload may be changed: the latest that was searched, else all, with what the workload
    /// has beyond that.
    pub(crate) fn space(&self, workload: &Workload) -> Option<Space> {
        let searched = self.known.spaces.iter().rev().find(|space| space.contains(workload));
        let searched = searched.map(|space| (**space).clone());
        searched.or_else(|| Space::catalog("full")?.including(workload))
    }

    /// What the stored experiments suggest of a workload that is not among them.
    pub(crate) fn estimate(&self, workload: &Workload) -> Result<Estimate, Reason> {
        let belief = self.belief.as_ref().ok_or(Reason::Nothing)?;
        match belief.strange(workload) {
            Some(strange) => Err(Reason::Strange(strange)),
            None => Ok(belief.of(workload)),
        }
    }

    /// Answers for a workload.
    pub fn answer(&self, workload: &Workload) -> Answered<'k> {
        let findings = self.findings(workload);
        let (answer, reason, probability) = self.judge(workload, &findings);
        let nearest = self.belief.iter().flat_map(|belief| belief.nearest(workload, NEAREST));
        let nearest = nearest.map(|neighbour| (neighbour, self.known.measured[neighbour.workload])).collect();
        Answered { answer, reason, probability, findings, nearest }
    }

    /// As `answer`, with what measuring the workload just showed; `None` if that was inconclusive. A workload that was
    /// anomalous before stays so.
    pub fn settled(&self, workload: &Workload, is_anomalous: Option<bool>) -> Answered<'k> {
        if self.known.measured.get(workload).is_some_and(|measured| measured.is_anomalous) && is_anomalous != Some(true)
        {
            return self.answer(workload);
        }
        let (answer, probability) = match is_anomalous {
            Some(true) => (Answer::Anomalous, [1.0; 2]),
            Some(false) => (Answer::Safe, [0.0; 2]),
            None => (Answer::Unknown, [0.0, 1.0]),
        };
        Answered { answer, probability, reason: Reason::Settled(is_anomalous), ..self.answer(workload) }
    }

    fn judge(&self, workload: &Workload, findings: &[&StoredFinding]) -> (Answer, Reason, [f64; 2]) {
        if let Some(measured) = self.known.measured.get(workload) {
            let answer = if measured.is_anomalous { Answer::Anomalous } else { Answer::Safe };
            return (answer, Reason::Stored(*measured), [f64::from(u8::from(measured.is_anomalous)); 2]);
        }
        let estimate = self.estimate(workload);
        if let Some(surest) = findings.first() {
            let confidence = surest.finding.confidence;
            // Where experiments say that it is more likely healthy, a finding alone is not believed.
            let is_doubtful = estimate.as_ref().is_ok_and(|estimate| estimate.probability.high < 0.5);
            if surest.finding.is_refined() && !is_doubtful {
                return (Answer::Anomalous, Reason::Inside, [confidence, 1.0]);
            }
            if estimate.is_err() && surest.says_likely() {
                return (Answer::Likely, Reason::Inside, [confidence, 1.0]);
            }
        }
        match estimate {
            Ok(estimate) => {
                let answer = match estimate {
                    _ if estimate.is_likely() => Answer::Likely,
                    _ if estimate.is_safe() && !findings.iter().any(|kept| kept.says_likely()) => Answer::Safe,
                    _ => Answer::Unknown,
                };
                (answer, Reason::Estimated(estimate), [estimate.probability.low, estimate.probability.high])
            }
            Err(reason) => (Answer::Unknown, reason, [0.0, 1.0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use kelpie_spaces::Feature;
    use kelpie_spaces::{Condition, Region, Test};

    use crate::testing::{TINY_SPACE, finding, workload};

    fn tiny() -> Rc<Space> {
        Rc::new(Space::from_yaml("tiny", TINY_SPACE).expect("a space"))
    }

    fn measured(number: u64, is_anomalous: bool) -> StoredExperiment {
        StoredExperiment { campaign: CampaignId(1), number, is_anomalous, is_aimed: false }
    }

    /// Nothing but a finding at 3 QPs or more, with this confidence.
    fn with_finding(confidence: f64) -> SubsystemHistory {
        let mut kept = StoredFinding {
            campaign: CampaignId(1),
            subsystem: "sim:F".to_owned(),
            space: tiny(),
            finding: finding(1, 1, workload(4, 4096)),
        };
        kept.finding.confidence = confidence;
        SubsystemHistory { spaces: vec![tiny()], findings: vec![kept], ..SubsystemHistory::nothing("sim:F") }
    }

    #[test]
    fn what_was_measured_needs_no_estimate() {
        let mut known = SubsystemHistory::nothing("sim:F");
        known.measured =
            BTreeMap::from([(workload(4, 4096), measured(1, true)), (workload(1, 4096), measured(2, false))]);
        let adviser = Adviser::new(&known);
        let bad = adviser.answer(&workload(4, 4096));
        assert_eq!(
            (bad.answer, bad.reason, bad.probability),
            (Answer::Anomalous, Reason::Stored(measured(1, true)), [1.0; 2])
        );
        let good = adviser.answer(&workload(1, 4096));
        assert_eq!((good.answer, good.probability), (Answer::Safe, [0.0; 2]));
        assert_eq!(good.nearest[0].1, measured(2, false), "the nearest is the one itself");
    }

    #[test]
    fn two_experiments_are_too_few_for_any_other_workload() {
        let mut known = SubsystemHistory::nothing("sim:F");
        known.measured =
            BTreeMap::from([(workload(1, 4096), measured(1, false)), (workload(4, 4096), measured(2, false))]);
        let answered = Adviser::new(&known).answer(&workload(2, 4096));
        assert_eq!(answered.answer, Answer::Unknown, "{answered:?}");
        assert!(answered.probability[1] > 0.2, "{answered:?}");
    }

    #[test]
    fn what_is_unlike_all_that_was_measured_is_unknown_and_says_why() {
        let mut known = SubsystemHistory::nothing("sim:F");
        let nothing = Adviser::new(&known).answer(&workload(2, 4096));
        assert_eq!(
            (nothing.answer, nothing.reason, nothing.probability),
            (Answer::Unknown, Reason::Nothing, [0.0, 1.0])
        );
        known.measured = (1..=64).map(|qps| (workload(qps, 4096), measured(qps.into(), false))).collect();
        let far = Adviser::new(&known).answer(&workload(128, 4096));
        assert_eq!(far.answer, Answer::Unknown);
        let strange = Strange::Number { feature: Feature::Qps, number: 128, nearest: 64 };
        assert_eq!(far.reason, Reason::Strange(strange));
    }

    #[test]
    fn many_healthy_neighbours_make_a_workload_safe_but_not_inside_a_finding() {
        let mut known = SubsystemHistory::nothing("sim:F");
        let mtus = [256, 512, 1024, 2048, 4096];
        let points = (1..=64).flat_map(|qps| mtus.map(|mtu| workload(2 * qps, mtu)));
        known.measured = points.map(|point| (point, measured(1, false))).collect();
        let safe = Adviser::new(&known).answer(&workload(33, 4096));
        assert_eq!(safe.answer, Answer::Safe, "{safe:?}");
        let Reason::Estimated(estimate) = safe.reason else { panic!("{safe:?}") };
        assert_eq!((estimate.as_healthy, estimate.anomalous_of_them), (320, 0));
        // A finding whose region holds it, though all that was measured says otherwise.
        known.findings = with_finding(0.95).findings;
        let odd = workload(3, 4096);
        assert_eq!(Adviser::new(&known).answer(&odd).answer, Answer::Unknown);
    }

    #[test]
    fn a_refined_finding_is_enough_and_another_makes_it_likely() {
        let inside = workload(3, 4096);
        for (confidence, expected) in [(0.95, Answer::Anomalous), (0.7, Answer::Likely), (0.3, Answer::Unknown)] {
            let known = with_finding(confidence);
            let answered = Adviser::new(&known).answer(&inside);
            assert_eq!((answered.answer, answered.findings.len()), (expected, 1), "{confidence}");
        }
        let known = with_finding(0.95);
        assert_eq!(Adviser::new(&known).answer(&workload(2, 4096)).answer, Answer::Unknown, "outside");
        let mut elsewhere = workload(3, 4096);
        elsewhere.flows[0].qps = 4096;
        assert_eq!(Adviser::new(&known).answer(&elsewhere).answer, Answer::Unknown, "a finding says nothing of it");
        let mut all = with_finding(0.95);
        let any = Condition { feature: Feature::Qps, test: Test::Range { min: Some(1), max: None } };
        all.findings[0].finding.mfs = Region { conditions: vec![any] };
        assert_eq!(Adviser::new(&all).answer(&workload(2, 4096)).answer, Answer::Anomalous);
    }

    #[test]
    fn measuring_settles_it() {
        let known = with_finding(0.95);
        let adviser = Adviser::new(&known);
        let inside = workload(3, 4096);
        for (shown, expected) in [(Some(true), Answer::Anomalous), (Some(false), Answer::Safe), (None, Answer::Unknown)]
        {
            let answered = adviser.settled(&inside, shown);
            assert_eq!(
                (answered.answer, answered.reason, answered.findings.len()),
                (expected, Reason::Settled(shown), 1)
            );
        }
        let mut once = with_finding(0.95);
        once.measured.insert(inside.clone(), measured(7, true));
        let again = Adviser::new(&once).settled(&inside, Some(false));
        assert_eq!((again.answer, again.reason), (Answer::Anomalous, Reason::Stored(measured(7, true))));
    }
}

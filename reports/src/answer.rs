//! Whether a workload is safe on a subsystem, and why: from its findings and from all that was measured. No words.

use kelpie_belief::{Belief, Estimate, Neighbour, Strange};
use kelpie_spaces::{Space, Workload};
use serde::Serialize;

use crate::known::{Kept, Known, Measured};

/// The confidence from which on a finding counts as refined: being inside is then enough.
///
/// Source: issue 14, section 5, admits 5 % healthy among the workloads called anomalous; a region of which 28 random
/// workloads were all anomalous has this confidence, and mostly holds fewer healthy ones than a tenth.
const REFINED: f64 = 0.91;
/// Measured workloads that are shown beside one. Source: our choice, because more are not read.
const NEAREST: usize = 3;

/// What is answered. The order is that of what to care for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Measured anomalous, or inside a refined finding.
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
    Stored(Measured),
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
    pub findings: Vec<&'k Kept>,
    /// The measured workloads nearest to it.
    pub nearest: Vec<(Neighbour<'k>, Measured)>,
}

/// What is known of a subsystem, with what follows from it for workloads that were not measured.
#[derive(Debug)]
pub struct Adviser<'k> {
    pub(crate) known: &'k Known,
    pub(crate) belief: Option<Belief<'k>>,
}

impl<'k> Adviser<'k> {
    /// Learns from what is known. Seconds for 20,000 experiments.
    pub fn new(known: &'k Known) -> Self {
        let measured = known.measured.iter().map(|(workload, measured)| (workload, measured.is_anomalous));
        Self { known, belief: Belief::new(measured) }
    }

    /// The subsystem.
    pub fn subsystem(&self) -> &'k str {
        &self.known.subsystem
    }

    /// Workloads that were measured.
    pub fn measured(&self) -> usize {
        self.known.measured.len()
    }

    /// The findings that hold a workload, the surest first.
    fn findings(&self, workload: &Workload) -> Vec<&'k Kept> {
        let mut findings: Vec<&Kept> = self.known.findings.iter().filter(|kept| kept.holds(workload)).collect();
        findings.sort_by(|a, b| b.finding.confidence.total_cmp(&a.finding.confidence));
        findings
    }

    /// The space in which the workload may be changed: the latest that was searched, else all.
    pub(crate) fn space(&self, workload: &Workload) -> Option<Space> {
        let searched = self.known.spaces.iter().rev().find(|space| space.contains(workload));
        let searched = searched.map(|space| (**space).clone());
        searched.or_else(|| Space::catalog("full").filter(|full| full.contains(workload)))
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

    /// As `answer`, with what measuring the workload just showed; `None` if that was inconclusive.
    pub fn settled(&self, workload: &Workload, is_anomalous: Option<bool>) -> Answered<'k> {
        let (answer, probability) = match is_anomalous {
            Some(true) => (Answer::Anomalous, [1.0; 2]),
            Some(false) => (Answer::Safe, [0.0; 2]),
            None => (Answer::Unknown, [0.0, 1.0]),
        };
        Answered { answer, probability, reason: Reason::Settled(is_anomalous), ..self.answer(workload) }
    }

    fn judge(&self, workload: &Workload, findings: &[&Kept]) -> (Answer, Reason, [f64; 2]) {
        if let Some(measured) = self.known.measured.get(workload) {
            let answer = if measured.is_anomalous { Answer::Anomalous } else { Answer::Safe };
            return (answer, Reason::Stored(*measured), [f64::from(u8::from(measured.is_anomalous)); 2]);
        }
        let estimate = self.estimate(workload);
        if let Some(surest) = findings.first() {
            let confidence = surest.finding.confidence;
            // Where experiments say that it is more likely healthy, a finding alone is not believed.
            let is_doubtful = estimate.as_ref().is_ok_and(|estimate| estimate.probability.high < 0.5);
            if confidence >= REFINED && !is_doubtful {
                return (Answer::Anomalous, Reason::Inside, [confidence, 1.0]);
            }
            if estimate.is_err() && confidence > 0.5 {
                return (Answer::Likely, Reason::Inside, [confidence, 1.0]);
            }
        }
        match estimate {
            Ok(estimate) => {
                let answer = match estimate {
                    _ if estimate.is_likely() => Answer::Likely,
                    _ if estimate.is_safe() && findings.is_empty() => Answer::Safe,
                    _ => Answer::Unknown,
                };
                (answer, Reason::Estimated(estimate), [estimate.probability.low, estimate.probability.high])
            }
            Err(reason) => (Answer::Unknown, reason, [0.0, 1.0]),
        }
    }
}

impl Answered<'_> {
    /// Whether something comparable was stored at all.
    pub fn is_comparable(&self) -> bool {
        !matches!(self.reason, Reason::Nothing | Reason::Strange(_))
    }
}

//! What an experiment showed, as far as regions care.

use kelpie_monitor::{Assessment, Symptom, Verdict};

/// A verdict with the symptom that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No symptom.
    Healthy,
    /// Anomalous; the first symptom, pause before low throughput.
    Anomalous(Symptom),
    /// Neither shown.
    Inconclusive,
}

impl Outcome {
    /// Whether it was anomalous; `None` if nothing was shown.
    pub(crate) fn is_anomalous(self) -> Option<bool> {
        match self {
            Outcome::Healthy => Some(false),
            Outcome::Anomalous(_) => Some(true),
            Outcome::Inconclusive => None,
        }
    }
}

impl From<&Assessment> for Outcome {
    fn from(assessment: &Assessment) -> Self {
        match (assessment.verdict, assessment.symptoms.iter().min()) {
            (Verdict::Anomalous, Some(symptom)) => Outcome::Anomalous(*symptom),
            (Verdict::Healthy, _) => Outcome::Healthy,
            _ => Outcome::Inconclusive,
        }
    }
}

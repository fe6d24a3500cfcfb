//! What a replay says of a recipe: reproduced, not reproduced, or neither. Measuring is the caller's.

use kelpie_monitor::{Symptom, Verdict};
use serde::Serialize;

/// What came of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Replayed {
    /// Anomalous with one of the expected symptoms.
    Reproduced,
    /// Healthy, or anomalous with other symptoms.
    NotReproduced,
    /// No verdict.
    Inconclusive,
}

impl Replayed {
    /// Compares what was measured with the symptoms that a recipe expects.
    pub fn of(verdict: Verdict, symptoms: &[Symptom], expected: &[Symptom]) -> Self {
        match verdict {
            Verdict::Inconclusive => Self::Inconclusive,
            Verdict::Anomalous if symptoms.iter().any(|symptom| expected.contains(symptom)) => Self::Reproduced,
            Verdict::Anomalous | Verdict::Healthy => Self::NotReproduced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_needs_the_symptom_that_is_expected() {
        use Symptom::{LowThroughput, Pause};
        let table: [(Verdict, &[Symptom], &[Symptom], Replayed); 6] = [
            (Verdict::Anomalous, &[Pause], &[Pause], Replayed::Reproduced),
            (Verdict::Anomalous, &[Pause, LowThroughput], &[LowThroughput], Replayed::Reproduced),
            (Verdict::Anomalous, &[LowThroughput], &[Pause, LowThroughput], Replayed::Reproduced),
            (Verdict::Anomalous, &[LowThroughput], &[Pause], Replayed::NotReproduced),
            (Verdict::Healthy, &[], &[Pause], Replayed::NotReproduced),
            (Verdict::Inconclusive, &[], &[Pause], Replayed::Inconclusive),
        ];
        for (verdict, symptoms, expected, outcome) in table {
            assert_eq!(Replayed::of(verdict, symptoms, expected), outcome);
        }
    }
}

//! One experiment of a benchmark.

use kelpie_engine::{MeasureError, Subsystem, measured_or_nothing};
use kelpie_monitor::{Symptom, Verdict};
use kelpie_search::Observation;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::Workload;
use serde::{Deserialize, Serialize};

use super::weakness::Weakness;

/// What an experiment comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    Healthy,
    Inconclusive,
    Anomalous(Weakness),
}

/// What an experiment on a simulated subsystem shows, and what limited it, which no search sees.
pub struct Shown {
    pub seen: Observation,
    pub limiting: String,
}

impl Shown {
    /// # Errors
    /// The subsystem failed; what it cannot express is inconclusive.
    pub fn measure(subsystem: &mut SimSubsystem, workload: &Workload) -> Result<Self, MeasureError> {
        let bounds = subsystem.bounds();
        let (measurement, assessment) = measured_or_nothing(subsystem, workload, &bounds)?;
        let seen = Observation::new(workload, &measurement, assessment, &bounds);
        Ok(Self { seen, limiting: subsystem.limiting().to_owned() })
    }

    /// As findings have it: pause before low throughput.
    pub fn symptom(&self) -> Option<Symptom> {
        self.seen.assessment.symptoms.iter().min().copied()
    }

    /// The verdict, with the weakness if there is one.
    pub fn judged(&self) -> Judged {
        match (self.seen.assessment.verdict, self.symptom()) {
            (Verdict::Anomalous, Some(symptom)) => Judged::Anomalous(Weakness::split(symptom, &self.limiting).0),
            (Verdict::Healthy, _) => Judged::Healthy,
            _ => Judged::Inconclusive,
        }
    }
}

//! An experiment that showed an anomaly, with how bad it was. Which findings explain it is said in the reports.

use kelpie_monitor::{Assessment, Bounds, Measurement, Severity, Symptom, Verdict, shows_again};
use kelpie_spaces::Workload;
use serde::Serialize;

/// An experiment whose verdict is anomalous, which is conclusive (`docs/reference/verdict.md`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Anomaly {
    /// Number of the experiment in its campaign, from 1.
    #[serde(rename = "experiment")]
    pub number: u64,
    /// What it counts as: pause if both symptoms were seen, as for findings.
    pub symptom: Symptom,
    /// How bad it was.
    pub severity: Severity,
    /// What was run.
    pub workload: Workload,
    /// Whether it is to be expected on another day, too; the default search makes findings only of such ones.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub shows_again: bool,
    /// What a host said last, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Anomaly {
    /// What an experiment on a subsystem with these bounds showed; `None` if it was not anomalous.
    pub fn of(
        number: u64,
        workload: &Workload,
        measurement: &Measurement,
        assessment: &Assessment,
        bounds: &Bounds,
    ) -> Option<Self> {
        let symptom = *assessment.symptoms.first().filter(|_| assessment.verdict == Verdict::Anomalous)?;
        let (severity, reason) = match symptom {
            Symptom::HostFailure => (Severity::TOTAL, measurement.hardware_events.last().cloned()),
            _ => (Severity::of(workload, bounds, measurement).unwrap_or_default(), None),
        };
        let shows_again = shows_again(workload, bounds, measurement);
        Some(Self { number, symptom, severity, workload: workload.clone(), shows_again, reason })
    }
}

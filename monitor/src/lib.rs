//! What was measured and what it means: measurements, bounds, symptoms, verdicts. No traffic, no I/O but counter sources.

pub mod measurement;
pub mod verdict;

pub use measurement::{Bounds, DirectionRates, Measurement, PauseRatios, PerHost, Sample, SEND_QUEUE_FULL};
pub use verdict::{assess, Assessment, Inconclusive, Symptom, Verdict};

//! What was measured and what it means: measurements, bounds, symptoms, verdicts. Only counter sources do I/O.

pub mod attained;
pub mod check;
pub mod checks;
pub mod counters;
pub mod demand;
pub mod doctor;
pub mod latency;
pub mod limit;
mod lossy_path;
pub mod machine;
pub mod measurement;
pub mod pause;
mod pcie_need;
pub mod rates;
mod sequential;
mod severity;
pub mod sources;
pub mod statistics;
pub mod verdict;

pub use attained::{Attained, held_against};
pub use check::{Check, CheckState};
pub use checks::CheckKind;
pub use latency::{DirectionLatency, Latency};
pub use limit::Limit;
pub use measurement::{Bounds, Confidence, DirectionRates, Measurement, PauseRatios, PerHost, QpTimes, Sample};
pub use sequential::{ATTEMPTS, JudgedMeasurement, clear_shares, measure_judged, shows_again};
pub use severity::Severity;
pub use verdict::{Assessment, Inconclusive, Symptom, Verdict, assess};

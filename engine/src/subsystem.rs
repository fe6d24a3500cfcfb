//! The one seam: `Subsystem`. Implementations live in `engine/simulated/pair`, `engine/hosts/verbs` and in tests.

use kelpie_monitor::{Assessment, Bounds, Inconclusive, Measurement, measure_judged};
use kelpie_spaces::{Host, Workload};

/// Our own failure to measure; never scored as an anomaly.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The subsystem cannot express this workload (a GPU it does not have, say).
    #[error("this subsystem cannot run the workload: {reason}")]
    Unsupported {
        /// What is missing.
        reason: String,
    },
    /// A host's agent failed or could not be reached; the next experiment may work.
    #[error("host {host}: {operation} failed")]
    Host {
        /// The host.
        host: Host,
        /// What was being done.
        operation: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A subsystem under test: set up a workload, run it, say what the counters did.
pub trait Subsystem {
    /// A name for people and for the store, such as `sim:F`.
    fn name(&self) -> &str;

    /// What simple traffic reaches at best.
    fn bounds(&self) -> Bounds;

    /// Whether it can be measured now; waits for a moment if it cannot.
    ///
    /// # Errors
    /// A host is away.
    fn ready(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }

    /// Runs `workload` to its steady state and samples it.
    ///
    /// # Errors
    /// Only when Kelpie itself fails; what the hardware did, also a hang, is in the measurement.
    fn measure(&mut self, workload: &Workload) -> Result<Measurement, MeasureError>;

    /// As [`Subsystem::measure`], for a workload that was measured `attempt` times just before; `None` if that would
    /// show what it showed before.
    ///
    /// # Errors
    /// As `measure`.
    fn measure_again(&mut self, workload: &Workload, attempt: u32) -> Result<Option<Measurement>, MeasureError> {
        _ = attempt;
        self.measure(workload).map(Some)
    }
}

/// What a workload shows, judged; nothing of one that the subsystem does not support.
///
/// # Errors
/// Any other error of measuring.
pub fn measured_or_nothing(
    subsystem: &mut dyn Subsystem,
    workload: &Workload,
    bounds: &Bounds,
) -> Result<(Measurement, Assessment), MeasureError> {
    match measure_judged(workload, bounds, |workload, attempt| subsystem.measure_again(workload, attempt)) {
        Ok(judged) => Ok((judged.measurement, judged.assessment)),
        Err(MeasureError::Unsupported { .. }) => {
            Ok((Measurement::default(), Assessment::of_nothing(Inconclusive::NoSamples)))
        }
        Err(error) => Err(error),
    }
}

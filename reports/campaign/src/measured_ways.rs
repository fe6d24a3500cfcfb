//! Ways out of an anomaly that are measured while somebody waits.

use kelpie_engine::MeasureError;
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_monitor::{Bounds, Verdict, measure_judged};
use kelpie_reports::ways_out::LiveSubsystem;
use kelpie_search::distil;
use kelpie_spaces::{Condition, Space, Workload};

use crate::UnstoredOracle;

/// A subsystem that is measured while ways out are looked for.
#[derive(Debug)]
pub struct MeasuredWays<'o> {
    opened: &'o mut OpenedSubsystem,
    bounds: Bounds,
    say: fn(&str),
}

impl<'o> MeasuredWays<'o> {
    /// On this subsystem; what takes long is said.
    pub fn new(opened: &'o mut OpenedSubsystem, say: fn(&str)) -> Self {
        Self { bounds: opened.subsystem().bounds(), opened, say }
    }

    /// Whether a workload is anomalous; `None` if that cannot be told.
    ///
    /// # Errors
    /// If it could not be measured.
    pub fn verdict(&mut self, workload: &Workload) -> Result<Option<bool>, MeasureError> {
        let subsystem = self.opened.subsystem();
        let judged =
            measure_judged(workload, &self.bounds, |workload, attempt| subsystem.measure_again(workload, attempt))?;
        Ok(match judged.assessment.verdict {
            Verdict::Anomalous => Some(true),
            Verdict::Healthy => Some(false),
            Verdict::Inconclusive => None,
        })
    }
}

impl LiveSubsystem for MeasuredWays<'_> {
    type Error = MeasureError;

    fn is_anomalous(&mut self, workload: &Workload) -> Result<Option<bool>, MeasureError> {
        match self.verdict(workload) {
            // A way that this subsystem does not have is none; the next may be.
            Err(MeasureError::Unsupported { .. }) => Ok(None),
            other => other,
        }
    }

    fn needs(&mut self, workload: &Workload) -> Result<Vec<Condition>, MeasureError> {
        (self.say)("no known change helps; the workload is reduced to what its anomaly needs, in some 25 experiments");
        let space = Space::catalog("full").expect("a space of the catalogue");
        let distilled = distil(&space, workload, &mut UnstoredOracle::new(self.opened.subsystem()))?;
        Ok(distilled.into_iter().flat_map(|one| one.cures).map(|cure| cure.condition).collect())
    }
}

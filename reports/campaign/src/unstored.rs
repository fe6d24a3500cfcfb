//! A search that nobody stores: one anomaly is asked what it needs.

use std::collections::HashMap;

use kelpie_engine::{MeasureError, Subsystem, measured_or_nothing};
use kelpie_monitor::{Bounds, Severity};
use kelpie_search::{Finding, Observation, Oracle, Purpose};
use kelpie_spaces::Workload;

/// A subsystem that is asked, and what it showed.
pub struct UnstoredOracle<'a> {
    subsystem: &'a mut dyn Subsystem,
    bounds: Bounds,
    severities: HashMap<Workload, Option<Severity>>,
}

impl<'a> UnstoredOracle<'a> {
    /// Nothing was asked yet.
    pub fn new(subsystem: &'a mut dyn Subsystem) -> Self {
        let bounds = subsystem.bounds();
        Self { subsystem, bounds, severities: HashMap::new() }
    }

    /// How bad a workload is that was asked for; `None` if it was not, or nothing ran.
    pub fn severity(&self, workload: &Workload) -> Option<Severity> {
        self.severities.get(workload).copied().flatten()
    }
}

impl Oracle for UnstoredOracle<'_> {
    type Error = MeasureError;

    fn measure(&mut self, workload: &Workload, _: Purpose) -> Result<Observation, MeasureError> {
        let Self { subsystem, bounds, severities } = self;
        let (measurement, assessment) = measured_or_nothing(&mut **subsystem, workload, bounds)?;
        severities.insert(workload.clone(), Severity::of(workload, bounds, &measurement));
        Ok(Observation::new(workload, &measurement, assessment, bounds))
    }

    fn skipped(&mut self, _: &Workload) {}

    fn found(&mut self, _: u64, _: &Finding) -> Result<(), MeasureError> {
        Ok(())
    }
}

//! A host that cannot drive RDMA: it reports to every controller what is missing. It looks for no device.

use std::time::Duration;

use kelpie_engine::plan::HostPlan;
use kelpie_engine::verbs_host::{GroupEndpoint, HostError, HostReading, Port, PortReport, VerbsHost};

/// A machine that lacks something that all traffic needs.
#[derive(Debug, Clone)]
pub struct AbsentHost {
    missing: String,
}

impl AbsentHost {
    /// A machine without `missing`, in words for the controller's user.
    pub fn new(missing: String) -> Self {
        Self { missing }
    }

    fn refuse<T>(&self) -> Result<T, HostError> {
        Err(HostError::Failed(self.missing.clone()))
    }
}

impl VerbsHost for AbsentHost {
    fn inspect(&mut self, _port: &Port) -> Result<PortReport, HostError> {
        self.refuse()
    }

    fn set_up(&mut self, _port: &Port, _plan: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError> {
        self.refuse()
    }

    fn connect(&mut self, _peers: &[GroupEndpoint]) -> Result<(), HostError> {
        self.refuse()
    }

    fn start(&mut self) -> Result<(), HostError> {
        self.refuse()
    }

    fn sample(&mut self) -> Result<HostReading, HostError> {
        self.refuse()
    }

    fn stop(&mut self, _drain: Duration) -> Result<HostReading, HostError> {
        self.refuse()
    }

    fn recycle(&mut self) {}

    fn tear_down(&mut self) {}
}

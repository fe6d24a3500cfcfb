//! A pair of real hosts as a subsystem: two agents, driven through a session. What traffic does is up to them.

mod agents;
mod calibration;
mod capacity;
mod checks;
mod error;
mod file;
pub mod rounds;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use kelpie_engine::bond::Bond;
use kelpie_engine::{MeasureError, Subsystem};
use kelpie_monitor::{ATTEMPTS, Bounds, Check, Measurement, PerHost};
use kelpie_spaces::Workload;

pub use error::PairError;
pub use file::{HostSpec, PairFile, PairFileError};

pub use rounds::{RoundResult, TrafficRound};

use capacity::Capacity;

pub use agents::controller_name;

pub(crate) use agents::{Agents, PATIENCE_AT_OPEN, PATIENCE_LATER, failure, peers_of};

/// Two hosts with agents.
#[derive(Debug)]
pub struct PairSubsystem {
    runtime: tokio::runtime::Runtime,
    agents: Agents,
    bounds: Bounds,
    capacity: Capacity,
}

impl PairSubsystem {
    /// Reads the pair's file, connects to both agents and calibrates the bounds if the file has none.
    ///
    /// # Errors
    /// Where the file is refused, an agent cannot be reached or a device is missing.
    pub fn open(path: &Path) -> Result<Self, PairError> {
        Self::of(PairFile::read(path)?)
    }

    /// As `open`, for a file that was already read.
    ///
    /// # Errors
    /// As `open`.
    pub fn of(file: PairFile) -> Result<Self, PairError> {
        let runtime = crate::runtime::with_one_worker().map_err(PairError::Runtime)?;
        let mut agents = Agents::new(file);
        let ports = runtime.block_on(agents.ready(PATIENCE_AT_OPEN)).map_err(PairError::Host)?;
        let mtu = calibration::largest_mtu(&ports);
        let bounds = match agents.file.bounds {
            Some(bounds) => bounds,
            None => runtime.block_on(calibration::calibrate(&mut agents, mtu))?,
        };
        let capacity = Capacity::new(mtu, &agents.file.session);
        Ok(Self { runtime, agents, bounds, capacity })
    }

    /// How long the traffic takes that calibrates the bounds: if runs are alike, and if they differ. Units: s.
    pub fn calibration_seconds(file: &PairFile) -> [f64; 2] {
        calibration::seconds(&file.session)
    }

    /// What the doctor says of both hosts, asked through their agents. A pair can be measured whatever comes of it.
    pub fn checks(&mut self) -> Vec<Check> {
        self.runtime.block_on(checks::checks(&mut self.agents))
    }

    /// The largest path MTU that both ports are configured for. Units: bytes.
    ///
    /// # Errors
    /// Where a host cannot be asked.
    pub fn active_mtu(&mut self) -> Result<u64, MeasureError> {
        let ports = self.runtime.block_on(self.agents.ready(PATIENCE_LATER))?;
        Ok(ports.a.active_mtu.min(ports.b.active_mtu))
    }

    /// What carries the traffic of each host.
    ///
    /// # Errors
    /// Where a host cannot be asked.
    pub fn bonds(&mut self) -> Result<PerHost<Bond>, MeasureError> {
        self.runtime.block_on(async {
            self.agents.ready(PATIENCE_LATER).await?;
            self.agents.bonds().await
        })
    }

    /// Moves traffic along chosen paths, and reads what each port of both hosts moved meanwhile. `tick` is called at
    /// each look at the traffic, with the bytes that each flow has completed; it may end the traffic early.
    ///
    /// # Errors
    /// Where a host fails.
    pub fn round(
        &mut self,
        round: &TrafficRound,
        tick: &mut dyn FnMut(Duration, &[u64]) -> ControlFlow<()>,
    ) -> Result<RoundResult, MeasureError> {
        self.runtime.block_on(async {
            self.agents.ready(PATIENCE_LATER).await?;
            self.agents.round(round, tick).await
        })
    }

    /// Measures the latency of requests from now on, whether or not the pair's file says so.
    pub fn measure_latency(&mut self) {
        self.agents.file.session.latency = true;
    }
}

impl Subsystem for PairSubsystem {
    fn name(&self) -> &str {
        &self.agents.file.name
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn ready(&mut self) -> Result<(), MeasureError> {
        self.runtime.block_on(self.agents.ready(PATIENCE_LATER)).map(drop)
    }

    fn measure(&mut self, workload: &Workload) -> Result<Measurement, MeasureError> {
        let timing = self.agents.file.session;
        self.runtime.block_on(async {
            self.agents.ready(PATIENCE_LATER).await?;
            self.agents.experiment(workload, timing).await
        })
    }

    /// A further run on hosts that are not steady says, too, what simple traffic reaches meanwhile.
    fn measure_again(&mut self, workload: &Workload, attempt: u32) -> Result<Option<Measurement>, MeasureError> {
        let mut capacity = None;
        if let Some(reference) = self.bounds.unsteady_reference().filter(|_| !attempt.is_multiple_of(ATTEMPTS)) {
            self.ready()?;
            // If simple traffic fails, that is not the workload's failure, but nothing is known of it either.
            match self.runtime.block_on(self.capacity.measure(&mut self.agents)) {
                Ok(packets_per_sec) => capacity = Some(packets_per_sec / reference),
                Err(error) => tracing::warn!("cannot measure what simple traffic reaches meanwhile: {error:#}"),
            }
        }
        Ok(Some(Measurement { capacity, ..self.measure(workload)? }))
    }
}

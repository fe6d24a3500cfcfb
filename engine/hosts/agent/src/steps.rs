//! What a controller may ask of an agent: one remote procedure per step of `VerbsHost`, each with its deadline.

use std::time::Duration;

use kelpie_monitor::doctor::Examination;
use kelpie_spaces::{Host, Workload};

use kelpie_engine::bond::Bond;
use kelpie_engine::rank::{RankJob, RankReading};
use kelpie_engine::timing::{DRAIN_LIMIT_MS, SAMPLE_LIMIT_MS};
use kelpie_engine::verbs_host::{GroupEndpoint, GroupPorts, HostError, HostReading, Port, PortReport};

/// The steps of an experiment on one host, in this order.
#[tarpc::service(derive = [Clone, PartialEq, serde::Serialize, serde::Deserialize])]
pub trait Steps {
    /// What is this port?
    async fn inspect(port: Port) -> Result<PortReport, HostError>;
    /// Is your host, with this port, fit to be measured?
    async fn examine(port: Port) -> Result<Examination, HostError>;
    /// Set up your part of the workload, whose host `host` you are; time its requests if `latency` says so.
    async fn set_up(host: Host, port: Port, workload: Workload, latency: bool)
    -> Result<Vec<GroupEndpoint>, HostError>;
    /// What carries the traffic of this port, and what has each of its ports moved?
    async fn bond(port: Port) -> Result<Bond, HostError>;
    /// Take these source ports when you connect.
    async fn set_source_ports(groups: Vec<GroupPorts>) -> Result<(), HostError>;
    /// Connect to these: every group whose peer you have.
    async fn connect(peers: Vec<GroupEndpoint>) -> Result<(), HostError>;
    /// Start traffic.
    async fn start() -> Result<(), HostError>;
    /// Read work and counters.
    async fn sample() -> Result<HostReading, HostError>;
    /// Stop posting, wait at most `drain_ms` milliseconds for outstanding work.
    async fn stop(drain_ms: u64) -> Result<HostReading, HostError>;
    /// Set up a rank of a ring, to be connected and started as any traffic.
    async fn set_up_rank(port: Port, job: RankJob) -> Result<Vec<GroupEndpoint>, HostError>;
    /// What has the rank done since you were last asked?
    async fn read_rank() -> Result<RankReading, HostError>;
    /// End the session.
    async fn tear_down() -> Result<(), HostError>;
}

/// How long a host may take to be free again: a step that still runs when its controller leaves, and the tear-down.
pub const LONGEST_RELEASE: Duration = Duration::from_mins(4);

/// What a controller may be late by, beyond the other host's part of the same step and the wait for the next sample.
const LATE: Duration = Duration::from_secs(5);

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExperimentStep {
    /// [`Steps::inspect`].
    Inspect,
    /// [`Steps::examine`].
    Examine,
    /// [`Steps::set_up`].
    SetUp,
    /// [`Steps::bond`].
    Bond,
    /// [`Steps::set_source_ports`].
    SetSourcePorts,
    /// [`Steps::connect`].
    Connect,
    /// [`Steps::start`].
    Start,
    /// [`Steps::sample`].
    Sample,
    /// [`Steps::stop`].
    Stop,
    /// [`Steps::set_up_rank`].
    SetUpRank,
    /// [`Steps::read_rank`].
    ReadRank,
    /// [`Steps::tear_down`].
    TearDown,
}

impl ExperimentStep {
    /// What it does, for errors.
    pub fn name(self) -> &'static str {
        match self {
            ExperimentStep::Inspect => "inspect the device",
            ExperimentStep::Examine => "examine the host",
            ExperimentStep::SetUp => "set up",
            ExperimentStep::Bond => "read the bond",
            ExperimentStep::SetSourcePorts => "set source ports",
            ExperimentStep::Connect => "connect QPs",
            ExperimentStep::Start => "start traffic",
            ExperimentStep::Sample => "sample",
            ExperimentStep::Stop => "stop traffic",
            ExperimentStep::SetUpRank => "set up a rank",
            ExperimentStep::ReadRank => "read a rank",
            ExperimentStep::TearDown => "tear down",
        }
    }

    /// How long it may take; both ends keep to it.
    ///
    /// Source: our choice, because 20 K QPs take 6 s on Soft-RoCE and a real NIC is no slower.
    pub fn deadline(self) -> Duration {
        match self {
            ExperimentStep::SetUp | ExperimentStep::SetUpRank | ExperimentStep::Connect | ExperimentStep::TearDown => {
                Duration::from_mins(2)
            }
            ExperimentStep::Stop => Duration::from_millis(DRAIN_LIMIT_MS) + Duration::from_secs(5),
            ExperimentStep::Inspect
            | ExperimentStep::Examine
            | ExperimentStep::Bond
            | ExperimentStep::SetSourcePorts
            | ExperimentStep::Start
            | ExperimentStep::Sample
            | ExperimentStep::ReadRank => Duration::from_secs(5),
        }
    }

    /// How long an agent that holds something waits for the controller's next word after this step.
    pub fn patience(self) -> Duration {
        self.deadline() + Duration::from_millis(SAMPLE_LIMIT_MS) + LATE
    }
}

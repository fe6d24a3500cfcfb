//! A pair of real hosts as a subsystem: two agents, driven through a session. What traffic does is up to them.

mod calibration;
mod file;

use std::path::Path;
use std::time::{Duration, Instant};

use kelpie_monitor::{Bounds, Measurement, PerHost};
use kelpie_spaces::{Host, Workload};

pub use file::{HostSpec, Hosts, PairFile, PairFileError};

use crate::agent::client::{AgentClient, ClientError};
use crate::agent::wire::{Reply, Request};
use crate::host::{GroupEndpoint, HostError, PortReport};
use crate::readings::measurement;
use crate::session::{Next, Session, Timing};
use crate::subsystem::{MeasureError, Subsystem};

/// How long a first connection waits for an agent that is about to be free.
const PATIENCE_AT_OPEN: Duration = Duration::from_secs(5);

/// How long a lost agent may take to come back.
const PATIENCE_LATER: Duration = Duration::from_secs(20);

/// Pause between attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Why a pair cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// Its file was refused.
    #[error(transparent)]
    File(#[from] PairFileError),
    /// The asynchronous runtime could not be made.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
    /// Simple traffic could not be measured.
    #[error("cannot calibrate the bounds of the pair: write `bounds` in its file, or mend this")]
    Calibration(#[source] MeasureError),
    /// Simple traffic moved nothing.
    #[error("no traffic passed while calibrating the bounds of the pair ({events}): check cabling, addresses and MTU")]
    NoTraffic {
        /// What the hardware reported.
        events: String,
    },
    /// A host cannot be used.
    #[error(transparent)]
    Host(MeasureError),
}

/// Two hosts with agents.
#[derive(Debug)]
pub struct PairSubsystem {
    runtime: tokio::runtime::Runtime,
    agents: Agents,
    bounds: Bounds,
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(PairError::Runtime)?;
        let mut agents = Agents { file, clients: PerHost::default() };
        let ports = runtime.block_on(agents.ready(PATIENCE_AT_OPEN)).map_err(PairError::Host)?;
        let bounds = match agents.file.bounds {
            Some(bounds) => bounds,
            None => runtime.block_on(calibration::calibrate(&mut agents, &ports))?,
        };
        Ok(Self { runtime, agents, bounds })
    }
}

impl Subsystem for PairSubsystem {
    fn name(&self) -> &str {
        &self.agents.file.name
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn measure(&mut self, workload: &Workload) -> Result<Measurement, MeasureError> {
        let timing = self.agents.file.session;
        self.runtime.block_on(async {
            self.agents.ready(PATIENCE_LATER).await?;
            self.agents.experiment(workload, timing).await
        })
    }
}

/// Both agents, as far as they are connected.
#[derive(Debug)]
struct Agents {
    file: PairFile,
    clients: PerHost<Option<AgentClient>>,
}

impl Agents {
    /// Connects whoever is not connected (any more) and asks both for their ports.
    async fn ready(&mut self, patience: Duration) -> Result<PerHost<PortReport>, MeasureError> {
        let [a, b] = Host::BOTH.map(|host| (host, self.file.host(host).clone()));
        let (a, b) = tokio::join!(
            ready(a.0, &a.1, &mut self.clients.a, patience),
            ready(b.0, &b.1, &mut self.clients.b, patience),
        );
        Ok(PerHost { a: a?, b: b? })
    }

    /// One experiment, after which nothing is left on the hosts: by a tear-down, or by the loss of the connection.
    async fn experiment(&mut self, workload: &Workload, timing: Timing) -> Result<Measurement, MeasureError> {
        let outcome = self.traffic(workload, timing).await;
        // Something else than "cannot run this" leaves both sides in doubt.
        let clean = matches!(outcome, Ok(_) | Err(MeasureError::Unsupported { .. }));
        let torn_down = if clean { self.both(|_| Request::TearDown, Reply::into_done).await.map(drop) } else { Ok(()) };
        if !clean || torn_down.is_err() {
            self.clients = PerHost::default();
        }
        outcome.and_then(|measurement| torn_down.map(|()| measurement))
    }

    async fn traffic(&mut self, workload: &Workload, timing: Timing) -> Result<Measurement, MeasureError> {
        let ports = PerHost { a: self.file.hosts.a.port(), b: self.file.hosts.b.port() };
        let set_up = |host: Host| Request::SetUp { host, port: ports.get(host).clone(), workload: workload.clone() };
        let endpoints = self.both(set_up, Reply::into_endpoints).await?;
        let peers = |host: Host| Request::Connect { peers: peers_of(host, &endpoints) };
        self.both(peers, Reply::into_done).await?;
        self.both(|_| Request::Start, Reply::into_done).await?;
        let started = Instant::now();
        let mut session = Session::new(timing);
        while let Next::ReadAt(at) = session.next_step() {
            tokio::time::sleep_until((started + at).into()).await;
            let reading = self.both(|_| Request::Sample, Reply::into_reading).await?;
            session.reading(started.elapsed(), reading);
        }
        let last = self.both(|_| Request::Stop { drain_ms: timing.drain_ms }, Reply::into_reading).await?;
        let mut measured = measurement(workload, &session.into_readings());
        for host in Host::BOTH {
            let left = last.get(host).outstanding;
            if left > 0 {
                measured.hardware_events.push(format!(
                    "host {host}: {left} work requests did not complete within {} ms after the end",
                    timing.drain_ms
                ));
            }
        }
        Ok(measured)
    }

    /// Asks both hosts for a step at once; an error names its host.
    async fn both<T>(
        &mut self,
        request: impl Fn(Host) -> Request,
        take: fn(Reply) -> Option<T>,
    ) -> Result<PerHost<T>, MeasureError> {
        let (to_a, to_b) = (request(Host::A), request(Host::B));
        let (a, b) = tokio::join!(ask(&mut self.clients.a, &to_a, take), ask(&mut self.clients.b, &to_b, take));
        let named = |host, request: &Request, answer: Result<T, ClientError>| {
            answer.map_err(|error| failure(host, request.name(), error))
        };
        Ok(PerHost { a: named(Host::A, &to_a, a)?, b: named(Host::B, &to_b, b)? })
    }
}

async fn ask<T>(
    client: &mut Option<AgentClient>,
    request: &Request,
    take: fn(Reply) -> Option<T>,
) -> Result<T, ClientError> {
    client.as_mut().expect("`ready` connected both before any step").ask(request, take).await
}

/// The endpoints whose peers are on `host`: those of the other host, and its own where a flow is a loopback.
fn peers_of(host: Host, endpoints: &PerHost<Vec<GroupEndpoint>>) -> Vec<GroupEndpoint> {
    let own = endpoints.get(host);
    let is_peer = |group: &&GroupEndpoint| own.iter().any(|mine| mine.id == group.id.peer());
    endpoints.a.iter().chain(&endpoints.b).filter(is_peer).cloned().collect()
}

/// Makes sure that the agent of `host` answers, reconnecting where needed.
async fn ready(
    host: Host,
    spec: &HostSpec,
    client: &mut Option<AgentClient>,
    patience: Duration,
) -> Result<PortReport, MeasureError> {
    let inspect = Request::Inspect { port: spec.port() };
    let started = Instant::now();
    // A connection may have died since its last use; that alone is no failure.
    let was_connected = client.is_some();
    loop {
        let error = match attempt(spec, client, &inspect).await {
            Ok(port) => return Ok(port),
            Err(ClientError::Host(error)) => return Err(failure(host, inspect.name(), error.into())),
            Err(error) => error,
        };
        *client = None;
        let may_pass = match error {
            ClientError::Busy { .. } => true,
            ClientError::Connect { .. } | ClientError::Wire { .. } => was_connected || patience == PATIENCE_LATER,
            _ => false,
        };
        if !may_pass || started.elapsed() >= patience {
            return Err(failure(host, "connect to the agent", error));
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn attempt(
    spec: &HostSpec,
    slot: &mut Option<AgentClient>,
    inspect: &Request,
) -> Result<PortReport, ClientError> {
    let client = match slot {
        Some(client) => client,
        None => slot.insert(AgentClient::connect(&spec.agent, &controller_name()).await?),
    };
    client.ask(inspect, Reply::into_port).await
}

/// Who holds an agent, for others to read.
fn controller_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("kelpie {} on {}", std::process::id(), host.trim())
}

fn failure(host: Host, operation: &str, error: ClientError) -> MeasureError {
    match error {
        ClientError::Host(HostError::Unsupported(reason)) => {
            MeasureError::Unsupported { reason: format!("host {host}: {reason}") }
        }
        error => MeasureError::Host { host, operation: operation.to_owned(), source: Box::new(error) },
    }
}

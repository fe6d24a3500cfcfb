//! Both agents of a pair: connecting to them, and one experiment step by step. What a subsystem makes of it is above.

use std::time::{Duration, Instant};

use kelpie_engine::MeasureError;
use kelpie_engine::readings::measurement;
use kelpie_engine::session::{Session, SessionStep};
use kelpie_engine::timing::Timing;
use kelpie_engine::verbs_host::{GroupEndpoint, HostError, PortReport};
use kelpie_monitor::counters::ACK_TIMEOUT;
use kelpie_monitor::{Measurement, PerHost};
use kelpie_spaces::{Host, Workload};

use super::file::{HostSpec, PairFile};
use crate::client::{AgentClient, ClientError};
use crate::security::Security;
use crate::steps::{ExperimentStep, LONGEST_RELEASE};

/// How long a first connection waits for an agent that another controller holds.
pub const PATIENCE_AT_OPEN: Duration = Duration::from_secs(5);

/// How long a lost agent may take to come back.
pub const PATIENCE_LATER: Duration = Duration::from_secs(20);

/// A wait that somebody at a terminal wants to know of.
const WORTH_TELLING: Duration = Duration::from_secs(3);

/// Pause between attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Both agents, as far as they are connected.
#[derive(Debug)]
pub struct Agents {
    pub file: PairFile,
    pub clients: PerHost<Option<AgentClient>>,
}

impl Agents {
    /// Nobody is connected yet.
    pub fn new(file: PairFile) -> Self {
        Self { file, clients: PerHost::default() }
    }

    /// Connects one host if it is not connected (any more).
    pub async fn ready_one(&mut self, host: Host, patience: Duration) -> Result<PortReport, MeasureError> {
        let security = self.file.security();
        ready(host, self.file.hosts.get(host), &security, self.clients.get_mut(host), patience).await
    }

    /// Lets go of a host, whose agent then tears down what is left.
    pub fn forget(&mut self, host: Host) {
        *self.clients.get_mut(host) = None;
    }

    /// Connects whoever is not connected (any more) and asks both for their ports.
    pub async fn ready(&mut self, patience: Duration) -> Result<PerHost<PortReport>, MeasureError> {
        let (hosts, security) = (&self.file.hosts, self.file.security());
        let (a, b) = tokio::join!(
            ready(Host::A, &hosts.a, &security, &mut self.clients.a, patience),
            ready(Host::B, &hosts.b, &security, &mut self.clients.b, patience),
        );
        Ok(PerHost { a: a?, b: b? })
    }

    /// One experiment, after which nothing is left on the hosts: by a tear-down, or by the loss of the connection.
    pub async fn experiment(&mut self, workload: &Workload, timing: Timing) -> Result<Measurement, MeasureError> {
        let outcome = self.traffic(workload, timing).await;
        // Something else than "cannot run this" leaves both sides in doubt.
        let clean = matches!(outcome, Ok(_) | Err(MeasureError::Unsupported { .. }));
        let torn_down = if clean {
            self.both(ExperimentStep::TearDown, async |_, agent| agent.tear_down().await).await.map(drop)
        } else {
            Ok(())
        };
        if !clean || torn_down.is_err() {
            self.clients = PerHost::default();
        }
        outcome.and_then(|measurement| torn_down.map(|()| measurement))
    }

    async fn traffic(&self, workload: &Workload, timing: Timing) -> Result<Measurement, MeasureError> {
        let hosts = &self.file.hosts;
        let set_up = async |host, agent: &AgentClient| {
            let port = hosts.get(host).port.clone();
            agent.set_up(host, port, workload.clone(), timing.latency).await
        };
        let endpoints = self.both(ExperimentStep::SetUp, set_up).await?;
        let connect = async |host, agent: &AgentClient| agent.connect_to(peers_of(host, &endpoints)).await;
        self.both(ExperimentStep::Connect, connect).await?;
        self.both(ExperimentStep::Start, async |_, agent| agent.start().await).await?;
        let started = Instant::now();
        let mut session = Session::new(timing);
        while let SessionStep::ReadAt(at) = session.next_step() {
            tokio::time::sleep_until((started + at).into()).await;
            let reading = self.both(ExperimentStep::Sample, async |_, agent| agent.sample().await).await?;
            session.reading(started.elapsed(), reading);
        }
        let last = self.both(ExperimentStep::Stop, async |_, agent| agent.stop(timing.drain_ms).await).await?;
        let storm = session.storm().map(ToString::to_string);
        let mut measured = measurement(workload, &endpoints, &session.into_readings(), &last);
        measured.hardware_events.extend(storm);
        if workload.flows.iter().any(|flow| flow.loss_ppm > 0) {
            for host in Host::BOTH {
                let timeout = hosts.get(host).port.tuning.longest_ack_timeout_seconds();
                let counters = measured.samples.iter_mut().map(|sample| sample.counters.get_mut(host));
                counters.for_each(|counters| _ = counters.insert(ACK_TIMEOUT.to_owned(), timeout));
            }
        }
        for host in Host::BOTH {
            for group in &last.get(host).groups {
                for (op, done) in &group.by_op {
                    let (flow, role) = (group.id.flow, group.id.role);
                    tracing::debug!(%host, flow, ?role, %op, messages = done.messages, bytes = done.bytes, "in all");
                }
            }
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

    pub fn client(&self, host: Host) -> &AgentClient {
        self.clients.get(host).as_ref().expect("`ready` connected both before any step")
    }

    /// Asks both hosts for a step at once; an error names its host.
    pub(super) async fn both<T>(
        &self,
        step: ExperimentStep,
        ask: impl AsyncFn(Host, &AgentClient) -> Result<T, ClientError>,
    ) -> Result<PerHost<T>, MeasureError> {
        let (a, b) = tokio::join!(ask(Host::A, self.client(Host::A)), ask(Host::B, self.client(Host::B)));
        let named = |host, answer: Result<T, ClientError>| answer.map_err(|error| failure(host, step.name(), error));
        Ok(PerHost { a: named(Host::A, a)?, b: named(Host::B, b)? })
    }
}

/// The endpoints whose peers are on `host`: those of the other host, and its own if a flow is a loopback.
pub fn peers_of(host: Host, endpoints: &PerHost<Vec<GroupEndpoint>>) -> Vec<GroupEndpoint> {
    let own = endpoints.get(host);
    let is_peer = |group: &&GroupEndpoint| own.iter().any(|mine| mine.id == group.id.peer());
    endpoints.a.iter().chain(&endpoints.b).filter(is_peer).cloned().collect()
}

/// Makes sure that the agent of `host` answers, reconnecting if needed.
async fn ready(
    host: Host,
    spec: &HostSpec,
    security: &Security,
    client: &mut Option<AgentClient>,
    patience: Duration,
) -> Result<PortReport, MeasureError> {
    let started = Instant::now();
    // A connection may have died since its last use; that alone is no failure.
    let was_connected = client.is_some();
    let (mut waiting_since, mut told) = (started, false);
    loop {
        let error = match attempt(spec, security, client).await {
            Ok(port) => return Ok(port),
            Err(ClientError::Host(error)) => return Err(failure(host, ExperimentStep::Inspect.name(), error.into())),
            Err(error) => error,
        };
        *client = None;
        let until = match error {
            ClientError::Busy { leaving: true, .. } => {
                if !told && started.elapsed() >= WORTH_TELLING {
                    told = true;
                    tracing::warn!(%host, "waiting until its agent has torn down what was set up before");
                }
                waiting_since = Instant::now();
                started + LONGEST_RELEASE
            }
            ClientError::Busy { .. } => waiting_since + patience,
            ClientError::Connect { .. }
            | ClientError::Wire { .. }
            | ClientError::Silent { .. }
            | ClientError::Unwelcome { .. }
                if was_connected || patience == PATIENCE_LATER =>
            {
                waiting_since + patience
            }
            _ => started,
        };
        if Instant::now() >= until {
            return Err(failure(host, "connect to the agent", error));
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn attempt(
    spec: &HostSpec,
    security: &Security,
    slot: &mut Option<AgentClient>,
) -> Result<PortReport, ClientError> {
    let client = match slot {
        Some(client) => client,
        None => slot.insert(AgentClient::connect(&spec.agent, security, &controller_name()).await?),
    };
    client.inspect(spec.port.clone()).await
}

/// Who holds an agent, for others to read.
pub fn controller_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("kelpie {} on {}", std::process::id(), host.trim())
}

/// What became of a step, with its host.
pub fn failure(host: Host, operation: &str, error: ClientError) -> MeasureError {
    match error {
        ClientError::Host(HostError::Unsupported(reason)) => {
            MeasureError::Unsupported { reason: format!("host {host}: {reason}") }
        }
        error => MeasureError::Host { host, operation: operation.to_owned(), source: Box::new(error) },
    }
}

//! The agent's service for one controller: calls become steps of the host, one at a time, each within its deadline.

use std::fmt::Display;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use kelpie_engine::bond::Bond;
use kelpie_engine::chain;
use kelpie_engine::plan::plan;
use kelpie_engine::rank::{RankJob, RankReading};
use kelpie_engine::timing::DRAIN_LIMIT_MS;
use kelpie_engine::verbs_host::{GroupEndpoint, GroupPorts, HostError, HostReading, Port, PortReport, VerbsHost};
use kelpie_monitor::doctor::{Examination, examine};
use kelpie_monitor::machine::Machine;
use kelpie_spaces::flow_label::FIRST_PORT;
use kelpie_spaces::{Host, Ports, Workload};
use tarpc::server::{BaseChannel, Channel, Config};
use tarpc::{ChannelError, context::Context};
use tokio::time::timeout;
use tokio_util::codec::Framed;

use crate::lease::{LeasedHost, locked};
use crate::limits::Limits;
use crate::memory_watch::MemoryWatch;
use crate::security::Pipe;
use crate::socket::linger;
use crate::steps::{ExperimentStep, Steps};
use crate::wire::{AgentCodec, AgentMessage, WireError};

/// How often silence is looked for.
const TICK: Duration = Duration::from_millis(250);

/// How long a controller may be silent that holds nothing but the agent. Source: our choice, because a search may think
/// for a while, and one that was dropped connects again.
const IDLE: Duration = Duration::from_mins(5);

/// QP numbers and packet sequence numbers have 24 bits. Source: IBTA volume 1, sections 9.2.3 and 9.2.4.
const BITS_24: u32 = 1 << 24;

/// Most ports of a LAG. Source: our choice, because LAGs of RDMA devices have two to four.
const MOST_LAG_PORTS: u8 = 8;

/// How long the last word may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves the controller behind `pipe` until it leaves or has to go.
pub async fn serve(host: Arc<LeasedHost>, limits: Limits, pipe: Framed<Pipe, AgentCodec>) -> Result<(), WireError> {
    let patience = Arc::new(Mutex::new((IDLE, Instant::now())));
    let service = StepsService { host, limits, patience, memory: Arc::new(MemoryWatch::new()) };
    let mut calls = pin!(BaseChannel::new(Config::default(), pipe).requests());
    let mut tick = tokio::time::interval(TICK);
    let ended = loop {
        tokio::select! {
            call = calls.next() => match call {
                None => return Ok(()),
                Some(Err(error)) => match cause(error) {
                    // Over TLS, a controller that just ends has not said so.
                    WireError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                    error => break error,
                },
                Some(Ok(_)) if calls.channel().in_flight_requests() > 1 => {
                    break WireError::Unexpected("a call before the answer to the one before".to_owned());
                }
                Some(Ok(call)) => drop(tokio::spawn(call.execute(service.clone().serve()))),
            },
            _ = tick.tick() => if let Some(limit) = service.exhausted() {
                break WireError::Deadline(limit);
            },
        }
    };
    let pipe = calls.channel_pin_mut().get_pin_ref().get_mut();
    let farewell = AgentMessage::Farewell { reason: chain(&ended) };
    if let Ok(Ok(())) = timeout(FAREWELL, pipe.send(farewell)).await {
        linger(pipe.get_mut()).await;
    }
    Err(ended)
}

/// What the transport said; the library keeps it in an `Arc` of which this is the last owner.
fn cause(error: ChannelError<WireError>) -> WireError {
    let (ChannelError::Read(cause)
    | ChannelError::Ready(cause)
    | ChannelError::Write(cause)
    | ChannelError::Flush(cause)
    | ChannelError::Close(cause)) = error;
    Arc::try_unwrap(cause).unwrap_or(WireError::Closed)
}

/// How long the controller may be silent, and since when.
type Patience = (Duration, Instant);

#[derive(Clone)]
struct StepsService {
    host: Arc<LeasedHost>,
    limits: Limits,
    patience: Arc<Mutex<Patience>>,
    memory: Arc<MemoryWatch>,
}

impl StepsService {
    /// The limit that the controller's silence has exceeded.
    fn exhausted(&self) -> Option<Duration> {
        let (limit, since) = *locked(&self.patience);
        (since.elapsed() > limit).then_some(limit)
    }

    async fn step<T: Send + 'static>(
        self,
        step: ExperimentStep,
        work: impl FnOnce(&mut dyn VerbsHost) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        // While the host works, the step's own deadline holds; a call that is given up leaves a limit behind.
        let working = (step.deadline() + step.patience(), Instant::now());
        let (before, _) = std::mem::replace(&mut *locked(&self.patience), working);
        let limit = step.deadline();
        let done = timeout(limit, self.host.blocking(work)).await;
        let patience = match step {
            // These may be asked beside a session and without one.
            ExperimentStep::Inspect | ExperimentStep::Examine | ExperimentStep::Bond => before,
            ExperimentStep::TearDown => IDLE,
            _ if done.is_ok() => step.patience(),
            _ => Duration::ZERO,
        };
        *locked(&self.patience) = (patience, Instant::now());
        match done {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_panicked)) => Err(HostError::Failed(format!("the agent could not {}: see its log", step.name()))),
            Err(_) => Err(HostError::Failed(format!("the host did not {} within {} s", step.name(), limit.as_secs()))),
        }
    }

    /// A step that fails if its traffic was ended for want of memory.
    async fn step_in_traffic<T: Send + 'static>(
        self,
        step: ExperimentStep,
        work: impl FnOnce(&mut dyn VerbsHost) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let memory = Arc::clone(&self.memory);
        memory.judge(self.step(step, work).await)
    }
}

impl Steps for StepsService {
    async fn inspect(self, _: Context, port: Port) -> Result<PortReport, HostError> {
        check_tuning(&port)?;
        self.step(ExperimentStep::Inspect, move |host| host.inspect(&port)).await
    }

    async fn examine(self, _: Context, port: Port) -> Result<Examination, HostError> {
        let look = move || {
            examine(&Machine::live(), port.device.as_deref(), Some(port.port.into()), port.tuning.traffic_class)
        };
        self.step(ExperimentStep::Examine, move |_| Ok(look())).await
    }

    async fn set_up(
        self,
        _: Context,
        host: Host,
        port: Port,
        workload: Workload,
        latency: bool,
    ) -> Result<Vec<GroupEndpoint>, HostError> {
        check_tuning(&port)?;
        kelpie_spaces::check(&workload).map_err(|violation| HostError::Unsupported(violation.to_string()))?;
        check_ports(&workload)?;
        let plan = plan(&workload, host);
        let plan = if latency { plan.with_latency() } else { plan };
        self.limits.check(&plan)?;
        self.step(ExperimentStep::SetUp, move |host| host.set_up(&port, &plan)).await
    }

    async fn bond(self, _: Context, port: Port) -> Result<Bond, HostError> {
        self.step(ExperimentStep::Bond, move |_| Bond::read(&Machine::live(), &port)).await
    }

    async fn set_source_ports(self, _: Context, groups: Vec<GroupPorts>) -> Result<(), HostError> {
        let source_ports = groups.iter().flat_map(|group| &group.ports).copied();
        check_chosen("source ports", source_ports, FIRST_PORT..=u16::MAX, self.limits.qps)?;
        let lag_ports = groups.iter().flat_map(|group| &group.lag_ports).copied();
        check_chosen("LAG ports", lag_ports, 1..=MOST_LAG_PORTS, self.limits.qps)?;
        self.step(ExperimentStep::SetSourcePorts, move |host| host.set_source_ports(&groups)).await
    }

    async fn connect(self, _: Context, peers: Vec<GroupEndpoint>) -> Result<(), HostError> {
        check_peers(&peers, self.limits)?;
        self.step(ExperimentStep::Connect, move |host| host.connect(&peers)).await
    }

    async fn start(self, _: Context) -> Result<(), HostError> {
        let (host, memory) = (Arc::clone(&self.host), Arc::clone(&self.memory));
        self.step(ExperimentStep::Start, |host| host.start()).await?;
        memory.begin(host);
        Ok(())
    }

    async fn sample(self, _: Context) -> Result<HostReading, HostError> {
        self.step_in_traffic(ExperimentStep::Sample, |host| host.sample()).await
    }

    async fn stop(self, _: Context, drain_ms: u64) -> Result<HostReading, HostError> {
        let drain = Duration::from_millis(drain_ms.min(DRAIN_LIMIT_MS));
        self.step_in_traffic(ExperimentStep::Stop, move |host| host.stop(drain)).await
    }

    async fn set_up_rank(self, _: Context, port: Port, job: RankJob) -> Result<Vec<GroupEndpoint>, HostError> {
        check_tuning(&port)?;
        job.broken_rule().map_or(Ok(()), |rule| Err(HostError::Failed(rule)))?;
        self.limits.check_rank(&job)?;
        self.step(ExperimentStep::SetUpRank, move |host| host.set_up_rank(&port, &job)).await
    }

    async fn read_rank(self, _: Context) -> Result<RankReading, HostError> {
        self.step_in_traffic(ExperimentStep::ReadRank, |host| host.read_rank()).await
    }

    async fn tear_down(self, _: Context) -> Result<(), HostError> {
        self.memory.end();
        self.step(ExperimentStep::TearDown, |host| {
            host.recycle();
            Ok(())
        })
        .await
    }
}

/// A controller has checked it too; but it may be another one.
fn check_tuning(port: &Port) -> Result<(), HostError> {
    port.tuning.broken_rule().map_or(Ok(()), |(key, rule)| Err(HostError::Failed(format!("tuning.{key}: {rule}"))))
}

/// Where a source port leads is known of simulated bonds; of real ones, only a catalog of probed ports could say it.
fn check_ports(workload: &Workload) -> Result<(), HostError> {
    match workload.flows.iter().find(|flow| flow.ports != Ports::Hashed) {
        None => Ok(()),
        Some(flow) => Err(HostError::Unsupported(format!(
            "`ports: {}` needs to know where source ports lead, which an agent does not; leave it out",
            flow.ports
        ))),
    }
}

/// What no device can have named is not handed to one.
/// Refuses ports of QPs that are too many, or out of this range.
fn check_chosen<P: PartialOrd + Display>(
    what: &str,
    mut chosen: impl Iterator<Item = P> + Clone,
    range: RangeInclusive<P>,
    most: u64,
) -> Result<(), HostError> {
    if chosen.clone().count() as u64 > most || !chosen.all(|port| range.contains(&port)) {
        let (first, last) = (range.start(), range.end());
        return Err(HostError::Failed(format!("{what}: at most {most} from {first} to {last}")));
    }
    Ok(())
}

fn check_peers(peers: &[GroupEndpoint], limits: Limits) -> Result<(), HostError> {
    let qps = || peers.iter().flat_map(|group| &group.qps);
    let refuse = |what: String| Err(HostError::Failed(format!("endpoints to connect to: {what}")));
    if let Some(qp) = qps().find(|qp| qp.qpn >= BITS_24 || qp.psn >= BITS_24) {
        return refuse(format!("QP {} with sequence number {} is over 24 bits", qp.qpn, qp.psn));
    }
    let (count, mrs) = (qps().count() as u64, qps().map(|qp| qp.mrs.len() as u64).sum::<u64>());
    if count > limits.qps || mrs > limits.mrs {
        return refuse(format!("{count} QPs and {mrs} MRs are over this agent's limits (--max-qps, --max-mrs)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kelpie_engine::plan::{GroupId, Role};
    use kelpie_engine::verbs_host::{QpEndpoint, RemoteMr, Tuning};

    use super::*;

    #[test]
    fn what_no_device_has_named_is_refused() {
        let limits = Limits { qps: 2, mrs: 2, memory_bytes: 0 };
        let group = |qpn, psn, count, mrs| GroupEndpoint {
            id: GroupId { flow: 0, role: Role::Responder },
            gid: [0; 16],
            lid: 0,
            needs_grh: false,
            reads: 1,
            qps: vec![QpEndpoint { qpn, psn, mrs: vec![RemoteMr(0, 0); mrs] }; count],
        };
        check_peers(&[group(BITS_24 - 1, BITS_24 - 1, 2, 1)], limits).expect("just fits");
        for bad in [group(BITS_24, 0, 1, 1), group(0, BITS_24, 1, 1), group(1, 1, 3, 0), group(1, 1, 1, 3)] {
            check_peers(&[bad], limits).expect_err("refused");
        }
        let late = Tuning { ack_timeout: 0, ..Tuning::default() };
        let error = check_tuning(&Port { tuning: late, ..Port::default() }).expect_err("for ever");
        assert_eq!(error.to_string(), "tuning.ack_timeout: write 1 to 31");
    }
}

//! Traffic between agents: one host's own, a pair's, or that of several senders to one receiver. Each end is an agent
//! that has its part of the flows, and an end that fails is named.

use std::time::Duration;

use futures_util::future::join_all;
use kelpie_agent::client::{AgentClient, ClientError};
use kelpie_engine::plan::{GroupId, Role};
use kelpie_engine::verbs_host::{GroupEndpoint, HostError, HostReading, Port};
use kelpie_spaces::{Batch, Bytes, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, Request, Workload};
use tokio::time::{Instant, sleep, timeout};

/// How long an agent may take for a step. Source: our choice, less than an agent gives its host: few QPs are set up in
/// milliseconds, and one slow agent delays its partner by no more than this.
const STEP: Duration = Duration::from_secs(4);
/// How long outstanding work may take at the end. Units: milliseconds.
const DRAIN_MS: u64 = 2_000;
/// Messages of small traffic that count at least, and how long they are waited for. Source: our choice; emulated hosts
/// are slow.
const MESSAGES: u64 = 32;
const LONGEST: Duration = Duration::from_secs(6);

/// How traffic is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleTimes {
    /// Traffic before what counts.
    pub warm_up: Duration,
    /// Length of a sample.
    pub sample: Duration,
    /// Samples.
    pub samples: u32,
}

impl Default for SampleTimes {
    /// Source: our choice; thousands of messages on real hosts, and hundreds on emulated ones.
    fn default() -> Self {
        Self { warm_up: Duration::from_millis(60), sample: Duration::from_millis(60), samples: 3 }
    }
}

/// A kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Operation.
    pub op: Opcode,
    /// Units: bytes.
    pub bytes: u64,
    /// QPs.
    pub qps: u32,
    /// Requests on their way on each QP.
    pub depth: u32,
}

impl Shape {
    /// For throughput: a megabyte on its way, more than 400 Gb/s need for a round trip of 20 us, and no more, so that
    /// slow networks are empty soon; in QPs enough that a bond has some on each port. Source: Collie, section 7.2
    /// (perftest-like traffic is healthy from 64 KiB).
    pub const fn large(op: Opcode) -> Self {
        Self { op, bytes: 64 << 10, qps: 8, depth: 2 }
    }

    /// For the latency of one request after the other.
    pub const SMALL: Self = Self { op: Opcode::Write, bytes: 64, qps: 1, depth: 1 };

    fn flow(self, mtu: Mtu, from: Host, to: Host) -> Flow {
        let memory = Memory { device: Device::Dram(0), mrs: 1, mr_size: Bytes(self.bytes.max(4096)) };
        // Receives for all that may be on its way twice, so that none is missing while they are posted again.
        let recv = if self.op.consumes_receive() { 2 * self.depth } else { 1 };
        Flow {
            qps: self.qps,
            mtu,
            wq_depth: Depths { send: self.depth, recv },
            batch: Batch { send: 1, recv: 1 },
            pattern: vec![Request { op: self.op, sge: vec![Bytes(self.bytes)] }],
            memory: MemoryPair { from: memory, to: memory },
            ..Flow::plain(from, to)
        }
    }
}

/// Who sends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// One end to itself.
    Loopback,
    /// Each end to the next one and the last to the first: of two ends, each to the other.
    BothWays,
    /// All ends but the last to the last.
    Incast,
}

/// An agent and its port.
#[derive(Debug)]
pub struct End<'c> {
    /// The agent.
    pub client: &'c AgentClient,
    /// Its port.
    pub port: &'c Port,
}

/// An end that failed.
#[derive(Debug)]
pub struct EndFailure {
    /// Which.
    pub end: usize,
    /// What it was asked.
    pub step: &'static str,
    /// What came of it.
    pub error: ClientError,
    is_late: bool,
}

impl EndFailure {
    /// Whether the host says that it cannot do this, which is no fault.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.error, ClientError::Host(HostError::Unsupported(_)))
    }

    /// Whether the host did not answer in time.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Whether its connection may go on.
    pub fn keeps_connection(&self) -> bool {
        !self.is_late && matches!(self.error, ClientError::Host(_))
    }
}

/// What a flow did in each sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowSamples {
    /// The sender's end and the receiver's.
    pub ends: [usize; 2],
    /// What completed at the sender. Units: bits per second.
    pub sent_bps: Vec<f64>,
    /// What arrived at the receiver, if it can count. Units: bits per second.
    pub received_bps: Vec<f64>,
    /// Time from one completion to the next. Units: seconds.
    pub message_seconds: Vec<f64>,
    /// Bytes in all that the sender says it sent, and the receiver that it received, when all had stopped.
    pub totals: [u64; 2],
}

/// What ends did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrafficSamples {
    /// By flow.
    pub flows: Vec<FlowSamples>,
}

/// One end's part.
struct Part {
    host: Host,
    workload: Workload,
    /// The number in all of each of its flows.
    flows: Vec<usize>,
}

impl Pattern {
    /// The flows in all, as pairs of ends.
    fn flows(self, ends: usize) -> Vec<[usize; 2]> {
        match self {
            Self::Loopback => vec![[0, 0]],
            Self::BothWays => (0..ends).map(|end| [end, (end + 1) % ends]).collect(),
            Self::Incast => (0..ends - 1).map(|sender| [sender, ends - 1]).collect(),
        }
    }

    /// What each end sets up. Alone with another end, a sender knows nothing of the others.
    fn parts(self, ends: usize, shape: Shape, mtu: Mtu) -> Vec<Part> {
        let of = |host, ways: &[(Host, Host)], flows: Vec<usize>| {
            let workload = Workload::new(ways.iter().map(|(from, to)| shape.flow(mtu, *from, *to)).collect());
            Part { host, workload, flows }
        };
        let there = (Host::A, Host::B);
        match self {
            Self::Loopback => vec![of(Host::A, &[(Host::A, Host::A)], vec![0])],
            // Two ends know all of each other; of a ring, each knows what it sends and what it receives.
            Self::BothWays if ends > 2 => {
                let ways = [there, (Host::B, Host::A)];
                (0..ends).map(|end| of(Host::A, &ways, vec![end, (end + ends - 1) % ends])).collect()
            }
            Self::BothWays => {
                Host::BOTH.into_iter().map(|host| of(host, &[there, (Host::B, Host::A)], vec![0, 1])).collect()
            }
            Self::Incast => {
                let senders = (0..ends - 1).map(|sender| of(Host::A, &[there], vec![sender]));
                let receiver = of(Host::B, &vec![there; ends - 1], (0..ends - 1).collect());
                senders.chain([receiver]).collect()
            }
        }
    }
}

impl Part {
    /// The ends of others that belong to its own, under its own numbers.
    fn peers(&self, own: &[GroupEndpoint], all: &[(&Part, &Vec<GroupEndpoint>)]) -> Vec<GroupEndpoint> {
        let mut peers = Vec::new();
        for (part, groups) in all {
            for group in *groups {
                let Some(number) = part.flows.get(group.id.flow) else { continue };
                let Some(flow) = self.flows.iter().position(|flow| flow == number) else { continue };
                let id = GroupId { flow, role: group.id.role };
                if own.iter().any(|mine| mine.id == id.peer()) {
                    peers.push(GroupEndpoint { id, ..group.clone() });
                }
            }
        }
        peers
    }
}

/// Asks all ends for a step at once; of several that fail, the first is named.
async fn all<'c, T>(
    ends: &'c [End<'c>],
    step: &'static str,
    ask: impl AsyncFn(usize, &'c End<'c>) -> Result<T, ClientError>,
) -> Result<Vec<T>, EndFailure> {
    let answers = ends.iter().enumerate().map(|(end, of)| {
        let asked = ask(end, of);
        async move {
            let late = || ClientError::Host(HostError::Failed(format!("no answer within {} s", STEP.as_secs())));
            let answer = timeout(STEP, asked).await;
            answer.map_err(|_| (late(), true)).and_then(|answer| answer.map_err(|error| (error, false)))
        }
    });
    let mut given = Vec::new();
    let mut failed: Option<EndFailure> = None;
    for (end, answer) in join_all(answers).await.into_iter().enumerate() {
        match answer {
            Ok(answer) => given.push(answer),
            // Who is late may wait for the other, who said what was wrong.
            Err((error, is_late)) if failed.as_ref().is_none_or(|failed| failed.is_late && !is_late) => {
                failed = Some(EndFailure { end, step, error, is_late });
            }
            Err(_) => {}
        }
    }
    failed.map_or(Ok(given), Err)
}

/// Runs traffic and reads it. Nothing is left on the hosts of ends that did not fail.
///
/// # Errors
/// The end that failed.
pub async fn run(
    ends: &[End<'_>],
    pattern: Pattern,
    shape: Shape,
    times: SampleTimes,
) -> Result<TrafficSamples, EndFailure> {
    let outcome = traffic(ends, pattern, shape, times).await;
    let failed = outcome.as_ref().err().map(|failure| failure.end);
    let down = ends.iter().enumerate().map(|(end, of)| async move {
        if Some(end) == failed { Ok(()) } else { timeout(STEP, of.client.tear_down()).await.unwrap_or(Ok(())) }
    });
    let down = join_all(down).await;
    let mut torn = down.into_iter().enumerate().filter_map(|(end, down)| Some((end, down.err()?)));
    let left = torn.next().map(|(end, error)| EndFailure { end, step: "tear down", error, is_late: false });
    outcome.and_then(|samples| left.map_or(Ok(samples), Err))
}

async fn traffic(
    ends: &[End<'_>],
    pattern: Pattern,
    shape: Shape,
    times: SampleTimes,
) -> Result<TrafficSamples, EndFailure> {
    let reports = all(ends, "inspect its port", async |_, end| end.client.inspect(end.port.clone()).await).await?;
    let most = reports.iter().map(|report| report.active_mtu).min().unwrap_or_default();
    let mtu = Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= most).unwrap_or(Mtu::ALL[0]);
    let parts = pattern.parts(ends.len(), shape, mtu);
    let groups = all(ends, "set up", async |number, end| {
        let part = &parts[number];
        end.client.set_up(part.host, end.port.clone(), part.workload.clone(), false).await
    })
    .await?;
    let ready: Vec<(&Part, &Vec<GroupEndpoint>)> = parts.iter().zip(&groups).collect();
    all(ends, "connect QPs", async |number, end| {
        end.client.connect_to(parts[number].peers(&groups[number], &ready)).await
    })
    .await?;
    all(ends, "start traffic", async |_, end| end.client.start().await).await?;
    let started = Instant::now();
    let sample = async || all(ends, "sample", async |_, end| end.client.sample().await).await;
    sleep(times.warm_up).await;
    let mut readings = vec![sample().await?];
    while readings.len() <= times.samples as usize {
        sleep(times.sample).await;
        let now = sample().await?;
        let is_enough = pattern_messages(&readings[readings.len() - 1], &now) >= MESSAGES;
        if is_enough || started.elapsed() > LONGEST {
            readings.push(now);
        }
    }
    all(ends, "stop traffic", async |_, end| end.client.stop(DRAIN_MS).await).await?;
    // Now that every requester has waited for what was on its way, responders have it.
    let last = sample().await?;
    let flows = pattern.flows(ends.len());
    let flows = flows.into_iter().enumerate().map(|(number, ends)| FlowSamples {
        totals: totals(number, ends, &parts, &last),
        ..of_flow(number, ends, &parts, &readings)
    });
    Ok(TrafficSamples { flows: flows.collect() })
}

/// Messages that all requesters completed meanwhile.
fn pattern_messages(before: &[HostReading], after: &[HostReading]) -> u64 {
    let of = |readings: &[HostReading]| {
        let groups = readings.iter().flat_map(|reading| &reading.groups);
        let requesters = groups.filter(|group| group.id.role == Role::Requester);
        requesters.flat_map(|group| group.by_op.values()).map(|done| done.messages).sum::<u64>()
    };
    of(after).saturating_sub(of(before))
}

fn of_flow(number: usize, ends: [usize; 2], parts: &[Part], readings: &[Vec<HostReading>]) -> FlowSamples {
    let mut samples = FlowSamples { ends, ..FlowSamples::default() };
    for pair in readings.windows(2) {
        for (end, role) in ends.into_iter().zip([Role::Requester, Role::Responder]) {
            let flow = parts[end].flows.iter().position(|flow| *flow == number).unwrap_or(usize::MAX);
            let [before, after] = [&pair[0][end], &pair[1][end]];
            let id = GroupId { flow, role };
            let ([messages_before, bytes_before], [messages, bytes]) = (done(before, id), done(after, id));
            let seconds = after.at_nanos.saturating_sub(before.at_nanos) as f64 / 1e9;
            let bps = bytes.saturating_sub(bytes_before) as f64 * 8.0 / seconds;
            let bps = if bps.is_finite() { bps } else { 0.0 };
            let count = messages.saturating_sub(messages_before);
            match role {
                Role::Requester => {
                    samples.sent_bps.push(bps);
                    samples.message_seconds.extend((count > 0).then(|| seconds / count as f64));
                }
                Role::Responder if messages > 0 => samples.received_bps.push(bps),
                Role::Responder => {}
            }
        }
    }
    samples
}

/// Bytes that both ends of a flow have counted.
fn totals(number: usize, ends: [usize; 2], parts: &[Part], last: &[HostReading]) -> [u64; 2] {
    let of = |end: usize, role: Role| {
        let flow = parts[end].flows.iter().position(|flow| *flow == number).unwrap_or(usize::MAX);
        done(&last[end], GroupId { flow, role })[1]
    };
    [of(ends[0], Role::Requester), of(ends[1], Role::Responder)]
}

/// Messages and bytes that one end of a flow has completed.
fn done(reading: &HostReading, id: GroupId) -> [u64; 2] {
    let groups = reading.groups.iter().filter(|group| group.id == id);
    let work = groups.flat_map(|group| group.by_op.values());
    work.fold([0, 0], |[messages, bytes], work| {
        [messages.saturating_add(work.messages), bytes.saturating_add(work.bytes)]
    })
}

#[cfg(test)]
mod tests {
    use kelpie_engine::verbs_host::QpEndpoint;

    use super::*;

    /// What ends of a ring and of other patterns are told of each other, as an agent numbers its groups.
    #[test]
    fn each_group_learns_of_its_peer_and_of_no_other() {
        for (pattern, ends) in
            [(Pattern::BothWays, 2), (Pattern::BothWays, 3), (Pattern::BothWays, 9), (Pattern::Incast, 4)]
        {
            let parts = pattern.parts(ends, Shape::SMALL, Mtu::ALL[0]);
            // The first QP tells of whom it is.
            let group = |end: usize, flow: usize, role: Role| GroupEndpoint {
                id: GroupId { flow, role },
                gid: [0; 16],
                lid: 0,
                needs_grh: false,
                reads: 1,
                qps: vec![QpEndpoint { qpn: end as u32, psn: parts[end].flows[flow] as u32, mrs: Vec::new() }],
            };
            let groups: Vec<Vec<GroupEndpoint>> = (0..ends)
                .map(|end| {
                    let flows = parts[end].workload.flows.iter().enumerate();
                    let own = flows.flat_map(|(flow, of)| {
                        let requester = (of.from == parts[end].host).then(|| group(end, flow, Role::Requester));
                        let responder = (of.to == parts[end].host).then(|| group(end, flow, Role::Responder));
                        requester.into_iter().chain(responder)
                    });
                    own.collect()
                })
                .collect();
            let ready: Vec<(&Part, &Vec<GroupEndpoint>)> = parts.iter().zip(&groups).collect();
            for (end, own) in groups.iter().enumerate() {
                let peers = parts[end].peers(own, &ready);
                assert_eq!(peers.len(), own.len(), "{pattern:?} of {ends}");
                for mine in own {
                    let peer = peers.iter().find(|peer| peer.id == mine.id.peer()).expect("its peer");
                    let [from, to] = pattern.flows(ends)[peer.qps[0].psn as usize];
                    let expected = if mine.id.role == Role::Requester { (end, to) } else { (from, end) };
                    assert_eq!((from, to), expected, "{pattern:?} of {ends}");
                    assert_eq!(peer.qps[0].qpn as usize, if from == end { to } else { from });
                }
            }
        }
    }
}

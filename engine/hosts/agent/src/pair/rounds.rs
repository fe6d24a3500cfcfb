//! Traffic of a few seconds along chosen paths, with what each port of both hosts moved. What it means is elsewhere.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use kelpie_engine::MeasureError;
use kelpie_engine::bond::Bond;
use kelpie_engine::latency::Took;
use kelpie_engine::plan::{GroupId, Role};
use kelpie_engine::verbs_host::{CompletedWork, GroupEndpoint, GroupPorts, HostError, HostReading};
use kelpie_monitor::PerHost;
use kelpie_paths::catalog::QpPort;
use kelpie_spaces::{Host, QpType, Workload};

use super::agents::{Agents, peers_of};
use crate::client::AgentClient;
use crate::steps::ExperimentStep;

/// Pause between looks at what arrives after the last request was sent.
const SETTLING: Duration = Duration::from_millis(150);

/// How long something may still be on its way. Source: our choice, several times what the queues of a switch hold.
const SETTLED: Duration = Duration::from_secs(3);

/// What to move.
#[derive(Debug, Clone)]
pub struct TrafficRound {
    /// The flows.
    pub workload: Workload,
    /// How each flow's requesters leave, in turn; none leaves it to the device.
    pub ports: Vec<Vec<QpPort>>,
    /// How long.
    pub lasts: Duration,
    /// How often to look.
    pub looks: Duration,
    /// Whether requests are timed.
    pub latency: bool,
    /// Whether each look reads the bonds too.
    pub watches_ports: bool,
    /// How long requests may take to complete after that.
    pub drain: Duration,
}

/// What became of one flow.
#[derive(Debug, Clone, Default)]
pub struct FlowMoved {
    /// Numbers of its QPs, at the requester and at the responder.
    pub qps: Vec<(u32, u32)>,
    /// What the requester completed in all.
    pub sent: CompletedWork,
    /// What consumed receives at the responder.
    pub received: CompletedWork,
    /// How long its requests took, if they were timed.
    pub took: Vec<Took>,
    /// The LAG port by which each QP leaves, as the device says, or why they were not put on any; none if none was
    /// asked.
    pub lag: Option<Result<Vec<u8>, String>>,
}

/// What was seen of the traffic at a moment.
#[derive(Debug, Clone)]
pub struct Look {
    /// When, since the start.
    pub at: Duration,
    /// Bytes of each flow until then.
    pub bytes: Vec<u64>,
    /// The bonds, if they are watched.
    pub bonds: Option<PerHost<Bond>>,
}

/// What became of a round.
#[derive(Debug, Clone)]
pub struct RoundResult {
    /// Flows, in the order of the workload.
    pub flows: Vec<FlowMoved>,
    /// The bonds before and after.
    pub before: PerHost<Bond>,
    /// As above.
    pub after: PerHost<Bond>,
    /// What was seen meanwhile.
    pub looks: Vec<Look>,
    /// What went wrong in the hardware.
    pub events: Vec<String>,
}

impl Agents {
    /// Reads both bonds.
    pub async fn bonds(&self) -> Result<PerHost<Bond>, MeasureError> {
        let hosts = &self.file.hosts;
        let ask = async |host, agent: &AgentClient| agent.bond(hosts.get(host).port.clone()).await;
        self.both(ExperimentStep::Bond, ask).await
    }

    /// As [`super::PairSubsystem::round`]; nothing of it is left on the hosts.
    pub async fn round(
        &mut self,
        round: &TrafficRound,
        tick: &mut dyn FnMut(Duration, &[u64]) -> ControlFlow<()>,
    ) -> Result<RoundResult, MeasureError> {
        let outcome = self.moved(round, tick).await;
        let torn_down = match &outcome {
            Ok(_) | Err(MeasureError::Unsupported { .. }) => {
                self.both(ExperimentStep::TearDown, async |_, agent| agent.tear_down().await).await.map(drop)
            }
            Err(_) => Ok(()),
        };
        if torn_down.is_err() || matches!(&outcome, Err(error) if !matches!(error, MeasureError::Unsupported { .. })) {
            self.clients = PerHost::default();
        }
        outcome.and_then(|moved| torn_down.map(|()| moved))
    }

    async fn moved(
        &self,
        round: &TrafficRound,
        tick: &mut dyn FnMut(Duration, &[u64]) -> ControlFlow<()>,
    ) -> Result<RoundResult, MeasureError> {
        let (hosts, workload) = (&self.file.hosts, &round.workload);
        let set_up = async |host, agent: &AgentClient| {
            agent.set_up(host, hosts.get(host).port.clone(), workload.clone(), round.latency).await
        };
        let endpoints = self.both(ExperimentStep::SetUp, set_up).await?;
        let ports = PerHost { a: ports_of(Host::A, round), b: ports_of(Host::B, round) };
        if !ports.a.is_empty() || !ports.b.is_empty() {
            let ports = async |host, agent: &AgentClient| agent.set_source_ports(ports.get(host).clone()).await;
            self.both(ExperimentStep::SetSourcePorts, ports).await?;
        }
        let connect = async |host, agent: &AgentClient| agent.connect_to(peers_of(host, &endpoints)).await;
        self.both(ExperimentStep::Connect, connect).await?;
        let before = self.bonds().await?;
        self.both(ExperimentStep::Start, async |_, agent| agent.start().await).await?;
        let started = Instant::now();
        let mut moved = RoundResult {
            flows: qps(workload, &endpoints),
            after: before.clone(),
            before,
            looks: Vec::new(),
            events: Vec::new(),
        };
        let mut next = round.looks.min(round.lasts);
        loop {
            tokio::time::sleep_until((started + next).into()).await;
            let mut reading = self.both(ExperimentStep::Sample, async |_, agent| agent.sample().await).await?;
            let at = started.elapsed();
            moved.take_latencies(workload, &mut reading);
            let bytes: Vec<u64> = (0..workload.flows.len()).map(|flow| sent(workload, &reading, flow).bytes).collect();
            let goes_on = tick(at, &bytes);
            let bonds = if round.watches_ports { Some(self.bonds().await?) } else { None };
            moved.looks.push(Look { at, bytes, bonds });
            if at >= round.lasts || goes_on.is_break() {
                break;
            }
            next = (at + round.looks).min(round.lasts);
        }
        let drain = u64::try_from(round.drain.as_millis()).unwrap_or(u64::MAX);
        let mut last = self.both(ExperimentStep::Stop, async |_, agent| agent.stop(drain).await).await?;
        moved.take_latencies(workload, &mut last);
        // What is acknowledged has arrived when it completes.
        let is_acknowledged = workload.flows.iter().all(|flow| flow.qp_type == QpType::Rc);
        let last = if is_acknowledged { last } else { self.settled(workload, last).await? };
        for flow in 0..workload.flows.len() {
            moved.flows[flow].sent = sent(workload, &last, flow);
            moved.flows[flow].received = received(workload, &last, flow);
            moved.flows[flow].lag = lag(round, &last, flow)?;
        }
        moved.after = self.bonds().await?;
        for host in Host::BOTH {
            moved.events.extend(last.get(host).events.iter().map(|event| format!("host {host}: {event}")));
        }
        Ok(moved)
    }

    /// Reads until nothing arrives any more.
    async fn settled(
        &self,
        workload: &Workload,
        mut last: PerHost<HostReading>,
    ) -> Result<PerHost<HostReading>, MeasureError> {
        let arrived = |reading: &PerHost<HostReading>| -> Vec<u64> {
            (0..workload.flows.len()).map(|flow| received(workload, reading, flow).messages).collect()
        };
        let started = Instant::now();
        while started.elapsed() < SETTLED {
            tokio::time::sleep(SETTLING).await;
            let next = self.both(ExperimentStep::Sample, async |_, agent| agent.sample().await).await?;
            let is_settled = arrived(&next) == arrived(&last);
            last = next;
            if is_settled {
                break;
            }
        }
        Ok(last)
    }
}

impl RoundResult {
    fn take_latencies(&mut self, workload: &Workload, reading: &mut PerHost<HostReading>) {
        for host in Host::BOTH {
            for group in std::mem::take(&mut reading.get_mut(host).latency) {
                let is_ours = group.id.role == Role::Requester
                    && workload.flows.get(group.id.flow).is_some_and(|flow| flow.from == host);
                if is_ours {
                    self.flows[group.id.flow].took.extend(group.by_op.into_values().flatten());
                }
            }
        }
    }
}

fn ports_of(host: Host, round: &TrafficRound) -> Vec<GroupPorts> {
    let own = (0..round.workload.flows.len()).filter(|flow| round.workload.flows[*flow].from == host);
    own.map(|flow| GroupPorts {
        id: GroupId { flow, role: Role::Requester },
        ports: round.ports[flow].iter().map(|qp| qp.source_port).collect(),
        lag_ports: round.ports[flow].iter().filter_map(|qp| qp.lag_port).collect(),
    })
    .filter(|group| !group.ports.is_empty())
    .collect()
}

/// What came of the LAG ports of a flow, if it was to have any.
///
/// # Errors
/// It is not known what the device can do: the call failed, or the agent does not know it.
fn lag(
    round: &TrafficRound,
    reading: &PerHost<HostReading>,
    flow: usize,
) -> Result<Option<Result<Vec<u8>, String>>, MeasureError> {
    if round.ports[flow].iter().all(|qp| qp.lag_port.is_none()) {
        return Ok(None);
    }
    let (from, id) = (round.workload.flows[flow].from, GroupId { flow, role: Role::Requester });
    let failed = |source| MeasureError::Host { host: from, operation: "putting QPs on LAG ports".to_owned(), source };
    match reading.get(from).lag.iter().find(|group| group.id == id).map(|group| group.leaves.clone()) {
        None => Err(failed("its agent says nothing of LAG ports; start one of this version".into())),
        Some(Err(error @ HostError::Failed(_))) => Err(failed(Box::new(error))),
        Some(Err(HostError::Unsupported(reason))) => Ok(Some(Err(reason))),
        Some(Ok(leaves)) => Ok(Some(Ok(leaves))),
    }
}

/// Numbers of the QPs of each flow.
fn qps(workload: &Workload, endpoints: &PerHost<Vec<GroupEndpoint>>) -> Vec<FlowMoved> {
    let numbers = |host: Host, id: GroupId| {
        let group = endpoints.get(host).iter().find(move |group| group.id == id);
        group.into_iter().flat_map(|group| &group.qps).map(|qp| qp.qpn)
    };
    let flows = workload.flows.iter().enumerate();
    flows
        .map(|(flow, ends)| {
            let of = |host, role| numbers(host, GroupId { flow, role });
            let pairs = of(ends.from, Role::Requester).zip(of(ends.to, Role::Responder));
            FlowMoved { qps: pairs.collect(), ..FlowMoved::default() }
        })
        .collect()
}

fn sent(workload: &Workload, reading: &PerHost<HostReading>, flow: usize) -> CompletedWork {
    count(reading.get(workload.flows[flow].from), GroupId { flow, role: Role::Requester })
}

fn received(workload: &Workload, reading: &PerHost<HostReading>, flow: usize) -> CompletedWork {
    count(reading.get(workload.flows[flow].to), GroupId { flow, role: Role::Responder })
}

fn count(reading: &HostReading, id: GroupId) -> CompletedWork {
    let groups = reading.groups.iter().filter(|group| group.id == id);
    groups.flat_map(|group| group.by_op.values()).fold(CompletedWork::default(), |sum, one| CompletedWork {
        messages: sum.messages + one.messages,
        bytes: sum.bytes + one.bytes,
        packets: sum.packets + one.packets,
    })
}

#[cfg(test)]
mod tests {
    use kelpie_engine::verbs_host::GroupLag;

    use super::*;
    use crate::testing::{flow, workload};

    #[test]
    fn lag_ports_go_to_the_sender_and_what_came_of_them_is_of_its_flow() {
        let put = |source_port, lag_port| QpPort { source_port, lag_port };
        let of_flows = vec![
            vec![put(50_000, Some(1)), put(50_001, Some(2))],
            vec![put(50_001, None)],
            vec![put(50_002, Some(2))],
            Vec::new(),
        ];
        let round = TrafficRound {
            workload: workload(vec![
                flow("a", "b", "WRITE"),
                flow("b", "a", "WRITE"),
                flow("b", "a", "WRITE"),
                flow("b", "a", "WRITE"),
            ]),
            ports: of_flows,
            lasts: Duration::ZERO,
            looks: Duration::ZERO,
            latency: false,
            watches_ports: false,
            drain: Duration::ZERO,
        };
        let id = |flow| GroupId { flow, role: Role::Requester };
        let ports = |flow, ports: &[u16], lag_ports: &[u8]| GroupPorts {
            id: id(flow),
            ports: ports.to_vec(),
            lag_ports: lag_ports.to_vec(),
        };
        assert_eq!(ports_of(Host::A, &round), [ports(0, &[50_000, 50_001], &[1, 2])]);
        assert_eq!(ports_of(Host::B, &round), [ports(1, &[50_001], &[]), ports(2, &[50_002], &[2])]);
        let mut reading = PerHost::<HostReading>::default();
        reading.a.lag.push(GroupLag { id: id(0), leaves: Ok(vec![1, 2]) });
        reading.b.lag.push(GroupLag { id: id(2), leaves: Err(HostError::Unsupported("no such call".to_owned())) });
        assert_eq!(lag(&round, &reading, 0).expect("it was put"), Some(Ok(vec![1, 2])));
        assert_eq!(lag(&round, &reading, 1).expect("nobody asked"), None);
        assert_eq!(lag(&round, &reading, 2).expect("the device said so"), Some(Err("no such call".to_owned())));
        assert_eq!(lag(&round, &reading, 3).expect("nobody asked"), None);
        // What a device once failed at says nothing of what it can do.
        for (answer, expected) in [(Some(HostError::Failed("errno 5".to_owned())), "errno 5"), (None, "start one of")] {
            reading.b.lag = answer.map(|error| GroupLag { id: id(2), leaves: Err(error) }).into_iter().collect();
            let said = kelpie_engine::chain(&lag(&round, &reading, 2).expect_err(expected));
            assert!(said.starts_with("host b: putting QPs on LAG ports failed") && said.contains(expected), "{said}");
        }
    }
}

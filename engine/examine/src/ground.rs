//! Real hosts as the ground of a probe: what traffic shows which thing, and how the counters of both bonds are read.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;
use kelpie_agent::PairSubsystem;
use kelpie_agent::pair::rounds::{RoundResult, TrafficRound};
use kelpie_agent::steering::end;
use kelpie_diagnosis::ports::Mode;
use kelpie_engine::bond::{Bond, BondMember};
use kelpie_engine::latency::Took;
use kelpie_monitor::PerHost;
use kelpie_paths::apart::MovedAmount;
use kelpie_paths::catalog::{CatalogEnd, QpPort};
use kelpie_paths::probe::{Flowed, Ground, PortTraffic, ProbePurpose, ProbeResult};
use kelpie_spaces::{Batch, Bytes, Depths, Flow, Host, Mtu, Opcode, QpType, Request, Workload};

use crate::Say;

/// Packets that each source port sends to measure loss. Source: our choice: a loss of 2 % shows in 98 % of such runs,
/// and in all of a port that several source ports lead through.
const PACKETS: u32 = 200;

/// Those of all source ports of a host together. Units: packets/s. Source: our choice, half of what a host without an
/// RDMA NIC sends beside other work.
const PACE: u64 = 1500;

/// How long unacknowledged packets may take to leave a host.
const DRAIN: Duration = Duration::from_secs(5);

/// Traffic settles before it is measured.
const WARM_UP: Duration = Duration::from_millis(800);

/// The two hosts.
pub struct Hosts<'s> {
    subsystem: &'s mut PairSubsystem,
    mtu: Mtu,
    /// As they were at the beginning.
    ends: Vec<CatalogEnd>,
    stop: &'s AtomicBool,
    say: Say<'s>,
}

impl<'s> Hosts<'s> {
    /// The hosts of a pair, with the largest packets that both take.
    ///
    /// # Errors
    /// A host does not answer.
    pub fn new(subsystem: &'s mut PairSubsystem, stop: &'s AtomicBool, say: Say<'s>) -> anyhow::Result<Self> {
        let most = subsystem.active_mtu()?;
        let mtu = Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= most).unwrap_or(Mtu::ALL[0]);
        let mut hosts = Self { subsystem, mtu, ends: Vec::new(), stop, say };
        hosts.ends = hosts.ends_now()?;
        Ok(hosts)
    }

    /// What both hosts' paths began and ended at when this was made.
    pub fn ends(&self) -> &[CatalogEnd] {
        &self.ends
    }

    /// What they begin and end at now.
    ///
    /// # Errors
    /// A host does not answer.
    pub fn ends_now(&mut self) -> anyhow::Result<Vec<CatalogEnd>> {
        let bonds = self.subsystem.bonds()?;
        Ok(Host::BOTH.map(|host| end(host, bonds.get(host))).into())
    }

    /// Both bonds as they are now.
    ///
    /// # Errors
    /// A host does not answer.
    pub fn bonds(&mut self) -> anyhow::Result<PerHost<Bond>> {
        Ok(self.subsystem.bonds()?)
    }

    /// Says what is being done.
    pub fn say(&self, line: &str) {
        (self.say)(line);
    }

    /// Moves traffic.
    ///
    /// # Errors
    /// A host does not answer, or the user stopped it.
    pub fn round(
        &mut self,
        round: &TrafficRound,
        tick: &mut dyn FnMut(Duration, &[u64]) -> ControlFlow<()>,
    ) -> anyhow::Result<RoundResult> {
        let moved = self.subsystem.round(round, tick)?;
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(moved)
    }

    fn flow(&self, purpose: ProbePurpose, stream: &PortTraffic, pause: Duration) -> Flow {
        let mut flow = Flow::plain(stream.from, stream.from.peer());
        let is_counted = matches!(purpose, ProbePurpose::Ports | ProbePurpose::Loss);
        let op = if is_counted { Opcode::Send } else { Opcode::Write };
        flow.qp_type = if is_counted { QpType::Uc } else { QpType::Rc };
        (flow.qps, flow.mtu) = (1, self.mtu);
        flow.batch = Batch { send: 1, recv: 1 };
        flow.wq_depth = Depths { send: 16, recv: if is_counted { 256 } else { 1 } };
        flow.pattern = vec![Request { op, sge: vec![Bytes(stream.message)] }];
        flow.interarrival_ns = u32::try_from(pause.as_nanos()).unwrap_or(u32::MAX);
        let size = Bytes(stream.message.next_multiple_of(4096));
        (flow.memory.from.mr_size, flow.memory.to.mr_size) = (size, size);
        flow
    }
}

impl Ground for Hosts<'_> {
    type Error = anyhow::Error;

    fn mtu(&self) -> u64 {
        self.mtu.bytes()
    }

    fn deals(&self, host: Host) -> bool {
        mode(&self.ends[host.index()]) == Mode::QueueAffinity
    }

    fn run(&mut self, purpose: ProbePurpose, streams: &[PortTraffic]) -> anyhow::Result<ProbeResult> {
        let most = Host::BOTH.map(|host| streams.iter().filter(|stream| stream.from == host).count() as u64);
        let spaced = Duration::from_secs(most[0].max(most[1])) / PACE as u32;
        let (pause, lasts, looks) = match purpose {
            ProbePurpose::Ports => (Duration::from_millis(25), Duration::from_millis(450), Duration::from_millis(450)),
            ProbePurpose::Loss => {
                let pause = spaced.max(Duration::from_millis(4));
                (pause, pause * PACKETS, Duration::from_secs(1))
            }
            ProbePurpose::Latency => {
                let pause = (5 * spaced).max(Duration::from_millis(50));
                (pause, pause * 20, pause * 20)
            }
            ProbePurpose::Throughput => (Duration::ZERO, WARM_UP + Duration::from_secs(2), Duration::from_millis(200)),
        };
        self.say(&match purpose {
            ProbePurpose::Ports => format!("which ports: {}", listed(streams)),
            ProbePurpose::Loss => format!("loss: {} source ports for {:.0} s", streams.len(), lasts.as_secs_f64()),
            ProbePurpose::Latency => {
                format!("latency: {} source ports for {:.0} s", streams.len(), lasts.as_secs_f64())
            }
            ProbePurpose::Throughput => format!("throughput: {}", listed(streams)),
        });
        let workload = Workload::new(streams.iter().map(|stream| self.flow(purpose, stream, pause)).collect());
        kelpie_spaces::check(&workload)?;
        let round = TrafficRound {
            workload,
            ports: streams.iter().map(|one| vec![one.port]).collect(),
            lasts,
            looks,
            latency: purpose == ProbePurpose::Latency,
            watches_ports: false,
            drain: DRAIN,
        };
        let stop = self.stop;
        let mut tick = |_: Duration, _: &[u64]| {
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let moved = self.round(&round, &mut tick)?;
        let rates = rates(&moved, WARM_UP);
        let flows = moved.flows.iter().zip(rates).map(|(flow, bps)| Flowed {
            sent: flow.sent.messages,
            received: flow.received.messages,
            bps,
            latency_us: median_us(&flow.took),
            lag: flow.lag.as_ref().map(first),
        });
        let (sent, received) = (by_port(&moved, 0), by_port(&moved, 1));
        Ok(ProbeResult { flows: flows.collect(), sent, received })
    }
}

/// What came of the LAG port of a flow's only QP.
fn first(lag: &Result<Vec<u8>, String>) -> Result<u8, String> {
    let ports = lag.as_ref().map_err(String::clone)?;
    ports.first().copied().ok_or_else(|| "nothing was reported of its LAG port".to_owned())
}

fn listed(streams: &[PortTraffic]) -> String {
    let of = |host: Host| {
        let own = streams.iter().filter(|stream| stream.from == host);
        let word = |stream: &PortTraffic| match stream.port {
            QpPort { source_port, lag_port: Some(lag_port) } => format!("{source_port} on LAG port {lag_port}"),
            QpPort { source_port, lag_port: None } => source_port.to_string(),
        };
        let all = own.clone().any(|stream| stream.port.lag_port.is_some());
        own.map(word).collect::<Vec<_>>().join(if all { ", " } else { " " })
    };
    let parts = Host::BOTH.map(|host| format!("from {host} {}", of(host)));
    parts.into_iter().filter(|part| part.len() > "from a ".len()).collect::<Vec<_>>().join(", ")
}

/// Goodput of each flow between the end of the warm-up and the last look. Units: bits/s.
pub fn rates(moved: &RoundResult, warm_up: Duration) -> Vec<f64> {
    let count = moved.flows.len();
    let (Some(first), Some(last)) = (moved.looks.iter().find(|look| look.at >= warm_up), moved.looks.last()) else {
        return vec![0.0; count];
    };
    let seconds = last.at.saturating_sub(first.at).as_secs_f64();
    let rate = |flow: usize| 8.0 * last.bytes[flow].saturating_sub(first.bytes[flow]) as f64 / seconds;
    (0..count).map(|flow| if seconds > 0.0 { rate(flow) } else { 0.0 }).collect()
}

/// What each port of both hosts moved: sent (`way` 0) or received (1).
pub fn by_port(moved: &RoundResult, way: usize) -> [[MovedAmount; 2]; 2] {
    Host::BOTH.map(|host| {
        let (before, after) = (&moved.before.get(host).members, &moved.after.get(host).members);
        [0, 1].map(|port| match (before.get(port), after.get(port)) {
            (Some(before), Some(after)) => grown(before, after, way),
            _ => MovedAmount::default(),
        })
    })
}

fn grown(before: &BondMember, after: &BondMember, way: usize) -> MovedAmount {
    let more = |of: fn(&BondMember) -> [u64; 2]| of(after)[way].saturating_sub(of(before)[way]);
    MovedAmount { packets: more(|member| member.packets), bytes: more(|member| member.bytes) }
}

fn median_us(took: &[Took]) -> Option<f64> {
    let mut sorted: Vec<(u64, u64)> = took.iter().map(|Took(nanos, count)| (*nanos, u64::from(*count))).collect();
    sorted.sort_unstable();
    let half = sorted.iter().map(|(_, count)| count).sum::<u64>().div_ceil(2);
    let mut seen = 0;
    let middle = sorted.iter().find(|(_, count)| {
        seen += count;
        seen >= half && half > 0
    });
    middle.map(|(nanos, _)| *nanos as f64 / 1e3)
}

/// How a host's bond chooses the port by which a QP leaves.
pub fn mode(end: &CatalogEnd) -> Mode {
    match (end.ports.len(), end.mode.as_str()) {
        (..2, _) => Mode::SinglePort,
        (_, "active-backup") => Mode::ActiveBackup,
        _ if end.deals() => Mode::QueueAffinity,
        _ => Mode::Hash,
    }
}

/// Refuses hosts on which a source port can lead to nothing else than another.
///
/// # Errors
/// There is one path, or one port at a time.
pub fn must_have_paths(ends: &[CatalogEnd]) -> anyhow::Result<()> {
    for end in ends {
        let what = match mode(end) {
            Mode::SinglePort => format!("stands on one port ({}), so there is one path", end.ports[0].name),
            Mode::ActiveBackup => "has a bond in active-backup, which uses one port at a time".to_owned(),
            Mode::Hash | Mode::QueueAffinity => continue,
        };
        bail!("not applicable: host {}'s {} {what}, and there is nothing to choose", end.host, end.device);
    }
    Ok(())
}

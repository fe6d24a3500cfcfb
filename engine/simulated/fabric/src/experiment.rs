//! Programs on a fabric, from files to an answer, at each level.

use std::collections::HashMap;

use kelpie_collectives::dag::Dag;
use kelpie_collectives::program::Programs;
use kelpie_collectives::rounds::RankCluster;
use kelpie_packets::{LinkEvent, MessageTimes, Network, NodeKind, RunError, Settings, Traffic, ways};
use kelpie_spaces::DocumentError;
use kelpie_topology::{Fabric, FabricCable, FabricGraph, FabricNode};

use crate::answer::{Level, ProgramAnswer};
use crate::carried::{QpUse, network, traffic};
use crate::fluid;
use crate::import::{aicb, goal};
use crate::peer::{Peer, PeerError, PeerTopology};
use crate::physical::{self, PhysicalError};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// A file of ours.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A file of another simulator.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The run.
    #[error(transparent)]
    Run(RunError),
    /// A buffer, by the name of its switch.
    #[error(
        "{switch}: its buffer of {capacity} bytes is too small for PFC: reserve and headroom of its ports take {needed} \
         bytes; give it more by `buffer`, or take less by `headroom_delays`"
    )]
    Buffer {
        /// The switch.
        switch: String,
        /// What ports have for themselves. Units: bytes.
        needed: u64,
        /// Units: bytes.
        capacity: u64,
    },
    /// A failure names what is not there.
    #[error(
        "failures[{place}].link: no link between `{from}` and `{to}`; `kelpie fabric topology --links` has their names"
    )]
    NoLink {
        /// Which.
        place: usize,
        /// Its ends.
        from: String,
        /// Other end.
        to: String,
    },
}

/// Reads a fabric: `topology/1` with `fabric:`, or a topology of `SimAI`'s or HPCC's simulator.
///
/// # Errors
/// Names file and line of what is not understood.
pub fn read_graph(file: &str, text: &str) -> Result<FabricGraph, FabricError> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let words = first.split_whitespace().count();
    if !first.trim_start().starts_with(|letter: char| letter.is_ascii_digit()) {
        return Ok(FabricGraph::of(&Fabric::from_yaml(file, text)?));
    }
    let peer = if words > 3 { Peer::SimAi } else { Peer::Hpcc };
    Ok(graph_of_peer(&PeerTopology::read(peer, file, text)?))
}

/// A topology of another simulator; switches at which hosts hang are leaves, others are spines.
fn graph_of_peer(topology: &PeerTopology) -> FabricGraph {
    let network = &topology.network;
    let is_host = |node: u32| network.nodes[node as usize] == NodeKind::Host;
    let mut nodes: Vec<FabricNode> = (network.nodes.iter())
        .map(|kind| match kind {
            NodeKind::Host => FabricNode::Gpu,
            NodeKind::Crossbar => FabricNode::NvSwitch,
            NodeKind::Switch => FabricNode::Spine,
        })
        .collect();
    for link in &network.links {
        for [switch, other] in [link.ends, [link.ends[1], link.ends[0]]] {
            if nodes[switch as usize] == FabricNode::Spine && is_host(other) {
                nodes[switch as usize] = FabricNode::Leaf;
            }
        }
    }
    let cable = |link: &kelpie_packets::Link| FabricCable {
        ends: link.ends,
        gbps: link.gbps,
        delay_ns: link.delay_ns,
        loss: link.loss,
    };
    let cables = network.links.iter().map(cable).collect();
    FabricGraph { nodes, cables, gpus_per_host: topology.gpus_per_server }
}

/// Programs on a fabric.
pub struct Experiment {
    graph: FabricGraph,
    network: Network,
    programs: Programs,
    dag: Dag,
    events: Vec<LinkEvent>,
}

/// What a run will take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Packets times links, acknowledgements included.
    pub hop_packets: f64,
    /// Units: s, on one thread.
    pub seconds: f64,
    /// Units: bytes.
    pub memory: f64,
}

/// Packets times links that one thread simulates in a second, a cautious value. Source: the example `packet_speed` of
/// `kelpie-packets`, on 1,024 hosts.
const HOPS_PER_SECOND: f64 = 3e6;
/// What a transfer takes in memory, from its waits to its times. Units: bytes.
const BYTES_OF_TRANSFER: f64 = 250.0;

impl Experiment {
    /// From the text of a job file: job/1, a workload of AICB, or a trace in GOAL.
    ///
    /// # Errors
    /// Names file, line and rule of each mistake.
    pub fn new(graph: FabricGraph, file: &str, job: &str) -> Result<Self, FabricError> {
        let (gpus, per_host) = (graph.gpus(), graph.gpus_per_host);
        let (programs, dag) = if job.trim_start().starts_with(aicb::TAG) {
            let programs = aicb::read(file, job, gpus)?;
            let dag = programs.dag(gpus, per_host).map_err(|(key, rule)| PeerError {
                file: file.to_owned(),
                line: 1,
                rule: format!("{key}: {rule}"),
            })?;
            (programs, dag)
        } else if job.trim_start().starts_with("num_ranks") {
            (Programs::default(), goal::read(file, job, gpus)?)
        } else {
            Programs::from_yaml(file, job, gpus, per_host)?
        };
        let network = network(&graph);
        let events = link_events(&graph, &programs)?;
        Ok(Self { graph, network, programs, dag, events })
    }

    /// What ranks measure of the same job; see [`physical::answer`].
    ///
    /// # Errors
    /// If the job is not one ring, or the ranks could not run it.
    pub fn on_ranks<C: RankCluster>(&self, ranks: &mut C) -> Result<ProgramAnswer, PhysicalError<C::Error>> {
        physical::answer(&self.programs, self.graph.gpus(), ranks)
    }

    /// The network, for settings.
    pub fn network(&self) -> &Network {
        &self.network
    }

    fn traffic(&self, settings: &Settings) -> Traffic {
        let used = if settings.late_notice { QpUse::PerTransfer } else { QpUse::Lasting };
        traffic(&self.dag, used)
    }

    /// Writes a line of CSV for each transfer: job, step, ends, size, and when it was posted and arrived.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_transfers(&self, times: &[MessageTimes], out: &mut dyn std::io::Write) -> Result<(), csv::Error> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(["job", "step", "from", "to", "channel", "bytes", "posted_ns", "received_ns"])?;
        let number = |time: Option<u64>| time.map_or_else(String::new, |time| time.to_string());
        for (task, times) in self.dag.tasks.iter().zip(times) {
            let ends = self.dag.connections[task.connection as usize];
            let numbers = [
                u64::from(task.job),
                task.step.into(),
                ends.from.into(),
                ends.to.into(),
                ends.channel.into(),
                task.bytes,
            ];
            writer.write_record(
                numbers.iter().map(ToString::to_string).chain([number(times.posted), number(times.received)]),
            )?;
        }
        Ok(writer.flush()?)
    }

    fn named(&self, error: RunError) -> FabricError {
        match error {
            RunError::Buffer { switch, needed, capacity } => {
                FabricError::Buffer { switch: self.graph.name(switch), needed, capacity }
            }
            other => FabricError::Run(other),
        }
    }

    /// What a run at the level of packets will take.
    ///
    /// # Errors
    /// If the network cannot be.
    pub fn estimate(&self, settings: &Settings) -> Result<Estimate, FabricError> {
        let traffic = traffic(&self.dag, QpUse::Lasting);
        let hops: Vec<f64> = ways(&self.network, settings, &traffic.qps)
            .map_err(FabricError::Run)?
            .iter()
            .map(|way| way.len() as f64)
            .collect();
        let payload = f64::from(settings.payload);
        let packets = |bytes: u64| (bytes as f64 / payload).ceil().max(1.0);
        let crossed = traffic.messages.iter().map(|message| packets(message.bytes) * 2.0 * hops[message.qp as usize]);
        let hop_packets: f64 = crossed.sum();
        let memory = self.dag.tasks.len() as f64 * BYTES_OF_TRANSFER;
        Ok(Estimate { hop_packets, seconds: hop_packets / HOPS_PER_SECOND, memory })
    }

    /// The answer by packets, and the times of all transfers.
    ///
    /// # Errors
    /// If the network or the settings cannot be.
    pub fn by_packets(
        &self,
        settings: &Settings,
        threads: usize,
    ) -> Result<(ProgramAnswer, Vec<MessageTimes>), FabricError> {
        let outcome = kelpie_packets::run(&self.network, settings, &self.traffic(settings), &self.events, threads);
        let outcome = outcome.map_err(|error| self.named(error))?;
        let answer = ProgramAnswer::of_packets(&self.graph, &self.programs, &self.dag, &outcome);
        Ok((answer, outcome.messages))
    }

    /// The answer by max-min fair rates of flows, and the times of all transfers. Links do not fail.
    ///
    /// # Errors
    /// If the network or the settings cannot be.
    pub fn by_flows(&self, settings: &Settings) -> Result<(ProgramAnswer, Vec<MessageTimes>), FabricError> {
        let times = fluid::run(&self.network, settings, &self.traffic(settings)).map_err(FabricError::Run)?;
        Ok((ProgramAnswer::of_times(Level::Flows, &self.graph, &self.programs, &self.dag, &times), times))
    }

    /// The answer by formulas.
    pub fn by_formulas(&self) -> ProgramAnswer {
        ProgramAnswer::of_formulas(&self.graph, &self.programs, &self.dag)
    }
}

/// What fails and is repaired, by the numbers of links.
fn link_events(graph: &FabricGraph, programs: &Programs) -> Result<Vec<LinkEvent>, FabricError> {
    if programs.failures.is_empty() {
        return Ok(Vec::new());
    }
    let names = graph.names();
    let nodes: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let links: HashMap<[u32; 2], u32> = graph.cables.iter().map(|cable| cable.ends).zip(0..).collect();
    let nanos = |micros: f64| (micros * 1e3).round() as u64;
    let mut events = Vec::new();
    for (place, failure) in programs.failures.iter().enumerate() {
        let [a, b] = &failure.link;
        let ends = nodes.get(a.as_str()).zip(nodes.get(b.as_str()));
        let link = ends.and_then(|(a, b)| links.get(&[*a, *b]).or_else(|| links.get(&[*b, *a])));
        let link = *link.ok_or_else(|| FabricError::NoLink { place, from: a.clone(), to: b.clone() })?;
        let detected_after_ns = nanos(failure.detected_after_us);
        let event = |micros: f64, works: bool| LinkEvent { at_ns: nanos(micros), link, works, detected_after_ns };
        events.push(event(failure.at_us, false));
        events.extend(failure.repaired_at_us.map(|at| event(at, true)));
    }
    Ok(events)
}

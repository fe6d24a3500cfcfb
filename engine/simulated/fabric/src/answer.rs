//! What came of programs on a fabric: when jobs and their steps began and ended, and what the network did.

use std::collections::BTreeMap;

use kelpie_collectives::dag::{Dag, DagTask};
use kelpie_collectives::program::Programs;
use kelpie_packets::{MessageTimes, Outcome, PortName, Unfinished};
use kelpie_topology::FabricGraph;
use serde::Serialize;

use crate::analytic::{bus_factor, step_ns};

/// A step of a job, over all its iterations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepAnswer {
    /// What it does, in words.
    pub step: String,
    /// Time that it took, in the mean; nothing if it never ended. Units: µs.
    pub mean_us: Option<f64>,
    /// Bus bandwidth of a collective, as NCCL tests count it. Units: GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busbw_gb_per_s: Option<f64>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobAnswer {
    /// Its name, or its number.
    pub name: String,
    /// When the last GPU was done; nothing if not all ended. Units: µs.
    pub end_us: Option<f64>,
    /// Its steps.
    pub steps: Vec<StepAnswer>,
}

/// A link and what it carried in its busier direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotLink {
    /// Its ends, sender first.
    pub link: [String; 2],
    /// Share of the run for which it carried something.
    pub use_share: f64,
}

/// What the network did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkAnswer {
    /// Packets times links.
    pub hop_packets: u64,
    /// Marks.
    pub ecn_marks: u64,
    /// Frames that paused.
    pub pfc_pauses: u64,
    /// Most that waited at a port. Units: bytes.
    pub max_queue_bytes: u64,
    /// Packets that found no room, and that links lost.
    pub lost_packets: u64,
    /// Packets that were sent again.
    pub retransmissions: u64,
    /// Most used links between switches and to NICs, the busiest first.
    pub hot_links: Vec<HotLink>,
    /// Ports that hold each other up for ever: node and the other end of its link.
    pub deadlocked: Vec<String>,
    /// Why transfers did not end: how many were of a QP that gave up, waited for what did not happen, had no time left,
    /// or stand still.
    pub unfinished_because: BTreeMap<&'static str, usize>,
}

/// How a run was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// By packets.
    Packets,
    /// By max-min fair rates of flows.
    Flows,
    /// By formulas.
    Analytic,
    /// On hosts.
    Physical,
}

/// Messages beside all programs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BesideAnswer {
    /// How many, and how many of them ended.
    pub count: usize,
    /// Ended.
    pub ended: usize,
    /// Time from posting to arrival of those, in the mean and at most. Units: µs.
    pub mean_us: f64,
    /// At most.
    pub most_us: f64,
}

/// What came of programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramAnswer {
    /// How.
    pub level: Level,
    /// Jobs.
    pub jobs: Vec<JobAnswer>,
    /// Messages beside them, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<BesideAnswer>,
    /// When the last transfer ended. Units: µs.
    pub end_us: f64,
    /// Transfers, and those that did not end.
    pub transfers: usize,
    /// Not ended.
    pub unfinished: usize,
    /// The network, at the level of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkAnswer>,
}

/// Most hot links of an answer.
const HOT: usize = 8;

impl ProgramAnswer {
    /// Of a run at the level of packets.
    pub fn of_packets(graph: &FabricGraph, programs: &Programs, dag: &Dag, outcome: &Outcome) -> Self {
        let mut answer = Self::of_times(Level::Packets, graph, programs, dag, &outcome.messages);
        let counters = &outcome.counters;
        answer.network = Some(NetworkAnswer {
            hop_packets: counters.hop_packets,
            ecn_marks: counters.ecn_marks,
            pfc_pauses: counters.pfc_pauses,
            max_queue_bytes: counters.max_queue_bytes,
            lost_packets: counters.drops + counters.losses,
            retransmissions: counters.retransmissions,
            hot_links: hot_links(graph, outcome, answer.end_us.max(outcome.end_ns as f64 / 1e3)),
            deadlocked: outcome.deadlocked.iter().map(|port| port_name(graph, *port)).collect(),
            unfinished_because: reasons(outcome),
        });
        answer
    }

    /// Of the times of all transfers.
    pub fn of_times(level: Level, graph: &FabricGraph, programs: &Programs, dag: &Dag, times: &[MessageTimes]) -> Self {
        let (mut jobs, mut last) = (Vec::new(), 0);
        // First begin and last end of each job and step.
        let steps = |job: usize| programs.programs[job].steps.len() * programs.programs[job].iterations as usize;
        let mut spans: Vec<Vec<(u64, Option<u64>)>> =
            (0..programs.programs.len()).map(|job| vec![(u64::MAX, Some(0)); steps(job)]).collect();
        for (task, times) in dag.tasks.iter().zip(times) {
            last = last.max(times.received.unwrap_or(0));
            let Some(span) = spans.get_mut(usize::from(task.job)).and_then(|job| job.get_mut(task.step as usize))
            else {
                continue;
            };
            span.0 = span.0.min(times.posted.map_or(u64::MAX, |posted| posted - task.delay_ns.min(posted)));
            span.1 = span.1.zip(times.received).map(|(end, received)| end.max(received));
        }
        for (number, (program, spans)) in programs.programs.iter().zip(&spans).enumerate() {
            let all = program.all(graph.gpus());
            let steps = program.steps.iter().enumerate().map(|(place, step)| {
                let of = spans.iter().skip(place).step_by(program.steps.len());
                let taken: Option<Vec<f64>> =
                    of.map(|(begin, end)| Some(end.as_ref()?.saturating_sub(*begin) as f64)).collect();
                let mean = taken.map(|taken| taken.iter().sum::<f64>() / taken.len() as f64 / 1e3);
                let members = program.groups_of(step.group, &all).first().map_or(1, Vec::len);
                StepAnswer { step: step.words(), mean_us: mean, busbw_gb_per_s: busbw(step, members, mean) }
            });
            // A step of groups of one GPU has no transfers.
            let ends: Option<Vec<u64>> = spans.iter().map(|span| span.1).collect();
            let end = ends.and_then(|ends| ends.into_iter().max()).map(|end| end as f64 / 1e3);
            jobs.push(JobAnswer { name: name(program.name.as_str(), number), end_us: end, steps: steps.collect() });
        }
        Self {
            level,
            jobs,
            flows: beside(programs, dag, times),
            end_us: last as f64 / 1e3,
            transfers: times.len(),
            unfinished: times.iter().filter(|times| times.received.is_none()).count(),
            network: None,
        }
    }

    /// By formulas.
    pub fn of_formulas(graph: &FabricGraph, programs: &Programs, dag: &Dag) -> Self {
        let mut jobs = Vec::new();
        for (number, program) in programs.programs.iter().enumerate() {
            let all = program.all(graph.gpus());
            let mut end = 0.0;
            let steps = program.steps.iter().map(|step| {
                let mean = step_ns(graph, program, step, &all) / 1e3;
                end += mean * f64::from(program.iterations);
                let members = program.groups_of(step.group, &all).first().map_or(1, Vec::len);
                StepAnswer { step: step.words(), mean_us: Some(mean), busbw_gb_per_s: busbw(step, members, Some(mean)) }
            });
            let steps = steps.collect();
            jobs.push(JobAnswer {
                name: name(program.name.as_str(), number),
                end_us: Some(program.start_us + end),
                steps,
            });
        }
        let end_us = jobs.iter().filter_map(|job| job.end_us).fold(0.0, f64::max);
        Self {
            level: Level::Analytic,
            jobs,
            flows: None,
            end_us,
            transfers: dag.tasks.len(),
            unfinished: 0,
            network: None,
        }
    }
}

fn beside(programs: &Programs, dag: &Dag, times: &[MessageTimes]) -> Option<BesideAnswer> {
    let job = programs.programs.len();
    let is_flow = |task: &DagTask| usize::from(task.job) == job && task.bytes > 0 && !programs.flows.is_empty();
    let flows: Vec<&MessageTimes> =
        dag.tasks.iter().zip(times).filter(|(task, _)| is_flow(task)).map(|(_, times)| times).collect();
    let taken = flows.iter().filter_map(|times| Some((times.received? - times.posted?) as f64 / 1e3));
    let taken: Vec<f64> = taken.collect();
    let mean_us = taken.iter().sum::<f64>() / taken.len().max(1) as f64;
    let most_us = taken.iter().copied().fold(0.0, f64::max);
    (!flows.is_empty()).then_some(BesideAnswer { count: flows.len(), ended: taken.len(), mean_us, most_us })
}

fn port_name(graph: &FabricGraph, port: PortName) -> String {
    let [a, b] = graph.cables[port.link as usize].ends;
    format!("{} to {}", graph.name(port.node), graph.name(if a == port.node { b } else { a }))
}

fn reasons(outcome: &Outcome) -> BTreeMap<&'static str, usize> {
    let mut reasons = BTreeMap::new();
    for (_, why) in outcome.unfinished() {
        let word = match why {
            Unfinished::Waits => "waits",
            Unfinished::GaveUp => "gave_up",
            Unfinished::OutOfTime => "out_of_time",
            Unfinished::Stuck => "stuck",
        };
        *reasons.entry(word).or_insert(0) += 1;
    }
    reasons
}

fn name(name: &str, number: usize) -> String {
    if name.is_empty() { format!("job {number}") } else { name.to_owned() }
}

fn busbw(step: &kelpie_collectives::program::Step, members: usize, mean_us: Option<f64>) -> Option<f64> {
    let (op, bytes) = step.group_op()?;
    let micros = mean_us.filter(|micros| *micros > 0.0)?;
    Some(bytes.0 as f64 * bus_factor(op, members) / micros / 1e3)
}

/// The busiest links outside of hosts.
fn hot_links(graph: &FabricGraph, outcome: &Outcome, end_us: f64) -> Vec<HotLink> {
    use kelpie_topology::FabricNode::NvSwitch;
    let outside = |ends: [u32; 2]| ends.iter().all(|end| graph.nodes[*end as usize] != NvSwitch);
    let cables = graph.cables.iter().zip(&outcome.links).filter(|(cable, _)| outside(cable.ends));
    let mut links: Vec<(f64, [u32; 2])> = cables
        .map(|(cable, used)| {
            let turned = used[1].bytes > used[0].bytes;
            let bytes = used[usize::from(turned)].bytes as f64;
            let ends = if turned { [cable.ends[1], cable.ends[0]] } else { cable.ends };
            (bytes * 8.0 / (cable.gbps * 1e3) / end_us.max(1e-3), ends)
        })
        .collect();
    links.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown = links.into_iter().take(HOT).filter(|(share, _)| *share > 0.0);
    shown.map(|(use_share, ends)| HotLink { link: ends.map(|end| graph.name(end)), use_share }).collect()
}

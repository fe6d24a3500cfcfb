//! What simulated traffic has come to at a moment, as a host reads it. Equal traffic of equal models is simulated once
//! in a process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kelpie_engine::MeasureError;
use kelpie_engine::plan::{GroupPlan, HostPlan};
use kelpie_engine::verbs_host::{CompletedWork, GroupCount, HostError, HostReading};
use kelpie_monitor::counters::{SEND_QUEUE_FULL, is_level};
use kelpie_sim::{SimSubsystem, SimulatedTraffic};
use kelpie_spaces::{Opcode, Workload};

/// Results that a process keeps. Source: our choice; each has some kilobytes.
const MOST_RESULTS: usize = 256;

/// Counters of pause under the names of mlx5. Units: microseconds.
const PAUSE: [&str; 2] = ["ethtool.tx_prio3_pause_duration", "ethtool.rx_prio3_pause_duration"];

/// One simulation, made by who asks for it first.
type Simulation = Arc<OnceLock<Result<SimulatedTraffic, HostError>>>;

static RESULTS: Mutex<BTreeMap<String, Simulation>> = Mutex::new(BTreeMap::new());

/// What a workload comes to between hosts `a` and `b`.
pub fn simulate(a: &SimSubsystem, b: &SimSubsystem, workload: &Workload) -> Result<SimulatedTraffic, HostError> {
    let key = format!("{}\n{}\n{workload:?}", a.yaml(), b.yaml());
    let result = {
        let mut results = RESULTS.lock().unwrap_or_else(PoisonError::into_inner);
        if results.len() >= MOST_RESULTS && !results.contains_key(&key) {
            results.clear();
        }
        Arc::clone(results.entry(key).or_default())
    };
    result
        .get_or_init(|| {
            let pair = a.clone().with_peer(b).map_err(|error| HostError::Unsupported(error.to_string()))?;
            pair.traffic(workload).map_err(|error| match error {
                MeasureError::Unsupported { reason } => HostError::Unsupported(reason),
                error @ MeasureError::Host { .. } => HostError::Failed(error.to_string()),
            })
        })
        .clone()
}

/// What a host shows after so long, its work times a factor for each flow and end: the noise of its model.
pub fn reading(plan: &HostPlan, traffic: &SimulatedTraffic, factors: &[f64], at: Duration) -> HostReading {
    let seconds = at.as_secs_f64();
    let mean = &traffic.mean;
    let count = |group: &GroupPlan| {
        let by_op = group.ops().into_iter().map(|op| (op, work(plan, traffic, factors, group, op, seconds)));
        GroupCount { id: group.id, by_op: by_op.collect() }
    };
    let of_host = mean.counters.get(plan.host);
    let counts = of_host.iter().filter(|(name, _)| name.as_str() != SEND_QUEUE_FULL && !is_level(name));
    let mut counters: BTreeMap<String, u64> =
        counts.map(|(name, rate)| (name.clone(), (rate * seconds) as u64)).collect();
    if let Some(pause) = &mean.pause {
        let ratios = pause.get(plan.host);
        let micros = [ratios.tx, ratios.rx].map(|ratio| (ratio * seconds * 1e6) as u64);
        counters.extend(PAUSE.iter().map(|name| (*name).to_owned()).zip(micros));
    }
    HostReading {
        at_nanos: at.as_nanos() as u64,
        groups: plan.groups.iter().map(count).collect(),
        queue_full_nanos: (of_host.get(SEND_QUEUE_FULL).copied().unwrap_or(0.0) * seconds * 1e9) as u64,
        counters,
        ..HostReading::default()
    }
}

/// What an operation of one end of a flow has come to: the vector goes round in its order, so that each request has its
/// part of the payload.
fn work(
    plan: &HostPlan,
    traffic: &SimulatedTraffic,
    factors: &[f64],
    group: &GroupPlan,
    op: Opcode,
    seconds: f64,
) -> CompletedWork {
    let flow = &plan.workload.flows[group.id.flow];
    let end = usize::from(op.brings_back());
    // A model moves a byte for a message without any.
    let round: u64 = flow
        .pattern
        .iter()
        .filter(|request| request.op.brings_back() == op.brings_back())
        .map(|request| request.message().0.max(1))
        .sum();
    let factor = factors.get(2 * group.id.flow + end).copied().unwrap_or(1.0);
    let rounds = traffic.flows[group.id.flow][end] / round as f64 * seconds * factor;
    let own = flow.pattern.iter().filter(|request| request.op == op).map(|request| request.message().0);
    let mtu = flow.mtu.bytes();
    let of_round = own.fold([0, 0, 0], |[messages, bytes, packets], size| {
        [messages + 1, bytes + size, packets + size.div_ceil(mtu).max(1)]
    });
    let [messages, bytes, packets] = of_round.map(|amount| (amount as f64 * rounds) as u64);
    CompletedWork { messages, bytes, packets }
}

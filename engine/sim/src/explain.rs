//! Which part limits a run, and whose traffic: shares of time, compared the same way for every workload.

use kelpie_events::{Picos, Pool};
use kelpie_monitor::verdict::PAUSE_RATIO;
use kelpie_spaces::{Host, QpType};

use crate::blame::{Blame, CAUSES, Cause};
use crate::resolved::ResolvedFlow;
use crate::world::World;

/// Traffic on the ways between NIC and memory, as seen from the NIC.
const DMA_WRITE: &str = "DMA_WRITE";
const DMA_READ: &str = "DMA_READ";
const DMA: &str = "DMA";

/// Work that every receive engine has; a stall counts before it from this share of the time on.
const STALL_SHARE: f64 = 0.1;
/// A part that is busy for this share of the time is the limit.
const SATURATED: f64 = 0.93;

/// Busy times of one host, to be compared over an interval.
#[derive(Debug, Clone)]
pub struct Snapshot {
    time: Picos,
    blame: Blame,
    receive_busy: Picos,
    holding: Picos,
    barriers: Picos,
    restaged: Picos,
    fetches: [Picos; 3],
    icm: Picos,
    icm_contexts: Picos,
    interconnect: Picos,
    redirect: Picos,
    pcie_read: Picos,
    wire: Picos,
    core_wait: Picos,
}

impl Snapshot {
    /// The busy times of `host` so far.
    pub fn of(world: &World, host: Host) -> Self {
        let state = world.hosts.get(host);
        Self {
            time: world.now,
            blame: state.blame.clone(),
            receive_busy: state.receive_busy,
            holding: state.holding.total(world.now),
            barriers: state.barriers,
            restaged: state.restaged,
            fetches: state.fetches.each_ref().map(Pool::mean_busy),
            icm: state.icm.mean_busy(),
            icm_contexts: state.icm_contexts / state.icm.servers(),
            interconnect: state.interconnect.busy,
            redirect: state.redirect_read.busy,
            pcie_read: state.pcie_read.busy,
            wire: state.wire.busy,
            core_wait: state.core_wait,
        }
    }
}

/// The part with the highest share of the time since the snapshots, receivers first, as `part:TRAFFIC`.
pub fn limiting(world: &World, since: &[Snapshot; 2]) -> String {
    let mut parts: Vec<(f64, String)> = Vec::new();
    for host in Host::BOTH {
        receive_part(world, host, &since[host.index()], &mut parts);
    }
    for host in Host::BOTH {
        other_parts(world, host, &since[host.index()], &mut parts);
    }
    for host in Host::BOTH {
        wire_part(world, host, &since[host.index()], &mut parts);
    }
    let saturated = parts.iter().find(|(share, _)| *share >= SATURATED);
    let highest = || parts.iter().max_by(|(one, _), (other, _)| one.total_cmp(other));
    saturated.or_else(highest).map_or_else(|| "none".to_owned(), |(_, part)| part.clone())
}

fn receive_part(world: &World, host: Host, before: &Snapshot, parts: &mut Vec<(f64, String)>) {
    let state = world.hosts.get(host);
    let interval = (world.now - before.time).max(Picos::new(1));
    let spent = |flow: usize, cause: usize| state.blame.spent(flow, cause) - before.blame.spent(flow, cause);
    let flows = world.workload.flows.len();
    let total = |cause: usize| (0..flows).map(|flow| spent(flow, cause)).sum::<Picos>().ratio_to(interval);
    let base = [Cause::PacketProcessing as usize, Cause::PcieWrite as usize];
    let largest = |stalls: bool| {
        (0..CAUSES.len())
            .filter(|cause| base.contains(cause) != stalls)
            .max_by(|one, other| total(*one).total_cmp(&total(*other)))
            .expect("there are causes of both kinds")
    };
    let mut cause = largest(true);
    if total(cause) < STALL_SHARE {
        cause = largest(false);
    }
    let barriers = (state.barriers - before.barriers).ratio_to(interval);
    let name =
        if CAUSES[cause].0 == Cause::PcieWrite && barriers >= STALL_SHARE { "pcie_ordering" } else { CAUSES[cause].1 };
    let flow = (0..flows).max_by_key(|flow| (spent(*flow, cause), std::cmp::Reverse(*flow))).unwrap_or(0);
    // The ways to memory do not know whose payload they carry, and some not even which way.
    let traffic = match CAUSES[cause].0 {
        Cause::PcieWrite => DMA_WRITE,
        Cause::SocketInterconnect | Cause::PeerToPeerRedirect => DMA,
        _ => &world.workload.flows[flow].traffic,
    };
    let busy = (state.receive_busy - before.receive_busy).ratio_to(interval);
    // A receiver that holds its port is behind by definition, however its busy time is spread.
    let holding = (state.holding.total(world.now) - before.holding).ratio_to(interval);
    let share = if holding > PAUSE_RATIO { 1.0 } else { busy };
    parts.push((share, format!("{name}:{traffic}")));
}

fn other_parts(world: &World, host: Host, before: &Snapshot, parts: &mut Vec<(f64, String)>) {
    let after = Snapshot::of(world, host);
    let interval = (after.time - before.time).max(Picos::new(1));
    let share = |now: Picos, then: Picos| (now - then).ratio_to(interval);
    let from_here = world.workload.flows.iter().find(|flow| flow.from == host);
    let to_here = world.workload.flows.iter().find(|flow| flow.to == host);
    let mut part = |share: f64, name: &str, flow: Option<&ResolvedFlow>| {
        if let Some(flow) = flow {
            parts.push((share, format!("{name}:{}", flow.traffic)));
        }
    };
    for qp_type in QpType::ALL {
        let flow = world.workload.flows.iter().find(|flow| flow.to == host && flow.qp_type == qp_type);
        let index = qp_type as usize;
        part(share(after.fetches[index], before.fetches[index]), "receive_wqe_fetch", flow);
    }
    let (icm, contexts) = (share(after.icm, before.icm), share(after.icm_contexts, before.icm_contexts));
    let cache = if 2.0 * contexts > icm { "qp_context_cache" } else { "translation_cache" };
    part(icm, cache, from_here.or(to_here));
    let restaged = share(after.restaged, before.restaged);
    if restaged >= STALL_SHARE {
        part(share(after.pcie_read, before.pcie_read), "transmit_staging", from_here);
    }
    if let Some(flow) = from_here {
        let qps: u32 = world.workload.flows.iter().filter(|flow| flow.from == host).map(|flow| flow.qps).sum();
        part(share(after.core_wait, before.core_wait) / f64::from(qps), "posting", Some(flow));
    }
    let ways = [
        ("socket_interconnect", DMA, after.interconnect, before.interconnect),
        ("peer_to_peer_redirect", DMA, after.redirect, before.redirect),
        ("pcie_read", DMA_READ, after.pcie_read, before.pcie_read),
    ];
    parts.extend(ways.map(|(name, traffic, now, then)| (share(now, then), format!("{name}:{traffic}"))));
}

fn wire_part(world: &World, host: Host, before: &Snapshot, parts: &mut Vec<(f64, String)>) {
    let interval = (world.now - before.time).max(Picos::new(1));
    if let Some(flow) = world.workload.flows.iter().find(|flow| flow.from == host || flow.to == host) {
        let busy = (world.hosts.get(host).wire.busy - before.wire).ratio_to(interval);
        parts.push((busy, format!("wire:{}", flow.traffic)));
    }
}

//! How near a direction is to the bounds that hold for it. Traffic that is at any of them is not slow.
//! `docs/reference/verdict.md` lists them.

use kelpie_spaces::{Direction, Flow, Host, Workload, loaded_directions, receiver};

use crate::counters::{RECEIVE_QUEUE_FULL, SEND_QUEUE_FULL};
use crate::demand::{demand, pays};
use crate::limit::Limit;
use crate::lossy_path::carried;
use crate::measurement::{Bounds, Measurement, Sample};
use crate::pcie_need::need;

/// How much a direction attains of the bound that it is nearest to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attained {
    /// Units: share of that bound.
    pub share: f64,
    /// That bound.
    pub limit: Limit,
    /// The direction whose bound it is: the other one if the same vector loads both, and that one is full.
    pub of: Direction,
}

/// What the mean of all samples attains in each direction that crosses a port.
pub fn held_against(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> Vec<(Direction, Attained)> {
    let Some(mean) = measurement.mean() else { return Vec::new() };
    let bounds = bounds.beside(measurement);
    let ways = loaded_directions(workload).into_iter();
    ways.filter_map(|way| Some((way, attained(workload, &bounds, way, &mean)?))).collect()
}

/// How much a direction attains of the bound that it is nearest to; `None` if it crosses no port, or is missing.
///
/// A QP goes through its vector request by request. So if the same flows load both directions, both are at their limit
/// if one is.
pub fn attained(workload: &Workload, bounds: &Bounds, way: Direction, sample: &Sample) -> Option<Attained> {
    let own = of_itself(workload, bounds, way, sample)?;
    let back = way.reversed();
    let is_shared = workload.flows.iter().all(|flow| pays(flow, way) == pays(flow, back));
    let other = if is_shared { of_itself(workload, bounds, back, sample) } else { None };
    Some(other.into_iter().fold(own, nearer))
}

/// The same by the bounds of this direction alone.
fn of_itself(workload: &Workload, bounds: &Bounds, way: Direction, sample: &Sample) -> Option<Attained> {
    // The bounds are those of a port, which loopback traffic does not cross.
    let rates = sample.direction(way.from, way.to).filter(|_| !way.is_loopback())?;
    let base_rtt = bounds.base_rtt_seconds.unwrap_or(0.0);
    let paths = workload.flows.iter().filter(|flow| pays(flow, way)).map(|flow| carried(flow, bounds, base_rtt));
    let of_paths = paths.fold(1.0, f64::min);
    let demand = demand(workload, way, bounds, sample);
    let need = need(workload, way, sample);
    let share = |share: f64, limit: Limit| Attained { share, limit, of: way };
    let known = [
        (need.bps, bounds.max_pcie_bps, Limit::PcieLink),
        (need.reads_per_sec, bounds.max_pcie_reads_per_sec, Limit::PcieReads),
    ];
    let of_pcie = known.into_iter().filter_map(|(need, most, limit)| Some(share(need / most?, limit)));
    let of_demand = if matches!(demand.limit, Limit::Wire | Limit::Packets) { way.reversed() } else { way };
    let nearest = [
        share(rates.packets_per_sec / (bounds.max_pps * of_paths), Limit::Packets),
        Attained { share: rates.goodput_bps / (demand.goodput_bps * of_paths), limit: demand.limit, of: of_demand },
    ]
    .into_iter()
    .chain(of_pcie)
    .fold(share(rates.wire_bps / (bounds.max_bps * of_paths), Limit::Wire), nearer);
    Some(nearest)
}

/// Of equal ones the first.
fn nearer(one: Attained, other: Attained) -> Attained {
    if other.share > one.share { other } else { one }
}

/// For how much of the window those that are the limit of this direction kept their queues full: of all flows that pay
/// into it the one that did so the most; 1 if it is not known.
///
/// A flow has two kinds of queues that may limit it. One is the send queues of its requester. The other is the receive
/// queues of a host that receives all payload of a direction which the flow loads. The emptier kind counts.
pub(crate) fn kept_full(workload: &Workload, way: Direction, sample: &Sample) -> f64 {
    let full = |host: Host, counter: &str| sample.counters.get(host).get(counter).copied().unwrap_or(1.0);
    let of_flow = |flow: &Flow| {
        let receivers =
            [way, way.reversed()].into_iter().filter(|way| pays(flow, *way)).filter_map(|way| receiver(workload, way));
        receivers.map(|host| full(host, RECEIVE_QUEUE_FULL)).fold(full(flow.from, SEND_QUEUE_FULL), f64::min)
    };
    workload.flows.iter().filter(|flow| pays(flow, way)).map(of_flow).fold(0.0, f64::max)
}

//! Repair of dependent limits: bringing a workload back into its space after one dimension was set. The rules
//! themselves live in `constraints`.

use crate::constraints::Footprint;
use crate::dimensions::{Dimension, Scope, Special, TABLE, device, device_code};
use crate::domain::Domain;
use crate::domains::{Domains, TransportChoice};
use crate::edit::{memories, recut, resize, set, set_requests, set_total_qps, split_evenly};
use crate::features::Feature;
use crate::sides::{FlowSide, side_of};
use crate::units::Bytes;
use crate::workload::{ATOMIC_SIZE, Flow, Host, Opcode, QpType, Request, Workload};

/// Dimensions that a repair must leave as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keep(u32);

impl Keep {
    pub(crate) const NOTHING: Keep = Keep(0);

    pub(crate) fn with(self, dimension: Dimension) -> Keep {
        Keep(self.0 | 1 << dimension as u32)
    }

    pub(crate) fn has(self, dimension: Dimension) -> bool {
        self.0 >> dimension as u32 & 1 == 1
    }
}

/// Changes as little as the rules and bounds allow; `None` where a kept dimension stands in the way.
///
/// The result still has to be checked with `Space::contains`.
pub(crate) fn fit(domains: &Domains, workload: &mut Workload, keep: Keep) -> Option<()> {
    fit_directions(domains, workload);
    fit_transport(domains, workload, keep)?;
    fit_amounts(domains, workload, keep)
}

/// As [`fit`], transport and directions taken as they are.
pub(crate) fn fit_amounts(domains: &Domains, workload: &mut Workload, keep: Keep) -> Option<()> {
    fit_values(domains, workload, keep);
    for flow in &mut workload.flows {
        fit_messages(domains, flow, keep)?;
    }
    fit_batches(domains, workload, keep)?;
    fit_totals(domains, workload, keep)
}

fn fit_directions(domains: &Domains, workload: &mut Workload) {
    for row in TABLE {
        if let Scope::Whole { get, set } = row.scope {
            let now = get(workload);
            let fitting = domains.domain(row.dimension).nearest(now);
            if fitting != now {
                set(workload, fitting);
            }
        }
    }
}

fn fit_transport(domains: &Domains, workload: &mut Workload, keep: Keep) -> Option<()> {
    let allowed = |op: Opcode, flow: &Flow| {
        domains.transports.contains(&TransportChoice { qp_type: flow.qp_type, op, mtu: flow.mtu })
    };
    let mixes = domains.admits(Dimension::MixedOpcodes, true);
    for flow in &mut workload.flows {
        let fits = |request: &Request| allowed(request.op, flow);
        let first = flow.pattern[0].op;
        let uniform = flow.pattern.iter().all(|request| request.op == first);
        if flow.pattern.iter().all(fits) && (uniform || mixes) {
            continue;
        }
        let wanted = TransportChoice { qp_type: flow.qp_type, op: first, mtu: flow.mtu };
        let best = nearest_transport(domains, wanted, keep)?;
        (flow.qp_type, flow.mtu) = (best.qp_type, best.mtu);
        for request in &mut flow.pattern {
            let legal = domains.transports.contains(&TransportChoice { op: request.op, ..best });
            if !legal || !mixes {
                request.op = best.op;
            }
        }
    }
    Some(())
}

/// The transport of the space that shares most with the wanted one: its QP type before its operation before its MTU.
fn nearest_transport(domains: &Domains, wanted: TransportChoice, keep: Keep) -> Option<TransportChoice> {
    let score = |other: &TransportChoice| {
        [
            (Dimension::QpType, other.qp_type == wanted.qp_type, 8),
            (Dimension::Opcode, other.op == wanted.op, 4),
            // WRITE is the operation that resembles the others most: READ without the turn, SEND without the receive.
            (Dimension::MixedOpcodes, other.op == Opcode::Write, 1),
            (Dimension::Mtu, other.mtu == wanted.mtu, 2),
        ]
        .into_iter()
        .map(|(dimension, same, weight)| {
            if same {
                weight
            } else if keep.has(dimension) {
                -100
            } else {
                0
            }
        })
        .sum::<i32>()
    };
    // The first of equals, so that the choice depends on nothing but the domains.
    let best = domains.transports.iter().rev().max_by_key(|other| score(other)).copied()?;
    let broken = keep.has(Dimension::QpType) && best.qp_type != wanted.qp_type
        || keep.has(Dimension::Opcode) && best.op != wanted.op
        || keep.has(Dimension::Mtu) && best.mtu != wanted.mtu;
    (!broken).then_some(best)
}

/// Brings plain values into their domains, and those that can be changed like them.
fn fit_values(domains: &Domains, workload: &mut Workload, keep: Keep) {
    for row in TABLE {
        let domain = domains.domain(row.dimension);
        let flows = workload.flows.iter_mut();
        match row.scope {
            Scope::Flow { get, set } => flows.for_each(|flow| pull(domain, flow, get, set)),
            Scope::Memory { get, set } => flows.flat_map(memories).for_each(|memory| pull(domain, memory, get, set)),
            Scope::Request { get, set } => {
                flows.flat_map(|flow| &mut flow.pattern).for_each(|request| pull(domain, request, get, set));
            }
            Scope::Special(Special::Memory(side)) => {
                if !keep.has(row.dimension) {
                    fit_devices(workload, side, domain);
                }
            }
            Scope::Special(Special::SgeCount) => flows.flat_map(|flow| &mut flow.pattern).for_each(|request| {
                pull(
                    domain,
                    request,
                    |request| request.sge.len() as u64,
                    |request, count| recut(request, count as usize),
                );
            }),
            Scope::Special(Special::Requests) => flows.for_each(|flow| {
                pull(domain, flow, |flow| flow.pattern.len() as u64, |flow, len| set_requests(flow, len as usize));
            }),
            // Directions and transports are fitted before, messages and totals after.
            Scope::Whole { .. }
            | Scope::Special(
                Special::Message
                | Special::MixedOpcodes
                | Special::TotalQps
                | Special::TotalMrs
                | Special::PinnedPerHost,
            ) => {}
        }
    }
}

/// Brings one value into its domain.
fn pull<T>(domain: &Domain, place: &mut T, get: fn(&T) -> u64, set: fn(&mut T, u64)) {
    let value = get(place);
    let fitting = domain.nearest(value);
    if fitting != value {
        set(place, fitting);
    }
}

fn fit_devices(workload: &mut Workload, side: FlowSide, domain: &Domain) {
    let primary = workload.flows[0].clone();
    for flow in &mut workload.flows {
        let hosts = [(flow.from, true), (flow.to, false)];
        for ((host, is_from), memory) in hosts.into_iter().zip(memories(flow)) {
            if side_of(&primary, host, is_from) == side {
                memory.device = device(domain.nearest(device_code(memory.device)));
            }
        }
    }
}

/// Elements into messages, messages into the MTU (UD) and into MRs.
fn fit_messages(domains: &Domains, flow: &mut Flow, keep: Keep) -> Option<()> {
    let sizes = domains.domain(Dimension::Message);
    let packet = if flow.qp_type == QpType::Ud { flow.mtu.bytes() } else { u64::MAX };
    let largest_mr = if keep.has(Dimension::MrSize) {
        flow.memory.from.mr_size.min(flow.memory.to.mr_size).0
    } else {
        domains.domain(Dimension::MrSize).max()
    };
    for request in &mut flow.pattern {
        if request.op.is_atomic() {
            let fits = sizes.contains(ATOMIC_SIZE.0) && domains.domain(Dimension::SgeCount).contains(1);
            let kept = keep.has(Dimension::Message) || keep.has(Dimension::SgeCount);
            if !fits || kept && request.sge != [ATOMIC_SIZE] {
                return None;
            }
            request.sge = vec![ATOMIC_SIZE];
            continue;
        }
        let count = request.sge.len() as u64;
        let message = request.message().0;
        let fitting = sizes.nearest(message).max(sizes.ceil(count)?);
        let fitting = if fitting <= packet.min(largest_mr) { fitting } else { sizes.floor(packet.min(largest_mr))? };
        if fitting < count || fitting != message && keep.has(Dimension::Message) {
            return None;
        }
        resize(request, fitting);
        if request.sge.contains(&Bytes(0)) {
            split_evenly(request, fitting);
        }
    }
    let needed = flow.pattern.iter().map(Request::message).max()?;
    for memory in [&mut flow.memory.from, &mut flow.memory.to] {
        if memory.mr_size < needed {
            memory.mr_size = Bytes(domains.domain(Dimension::MrSize).ceil(needed.0)?);
        }
    }
    let sends = flow.pattern.iter().filter(|request| request.op.is_send()).map(Request::message).max();
    let held = flow.recv_sge.iter().map(|size| size.0).sum::<u64>();
    let lands = flow.recv_sge.iter().all(|size| *size <= flow.memory.to.mr_size);
    let is_used = flow.pattern.iter().any(|request| request.op.consumes_receive());
    if !lands || !is_used || sends.is_some_and(|message| message.0 > held) {
        flow.recv_sge.clear();
    }
    Some(())
}

/// A batch fits its queue: the queue gives way where the batch is kept, else the batch.
fn fit_batches(domains: &Domains, workload: &mut Workload, keep: Keep) -> Option<()> {
    for flow in &mut workload.flows {
        for (batch, depth, batch_dimension, depth_dimension) in [
            (&mut flow.batch.send, &mut flow.wq_depth.send, Dimension::SendBatch, Dimension::SendWqDepth),
            (&mut flow.batch.recv, &mut flow.wq_depth.recv, Dimension::RecvBatch, Dimension::RecvWqDepth),
        ] {
            if *batch <= *depth {
                continue;
            }
            let smaller = domains.domain(batch_dimension).floor((*depth).into());
            let deeper = domains.domain(depth_dimension).ceil((*batch).into());
            match (smaller, deeper) {
                (Some(smaller), _) if !keep.has(batch_dimension) => *batch = smaller as u32,
                (_, Some(deeper)) if !keep.has(depth_dimension) => *depth = deeper as u32,
                (None, None) if !keep.has(batch_dimension) && !keep.has(depth_dimension) => {
                    *batch = domains.domain(batch_dimension).min() as u32;
                    *depth = domains.domain(depth_dimension).ceil((*batch).into())? as u32;
                }
                _ => return None,
            }
        }
    }
    Some(())
}

/// Totals into their bounds, step by step: MRs give way first, then their size, then QPs.
fn fit_totals(domains: &Domains, workload: &mut Workload, keep: Keep) -> Option<()> {
    let total = |workload: &Workload, feature| workload.feature(feature).number().unwrap_or(0);
    let most = |dimension| domains.domain(dimension).max();
    let qps = total(workload, Feature::TotalQps);
    let fitting = domains.domain(Dimension::TotalQps).nearest(qps);
    if fitting != qps {
        if keep.has(Dimension::Qps) || keep.has(Dimension::TotalQps) || !set_total_qps(workload, fitting) {
            return None;
        }
        let inside = workload.flows.iter().all(|flow| domains.domain(Dimension::Qps).contains(flow.qps.into()));
        if !inside {
            let share = domains.domain(Dimension::Qps).nearest(fitting / workload.flows.len() as u64);
            set(workload, Dimension::Qps, share);
        }
    }
    while total(workload, Feature::TotalMrs) < domains.domain(Dimension::TotalMrs).min() {
        let gives_way = [Dimension::Mrs, Dimension::Qps].into_iter().filter(|dimension| !keep.has(*dimension));
        step(domains, workload, gives_way, Step::Up)?;
    }
    let mrs = |workload: &Workload| {
        let hosts = Host::BOTH.map(|host| Footprint::of(workload, host).mrs);
        hosts.into_iter().chain([total(workload, Feature::TotalMrs)]).max().unwrap_or(0)
    };
    while mrs(workload) > most(Dimension::TotalMrs) {
        let gives_way = [Dimension::Mrs, Dimension::Qps].into_iter().filter(|dimension| !keep.has(*dimension));
        step(domains, workload, gives_way, Step::Down)?;
    }
    let pinned = |workload: &Workload| {
        Host::BOTH.map(|host| Footprint::of(workload, host).pinned).into_iter().max().unwrap_or(0)
    };
    while pinned(workload) > most(Dimension::PinnedPerHost) {
        let gives_way =
            [Dimension::Mrs, Dimension::MrSize, Dimension::Qps].into_iter().filter(|dimension| !keep.has(*dimension));
        step(domains, workload, gives_way, Step::Down)?;
    }
    Some(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Up,
    Down,
}

/// Moves the first of the dimensions that has room by one step of its domain.
fn step(
    domains: &Domains,
    workload: &mut Workload,
    dimensions: impl Iterator<Item = Dimension>,
    direction: Step,
) -> Option<()> {
    for dimension in dimensions {
        let feature = match dimension {
            Dimension::Mrs => Feature::Mrs,
            Dimension::MrSize => Feature::MrSize,
            _ => Feature::Qps,
        };
        let now = workload.feature(feature).number()?;
        let domain = domains.domain(dimension);
        let next = match direction {
            Step::Up => domain.ceil(now + 1),
            Step::Down => domain.floor(now.saturating_sub(1)),
        };
        let needed = match dimension {
            Dimension::MrSize => workload.feature(Feature::MessageMax).number()?,
            _ => 0,
        };
        if let Some(next) = next.filter(|next| *next >= needed) {
            set(workload, dimension, next);
            return Some(());
        }
    }
    None
}

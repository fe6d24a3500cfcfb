//! The two sides of a workload: which way its flows go, and which of its memories belongs to which side.

use crate::workload::{Flow, Host, Memory, Workload};

/// A side of the first flow, and the same host in every other flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowSide {
    /// The first flow's requester.
    Requester,
    /// The first flow's responder.
    Responder,
}

/// The side of a host: each host keeps its side in every flow, seen from the first flow.
pub(crate) fn side_of(primary: &Flow, host: Host, is_from: bool) -> FlowSide {
    let requester = if primary.is_loopback() { host == primary.from && is_from } else { host == primary.from };
    if requester { FlowSide::Requester } else { FlowSide::Responder }
}

impl Workload {
    /// Whether traffic crosses the wire in both directions.
    pub fn is_bidirectional(&self) -> bool {
        let crosses = |from| self.flows.iter().any(|flow| flow.from == from && flow.to != from);
        crosses(Host::A) && crosses(Host::B)
    }
}

impl Flow {
    /// The memory that each of its requests writes to, its host, and whether that is the requester: it is where data
    /// come back.
    pub(crate) fn written(&self) -> impl Iterator<Item = (Host, bool, &Memory)> {
        self.pattern.iter().map(|request| {
            if request.op.brings_back() {
                (self.from, true, &self.memory.from)
            } else {
                (self.to, false, &self.memory.to)
            }
        })
    }
}

/// Adds the mirror of the first flow on the wire, or removes the flows against it.
pub(crate) fn set_bidirectional(workload: &mut Workload, on: bool) {
    if workload.is_bidirectional() == on {
        return;
    }
    match workload.flows.iter().find(|flow| !flow.is_loopback()).cloned() {
        Some(first) if on => workload.flows.push(first.mirrored()),
        Some(first) => workload.flows.retain(|flow| flow.is_loopback() || flow.from == first.from),
        None => {
            let mut first = workload.flows[0].clone();
            first.to = first.from.peer();
            workload.flows.extend([first.mirrored(), first]);
        }
    }
}

/// Adds a loopback flow at the responder, or removes all (a lone one goes over the wire instead).
pub(crate) fn set_loopback(workload: &mut Workload, on: bool) {
    if workload.flows.iter().any(Flow::is_loopback) == on {
        return;
    }
    if on {
        let mut flow = workload.flows[0].clone();
        flow.from = flow.to;
        flow.memory.from = flow.memory.to;
        workload.flows.push(flow);
    } else if workload.flows.iter().all(Flow::is_loopback) {
        workload.flows.truncate(1);
        let flow = &mut workload.flows[0];
        flow.to = flow.from.peer();
    } else {
        workload.flows.retain(|flow| !flow.is_loopback());
    }
}

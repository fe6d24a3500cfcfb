//! Where the values of a dimension stand in a workload, and how they are read there. Setting them lives in `edit`.

use crate::constraints::Footprint;
use crate::sides::{FlowSide, side_of};
use crate::workload::{Device, Flow, Host, Memory, Request, Workload};

/// Where the values of a dimension stand. A plain dimension says how one of them is read and set.
#[derive(Debug, Clone, Copy)]
pub enum Scope {
    /// One in each flow.
    Flow {
        /// Reads it.
        get: fn(&Flow) -> u64,
        /// Sets it, whatever else then breaks.
        set: fn(&mut Flow, u64),
    },
    /// One for the memory of each side of each flow.
    Memory {
        /// Reads it.
        get: fn(&Memory) -> u64,
        /// Sets it, whatever else then breaks.
        set: fn(&mut Memory, u64),
    },
    /// One in each request of each vector.
    Request {
        /// Reads it.
        get: fn(&Request) -> u64,
        /// Sets it, whatever else then breaks.
        set: fn(&mut Request, u64),
    },
    /// One for the workload as a whole, which decides about its flows.
    Whole {
        /// Reads it.
        get: fn(&Workload) -> u64,
        /// Adds or removes flows.
        set: fn(&mut Workload, u64),
    },
    /// No plain value. Whatever is done with dimensions names each of these.
    Special(Special),
}

/// A dimension that is more than a value in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Where memory lives at this side of the first flow, in every flow.
    Memory(FlowSide),
    /// Elements of requests, whose sizes follow.
    SgeCount,
    /// Requests of a vector.
    Requests,
    /// Sizes of requests, which their elements share.
    Message,
    /// Whether operations may differ, but not which.
    MixedOpcodes,
    /// A bound of a product.
    TotalQps,
    /// A bound of a product.
    TotalMrs,
    /// A bound of a product.
    PinnedPerHost,
}

impl Scope {
    /// Shows each value that the workload has to `see`.
    pub(crate) fn each(self, workload: &Workload, see: &mut impl FnMut(u64)) {
        let requests = || workload.flows.iter().flat_map(|flow| &flow.pattern);
        match self {
            Scope::Flow { get, .. } => workload.flows.iter().map(get).for_each(see),
            Scope::Memory { get, .. } => {
                workload.flows.iter().flat_map(|flow| [&flow.memory.from, &flow.memory.to]).map(get).for_each(see);
            }
            Scope::Request { get, .. } => requests().map(get).for_each(see),
            Scope::Whole { get, .. } => see(get(workload)),
            Scope::Special(Special::Memory(side)) => devices(workload, side, see),
            Scope::Special(Special::SgeCount) => requests().map(|request| request.sge.len() as u64).for_each(see),
            Scope::Special(Special::Requests) => {
                workload.flows.iter().map(|flow| flow.pattern.len() as u64).for_each(see);
            }
            Scope::Special(Special::Message) => requests().map(|request| request.message().0).for_each(see),
            Scope::Special(Special::MixedOpcodes) => {
                // One operation throughout is no value: it may stand wherever several may.
                let mixed = |flow: &&Flow| flow.pattern.iter().any(|request| request.op != flow.pattern[0].op);
                workload.flows.iter().filter(mixed).for_each(|_| see(1));
            }
            Scope::Special(Special::TotalQps) => see(workload.flows.iter().map(|flow| u64::from(flow.qps)).sum()),
            Scope::Special(Special::TotalMrs) => {
                let mrs = |flow: &Flow| u64::from(flow.qps) * u64::from(flow.memory.from.mrs);
                see(workload.flows.iter().map(mrs).fold(0, u64::saturating_add));
            }
            Scope::Special(Special::PinnedPerHost) => {
                let pinned = Host::BOTH.map(|host| Footprint::of(workload, host).pinned);
                pinned.into_iter().filter(|bytes| *bytes > 0).for_each(see);
            }
        }
    }
}

/// The devices of one side in all flows.
fn devices(workload: &Workload, side: FlowSide, see: &mut impl FnMut(u64)) {
    let Some(primary) = workload.flows.first() else { return };
    for flow in &workload.flows {
        for (host, is_from, memory) in [(flow.from, true, &flow.memory.from), (flow.to, false, &flow.memory.to)] {
            if side_of(primary, host, is_from) == side {
                see(device_code(memory.device));
            }
        }
    }
}

const GPU: u64 = 1 << 8;

pub(crate) fn device_code(device: Device) -> u64 {
    match device {
        Device::Dram(index) => index.into(),
        Device::Gpu(index) => GPU + u64::from(index),
    }
}

pub(crate) fn device(code: u64) -> Device {
    if code < GPU { Device::Dram(code as u8) } else { Device::Gpu((code - GPU) as u8) }
}

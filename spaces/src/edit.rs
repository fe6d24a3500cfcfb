//! Setting one dimension of a workload, everything else untouched and no rule checked. Repair of what then breaks lives
//! in `repair`.

use crate::dimensions::{Dimension, Scope, Special, device, device_code};
use crate::domains::Domains;
use crate::mix::{MIX_LONG, MIX_SHORT};
use crate::sides::{FlowSide, side_of};
use crate::units::Bytes;
use crate::workload::{Device, Flow, Memory, Request, Workload};

/// Puts a dimension of all flows at the value; totals and messages have functions of their own.
pub(crate) fn set(workload: &mut Workload, dimension: Dimension, code: u64) {
    let flows = &mut workload.flows;
    match dimension.row().scope {
        Scope::Flow { set, .. } => flows.iter_mut().for_each(|flow| set(flow, code)),
        Scope::Memory { set, .. } => flows.iter_mut().flat_map(memories).for_each(|memory| set(memory, code)),
        Scope::Request { set, .. } => {
            flows.iter_mut().flat_map(|flow| &mut flow.pattern).for_each(|request| set(request, code));
        }
        Scope::Whole { set, .. } => set(workload, code),
        Scope::Special(Special::Memory(side)) => set_device(workload, side, code),
        Scope::Special(Special::SgeCount) => flows.iter_mut().for_each(|flow| set_sge_count(flow, code as usize)),
        Scope::Special(Special::Requests) => flows.iter_mut().for_each(|flow| set_requests(flow, code as usize)),
        Scope::Special(
            Special::Message | Special::MixedOpcodes | Special::TotalQps | Special::TotalMrs | Special::PinnedPerHost,
        ) => {}
    }
}

/// The memory of both sides.
pub(crate) fn memories(flow: &mut Flow) -> [&mut Memory; 2] {
    [&mut flow.memory.from, &mut flow.memory.to]
}

/// Each host keeps its device in every flow.
pub(crate) fn set_device(workload: &mut Workload, side: FlowSide, code: u64) {
    let primary = workload.flows[0].clone();
    for flow in &mut workload.flows {
        let hosts = [(flow.from, true), (flow.to, false)];
        for ((host, is_from), memory) in hosts.into_iter().zip(memories(flow)) {
            if side_of(&primary, host, is_from) == side {
                memory.device = device(code);
            }
        }
    }
}

/// Shortens a vector, or begins it again until it is long enough.
pub(crate) fn set_requests(flow: &mut Flow, len: usize) {
    let old = std::mem::take(&mut flow.pattern);
    flow.pattern = old.into_iter().cycle().take(len).collect();
}

/// Puts the last of the devices that data are written to at `device`, and all that come after that.
pub(crate) fn set_memory_written(workload: &mut Workload, device: Device) {
    let primary = workload.flows[0].clone();
    let ends = workload.flows.iter().flat_map(Flow::written);
    let written: Vec<(FlowSide, Device)> =
        ends.map(|(host, is_from, memory)| (side_of(&primary, host, is_from), memory.device)).collect();
    let last = written.iter().map(|(_, device)| *device).max();
    for (side, now) in written {
        if Some(now) == last || now > device {
            set_device(workload, side, device_code(device));
        }
    }
}

/// Shares `total` QPs among the flows, the first ones taking what does not divide; `false` with too few.
pub(crate) fn set_total_qps(workload: &mut Workload, total: u64) -> bool {
    let flows = workload.flows.len() as u64;
    for (index, flow) in (0u64..).zip(&mut workload.flows) {
        flow.qps = (total / flows + u64::from(index < total % flows)) as u32;
    }
    total >= flows
}

/// Makes the elements of a request as even as they go, their number unchanged.
pub(crate) fn split_evenly(request: &mut Request, message: u64) {
    let count = request.sge.len() as u64;
    for (index, size) in (0u64..).zip(&mut request.sge) {
        *size = Bytes(message / count + u64::from(index < message % count));
    }
}

fn is_even(request: &Request) -> bool {
    let largest = request.sge.iter().max();
    let smallest = request.sge.iter().min();
    largest.zip(smallest).is_none_or(|(largest, smallest)| largest.0 - smallest.0 <= 1)
}

/// Gives a request another message size; of uneven elements the largest yields or takes first.
pub(crate) fn resize(request: &mut Request, message: u64) {
    let old = request.message().0;
    if message == old {
        return;
    }
    request.sge.truncate(message.max(1) as usize);
    let rest: u64 = old - request.sge.iter().map(|size| size.0).max().unwrap_or(0);
    let largest = (0..request.sge.len()).max_by_key(|index| request.sge[*index]);
    match largest {
        Some(largest) if !is_even(request) && message > rest && request.message().0 == old => {
            request.sge[largest] = Bytes(message - rest);
        }
        _ => split_evenly(request, message),
    }
}

/// Brings the longest lists to `count` elements, and all that are longer; messages stay as they are.
fn set_sge_count(flow: &mut Flow, count: usize) {
    let longest = flow.pattern.iter().map(|request| request.sge.len()).max().unwrap_or(0);
    for request in &mut flow.pattern {
        if request.sge.len() == longest || request.sge.len() > count {
            recut(request, count);
        }
    }
}

/// Cuts a message into `count` elements: even ones stay even, of others the smallest are cut or joined.
pub(crate) fn recut(request: &mut Request, count: usize) {
    let message = request.message().0;
    if is_even(request) {
        request.sge.resize(count, Bytes(0));
        return split_evenly(request, message);
    }
    let smallest = |sge: &[Bytes], least: u64| {
        (0..sge.len()).filter(|index| sge[*index].0 >= least).min_by_key(|index| sge[*index])
    };
    while request.sge.len() > count {
        let Some(first) = smallest(&request.sge, 0) else { break };
        let joined = request.sge.remove(first);
        let Some(second) = smallest(&request.sge, 0) else { break };
        request.sge[second].0 += joined.0;
    }
    while request.sge.len() < count {
        let Some(index) = smallest(&request.sge, 2) else { break };
        let half = request.sge[index].0 / 2;
        request.sge[index].0 -= half;
        request.sge.insert(index + 1, Bytes(half));
    }
}

/// Brings the largest message to `max`, and with it all that are larger.
pub(crate) fn set_message_max(workload: &mut Workload, max: u64) {
    let requests = || workload.flows.iter().flat_map(|flow| &flow.pattern);
    let old = requests().map(|request| request.message().0).max().unwrap_or(0);
    for request in workload.flows.iter_mut().flat_map(|flow| &mut flow.pattern) {
        let message = request.message().0;
        if message == old || message > max {
            resize(request, max);
        }
    }
}

/// Brings the smallest message to `min`, and with it all that are smaller.
pub(crate) fn set_message_min(workload: &mut Workload, min: u64) {
    let requests = || workload.flows.iter().flat_map(|flow| &flow.pattern);
    let old = requests().map(|request| request.message().0).min().unwrap_or(0);
    for request in workload.flows.iter_mut().flat_map(|flow| &mut flow.pattern) {
        let message = request.message().0;
        if message == old || message < min {
            resize(request, min);
        }
    }
}

/// Brings the smallest element to `min`; messages and their numbers of elements stay, the largest element of each
/// yields or takes. `false` where a message is too short for elements of this size.
pub(crate) fn set_sge_min(workload: &mut Workload, min: u64) -> bool {
    let requests = || workload.flows.iter().flat_map(|flow| &flow.pattern);
    let old = requests().flat_map(|request| &request.sge).map(|size| size.0).min().unwrap_or(0);
    let mut requests = workload.flows.iter_mut().flat_map(|flow| &mut flow.pattern);
    if min > old {
        return requests.all(|request| raise_elements(request, min));
    }
    requests.for_each(|request| lower_element(request, old, min));
    true
}

/// Brings every smaller element to `min`, at the cost of the largest.
fn raise_elements(request: &mut Request, min: u64) -> bool {
    if request.message().0 < min * request.sge.len() as u64 {
        return false;
    }
    let message = request.message().0;
    for size in &mut request.sge {
        size.0 = size.0.max(min);
    }
    while request.message().0 > message {
        let excess = request.message().0 - message;
        let Some(largest) = request.sge.iter_mut().max() else { return false };
        largest.0 -= excess.min(largest.0 - min);
    }
    true
}

/// Brings one element of `old` bytes to `min`, and gives the rest to the largest other one.
fn lower_element(request: &mut Request, old: u64, min: u64) {
    let Some(lowered) = request.sge.iter().position(|size| size.0 == old) else { return };
    let others = (0..request.sge.len()).filter(|index| *index != lowered);
    if let Some(largest) = others.max_by_key(|index| request.sge[*index]) {
        request.sge[lowered].0 = min;
        request.sge[largest].0 += old - min;
    }
}

/// Makes every request vector a mix, or none; `false` where the space has no room for one.
pub(crate) fn set_mix(domains: &Domains, workload: &mut Workload, on: bool) -> bool {
    workload.flows.iter_mut().all(|flow| {
        if flow.is_mixed() == on {
            return true;
        }
        if on {
            mix(domains, flow);
        } else {
            unmix(flow);
        }
        flow.is_mixed() == on
    })
}

fn unmix(flow: &mut Flow) {
    for request in &mut flow.pattern {
        let message = request.message().0;
        split_evenly(request, message);
    }
    if let Some(largest) =
        flow.pattern.iter().max_by_key(|request| request.message()).cloned().filter(|_| flow.is_mixed())
    {
        let message = largest.message().0;
        for request in &mut flow.pattern {
            request.sge.resize(largest.sge.len(), Bytes(0));
            split_evenly(request, message);
        }
    }
}

/// A long request and a short one; where the vector has no room for two, a long element and a short one.
fn mix(domains: &Domains, flow: &mut Flow) {
    let domain = |dimension| domains.domain(dimension);
    let sizes = domain(Dimension::Message);
    let room = domain(Dimension::Requests).ceil(2).map(|len| flow.pattern.len().max(len as usize));
    if let (Some(short), Some(long), Some(room)) = (sizes.floor(MIX_SHORT.0), sizes.ceil(MIX_LONG.0), room) {
        let first = flow.pattern[0].clone();
        flow.pattern.resize(room, first);
        let by_size = |index: &usize| flow.pattern[*index].message();
        let largest = (0..room).rev().max_by_key(by_size).unwrap_or(0);
        let smallest = (0..room).filter(|index| *index != largest).min_by_key(by_size).unwrap_or(0);
        let request = &mut flow.pattern[largest];
        if request.sge.iter().all(|size| *size < MIX_LONG) {
            // A long message of short elements is no mix: it grows, or where it cannot, has fewer elements.
            let wanted = request.message().0.max(MIX_LONG.0 * request.sge.len() as u64);
            if let Some(message) = sizes.ceil(wanted) {
                split_evenly(request, message);
            } else {
                request.sge.truncate(domain(Dimension::SgeCount).min() as usize);
                split_evenly(request, long);
            }
        }
        if flow.pattern[smallest].message().0 > short {
            resize(&mut flow.pattern[smallest], short);
        }
    } else if let Some(count) = domain(Dimension::SgeCount).ceil(2) {
        let request = &mut flow.pattern[0];
        let count = request.sge.len().max(count as usize);
        let shorts = (count as u64 - 1) * MIX_SHORT.0 / 8;
        let Some(message) = domain(Dimension::Message).ceil(request.message().0.max(MIX_LONG.0 + shorts)) else {
            return;
        };
        request.sge = vec![Bytes(MIX_SHORT.0 / 8); count];
        request.sge[0] = Bytes(message - shorts);
    }
}

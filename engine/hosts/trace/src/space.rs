//! The space of one application: for each dimension what was seen of it, from least to most.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

use kelpie_spaces::constraints::Footprint;
use kelpie_spaces::dimensions::TABLE;
use kelpie_spaces::{Bytes, Flow, Host, Space, SpaceError, Workload};

use crate::trace::TracedQp;

/// The space that holds the workload and whatever else its QPs did; `receivers` are those at the other end, as far as
/// known.
///
/// # Errors
/// If the bounds exclude each other, which says that the workload is none.
pub fn space(
    program: &str,
    workload: &Workload,
    qps: &[&TracedQp],
    receivers: &[&TracedQp],
) -> Result<Space, SpaceError> {
    let flows = &workload.flows;
    let primary = &flows[0];
    let ends =
        || flows.iter().flat_map(|flow| [(flow.from, true, &flow.memory.from), (flow.to, false, &flow.memory.to)]);
    // Each host keeps its memory in both directions, seen from the first flow.
    let devices = |of_requester: bool| {
        ends()
            .filter(|(host, is_from, _)| {
                let requester = if primary.is_loopback() { *is_from } else { *host == primary.from };
                requester == of_requester
            })
            .map(|(_, _, memory)| memory.device)
            .collect::<BTreeSet<_>>()
    };
    let requests = || flows.iter().flat_map(|flow| &flow.pattern);
    let footprints = Host::BOTH.map(|host| Footprint::of(workload, host));
    let most = |of: fn(&Footprint) -> u64| footprints.iter().map(of).max().unwrap_or(1).max(1);
    let sizes =
        qps.iter().flat_map(|qp| &qp.ops).filter(|count| count.op.is_some()).flat_map(|count| [count.min, count.max]);
    let messages = sizes.filter(|size| size.0 > 0).chain(requests().map(kelpie_spaces::Request::message));
    let batches = |mean: fn(&Flow) -> u32, most: Vec<u64>, depth: fn(&Flow) -> u32| {
        let deepest = flows.iter().map(depth).max().unwrap_or(1);
        let largest = most.into_iter().filter(|batch| *batch > 0).map(|batch| batch.min(deepest.into()));
        range(flows.iter().map(|flow| mean(flow).into()).chain(largest.collect::<Vec<u64>>()))
    };
    let mut yaml = String::from("kelpie: space/1\n");
    let mut line = |key: &str, values: String| {
        let _ = writeln!(yaml, "{key}: {values}");
    };
    line("memory_requester", set(devices(true)));
    line("memory_responder", set(devices(false)));
    line("mrs", range(ends().map(|(_, _, memory)| memory.mrs.into())));
    line("total_mrs", format!("{{min: 1, max: {}}}", most(|host| host.mrs)));
    line("mr_size", sizes_of(ends().map(|(_, _, memory)| memory.mr_size)));
    line("pinned_per_host", format!("{{max: {}}}", Bytes(most(|host| host.pinned))));
    line("qp_type", set(flows.iter().map(|flow| flow.qp_type)));
    line("opcode", set(requests().map(|request| request.op)));
    let mixes = flows.iter().map(|flow| flow.pattern.iter().any(|request| request.op != flow.pattern[0].op));
    line("mixed_opcodes", set(mixes));
    line("mtu", set(flows.iter().map(|flow| flow.mtu.bytes())));
    line("qps", range(flows.iter().map(|flow| flow.qps.into())));
    line("total_qps", format!("{{min: 1, max: {}}}", flows.iter().map(|flow| u64::from(flow.qps)).sum::<u64>()));
    line("send_wq_depth", range(flows.iter().map(|flow| flow.wq_depth.send.into())));
    line("recv_wq_depth", range(flows.iter().map(|flow| flow.wq_depth.recv.into())));
    line(
        "send_batch",
        batches(|flow| flow.batch.send, qps.iter().map(|qp| qp.batch_max).collect(), |flow| flow.wq_depth.send),
    );
    line(
        "recv_batch",
        batches(
            |flow| flow.batch.recv,
            receivers.iter().map(|qp| qp.recv_batch_max).collect(),
            |flow| flow.wq_depth.recv,
        ),
    );
    line("sge_count", range(requests().map(|request| request.sge.len() as u64)));
    line("requests", range(flows.iter().map(|flow| flow.pattern.len() as u64)));
    line("message", sizes_of(messages));
    line("bidirectional", set([workload.is_bidirectional()]));
    // A space knows loopback only beside traffic between the hosts.
    line("loopback", set([flows.iter().any(Flow::is_loopback) && !flows.iter().all(Flow::is_loopback)]));
    for (row, get) in TABLE.iter().filter_map(|row| row.optional().map(|(get, _)| (row, get))) {
        let values = || flows.iter().map(get);
        let word = |value: Option<u64>| row.dimension.word(value.unwrap_or(0));
        line(row.name, bounds(&word(values().min()), &word(values().max())));
    }
    Space::from_yaml(&format!("the space of {program}"), &yaml)
}

fn set<T: Display + Ord>(values: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = values.into_iter().collect::<BTreeSet<T>>().iter().map(T::to_string).collect();
    format!("[{}]", words.join(", "))
}

fn range(values: impl Iterator<Item = u64> + Clone) -> String {
    bounds(&values.clone().min().unwrap_or(1), &values.max().unwrap_or(1))
}

fn sizes_of(values: impl Iterator<Item = Bytes> + Clone) -> String {
    bounds(&values.clone().min().unwrap_or(Bytes(1)), &values.max().unwrap_or(Bytes(1)))
}

fn bounds<T: Display + PartialEq>(min: &T, max: &T) -> String {
    if min == max { format!("[{min}]") } else { format!("{{min: {min}, max: {max}}}") }
}

//! The level of formulas: each collective at the bus bandwidth of its slowest kind of link, nothing shared, no latency
//! but that of sending. Source: `SimAI`'s analytical mode, and its table of bus bandwidths.

use kelpie_collectives::group::GroupOp;
use kelpie_collectives::program::{GroupKind, Program, Step};
use kelpie_topology::{FabricGraph, FabricNode};

/// Bus bandwidth by rate of the link. Source: `SimAI` v1.6, `calbusbw`: A100 and H100 over `NVLink`, ConnectX-6 and -7.
/// Units: Gbit/s, GB/s.
const NVLINK: [(f64, f64); 2] = [(2400.0, 240.0), (2880.0, 370.8)];
const NICS: [(f64, f64); 2] = [(200.0, 23.5), (400.0, 48.5)];
/// An all-reduce by the switch of a host with H100. Source: the same.
const NVLS: (f64, f64) = (2880.0, 475.0);

/// What a table says of a rate, or the rate itself.
fn of_table(table: &[(f64, f64)], gbps: f64) -> f64 {
    table.iter().find(|(rate, _)| rate.to_bits() == gbps.to_bits()).map_or(gbps / 8.0, |(_, busbw)| *busbw)
}

/// Slowest link of each kind: `NVLink`, and NIC times its ports. Units: Gbit/s; none if there are none.
fn rates(graph: &FabricGraph) -> [Option<f64>; 2] {
    let ports = |gpu: u32| {
        let outside = |end: &u32| graph.nodes[*end as usize] != FabricNode::NvSwitch;
        graph.cables.iter().filter(|cable| cable.ends.contains(&gpu) && cable.ends.iter().all(outside)).count()
    };
    let of = |inside: bool| {
        let rates = graph.cables.iter().filter(|cable| {
            let kinds = cable.ends.map(|end| graph.nodes[end as usize]);
            kinds.contains(&FabricNode::Gpu) && kinds.contains(&FabricNode::NvSwitch) == inside
        });
        rates.map(|cable| cable.gbps).min_by(f64::total_cmp)
    };
    [of(true), of(false).map(|gbps| gbps * ports(0).max(1) as f64)]
}

/// How many times its size over its bus bandwidth a collective of so many takes. Source: NCCL tests, PERFORMANCE.md.
pub fn bus_factor(op: GroupOp, members: usize) -> f64 {
    let share = (members as f64 - 1.0) / members as f64;
    if op == GroupOp::AllReduce { 2.0 * share } else { share }
}

/// What a step of a program takes. Units: ns.
pub fn step_ns(graph: &FabricGraph, program: &Program, step: &Step, all: &[u32]) -> f64 {
    let [inside, outside] = rates(graph);
    let between = outside.map_or(f64::INFINITY, |gbps| of_table(&NICS, gbps));
    let within = inside.map_or(between, |gbps| of_table(&NVLINK, gbps));
    if let Some(micros) = step.compute_us {
        return micros * 1e3;
    }
    let send = program.send_us * 1e3;
    if let Some(bytes) = step.send {
        return send + bytes.0 as f64 / between;
    }
    let Some((op, bytes)) = step.group_op() else { return 0.0 };
    let groups = program.groups_of(step.group, all);
    let Some(group) = groups.first().filter(|group| group.len() > 1) else { return 0.0 };
    let host = |gpu: &u32| gpu / graph.gpus_per_host;
    let is_inside = group.iter().all(|gpu| host(gpu) == host(&group[0]));
    // GPUs of a group that share a host share its NICs' work: a ring leaves and enters a host by one NIC for each.
    let local = group.iter().filter(|gpu| host(gpu) == host(&group[0])).count() as f64;
    let busbw = match (is_inside, op) {
        (true, GroupOp::AllReduce) if group.len() >= 8 => inside.map_or(within, |gbps| of_table(&[NVLS], gbps)),
        (true, _) => within,
        // Parts for the own host do not cross NICs.
        (false, GroupOp::AllToAll) => between * (group.len() as f64 - 1.0) / (group.len() as f64 - local),
        (false, _) => within.min(between * local.min(f64::from(step.channels.unwrap_or(u16::MAX)))),
    };
    debug_assert!(step.group != GroupKind::All || groups.len() == 1);
    send + bytes.0 as f64 * bus_factor(op, group.len()) / busbw
}

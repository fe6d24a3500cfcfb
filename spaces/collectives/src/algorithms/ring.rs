//! Rings: each GPU sends a share to the next, as often as it takes until all shares have been everywhere.

use crate::dag::{DagBuilder, DagEvent, Wait, parts};
use crate::group::{Group, GroupOp};

/// Rounds of a ring of so many GPUs.
fn rounds(op: GroupOp, gpus: usize) -> usize {
    if op == GroupOp::AllReduce { 2 * (gpus - 1) } else { gpus - 1 }
}

/// A ring for each channel. The ring of channel c begins with the c-th GPU of each host.
pub(super) fn add(dag: &mut DagBuilder, group: &Group, op: GroupOp, bytes: u64, channels: u16) {
    let channels = channels.max(1);
    let mut last = Vec::new();
    for (channel, share) in (0..channels).zip(parts(bytes, u64::from(channels))) {
        let order: Vec<u32> = (group.hosts().iter())
            .flat_map(|host| {
                let turn = usize::from(channel) % host.len();
                host[turn..].iter().chain(&host[..turn]).copied()
            })
            .collect();
        last.extend(pass(dag, &order, channel, share, rounds(op, order.len()), Vec::new()));
    }
    for task in last {
        dag.ends(task);
    }
}

/// Rounds of a ring: in each, the GPU at a place sends a share to the next, after it got one. `begin` says what each
/// place waits for in the first round, if not the step's begin; gives the last transfer to each place's successor.
fn pass(
    dag: &mut DagBuilder,
    order: &[u32],
    channel: u16,
    bytes: u64,
    rounds: usize,
    begin: Vec<Vec<DagEvent>>,
) -> Vec<u32> {
    let places = order.len();
    let shares: Vec<u64> = parts(bytes, places as u64).collect();
    let mut got: Vec<Vec<DagEvent>> =
        if begin.is_empty() { order.iter().map(|gpu| dag.ready(*gpu)).collect() } else { begin };
    let mut last = Vec::new();
    for round in 0..rounds {
        last.clear();
        for place in 0..places {
            // In round r a place sends what r places before it began with.
            let share = shares[(place + places - round % places) % places];
            let pair = [order[place], order[(place + 1) % places]];
            last.push(dag.transfer(pair, channel, share, &got[place]));
        }
        for place in 0..places {
            got[(place + 1) % places] = vec![(last[place], Wait::Received)];
        }
    }
    last
}

/// Inside of each host a reduce-scatter, between the GPUs of one place of all hosts an all-reduce, inside an
/// all-gather.
pub(super) fn add_hierarchical(dag: &mut DagBuilder, group: &Group, bytes: u64) {
    let hosts = group.hosts();
    let local = hosts[0].len();
    if hosts.len() == 1 || local == 1 {
        return add(dag, group, GroupOp::AllReduce, bytes, 1);
    }
    let received = |tasks: &[u32], places: usize| -> Vec<Vec<DagEvent>> {
        // The last transfer of a place went to the next one.
        (0..places).map(|place| vec![(tasks[(place + places - 1) % places], Wait::Received)]).collect()
    };
    let mut inside: Vec<Vec<Vec<DagEvent>>> = Vec::new();
    for host in &hosts {
        let last = pass(dag, host, 0, bytes, local - 1, Vec::new());
        inside.push(received(&last, local));
    }
    let shares: Vec<u64> = parts(bytes, local as u64).collect();
    for place in 0..local {
        let rail: Vec<u32> = hosts.iter().map(|host| host[place]).collect();
        let begin = inside.iter().map(|host| host[place].clone()).collect();
        let last = pass(dag, &rail, 1, shares[place], 2 * (rail.len() - 1), begin);
        for (host, events) in received(&last, rail.len()).into_iter().enumerate() {
            inside[host][place] = events;
        }
    }
    for (host, begin) in hosts.iter().zip(inside) {
        let last = pass(dag, host, 2, bytes, local - 1, begin);
        for task in last {
            dag.ends(task);
        }
    }
}

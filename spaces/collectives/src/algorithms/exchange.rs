//! All to all: each GPU sends another part to each other one, all at once.

use crate::dag::{DagBuilder, Wait, parts};
use crate::group::Group;

/// Adds it. With PXN a part for another host goes to the GPU of the receiver's rail in the own host first, which sends
/// it on: so no part crosses rails in the network.
pub(super) fn add(dag: &mut DagBuilder, group: &Group, bytes: u64, with_pxn: bool) {
    let shares: Vec<u64> = parts(bytes, group.gpus.len() as u64).collect();
    for (place, from) in group.gpus.iter().enumerate() {
        let ready = dag.ready(*from);
        // Each begins with its successor, so that not all send to one at first.
        for step in 1..group.gpus.len() {
            let to_place = (place + step) % group.gpus.len();
            let (to, share) = (group.gpus[to_place], shares[to_place]);
            let host = from / group.gpus_per_host;
            let relay = host * group.gpus_per_host + to % group.gpus_per_host;
            let task = if with_pxn && to / group.gpus_per_host != host && relay != *from {
                let inside = dag.transfer([*from, relay], 1, share, &ready);
                dag.transfer([relay, to], 1, share, &[(inside, Wait::Received)])
            } else {
                dag.transfer([*from, to], 0, share, &ready)
            };
            dag.ends(task);
        }
    }
}

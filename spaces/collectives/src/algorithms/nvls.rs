//! NVLS: the switch that the GPUs of a host share adds up what they send, and sends the sum to all of them.

use crate::dag::{DagBuilder, DagEvent, Wait, parts};
use crate::group::Group;

/// Parts of a message, one after the other: while a part goes down, the next one goes up. Source: `SimAI`'s simulator.
pub(super) const CHUNKS: u64 = 4;

/// All GPUs of a host.
pub(super) fn add_in_host(dag: &mut DagBuilder, group: &Group, bytes: u64) {
    let switch = group.nvswitch(group.gpus[0]);
    let mut ready: Vec<Vec<DagEvent>> = group.gpus.iter().map(|gpu| dag.ready(*gpu)).collect();
    for chunk in parts(bytes, CHUNKS) {
        let up = send_up(dag, group.gpus.as_slice(), switch, chunk, &mut ready);
        for gpu in &group.gpus {
            let down = dag.transfer([switch, *gpu], 0, chunk, &up);
            dag.ends(down);
        }
    }
}

/// All GPUs send a part to the switch, each when its part before has left; gives what the switch waits for.
fn send_up(dag: &mut DagBuilder, gpus: &[u32], switch: u32, bytes: u64, ready: &mut [Vec<DagEvent>]) -> Vec<DagEvent> {
    let mut up = Vec::new();
    for (gpu, ready) in gpus.iter().zip(ready) {
        let task = dag.transfer([*gpu, switch], 0, bytes, ready);
        *ready = vec![(task, Wait::Sent)];
        up.push((task, Wait::Received));
    }
    up
}

/// Over hosts: the switch of each host adds up, each GPU takes a share, the GPUs of one place of all hosts reduce their
/// shares in a ring, and the switches spread them.
pub(super) fn add_over_hosts(dag: &mut DagBuilder, group: &Group, bytes: u64) {
    let hosts = group.hosts();
    let local = hosts[0].len();
    let mut ready: Vec<Vec<Vec<DagEvent>>> =
        hosts.iter().map(|host| host.iter().map(|gpu| dag.ready(*gpu)).collect()).collect();
    for chunk in parts(bytes, CHUNKS) {
        let shares: Vec<u64> = parts(chunk, local as u64).collect();
        let mut has: Vec<Vec<DagEvent>> = Vec::new();
        for (host, ready) in hosts.iter().zip(&mut ready) {
            let switch = group.nvswitch(host[0]);
            let up = send_up(dag, host, switch, chunk, ready);
            let take = host.iter().zip(&shares).map(|(gpu, share)| dag.transfer([switch, *gpu], 1, *share, &up));
            has.push(take.map(|task| (task, Wait::Received)).collect());
        }
        for (place, share) in shares.iter().enumerate() {
            let mut events: Vec<DagEvent> = has.iter().map(|host| host[place]).collect();
            let slices: Vec<u64> = parts(*share, hosts.len() as u64).collect();
            for round in 0..2 * (hosts.len() - 1) {
                let before = events.clone();
                for (from, event) in before.iter().enumerate() {
                    let to = (from + 1) % hosts.len();
                    let slice = slices[(from + hosts.len() - round % hosts.len()) % hosts.len()];
                    let task = dag.transfer([hosts[from][place], hosts[to][place]], 2, slice, &[*event]);
                    events[to] = (task, Wait::Received);
                }
            }
            for (host, event) in events.into_iter().enumerate() {
                has[host][place] = event;
            }
        }
        for (host, has) in hosts.iter().zip(&has) {
            let switch = group.nvswitch(host[0]);
            for ((gpu, share), event) in host.iter().zip(&shares).zip(has) {
                let up = dag.transfer([*gpu, switch], 3, *share, &[*event]);
                for other in *host {
                    let down = dag.transfer([switch, *other], 3, *share, &[(up, Wait::Received)]);
                    dag.ends(down);
                }
            }
        }
    }
}

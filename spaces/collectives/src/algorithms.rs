//! Collectives as transfers: which GPU sends what to which, and after what.
//!
//! Source of rings, trees and NVLS: NCCL 2.x as its documentation and `NCCL_ALGO` name them; of two trees: Sanders,
//! Speck and Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35 (2009).

mod exchange;
mod nvls;
mod ring;
mod tree;

use crate::dag::DagBuilder;
use crate::group::{Group, GroupAlgorithm, GroupError, GroupOp};

/// The algorithm that a table chooses, as NCCL's does: the switch inside of a host, trees where latency counts, rings
/// where bandwidth counts.
pub fn chosen(op: GroupOp, group: &Group, bytes: u64) -> GroupAlgorithm {
    /// Up to so many bytes for each GPU trees are faster than rings. Source: the crossing of the two in NCCL's cost
    /// model (`tuning.cc`) for hosts of eight GPUs at 400 Gbit/s, rounded to a power of two.
    const TREE_BYTES: u64 = 64 << 10;
    let hosts = group.hosts();
    match op {
        GroupOp::AllToAll => GroupAlgorithm::Direct,
        GroupOp::AllReduce if hosts.len() == 1 && hosts[0].len() >= 8 => GroupAlgorithm::Nvls,
        GroupOp::AllReduce if hosts.len() > 2 && bytes / group.gpus.len() as u64 <= TREE_BYTES => GroupAlgorithm::Tree,
        _ => GroupAlgorithm::Ring,
    }
}

/// At most so many transfers a collective has.
pub fn most_transfers(group: &Group, op: GroupOp, algorithm: GroupAlgorithm, channels: u16) -> u64 {
    let (gpus, hosts) = (group.gpus.len() as u64, group.hosts().len() as u64);
    let (local, between) = (gpus.div_ceil(hosts.max(1)), 2 * hosts.saturating_sub(1));
    let all_rounds = if op == GroupOp::AllReduce { 2 * gpus } else { gpus };
    match algorithm {
        GroupAlgorithm::Ring => u64::from(channels) * gpus * all_rounds,
        GroupAlgorithm::Tree => 2 * tree::MOST_CHUNKS * 2 * gpus,
        GroupAlgorithm::Nvls => nvls::CHUNKS * gpus * (3 + between + local),
        GroupAlgorithm::Hierarchical => gpus * (2 * local + between),
        GroupAlgorithm::Direct => gpus * gpus,
        GroupAlgorithm::Pxn => 2 * gpus * gpus,
    }
}

/// Adds a collective of a group to a graph, on so many channels.
///
/// # Errors
/// If the algorithm does not do it, or not on these hosts.
pub fn add(
    dag: &mut DagBuilder,
    group: &Group,
    op: GroupOp,
    algorithm: GroupAlgorithm,
    bytes: u64,
    channels: u16,
) -> Result<(), GroupError> {
    use GroupAlgorithm as A;
    if group.gpus.len() < 2 {
        return Ok(());
    }
    match (algorithm, op) {
        (A::Ring, GroupOp::AllReduce | GroupOp::AllGather | GroupOp::ReduceScatter) => {
            ring::add(dag, group, op, bytes, channels);
        }
        (A::Tree, GroupOp::AllReduce) => tree::add(dag, group, bytes),
        (A::Nvls, GroupOp::AllReduce) if group.hosts().len() == 1 => nvls::add_in_host(dag, group, bytes),
        (A::Nvls | A::Hierarchical, GroupOp::AllReduce) if !group.is_even() => return Err(GroupError::Uneven),
        (A::Nvls, GroupOp::AllReduce) => nvls::add_over_hosts(dag, group, bytes),
        (A::Hierarchical, GroupOp::AllReduce) => ring::add_hierarchical(dag, group, bytes),
        (A::Direct, GroupOp::AllToAll) => exchange::add(dag, group, bytes, false),
        (A::Pxn, GroupOp::AllToAll) => exchange::add(dag, group, bytes, true),
        _ => return Err(GroupError::Unfit),
    }
    Ok(())
}

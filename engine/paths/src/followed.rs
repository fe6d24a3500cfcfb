//! A request that was followed: the plan after all its steps.

use std::collections::BTreeMap;

use kelpie_topology::{Cluster, FabricLink, FabricPart, Working};

use crate::planner::{Planner, QpId};
use crate::request::{ConnectionEnd, PathsRequest, PlanStep};

/// A connection that is there.
#[derive(Debug)]
pub struct PlannedConnection {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub from: ConnectionEnd,
    /// Where it ends.
    pub to: ConnectionEnd,
    /// Its QPs.
    pub qps: Vec<QpId>,
}

/// What is there after the steps.
#[derive(Debug)]
pub struct PathsPlan {
    /// Who knows where QPs go.
    pub planner: Planner,
    /// What works.
    pub working: Working,
    /// Connections.
    pub connections: Vec<PlannedConnection>,
    /// QPs of before that a step moved, added up.
    pub moves: u64,
}

/// Follows the steps of a request; QPs of before may move if `moves`.
pub fn follow(cluster: &Cluster, request: &PathsRequest, moves: bool) -> PathsPlan {
    let working = Working::of(cluster);
    let planner = Planner::new(cluster, &working, moves);
    let mut plan = PathsPlan { planner, working, connections: Vec::new(), moves: 0 };
    for step in &request.steps {
        let mut gone = Vec::new();
        let mut set = |plan: &mut PathsPlan, part: FabricPart, works: bool| {
            plan.working.set(cluster, part, works);
            plan.planner.set(part, works, &mut gone);
        };
        match step {
            PlanStep::Connect { name, from, to, qps } => {
                let ends = [from, to].map(|end| cluster.nic(end.host, end.nic));
                let qps = plan.planner.request(ends[0], ends[1], *qps, &mut gone);
                plan.connections.push(PlannedConnection { name: name.clone(), from: *from, to: *to, qps });
            }
            PlanStep::Release { name } => {
                let place = plan.connections.iter().position(|one| one.name == *name);
                let ended = plan.connections.remove(place.expect("the reader checked that it is there"));
                ended.qps.into_iter().for_each(|id| plan.planner.release(id, &mut gone));
            }
            PlanStep::Fail(part) => set(&mut plan, *part, false),
            PlanStep::Repair(part) => set(&mut plan, *part, true),
        }
        gone.sort_unstable();
        gone.dedup();
        plan.moves += gone.len() as u64;
    }
    plan
}

impl PathsPlan {
    /// QPs on each link that has some, by its name.
    pub fn loads(&self, cluster: &Cluster) -> BTreeMap<String, u32> {
        let ends = |link: &FabricLink| !matches!(link, FabricLink::NicOut(_) | FabricLink::NicIn(_));
        let loaded = cluster.links().filter(ends).map(|link| (link, self.planner.load(link)));
        loaded.filter(|(_, load)| *load > 0).map(|(link, load)| (cluster.name(link), load)).collect()
    }
}

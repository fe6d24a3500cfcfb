//! The planner: QPs between NICs come and go, links fail and are repaired, and each QP has a path by C4P's rules.
//! Which source port leads there is in `ports`.
//!
//! Source: C4 (HPCA 2025), section III-B: faulty paths are excluded, left goes to left and right to right, the QPs of a
//! leaf are spread over its uplinks, the least loaded wins. That no two equal links ever differ by more than one QP is
//! ours: it takes moving QPs when others go.

use kelpie_topology::{Cluster, FabricLink, FabricPart, PortSide, Working};

use crate::level::Level;

/// A QP that was planned. Numbers of released QPs are given again.
pub type QpId = u32;

/// The path of a QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// The port by which it leaves and the one at which it arrives.
    pub side: PortSide,
    /// Plane to the spine and from it; none if both NICs are at one leaf.
    pub plane: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct PlannedQp {
    from: u32,
    to: u32,
    there: bool,
}

/// The plan of all QPs of a cluster.
#[derive(Debug)]
pub struct Planner {
    cluster: Cluster,
    working: Working,
    /// Ends are NICs, colors are sides.
    sides: Level,
    /// Ends are leaves, colors are planes.
    planes: Level,
    qps: Vec<PlannedQp>,
    free: Vec<QpId>,
    /// QPs that no path is left for.
    stranded: Vec<QpId>,
    /// QPs that cannot take one side, because no plane connects its leaves.
    one_sided: Vec<QpId>,
    moves: bool,
}

impl Planner {
    /// An empty plan on what works. Without `moves` a QP keeps its path until that fails.
    pub fn new(cluster: &Cluster, working: &Working, moves: bool) -> Self {
        let (nics, leaves) = (cluster.nics(), cluster.leaves);
        let mut planner = Self {
            cluster: cluster.clone(),
            working: Working::of(&Cluster { failed: Vec::new(), ..cluster.clone() }),
            sides: Level::new(nics, nics, cluster.ports_per_nic),
            planes: Level::new(leaves, leaves, cluster.planes()),
            qps: Vec::new(),
            free: Vec::new(),
            stranded: Vec::new(),
            one_sided: Vec::new(),
            moves,
        };
        for link in cluster.links().filter(|link| !working.has(cluster, *link)) {
            planner.allow(link, false);
        }
        planner.working = working.clone();
        planner
    }

    /// What it plans on.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Plans QPs from one NIC to another. The new ones come back, and QPs of before whose path changed are added to
    /// `moved`. A QP for which no path works is planned all the same, and gets one when there is one.
    ///
    /// # Panics
    /// If the cluster has no such NICs.
    pub fn request(&mut self, from: u32, to: u32, qps: u32, moved: &mut Vec<QpId>) -> Vec<QpId> {
        let nics = self.cluster.nics();
        assert!(from < nics && to < nics && from != to, "two different NICs of the cluster");
        let qp = PlannedQp { from, to, there: true };
        let mut new = Vec::with_capacity(qps as usize);
        for _ in 0..qps {
            let id = self.free.pop().unwrap_or(self.qps.len() as u32);
            match self.qps.get_mut(id as usize) {
                Some(free) => *free = qp,
                None => self.qps.push(qp),
            }
            self.place(id, moved);
            new.push(id);
        }
        moved.retain(|id| !new.contains(id));
        new
    }

    /// A QP is gone.
    pub fn release(&mut self, id: QpId, moved: &mut Vec<QpId>) {
        let Some(qp) = self.qps.get_mut(id as usize).filter(|qp| qp.there) else { return };
        qp.there = false;
        self.free.push(id);
        self.stranded.retain(|stranded| *stranded != id);
        self.one_sided.retain(|barred| *barred != id);
        self.leave_plane(id, moved);
        self.sides.unbar(id);
        if let Some(ends) = self.sides.remove(id) {
            self.settle_sides(&ends, moved);
        }
        moved.retain(|other| *other != id);
    }

    /// A part fails or is repaired; QPs whose path changed are added to `moved`.
    pub fn set(&mut self, part: FabricPart, works: bool, moved: &mut Vec<QpId>) {
        for link in self.cluster.links_of(part) {
            if self.working.has(&self.cluster, link) == works {
                continue;
            }
            let homeless = self.allow(link, works);
            for id in homeless {
                self.leave_plane(id, moved);
                let of_port = matches!(link, FabricLink::PortOut(..) | FabricLink::PortIn(..));
                let ends = if of_port { self.sides.remove(id) } else { None };
                self.place(id, moved);
                self.settle_sides(ends.as_ref().map_or(&[], |ends| ends), moved);
            }
        }
        self.working.set(&self.cluster, part, works);
        if works {
            for id in std::mem::take(&mut self.one_sided) {
                self.sides.unbar(id);
            }
            for id in std::mem::take(&mut self.stranded) {
                self.place(id, moved);
            }
        }
        self.settle_sides(&[], moved);
        self.settle_planes(&[], moved);
    }

    /// The path of a QP, if one works.
    pub fn route(&self, id: QpId) -> Option<Route> {
        let qp = self.qps.get(id as usize).filter(|qp| qp.there)?;
        let side = PortSide::BOTH[self.sides.color(id)? as usize];
        let plane = self.planes.color(id);
        let direct = self.cluster.leaf(qp.from, side) == self.cluster.leaf(qp.to, side);
        (direct || plane.is_some()).then_some(Route { side, plane })
    }

    /// QPs on a link; those of the NICs themselves are not counted.
    pub fn load(&self, link: FabricLink) -> u32 {
        match link {
            FabricLink::NicOut(_) | FabricLink::NicIn(_) => 0,
            FabricLink::PortOut(nic, side) => self.sides.count(nic, side.index() as u32),
            FabricLink::PortIn(nic, side) => self.sides.count(self.sides.receiver(nic), side.index() as u32),
            FabricLink::Up(leaf, plane) => self.planes.count(leaf, plane),
            FabricLink::Down(leaf, plane) => self.planes.count(self.planes.receiver(leaf), plane),
        }
    }

    fn allow(&mut self, link: FabricLink, works: bool) -> Vec<QpId> {
        match link {
            FabricLink::NicOut(_) | FabricLink::NicIn(_) => Vec::new(),
            FabricLink::PortOut(nic, side) => self.sides.allow(nic, side.index() as u32, works),
            FabricLink::PortIn(nic, side) => self.sides.allow(self.sides.receiver(nic), side.index() as u32, works),
            FabricLink::Up(leaf, plane) => self.planes.allow(leaf, plane, works),
            FabricLink::Down(leaf, plane) => self.planes.allow(self.planes.receiver(leaf), plane, works),
        }
    }

    /// Gives a QP what it has not: a side, a plane.
    fn place(&mut self, id: QpId, moved: &mut Vec<QpId>) {
        let qp = self.qps[id as usize];
        let begin = moved.len();
        if self.sides.color(id).is_none() {
            let ends = [qp.from, self.sides.receiver(qp.to)];
            // The NICs of a host begin on different sides, so that single QPs do not all meet on the left.
            if self.sides.add(id, ends, qp.from % self.cluster.ports_per_nic).is_none() {
                self.stranded.push(id);
                return;
            }
            self.settle_sides(&ends, moved);
        }
        if self.planes.color(id).is_none() {
            self.take_plane(id, moved);
        }
        if !moved[begin..].contains(&id) && self.qps[id as usize].there {
            moved.push(id);
        }
    }

    fn take_plane(&mut self, id: QpId, moved: &mut Vec<QpId>) {
        let Some(ends) = self.leaves(id) else { return };
        let planes = self.cluster.planes();
        // QPs of a pair begin side by side, so that they spread.
        let qp = self.qps[id as usize];
        let begin = (qp.from.wrapping_mul(7).wrapping_add(qp.to).wrapping_add(id)) % planes.max(1);
        if self.planes.add(id, ends, begin).is_none() {
            let qp = self.qps[id as usize];
            let side = self.sides.color(id).expect("it has leaves, so it has a side");
            self.sides.bar(id, side);
            self.one_sided.push(id);
            self.settle_sides(&[qp.from, self.sides.receiver(qp.to)], moved);
            self.place(id, moved);
            return;
        }
        self.settle_planes(&ends, moved);
    }

    /// The ends of a QP among leaves, if it goes over a spine.
    fn leaves(&self, id: QpId) -> Option<[u32; 2]> {
        let qp = self.qps[id as usize];
        let side = PortSide::BOTH[self.sides.color(id)? as usize];
        let [from, to] = [qp.from, qp.to].map(|nic| self.cluster.leaf(nic, side));
        (from != to).then(|| [from, self.planes.receiver(to)])
    }

    fn leave_plane(&mut self, id: QpId, moved: &mut Vec<QpId>) {
        if let Some(ends) = self.planes.remove(id) {
            self.settle_planes(&ends, moved);
        }
    }

    fn settle_planes(&mut self, ends: &[u32], moved: &mut Vec<QpId>) {
        if self.moves {
            self.planes.settle(ends, moved);
        }
    }

    /// Levels sides; a QP that changes its side changes its leaves too.
    fn settle_sides(&mut self, ends: &[u32], moved: &mut Vec<QpId>) {
        if !self.moves {
            return;
        }
        let mut crossed = Vec::new();
        self.sides.settle(ends, &mut crossed);
        crossed.sort_unstable();
        crossed.dedup();
        for id in crossed {
            self.leave_plane(id, moved);
            self.stranded.retain(|stranded| *stranded != id);
            self.take_plane(id, moved);
            moved.push(id);
        }
    }
}

//! The source port that leads a flow along a planned path, found by the switches' hash. For real switches, whose hash
//! is secret, a catalog of probed ports stands in its place.

use kelpie_spaces::flow_label::{FIRST_PORT, PORTS};
use kelpie_topology::{Cluster, FlowKey, PortSide, Working};

use crate::planner::Route;

/// Looks for source ports on one cluster.
#[derive(Debug)]
pub struct PortSearch<'c> {
    cluster: &'c Cluster,
    working: &'c Working,
}

/// Whether the NIC's port can be chosen by the device, or follows from the source port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// By the device (`mlx5dv_modify_qp_lag_port`).
    Chosen,
    /// By the bond's hash.
    Hashed,
}

impl<'c> PortSearch<'c> {
    /// On what works.
    pub fn new(cluster: &'c Cluster, working: &'c Working) -> Self {
        Self { cluster, working }
    }

    /// Ports for QPs of one pair of NICs, one for each path, no port twice. Where no port leads over exactly the
    /// planned cable from the spine, one to the right side is taken; none if there is not even that.
    pub fn ports(&self, from: u32, to: u32, routes: &[Route], leaving: Leaving) -> Vec<Option<u16>> {
        let mut found: Vec<Option<(u8, u16)>> = vec![None; routes.len()];
        let mut missing = routes.len();
        // Each pair begins elsewhere, so that not all flows of a fabric have the same few ports.
        let begin = (from.wrapping_mul(31).wrapping_add(to)).wrapping_mul(0x9e37) as u16;
        for step in 0..PORTS {
            if missing == 0 {
                break;
            }
            let source_port = FIRST_PORT + (begin.wrapping_add(step) & (PORTS - 1));
            let flow = FlowKey { from, to, source_port };
            let hashed = self.cluster.transmit(self.working, flow);
            let sides: &[PortSide] = self.cluster.sides();
            for out in sides.iter().filter(|out| leaving == Leaving::Chosen || hashed == Some(**out)) {
                let Some(way) = self.cluster.route(self.working, flow, *out) else { continue };
                let fits = |route: &Route| {
                    let right = way.out == route.side && way.arrives == route.side;
                    let up = way.planes.map(|planes| planes.0) == route.plane;
                    let down = way.planes.map(|planes| planes.1) == route.plane;
                    right.then(|| u8::from(up) + u8::from(up && down))
                };
                let better = |place: &usize| {
                    let now = found[*place].map(|(quality, _)| quality);
                    fits(&routes[*place]).filter(|quality| now.is_none_or(|now| *quality > now))
                };
                let best =
                    (0..routes.len()).filter_map(|place| Some((better(&place)?, place))).max_by_key(|best| best.0);
                if let Some((quality, place)) = best {
                    missing -= usize::from(quality == 2);
                    found[place] = Some((quality, source_port));
                    break;
                }
            }
        }
        found.into_iter().map(|port| port.map(|(_, port)| port)).collect()
    }
}

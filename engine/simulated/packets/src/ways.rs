//! The ways that QPs take, without a run.

use crate::error::RunError;
use crate::layout::Layout;
use crate::network::{Network, QpForm};
use crate::routes::Routes;
use crate::settings::Settings;

/// A link in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectedLink {
    /// Its number.
    pub link: u32,
    /// Which of its ends sends: 0 or 1.
    pub from: u8,
}

/// The links that data of each QP crosses when all links work, in order; none from a host to itself.
///
/// # Errors
/// If a link cannot be, or no links lead from a sender to its receiver.
pub fn ways(network: &Network, settings: &Settings, qps: &[QpForm]) -> Result<Vec<Vec<DirectedLink>>, RunError> {
    let layout = Layout::new(network, settings)?;
    let works = vec![true; network.links.len()];
    let mut routes = Routes::new(&layout, &works, settings.hash);
    let mut all = Vec::with_capacity(qps.len());
    for (number, qp) in qps.iter().enumerate() {
        let [there, _] = if qp.from == qp.to {
            [Vec::new(), Vec::new()]
        } else {
            routes.of_qp(qp).ok_or(RunError::NoWay { qp: number })?
        };
        let directed = |port: &u32| {
            let place = layout.ports[*port as usize];
            let from = u8::from(network.links[place.link as usize].ends[0] != place.node);
            DirectedLink { link: place.link, from }
        };
        all.push(there.iter().map(directed).collect());
    }
    Ok(all)
}

//! What is wrong with probed paths: those that lose packets, are slow or dead, with the port to blame if there is one.

use kelpie_spaces::Host;
use kelpie_topology::PortSide;
use kelpie_topology::ecmp::FAULTY_LOSS;

use crate::catalog::{CatalogDirection, SourcePortPath};

/// Lost packets below which nothing is concluded. Source: our choice, because one may have any reason.
const FEW: u64 = 3;
/// A port is to blame if its paths lose this many times what other paths lose. Source: our choice.
const TIMES: f64 = 3.0;
/// A pair of ports is slow below this share of the fastest of its direction. Source: our choice.
const SLOW: f64 = 0.6;

/// Says what is wrong with each path.
pub fn judge(directions: &mut [CatalogDirection]) {
    for direction in directions {
        let (from, to) = (direction.from, direction.from.peer());
        let ports = PortSide::BOTH.map(|side| lossy_port(&direction.paths, from, side, |path| path.leaves));
        let arriving = PortSide::BOTH.map(|side| lossy_port(&direction.paths, to, side, |path| path.arrives));
        let slow = slow_ways(direction);
        for path in &mut direction.paths {
            let of_port = |side: Option<PortSide>, ports: &[Option<String>; 2]| ports[side?.index()].clone();
            let of_way = || {
                let way = slow
                    .iter()
                    .find(|(leaves, arrives, _)| [path.leaves, path.arrives] == [Some(*leaves), Some(*arrives)]);
                way.map(|(.., fault)| fault.clone())
            };
            path.fault = dead(path)
                .or_else(|| of_port(path.arrives, &arriving))
                .or_else(|| of_port(path.leaves, &ports))
                .or_else(|| lossy(path))
                .or_else(of_way);
        }
    }
}

fn dead(path: &SourcePortPath) -> Option<String> {
    (path.sent > 0 && path.received == 0).then(|| format!("dead: none of {} packets arrived", path.sent))
}

fn share((sent, lost): (u64, u64)) -> f64 {
    if sent == 0 { 0.0 } else { lost as f64 / sent as f64 }
}

fn lossy(path: &SourcePortPath) -> Option<String> {
    let (sent, lost) = (path.sent, path.sent - path.received);
    let is_lossy = lost >= FEW && share((sent, lost)) >= FAULTY_LOSS;
    is_lossy.then(|| format!("loses {:.2} %: {lost} of {sent} packets", 100.0 * share((sent, lost))))
}

/// Whether all paths of a port lose packets, and others do not.
fn lossy_port(
    paths: &[SourcePortPath],
    host: Host,
    side: PortSide,
    of: fn(&SourcePortPath) -> Option<PortSide>,
) -> Option<String> {
    // Dead paths have their own fault, and say nothing of a share.
    let sums = |wanted: PortSide| {
        let own = paths.iter().filter(|path| of(path) == Some(wanted) && path.received > 0);
        own.fold((0, 0, 0, 0), |(count, hit, sent, lost), path| {
            let missing = path.sent - path.received;
            (count + 1, hit + u32::from(missing > 0), sent + path.sent, lost + missing)
        })
    };
    let (count, hit, sent, lost) = sums(side);
    let (.., others_sent, others_lost) = sums(side.other());
    let own = share((sent, lost));
    let is_to_blame =
        lost >= FEW && own >= FAULTY_LOSS && 2 * hit >= count && own >= TIMES * share((others_sent, others_lost));
    is_to_blame.then(|| {
        format!(
            "host {host}'s {} port loses {:.2} %: {lost} of {sent} packets on {count} paths",
            side.name(),
            100.0 * own
        )
    })
}

/// Whether a pair of ports is slow.
pub(crate) fn has_slow_way(direction: &CatalogDirection) -> bool {
    !slow_ways(direction).is_empty()
}

fn slow_ways(direction: &CatalogDirection) -> Vec<(PortSide, PortSide, String)> {
    let best = direction.ways.iter().map(|way| way.bps).fold(0.0, f64::max);
    let slow = direction.ways.iter().filter(|way| way.bps < SLOW * best);
    slow.map(|way| {
        let fault = format!(
            "slow: {} to {} moves {:.3e} bits/s, the fastest pair of ports {best:.3e}",
            way.leaves.name(),
            way.arrives.name(),
            way.bps
        );
        (way.leaves, way.arrives, fault)
    })
    .collect()
}

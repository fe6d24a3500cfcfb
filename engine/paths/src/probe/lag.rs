//! Probing LAG ports: by which port of the bond a QP leaves that is put on each, if the device deals QPs out.

use kelpie_spaces::Host;
use kelpie_topology::PortSide;

use super::{Ground, LEAST, PortTraffic, ProbePurpose, own, sides};
use crate::catalog::{CatalogDirection, LAG_PORTS, LONGEST_REASON, Lag, LagPort, QpPort};

/// Puts a QP on each LAG port of each host whose device deals QPs out, from its first source port of these, and watches
/// the ports. None of a host whose device does not.
///
/// # Errors
/// What the ground says.
pub fn lag_ports<G: Ground>(ground: &mut G, from: [&[u16]; 2]) -> Result<[Option<Lag>; 2], G::Error> {
    let mut found = Host::BOTH.map(|host| ground.deals(host).then(Lag::default));
    // Both at once, which their sizes tell apart; then one by one, if others' traffic was in the way.
    for turn in [&LAG_PORTS[..], &LAG_PORTS[..1], &LAG_PORTS[1..]] {
        let is_open = |lag: &Lag, port: u8| {
            let known = lag.ports.iter().find(|one| one.port == port);
            lag.refused.is_none() && known.is_none_or(|one| one.leaves.is_none())
        };
        let streams: Vec<PortTraffic> = (Host::BOTH.into_iter().zip(from).zip(&found))
            .filter_map(|((host, ports), lag)| Some((host, *ports.first()?, lag.as_ref()?)))
            .flat_map(|(from, source_port, lag)| {
                let open = turn.iter().filter(|port| is_open(lag, **port)).enumerate();
                let stream = |(nth, port): (usize, &u8)| PortTraffic {
                    from,
                    port: QpPort { source_port, lag_port: Some(*port) },
                    message: LEAST << nth,
                };
                open.map(stream).collect::<Vec<_>>()
            })
            .collect();
        if streams.is_empty() {
            continue;
        }
        let seen = ground.run(ProbePurpose::Ports, &streams)?;
        for (from, lag) in Host::BOTH.into_iter().zip(&mut found) {
            let Some(lag) = lag else { continue };
            let own = own(&streams, &seen, from);
            let [leaves, _] = sides(&own, &seen, from);
            for ((stream, flow), leaves) in own.into_iter().zip(leaves) {
                let Some(port) = stream.port.lag_port else { continue };
                match &flow.lag {
                    Some(Ok(active)) => take(lag, LagPort { port, active: *active, leaves }),
                    Some(Err(reason)) => lag.refused = Some(reason.chars().take(LONGEST_REASON).collect()),
                    None => lag.refused = Some("nothing was reported of its LAG ports".to_owned()),
                }
            }
            if lag.refused.is_some() {
                lag.ports.clear();
            }
        }
    }
    Ok(found)
}

fn take(lag: &mut Lag, found: LagPort) {
    lag.ports.retain(|one| one.port != found.port);
    lag.ports.push(found);
    lag.ports.sort_by_key(|one| one.port);
}

/// On which LAG ports paths are looked for, one after the other; on none that would lead to a side that another does.
pub fn turns(lag: Option<&Lag>) -> Vec<Option<u8>> {
    let mut taken: Vec<(u8, PortSide)> = Vec::new();
    for (port, side) in lag.into_iter().flat_map(Lag::known) {
        if taken.iter().all(|(_, other)| *other != side) {
            taken.push((port, side));
        }
    }
    if taken.is_empty() { vec![None] } else { taken.into_iter().map(|(port, _)| Some(port)).collect() }
}

/// Forgets by which ports QPs left that the device put there, because it puts the next one elsewhere; and of those that
/// were put on a LAG port, what contradicts what was seen of it.
pub fn keep_what_was_put(direction: &mut CatalogDirection) {
    for path in &mut direction.paths {
        let known = direction.lag.as_ref().map(|lag| lag.known().find(|(port, _)| Some(*port) == path.lag_port));
        let is_so = match known {
            None => path.lag_port.is_some(),
            Some(known) => known.map(|(_, side)| side) == path.leaves,
        };
        if !is_so {
            path.leaves = None;
        }
    }
}

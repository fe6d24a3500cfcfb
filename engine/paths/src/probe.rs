//! Probing: which traffic shows what source ports lead to, and what follows from it. Who moves the traffic is a
//! [`Ground`]; real hosts and a fake of tests are.
//!
//! Several source ports are probed at once: their messages differ in size, so that the counters of the ports say which
//! of them went where (`apart`). What cannot be told so is probed alone.
//!
//! Of a device that deals QPs out to the ports of its bond, a source port says only where it arrives. There QPs are put
//! on LAG ports (`lag`), and a path is a source port of a QP on that LAG port by which it goes straight, if there is
//! one.

use kelpie_spaces::Host;
use kelpie_topology::PortSide;

use crate::apart::{MovedAmount, tell_apart};
use crate::catalog::{CatalogDirection, PortPair, QpPort, SourcePortPath};
use crate::faults::{has_slow_way, judge};

mod lag;

pub use lag::lag_ports;

/// Source ports at once: each has messages twice as long as the one before. Source: our choice, 64 to 4,096 bytes.
const AT_ONCE: usize = 7;

/// Source ports of a host whose loss is measured at once. Source: a workload has at most 64 flows.
const COUNTED: usize = 32;
/// How often the throughput of pairs of ports is measured at most. Source: our choice; each time takes some seconds.
const FILLED: usize = 3;

/// Those whose latency is. Source: our choice, because a host keeps a histogram for each, of which a small one has room
/// for few.
const TIMED: usize = 8;

/// Least message of a probe. Units: bytes.
const LEAST: u64 = 64;

/// QPs that fill a pair of ports. Source: our choice.
const FILLING: usize = 4;

/// Latencies further apart than this are of two groups. Source: our choice, because queues of busy hosts differ by
/// less.
const GROUPS: f64 = 1.5;

/// What traffic is to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePurpose {
    /// Few packets, so that ports are told by their counters; unacknowledged, so that there are no others.
    Ports,
    /// Many small packets, unacknowledged, so that nothing sends the lost ones again.
    Loss,
    /// Small requests, a while apart, that are timed.
    Latency,
    /// As much as goes.
    Throughput,
}

/// Traffic of one source port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortTraffic {
    /// Who sends.
    pub from: Host,
    /// How its QP leaves.
    pub port: QpPort,
    /// Length of its messages. Units: bytes.
    pub message: u64,
}

/// What came of a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Flowed {
    /// Messages that were sent; of the purposes that count packets each is one.
    pub sent: u64,
    /// Those that arrived; of acknowledged ones not counted.
    pub received: u64,
    /// Goodput. Units: bits/s.
    pub bps: f64,
    /// Median time of a request. Units: microseconds.
    pub latency_us: Option<f64>,
    /// The LAG port by which the device says that the QP leaves, or why it could not be put on one; none if none was
    /// asked.
    pub lag: Option<Result<u8, String>>,
}

/// What came of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeResult {
    /// Of each stream.
    pub flows: Vec<Flowed>,
    /// What the ports of hosts a and b sent, left and right.
    pub sent: [[MovedAmount; 2]; 2],
    /// What they received.
    pub received: [[MovedAmount; 2]; 2],
}

/// What moves traffic.
pub trait Ground {
    /// Why it could not.
    type Error;

    /// Moves these streams at once.
    ///
    /// # Errors
    /// Whatever keeps it from that.
    fn run(&mut self, purpose: ProbePurpose, streams: &[PortTraffic]) -> Result<ProbeResult, Self::Error>;

    /// Longest message that is one packet. Units: bytes.
    fn mtu(&self) -> u64;

    /// Whether the host's device deals QPs out to the ports of its bond, whatever their source ports are.
    fn deals(&self, host: Host) -> bool;
}

/// What to find out beside the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Loss.
    pub loss: bool,
    /// Latency groups.
    pub latency: bool,
    /// The throughput of pairs of ports.
    pub throughput: bool,
}

/// Probes these source ports in both directions; `from` names those of each host, in order, none twice.
///
/// # Errors
/// What the ground says.
pub fn probe<G: Ground>(ground: &mut G, from: [&[u16]; 2], depth: Depth) -> Result<Vec<CatalogDirection>, G::Error> {
    let lag = lag_ports(ground, from)?;
    let mut directions = directions(from.map(|ports| ports.iter().map(|port| QpPort::hashed(*port))));
    for (direction, lag) in directions.iter_mut().zip(lag) {
        direction.lag = lag;
    }
    let turns = directions.each_ref().map(|direction| lag::turns(direction.lag.as_ref()));
    for turn in 0..turns.iter().map(Vec::len).max().unwrap_or(0) {
        let places = [0, 1].map(|host| {
            let Some(lag_port) = turns[host].get(turn) else { return Vec::new() };
            let paths = &mut directions[host].paths;
            let places = (0..paths.len()).filter(|place| !is_straight(&paths[*place])).collect::<Vec<_>>();
            for place in &places {
                let source_port = paths[*place].source_port;
                paths[*place] = SourcePortPath::unknown(QpPort { source_port, lag_port: *lag_port });
            }
            places
        });
        tell_all(ground, &mut directions, &places)?;
    }
    deepen(ground, directions, depth)
}

/// As [`probe`], of QPs that are on these LAG ports, or where the device put them.
///
/// # Errors
/// What the ground says.
pub fn look<G: Ground>(ground: &mut G, from: [&[QpPort]; 2], depth: Depth) -> Result<Vec<CatalogDirection>, G::Error> {
    let mut directions = directions(from.map(|paths| paths.iter().copied()));
    let places = from.map(|paths| (0..paths.len()).collect());
    tell_all(ground, &mut directions, &places)?;
    deepen(ground, directions, depth)
}

fn directions(from: [impl Iterator<Item = QpPort>; 2]) -> [CatalogDirection; 2] {
    let [a, b] = from.map(|paths| paths.map(SourcePortPath::unknown).collect());
    [(Host::A, a), (Host::B, b)].map(|(from, paths)| CatalogDirection { from, lag: None, paths, ways: Vec::new() })
}

fn is_straight(path: &SourcePortPath) -> bool {
    path.leaves.is_some() && path.leaves == path.arrives
}

/// Tells the ports of the paths at these places, of several at once, and then of those alone that could not be told so.
fn tell_all<G: Ground>(
    ground: &mut G,
    directions: &mut [CatalogDirection; 2],
    places: &[Vec<usize>; 2],
) -> Result<(), G::Error> {
    let mut again = [Vec::new(), Vec::new()];
    for first in (0..places.iter().map(Vec::len).max().unwrap_or(0)).step_by(AT_ONCE) {
        let part = |places: &Vec<usize>| places.iter().skip(first).take(AT_ONCE).copied().collect();
        let missed = tell(ground, directions, &places.each_ref().map(part))?;
        for (again, missed) in again.iter_mut().zip(missed) {
            again.extend(missed);
        }
    }
    for turn in 0..again.iter().map(Vec::len).max().unwrap_or(0) {
        let places = [0, 1].map(|host| again[host].get(turn).copied().into_iter().collect::<Vec<_>>());
        tell(ground, directions, &places)?;
    }
    Ok(())
}

fn deepen<G: Ground>(
    ground: &mut G,
    mut directions: [CatalogDirection; 2],
    depth: Depth,
) -> Result<Vec<CatalogDirection>, G::Error> {
    for direction in &mut directions {
        if ground.deals(direction.from) {
            lag::keep_what_was_put(direction);
        }
    }
    if depth.loss {
        lose(ground, &mut directions)?;
    }
    if depth.latency {
        time(ground, &mut directions)?;
    }
    if depth.throughput {
        fill(ground, &mut directions)?;
    }
    judge(&mut directions);
    Ok(directions.into())
}

fn stream(from: Host, path: &SourcePortPath, message: u64) -> PortTraffic {
    PortTraffic { from, port: path.port(), message }
}

/// Tells the ports of the paths at these places; which could not be told comes back.
fn tell<G: Ground>(
    ground: &mut G,
    directions: &mut [CatalogDirection; 2],
    places: &[Vec<usize>; 2],
) -> Result<[Vec<usize>; 2], G::Error> {
    let most = ground.mtu();
    let streams: Vec<PortTraffic> = (directions.iter().zip(places))
        .flat_map(|(direction, places)| {
            let path = |place: &usize| &direction.paths[*place];
            let places = places.iter().enumerate();
            places.map(move |(nth, place)| stream(direction.from, path(place), (LEAST << nth).min(most)))
        })
        .collect();
    let seen = ground.run(ProbePurpose::Ports, &streams)?;
    let mut missed = [Vec::new(), Vec::new()];
    for (direction, places) in directions.iter_mut().zip(places) {
        let host = direction.from.index();
        let own = own(&streams, &seen, direction.from);
        let [leaves, arrives] = sides(&own, &seen, direction.from);
        for (nth, place) in places.iter().enumerate() {
            let path = &mut direction.paths[*place];
            // A QP that is not where it was to be says nothing of it.
            let is_put = !matches!(own[nth].1.lag, Some(Err(_)));
            path.leaves = leaves[nth].filter(|_| is_put).or(path.leaves);
            path.arrives = arrives[nth].or(path.arrives);
            let is_dead = own[nth].1.sent > 0 && own[nth].1.received == 0;
            path.sent += own[nth].1.sent;
            path.received += own[nth].1.received.min(own[nth].1.sent);
            if path.leaves.is_none() || path.arrives.is_none() && !is_dead {
                missed[host].push(*place);
            }
        }
    }
    Ok(missed)
}

/// The streams from a host, with what came of each.
fn own<'s>(streams: &'s [PortTraffic], seen: &'s ProbeResult, from: Host) -> Vec<(&'s PortTraffic, &'s Flowed)> {
    streams.iter().zip(&seen.flows).filter(|(stream, _)| stream.from == from).collect()
}

/// By which ports the streams of a host left, and at which they arrived.
fn sides(own: &[(&PortTraffic, &Flowed)], seen: &ProbeResult, from: Host) -> [Vec<Option<PortSide>>; 2] {
    let amounts = |of: fn(&Flowed) -> u64| -> Vec<MovedAmount> {
        let amount = |(stream, flow): &(&PortTraffic, &Flowed)| MovedAmount {
            packets: of(flow),
            bytes: of(flow) * stream.message,
        };
        own.iter().map(amount).collect()
    };
    let leaves = tell_apart(&amounts(|flow| flow.sent), seen.sent[from.index()]);
    [leaves, tell_apart(&amounts(|flow| flow.received), seen.received[from.peer().index()])]
}

/// Runs all paths of both directions, so many at once, and takes what came of each.
fn run_all<G: Ground>(
    ground: &mut G,
    (purpose, message, together): (ProbePurpose, u64, usize),
    directions: &mut [CatalogDirection; 2],
    mut take: impl FnMut(&mut SourcePortPath, &Flowed),
) -> Result<(), G::Error> {
    let longest = directions.iter().map(|one| one.paths.len()).max().unwrap_or(0);
    for first in (0..longest).step_by(together) {
        let part = |one: &CatalogDirection| first.min(one.paths.len())..one.paths.len().min(first + together);
        let streams: Vec<PortTraffic> = (directions.iter())
            .flat_map(|one| one.paths[part(one)].iter().map(move |path| stream(one.from, path, message)))
            .collect();
        let seen = ground.run(purpose, &streams)?;
        let paths = directions.iter_mut().flat_map(|one| {
            let part = part(one);
            one.paths[part].iter_mut()
        });
        paths.zip(&seen.flows).for_each(|(path, flow)| take(path, flow));
    }
    Ok(())
}

fn lose<G: Ground>(ground: &mut G, directions: &mut [CatalogDirection; 2]) -> Result<(), G::Error> {
    run_all(ground, (ProbePurpose::Loss, 4 * LEAST, COUNTED), directions, |path, flow| {
        path.sent += flow.sent;
        path.received += flow.received.min(flow.sent);
    })
}

fn time<G: Ground>(ground: &mut G, directions: &mut [CatalogDirection; 2]) -> Result<(), G::Error> {
    run_all(ground, (ProbePurpose::Latency, LEAST, TIMED), directions, |path, flow| path.latency_us = flow.latency_us)?;
    for direction in directions {
        group(&mut direction.paths);
    }
    Ok(())
}

/// Numbers groups of latencies, the shortest first.
fn group(paths: &mut [SourcePortPath]) {
    let mut timed: Vec<(f64, &mut SourcePortPath)> =
        paths.iter_mut().filter_map(|path| Some((path.latency_us?, path))).collect();
    timed.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut number, mut last) = (0, None);
    for (latency, path) in timed {
        if last.is_some_and(|last| latency > GROUPS * last) {
            number += 1;
        }
        last = Some(latency);
        path.group = Some(number);
    }
}

/// Measures the throughput of every pair of ports; again if one is slow. Of each pair the fastest counts: what is slow
/// because a host stood still for a moment is faster the next time.
fn fill<G: Ground>(ground: &mut G, directions: &mut [CatalogDirection; 2]) -> Result<(), G::Error> {
    fill_once(ground, directions)?;
    for _ in 1..FILLED {
        if !directions.iter().any(has_slow_way) {
            break;
        }
        let before = directions.each_mut().map(|direction| std::mem::take(&mut direction.ways));
        fill_once(ground, directions)?;
        for (direction, before) in directions.iter_mut().zip(before) {
            for (way, before) in direction.ways.iter_mut().zip(before) {
                way.bps = way.bps.max(before.bps);
            }
        }
    }
    Ok(())
}

fn fill_once<G: Ground>(ground: &mut G, directions: &mut [CatalogDirection; 2]) -> Result<(), G::Error> {
    let ways = PortSide::BOTH.into_iter().flat_map(|leaves| PortSide::BOTH.map(|arrives| (leaves, arrives)));
    for (leaves, arrives) in ways {
        let takes = |path: &&SourcePortPath| path.leaves == Some(leaves) && path.arrives == Some(arrives);
        let streams: Vec<PortTraffic> = (directions.iter())
            .flat_map(|one| {
                let paths = one.paths.iter().filter(takes).take(FILLING);
                paths.map(|path| stream(one.from, path, 4 * ground.mtu()))
            })
            .collect();
        if streams.is_empty() {
            continue;
        }
        let seen = ground.run(ProbePurpose::Throughput, &streams)?;
        for direction in directions.iter_mut() {
            let own = streams.iter().zip(&seen.flows).filter(|(stream, _)| stream.from == direction.from);
            let rates: Vec<f64> = own.map(|(_, flow)| flow.bps).collect();
            if !rates.is_empty() {
                direction.ways.push(PortPair { leaves, arrives, bps: rates.iter().sum() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

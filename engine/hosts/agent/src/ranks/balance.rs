//! Dynamic balance of a ring at work: its QPs are late where a port is slow, and move to the other port. Which move
//! helps is decided in [`kelpie_paths::balance`]; here is what is known of ranks, and what they are asked.
//!
//! Source: C4 (HPCA 2025), section III-B: the planner moves QPs by the completion times of their messages.

use kelpie_engine::plan::{GroupId, Role};
use kelpie_engine::rank::RankReading;
use kelpie_engine::verbs_host::GroupPorts;
use kelpie_paths::balance::{Balance, BalancedQp};
use kelpie_paths::catalog::{Catalog, QpPort};
use kelpie_spaces::Host;
use kelpie_topology::PortSide;

/// Iterations that are averaged for the time at the end. Source: our choice.
const AVERAGED: usize = 5;

/// A rank whose messages cross between the two hosts of a catalog. Each rank is balanced by itself: how long its
/// neighbour's acknowledgements take says nothing of others.
#[derive(Debug)]
struct BalancedRank {
    rank: usize,
    from: Host,
    sides: Vec<PortSide>,
    ports: Vec<QpPort>,
    /// How often its QPs were given other ports.
    asked: u32,
    balance: Option<Balance>,
    /// What the slowest port took for its share of a message, by iteration that counted. Units: microseconds.
    slowest_us: Vec<f64>,
    /// How many of these were before the first move.
    before: usize,
    moves: usize,
}

/// The balance of a ring between the two hosts of a catalog.
#[derive(Debug)]
pub struct RingBalance {
    /// Source ports by host and side.
    paths: [[Vec<QpPort>; 2]; 2],
    ranks: Vec<BalancedRank>,
    qps: usize,
}

/// Ports that a rank is to take, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankMove {
    /// Which rank.
    pub rank: usize,
    /// Ports of all its QPs.
    pub groups: Vec<GroupPorts>,
    /// For people.
    pub why: String,
}

impl RingBalance {
    /// Over so many QPs of each rank, whose addresses are those of the catalog.
    ///
    /// # Errors
    /// Why there is nothing to balance: an address that the catalog has not, or a side without a sound path.
    pub fn new(catalog: &Catalog, gids: &[[u8; 16]], qps: u32) -> Result<Self, String> {
        let host = |gid: &[u8; 16]| {
            let text = gid_text(gid);
            let end = catalog.ends.iter().find(|end| end.gid == text);
            end.map(|end| end.host).ok_or_else(|| format!("the catalog has no address {text}; probe its hosts"))
        };
        let hosts = gids.iter().map(host).collect::<Result<Vec<Host>, String>>()?;
        let paths = [Host::A, Host::B].map(|from| {
            PortSide::BOTH.map(|side| catalog.sound(from, side).iter().map(|path| path.port()).collect::<Vec<_>>())
        });
        let mut balance = Self { paths, ranks: Vec::new(), qps: qps as usize };
        for (rank, from) in hosts.iter().copied().enumerate() {
            if hosts[(rank + 1) % hosts.len()] == from {
                continue;
            }
            let mut balanced = BalancedRank::new(rank, from);
            for nth in 0..balance.qps {
                let side = PortSide::BOTH[nth % 2];
                let Some(port) = balance.unused(from, side, &balanced.ports) else {
                    return Err(format!("the catalog has no sound path from host {from} by its {} port", side.name()));
                };
                balanced.sides.push(side);
                balanced.ports.push(port);
            }
            balance.ranks.push(balanced);
        }
        if balance.ranks.is_empty() {
            return Err("no rank sends to the other host of the catalog".to_owned());
        }
        Ok(balance)
    }

    /// A path to this side that as few of these have as possible.
    fn unused(&self, from: Host, side: PortSide, used: &[QpPort]) -> Option<QpPort> {
        let paths = &self.paths[usize::from(from == Host::B)][side.index()];
        paths.iter().copied().min_by_key(|path| used.iter().filter(|port| *port == path).count())
    }

    /// Ports to begin with, by rank: half and half.
    pub fn first(&self) -> impl Iterator<Item = (usize, Vec<GroupPorts>)> + '_ {
        self.ranks.iter().map(|rank| (rank.rank, rank.groups()))
    }

    /// Takes what a rank has told; ports that it is to take now, if it is to move.
    pub fn hear(&mut self, rank: usize, reading: &RankReading) -> Option<RankMove> {
        let place = self.ranks.iter().position(|balanced| balanced.rank == rank)?;
        let mut whys: Vec<String> = Vec::new();
        for times in reading.qps.iter().filter(|times| times.us.len() == self.qps) {
            // Times of before a move say nothing of where its QP is now.
            if times.sets < self.ranks[place].asked {
                continue;
            }
            let (by_port, moves) = self.ranks[place].observe(&times.us);
            for (nth, plane) in moves {
                let (side, from) = (PortSide::BOTH[plane as usize % 2], self.ranks[place].from);
                let Some(port) = self.unused(from, side, &self.ranks[place].ports) else { continue };
                let rank = &mut self.ranks[place];
                whys.push(format!(
                    "QP {nth} moves from the {} port, which takes {:.1} ms for its share of a message, to the {} port",
                    rank.sides[nth].name(),
                    by_port[nth] / 1e3,
                    side.name()
                ));
                (rank.sides[nth], rank.ports[nth]) = (side, port);
                rank.moves += 1;
            }
            if !whys.is_empty() {
                break;
            }
        }
        let rank = &mut self.ranks[place];
        (!whys.is_empty()).then(|| {
            rank.asked += 1;
            RankMove { rank: rank.rank, groups: rank.groups(), why: whys.join("; ") }
        })
    }

    /// What came of it, for people: a line for each rank.
    pub fn summary(&self) -> Vec<String> {
        self.ranks.iter().map(BalancedRank::summary).collect()
    }
}

impl BalancedRank {
    fn new(rank: usize, from: Host) -> Self {
        let (sides, ports, slowest_us) = (Vec::new(), Vec::new(), Vec::new());
        Self { rank, from, sides, ports, asked: 0, balance: None, slowest_us, before: 0, moves: 0 }
    }

    /// What the port of each QP takes for its share of a message, and the QPs that move with where they move.
    fn observe(&mut self, us: &[f64]) -> (Vec<f64>, Vec<(usize, u32)>) {
        let by_port = self.by_port(us);
        self.slowest_us.push(by_port.iter().copied().fold(0.0, f64::max));
        if self.balance.is_none() {
            self.balance = Some(self.begun(&by_port));
        }
        let moves = self.balance.as_mut().map(|balance| balance.observe(&by_port)).unwrap_or_default();
        if self.moves == 0 {
            self.before = self.slowest_us.len();
        }
        (by_port, moves)
    }

    /// Parts that a port sends one after the other end one after the other: what counts is the last.
    fn by_port(&self, us: &[f64]) -> Vec<f64> {
        let slowest = PortSide::BOTH.map(|side| {
            let of_side = self.sides.iter().zip(us).filter(|(own, _)| **own == side);
            of_side.map(|(_, us)| *us).fold(0.0, f64::max)
        });
        self.sides.iter().map(|side| slowest[side.index()]).collect()
    }

    /// A balance that knows how long a part takes alone: the time of a port, shared by those on it.
    fn begun(&self, by_port: &[f64]) -> Balance {
        let qp = |side: &PortSide| BalancedQp { from_leaf: 0, to_leaf: 1, plane: side.index() as u32 };
        let members: Vec<BalancedQp> = self.sides.iter().map(qp).collect();
        let alone = |(qp, time): (&BalancedQp, &f64)| time / members.iter().filter(|other| *other == qp).count() as f64;
        let mut alone: Vec<f64> = members.iter().zip(by_port).map(alone).collect();
        alone.sort_by(f64::total_cmp);
        let unit = alone.get(alone.len() / 2).copied().unwrap_or_default();
        Balance::new(members, 2, unit, self.rank as u64)
    }

    fn groups(&self) -> Vec<GroupPorts> {
        let id = GroupId { flow: 0, role: Role::Requester };
        let ports = self.ports.iter().map(|port| port.source_port).collect();
        vec![GroupPorts { id, ports, lag_ports: self.ports.iter().filter_map(|port| port.lag_port).collect() }]
    }

    fn summary(&self) -> String {
        let mean = |us: &[f64]| us.iter().sum::<f64>() / us.len().max(1) as f64 / 1e3;
        let rank = self.rank;
        let Some(end) = self.slowest_us.len().checked_sub(AVERAGED) else {
            return format!("rank {rank}: too few iterations to balance anything");
        };
        let last = mean(&self.slowest_us[end..]);
        if self.moves == 0 {
            return format!("rank {rank}: no QP moved; the slower port takes {last:.1} ms for its share of a message");
        }
        let first = mean(&self.slowest_us[..self.before]);
        let left = self.sides.iter().filter(|side| **side == PortSide::Left).count();
        format!(
            "rank {rank}: the slower port took {first:.1} ms for its share of a message before the first of {} moves, and \
             takes {last:.1} ms now, with {left} QPs on the left and {} on the right",
            self.moves,
            self.sides.len() - left
        )
    }
}

/// As the kernel writes GIDs in sysfs.
fn gid_text(gid: &[u8; 16]) -> String {
    let groups = gid.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
    groups.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use kelpie_engine::rank::QpTimes;
    use kelpie_paths::catalog::{CatalogDirection, CatalogEnd, SourcePortPath};

    use super::*;

    const QPS: usize = 8;

    fn gid(host: Host) -> [u8; 16] {
        let mut gid = [0; 16];
        gid[15] = 1 + u8::from(host == Host::B);
        gid
    }

    /// Even source ports go left.
    fn side_of(source_port: u16) -> PortSide {
        PortSide::BOTH[usize::from(source_port % 2)]
    }

    fn catalog() -> Catalog {
        let path = |source_port| {
            let side = Some(side_of(source_port));
            SourcePortPath { leaves: side, arrives: side, ..SourcePortPath::unknown(QpPort::hashed(source_port)) }
        };
        let end = |host| CatalogEnd {
            host,
            device: "rxe0".to_owned(),
            gid: gid_text(&gid(host)),
            mode: String::new(),
            policy: String::new(),
            selection: String::new(),
            ports: Vec::new(),
            down: Vec::new(),
        };
        let direction =
            |from| CatalogDirection { from, lag: None, paths: (50_000..50_020).map(path).collect(), ways: Vec::new() };
        Catalog {
            subsystem: "lab".to_owned(),
            measured: String::new(),
            measured_unix_s: 0,
            ends: [Host::A, Host::B].map(end).into(),
            directions: [Host::A, Host::B].map(direction).into(),
        }
    }

    /// Two ranks whose parts take as long as others that leave by the same port, and by the slow one of host a longer.
    fn run(iterations: u32, slow: f64) -> (RingBalance, Vec<Vec<u16>>) {
        let mut balance = RingBalance::new(&catalog(), &[gid(Host::A), gid(Host::B)], QPS as u32).expect("two hosts");
        let mut ports: Vec<Vec<u16>> = balance.first().map(|(_, groups)| groups[0].ports.clone()).collect();
        let mut sets = [0; 2];
        for iteration in 0..iterations {
            let mut moved = Vec::new();
            for rank in 0..2 {
                let time = |port: &u16| {
                    let on_port = ports[rank].iter().filter(|other| side_of(**other) == side_of(*port)).count();
                    let is_slow = rank == 0 && side_of(*port) == PortSide::Left;
                    on_port as f64 * 1e3 * if is_slow { slow } else { 1.0 }
                };
                let us = ports[rank].iter().map(time).collect();
                let times = QpTimes { iteration, sets: sets[rank], us };
                moved.extend(balance.hear(rank, &RankReading { qps: vec![times], ..RankReading::default() }));
            }
            for one in moved {
                // The iteration that it is in the middle of is told with the ports of before.
                ports[one.rank].clone_from(&one.groups[0].ports);
                sets[one.rank] += 1;
            }
        }
        (balance, ports)
    }

    #[test]
    fn qps_leave_a_slow_port_until_both_take_as_long_and_stay_where_both_are_equal() {
        let left = |ports: &[u16]| ports.iter().filter(|port| side_of(**port) == PortSide::Left).count();
        let (balance, ports) = run(60, 3.0);
        assert_eq!([left(&ports[0]), left(&ports[1])], [2, 4], "six thousand microseconds on both");
        let summary = balance.summary();
        let expected = "rank 0: the slower port took 12.0 ms for its share of a message before the first of 2 moves, and \
                        takes 6.0 ms now, with 2 QPs on the left and 6 on the right";
        assert_eq!(summary[0], expected);
        assert_eq!(summary[1], "rank 1: no QP moved; the slower port takes 4.0 ms for its share of a message");
        for ports in &ports {
            let distinct: std::collections::BTreeSet<&u16> = ports.iter().collect();
            assert_eq!(distinct.len(), QPS, "each QP has a source port of its own");
        }
        let (balance, ports) = run(60, 1.0);
        assert_eq!([left(&ports[0]), left(&ports[1]), balance.ranks[0].moves], [4, 4, 0]);
    }

    #[test]
    fn times_of_before_a_move_move_nothing() {
        let mut balance = RingBalance::new(&catalog(), &[gid(Host::A), gid(Host::B)], QPS as u32).expect("two hosts");
        let slow: Vec<f64> = (0..QPS).map(|nth| if nth % 2 == 0 { 12e3 } else { 4e3 }).collect();
        let mut moves = 0;
        for iteration in 0..40 {
            for rank in 0..2 {
                let us = if rank == 0 { slow.clone() } else { vec![4e3; QPS] };
                let times = QpTimes { iteration, sets: 0, us };
                moves += usize::from(
                    balance.hear(rank, &RankReading { qps: vec![times], ..RankReading::default() }).is_some(),
                );
            }
        }
        assert_eq!(moves, 1, "until the rank says that its ports were set");
    }

    #[test]
    fn what_cannot_be_balanced_is_refused_with_the_reason() {
        let error = |catalog: &Catalog, gids: &[[u8; 16]]| RingBalance::new(catalog, gids, 2).expect_err("refused");
        let both = [gid(Host::A), gid(Host::B)];
        assert!(error(&catalog(), &[gid(Host::A); 2]).starts_with("no rank sends to the other host"));
        assert!(error(&catalog(), &[both[0], [9; 16]]).ends_with("0909:0909:0909:0909; probe its hosts"));
        let mut lame = catalog();
        for path in &mut lame.directions[1].paths {
            path.fault = (side_of(path.source_port) == PortSide::Right).then(|| "dead".to_owned());
        }
        assert_eq!(error(&lame, &both), "the catalog has no sound path from host b by its right port");
    }
}

//! Dynamic balance: QPs whose messages complete late move to another plane, as long as that is expected to help. It
//! sees completion times and its own QPs; neither what failed nor what other planners do.
//!
//! Source: C4 (HPCA 2025), section III-B, which names the signals and no thresholds; those here are our choice, each
//! with its reason. A move that is expected to help everybody's slowest QP is a better response in a congestion game,
//! whose sequences end (Rosenthal, Int. J. Game Theory 2, 1973); what is left to do is to keep moves from crossing.

use std::collections::{BTreeMap, BTreeSet};

/// A QP moves if at least this share of the QPs on one of its cables is late. Source: our choice: one that is late
/// alone meets others at a port, and no other plane helps it; those others are late on a cable of their own.
const SUSPECT: f64 = 0.25;
/// Slower than the median by this is worth a move. Source: our choice: one flow more among ten takes a tenth longer,
/// and measurements differ by less.
const LATE: f64 = 1.05;
/// Expected time after a move, at most, as a share of the present one. Source: our choice, the noise of an average
/// of `MEMORY` measurements that are off by 1 %.
const WORTH: f64 = 0.99;
/// What that share loses with each iteration since the first move, so that moves end. Source: our choice: after 90
/// iterations a move has to save a fifth.
const TIRES: f64 = 0.002;
/// Iterations without a move after which moves are cheap again. Source: our choice.
const RESTED: u64 = 300;
/// Iterations that a completion time is averaged over, and that everything near a move then waits. Source: our choice.
const WINDOW: u32 = 2;
/// Iterations that a QP that stays is averaged over. Source: our choice, so that noise of 1 % stays below `WORTH`.
const MEMORY: u32 = 10;
/// A plane on which a QP is later than expected by this is avoided by this planner, as one with a fault that was not
/// announced. Source: our choice: more than two flows more than expected among ten.
const DISAPPOINTED: f64 = 1.25;
/// Planes that a QP tries before it stays where it is. Source: our choice, which bounds how often a QP is disturbed.
const TRIES: u8 = 6;

/// A QP as its planner knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalancedQp {
    /// Leaf that it leaves by.
    pub from_leaf: u32,
    /// Leaf that it arrives by.
    pub to_leaf: u32,
    /// The plane that its source port stands for.
    pub plane: u32,
}

/// The balance of one planner's QPs.
#[derive(Debug)]
pub struct Balance {
    members: Vec<BalancedQp>,
    state: Vec<CableState>,
    planes: u32,
    /// Time that one more flow on a cable adds to a message. Units: those of the readings.
    unit: f64,
    seed: u64,
    iteration: u64,
    /// Iterations of the first and the last move since the last rest.
    first_move: u64,
    last_move: u64,
    avoided: BTreeSet<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct CableState {
    mean: f64,
    readings: u32,
    waits: u32,
    tries: u8,
    expected: Option<f64>,
}

/// A cable, by its leaf and plane: up or down.
type Cable = (bool, u32, u32);

impl BalancedQp {
    fn cables(&self) -> [Cable; 2] {
        [(false, self.from_leaf, self.plane), (true, self.to_leaf, self.plane)]
    }
}

impl Balance {
    /// Watches QPs over so many planes; `unit` is the time of a message alone on a cable. Planners have different
    /// seeds, so that they seldom move at once.
    pub fn new(members: Vec<BalancedQp>, planes: u32, unit: f64, seed: u64) -> Self {
        let state = vec![CableState::default(); members.len()];
        Self { members, state, planes, unit, seed, iteration: 0, first_move: 0, last_move: 0, avoided: BTreeSet::new() }
    }

    /// Takes the completion time of each QP in this iteration and says which QPs go to which plane.
    pub fn observe(&mut self, times: &[f64]) -> Vec<(usize, u32)> {
        self.iteration += 1;
        for (state, time) in self.state.iter_mut().zip(times) {
            state.readings = (state.readings + 1).min(MEMORY);
            state.mean += (time - state.mean) / f64::from(state.readings);
            state.waits = state.waits.saturating_sub(1);
        }
        self.learn();
        let mut sorted: Vec<f64> = self.state.iter().map(|state| state.mean).collect();
        sorted.sort_by(f64::total_cmp);
        // The lower one of two: of two ports one may be slow, with half of the QPs.
        let Some(median) = sorted.get(sorted.len().saturating_sub(1) / 2).copied() else { return Vec::new() };
        let mut late: Vec<usize> = (0..self.members.len()).filter(|qp| self.may_move(*qp, median)).collect();
        let shares = self.late_shares(median);
        late.retain(|qp| shares[*qp] >= SUSPECT);
        late.sort_by(|a, b| {
            let worse = shares[*b].total_cmp(&shares[*a]);
            worse.then(self.state[*b].mean.total_cmp(&self.state[*a].mean)).then(a.cmp(b))
        });
        let mut moves = Vec::new();
        let mut busy: Vec<(bool, u32)> = Vec::new();
        for qp in late {
            let BalancedQp { from_leaf, to_leaf, .. } = self.members[qp];
            // One move per leaf at a time: two could have the same reason.
            if busy.contains(&(false, from_leaf)) || busy.contains(&(true, to_leaf)) || !self.tosses(qp) {
                continue;
            }
            if let Some((plane, expected)) = self.better(qp) {
                busy.extend([(false, from_leaf), (true, to_leaf)]);
                moves.push((qp, plane, expected));
            }
        }
        if !moves.is_empty() {
            if self.first_move == 0 || self.iteration - self.last_move > RESTED {
                self.first_move = self.iteration;
            }
            self.last_move = self.iteration;
        }
        for (qp, plane, expected) in &moves {
            let before = self.members[*qp].plane;
            self.members[*qp].plane = *plane;
            self.state[*qp].tries += 1;
            self.state[*qp].expected = Some(*expected);
            self.quieten(*qp, before, *plane);
        }
        moves.into_iter().map(|(qp, plane, _)| (qp, plane)).collect()
    }

    /// What came of moves.
    fn learn(&mut self) {
        for qp in 0..self.members.len() {
            let state = &mut self.state[qp];
            if state.readings < WINDOW || state.waits > 0 {
                continue;
            }
            if let Some(expected) = state.expected.take()
                && state.mean > expected * DISAPPOINTED
            {
                let BalancedQp { from_leaf, to_leaf, plane } = self.members[qp];
                self.avoided.insert((from_leaf, plane));
                self.avoided.insert((to_leaf, plane));
            }
        }
    }

    /// For each QP, which share of the QPs on its cables is late; of its two cables the worse one.
    fn late_shares(&self, median: f64) -> Vec<f64> {
        let mut cables: BTreeMap<Cable, (u32, u32)> = BTreeMap::new();
        for (member, state) in self.members.iter().zip(&self.state) {
            for cable in member.cables() {
                let (late, all) = cables.entry(cable).or_default();
                *late += u32::from(state.mean > median * LATE);
                *all += 1;
            }
        }
        let share = |cable: Cable| f64::from(cables[&cable].0) / f64::from(cables[&cable].1);
        self.members.iter().map(|member| member.cables().map(share).into_iter().fold(0.0, f64::max)).collect()
    }

    fn may_move(&self, qp: usize, median: f64) -> bool {
        let state = self.state[qp];
        state.readings >= WINDOW && state.waits == 0 && state.tries < TRIES && state.mean > median * LATE
    }

    /// Half of the time, of its own for each planner, iteration and QP.
    fn tosses(&self, qp: usize) -> bool {
        let mixed = (self.seed ^ self.iteration.rotate_left(20) ^ (qp as u64).rotate_left(40))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 63 == 0
    }

    /// The plane that is expected to be best, if it is worth a move.
    fn better(&self, qp: usize) -> Option<(u32, f64)> {
        let BalancedQp { from_leaf, to_leaf, plane } = self.members[qp];
        let mut latest: BTreeMap<Cable, f64> = BTreeMap::new();
        for (member, state) in self.members.iter().zip(&self.state) {
            for cable in member.cables() {
                let entry = latest.entry(cable).or_insert(0.0);
                *entry = entry.max(state.mean);
            }
        }
        let open = |other: &u32| {
            let avoided = |leaf: u32| self.avoided.contains(&(leaf, *other));
            *other != plane && !avoided(from_leaf) && !avoided(to_leaf)
        };
        let time = |other: u32| {
            let seen = [(false, from_leaf, other), (true, to_leaf, other)].map(|cable| latest.get(&cable).copied());
            seen.into_iter().flatten().fold(0.0, f64::max) + self.unit
        };
        // Planes that look the same are taken in turn, so that planners do not all choose the first.
        let turn =
            (self.seed.wrapping_add(self.iteration).wrapping_add(qp as u64) % u64::from(self.planes.max(1))) as u32;
        let others = (0..self.planes).map(|step| (turn + step) % self.planes).filter(open);
        let best = others.map(|other| (other, time(other))).min_by(|a, b| a.1.total_cmp(&b.1))?;
        let moving = if self.iteration - self.last_move > RESTED { 0 } else { self.iteration - self.first_move };
        let worth = if self.first_move == 0 { WORTH } else { WORTH - TIRES * moving as f64 };
        (best.1 < self.state[qp].mean * worth).then_some(best)
    }

    /// All QPs on cables that a move changes are measured anew before they move.
    fn quieten(&mut self, moved: usize, before: u32, after: u32) {
        let BalancedQp { from_leaf, to_leaf, .. } = self.members[moved];
        for (member, state) in self.members.iter().zip(&mut self.state) {
            let near = member.from_leaf == from_leaf || member.to_leaf == to_leaf;
            if near && (member.plane == before || member.plane == after) {
                state.readings = 0;
                state.waits = WINDOW;
            }
        }
    }
}

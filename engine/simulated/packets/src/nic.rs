//! The sending side of a host's port: which QP is next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::congestion::NEVER;
use crate::layout::NONE;

/// QPs of a port that may send at once, who take turns in the order of their places: a bit for each, and a bit for each
/// word of those.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    words: Vec<u64>,
    filled: Vec<u64>,
    /// QPs by place.
    qps: Vec<u32>,
    /// The place after the one whose turn was last.
    next: usize,
}

impl Turns {
    /// Gives a QP the next place.
    pub fn add(&mut self, qp: u32) -> u32 {
        self.qps.push(qp);
        self.words.resize(self.qps.len().div_ceil(64), 0);
        self.filled.resize(self.words.len().div_ceil(64), 0);
        self.qps.len() as u32 - 1
    }

    /// The QP at a place may send.
    #[inline]
    pub fn put(&mut self, place: u32) {
        let place = place as usize;
        self.words[place / 64] |= 1 << (place % 64);
        self.filled[place / 4096] |= 1 << (place / 64 % 64);
    }

    /// Whether none may.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filled.iter().all(|word| *word == 0)
    }

    /// Takes the QP whose turn it is.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        let place = self.first_from(self.next).or_else(|| self.first_from(0))?;
        self.words[place / 64] &= !(1 << (place % 64));
        if self.words[place / 64] == 0 {
            self.filled[place / 4096] &= !(1 << (place / 64 % 64));
        }
        self.next = place + 1;
        Some(self.qps[place])
    }

    /// The first place from one on whose QP may send.
    #[inline]
    fn first_from(&self, begin: usize) -> Option<usize> {
        let word = begin / 64;
        let here = self.words.get(word)? & (u64::MAX << (begin % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let mut mask = if word % 64 == 63 { 0 } else { u64::MAX << (word % 64 + 1) };
        for (group, filled) in self.filled.iter().enumerate().skip(word / 64) {
            let later = filled & mask;
            if later != 0 {
                let word = group * 64 + later.trailing_zeros() as usize;
                return Some(word * 64 + self.words[word].trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

/// QPs of a port of a host.
#[derive(Debug, Clone, Default)]
pub struct Nic {
    /// Those that may send at once, by class.
    pub ready: Vec<Turns>,
    /// Those that may send later, by when. Units: ps.
    pub paced: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Where a QP stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpState {
    /// It has nothing to send, or its window is full.
    Idle,
    /// It is among those that may send at once.
    Ready,
    /// It waits for its turn until this time (ps).
    Paced(u64),
    /// It gave up.
    Error,
}

/// The sending end of a QP.
#[derive(Debug, Clone)]
pub struct Sender {
    /// Packets that have arrived, that were sent, and that there are.
    pub acked: u32,
    /// Next to be sent.
    pub next: u32,
    /// Packets of all messages that were posted.
    pub posted: u32,
    /// Most that were ever sent.
    pub most: u32,
    /// The oldest message that has not been acknowledged as a whole, the one that is being sent, and the newest.
    pub oldest: u32,
    /// Being sent.
    pub current: u32,
    /// Newest.
    pub newest: u32,
    /// Port by which it leaves.
    pub port: u32,
    /// Its place among the QPs of this class at the port.
    pub place: u32,
    /// Class, by its place among those of the run.
    pub class: u8,
    /// Timeouts in a row.
    pub timeouts: u8,
    /// Where it stands.
    pub state: QpState,
    /// When it may send again by its rate. Units: ps.
    pub free: u64,
    /// Units: bit/s.
    pub rate: f64,
    /// Size of the last packet. Units: bytes.
    pub last: u32,
    /// When it times out, and when its timer event is due. Units: ns.
    pub timeout: u64,
    /// Timer event.
    pub timer: u64,
}

impl Sender {
    /// How long its rate holds the next packet back. Units: ns.
    pub fn held_ns(&self, now: u64) -> u64 {
        self.free.div_ceil(1000).saturating_sub(now)
    }

    /// One that has sent nothing, at a port, at a place there, of a class, at line rate.
    pub fn new(port: u32, place: u32, class: u8, rate: f64) -> Self {
        Self {
            acked: 0,
            next: 0,
            posted: 0,
            most: 0,
            oldest: NONE,
            current: NONE,
            newest: NONE,
            port,
            place,
            class,
            timeouts: 0,
            state: QpState::Idle,
            free: 0,
            rate,
            last: 0,
            timeout: NEVER,
            timer: NEVER,
        }
    }
}

/// The receiving end of a QP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiver {
    /// The next packet in order.
    pub expected: u32,
    /// In-order packets since the last acknowledgement.
    pub unacked: u32,
    /// Whether one of those was marked.
    pub is_marked: bool,
    /// Until when it does not say again that something is missing, and what that was.
    pub nack_until: u64,
    /// Missing.
    pub missing: u32,
    /// When it may send the next CNP.
    pub cnp_from: u64,
}

/// What is counted of a QP where it rarely happens, apart from what every packet touches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    /// Packets that were sent again.
    pub resent: u32,
    /// Timeouts.
    pub timeouts: u32,
    /// CNPs that were sent.
    pub cnps: u32,
    /// By how much the last packets of messages that arrived are smaller than full ones. Units: bytes.
    pub short: u64,
}

/// A message while the simulation runs.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Its QP.
    pub qp: u32,
    /// The first packet behind it.
    pub end: u32,
    /// Payload of its last packet. Units: bytes.
    pub last: u32,
    /// Packets.
    pub packets: u32,
    /// The one posted after it on the same QP.
    pub next: u32,
    /// What it still waits for.
    pub waits: u32,
    /// When it was posted. Units: ns.
    pub posted: u64,
    /// When it had arrived as a whole.
    pub received: u64,
    /// When its sender knew.
    pub done: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qps_take_turns_in_the_order_of_their_places() {
        let mut turns = Turns::default();
        (0..10_000).for_each(|qp| assert_eq!(turns.add(qp + 7), qp));
        assert_eq!((turns.pop(), turns.is_empty()), (None, true));
        for place in [9_999, 3, 64, 4096, 5] {
            turns.put(place);
        }
        let mut taken: Vec<u32> = (0..3).filter_map(|_| turns.pop()).collect();
        // Those before the last one wait for the next round.
        for place in [4, 65, 9_000] {
            turns.put(place);
        }
        taken.extend(std::iter::from_fn(|| turns.pop()));
        assert_eq!(taken, [3, 5, 64, 65, 4096, 9_000, 9_999, 4].map(|place| place + 7));
        assert!(turns.is_empty());
    }
}

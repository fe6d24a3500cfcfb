//! The pipeline that both directions share: what waits for it, and what goes next. It knows nothing of the packets.
//!
//! An arbiter gives both sides turns, as long as both wait: it sees two queues and the packets in them. Source: Goyal
//! et al., Start-time Fair Queueing, SIGCOMM 1996.

use std::collections::VecDeque;

use kelpie_events::{Picos, Server};

use crate::cache::{Cache, Geometry, Key, LINE, Lookup, Replacement};
use crate::waits::{Cause, Side};

/// Packets that each side takes in turn while both wait: of what is sent, and of what is received. Source: our choice,
/// because links pause their senders, and not the other way round: what is received is let go at a rate that makes
/// senders pause, and gets nearly half.
const TURN: [u64; 2] = [10, 9];
/// Packets of 1,024 B that the pipeline has taken and not begun, beyond which others wait. Source: our choice, two
/// bursts.
const AHEAD: u64 = 8;

/// Work that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Whose it is: a QP that sends, or a burst that was received.
    pub id: u32,
    pub qp: u32,
    /// Its packets, and the time that they take.
    pub packets: u64,
    pub span: Picos,
    /// When it came.
    pub since: Picos,
    /// When all else is done that it needs, and what that is.
    pub ready: Picos,
    pub cause: Cause,
}

/// The pipeline. Shape: by side, first what is sent.
#[derive(Debug)]
pub(crate) struct Pipeline {
    server: Server,
    packet: Picos,
    waiting: [VecDeque<Claim>; 2],
    /// How far each side is in its share, and how far the one was that went last, when it did. Units: packets times
    /// those of the other's turn.
    passed: [u64; 2],
    begun: u64,
    is_due: bool,
    /// Until when a command holds it.
    held_until: Picos,
    /// QPs whose state is at hand, and the time that another takes longer; none if that is nothing.
    states: Option<(Cache, Picos)>,
}

impl Pipeline {
    /// One that takes so long for a packet of 1,024 B.
    pub fn new(packet: Picos, (states, switch): (u32, Picos), seed: u64) -> Self {
        let form =
            Geometry { bytes: u64::from(states) * LINE, ways: states.clamp(1, 64), replacement: Replacement::Random };
        Self {
            server: Server::default(),
            packet,
            waiting: Default::default(),
            passed: [0; 2],
            begun: 0,
            is_due: false,
            held_until: Picos::ZERO,
            states: (switch > Picos::ZERO).then(|| (Cache::new(form, seed), switch)),
        }
    }

    /// Takes work at once, and says when it is through; or keeps it waiting.
    pub fn claim(&mut self, now: Picos, side: Side, claim: Claim) -> Option<Picos> {
        if self.waiting.iter().all(VecDeque::is_empty) && self.takes_at() <= now {
            return Some(self.pass(now, &claim));
        }
        // Who has not waited has saved nothing up.
        let side = side as usize;
        if self.waiting[side].is_empty() {
            self.passed[side] = self.passed[side].max(self.begun);
        }
        self.waiting[side].push_back(claim);
        None
    }

    /// When the next of those that wait may go, unless that was said before.
    pub fn is_due(&mut self) -> Option<Picos> {
        let waits = self.waiting.iter().any(|queue| !queue.is_empty());
        (waits && !std::mem::replace(&mut self.is_due, true)).then(|| self.takes_at())
    }

    /// It is time for the next: its side, and when it is through.
    pub fn next(&mut self, now: Picos) -> Option<(Side, Claim, Picos)> {
        self.is_due = false;
        let side = match self.waiting.each_ref().map(VecDeque::is_empty) {
            [true, true] => return None,
            [is_empty, false] if is_empty || self.passed[1] < self.passed[0] => Side::Receive,
            _ => Side::Send,
        };
        let claim = self.waiting[side as usize].pop_front()?;
        self.begun = self.passed[side as usize];
        self.passed[side as usize] += claim.packets * TURN[1 - side as usize];
        Some((side, claim, self.pass(now, &claim)))
    }

    /// Lets no packet through for so long, after those that it has taken.
    pub fn hold(&mut self, now: Picos, time: Picos) {
        self.held_until = self.server.serve(now, time);
    }

    /// What work that comes now waits for here.
    pub fn cause(&self, now: Picos) -> Cause {
        if self.held_until > now { Cause::Command } else { Cause::Pipeline }
    }

    /// When it takes more.
    fn takes_at(&self) -> Picos {
        self.server.free().saturating_sub(self.packet * AHEAD)
    }

    fn pass(&mut self, now: Picos, claim: &Claim) -> Picos {
        let mut span = claim.span;
        if let Some((states, switch)) = &mut self.states
            && claim.packets > 0
        {
            let key = Key::new(0, claim.qp, 0);
            if states.look_up(key) == Lookup::Missing {
                states.keep(key);
                span += *switch;
            }
        }
        self.server.serve(now, span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Picos = Picos::new(50_000);
    const SIDES: [Side; 2] = [Side::Send, Side::Receive];

    fn claim(packets: u64, now: Picos) -> Claim {
        Claim { id: 0, qp: 0, packets, span: PACKET * packets, since: now, ready: now, cause: Cause::Unit }
    }

    /// Part of the packets that each side gets through, if so many claims of each always wait, of so many packets each.
    fn shares(waiting: [usize; 2], packets: [u64; 2]) -> [f64; 2] {
        let mut pipeline = Pipeline::new(PACKET, (1, Picos::ZERO), 1);
        let (mut now, mut passed) = (Picos::ZERO, [0; 2]);
        while pipeline.takes_at() <= now {
            pipeline.claim(now, Side::Send, claim(4, now));
        }
        for (side, count) in SIDES.into_iter().zip(waiting) {
            for _ in 0..count {
                assert_eq!(pipeline.claim(now, side, claim(packets[side as usize], now)), None, "it has taken enough");
            }
        }
        for _ in 0..10_000 {
            now = pipeline.is_due().expect("something waits and nothing was said");
            assert_eq!(pipeline.is_due(), None, "it was said");
            let (side, next, piped) = pipeline.next(now).expect("something waits");
            assert!(piped <= now + PACKET * (AHEAD + next.packets), "no later than what was taken before it");
            passed[side as usize] += next.packets;
            assert_eq!(pipeline.claim(now, side, claim(packets[side as usize], now)), None);
        }
        let all = (passed[0] + passed[1]) as f64;
        assert!((all * PACKET.as_seconds() / now.as_seconds() - 1.0).abs() < 0.01, "never idle, never two at once");
        passed.map(|passed| passed as f64 / all)
    }

    #[test]
    fn both_sides_get_their_turns_whatever_their_queues_and_their_bursts() {
        for (waiting, packets) in [([4, 4], [4, 4]), ([4, 4], [4, 1]), ([30, 2], [1, 4]), ([2, 30], [3, 3])] {
            let [sent, _] = shares(waiting, packets);
            assert!((sent - 10.0 / 19.0).abs() < 0.005, "{waiting:?} claims of {packets:?}: {sent}");
        }
    }

    #[test]
    fn a_side_that_is_alone_gets_all_and_saves_nothing_up() {
        let [sent, received] = shares([0, 3], [4, 4]);
        assert!(sent < 0.001 && received > 0.999);
        let mut pipeline = Pipeline::new(PACKET, (1, Picos::ZERO), 1);
        let mut now = Picos::ZERO;
        for _ in 0..50 {
            pipeline.claim(now, Side::Receive, claim(4, now));
        }
        for _ in 0..40 {
            now = pipeline.is_due().unwrap_or(now);
            pipeline.next(now);
        }
        for _ in 0..10 {
            pipeline.claim(now, Side::Send, claim(4, now));
        }
        let mut order = Vec::new();
        for _ in 0..8 {
            now = pipeline.is_due().unwrap_or(now);
            order.extend(pipeline.next(now).map(|(side, ..)| side));
        }
        let sent = order.iter().filter(|side| **side == Side::Send).count();
        assert!((3..=5).contains(&sent), "{order:?}");
    }
}

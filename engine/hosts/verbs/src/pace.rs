//! When QPs that pause between their posts may post again. No clock is read here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The QPs of a lane that wait. All pause equally long, so that those that posted first are due first.
pub struct Pace {
    pause: Duration,
    /// Until when, the first that is due in front. Never more than one of each QP, for which all room is made at once.
    waiting: VecDeque<(Instant, u32)>,
    waits: Vec<bool>,
}

impl Pace {
    /// For `qps` QPs that pause this long from one post to the next.
    pub fn new(pause: Duration, qps: u32) -> Self {
        Self { pause, waiting: VecDeque::with_capacity(qps as usize), waits: vec![false; qps as usize] }
    }

    /// Whether a QP has to wait before it posts.
    pub fn waits(&self, qp: u32) -> bool {
        self.waits[qp as usize]
    }

    /// QPs that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }

    /// A QP posted at this time.
    pub fn posted(&mut self, qp: u32, at: Instant) {
        debug_assert!(!self.waits(qp), "who waits does not post");
        self.waits[qp as usize] = true;
        self.waiting.push_back((at + self.pause, qp));
    }

    /// A QP that has waited long enough, and waits no more.
    pub fn due(&mut self, now: Instant) -> Option<u32> {
        let (_, qp) = self.waiting.pop_front_if(|(until, _)| *until <= now)?;
        self.waits[qp as usize] = false;
        Some(qp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_qp_is_due_a_pause_after_its_post() {
        let begin = Instant::now();
        let at = |micros| begin + Duration::from_micros(micros);
        let mut pace = Pace::new(Duration::from_micros(10), 3);
        pace.posted(2, at(0));
        pace.posted(0, at(4));
        assert_eq!([0, 1, 2].map(|qp| pace.waits(qp)), [true, false, true]);
        assert_eq!((pace.waiting(), pace.due(at(9))), (2, None));
        assert_eq!((pace.due(at(10)), pace.due(at(13))), (Some(2), None));
        pace.posted(2, at(13));
        assert_eq!([pace.due(at(30)), pace.due(at(30)), pace.due(at(30))], [Some(0), Some(2), None]);
        assert_eq!(pace.waiting(), 0);
    }
}

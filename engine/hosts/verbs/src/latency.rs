//! When signalled requests were posted, and how long those took that came back. No clock is read here.

use std::time::Instant;

use kelpie_engine::latency::Latencies;
use kelpie_spaces::Opcode;

/// Latencies of a lane's requests by operation, each operation once.
pub type ByOp = Vec<(Opcode, Latencies)>;

/// Which of a QP's slots are in use, from the oldest request on; they go around.
#[derive(Clone, Copy, Default)]
struct SlotRing {
    oldest: u32,
    len: u32,
}

/// The times of a lane's signalled requests. Those of one QP complete in the order in which they were posted.
pub struct LatencyTimer {
    /// For each QP as many as it may have outstanding.
    slots: Vec<Instant>,
    per_qp: u32,
    rings: Vec<SlotRing>,
    polled: Instant,
    took: ByOp,
}

impl LatencyTimer {
    /// For `qps` QPs with at most `outstanding` signalled requests each, of these operations.
    ///
    /// All room is made here. It is a fourth or less of what the NIC needs for the same requests, a WQE being 64 bytes.
    pub fn new(ops: impl IntoIterator<Item = Opcode>, qps: u32, outstanding: u32, now: Instant) -> Self {
        let mut took = ByOp::new();
        for op in ops {
            if took.iter().all(|(known, _)| *known != op) {
                took.push((op, Latencies::default()));
            }
        }
        Self {
            slots: vec![now; qps as usize * outstanding as usize],
            per_qp: outstanding,
            rings: vec![SlotRing::default(); qps as usize],
            polled: now,
            took,
        }
    }

    /// A signalled request was posted at this time.
    pub fn posted(&mut self, qp: u32, at: Instant) {
        let ring = &mut self.rings[qp as usize];
        debug_assert!(ring.len < self.per_qp, "no more is outstanding than the send queue holds");
        let slot = around(ring.oldest + ring.len, self.per_qp);
        ring.len += 1;
        self.slots[qp as usize * self.per_qp as usize + slot as usize] = at;
    }

    /// The completions that come next were polled at this time.
    pub fn polled(&mut self, at: Instant) {
        self.polled = at;
    }

    /// The oldest signalled request of this QP has completed.
    pub fn completed(&mut self, qp: u32, op: Opcode) {
        let ring = &mut self.rings[qp as usize];
        if ring.len == 0 {
            return;
        }
        let posted = self.slots[qp as usize * self.per_qp as usize + ring.oldest as usize];
        ring.oldest = around(ring.oldest + 1, self.per_qp);
        ring.len -= 1;
        let nanos = self.polled.saturating_duration_since(posted).as_nanos();
        if let Some((_, took)) = self.took.iter_mut().find(|(known, _)| *known == op) {
            took.record(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
    }

    /// What this QP has outstanding failed: it is no latency.
    pub fn forget(&mut self, qp: u32) {
        self.rings[qp as usize].len = 0;
    }

    /// Room for the same operations, for [`LatencyTimer::exchange`].
    pub fn room(&self) -> ByOp {
        self.took.iter().map(|(op, _)| (*op, Latencies::default())).collect()
    }

    /// Gives what it has in return for room, which it records in from now on.
    pub fn exchange(&mut self, room: &mut ByOp) {
        std::mem::swap(&mut self.took, room);
    }
}

/// A place in a ring of `len`, of one that is at most a whole turn too far.
fn around(place: u32, len: u32) -> u32 {
    if place >= len { place - len } else { place }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_engine::latency::Took;

    use super::*;

    const NANO: Duration = Duration::from_nanos(1);

    fn recorded(timer: &mut LatencyTimer) -> Vec<(Opcode, Vec<Took>)> {
        let mut room = timer.room();
        timer.exchange(&mut room);
        room.into_iter().map(|(op, took)| (op, took.list())).collect()
    }

    #[test]
    fn each_completion_is_of_the_oldest_post_of_its_qp_however_often_the_slots_go_around() {
        for depth in [1, 2, 3, 7, 128, 16_384] {
            let start = Instant::now();
            let mut timer = LatencyTimer::new([Opcode::Write], 2, depth, start);
            let mut now = start;
            // Both QPs are filled, then emptied by a changing number; the second is posted to 5 ns later.
            let (mut outstanding, mut expected) = (std::collections::VecDeque::new(), Vec::new());
            for round in 0..5 {
                while outstanding.len() < depth as usize {
                    now += NANO;
                    outstanding.push_back(now);
                    timer.posted(0, now);
                    timer.posted(1, now + 5 * NANO);
                }
                now += 100 * NANO;
                timer.polled(now);
                for _ in 0..=(round * depth / 5) {
                    let posted = outstanding.pop_front().expect("the queue was full");
                    timer.completed(0, Opcode::Write);
                    timer.completed(1, Opcode::Write);
                    let nanos = (now - posted).as_nanos() as u64;
                    expected.extend([nanos, nanos - 5]);
                }
            }
            let mut latencies = Latencies::default();
            for nanos in expected {
                latencies.record(nanos);
            }
            assert_eq!(recorded(&mut timer), [(Opcode::Write, latencies.list())], "depth {depth}");
        }
    }

    #[test]
    fn what_failed_is_no_latency_and_the_next_begins_anew() {
        let start = Instant::now();
        let mut timer = LatencyTimer::new([Opcode::Send], 2, 3, start);
        for qp in [0, 1] {
            (0..3).for_each(|_| timer.posted(qp, start));
        }
        timer.polled(start + 10 * NANO);
        timer.completed(0, Opcode::Send);
        timer.forget(0);
        timer.polled(start + 20 * NANO);
        timer.completed(0, Opcode::Send);
        timer.completed(1, Opcode::Send);
        assert_eq!(recorded(&mut timer), [(Opcode::Send, vec![Took(10, 1), Took(20, 1)])]);
        (0..3).for_each(|step| timer.posted(0, start + step * NANO));
        timer.polled(start + 50 * NANO);
        (0..4).for_each(|_| timer.completed(0, Opcode::Send));
        assert_eq!(recorded(&mut timer), [(Opcode::Send, vec![Took(48, 1), Took(49, 1), Took(50, 1)])]);
    }

    #[test]
    fn operations_are_kept_apart_and_an_exchange_begins_anew() {
        let start = Instant::now();
        let mut timer = LatencyTimer::new([Opcode::Write, Opcode::Read, Opcode::Write], 1, 4, start);
        (0..3).for_each(|_| timer.posted(0, start));
        timer.polled(start + 7 * NANO);
        timer.completed(0, Opcode::Read);
        timer.completed(0, Opcode::Write);
        let first = [(Opcode::Write, vec![Took(7, 1)]), (Opcode::Read, vec![Took(7, 1)])];
        assert_eq!(recorded(&mut timer), first);
        timer.polled(start + 9 * NANO);
        timer.completed(0, Opcode::Read);
        assert_eq!(recorded(&mut timer), [(Opcode::Write, vec![]), (Opcode::Read, vec![Took(9, 1)])]);
    }

    #[test]
    fn a_clock_that_goes_back_gives_the_shortest_time() {
        let start = Instant::now();
        let mut timer = LatencyTimer::new([Opcode::Write], 1, 1, start);
        timer.posted(0, start + NANO);
        timer.polled(start);
        timer.completed(0, Opcode::Write);
        assert_eq!(recorded(&mut timer), [(Opcode::Write, vec![Took(1, 1)])]);
    }
}

//! Processing units: which QP works where and when. What the work is, is up to whoever takes a QP.
//!
//! A QP belongs to the unit that its number hashes to. A unit has slots: QPs that are at work, each of which may wait
//! for reads. So the work of others hides what one waits for, and nothing else does.

use std::collections::VecDeque;

use kelpie_events::{Picos, Server};

/// The form of the units.
#[derive(Debug, Clone, Copy)]
pub struct UnitsConfig {
    /// Units, at least 1.
    pub units: u32,
    /// Slots of each, at least 1.
    pub slots: u32,
}

/// Where a QP is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QpStatus {
    /// Without work.
    Idle,
    /// In the queue of its unit.
    Queued,
    /// In a slot; `more`: work came meanwhile.
    AtWork { more: bool },
}

/// One unit.
#[derive(Debug, Clone, Default)]
struct ProcessingUnit {
    queue: VecDeque<u32>,
    at_work: u32,
    server: Server,
}

/// All units of a NIC.
#[derive(Debug, Clone)]
pub struct Units {
    each: Vec<ProcessingUnit>,
    slots: u32,
    places: Vec<QpStatus>,
}

impl Units {
    /// Units at rest, for QPs 0 to `qps` - 1.
    pub fn new(form: UnitsConfig, qps: u32) -> Self {
        Self {
            each: vec![ProcessingUnit::default(); form.units.max(1) as usize],
            slots: form.slots.max(1),
            places: vec![QpStatus::Idle; qps as usize],
        }
    }

    /// The unit of a QP.
    #[inline]
    pub fn of(&self, qp: u32) -> usize {
        // Fibonacci hashing: neighbouring numbers come to different units.
        let hash = qp.wrapping_mul(0x9e37_79b9);
        ((u64::from(hash) * self.each.len() as u64) >> 32) as usize
    }

    /// A QP has work: it joins the queue of its unit, or has more to do once it gives its slot back.
    pub fn ready(&mut self, qp: u32) {
        let unit = self.of(qp);
        match &mut self.places[qp as usize] {
            QpStatus::Queued => {}
            QpStatus::AtWork { more } => *more = true,
            idle @ QpStatus::Idle => {
                *idle = QpStatus::Queued;
                self.each[unit].queue.push_back(qp);
            }
        }
    }

    /// The next QP of a unit, into a free slot.
    pub fn take(&mut self, unit: usize) -> Option<u32> {
        let at = &mut self.each[unit];
        if at.at_work == self.slots {
            return None;
        }
        let qp = at.queue.pop_front()?;
        at.at_work += 1;
        self.places[qp as usize] = QpStatus::AtWork { more: false };
        Some(qp)
    }

    /// A QP gives its slot back. With work left, or work that came meanwhile, it joins the queue again.
    pub fn give_back(&mut self, qp: u32, has_more: bool) {
        let QpStatus::AtWork { more } = self.places[qp as usize] else {
            debug_assert!(false, "QP {qp} has no slot");
            return;
        };
        let unit = self.of(qp);
        self.each[unit].at_work -= 1;
        self.places[qp as usize] = QpStatus::Idle;
        if more || has_more {
            self.ready(qp);
        }
    }

    /// Work of `span` on a unit, after what it was given before; says when it is done.
    pub fn work(&mut self, unit: usize, now: Picos, span: Picos) -> Picos {
        self.each[unit].server.serve(now, span)
    }

    /// Time that each unit worked.
    pub fn busy(&self) -> impl Iterator<Item = Picos> {
        self.each.iter().map(|unit| unit.server.busy)
    }

    /// QPs in slots of a unit.
    pub fn at_work(&self, unit: usize) -> u32 {
        self.each[unit].at_work
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn qps_are_spread_over_the_units_evenly() {
        let units = Units::new(UnitsConfig { units: 16, slots: 4 }, 4096);
        let mut counts = [0; 16];
        (0..4096).for_each(|qp| counts[units.of(qp)] += 1);
        assert!(counts.iter().all(|count| (240..=272).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_unit_has_no_more_at_work_than_slots_and_takes_turns() {
        let mut units = Units::new(UnitsConfig { units: 1, slots: 2 }, 3);
        for qp in [0, 1, 2, 1] {
            units.ready(qp);
        }
        assert_eq!([units.take(0), units.take(0), units.take(0)], [Some(0), Some(1), None]);
        units.give_back(0, true);
        assert_eq!([units.take(0), units.take(0)], [Some(2), None], "who comes back goes to the end");
        units.ready(1);
        units.give_back(1, false);
        units.give_back(2, false);
        assert_eq!(
            [units.take(0), units.take(0), units.take(0)],
            [Some(0), Some(1), None],
            "work came for 1 meanwhile"
        );
    }

    proptest! {
        #[test]
        fn all_work_is_done_whatever_the_form(
            form in (1u32..5, 1u32..5).prop_map(|(units, slots)| UnitsConfig { units, slots }),
            works in prop::collection::vec(0u32..20, 1..100),
        ) {
            let mut units = Units::new(form, 20);
            let mut left = [0u32; 20];
            for qp in &works {
                left[*qp as usize] += 1;
                units.ready(*qp);
            }
            let mut rounds = 0;
            while left.iter().any(|work| *work > 0) {
                rounds += 1;
                prop_assert!(rounds < 1_000, "work is left for ever: {left:?}");
                for unit in 0..form.units as usize {
                    let taken: Vec<u32> = std::iter::from_fn(|| units.take(unit)).collect();
                    prop_assert!(taken.len() <= form.slots as usize);
                    prop_assert_eq!(units.at_work(unit) as usize, taken.len());
                    for qp in taken {
                        prop_assert_eq!(units.of(qp), unit);
                        prop_assert!(left[qp as usize] > 0, "QP {} has nothing to do", qp);
                        left[qp as usize] -= 1;
                        units.give_back(qp, left[qp as usize] > 0);
                    }
                }
            }
            prop_assert!((0..form.units as usize).all(|unit| units.take(unit).is_none()));
        }
    }
}

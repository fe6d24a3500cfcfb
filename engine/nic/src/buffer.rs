//! The receive buffer: what arrives takes room until it was dealt with. Above a threshold the sender is paused; what
//! still arrives fills the headroom, and what finds no room is lost.

/// The form of a buffer. Units: bytes.
#[derive(Debug, Clone, Copy)]
pub struct Thresholds {
    /// Above it the sender is paused.
    pub xoff: u64,
    /// Below it the sender may go on. At most `xoff`.
    pub xon: u64,
    /// What it holds, headroom included.
    pub capacity: u64,
}

/// What a buffer tells its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A frame that pauses the sender.
    Pause,
    /// A frame that lets it go on.
    Resume,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is in the buffer; the sender may have to be told.
    Kept(Option<Signal>),
    /// There was no room.
    Lost,
}

/// A receive buffer.
#[derive(Debug, Clone)]
pub struct Buffer {
    thresholds: Thresholds,
    filled: u64,
    pauses: bool,
    /// Packets that found no room.
    lost: u64,
}

impl Buffer {
    /// An empty one.
    pub fn new(thresholds: Thresholds) -> Self {
        debug_assert!(thresholds.xon <= thresholds.xoff && thresholds.xoff <= thresholds.capacity);
        Self { thresholds, filled: 0, pauses: false, lost: 0 }
    }

    /// A packet of `bytes` arrives.
    pub fn arrive(&mut self, bytes: u64) -> Arrival {
        if self.filled + bytes > self.thresholds.capacity {
            self.lost += 1;
            return Arrival::Lost;
        }
        self.filled += bytes;
        let begins = !self.pauses && self.filled > self.thresholds.xoff;
        self.pauses |= begins;
        Arrival::Kept(begins.then_some(Signal::Pause))
    }

    /// A packet of `bytes` was dealt with.
    pub fn leave(&mut self, bytes: u64) -> Option<Signal> {
        debug_assert!(bytes <= self.filled, "only what arrived leaves");
        self.filled -= bytes;
        let ends = self.pauses && self.filled < self.thresholds.xon;
        self.pauses &= !ends;
        ends.then_some(Signal::Resume)
    }

    /// What it holds. Units: bytes.
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// Whether the sender is to be paused.
    pub fn pauses(&self) -> bool {
        self.pauses
    }

    /// Packets that found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const THRESHOLDS: Thresholds = Thresholds { xoff: 1000, xon: 500, capacity: 1500 };

    #[test]
    fn a_sender_is_paused_once_above_xoff_and_goes_on_once_below_xon() {
        let mut buffer = Buffer::new(THRESHOLDS);
        let arrivals: Vec<Arrival> = (0..6).map(|_| buffer.arrive(300)).collect();
        let quiet = Arrival::Kept(None);
        let expected = [quiet, quiet, quiet, Arrival::Kept(Some(Signal::Pause)), quiet, Arrival::Lost];
        assert_eq!((arrivals.as_slice(), buffer.lost()), (&expected[..], 1));
        let left: Vec<Option<Signal>> = (0..5).map(|_| buffer.leave(300)).collect();
        assert_eq!(left, [None, None, None, Some(Signal::Resume), None]);
        assert_eq!((buffer.filled(), buffer.pauses()), (0, false));
    }

    #[test]
    fn headroom_for_what_is_on_its_way_loses_nothing() {
        // A sender that hears of a pause `delay` packets later, and a drain of half its speed.
        for (delay, capacity, loses) in [(4, 1500, false), (20, 1500, true), (20, 4200, false)] {
            let mut buffer = Buffer::new(Thresholds { capacity, ..THRESHOLDS });
            let (mut heard, mut signals, mut held) = (false, VecDeque::new(), VecDeque::new());
            for turn in 0..10_000 {
                if signals.front().is_some_and(|(when, _)| *when <= turn) {
                    heard = signals.pop_front().is_some_and(|(_, signal)| signal == Signal::Pause);
                }
                if !heard && let Arrival::Kept(signal) = buffer.arrive(100) {
                    held.push_back(100);
                    signals.extend(signal.map(|signal| (turn + delay, signal)));
                }
                if turn % 2 == 0
                    && let Some(bytes) = held.pop_front()
                {
                    signals.extend(buffer.leave(bytes).map(|signal| (turn + delay, signal)));
                }
            }
            assert_eq!(buffer.lost() > 0, loses, "delay of {delay} packets, {capacity} B");
        }
    }

    proptest! {
        #[test]
        fn pauses_and_resumes_take_turns_and_bytes_are_conserved(sizes in prop::collection::vec(1u64..600, 1..200)) {
            let mut buffer = Buffer::new(THRESHOLDS);
            let (mut held, mut signals, mut lost) = (VecDeque::new(), Vec::new(), 0);
            for (turn, bytes) in sizes.iter().enumerate() {
                match buffer.arrive(*bytes) {
                    Arrival::Kept(signal) => {
                        held.push_back(*bytes);
                        signals.extend(signal);
                    }
                    Arrival::Lost => lost += 1,
                }
                if turn % 3 == 0 && let Some(bytes) = held.pop_front() {
                    signals.extend(buffer.leave(bytes));
                }
                prop_assert!(buffer.filled() <= THRESHOLDS.capacity);
                prop_assert_eq!(buffer.filled(), held.iter().sum::<u64>());
                prop_assert_eq!(buffer.pauses(), signals.last() == Some(&Signal::Pause));
            }
            prop_assert_eq!(buffer.lost(), lost);
            prop_assert!(signals.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert!(signals.first().is_none_or(|signal| *signal == Signal::Pause));
        }
    }
}

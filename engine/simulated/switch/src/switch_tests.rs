//! Switches by themselves: what comes in leaves once, in order, at the rate of its port, and pauses spread backwards.

use std::collections::VecDeque;

use kelpie_events::Events;
use proptest::prelude::*;

use super::*;
use crate::buffer::Threshold;

/// A packet: its number, its bytes and its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbered(u64, u64, usize);

impl Packet for Numbered {
    fn bytes(&self) -> u64 {
        self.1
    }

    fn class(&self) -> usize {
        self.2
    }
}

/// What a switch did.
#[derive(Debug, Default)]
struct SwitchLog {
    sent: Vec<(Picos, usize, Numbered)>,
    signals: Vec<(usize, usize, Signal)>,
    due: VecDeque<(Picos, usize)>,
}

impl Neighbours<Numbered> for SwitchLog {
    fn sent(&mut self, now: Picos, port: usize, packet: Numbered, _: u64) {
        self.sent.push((now, port, packet));
    }

    fn signal(&mut self, _: Picos, port: usize, class: usize, signal: Signal) {
        self.signals.push((port, class, signal));
    }

    fn due(&mut self, time: Picos, port: usize) {
        self.due.push_back((time, port));
    }
}

fn at(nanos: u64) -> Picos {
    Picos::new(1000 * nanos)
}

/// Ports of 100 Gbit/s, of which 1,000 B take 80 ns.
fn switch<const CLASSES: usize>(ports: usize) -> Switch<Numbered, CLASSES> {
    let form = BufferForm { capacity: 100_000, threshold: Threshold::Fixed { xoff: 8000, xon: 4000 } };
    Switch::new(form, &vec![Rate::gbps(100.0); ports])
}

/// Lets all leave that is due.
fn drain<const CLASSES: usize>(switch: &mut Switch<Numbered, CLASSES>, log: &mut SwitchLog) {
    while let Some((time, port)) = log.due.pop_front() {
        switch.leave(time, port, log);
    }
}

#[test]
fn packets_leave_in_order_back_to_back_and_their_senders_are_paused_meanwhile() {
    let (mut switch, mut log) = (switch::<1>(3), SwitchLog::default());
    for number in 0..20 {
        assert!(switch.enter(at(number), [number as usize % 2, 2], Numbered(number, 1000, 0), &mut log));
    }
    // The first left at once; of the others each sender has nine or ten, and is paused at its ninth.
    assert_eq!((log.sent.len(), switch.filled()), (1, 19_000));
    assert_eq!(log.signals, [(1, 0, Signal::Pause), (0, 0, Signal::Pause)]);
    drain(&mut switch, &mut log);
    let expected: Vec<_> = (0..20).map(|number| (at(80 * number), 2, Numbered(number, 1000, 0))).collect();
    assert_eq!((log.sent, switch.filled()), (expected, 0));
    assert_eq!(log.signals[2..], [(0, 0, Signal::Resume), (1, 0, Signal::Resume)]);
    let pausing = [0, 1, 2].map(|port| switch.pausing(at(9999), port, 0));
    assert!(pausing[0] > at(700) && pausing[1] > at(700) && pausing[2] == Picos::ZERO, "{pausing:?}");
}

#[test]
fn silence_holds_one_class_and_the_first_class_goes_first() {
    let (mut switch, mut log) = (switch::<2>(2), SwitchLog::default());
    for (number, class) in [(0, 1), (1, 1), (2, 0), (3, 1)] {
        switch.enter(at(0), [0, 1], Numbered(number, 1000, class), &mut log);
    }
    switch.hold(at(10), 1, 1, Signal::Pause, &mut log);
    drain(&mut switch, &mut log);
    let order = |log: &SwitchLog| log.sent.iter().map(|(_, _, packet)| packet.0).collect::<Vec<_>>();
    assert_eq!((order(&log), switch.filled()), (vec![0, 2], 2000), "the other class waits");
    switch.hold(at(500), 1, 1, Signal::Resume, &mut log);
    drain(&mut switch, &mut log);
    assert_eq!((order(&log), log.sent[2].0), (vec![0, 2, 1, 3], at(500)));
    assert_eq!([switch.paused(at(900), 1, 0), switch.paused(at(900), 1, 1)], [at(0), at(490)]);
}

#[test]
fn what_finds_no_room_is_lost_and_counted() {
    let (mut switch, mut log) = (switch::<1>(2), SwitchLog::default());
    let kept = (0..200).filter(|number| switch.enter(at(0), [0, 1], Numbered(*number, 1000, 0), &mut log)).count();
    assert_eq!((kept, switch.lost(), switch.filled()), (101, 99, 100_000), "one is on the wire");
}

proptest! {
    #[test]
    fn what_comes_in_leaves_once_and_none_overtakes_another_of_its_way(
        packets in prop::collection::vec((0..4usize, 0..4usize, 64u64..2000, 0..2usize, 0u64..200), 1..200),
        pauses in prop::collection::vec((0u64..20_000, 0..4usize, 0..2usize), 0..20),
    ) {
        #[derive(Clone, Copy)]
        enum SwitchEvent {
            Enter(usize, usize, Numbered),
            Hold(usize, usize, Signal),
            Leave(usize),
        }
        let (mut switch, mut log, mut events) = (switch::<2>(4), SwitchLog::default(), Events::default());
        let mut now = Picos::ZERO;
        for (number, (from, to, bytes, class, gap)) in packets.iter().copied().enumerate() {
            now += at(gap);
            events.at(now, SwitchEvent::Enter(from, to, Numbered(number as u64, bytes, class)));
        }
        for (begin, port, class) in pauses {
            events.at(at(begin), SwitchEvent::Hold(port, class, Signal::Pause));
            events.at(at(begin + 3000), SwitchEvent::Hold(port, class, Signal::Resume));
        }
        let mut kept = Vec::new();
        while let Some((now, step)) = events.next_before(Picos::MAX) {
            match step {
                SwitchEvent::Enter(from, to, packet) => {
                    if switch.enter(now, [from, to], packet, &mut log) {
                        kept.push((from, to, packet));
                    }
                }
                SwitchEvent::Hold(port, class, signal) => switch.hold(now, port, class, signal, &mut log),
                SwitchEvent::Leave(port) => switch.leave(now, port, &mut log),
            }
            log.due.drain(..).for_each(|(time, port)| events.at(time, SwitchEvent::Leave(port)));
        }
        prop_assert_eq!((switch.filled(), kept.len()), (0, log.sent.len()));
        for port in 0..4 {
            for class in 0..2 {
                let of_way = |to: usize, packet: &Numbered| to == port && packet.2 == class;
                let came: Vec<_> = kept.iter().filter(|(_, to, packet)| of_way(*to, packet)).map(|row| row.2).collect();
                let left: Vec<_> = log.sent.iter().filter(|(_, to, packet)| of_way(*to, packet)).map(|row| row.2).collect();
                prop_assert_eq!(came, left);
            }
            let times: Vec<_> = log.sent.iter().filter(|row| row.1 == port).map(|row| (row.0, row.2.1)).collect();
            let rate = Rate::gbps(100.0);
            prop_assert!(times.windows(2).all(|pair| pair[1].0 >= pair[0].0 + rate.time(pair[0].1)), "one at a time");
        }
    }
}

//! Buffers by themselves: thresholds, headroom, and that no byte appears or vanishes.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const FIXED: BufferForm = BufferForm { capacity: 1500, threshold: Threshold::Fixed { xoff: 1000, xon: 500 } };

/// Four ingresses, each with 400 B for itself and 1,600 B of headroom, and 8,000 B for all.
const DYNAMIC: BufferForm = BufferForm {
    capacity: 16_000,
    threshold: Threshold::Dynamic { reserve: 400, headroom: 1600, shift: 1, resume: 300 },
};
const INGRESSES: usize = 4;

fn at(turn: u64) -> Picos {
    Picos::new(turn)
}

#[test]
fn a_sender_is_paused_once_above_xoff_and_goes_on_once_below_xon() {
    let mut buffer = SharedBuffer::new(FIXED, 1);
    let arrivals: Vec<Arrival> = (0..6).map(|turn| buffer.arrive(at(turn), 0, 300)).collect();
    let quiet = Arrival::Kept(None);
    let expected = [quiet, quiet, quiet, Arrival::Kept(Some(Signal::Pause)), quiet, Arrival::Lost];
    assert_eq!((arrivals.as_slice(), buffer.lost()), (&expected[..], 1));
    let left: Vec<Option<Signal>> = (10..15).map(|turn| buffer.leave(at(turn), 0, 300)).collect();
    assert_eq!(left, [None, None, None, Some(Signal::Resume), None]);
    assert_eq!((buffer.filled(), buffer.pauses(0).is_on()), (0, false));
    assert_eq!(buffer.pauses(0).total(at(100)), at(10), "from the fourth arrival to the fourth that left");
}

#[test]
fn a_dynamic_threshold_is_what_is_free_and_falls_as_others_fill_the_buffer() {
    // Alone, an ingress has its 400 B and x of the 8,000 B, with x = (8,000 - x) / 2.
    let fills = |buffer: &mut SharedBuffer, ingress: usize| {
        let mut held = 0;
        while buffer.arrive(at(0), ingress, 10) == Arrival::Kept(None) {
            held += 10;
        }
        assert!(buffer.pauses(ingress).is_on());
        held + 10
    };
    let mut buffer = SharedBuffer::new(DYNAMIC, INGRESSES);
    let first = fills(&mut buffer, 0);
    assert!((3060..=3080).contains(&first), "{first}");
    // The next has half of what the first left, and so on.
    let others: Vec<u64> = (1..INGRESSES).map(|ingress| fills(&mut buffer, ingress)).collect();
    assert!(others.windows(2).all(|pair| pair[1] < pair[0]) && others[2] >= 400, "{others:?}");
    // The first is above its threshold by now: it goes on once it is below that by 300 B.
    let mut left = 0;
    while buffer.leave(at(1), 0, 10).is_none() {
        left += 10;
    }
    let of_shared = first - left - 10 - 400;
    let free = 8000 - of_shared - others.iter().map(|held| held - 400).sum::<u64>();
    assert!(of_shared + 300 <= free / 2 && of_shared + 300 + 20 > free / 2, "{of_shared} B of shared, {free} B free");
}

#[test]
fn a_buffer_that_is_too_small_for_its_headroom_has_no_form() {
    assert_eq!((DYNAMIC.shared(4), DYNAMIC.shared(8), DYNAMIC.shared(9)), (Some(8000), Some(0), None));
    let upside_down = BufferForm { threshold: Threshold::Fixed { xoff: 500, xon: 1000 }, ..FIXED };
    assert_eq!((FIXED.shared(1), upside_down.shared(1)), (Some(1500), None));
}

/// Senders that hear of a pause so many packets of 100 B later, and a drain that is slower than they are together;
/// whether any packet was lost.
fn loses(form: BufferForm, senders: usize, delay: u64) -> bool {
    let mut buffer = SharedBuffer::new(form, senders);
    let mut signals: VecDeque<(u64, usize, Signal)> = VecDeque::new();
    let (mut silent, mut held) = (vec![false; senders], VecDeque::new());
    for turn in 0..20_000 {
        while let Some((_, ingress, signal)) = signals.pop_front_if(|(when, ..)| *when <= turn) {
            silent[ingress] = signal == Signal::Pause;
        }
        for (ingress, is_silent) in silent.iter().enumerate() {
            if !is_silent && let Arrival::Kept(signal) = buffer.arrive(at(turn), ingress, 100) {
                held.push_back(ingress);
                signals.extend(signal.map(|signal| (turn + delay, ingress, signal)));
            }
        }
        if turn % 2 == 0
            && let Some(ingress) = held.pop_front()
        {
            signals.extend(buffer.leave(at(turn), ingress, 100).map(|signal| (turn + delay, ingress, signal)));
        }
    }
    assert!((0..senders).all(|ingress| buffer.pauses(ingress).total(at(20_000)) > Picos::ZERO), "all were paused");
    buffer.lost() > 0
}

#[test]
fn headroom_for_what_is_on_its_way_loses_nothing() {
    for (delay, capacity, expected) in [(4, 1500, false), (20, 1500, true), (20, 4200, false)] {
        assert_eq!(
            loses(BufferForm { capacity, ..FIXED }, 1, delay),
            expected,
            "delay of {delay} packets, {capacity} B"
        );
    }
    for (delay, senders, expected) in [(14, 4, false), (14, 8, false), (40, 4, true)] {
        assert_eq!(loses(DYNAMIC, senders, delay), expected, "delay of {delay} packets, {senders} senders");
    }
}

proptest! {
    #[test]
    fn pauses_and_resumes_take_turns_and_bytes_are_conserved(
        packets in prop::collection::vec((0..INGRESSES, 1u64..600), 1..400), is_fixed in prop::bool::ANY,
    ) {
        let form = if is_fixed { FIXED } else { DYNAMIC };
        let mut buffer = SharedBuffer::new(form, INGRESSES);
        let (mut held, mut lost) = (VecDeque::new(), 0);
        let mut signals = vec![Vec::new(); INGRESSES];
        for (turn, (ingress, bytes)) in packets.iter().copied().enumerate() {
            match buffer.arrive(at(turn as u64), ingress, bytes) {
                Arrival::Kept(signal) => {
                    held.push_back((ingress, bytes));
                    signals[ingress].extend(signal);
                }
                Arrival::Lost => lost += 1,
            }
            if turn % 3 == 0 && let Some((ingress, bytes)) = held.pop_front() {
                signals[ingress].extend(buffer.leave(at(turn as u64), ingress, bytes));
            }
            prop_assert!(buffer.filled() <= form.capacity);
            prop_assert_eq!(buffer.filled(), held.iter().map(|(_, bytes)| bytes).sum::<u64>());
            let is_paused = signals[ingress].last() == Some(&Signal::Pause);
            prop_assert_eq!(buffer.pauses(ingress).is_on(), is_paused);
        }
        prop_assert_eq!(buffer.lost(), lost);
        while let Some((ingress, bytes)) = held.pop_front() {
            signals[ingress].extend(buffer.leave(at(1000), ingress, bytes));
        }
        prop_assert_eq!((buffer.filled(), buffer.free), (0, form.shared(INGRESSES).unwrap_or(0)));
        for signals in signals {
            prop_assert!(signals.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert!(signals.first().is_none_or(|signal| *signal == Signal::Pause));
            prop_assert!(signals.last().is_none_or(|signal| *signal == Signal::Resume), "an empty buffer pauses nobody");
        }
    }
}

#[test]
fn an_ingress_may_have_more_headroom_and_a_larger_share_than_others() {
    let threshold = Threshold::Dynamic { reserve: 0, headroom: 0, shift: 3, resume: 0 };
    let mut buffer = SharedBuffer::new(BufferForm { capacity: 10_000, threshold }, 2);
    assert!(!buffer.widen(1, 10_001, 0), "there is no room for it");
    assert!(buffer.widen(1, 2000, 0));
    let mut fill =
        |ingress| (1..1000).find(|_| buffer.arrive(Picos::ZERO, ingress, 100) != Arrival::Kept(None)).unwrap_or(0);
    assert_eq!(fill(0), 9, "a ninth of 8,000 bytes is an eighth of what is left");
    assert_eq!(fill(1), 36, "half of what is left then");
    let kept = (0..100).filter(|_| buffer.arrive(Picos::ZERO, 1, 100) != Arrival::Lost).count();
    assert_eq!(kept, 20, "then its headroom");
}

//! Losses, timeouts, and QPs that give up.

use kelpie_packets::Unfinished::{GaveUp, Stuck, Waits};
use kelpie_packets::congestion::Algorithm;
use kelpie_packets::{Network, NodeKind, Recovery, Settings, Trigger, WindowRule};

use crate::common::*;

#[test]
fn losses_end_by_timeouts() {
    // One packet each: a lost one is never missed by what follows.
    let mut traffic = flows(&[(0, 1), (2, 1)], 1);
    traffic.messages = (0..400).map(|number| message(number % 2, 900)).collect();
    for (number, message) in (0..).zip(&mut traffic.messages) {
        message.start_ns = number * 2_000_000;
    }
    let outcome = simulate(&lossy(star(3, 100.0), 0.01), &settings(Algorithm::None), &traffic);
    assert_ended(&traffic, &outcome);
    let counters = outcome.counters;
    assert!(counters.losses >= 8 && counters.timeouts == counters.losses, "{counters:?}");
    let slowest = outcome.messages.iter().filter_map(|message| Some(message.done? - message.posted?)).max();
    assert!(slowest > Some(1_000_000) && slowest < Some(3_100_000), "{slowest:?}");
}

#[test]
fn losses_within_a_message_are_said() {
    let traffic = flows(&[(0, 1), (2, 1)], 1_000_000);
    for acks_first in [true, false] {
        let settings = Settings { acks_first, ..settings(Algorithm::Dcqcn(dcqcn())) };
        let outcome = simulate(&lossy(star(3, 100.0), 0.01), &settings, &traffic);
        assert_ended(&traffic, &outcome);
        assert!(outcome.counters.retransmissions > 100 && outcome.counters.losses > 20);
    }
}

#[test]
fn pauses_are_not_lost_by_chance() {
    let traffic = incast(8, 300_000);
    let mut settings = settings(Algorithm::None);
    settings.buffer.capacity = 1 << 20;
    let outcome = simulate(&lossy(star(9, 100.0), 0.02), &settings, &traffic);
    assert_ended(&traffic, &outcome);
    assert!(outcome.counters.pfc_pauses > 10 && outcome.counters.drops == 0);
}

#[test]
fn a_qp_that_reaches_nobody_gives_up_and_says_so() {
    let mut network = star(3, 100.0);
    network.links[1].loss = 1.0;
    let mut traffic = flows(&[(0, 1), (0, 2), (2, 0)], 50_000);
    traffic.messages.push(message(0, 10));
    traffic.messages.push(message(1, 10));
    traffic.waits = vec![wait(0, Trigger::Sent, 4)];
    let settings = settings(Algorithm::None);
    let outcome = simulate(&network, &settings, &traffic);
    assert_eq!(outcome.unfinished().collect::<Vec<_>>(), [(0, GaveUp), (3, GaveUp), (4, Waits)]);
    assert_conserved(&outcome);
    assert_eq!((outcome.qps[0].timeouts, outcome.qps[0].received_bytes), (8, 0));
    assert!(outcome.qps[0].gave_up && !outcome.qps[1].gave_up && outcome.messages[1].done.is_some());
    // Eight timeouts of 1 ms after the first packet.
    assert!((8_000_000..8_020_000).contains(&outcome.end_ns), "{}", outcome.end_ns);
}

#[test]
fn without_timeouts_a_lost_message_is_stuck_and_the_run_ends() {
    let mut network = star(2, 100.0);
    network.links[1].loss = 1.0;
    let settings = Settings { timeout_ns: u64::MAX, ..settings(Algorithm::None) };
    let outcome = simulate(&network, &settings, &flows(&[(0, 1)], 5000));
    assert_eq!(outcome.unfinished().collect::<Vec<_>>(), [(0, Stuck)]);
    assert!(outcome.end_ns < 10_000);
}

#[test]
fn a_deadlock_of_pauses_ends_and_names_its_ports() {
    // Five switches in a ring; each host sends to the one two switches on, so that each buffer waits for the next.
    let mut nodes = vec![NodeKind::Host; 10];
    nodes.resize(15, NodeKind::Switch);
    let mut links: Vec<_> = (0..10).map(|host| link(host, 10 + host / 2, 100.0, 1000)).collect();
    links.extend((0..5).map(|switch| link(10 + switch, 10 + (switch + 1) % 5, 100.0, 1000)));
    let pairs: Vec<(u32, u32)> = (0..10).map(|host| (host, (host + 4) % 10)).collect();
    let mut settings = settings(Algorithm::None);
    settings.buffer.capacity = 250 << 10;
    let network = Network { nodes, links };
    let outcome = simulate(&network, &settings, &flows(&pairs, 2_000_000));
    let ring: Vec<u32> = outcome.deadlocked.iter().filter(|port| port.link >= 10).map(|port| port.node).collect();
    assert_eq!(ring, [10, 11, 12, 13, 14], "{:?}", outcome.deadlocked);
    assert!(outcome.unfinished().count() >= 5 && outcome.unfinished().all(|one| one.1 == GaveUp));
    // Congestion control that keeps queues below the thresholds has no deadlock.
    settings.algorithm = Algorithm::Dcqcn(dcqcn());
    settings.buffer.capacity = 4 << 20;
    let traffic = flows(&pairs, 2_000_000);
    assert_ended(&traffic, &simulate(&network, &settings, &traffic));
}

/// Go back, or as IRN does with its timeouts.
fn recovery(recovery: Recovery) -> Settings {
    Settings { recovery, timeout_ns: 320_000, window: WindowRule::Bdp, ..settings(Algorithm::None) }
}

#[test]
fn selective_repeat_sends_what_was_lost_and_little_else() {
    let traffic = flows(&[(0, 1), (2, 3)], 4_000_000);
    for loss in [0.0, 0.01, 0.1] {
        let outcome = simulate(&lossy(star(4, 100.0), loss), &recovery(Recovery::IRN), &traffic);
        assert_ended(&traffic, &outcome);
        let counters = outcome.counters;
        let allowed = counters.losses + 3 * counters.timeouts;
        assert!(counters.retransmissions <= allowed, "{loss}: {counters:?}");
        // Two losses in a row wait for a timeout, one does not; a message may end with a lost packet or two.
        let twice = 8000.0 * (2.0 * loss) * (4.0 * loss);
        assert!(counters.timeouts as f64 <= 2.0 * twice + 4.0, "{loss}: {counters:?}");
    }
}

#[test]
fn selective_repeat_beats_going_back_at_a_loss_of_one_in_a_hundred() {
    let traffic = flows(&[(0, 1)], 10_000_000);
    let network = lossy(star(2, 100.0), 0.005);
    let time = |settings: &Settings| {
        let outcome = simulate(&network, settings, &traffic);
        assert_ended(&traffic, &outcome);
        outcome.messages[0].done.map_or(f64::NAN, |time| time as f64)
    };
    let (selective, back) = (time(&recovery(Recovery::IRN)), time(&recovery(Recovery::GoBackN)));
    let ideal = 10_480_000.0 * 8.0 / 100.0;
    // A window that is full until the missing packet has come costs up to a round trip for each loss.
    assert!(ideal / selective > 0.6 && ideal / back < 0.45, "{selective} {back}");
}

#[test]
fn what_is_repeated_selectively_arrives_in_the_order_of_messages() {
    let mut traffic = flows(&[(0, 1)], 1);
    traffic.messages = (0..500).map(|number| message(0, 1 + number * 7)).collect();
    traffic.waits = vec![wait(250, Trigger::Sent, 499)];
    let outcome = simulate(&lossy(star(2, 100.0), 0.03), &recovery(Recovery::IRN), &traffic);
    assert_ended(&traffic, &outcome);
    assert!(outcome.messages.is_sorted_by_key(|message| message.received));
    assert!(outcome.counters.losses > 20);
}

#[test]
fn short_timeouts_make_no_storm_and_no_early_error() {
    let mut network = star(2, 100.0);
    network.links[1].loss = 1.0;
    let settings = Settings { timeout_ns: 1_000_000, ..recovery(Recovery::IRN) };
    let outcome = simulate(&network, &settings, &flows(&[(0, 1)], 2000));
    assert_eq!(outcome.unfinished().collect::<Vec<_>>(), [(0, GaveUp)]);
    // 100, 200, 400, 800 µs, then 1 ms each until eight long timeouts have passed.
    assert!((8_000_000..9_100_000).contains(&outcome.end_ns), "{}", outcome.end_ns);
    assert!((10..=12).contains(&outcome.qps[0].timeouts), "{:?}", outcome.qps);
    assert_conserved(&outcome);
}

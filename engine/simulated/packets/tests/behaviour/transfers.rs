//! Traffic on networks that lose nothing.

use kelpie_packets::Unfinished::{OutOfTime, Waits};
use kelpie_packets::congestion::Algorithm;
use kelpie_packets::{MessageForm, NodeKind, RunError, Traffic, Trigger, run};

use crate::common::*;

/// Time of `bytes` and the overhead of their packets on a link. Units: ns.
fn wire(bytes: u64, gbps: f64) -> f64 {
    (bytes + bytes.div_ceil(1000) * 48) as f64 * 8.0 / gbps
}

#[test]
fn a_message_takes_its_time_on_the_wire_and_that_of_its_first_packet_on_later_links() {
    for (gbps, bytes) in [(100.0, 1), (100.0, 1000), (100.0, 1001), (100.0, 999_999), (800.0, 3_333_333), (400.0, 77)] {
        let traffic = flows(&[(0, 1)], bytes);
        let outcome = simulate(&star(2, gbps), &settings(Algorithm::None), &traffic);
        assert_ended(&traffic, &outcome);
        // Store and forward: the last packet follows the others onto the second link.
        let last = if bytes % 1000 == 0 { 1000 } else { bytes % 1000 };
        let first = wire(bytes.min(1000), gbps).max(wire(last, gbps));
        let expected = 2000.0 + wire(bytes, gbps) + if bytes > 1000 { first } else { wire(bytes, gbps) };
        let received = outcome.messages[0].received.map_or(f64::NAN, |time| time as f64);
        let slack = 2.0 + (1048.0 - (last + 48) as f64) * 8.0 / gbps;
        assert!((received - expected).abs() <= slack, "{bytes} at {gbps}: {received}, not {expected}");
        assert_eq!(outcome.counters.retransmissions + outcome.counters.drops + outcome.counters.losses, 0);
    }
}

#[test]
fn messages_of_a_qp_follow_each_other_without_a_gap() {
    let mut traffic = flows(&[(0, 1)], 1500);
    traffic.messages = (0..50).map(|number| message(0, 1500 + number)).collect();
    let outcome = simulate(&star(2, 100.0), &settings(Algorithm::None), &traffic);
    assert_ended(&traffic, &outcome);
    let times: Vec<u64> = outcome.messages.iter().filter_map(|message| message.received).collect();
    assert!(times.is_sorted());
    let bytes: f64 = traffic.messages.iter().map(|message| wire(message.bytes, 100.0)).sum();
    let span = times[49] as f64 - 2000.0;
    assert!((span - bytes).abs() < wire(1000, 100.0) + 5.0, "{span} for {bytes}");
}

#[test]
fn a_chain_waits_for_what_it_names_and_for_its_delays() {
    let mut traffic = flows(&[(0, 1), (1, 2), (0, 2)], 10_000);
    traffic.messages = [0, 1, 2, 2].map(|qp| message(qp, 10_000)).to_vec();
    traffic.messages[1].start_ns = 5000;
    traffic.messages[2].start_ns = 700;
    traffic.waits = vec![
        wait(0, Trigger::Received, 1),
        wait(0, Trigger::Sent, 2),
        wait(0, Trigger::Sent, 3),
        wait(2, Trigger::Sent, 3),
    ];
    let outcome = simulate(&star(3, 100.0), &settings(Algorithm::None), &traffic);
    assert_ended(&traffic, &outcome);
    let at = &outcome.messages;
    assert_eq!(at[1].posted, at[0].received.map(|time| time + 5000));
    assert_eq!(at[2].posted, at[0].done.map(|time| time + 700));
    assert_eq!(at[3].posted, at[2].done);
}

#[test]
fn classes_share_a_link_in_turns() {
    let mut traffic = flows(&[(1, 0), (2, 0), (3, 0)], 300_000);
    (traffic.qps[0].class, traffic.qps[1].class) = (1, 5);
    let outcome = simulate(&star(4, 100.0), &settings(Algorithm::None), &traffic);
    assert_ended(&traffic, &outcome);
    let times: Vec<f64> = outcome.messages.iter().filter_map(|message| Some(message.received? as f64)).collect();
    let all = wire(900_000, 100.0);
    assert!(
        times.iter().all(|time| (time - 2000.0) / all > 0.97 && (time - 2000.0) / all < 1.03),
        "{times:?} of {all}"
    );
    traffic.qps.push(qp(1, 2));
    traffic.qps.push(qp(2, 3));
    (traffic.qps[3].class, traffic.qps[4].class) = (6, 7);
    let wrong = run(&star(4, 100.0), &settings(Algorithm::None), &traffic, &[], 1);
    assert_eq!(wrong, Err(RunError::Classes));
}

#[test]
fn a_class_that_is_paused_does_not_hold_another_one() {
    // Host 3 sends to the crowded host 0 in one class and to host 4 in another.
    let mut traffic = flows(&[(1, 0), (2, 0), (3, 0), (3, 4)], 500_000);
    traffic.qps[3].class = 0;
    traffic.messages[3].start_ns = 30_000;
    let mut settings = settings(Algorithm::None);
    settings.buffer.capacity = 600 << 10;
    let outcome = simulate(&star(5, 100.0), &settings, &traffic);
    assert_ended(&traffic, &outcome);
    assert!(outcome.counters.pfc_pauses > 10);
    let free = outcome.messages[3].received.map_or(0, |time| time - 30_000) as f64;
    assert!(free < 2000.0 + wire(500_000, 100.0) * 2.1, "{free}");
    assert!(outcome.messages[2].received > outcome.messages[3].received);
}

#[test]
fn acknowledgements_go_before_data_or_wait_behind_it() {
    // Both directions are busy: what waits behind data comes later.
    let traffic = flows(&[(0, 1), (1, 0), (2, 0), (2, 1)], 200_000);
    let mut settings = settings(Algorithm::None);
    let first = simulate(&star(3, 100.0), &settings, &traffic);
    settings.acks_first = false;
    let behind = simulate(&star(3, 100.0), &settings, &traffic);
    for outcome in [&first, &behind] {
        assert_ended(&traffic, outcome);
    }
    let wait = |outcome: &kelpie_packets::Outcome| {
        let waits = outcome.messages.iter().filter_map(|message| Some(message.done? - message.received?));
        waits.max().unwrap_or(0)
    };
    assert!(wait(&first) < 2300 && wait(&behind) > 2 * wait(&first), "{} {}", wait(&first), wait(&behind));
}

#[test]
fn fewer_acknowledgements_end_a_message_as_well() {
    let traffic = flows(&[(0, 1), (2, 1)], 10_500);
    for packets_per_ack in [1, 4, 1000] {
        let settings = kelpie_packets::Settings { packets_per_ack, ..settings(Algorithm::None) };
        let outcome = simulate(&star(3, 100.0), &settings, &traffic);
        assert_ended(&traffic, &outcome);
        let acks = outcome.counters.sent_packets - 22;
        assert_eq!(acks, 2 * 11_u64.div_ceil(u64::from(packets_per_ack)));
    }
}

#[test]
fn an_incast_under_pfc_loses_nothing_and_without_pfc_something() {
    let traffic = incast(8, 300_000);
    let mut settings = settings(Algorithm::None);
    settings.buffer.capacity = 1 << 20;
    let kept = simulate(&star(9, 100.0), &settings, &traffic);
    assert_ended(&traffic, &kept);
    assert!(kept.counters.pfc_pauses > 0 && kept.counters.drops == 0);
    settings.buffer.pfc = false;
    let dropped = simulate(&star(9, 100.0), &settings, &traffic);
    assert_ended(&traffic, &dropped);
    assert!(dropped.counters.pfc_pauses == 0 && dropped.counters.drops > 0);
}

#[test]
fn a_crossbar_neither_marks_nor_pauses() {
    let mut network = star(9, 100.0);
    network.nodes[9] = NodeKind::Crossbar;
    let traffic = incast(8, 300_000);
    let mut settings = settings(Algorithm::Dcqcn(dcqcn()));
    settings.ecn.clear();
    settings.buffer.capacity = 1;
    let outcome = simulate(&network, &settings, &traffic);
    assert_ended(&traffic, &outcome);
    assert_eq!((outcome.counters.ecn_marks, outcome.counters.pfc_pauses, outcome.counters.drops), (0, 0, 0));
}

#[test]
fn what_cannot_be_is_an_error_that_says_so() {
    let traffic = flows(&[(0, 1)], 1000);
    let good = settings(Algorithm::None);
    let error = |network: &kelpie_packets::Network, settings: &kelpie_packets::Settings, traffic: &Traffic| {
        run(network, settings, traffic, &[], 1).expect_err("it cannot be").to_string()
    };
    let mut small = good.clone();
    small.buffer.capacity = 50_000;
    let text = error(&star(2, 400.0), &small, &traffic);
    assert!(text.contains("switch 2") && text.contains("50000") && text.contains("308192"), "{text}");
    let text = error(&star(2, 1600.0), &good, &traffic);
    assert!(text.contains("1600 Gbit/s") && text.contains("ECN"), "{text}");
    let mut broken = star(2, 100.0);
    broken.links[1].loss = 1.5;
    assert!(error(&broken, &good, &traffic).contains("link 1"));
    let mut apart = star(2, 100.0);
    apart.links.pop();
    assert!(error(&apart, &good, &traffic).contains("QP 0"));
    let nothing = kelpie_packets::Settings { payload: 0, ..good.clone() };
    assert!(error(&star(2, 100.0), &nothing, &traffic).contains("payload"));
    let mut nobody = traffic.clone();
    nobody.messages[0].qp = 1;
    assert!(error(&star(2, 100.0), &good, &nobody).contains("message 0"));
    // A message leaves from where what it waits for happens.
    let mut elsewhere = flows(&[(0, 1), (0, 2)], 1000);
    elsewhere.waits = vec![wait(0, Trigger::Received, 1)];
    assert!(error(&star(3, 100.0), &good, &elsewhere).contains("message 1"));
}

#[test]
fn messages_that_never_begin_or_have_no_time_say_why() {
    let mut traffic = flows(&[(0, 1), (1, 0)], 1_000_000);
    traffic.messages.push(MessageForm { qp: 0, bytes: 1, start_ns: 0 });
    // Two that wait for each other.
    traffic.waits = vec![wait(1, Trigger::Received, 2), wait(2, Trigger::Received, 1)];
    let mut settings = settings(Algorithm::None);
    let outcome = simulate(&star(2, 100.0), &settings, &traffic);
    assert_eq!(outcome.unfinished().collect::<Vec<_>>(), [(1, Waits), (2, Waits)]);
    assert_eq!(outcome.messages[1].posted, None);
    settings.end_ns = 20_000;
    let outcome = simulate(&star(2, 100.0), &settings, &traffic);
    assert_eq!(outcome.unfinished().collect::<Vec<_>>(), [(0, OutOfTime), (1, Waits), (2, Waits)]);
    assert!(outcome.end_ns < 20_000 && outcome.qps[0].received_bytes > 100_000);
}

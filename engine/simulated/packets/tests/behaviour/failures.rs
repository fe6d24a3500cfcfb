//! Links that fail and are repaired.

use kelpie_packets::congestion::Algorithm;
use kelpie_packets::{LinkEvent, MessageForm, Network, NodeKind, RunError, Settings, Traffic, Unfinished, run};

use crate::common::*;

fn event(at_ns: u64, link: u32, works: bool) -> LinkEvent {
    LinkEvent { at_ns, link, works, detected_after_ns: 50_000 }
}

/// The spine link that the only QP of this traffic crosses.
fn used(network: &Network, settings: &Settings, traffic: &Traffic) -> u32 {
    let outcome = simulate(network, settings, traffic);
    let data = |link: &u32| outcome.links[*link as usize].iter().any(|end| end.bytes > 500_000);
    let hosts = network.nodes.iter().filter(|kind| **kind == NodeKind::Host).count() as u32;
    (hosts..network.links.len() as u32).find(data).expect("a link between switches was used")
}

#[test]
fn a_failed_link_is_gone_around_once_that_is_known() {
    let network = leaves(2, 2, 1, [100.0, 100.0], 1000);
    let traffic = flows(&[(0, 1)], 2_000_000);
    let settings = settings(Algorithm::None);
    let link = used(&network, &settings, &traffic);
    let outcome = simulate_with(&network, &settings, &traffic, &[event(20_000, link, false)]);
    assert_ended(&traffic, &outcome);
    // What was sent until the failure is known is lost, and comes again by the other spine after a timeout.
    let losses = outcome.counters.losses;
    assert!((500..800).contains(&losses), "{losses}");
    assert!(!outcome.qps[0].gave_up);
    let others: u64 = outcome.links[2..].iter().flatten().map(|end| end.bytes).sum();
    assert!(others > 4_000_000 && outcome.end_ns < 2_000_000, "{others} {}", outcome.end_ns);
}

#[test]
fn a_link_that_is_repaired_goes_on() {
    let network = star(3, 100.0);
    let traffic = flows(&[(0, 1), (2, 1)], 2_000_000);
    let events = [event(20_000, 0, false), event(2_500_000, 0, true)];
    let outcome = simulate_with(&network, &settings(Algorithm::None), &traffic, &events);
    assert_ended(&traffic, &outcome);
    assert!(outcome.messages[0].received > Some(2_500_000) && outcome.messages[1].received < Some(400_000));
    assert!(outcome.qps[0].timeouts > 0 && outcome.qps[1].timeouts == 0);
}

#[test]
fn a_link_that_is_not_repaired_makes_an_error() {
    let traffic = flows(&[(0, 1), (2, 1)], 2_000_000);
    let outcome = simulate_with(&star(3, 100.0), &settings(Algorithm::None), &traffic, &[event(20_000, 0, false)]);
    assert_eq!(outcome.unfinished().collect::<Vec<_>>(), [(0, Unfinished::GaveUp)]);
    assert_conserved(&outcome);
    let wrong = run(&star(3, 100.0), &settings(Algorithm::None), &traffic, &[event(0, 3, false)], 1);
    assert_eq!(wrong, Err(RunError::Event { event: 0 }));
}

#[test]
fn a_host_with_two_ports_goes_on_by_the_other_one() {
    // Hosts 0 to 3 on both leaves, 4 and 5.
    let mut nodes = vec![NodeKind::Host; 4];
    nodes.resize(6, NodeKind::Switch);
    let links = (0..4).flat_map(|host| [link(host, 4, 100.0, 1000), link(host, 5, 100.0, 1000)]).collect();
    let network = Network { nodes, links };
    let mut traffic = flows(&[(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)], 1_000_000);
    for (number, qp) in (0..).zip(&mut traffic.qps) {
        qp.ports[0] += number;
    }
    for algorithm in [Algorithm::None, Algorithm::Dcqcn(dcqcn())] {
        for failed in [0, 1] {
            let events = [event(20_000, failed, false)];
            let outcome = simulate_with(&network, &settings(algorithm), &traffic, &events);
            assert_ended(&traffic, &outcome);
            assert!(outcome.counters.losses > 0);
            let two = run(&network, &settings(algorithm), &traffic, &events, 2);
            assert_eq!(Ok(outcome), two);
        }
    }
}

#[test]
fn pauses_do_not_outlive_a_failure() {
    // The incast pauses all senders; one of their links fails meanwhile, and comes back.
    let traffic = incast(8, 500_000);
    let mut settings = settings(Algorithm::None);
    settings.buffer.capacity = 1 << 20;
    for (down, up) in [(60_000, 61_000), (100_000, 100_100), (60_000, 200_000)] {
        let events = [event(down, 3, false), event(up, 3, true)];
        let outcome = simulate_with(&star(9, 100.0), &settings, &traffic, &events);
        assert_ended(&traffic, &outcome);
        assert_eq!(outcome.counters.drops, 0);
    }
}

#[test]
fn what_leaves_at_a_repair_reaches_other_threads_in_time() {
    // A repaired link hears at once that it is paused. Little else happens meanwhile: the crowded host's link is slow.
    let mut settings = settings(Algorithm::None);
    settings.buffer.capacity = 600 << 10;
    settings.ecn.clear();
    let mut network = star(9, 100.0);
    network.links[0].gbps = 1.0;
    for repaired in (140_000..150_000).step_by(1_100) {
        let mut traffic = incast(8, 200_000);
        traffic.messages.push(MessageForm { qp: 7, bytes: 1000, start_ns: repaired + 3_000 });
        let events = [event(repaired - 40_000, 7, false), event(repaired, 7, true)];
        let one = run(&network, &settings, &traffic, &events, 1);
        assert!(one.as_ref().is_ok_and(|one| one.counters.pfc_pauses > 8));
        assert_eq!(one, run(&network, &settings, &traffic, &events, 3));
    }
}

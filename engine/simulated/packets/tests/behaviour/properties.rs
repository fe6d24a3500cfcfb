//! What holds on any network.

use kelpie_packets::congestion::{Algorithm, Dcqcn, Dctcp, Hpcc, Pint, Swift, Timely};
use kelpie_packets::{
    LinkEvent, MarkEcho, MessageForm, Network, QpForm, Recovery, Settings, Traffic, Trigger, WindowRule, run,
};
use proptest::prelude::*;

use crate::common::*;

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let hpcc = Hpcc { target: 0.95, additive: 40e6, most_rises: 0, least: 100e6, reacts_fast: true };
    let timely = Timely {
        alpha: 0.875,
        beta: 0.8,
        low: 10e3,
        high: 100e3,
        least_rtt: 5e3,
        additive: 100e6,
        hyper: 500e6,
        least: 100e6,
    };
    let dctcp = Dctcp { gain: 0.0625, additive: 600e6, least: 100e6 };
    prop_oneof![
        Just(Algorithm::None),
        Just(Algorithm::Dcqcn(dcqcn())),
        Just(Algorithm::Hpcc(hpcc)),
        Just(Algorithm::Timely(timely)),
        Just(Algorithm::Dctcp(dctcp)),
        Just(Algorithm::Pint(Pint::of_hpcc_simulator(25e9))),
        Just(Algorithm::Swift(Swift::of_round_trip(8000.0))),
        Just(Algorithm::Dcqcn(Dcqcn::of_paper(25e9))),
    ]
}

/// Trees of two tiers, and what a packet finds there.
fn networks() -> impl Strategy<Value = Network> {
    let rates = prop_oneof![Just([100.0, 100.0]), Just([25.0, 100.0]), Just([400.0, 100.0]), Just([100.0, 400.0])];
    (1..4u32, 1..4u32, 2..5u32, rates, 1000..3000u32)
        .prop_map(|(leaf_count, spines, hosts, gbps, delay)| leaves(leaf_count, spines, hosts, gbps, delay))
}

/// QPs between any hosts, some of them towards one, with messages that may wait for earlier ones.
fn traffic(network: &Network) -> impl Strategy<Value = Traffic> + use<> {
    let hosts = network.nodes.iter().filter(|kind| **kind == kelpie_packets::NodeKind::Host).count() as u32;
    let pair = (0..hosts, 1..hosts, any::<bool>(), 0..2u8, any::<u16>());
    let qps = prop::collection::vec(pair, 2..16);
    let message = (any::<prop::sample::Index>(), 1..60_000u64, 0..5_000u64, any::<prop::sample::Index>(), 0..4u8);
    (qps, prop::collection::vec(message, 4..40)).prop_map(move |(qps, messages)| {
        let form = |(from, step, is_incast, class, port): (u32, u32, bool, u8, u16)| {
            let (from, to) = if is_incast { (step, 0) } else { (from, (from + step) % hosts) };
            QpForm { from, to, class, ports: [port, 100] }
        };
        let qps: Vec<QpForm> = qps.into_iter().map(form).collect();
        let mut traffic = Traffic { qps, ..Traffic::default() };
        for (number, (qp, bytes, start_ns, cause, kind)) in (0..).zip(messages) {
            let qp = qp.index(traffic.qps.len()) as u32;
            if number > 0 && kind < 2 {
                let cause = cause.index(number as usize) as u32;
                let before = traffic.qps[traffic.messages[cause as usize].qp as usize];
                let from = traffic.qps[qp as usize].from;
                let trigger = if kind == 0 { Trigger::Received } else { Trigger::Sent };
                if from == if kind == 0 { before.to } else { before.from } {
                    traffic.waits.push((cause, trigger, number));
                }
            }
            traffic.messages.push(MessageForm { qp, bytes, start_ns });
        }
        traffic
    })
}

/// A buffer that has this many bytes beside what ports need for themselves.
fn with_buffer(network: &Network, settings: &mut Settings, shared: u64) {
    settings.buffer.headroom_delays = 6.0;
    let switches =
        (0..network.nodes.len() as u32).filter(|node| network.nodes[*node as usize] != kelpie_packets::NodeKind::Host);
    let needed = |switch: u32| -> u64 {
        let links = network.links.iter().filter(|link| link.ends.contains(&switch));
        links
            .map(|link| 2 * (settings.buffer.reserve + (link.gbps * f64::from(link.delay_ns) / 8.0 * 6.0) as u64))
            .sum()
    };
    settings.buffer.capacity = shared + switches.map(needed).max().unwrap_or(0);
}

fn cases() -> impl Strategy<Value = (Network, Traffic, Settings)> {
    let choices = (
        algorithms(),
        20_000..200_000u64,
        any::<bool>(),
        any::<bool>(),
        1..5u32,
        0..3u8,
        (any::<bool>(), any::<bool>()),
    );
    let settings =
        choices.prop_map(|(algorithm, shared, acks_first, whole_ns, packets_per_ack, window, (cnp, selective))| {
            let window = [WindowRule::None, WindowRule::Bdp, WindowRule::LargestBdp][usize::from(window)];
            let echo = if cnp { MarkEcho::Cnp(4000) } else { MarkEcho::Acknowledgement };
            let recovery = if selective { Recovery::IRN } else { Recovery::GoBackN };
            let settings =
                Settings { acks_first, whole_ns, packets_per_ack, window, echo, recovery, ..settings(algorithm) };
            (settings, shared)
        });
    (networks().prop_flat_map(|network| (traffic(&network), Just(network))), settings).prop_map(
        |((traffic, network), (mut settings, shared))| {
            with_buffer(&network, &mut settings, shared);
            (network, traffic, settings)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn pfc_loses_nothing_and_ends_on_trees((network, traffic, settings) in cases()) {
        let outcome = simulate(&network, &settings, &traffic);
        assert_ended(&traffic, &outcome);
        prop_assert_eq!(outcome.counters.drops + outcome.counters.losses, 0);
        // Selective repeat has short timeouts, which long pauses outlast.
        if settings.recovery == Recovery::GoBackN {
            prop_assert_eq!(outcome.counters.retransmissions, 0);
        }
    }

    #[test]
    fn lossy_networks_deliver_all_or_say_what_they_did_not(
        (network, traffic, settings) in cases(), loss in 0.0..0.05f64, pfc in any::<bool>(),
    ) {
        let mut settings = settings;
        (settings.buffer.pfc, settings.timeout_ns, settings.retries) = (pfc, 200_000, 20);
        let outcome = simulate(&lossy(network, loss), &settings, &traffic);
        assert_ended(&traffic, &outcome);
    }

    #[test]
    fn the_number_of_threads_changes_nothing(
        (network, traffic, settings) in cases(), loss in prop_oneof![Just(0.0), 0.0..0.02f64],
        failures in prop::collection::vec((any::<prop::sample::Index>(), 0..60_000u64, 0..60_000u64), 0..3),
    ) {
        let network = lossy(network, loss);
        let events: Vec<LinkEvent> = failures.iter().flat_map(|(link, at, during)| {
            let link = link.index(network.links.len()) as u32;
            [(*at, false), (at + during, true)].map(|(at_ns, works)| LinkEvent {
                at_ns,
                link,
                works,
                detected_after_ns: 10_000,
            })
        }).collect();
        let mut settings = settings;
        settings.timeout_ns = 200_000;
        let one = run(&network, &settings, &traffic, &events, 1);
        for threads in [2, 3] {
            prop_assert_eq!(&run(&network, &settings, &traffic, &events, threads), &one);
        }
        let one = one.expect("the run begins");
        assert_conserved(&one);
        assert_ended(&traffic, &one);
    }
}

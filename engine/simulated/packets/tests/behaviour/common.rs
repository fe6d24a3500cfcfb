//! Small networks and settings.

use kelpie_packets::congestion::{Algorithm, Dcqcn, Dctcp, Hpcc, Pint, Swift, Timely};
use kelpie_packets::{
    EcnCurve, Link, LinkEvent, MessageForm, Network, NodeKind, Outcome, QpForm, Settings, Traffic, Trigger, WindowRule,
    run,
};

pub fn link(a: u32, b: u32, gbps: f64, delay_ns: u32) -> Link {
    Link { ends: [a, b], gbps, delay_ns, loss: 0.0 }
}

/// Hosts on one switch, which has the number behind theirs.
pub fn star(hosts: u32, gbps: f64) -> Network {
    let mut nodes = vec![NodeKind::Host; hosts as usize];
    nodes.push(NodeKind::Switch);
    Network { nodes, links: (0..hosts).map(|host| link(host, hosts, gbps, 1000)).collect() }
}

/// Hosts, then leaves, then spines; every leaf has a link to every spine.
pub fn leaves(leaves: u32, spines: u32, hosts_each: u32, gbps: [f64; 2], delay_ns: u32) -> Network {
    let hosts = leaves * hosts_each;
    let mut nodes = vec![NodeKind::Host; hosts as usize];
    nodes.resize((hosts + leaves + spines) as usize, NodeKind::Switch);
    let mut links: Vec<Link> =
        (0..hosts).map(|host| link(host, hosts + host / hosts_each, gbps[0], delay_ns)).collect();
    for leaf in 0..leaves {
        links.extend((0..spines).map(|spine| link(hosts + leaf, hosts + leaves + spine, gbps[1], delay_ns)));
    }
    Network { nodes, links }
}

pub fn lossy(mut network: Network, loss: f64) -> Network {
    network.links.iter_mut().for_each(|link| link.loss = loss);
    network
}

pub fn qp(from: u32, to: u32) -> QpForm {
    QpForm { from, to, class: 3, ports: [10_000, 100] }
}

/// A message of so many bytes on a QP of its own for each pair.
pub fn flows(pairs: &[(u32, u32)], bytes: u64) -> Traffic {
    Traffic {
        qps: pairs.iter().map(|(from, to)| qp(*from, *to)).collect(),
        messages: (0..pairs.len() as u32).map(|qp| MessageForm { qp, bytes, start_ns: 0 }).collect(),
        waits: Vec::new(),
    }
}

/// All hosts but the first one send to it.
pub fn incast(senders: u32, bytes: u64) -> Traffic {
    flows(&(1..=senders).map(|from| (from, 0)).collect::<Vec<_>>(), bytes)
}

pub fn message(qp: u32, bytes: u64) -> MessageForm {
    MessageForm { qp, bytes, start_ns: 0 }
}

pub fn wait(cause: u32, trigger: Trigger, effect: u32) -> (u32, Trigger, u32) {
    (cause, trigger, effect)
}

pub fn dcqcn() -> Dcqcn {
    Dcqcn {
        gain: 1.0 / 256.0,
        alpha_interval: 1000,
        decrease_interval: 4000,
        increase_interval: 30_000,
        byte_counter: None,
        recoveries: 1,
        additive: 200e6,
        hyper: 2000e6,
        least: 100e6,
        clamps_target: false,
    }
}

pub fn settings(algorithm: Algorithm) -> Settings {
    let curve = EcnCurve { kmin: 20e3, kmax: 100e3, pmax: 0.2 };
    let mut settings = Settings {
        ecn: [25.0, 40.0, 100.0, 400.0, 800.0].map(|gbps| (gbps, curve)).to_vec(),
        largest_rtt: false,
        nack_interval_ns: 50_000,
        timeout_ns: 1_000_000,
        end_ns: 10_000_000_000,
        ..Settings::base(algorithm)
    };
    settings.buffer.capacity = 4 << 20;
    settings
}

/// Settings with the marks of an algorithm for links of a rate, as its paper has them.
pub fn of_paper(algorithm: Algorithm, gbps: f64) -> Settings {
    let mut settings = settings(algorithm);
    let curve = match algorithm {
        Algorithm::Dcqcn(_) => Some(Dcqcn::curve_of_paper(gbps * 1e9)),
        Algorithm::Dctcp(_) => Some(Dctcp::curve_of_paper(gbps * 1e9)),
        _ => None,
    };
    settings.ecn = curve.map(|curve| (gbps, curve)).into_iter().collect();
    if let Algorithm::Dcqcn(_) = algorithm {
        settings.echo = Dcqcn::CNP_OF_PAPER;
    }
    if let Algorithm::Hpcc(_) | Algorithm::Pint(_) | Algorithm::Swift(_) = algorithm {
        (settings.window, settings.window_follows_rate) = (WindowRule::LargestBdp, true);
        settings.overhead += if matches!(algorithm, Algorithm::Hpcc(_)) { 42 } else { 1 };
    }
    settings
}

/// Every algorithm as its paper has it.
pub fn algorithms_of_papers(gbps: f64) -> Vec<Algorithm> {
    vec![
        Algorithm::Dcqcn(Dcqcn::of_paper(gbps * 1e9)),
        Algorithm::Hpcc(Hpcc::of_paper(gbps * 1e9)),
        Algorithm::Timely(Timely::of_paper(gbps * 1e9)),
        Algorithm::Dctcp(Dctcp::of_paper()),
        Algorithm::Pint(Pint::of_hpcc_simulator(gbps * 1e9)),
        Algorithm::Swift(Swift::of_round_trip(8000.0)),
    ]
}

/// Runs on one thread without events.
pub fn simulate(network: &Network, settings: &Settings, traffic: &Traffic) -> Outcome {
    simulate_with(network, settings, traffic, &[])
}

pub fn simulate_with(network: &Network, settings: &Settings, traffic: &Traffic, events: &[LinkEvent]) -> Outcome {
    run(network, settings, traffic, events, 1).expect("the run begins")
}

/// Every message ended, every byte of it arrived once, and no packet came from nowhere or went there.
pub fn assert_ended(traffic: &Traffic, outcome: &Outcome) {
    assert_eq!(outcome.unfinished().collect::<Vec<_>>(), []);
    assert_conserved(outcome);
    for (number, qp) in (0..).zip(&outcome.qps) {
        let messages = traffic.messages.iter().filter(|message| message.qp == number);
        assert_eq!(qp.received_bytes, messages.map(|message| message.bytes).sum::<u64>(), "QP {number}");
    }
    for message in &outcome.messages {
        assert!(message.posted < message.received && message.received < message.done, "{message:?}");
    }
}

/// What hosts sent came to hosts, or was lost on a link or in a switch. Only for runs that end by themselves.
pub fn assert_conserved(outcome: &Outcome) {
    let counters = &outcome.counters;
    assert_eq!(counters.sent_packets, counters.received_packets + counters.losses + counters.drops, "{counters:?}");
    assert_eq!(outcome.deadlocked, []);
    let resent: u64 = outcome.qps.iter().map(|qp| u64::from(qp.retransmissions)).sum();
    let timeouts: u64 = outcome.qps.iter().map(|qp| u64::from(qp.timeouts)).sum();
    assert_eq!((resent, timeouts), (counters.retransmissions, counters.timeouts));
    let pauses: u64 = outcome.links.iter().flatten().map(|end| u64::from(end.pauses)).sum();
    assert_eq!(pauses, counters.pfc_pauses);
}

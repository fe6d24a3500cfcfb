//! Long flows that share a link, as three papers plot them.

use kelpie_packets::congestion::{Algorithm, Dcqcn, Hpcc, Timely};
use kelpie_packets::{
    Link, MessageForm, Network, NodeKind, Outcome, QpForm, RunError, Settings, Traffic, Watch, WindowRule, run_watched,
};

/// Flows over time.
pub struct Scenario {
    /// What stands there.
    pub network: Network,
    /// How it behaves.
    pub settings: Settings,
    /// A message for each flow.
    pub traffic: Traffic,
    /// Time between samples. Units: ns.
    pub interval_ns: u64,
}

impl Scenario {
    /// Simulates it, with a sample of each flow at each interval.
    pub fn run(&self) -> Result<Outcome, RunError> {
        let watch = Watch { most: 1 << 20, ..Watch::all(&self.network, &self.traffic, self.interval_ns) };
        run_watched(&self.network, &self.settings, &self.traffic, &[], 1, &watch)
    }
}

/// Four senders write to one receiver, of which only the last one hangs on the same switch as the receiver: figures 2,
/// 3 and 8 of the paper of DCQCN, at 40 Gbit/s. The others share the links between switches.
pub fn dcqcn(algorithm: Algorithm, nanos: u64) -> Scenario {
    // Hosts 0 to 4; 5 and 6 are the switches of racks, 7 and 8 those between them.
    let mut links: Vec<Link> = [(0, 5), (1, 5), (2, 5), (3, 6), (4, 6)].map(|(a, b)| link(a, b, 40.0, 1000)).to_vec();
    links.extend([(5, 7), (7, 6)].map(|(a, b)| link(a, b, 40.0, 1000)));
    let mut settings = settings(algorithm, WindowRule::None, 48, nanos);
    settings.echo = Dcqcn::CNP_OF_PAPER;
    settings.ecn = vec![(40.0, Dcqcn::curve_of_paper(40e9))];
    let traffic = flows(&[0; 4], |flow| (flow, 4), |_| 1 << 40);
    Scenario { network: network(5, 3, links), settings, traffic, interval_ns: 50_000 }
}

/// Flows that come one after the other, one in each stage, and leave in the opposite order, on a star: each has the
/// bytes of its fair shares of what the link carries, a share of its rate.
fn stages(settings: Settings, gbps: f64, delay_ns: u32, stage_ns: u64, share: f64) -> Scenario {
    let links = (0..6).map(|host| link(host, 6, gbps, delay_ns)).collect();
    let of_stage = gbps / 8.0 * stage_ns as f64 * share;
    let bytes = |flow: u32| {
        // Flow n shares with n others at least, twice with each number but the largest.
        let parts = (flow + 1..=4).map(|flows| f64::from(2 - u32::from(flows == 4)) / f64::from(flows));
        (of_stage * parts.sum::<f64>()) as u64
    };
    let starts = [0, 1, 2, 3].map(|stage| stage * stage_ns);
    let mut traffic = flows(&starts, |flow| (flow + 1, 0), bytes);
    // A sixth host sends a little at random, without which flows fall into step and keep whatever shares they have.
    traffic.qps.push(QpForm { from: 5, to: 0, class: 3, ports: [10_000, 100] });
    let (mut state, mut start_ns) = (1u64, 0);
    let mean = 1000.0 * 8.0 / gbps / 0.01;
    while start_ns < 7 * stage_ns {
        traffic.messages.push(MessageForm { qp: 4, bytes: 1000, start_ns });
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        start_ns += (2.0 * mean * (state >> 33) as f64 / f64::from(1u32 << 31)) as u64;
    }
    Scenario { network: network(6, 1, links), settings, traffic, interval_ns: stage_ns / 200 }
}

/// TIMELY: four connections come and go at 10 Gbit/s.
pub fn timely(stage_ns: u64) -> Scenario {
    let settings = settings(Algorithm::Timely(Timely::of_paper(10e9)), WindowRule::None, 56, 100 * stage_ns);
    stages(settings, 10.0, 1000, stage_ns, 0.85)
}

/// HPCC: four flows come and go at 100 Gbit/s, with the round trip of the paper's simulations, 13 µs.
pub fn hpcc(stage_ns: u64) -> Scenario {
    let mut settings = settings(Algorithm::Hpcc(Hpcc::of_paper(100e9)), WindowRule::LargestBdp, 90, 100 * stage_ns);
    settings.window_follows_rate = true;
    stages(settings, 100.0, 3000, stage_ns, 0.95 * 1000.0 / 1090.0)
}

fn link(a: u32, b: u32, gbps: f64, delay_ns: u32) -> Link {
    Link { ends: [a, b], gbps, delay_ns, loss: 0.0 }
}

fn network(hosts: usize, switches: usize, links: Vec<Link>) -> Network {
    let mut nodes = vec![NodeKind::Host; hosts];
    nodes.resize(hosts + switches, NodeKind::Switch);
    Network { nodes, links }
}

/// A flow for each start, by its ends and bytes.
fn flows(starts: &[u64], ends: impl Fn(u32) -> (u32, u32), bytes: impl Fn(u32) -> u64) -> Traffic {
    let qp = |flow: u32| QpForm { from: ends(flow).0, to: ends(flow).1, class: 3, ports: [10_000 + flow as u16, 100] };
    let message = |(qp, start_ns): (u32, &u64)| MessageForm { qp, bytes: bytes(qp), start_ns: *start_ns };
    Traffic {
        qps: (0..starts.len() as u32).map(qp).collect(),
        messages: (0..).zip(starts).map(message).collect(),
        waits: Vec::new(),
    }
}

fn settings(algorithm: Algorithm, window: WindowRule, overhead: u32, end_ns: u64) -> Settings {
    let ack_bytes = 60.max(overhead + 12);
    let mut settings = Settings { overhead, ack_bytes, window, end_ns, ..Settings::base(algorithm) };
    settings.buffer.capacity = 12 << 20;
    settings
}

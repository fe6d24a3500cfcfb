//! How fast packets are simulated: permutations on fat trees of 16, 128 and 1,024 hosts, with DCQCN, PFC and ECMP.
//!
//! `cargo run --release -p kelpie-packets --example packet_speed [THREADS] [K] [BYTES]`. A fat tree of switches with K
//! ports has K³/4 hosts. Times are of the processor, not of the clock, on one thread. Source of the cases: csg-htsim's
//! fat trees.

use std::error::Error;
use std::time::Instant;

use kelpie_packets::congestion::{Algorithm, Dcqcn};
use kelpie_packets::{EcnCurve, Link, MessageForm, Network, NodeKind, Outcome, QpForm, Settings, Traffic, run};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let threads = arguments.first().copied().unwrap_or(1) as usize;
    let cases = match arguments.get(1) {
        Some(ports) => vec![(*ports as u32, arguments.get(2).copied().unwrap_or(2_000_000))],
        None => vec![(4, 10_000_000), (8, 10_000_000), (16, 2_000_000)],
    };
    println!("hosts | hops | events/hop | s of processor | s of clock | M hops/s | most memory, MB | last message, µs");
    for (ports, bytes) in cases {
        let network = fat_tree(ports);
        let traffic = permutation(ports.pow(3) / 4, bytes);
        let (clock, processor) = (Instant::now(), processor_seconds());
        let outcome = run(&network, &settings(), &traffic, &[], threads)?;
        let (clock, processor) = (clock.elapsed().as_secs_f64(), processor_seconds() - processor);
        let seconds = if threads == 1 { processor } else { clock };
        let hops = outcome.counters.hop_packets as f64;
        println!(
            "{} | {:.2} M | {:.2} | {processor:.2} | {clock:.2} | {:.2} | {} | {:.1}",
            ports.pow(3) / 4,
            hops / 1e6,
            outcome.counters.events as f64 / hops,
            hops / seconds / 1e6,
            peak_megabytes(),
            last_micros(&outcome),
        );
    }
    Ok(())
}

/// Time of the processor that this thread has had. Units: s.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) >> 10
}

fn last_micros(outcome: &Outcome) -> f64 {
    outcome.messages.iter().map(|message| message.done.unwrap_or(0)).max().unwrap_or(0) as f64 / 1e3
}

/// Hosts first, then the edge and aggregation switches of each pod, then the core. 100 Gbit/s and 1 µs.
fn fat_tree(ports: u32) -> Network {
    let (half, hosts) = (ports / 2, ports.pow(3) / 4);
    let edge = |pod: u32, place: u32| hosts + pod * ports + place;
    let core = |place: u32| hosts + ports * ports + place;
    let link = |a: u32, b: u32| Link { ends: [a, b], gbps: 100.0, delay_ns: 1000, loss: 0.0 };
    let mut links = Vec::new();
    for pod in 0..ports {
        for place in 0..half {
            let leaf = edge(pod, place);
            let first = (pod * half + place) * half;
            links.extend((first..first + half).map(|host| link(host, leaf)));
            links.extend((0..half).map(|up| link(leaf, edge(pod, half + up))));
            links.extend((0..half).map(|up| link(edge(pod, half + place), core(place * half + up))));
        }
    }
    let mut nodes = vec![NodeKind::Host; hosts as usize];
    nodes.resize((hosts + ports * ports + half * half) as usize, NodeKind::Switch);
    Network { nodes, links }
}

/// Each host sends to one other, and one other sends to it.
fn permutation(hosts: u32, bytes: u64) -> Traffic {
    let mut state = 1u64;
    let mut next = |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32 % below
    };
    // Sattolo's shuffle: one cycle, so that nobody sends to itself.
    let mut to: Vec<u32> = (0..hosts).collect();
    (1..hosts).rev().for_each(|place| to.swap(place as usize, next(place) as usize));
    let qp = |(from, to): (u32, &u32)| QpForm { from, to: *to, class: 3, ports: [10_000, 100] };
    Traffic {
        qps: (0..).zip(&to).map(qp).collect(),
        messages: (0..hosts).map(|qp| MessageForm { qp, bytes, start_ns: 0 }).collect(),
        waits: Vec::new(),
    }
}

fn settings() -> Settings {
    let dcqcn = Dcqcn { increase_interval: 300_000, ..Dcqcn::of_simai() };
    let curve = EcnCurve { kmin: 400e3, kmax: 1600e3, pmax: 0.2 };
    Settings { ecn: vec![(100.0, curve)], ..Settings::base(Algorithm::Dcqcn(dcqcn)) }
}

//! Probing a fake pair whose hashes, losses and speeds are known.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const HEADER: u64 = 58;

/// Two hosts behind a leaf.
struct Fake {
    rng: Pcg64Mcg,
    seed: u64,
    /// Loss at each port of the receivers.
    loss: [[f64; 2]; 2],
    /// Goodput of each port of the receivers.
    bps: [[f64; 2]; 2],
    runs: usize,
}

impl Fake {
    fn new(seed: u64) -> Self {
        Self { rng: Pcg64Mcg::seed_from_u64(seed), seed, loss: [[0.0; 2]; 2], bps: [[1e7; 2]; 2], runs: 0 }
    }

    fn sides(&self, from: Host, port: u16) -> [Side; 2] {
        let hash = |salt: u64| {
            let mixed =
                (u64::from(port) + 77 * index(from) as u64 + self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ salt << 7);
            Side::BOTH[(mixed >> 41 & 1) as usize]
        };
        [hash(1), hash(2)]
    }
}

impl Ground for Fake {
    type Error = ();

    fn mtu(&self) -> u64 {
        4096
    }

    fn run(&mut self, purpose: Purpose, streams: &[Stream]) -> Result<Seen, ()> {
        self.runs += 1;
        let others = |rng: &mut Pcg64Mcg| {
            let packets = rng.random_range(0..2);
            Amount { packets, bytes: 70 * packets }
        };
        let mut seen = Seen { flows: Vec::new(), sent: Default::default(), received: Default::default() };
        for side in seen.sent.iter_mut().chain(&mut seen.received).flatten() {
            *side = others(&mut self.rng);
        }
        for stream in streams {
            let [leaves, arrives] = self.sides(stream.from, stream.source_port);
            let (host, peer) = (index(stream.from), 1 - index(stream.from));
            let sent = if purpose == Purpose::Ports { self.rng.random_range(10..18) } else { 200 };
            let loss = self.loss[peer][arrives.index()];
            let received = (0..sent).filter(|_| self.rng.random::<f64>() >= loss).count() as u64;
            for (amount, packets) in
                [(&mut seen.sent[host][leaves.index()], sent), (&mut seen.received[peer][arrives.index()], received)]
            {
                amount.packets += packets;
                amount.bytes += packets * (stream.message + HEADER);
            }
            let own = streams.iter().filter(|other| other.from == stream.from).count() as f64;
            let bps = self.bps[peer][arrives.index()] / own;
            seen.flows.push(Flowed { sent, received, bps, latency_us: Some(100.0 + self.rng.random::<f64>()) });
        }
        Ok(seen)
    }
}

const DEEP: Depth = Depth { loss: true, latency: true, throughput: true };

#[test]
fn every_path_is_found_as_it_is() {
    for seed in 0..20 {
        let mut fake = Fake::new(seed);
        let ports: Vec<u16> = (50_000..50_064).collect();
        let found = probe(&mut fake, [&ports, &ports[..40]], DEEP).expect("it always runs");
        assert!(fake.runs < 36, "{} runs for 104 paths", fake.runs);
        for direction in &found {
            assert_eq!(direction.paths.len(), if direction.from == Host::A { 64 } else { 40 });
            for path in &direction.paths {
                let truth = fake.sides(direction.from, path.source_port).map(Some);
                assert_eq!([path.leaves, path.arrives], truth, "seed {seed}, {path:?}");
                assert_eq!((path.fault.as_deref(), path.group), (None, Some(0)));
            }
        }
    }
}

#[test]
fn a_port_that_loses_two_percent_is_faulty_with_all_its_paths_and_no_other_is() {
    for seed in 0..20 {
        let mut fake = Fake::new(seed);
        fake.loss[1][1] = 0.02;
        let ports: Vec<u16> = (50_000..50_064).collect();
        let found = probe(&mut fake, [&ports, &ports], DEEP).expect("it always runs");
        for path in &found[0].paths {
            let is_right = path.arrives == Some(Side::Right);
            assert_eq!(
                path.fault.as_ref().is_some_and(|fault| fault.contains("host b's right port loses")),
                is_right,
                "{path:?}"
            );
        }
        assert!(found[1].paths.iter().all(|path| path.fault.is_none()));
    }
}

#[test]
fn dead_and_slow_paths_are_faulty() {
    let mut fake = Fake::new(3);
    fake.loss[1][0] = 1.0;
    fake.bps[0] = [1e7, 4e6];
    let ports: Vec<u16> = (50_000..50_032).collect();
    let found = probe(&mut fake, [&ports, &ports], DEEP).expect("it always runs");
    for path in &found[0].paths {
        let [leaves, arrives] = fake.sides(Host::A, path.source_port);
        assert_eq!(path.leaves, Some(leaves));
        assert_eq!(
            path.fault.as_ref().is_some_and(|fault| fault.starts_with("dead")),
            arrives == Side::Left,
            "{path:?}"
        );
    }
    for path in &found[1].paths {
        let is_slow = path.fault.as_ref().is_some_and(|fault| fault.starts_with("slow"));
        assert_eq!(is_slow, path.arrives == Some(Side::Right), "{path:?}");
    }
}

//! Probing a fake pair whose hashes, losses and speeds are known.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const HEADER: u64 = 58;

/// Two hosts behind a leaf.
struct FakeHosts {
    rng: Pcg64Mcg,
    seed: u64,
    /// Loss at each port of the receivers.
    loss: [[f64; 2]; 2],
    /// Goodput of each port of the receivers.
    bps: [[f64; 2]; 2],
    runs: usize,
    /// Hosts whose devices deal QPs out.
    deals: [bool; 2],
    /// By which port a QP leaves that is put on a LAG port; none if the device has no such call.
    lag: Option<[PortSide; 2]>,
    /// QPs that were dealt out so far.
    dealt: usize,
    /// Whether the hosts stand still for a moment when throughput is measured for the first time.
    slows_once: bool,
}

impl FakeHosts {
    fn new(seed: u64) -> Self {
        Self {
            rng: Pcg64Mcg::seed_from_u64(seed),
            seed,
            loss: [[0.0; 2]; 2],
            bps: [[1e7; 2]; 2],
            runs: 0,
            deals: [false; 2],
            lag: Some(PortSide::BOTH),
            dealt: 0,
            slows_once: false,
        }
    }

    /// By which port a QP leaves and at which it arrives; leaves of one side hash otherwise than those of the other.
    fn way(&mut self, stream: &PortTraffic) -> [PortSide; 2] {
        let [hashed, arrives] = self.sides(stream.from, stream.port.source_port);
        if !self.deals[stream.from.index()] {
            return [hashed, arrives];
        }
        let put = stream.port.lag_port.and_then(|port| Some(self.lag?[usize::from(port) - 1]));
        let leaves = put.unwrap_or_else(|| {
            self.dealt += 1;
            PortSide::BOTH[self.dealt % 2]
        });
        let is_odd = stream.port.source_port.is_multiple_of(5) && leaves == PortSide::Right;
        [leaves, if is_odd { arrives.other() } else { arrives }]
    }

    fn sides(&self, from: Host, port: u16) -> [PortSide; 2] {
        let hash = |salt: u64| {
            let mixed = (u64::from(port) + 77 * from.index() as u64 + self.seed)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ salt << 7);
            PortSide::BOTH[(mixed >> 41 & 1) as usize]
        };
        [hash(1), hash(2)]
    }
}

impl Ground for FakeHosts {
    type Error = ();

    fn mtu(&self) -> u64 {
        4096
    }

    fn deals(&self, host: Host) -> bool {
        self.deals[host.index()]
    }

    fn run(&mut self, purpose: ProbePurpose, streams: &[PortTraffic]) -> Result<ProbeResult, ()> {
        self.runs += 1;
        let others = |rng: &mut Pcg64Mcg| {
            let packets = rng.random_range(0..2);
            MovedAmount { packets, bytes: 70 * packets }
        };
        let mut seen = ProbeResult { flows: Vec::new(), sent: Default::default(), received: Default::default() };
        for side in seen.sent.iter_mut().chain(&mut seen.received).flatten() {
            *side = others(&mut self.rng);
        }
        let is_slow = purpose == ProbePurpose::Throughput && std::mem::take(&mut self.slows_once);
        for stream in streams {
            let [leaves, arrives] = self.way(stream);
            let (host, peer) = (stream.from.index(), 1 - stream.from.index());
            let sent = if purpose == ProbePurpose::Ports { self.rng.random_range(10..18) } else { 200 };
            let loss = self.loss[peer][arrives.index()];
            let received = (0..sent).filter(|_| self.rng.random::<f64>() >= loss).count() as u64;
            for (amount, packets) in
                [(&mut seen.sent[host][leaves.index()], sent), (&mut seen.received[peer][arrives.index()], received)]
            {
                amount.packets += packets;
                amount.bytes += packets * (stream.message + HEADER);
            }
            let own = streams.iter().filter(|other| other.from == stream.from).count() as f64;
            let bps = self.bps[peer][arrives.index()] / own / if is_slow { 2.0 } else { 1.0 };
            let put = |port| self.lag.map(|_| port).ok_or_else(|| "no such call".to_owned());
            let (latency_us, lag) = (Some(100.0 + self.rng.random::<f64>()), stream.port.lag_port.map(put));
            seen.flows.push(Flowed { sent, received, bps, latency_us, lag });
        }
        Ok(seen)
    }
}

const DEEP: Depth = Depth { loss: true, latency: true, throughput: true };

#[test]
fn every_path_is_found_as_it_is() {
    for seed in 0..20 {
        let mut fake = FakeHosts::new(seed);
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
        let mut fake = FakeHosts::new(seed);
        fake.loss[1][1] = 0.02;
        let ports: Vec<u16> = (50_000..50_064).collect();
        let found = probe(&mut fake, [&ports, &ports], DEEP).expect("it always runs");
        for path in &found[0].paths {
            let is_right = path.arrives == Some(PortSide::Right);
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
fn a_host_that_stands_still_for_a_moment_is_no_fault_of_a_path() {
    for seed in 0..20 {
        let mut fake = FakeHosts::new(seed);
        fake.slows_once = true;
        let ports: Vec<u16> = (50_000..50_028).collect();
        let found = probe(&mut fake, [&ports, &ports], DEEP).expect("it always runs");
        assert!(!fake.slows_once);
        assert!(found.iter().flat_map(|direction| &direction.paths).all(|path| path.fault.is_none()));
    }
}

#[test]
fn dead_and_slow_paths_are_faulty() {
    let mut fake = FakeHosts::new(3);
    fake.loss[1][0] = 1.0;
    fake.bps[0] = [1e7, 4e6];
    let ports: Vec<u16> = (50_000..50_032).collect();
    let found = probe(&mut fake, [&ports, &ports], DEEP).expect("it always runs");
    for path in &found[0].paths {
        let [leaves, arrives] = fake.sides(Host::A, path.source_port);
        assert_eq!(path.leaves, Some(leaves));
        assert_eq!(
            path.fault.as_ref().is_some_and(|fault| fault.starts_with("dead")),
            arrives == PortSide::Left,
            "{path:?}"
        );
    }
    for path in &found[1].paths {
        let is_slow = path.fault.as_ref().is_some_and(|fault| fault.starts_with("slow"));
        assert_eq!(is_slow, path.arrives == Some(PortSide::Right), "{path:?}");
    }
}

/// A device that deals QPs out at host a, and one that hashes at host b.
fn dealing(seed: u64, lag: Option<[PortSide; 2]>) -> FakeHosts {
    let mut fake = FakeHosts::new(seed);
    (fake.deals, fake.lag) = ([true, false], lag);
    fake
}

#[test]
fn a_device_that_deals_qps_out_is_probed_by_lag_port_and_paths_go_straight_where_they_can() {
    use PortSide::{Left, Right};
    let ports: Vec<u16> = (50_000..50_064).collect();
    for (seed, lag) in (0..20).zip([[Left, Right], [Right, Left]].into_iter().cycle()) {
        let mut fake = dealing(seed, Some(lag));
        let found = probe(&mut fake, [&ports, &ports], DEEP).expect("it always runs");
        let seen = found[0].lag.as_ref().expect("it deals QPs out");
        assert_eq!(seen.known().collect::<Vec<_>>(), [(1, lag[0]), (2, lag[1])], "seed {seed}");
        assert_eq!(found[1].lag, None);
        for path in &found[0].paths {
            let mut way = |lag_port| {
                let port = QpPort { source_port: path.source_port, lag_port };
                let stream = PortTraffic { from: Host::A, port, message: 64 };
                fake.way(&stream)
            };
            assert_eq!([path.leaves, path.arrives], way(path.lag_port).map(Some), "seed {seed}, {path:?}");
            let can_be_straight = [1, 2].map(|port| way(Some(port))).iter().any(|[leaves, arrives]| leaves == arrives);
            assert_eq!(path.leaves == path.arrives, can_be_straight, "seed {seed}, {path:?}");
        }
        assert!(
            found[0].ways.iter().any(|way| way.leaves == Left) && found[0].ways.iter().any(|way| way.leaves == Right)
        );
        assert!(found[1].paths.iter().all(|path| path.lag_port.is_none() && path.leaves.is_some()));
    }
}

#[test]
fn a_device_without_the_call_says_why_and_no_path_says_by_which_port_it_leaves() {
    let ports: Vec<u16> = (50_000..50_016).collect();
    let mut fake = dealing(1, None);
    let found = probe(&mut fake, [&ports, &ports], DEEP).expect("it always runs");
    let lag = found[0].lag.as_ref().expect("it deals QPs out");
    assert_eq!((lag.ports.len(), lag.refused.as_deref()), (0, Some("no such call")));
    for path in &found[0].paths {
        let [_, arrives] = fake.sides(Host::A, path.source_port);
        assert!(path.leaves.is_none() && path.lag_port.is_none(), "{path:?}");
        assert!(path.source_port.is_multiple_of(5) || path.arrives == Some(arrives), "{path:?}");
    }
    assert!(found[0].ways.is_empty() && !found[1].ways.is_empty());
}

#[test]
fn qps_of_a_check_are_looked_at_where_they_were_put() {
    let mut fake = dealing(7, Some(PortSide::BOTH));
    let port = |source_port, lag_port| QpPort { source_port, lag_port };
    let asked = [port(50_001, Some(1)), port(50_002, Some(2)), port(50_003, None)];
    let found = look(&mut fake, [&asked, &[]], DEEP).expect("it always runs");
    let leaves: Vec<Option<PortSide>> = found[0].paths.iter().map(|path| path.leaves).collect();
    assert_eq!(leaves, [Some(PortSide::Left), Some(PortSide::Right), None], "who is not put anywhere is dealt out");
}

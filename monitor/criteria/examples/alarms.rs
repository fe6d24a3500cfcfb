//! How often healthy hosts are out, and bad ones are not, by the number of hosts, the noise and the plan: drawn fleets
//! are judged as `kelpie qualify run` judges them, questions included. `docs/measured/qualification.md` has its table.

use kelpie_criteria::{
    Better, Criteria, FleetJudge, FleetState, LearnOptions, Outcome, SMALL, Unit, UnitKey, UnitValue,
};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

/// Samples of a unit.
const SAMPLES: usize = 3;

struct Fleet {
    hosts: Vec<String>,
    /// What the traffic of each host is divided by.
    slower: Vec<f64>,
    /// Of runs, and of samples within one.
    noise: [f64; 2],
    random: Pcg64Mcg,
}

impl Fleet {
    fn measure(&mut self, key: UnitKey) -> Unit {
        let numbers: Vec<usize> =
            key.hosts.iter().map(|host| self.hosts.iter().position(|name| name == host).expect("known")).collect();
        let slower = numbers.iter().map(|host| self.slower[*host]).fold(1.0, f64::max);
        let ways: Vec<(usize, Option<usize>)> = match numbers[..] {
            [host] => vec![(host, None)],
            [one, other] => vec![(one, Some(other)), (other, Some(one))],
            _ => Vec::new(),
        };
        let values = ways.into_iter().map(|(from, to)| {
            let draw =
                |random: &mut Pcg64Mcg, noise: f64| Normal::new(0.0, noise).expect("finite").sample(random).exp();
            let run = 100.0 / slower * draw(&mut self.random, self.noise[0]);
            UnitValue {
                metric: key.check.clone(),
                unit: "Gb/s".to_owned(),
                better: Better::Higher,
                from: self.hosts[from].clone(),
                to: to.map(|to| self.hosts[to].clone()),
                samples: (0..SAMPLES).map(|_| run * draw(&mut self.random, self.noise[1])).collect(),
            }
        });
        let outcome = Outcome::Values(values.collect());
        Unit { key, outcome, seconds: 1.0 }
    }

    /// Whether each host is out.
    fn judge(&mut self, all: bool) -> Vec<FleetState> {
        let count = self.hosts.len();
        let key =
            |check: &str, hosts: Vec<String>| UnitKey { check: check.to_owned(), hosts, component: String::new() };
        let mut keys: Vec<UnitKey> = self.hosts.iter().map(|host| key("loopback", vec![host.clone()])).collect();
        for one in 0..count {
            let partners: Vec<usize> = if all || count <= SMALL {
                (one + 1..count).collect()
            } else {
                let half = (one < count / 2).then_some(one + count / 2);
                half.into_iter().chain((one % 4 < 2).then_some(one + 2)).collect()
            };
            for other in partners.into_iter().filter(|other| *other < count) {
                keys.push(key("pair", vec![self.hosts[one].clone(), self.hosts[other].clone()]));
            }
        }
        let mut units = Vec::new();
        for _ in 0..5 {
            for key in keys.drain(..) {
                let unit = self.measure(key);
                units.push(unit);
            }
            let judge = FleetJudge::new(&self.hosts, &units, &Criteria::default(), &LearnOptions::default());
            keys = judge.expect("sound options").questions();
        }
        let judge = FleetJudge::new(&self.hosts, &units, &Criteria::default(), &LearnOptions::default());
        judge.expect("sound options").verdict().nodes.into_values().map(|node| node.state).collect()
    }
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let fleets = std::env::args().nth(2).and_then(|fleets| fleets.parse().ok()).unwrap_or(200);
    println!("hosts plan  noise  fleets  healthy hosts out  unknown    bad hosts out at 1.1, 1.3, 2 times slower");
    for hosts in [3, 4, 8, 16, 64] {
        // A quick scan of a small fleet has all pairs.
        for all in [false, true].into_iter().filter(|all| !all || hosts > SMALL) {
            for noise in [0.01, 0.05, 0.15] {
                let [mut wrong, mut unknown, mut healthy] = [0; 3];
                let mut found = Vec::new();
                for slow in [1.0, 1.1, 1.3, 2.0] {
                    let [mut named, mut bad] = [0; 2];
                    for nth in 0..fleets / 4 {
                        let mut random = Pcg64Mcg::seed_from_u64(seed * 1_000_003 + nth);
                        let mut slower = vec![1.0; hosts];
                        let place = random.random_range(0..hosts);
                        slower[place] = slow;
                        let nodes = (0..hosts).map(|host| format!("n{host:02}")).collect();
                        let mut fleet = Fleet { hosts: nodes, slower, noise: [noise, noise / 2.0], random };
                        for (host, state) in fleet.judge(all).into_iter().enumerate() {
                            if host == place && slow > 1.0 {
                                bad += 1;
                                named += u32::from(state == FleetState::Out);
                            } else {
                                healthy += 1;
                                wrong += u32::from(state == FleetState::Out);
                                unknown += u32::from(state == FleetState::Unknown);
                            }
                        }
                    }
                    if slow > 1.0 {
                        found.push(format!("{:3.0} %", 100.0 * f64::from(named) / f64::from(bad)));
                    }
                }
                println!(
                    "{hosts:5} {:5} {:3.0} %  {fleets:6}  {wrong:6} of {healthy:6}   {unknown:6}    {}",
                    match (all, hosts > SMALL) {
                        (_, false) => "both",
                        (true, _) => "full",
                        (false, _) => "quick",
                    },
                    100.0 * noise,
                    found.join("  ")
                );
            }
        }
    }
}

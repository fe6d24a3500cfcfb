//! Ranks of a job on the simulated fabric: each transfer is a flow that begins when both of its ends are ready.

use kelpie_collectives::JobConnection;
use kelpie_collectives::rounds::{RankCluster as Seam, Rounds, Transfer};
use kelpie_topology::{Cluster, FabricLink, Working};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use crate::max_min::{self, FlowGroup};
use crate::timeline::{planned, unsteered, ways};

/// What a rank does between two iterations. Units: microseconds. Source: our choice, as an example.
const COMPUTE_US: f64 = 1000.0;
/// What a message takes beyond its bytes. Units: microseconds. Source: our choice, a few switches and a completion.
const LATENCY_US: f64 = 5.0;

/// What is wrong with a cluster, from an iteration on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InjectedFault {
    /// A rank comes later to each iteration.
    Delay {
        /// Which.
        rank: u32,
        /// Units: microseconds.
        by_us: f64,
    },
    /// Messages of a pair have a share of what a port carries.
    Pair {
        /// Who sends.
        from: u32,
        /// Who receives.
        to: u32,
        /// 0 to 1.
        share: f64,
    },
    /// A rank's NIC has a share of what it sent.
    Sends {
        /// Which.
        rank: u32,
        /// 0 to 1.
        share: f64,
    },
    /// A rank's NIC has a share of what it received.
    Receives {
        /// Which.
        rank: u32,
        /// 0 to 1.
        share: f64,
    },
    /// Each port at a leaf has a share of what it carried.
    Leaf {
        /// Which.
        leaf: u32,
        /// 0 to 1.
        share: f64,
    },
    /// A rank stops, with its process.
    Stop {
        /// Which.
        rank: u32,
        /// Round that it does not begin; 0: it does not come to the iteration.
        round: usize,
    },
}

/// A cluster, and how its ranks run.
#[derive(Debug, Clone)]
pub struct SimulatedRanks<'c> {
    /// Hosts, NICs and switches.
    pub cluster: &'c Cluster,
    /// Whether source ports are planned; else as hashing has it.
    pub is_planned: bool,
    /// One standard deviation of what a transfer takes and of what a rank computes, as a share.
    pub noise: f64,
    /// What is wrong.
    pub faults: Vec<InjectedFault>,
    /// From which iteration on.
    pub from_iteration: u32,
    /// Of source ports and noise.
    pub seed: u64,
}

/// Why a job cannot run there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulatedRanksError {
    /// The job itself.
    #[error("{0}")]
    Job(String),
    /// There are too few NICs.
    #[error("{ranks} ranks; the topology has NICs for {room}")]
    Room {
        /// Asked for.
        ranks: u32,
        /// There.
        room: u32,
    },
    /// A fault of something that is not there.
    #[error("fault: no {what} {number}; there are {count}, counted from 0")]
    Fault {
        /// Rank or leaf.
        what: &'static str,
        /// Its number.
        number: u32,
        /// How many there are.
        count: u32,
    },
    /// No way between two ranks.
    #[error("no link that works leads from rank {0} to rank {1}")]
    NoWay(u32, u32),
}

impl Seam for SimulatedRanks<'_> {
    type Error = SimulatedRanksError;

    fn run(&mut self, job: &Rounds, give: &mut dyn FnMut(Transfer)) -> Result<(), SimulatedRanksError> {
        if let Some(rule) = job.broken_rule() {
            return Err(SimulatedRanksError::Job(rule));
        }
        let room = self.cluster.ranks();
        if job.ranks > room {
            return Err(SimulatedRanksError::Room { ranks: job.ranks, room });
        }
        self.check_faults(job)?;
        let mut run = RingRun::new(self, job)?;
        for iteration in 0..job.iterations {
            if iteration == self.from_iteration {
                run.apply(&self.faults);
            }
            if !run.iteration(iteration, give) {
                break;
            }
        }
        Ok(())
    }
}

impl SimulatedRanks<'_> {
    fn check_faults(&self, job: &Rounds) -> Result<(), SimulatedRanksError> {
        for fault in &self.faults {
            let (what, numbers, count) = match *fault {
                InjectedFault::Pair { from, to, .. } => ("rank", vec![from, to], job.ranks),
                InjectedFault::Leaf { leaf, .. } => ("leaf", vec![leaf], self.cluster.leaves),
                InjectedFault::Delay { rank, .. }
                | InjectedFault::Sends { rank, .. }
                | InjectedFault::Receives { rank, .. }
                | InjectedFault::Stop { rank, .. } => ("rank", vec![rank], job.ranks),
            };
            if let Some(&number) = numbers.iter().find(|number| **number >= count) {
                return Err(SimulatedRanksError::Fault { what, number, count });
            }
        }
        Ok(())
    }
}

/// Where a rank stands in an iteration.
#[derive(Debug, Clone, Copy)]
struct Stand {
    entered: f64,
    round: usize,
    /// From when on it is ready for its round; nothing while it is not.
    ready: Option<f64>,
    /// What of its round is done: it has sent, it has received.
    done: [Option<f64>; 2],
}

/// A transfer under way.
#[derive(Debug, Clone, Copy)]
struct ActiveTransfer {
    from: u32,
    begin: f64,
    /// Units: bits.
    left: f64,
    /// Place among the ways.
    way: usize,
}

struct RingRun<'r> {
    job: &'r Rounds,
    cluster: &'r Cluster,
    noise: f64,
    random: Pcg64,
    /// Units: bits per microsecond.
    capacity: Vec<f64>,
    /// Per rank and distinct shift, the links of the transfer.
    ways: Vec<FlowGroup>,
    /// Place of a round's shift among the distinct ones.
    shift_of_round: Vec<usize>,
    shifts: Vec<u32>,
    delay: Vec<f64>,
    stop: Option<(u32, usize)>,
    /// When each rank was done with the iteration before.
    at: Vec<f64>,
}

impl<'r> RingRun<'r> {
    fn new(of: &'r SimulatedRanks<'_>, job: &'r Rounds) -> Result<Self, SimulatedRanksError> {
        let cluster = of.cluster;
        let mut shifts = job.shifts.clone();
        shifts.sort_unstable();
        shifts.dedup();
        let place = |shift: &u32| shifts.binary_search(shift).expect("it is one of them");
        let shift_of_round: Vec<usize> = job.shifts.iter().map(place).collect();
        let nic = |rank: u32| cluster.nic_of_rank(rank).expect("there is room");
        let pairs: Vec<(u32, u32)> = (0..job.ranks)
            .flat_map(|from| shifts.iter().map(move |shift| (from, (from + shift) % job.ranks)))
            .collect();
        let connection = |(from, to): &(u32, u32)| JobConnection { job: 0, from: nic(*from), to: nic(*to), qps: 1 };
        let connections: Vec<JobConnection> = pairs.iter().map(connection).collect();
        let working = Working::of(cluster);
        let ports =
            if of.is_planned { planned(cluster, &working, &connections) } else { unsteered(&connections, of.seed) };
        let mut capacity: Vec<f64> = cluster.links().map(|link| cluster.capacity_gbps(link) * 1e3).collect();
        let mut groups = Vec::with_capacity(pairs.len());
        for ((pair, connection), way) in
            pairs.iter().zip(&connections).zip(ways(cluster, &working, &connections, &ports))
        {
            let mut links: FlowGroup = if connection.from == connection.to {
                Vec::new()
            } else {
                let way = way.ok_or(SimulatedRanksError::NoWay(pair.0, pair.1))?;
                let links = way.links(cluster, connection.from, connection.to);
                links.into_iter().map(|link| (cluster.index(link), 1.0)).collect()
            };
            // A link of the connection's own, for faults of it alone.
            links.push((capacity.len(), 1.0));
            capacity.push(cluster.port_gbps * 1e3);
            groups.push(links);
        }
        Ok(Self {
            job,
            cluster,
            noise: of.noise,
            random: Pcg64::seed_from_u64(of.seed),
            capacity,
            ways: groups,
            shift_of_round,
            shifts,
            delay: vec![0.0; job.ranks as usize],
            stop: None,
            at: vec![0.0; job.ranks as usize],
        })
    }

    fn apply(&mut self, faults: &[InjectedFault]) {
        let nic = |rank: u32| self.cluster.nic_of_rank(rank).expect("there is room");
        for fault in faults {
            match *fault {
                InjectedFault::Delay { rank, by_us } => self.delay[rank as usize] += by_us,
                InjectedFault::Stop { rank, round } => self.stop = Some((rank, round)),
                InjectedFault::Sends { rank, share } => self.scale(FabricLink::NicOut(nic(rank)), share),
                InjectedFault::Receives { rank, share } => self.scale(FabricLink::NicIn(nic(rank)), share),
                InjectedFault::Pair { from, to, share } => {
                    let shift = (to + self.job.ranks - from) % self.job.ranks;
                    if let Ok(place) = self.shifts.binary_search(&shift) {
                        let way = &self.ways[from as usize * self.shifts.len() + place];
                        let own = way.last().expect("its own link").0;
                        self.capacity[own] *= share;
                    }
                }
                InjectedFault::Leaf { leaf, share } => {
                    for nic in 0..self.cluster.nics() {
                        for side in self.cluster.sides().iter().filter(|side| self.cluster.leaf(nic, **side) == leaf) {
                            self.scale(FabricLink::PortOut(nic, *side), share);
                            self.scale(FabricLink::PortIn(nic, *side), share);
                        }
                    }
                }
            }
        }
    }

    fn scale(&mut self, link: FabricLink, share: f64) {
        self.capacity[self.cluster.index(link)] *= share;
    }

    /// A factor around 1; its tail is cut where it would be negative.
    fn noisy(&mut self) -> f64 {
        // The sum of twelve uniform numbers is nearly normal.
        let sum: f64 = (0..12).map(|_| self.random.random::<f64>()).sum();
        (1.0 + self.noise * (sum - 6.0)).max(0.05)
    }

    /// Runs an iteration; false if it does not come to its end.
    fn iteration(&mut self, iteration: u32, give: &mut dyn FnMut(Transfer)) -> bool {
        let ranks = self.job.ranks as usize;
        let stands: Vec<Stand> = (0..ranks)
            .map(|rank| {
                let entered = self.at[rank] + COMPUTE_US * self.noisy() + self.delay[rank];
                Stand { entered, round: 0, ready: Some(entered), done: [None; 2] }
            })
            .collect();
        let mut now = OpenIteration { run: self, iteration, stands, flows: Vec::new(), time: 0.0 };
        now.finish(give)
    }
}

/// An iteration as it goes on.
struct OpenIteration<'m, 'r> {
    run: &'m mut RingRun<'r>,
    iteration: u32,
    stands: Vec<Stand>,
    flows: Vec<ActiveTransfer>,
    time: f64,
}

impl OpenIteration<'_, '_> {
    fn finish(&mut self, give: &mut dyn FnMut(Transfer)) -> bool {
        loop {
            self.begin();
            let rates = self.rates();
            // A flow without a rate never ends.
            let ends: Vec<f64> =
                self.flows.iter().zip(&rates).map(|(flow, rate)| self.time + flow.left / rate).collect();
            let first_end = ends.iter().copied().filter(|end| end.is_finite()).min_by(f64::total_cmp);
            let Some(next) = [first_end, self.next_ready()].into_iter().flatten().min_by(f64::total_cmp) else { break };
            let passed = next - self.time;
            for (flow, rate) in self.flows.iter_mut().zip(&rates) {
                flow.left -= rate * passed;
            }
            self.time = next;
            self.end(&ends, give);
        }
        let rounds = self.run.job.shifts.len();
        let is_over = self.stands.iter().all(|stand| stand.round == rounds);
        if !is_over {
            self.give_open(give);
        }
        is_over
    }

    /// Whether a rank is stopped where it stands.
    fn is_stopped(&self, rank: u32) -> bool {
        self.run.stop.is_some_and(|(stopped, round)| stopped == rank && self.stands[rank as usize].round >= round)
    }

    /// When the transfer of a rank may begin: when both ends are ready for the same round.
    fn begin_of(&self, from: u32) -> Option<f64> {
        let stand = &self.stands[from as usize];
        if stand.round == self.run.job.shifts.len() || stand.done[0].is_some() || self.is_stopped(from) {
            return None;
        }
        let to = self.run.job.to(from, stand.round);
        let other = &self.stands[to as usize];
        if other.round != stand.round || self.is_stopped(to) {
            return None;
        }
        Some(stand.ready?.max(other.ready?))
    }

    fn is_flowing(&self, from: u32) -> bool {
        self.flows.iter().any(|flow| flow.from == from)
    }

    fn next_ready(&self) -> Option<f64> {
        let ranks = (0..self.run.job.ranks).filter(|from| !self.is_flowing(*from));
        ranks.filter_map(|from| self.begin_of(from)).filter(|begin| *begin > self.time).min_by(f64::total_cmp)
    }

    /// Begins what may begin now.
    fn begin(&mut self) {
        for from in 0..self.run.job.ranks {
            let begins = self.begin_of(from).filter(|begin| *begin <= self.time && !self.is_flowing(from));
            let Some(begin) = begins else { continue };
            let shift = self.run.shift_of_round[self.stands[from as usize].round];
            let way = from as usize * self.run.shifts.len() + shift;
            let port = self.run.cluster.port_gbps * 1e3;
            let bits = self.run.job.bytes as f64 * 8.0 * self.run.noisy() + LATENCY_US * port;
            self.flows.push(ActiveTransfer { from, begin, left: bits, way });
        }
    }

    fn rates(&self) -> Vec<f64> {
        let groups: Vec<FlowGroup> = self.flows.iter().map(|flow| self.run.ways[flow.way].clone()).collect();
        max_min::rates(&self.run.capacity, &groups)
    }

    /// Ends what is done, and lets ranks go on.
    fn end(&mut self, ends: &[f64], give: &mut dyn FnMut(Transfer)) {
        let mut ends = ends.iter();
        // By the time that was computed for it: what is left of it is rounded.
        let is_over = |_: &mut ActiveTransfer| ends.next().is_some_and(|end| *end <= self.time);
        let over: Vec<ActiveTransfer> = self.flows.extract_if(.., is_over).collect();
        for flow in over {
            let to = self.run.job.to(flow.from, self.stands[flow.from as usize].round);
            give(self.transfer(flow.from, Some(flow.begin), Some(self.time)));
            self.stands[flow.from as usize].done[0] = Some(self.time);
            self.stands[to as usize].done[1] = Some(self.time);
        }
        let rounds = self.run.job.shifts.len();
        for (rank, stand) in self.stands.iter_mut().enumerate() {
            if let [Some(sent), Some(received)] = stand.done {
                (stand.round, stand.ready, stand.done) = (stand.round + 1, Some(sent.max(received)), [None; 2]);
                if stand.round == rounds {
                    self.run.at[rank] = sent.max(received);
                }
            }
        }
    }

    fn transfer(&self, from: u32, begin: Option<f64>, end: Option<f64>) -> Transfer {
        let stand = &self.stands[from as usize];
        let (round, to) = (stand.round as u32, self.run.job.to(from, stand.round));
        let has_come = !(self.is_stopped(from) && stand.round == 0);
        let entered = has_come.then_some(stand.entered);
        Transfer { iteration: self.iteration, round, from, to, bytes: self.run.job.bytes, entered, begin, end }
    }

    fn give_open(&self, give: &mut dyn FnMut(Transfer)) {
        for from in 0..self.run.job.ranks {
            let stand = &self.stands[from as usize];
            if stand.round < self.run.job.shifts.len() && stand.done[0].is_none() {
                let begin = self.flows.iter().find(|flow| flow.from == from).map(|flow| flow.begin);
                give(self.transfer(from, begin, None));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        let text = "kelpie: topology/1\ncluster: {hosts: 8, nics_per_host: 1, port_gbps: 200, leaves: 4, spines: 4, \
                    cable_gbps: 400}";
        Cluster::from_yaml("t", text).expect("valid")
    }

    fn run(job: &Rounds, faults: &[InjectedFault]) -> Vec<Transfer> {
        let cluster = cluster();
        let faults = faults.to_vec();
        let mut ranks =
            SimulatedRanks { cluster: &cluster, is_planned: true, noise: 0.0, faults, from_iteration: 1, seed: 3 };
        let mut all = Vec::new();
        ranks.run(job, &mut |transfer| all.push(transfer)).expect("it runs");
        all
    }

    #[test]
    fn a_ring_takes_what_its_slowest_link_takes() {
        let job = Rounds::ring_all_reduce(8, 8_000_000, 2);
        let all = run(&job, &[InjectedFault::Pair { from: 3, to: 4, share: 0.5 }]);
        assert_eq!(all.len(), 2 * 14 * 8);
        let took = |transfer: &Transfer| transfer.end.expect("done") - transfer.begin.expect("begun");
        for transfer in &all {
            // 1 MB at 200 Gbit/s, and what each message costs beyond.
            let expected = if transfer.iteration == 1 && transfer.from == 3 { 2.0 * 45.0 } else { 45.0 };
            assert!((took(transfer) - expected).abs() < 1e-6, "{transfer:?}");
        }
        let ends = |iteration: u32| {
            let last = all.iter().filter(|one| one.iteration == iteration).filter_map(|one| one.end);
            last.fold(0.0, f64::max)
        };
        assert!((ends(0) - (1000.0 + 14.0 * 45.0)).abs() < 1e-6);
        assert!((ends(1) - ends(0) - (1000.0 + 14.0 * 90.0)).abs() < 50.0, "a slow link holds all");
    }

    #[test]
    fn who_stops_leaves_open_what_waits_for_it() {
        let job = Rounds::ring_all_reduce(8, 8_000_000, 3);
        let open = |faults: &[InjectedFault]| -> Vec<Transfer> {
            run(&job, faults).into_iter().filter(|transfer| transfer.end.is_none()).collect()
        };
        let absent = open(&[InjectedFault::Stop { rank: 5, round: 0 }]);
        let nobody: Vec<u32> = absent.iter().filter(|one| one.entered.is_none()).map(|one| one.from).collect();
        // Those behind it have sent what they may, and wait to receive.
        let waiting: Vec<u32> = absent.iter().map(|one| one.from).collect();
        assert_eq!((waiting, nobody, absent[0].iteration), (vec![1, 2, 3, 4, 5], vec![5], 1));
        let midway = open(&[InjectedFault::Stop { rank: 5, round: 4 }]);
        let least = midway.iter().map(|one| one.round).min().expect("some");
        let behind: Vec<u32> = midway.iter().filter(|one| one.round == least).map(|one| one.from).collect();
        assert_eq!((least, behind), (4, vec![4, 5]));
        let dead = open(&[InjectedFault::Pair { from: 2, to: 3, share: 0.0 }]);
        let begun: Vec<u32> = dead.iter().filter(|one| one.begin.is_some()).map(|one| one.from).collect();
        assert_eq!(begun, [2]);
        assert!(open(&[]).is_empty());
    }

    #[test]
    fn faults_and_jobs_that_cannot_be_are_named() {
        let cluster = cluster();
        let error = |ranks: u32, fault: InjectedFault| {
            let faults = vec![fault];
            let mut of =
                SimulatedRanks { cluster: &cluster, is_planned: false, noise: 0.0, faults, from_iteration: 0, seed: 1 };
            of.run(&Rounds::all_pairs(ranks, 1, 1), &mut |_| ()).expect_err("wrong").to_string()
        };
        assert_eq!(error(9, InjectedFault::Stop { rank: 0, round: 0 }), "9 ranks; the topology has NICs for 8");
        assert_eq!(
            error(4, InjectedFault::Stop { rank: 4, round: 0 }),
            "fault: no rank 4; there are 4, counted from 0"
        );
        assert_eq!(
            error(4, InjectedFault::Leaf { leaf: 4, share: 0.5 }),
            "fault: no leaf 4; there are 4, counted from 0"
        );
    }
}

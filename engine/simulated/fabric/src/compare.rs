//! The experiments that C4P published, on the simulated fabric: what ECMP and what plans get. How it is shown is
//! elsewhere.
//!
//! Source: C4 (HPCA 2025), section IV, figures 9, 10 and 12: 16 hosts of 8 NICs with two ports of 200 Gbit/s, 8 leaves,
//! 8 spines, rings; a NIC gets at most 362 Gbit/s from its host.

use kelpie_collectives::{Collective, Job, JobConnection};
use kelpie_topology::{Attach, Cluster, FabricPart, PortSide, Working};
use serde::Serialize;

use crate::dynamics::FailureScenario;
use crate::problem::Solver;
use crate::timeline::{QpSourcePorts, busbw_gbps, planned, rates_gbps, unsteered, ways};

/// Iteration at which the link fails, of so many. Source: our choice.
const FAILS_AT: u32 = 20;
const ITERATIONS: u32 = 220;

/// How QPs that nobody steers leave a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transmit {
    /// By a hash, as bonds do.
    Hashed,
    /// By the ports in turn.
    Alternate,
}

/// What the publication leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// QPs of a connection between two NICs.
    pub qps_per_connection: u32,
    /// Cables between a leaf and a spine, which together carry 800 Gbit/s.
    pub cables: u32,
    /// How QPs leave.
    pub transmit: Transmit,
    /// Whether the flows of a job move together.
    pub solver: Solver,
}

impl Setting {
    /// The one of the table. It was chosen by someone who knew what it was to show; `kelpie paths compare --sweep` has
    /// the others.
    pub const TABLE: Self =
        Self { qps_per_connection: 12, cables: 2, transmit: Transmit::Hashed, solver: Solver::Lockstep };

    /// Settings around it: QPs with cables, then transmit with motion.
    pub fn sweep() -> Vec<Self> {
        let number = [2, 4, 8, 12, 16, 32].into_iter().flat_map(|qps| [1, 2, 4].map(|cables| (qps, cables)));
        let mut all: Vec<Self> =
            number.map(|(qps_per_connection, cables)| Self { qps_per_connection, cables, ..Self::TABLE }).collect();
        for transmit in [Transmit::Hashed, Transmit::Alternate] {
            for solver in [Solver::Lockstep, Solver::Independent] {
                for qps_per_connection in [8, 12] {
                    let setting = Self { qps_per_connection, transmit, solver, ..Self::TABLE };
                    if !all.contains(&setting) {
                        all.push(setting);
                    }
                }
            }
        }
        all
    }

    fn cluster(self, spines: u32, seed: u64) -> Cluster {
        Cluster {
            hosts: 16,
            nics_per_host: 8,
            ports_per_nic: 2,
            port_gbps: 200.0,
            nic_gbps: Some(362.0),
            leaves: 8,
            attach: Attach::Host,
            spines,
            cables: self.cables,
            cable_gbps: 800.0 / f64::from(self.cables),
            hash_seed: seed,
            failed: Vec::new(),
            host_names: Vec::new(),
            rank_nics: Vec::new(),
        }
    }

    /// Source ports of QPs that nobody steers.
    fn unsteered(self, connections: &[JobConnection], seed: u64) -> QpSourcePorts {
        let mut ports = unsteered(connections, seed);
        if self.transmit == Transmit::Alternate {
            let nth = connections.iter().flat_map(|one| 0..one.qps);
            ports.iter_mut().zip(nth).for_each(|(port, nth)| port.1 = Some(PortSide::BOTH[nth as usize % 2]));
        }
        ports
    }
}

/// What was published of an experiment. Units: Gbit/s; gains in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedResult {
    /// With ECMP, as text.
    pub ecmp: &'static str,
    /// With C4P, as text.
    pub planned: &'static str,
    /// Of C4P over ECMP, if the publication says it.
    pub gain_percent: Option<f64>,
}

/// One experiment, over several seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentRow {
    /// What was run.
    pub experiment: &'static str,
    /// What was published.
    pub published: PublishedResult,
    /// Busbw of jobs with ECMP: least, mean, most. Units: Gbit/s.
    pub ecmp_gbps: [f64; 3],
    /// The same with plans.
    pub planned_gbps: [f64; 3],
    /// Of the means.
    pub gain_percent: f64,
}

/// The course of the experiment with a failure, of one seed. Units: Gbit/s, mean of the jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailureCourse {
    /// ECMP.
    pub ecmp_gbps: Vec<f64>,
    /// Planned once.
    pub static_gbps: Vec<f64>,
    /// Planned, with dynamic balance.
    pub balanced_gbps: Vec<f64>,
    /// QPs that moved in each iteration.
    pub moves: Vec<usize>,
}

/// What came of a failure with one seed: least, mean and most of jobs. Units: Gbit/s.
struct FailureOutcome {
    course: FailureCourse,
    ecmp: [f64; 3],
    fixed: [f64; 3],
    balanced: [f64; 3],
    anew: [f64; 3],
}

/// All experiments with one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingComparison {
    /// The setting.
    pub setting: Setting,
    /// Seeds that each figure is over.
    pub seeds: u64,
    /// The experiments.
    pub rows: Vec<ExperimentRow>,
    /// The failure, of the first seed.
    pub course: FailureCourse,
}

/// Runs all experiments.
pub fn compare(setting: Setting, first_seed: u64, seeds: u64) -> SettingComparison {
    let one = |hosts: u32| move |_: &Cluster| vec![ring(spread(hosts), setting)];
    let about_360 = PublishedResult { ecmp: "under 240", planned: "about 360", gain_percent: None };
    let mut rows: Vec<ExperimentRow> =
        [("one all-reduce, 32 GPUs", 4), ("one all-reduce, 64 GPUs", 8), ("one all-reduce, 128 GPUs", 16)]
            .into_iter()
            .map(|(name, hosts)| row(name, about_360, setting, (8, first_seed, seeds), &one(hosts)))
            .collect();
    let eight = |_: &Cluster| (0..8).map(|pair| ring(vec![pair, pair + 8], setting)).collect();
    let full = PublishedResult { ecmp: "171.9 to 263.3", planned: "353.9 to 360.6", gain_percent: Some(70.3) };
    rows.push(row("eight jobs, 1:1", full, setting, (8, first_seed, seeds), &eight));
    let half = PublishedResult { ecmp: "-", planned: "about 325", gain_percent: Some(65.55) };
    rows.push(row("eight jobs, 2:1", half, setting, (4, first_seed, seeds), &eight));
    let jobs: Vec<Job> = (0..8).map(|pair| ring(vec![pair, pair + 8], setting)).collect();
    let courses: Vec<FailureOutcome> =
        (first_seed..first_seed + seeds).map(|seed| failure(setting, seed, &jobs)).collect();
    let merge = |of: fn(&FailureOutcome) -> [f64; 3]| {
        let all: Vec<[f64; 3]> = courses.iter().map(of).collect();
        let mean = all.iter().map(|one| one[1]).sum::<f64>() / all.len() as f64;
        [all.iter().map(|one| one[0]).fold(f64::MAX, f64::min), mean, all.iter().map(|one| one[2]).fold(0.0, f64::max)]
    };
    let (ecmp, fixed, balanced) = (merge(|one| one.ecmp), merge(|one| one.fixed), merge(|one| one.balanced));
    let gain = |over: [f64; 3], with: [f64; 3]| (with[1] / over[1] - 1.0) * 100.0;
    let lost = PublishedResult { ecmp: "185.8 (160 to 220)", planned: "301.5 (290 to 335)", gain_percent: Some(62.3) };
    rows.push(ExperimentRow {
        experiment: "one of eight uplinks lost, dynamic balance",
        published: lost,
        ecmp_gbps: ecmp,
        planned_gbps: balanced,
        gain_percent: gain(ecmp, balanced),
    });
    let only_static = PublishedResult { ecmp: "185.8 (160 to 220)", planned: "-", gain_percent: None };
    rows.push(ExperimentRow {
        experiment: "the same, planned once",
        published: only_static,
        ecmp_gbps: ecmp,
        planned_gbps: fixed,
        gain_percent: gain(ecmp, fixed),
    });
    let anew = merge(|one| one.anew);
    rows.push(ExperimentRow {
        experiment: "the same, planned anew by a planner that is told",
        published: PublishedResult { ecmp: "-", planned: "315 at best", gain_percent: None },
        ecmp_gbps: ecmp,
        planned_gbps: anew,
        gain_percent: gain(ecmp, anew),
    });
    let course = courses.into_iter().next().map(|one| one.course).expect("at least one seed");
    SettingComparison { setting, seeds, rows, course }
}

/// Hosts of different leaves follow each other, so that a ring crosses spines at each step.
fn spread(hosts: u32) -> Vec<u32> {
    (0..hosts).map(|place| place % 4 * 4 + place / 4).collect()
}

fn ring(hosts: Vec<u32>, setting: Setting) -> Job {
    Job {
        name: String::new(),
        hosts,
        nics: None,
        collective: Collective::Ring,
        qps_per_connection: setting.qps_per_connection,
        bytes_per_connection: None,
        start_s: 0.0,
    }
}

fn row(
    experiment: &'static str,
    published: PublishedResult,
    setting: Setting,
    (spines, first_seed, seeds): (u32, u64, u64),
    jobs: &dyn Fn(&Cluster) -> Vec<Job>,
) -> ExperimentRow {
    let (mut ecmp, mut plan) = (Vec::new(), Vec::new());
    for seed in first_seed..first_seed + seeds {
        let cluster = setting.cluster(spines, seed);
        let jobs = jobs(&cluster);
        let connections = connections(&jobs, &cluster);
        let working = Working::of(&cluster);
        let busbw = |ports: &QpSourcePorts| {
            let ways = ways(&cluster, &working, &connections, ports);
            let rates = rates_gbps(&cluster, &connections, &ways, setting.solver);
            busbw_gbps(jobs.len(), &connections, &rates)
        };
        ecmp.extend(busbw(&setting.unsteered(&connections, seed)));
        plan.extend(busbw(&planned(&cluster, &working, &connections)));
    }
    let (ecmp_gbps, planned_gbps) = (spread_of(&ecmp), spread_of(&plan));
    let gain_percent = (planned_gbps[1] / ecmp_gbps[1] - 1.0) * 100.0;
    ExperimentRow { experiment, published, ecmp_gbps, planned_gbps, gain_percent }
}

fn connections(jobs: &[Job], cluster: &Cluster) -> Vec<JobConnection> {
    jobs.iter().enumerate().flat_map(|(place, job)| job.connections(place, cluster)).collect()
}

/// Least, mean and most.
fn spread_of(values: &[f64]) -> [f64; 3] {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    [values.iter().copied().fold(f64::MAX, f64::min), mean, values.iter().copied().fold(0.0, f64::max)]
}

fn failure(setting: Setting, seed: u64, jobs: &[Job]) -> FailureOutcome {
    let cluster = setting.cluster(8, seed);
    let connections = connections(jobs, &cluster);
    let part = FabricPart::Cable { leaf: seed as u32 % 8, spine: seed as u32 / 8 % 8, cable: None };
    let random = setting.unsteered(&connections, seed);
    let busbw = |working: &Working, ports: &QpSourcePorts| {
        let ways = ways(&cluster, working, &connections, ports);
        busbw_gbps(jobs.len(), &connections, &rates_gbps(&cluster, &connections, &ways, setting.solver))
    };
    let mut working = Working::of(&cluster);
    let before = busbw(&working, &random);
    working.set(&cluster, part, false);
    let after = busbw(&working, &random);
    let anew = spread_of(&busbw(&working, &planned(&cluster, &working, &connections)));
    let run = |planners: usize, iterations: u32| {
        let failure = FailureScenario {
            cluster: &cluster,
            connections: &connections,
            jobs: jobs.len(),
            part,
            at: FAILS_AT,
            iterations,
            planners,
            noise: 0.005,
            seed,
        };
        failure.run()
    };
    let (mut fixed, balanced) = (run(0, FAILS_AT + 1), run(1, ITERATIONS));
    // Nothing changes any more.
    fixed.resize(ITERATIONS as usize, fixed[FAILS_AT as usize].clone());
    let mean = |busbw: &[f64]| busbw.iter().sum::<f64>() / busbw.len() as f64;
    let course = FailureCourse {
        ecmp_gbps: (0..ITERATIONS).map(|at| mean(if at < FAILS_AT { &before } else { &after })).collect(),
        static_gbps: fixed.iter().map(|one| mean(&one.busbw_gbps)).collect(),
        balanced_gbps: balanced.iter().map(|one| mean(&one.busbw_gbps)).collect(),
        moves: balanced.iter().map(|one| one.moves).collect(),
    };
    let end =
        |run: &[crate::dynamics::SimulatedIteration]| spread_of(&run.last().expect("there are iterations").busbw_gbps);
    FailureOutcome { course, ecmp: spread_of(&after), fixed: end(&fixed), balanced: end(&balanced), anew }
}

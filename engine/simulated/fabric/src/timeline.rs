//! Jobs on a cluster: the rates they get, and how those change as jobs start and end and parts fail. Who chooses source
//! ports is elsewhere.

use kelpie_collectives::{JobConnection, Jobs};
use kelpie_paths::{Leaving, Planner, PortSearch, Route};
use kelpie_spaces::flow_label::{FIRST_PORT, label_of_qps, port_of_label};
use kelpie_topology::{Cluster, EcmpPath, FlowKey, PortSide, Working};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use crate::problem::{Solver, solve};

/// QP numbers have 24 bits. Source: IBTA 1.4, section 9.2 (BTH).
const QP_NUMBERS: u32 = 1 << 24;

/// A source port for each QP of each connection, and the port of the NIC by which it leaves where that is not hashed.
pub type QpSourcePorts = Vec<(u16, Option<PortSide>)>;

/// What QPs get when nobody steers: the source ports of random QP numbers.
pub fn unsteered(connections: &[JobConnection], seed: u64) -> QpSourcePorts {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut number = || random.random_range(2..QP_NUMBERS);
    let qps = connections.iter().map(|connection| connection.qps).sum();
    (0..qps).map(|_: u32| (port_of_label(label_of_qps(number(), number())), None)).collect()
}

/// What the planner gives QPs on what works, if the device can choose the port by which a QP leaves.
pub fn planned(cluster: &Cluster, working: &Working, connections: &[JobConnection]) -> QpSourcePorts {
    let mut planner = Planner::new(cluster, working, true);
    let mut moved = Vec::new();
    let qps: Vec<_> = connections.iter().map(|one| planner.request(one.from, one.to, one.qps, &mut moved)).collect();
    let search = PortSearch::new(cluster, working);
    let mut ports = Vec::new();
    for (connection, qps) in connections.iter().zip(qps) {
        let routes: Vec<Option<Route>> = qps.iter().map(|id| planner.route(*id)).collect();
        let there: Vec<Route> = routes.iter().flatten().copied().collect();
        let mut found = search.ports(connection.from, connection.to, &there, Leaving::Chosen).into_iter();
        // A QP without a path keeps some port, with which it goes where the hash leads, if anywhere.
        ports.extend(routes.into_iter().map(|route| match route {
            Some(route) => (found.next().flatten().unwrap_or(FIRST_PORT), Some(route.side)),
            None => (FIRST_PORT, None),
        }));
    }
    ports
}

/// The way of each QP; none if nothing that works leads there.
pub fn ways(
    cluster: &Cluster,
    working: &Working,
    connections: &[JobConnection],
    ports: &QpSourcePorts,
) -> Vec<Option<EcmpPath>> {
    let qps = connections.iter().flat_map(|connection| (0..connection.qps).map(move |_| connection));
    let way = |(connection, (source_port, side)): (&JobConnection, &(u16, Option<PortSide>))| {
        let flow = FlowKey { from: connection.from, to: connection.to, source_port: *source_port };
        let out = match side {
            Some(side) => *side,
            None => cluster.transmit(working, flow)?,
        };
        cluster.route(working, flow, out)
    };
    qps.zip(ports).map(way).collect()
}

/// The rate of each QP on its way; 0 where there is none. Units: Gbit/s.
pub fn rates_gbps(
    cluster: &Cluster,
    connections: &[JobConnection],
    ways: &[Option<EcmpPath>],
    solver: Solver,
) -> Vec<f64> {
    let mut capacity: Vec<f64> = cluster.links().map(|link| cluster.capacity_gbps(link)).collect();
    // A QP that goes nowhere crosses a link that carries nothing, so that in lockstep its job stands.
    let nowhere = capacity.len();
    capacity.push(0.0);
    let qps = connections.iter().flat_map(|connection| (0..connection.qps).map(move |_| connection));
    let flows: Vec<(usize, Vec<usize>)> = (qps.zip(ways))
        .map(|(connection, way)| {
            let links = way.map(|way| way.links(cluster, connection.from, connection.to));
            let places = links.map(|links| links.into_iter().map(|link| cluster.index(link)).collect());
            (connection.job, places.unwrap_or_else(|| vec![nowhere]))
        })
        .collect();
    solve(&capacity, &flows, solver)
}

/// What each job gets: QPs of a connection times the slowest QP. Units: Gbit/s.
pub fn busbw_gbps(jobs: usize, connections: &[JobConnection], rates: &[f64]) -> Vec<f64> {
    let mut busbw = vec![f64::INFINITY; jobs];
    let qps = connections.iter().flat_map(|connection| (0..connection.qps).map(move |_| connection));
    for (connection, rate) in qps.zip(rates) {
        busbw[connection.job] = busbw[connection.job].min(f64::from(connection.qps) * rate);
    }
    busbw.into_iter().map(|busbw| if busbw.is_finite() { busbw } else { 0.0 }).collect()
}

/// What holds from a time on, until the next one.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct TimelineMoment {
    /// Units: seconds.
    pub at_s: f64,
    /// What changed, for people.
    pub because: String,
    /// Per job; 0 for one that does not run. Units: Gbit/s.
    pub busbw_gbps: Vec<f64>,
    /// Per QP of all jobs, in their order. Units: Gbit/s.
    pub rate_gbps: Vec<f64>,
}

/// What became of jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineRun {
    /// In order of time.
    pub moments: Vec<TimelineMoment>,
    /// When each job ended; none for one that does not. Units: seconds.
    pub ended_s: Vec<Option<f64>>,
}

impl TimelineRun {
    /// Runs jobs until nothing more happens. `ports` is asked again whenever parts fail or are repaired.
    pub fn of(
        cluster: &Cluster,
        jobs: &Jobs,
        solver: Solver,
        mut ports: impl FnMut(&Working, &[JobConnection]) -> QpSourcePorts,
    ) -> Self {
        let connections = jobs.connections(cluster);
        let mut working = Working::of(cluster);
        let mut steered = ports(&working, &connections);
        let mut events: Vec<usize> = (0..jobs.events.len()).collect();
        events.sort_by(|a, b| jobs.events[*a].at_s.total_cmp(&jobs.events[*b].at_s));
        let mut events = events.into_iter().peekable();
        let mut left: Vec<f64> = (jobs.jobs.iter())
            .map(|job| job.bytes_per_connection.map_or(f64::INFINITY, |bytes| bytes as f64 * 8.0 / 1e9))
            .collect();
        let mut run = Self { moments: Vec::new(), ended_s: vec![None; left.len()] };
        let (mut now, mut because) = (0.0, "start".to_owned());
        loop {
            let runs = |job: usize| jobs.jobs[job].start_s <= now && run.ended_s[job].is_none();
            let ways = ways(cluster, &working, &connections, &steered);
            let rate_gbps = rates_of_running(cluster, &connections, &ways, solver, runs);
            let running: Vec<f64> = busbw_gbps(left.len(), &connections, &rate_gbps);
            let end = |job: usize| now + left[job] / running[job];
            let ends = (0..left.len()).filter(|job| runs(*job) && running[*job] > 0.0 && left[*job].is_finite());
            let first_end = ends.map(|job| (end(job), job)).min_by(|a, b| a.0.total_cmp(&b.0));
            let starts = jobs.jobs.iter().map(|job| job.start_s).filter(|start| *start > now);
            let start = starts.min_by(f64::total_cmp);
            let event = events.peek().map(|event| jobs.events[*event].at_s);
            let next = [first_end.map(|end| end.0), start, event].into_iter().flatten().min_by(f64::total_cmp);
            run.moments.push(TimelineMoment { at_s: now, because, busbw_gbps: running.clone(), rate_gbps });
            let Some(next) = next else { return run };
            for job in 0..left.len() {
                if jobs.jobs[job].start_s <= now && run.ended_s[job].is_none() {
                    left[job] -= running[job] * (next - now);
                }
            }
            now = next;
            because = if event == Some(next) {
                let event = jobs.events[events.next().expect("it was seen")];
                let part = event.fail.or(event.repair).expect("the reader asks for one of them");
                working.set(cluster, part, event.repair.is_some());
                steered = ports(&working, &connections);
                format!("{} {part:?}", if event.fail.is_some() { "failed:" } else { "repaired:" })
            } else if let Some((_, job)) = first_end.filter(|end| end.0 <= next) {
                run.ended_s[job] = Some(now);
                format!("job {job} ended")
            } else {
                "a job started".to_owned()
            };
        }
    }
}

fn rates_of_running(
    cluster: &Cluster,
    connections: &[JobConnection],
    ways: &[Option<EcmpPath>],
    solver: Solver,
    runs: impl Fn(usize) -> bool,
) -> Vec<f64> {
    let qps = connections.iter().flat_map(|connection| (0..connection.qps).map(move |_| connection.job));
    let running: Vec<JobConnection> = connections.iter().filter(|one| runs(one.job)).copied().collect();
    let their_ways: Vec<Option<EcmpPath>> =
        qps.clone().zip(ways).filter(|(job, _)| runs(*job)).map(|(_, way)| *way).collect();
    let mut rates = rates_gbps(cluster, &running, &their_ways, solver).into_iter();
    qps.map(|job| if runs(job) { rates.next().expect("a rate for each QP that runs") } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_start_end_and_lose_links() {
        let text = "kelpie: topology/1\ncluster: {hosts: 4, nics_per_host: 1, ports_per_nic: 1, port_gbps: 100, \
                    leaves: 2, spines: 2, cable_gbps: 100}";
        let cluster = Cluster::from_yaml("t", text).expect("valid");
        // Two jobs of 100 Gbit each from leaf 0 to leaf 1 and back; one link fails for good at 0.5 s.
        let text = "kelpie: job/1\njobs:\n\
                    - {hosts: [0, 2], collective: ring, qps_per_connection: 1, bytes_per_connection: 12500000000}\n\
                    - {hosts: [1, 3], collective: ring, qps_per_connection: 1, bytes_per_connection: 12500000000}\n\
                    events:\n- {at_s: 0.5, fail: {leaf: 0, spine: 1}}";
        let jobs = Jobs::from_yaml("j", text, &cluster).expect("valid");
        // Ports that take different spines while both are there.
        let spread = |working: &Working, connections: &[JobConnection]| -> QpSourcePorts {
            let spine = |connection: &JobConnection, wanted: u32| {
                let flow = |source_port| FlowKey { from: connection.from, to: connection.to, source_port };
                let way = |port: &u16| cluster.route(working, flow(*port), PortSide::Left).and_then(|way| way.planes);
                let mut ports = 49_152..=u16::MAX;
                ports.find(|port| way(port).is_some_and(|planes| planes.0 == wanted)).unwrap_or(49_152)
            };
            connections.iter().map(|one| (spine(one, one.job as u32), None)).collect()
        };
        let run = TimelineRun::of(&cluster, &jobs, Solver::Independent, spread);
        assert_eq!(run.moments[0].busbw_gbps, [100.0, 100.0]);
        assert_eq!(run.moments[1].busbw_gbps, [50.0, 50.0]);
        // Half was left, at half the rate.
        assert!(run.ended_s.iter().all(|end| end.is_some_and(|end| (end - 1.5).abs() < 1e-9)), "{:?}", run.ended_s);
    }
}

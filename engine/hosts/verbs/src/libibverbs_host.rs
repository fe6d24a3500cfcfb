//! The agent's host over libibverbs: the steps of a session in order, each with what it needs from the one before.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use kelpie_engine::plan::{GroupPlan, HostPlan, Role};
use kelpie_engine::rank::{RankJob, RankReading};
use kelpie_engine::verbs_host::{GroupEndpoint, GroupPorts, HostError, HostReading, Port, PortReport, VerbsHost};
use kelpie_monitor::counters::MADE;
use kelpie_monitor::sources::{CounterSource, PortSources};

use crate::address::{self, SYSFS_ROOT};
use crate::affinity::{self, cpus_near};
use crate::ah::LocalPort;
use crate::churn::ChurnThread;
use crate::cq::Completions;
use crate::device::{Context, PortState};
use crate::error::VerbsError;
use crate::group::Group;
use crate::library::library;
use crate::memory;
use crate::pd::Pd;
use crate::pool::Pool;
use crate::rank::{Rank, VerbsRank};
use crate::traffic::RunningTraffic;

/// Most polling threads. Source: our choice, because the fastest NICs take 200 M messages/s and a thread posts 25 M.
const MOST_THREADS: usize = 8;

/// Asynchronous events of the time between experiments that are read and dropped. Source: our choice, so that it ends.
const MOST_OLD_EVENTS: usize = 4096;

/// Pause while waiting for outstanding work.
const DRAIN_STEP: Duration = Duration::from_millis(1);

/// How far a session is.
enum SessionStage {
    /// Nothing is there but what is idle.
    Idle,
    /// QPs exist; connected or not.
    Prepared { groups: Vec<Group>, churn: Option<[u64; 2]>, connected: bool },
    /// Traffic runs, with the groups' lanes, and perhaps something beside it.
    Running { traffic: RunningTraffic, churn: Option<ChurnThread>, groups: Vec<Group> },
    /// A rank of a ring exists, connected or not.
    Ring(Box<VerbsRank>),
    /// It runs.
    Rank(Rank),
}

/// A port in use, from a controller's first word to its last.
struct OpenPort {
    wanted: Port,
    pool: Pool,
    state: PortState,
    local: LocalPort,
    counters: PortSources,
    /// Where polling threads run.
    cpus: Vec<usize>,
}

/// This machine, through libibverbs.
pub struct LibibverbsHost {
    /// Device and GID index if a controller names none.
    default: (Option<String>, Option<u8>),
    stage: SessionStage,
    port: Option<OpenPort>,
    /// Differs between sessions.
    session: u32,
    /// What an experiment and what is idle beside it may take. Units: bytes.
    most_memory: u64,
}

impl LibibverbsHost {
    /// This machine; `device` and `gid_index` are used if a controller names none. An experiment takes up to
    /// `most_memory` bytes, and idle objects are destroyed rather than kept beside it beyond that.
    ///
    /// # Errors
    /// Where libibverbs is not installed.
    pub fn new(device: Option<String>, gid_index: Option<u8>, most_memory: u64) -> Result<Self, VerbsError> {
        library()?;
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let session = since_epoch.subsec_nanos();
        Ok(Self { default: (device, gid_index), stage: SessionStage::Idle, port: None, session, most_memory })
    }

    /// Opens the port; if it is open, reads its state again.
    fn open(&mut self, wanted: &Port) -> Result<&mut OpenPort, VerbsError> {
        let root = Path::new(SYSFS_ROOT);
        let kept = self.port.take().filter(|open| open.wanted == *wanted);
        let pool = match kept {
            Some(open) => open.pool,
            None => Pool::new(Pd::new(&Context::open(wanted.device.as_deref().or(self.default.0.as_deref()))?)?),
        };
        let context = pool.pd().context();
        let state = context.port(wanted.port)?;
        let gid = address::choose(root, context.name(), wanted.port, wanted.gid_index.or(self.default.1))?;
        let local = LocalPort { port: wanted.port, gid_index: gid.index, gid: gid.raw, tuning: wanted.tuning };
        let counters = PortSources::discover(context.name(), wanted.port.into());
        let mut cpus = cpus_near(root, context.name());
        cpus.truncate(MOST_THREADS);
        Ok(self.port.insert(OpenPort { wanted: wanted.clone(), pool, state, local, counters, cpus }))
    }

    fn prepare(&mut self, wanted: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, VerbsError> {
        let started = Instant::now();
        self.end_session();
        self.session = self.session.wrapping_add(1);
        let (session, most_memory) = (self.session, self.most_memory);
        let port = self.open(wanted)?;
        // What happened before belongs to no experiment.
        std::iter::from_fn(|| port.pool.pd().context().event()).take(MOST_OLD_EVENTS).for_each(drop);
        let limit = port.state.active_mtu;
        if let Some(group) = plan.groups.iter().find(|group| group.mtu.bytes() > limit) {
            let (name, mtu) = (port.pool.pd().context().name(), group.mtu.bytes());
            return Err(VerbsError::Unsupported(format!("{name} has an active MTU of {limit}, below {mtu}")));
        }
        let longest = port.state.longest_message;
        let lengths =
            |group: &GroupPlan| group.send.iter().flat_map(|send| &send.requests).map(|one| one.message().0).max();
        if let Some(length) = plan.groups.iter().filter_map(lengths).max().filter(|length| *length > longest) {
            let name = port.pool.pd().context().name();
            return Err(VerbsError::Unsupported(format!("{name} has messages of up to {longest} bytes, not {length}")));
        }
        let counts = |group: &&GroupPlan| memory::is_of_the_host(group.memory.device, wanted.tuning.huge_pages);
        let pinned = plan.groups.iter().filter(counts).map(GroupPlan::registered_bytes);
        let queues = plan.groups.iter().map(GroupPlan::queue_bytes).sum();
        port.pool.make_room(pinned.fold(0, u64::saturating_add), queues, most_memory)?;
        let groups = match create(port, plan, session) {
            // What is idle may be what is missing.
            Err(error) if error.is_exhausted() && port.pool.clear() => create(port, plan, session)?,
            created => created?,
        };
        let endpoints =
            groups.iter().map(|group| group.endpoint(port.pool.pd().context(), &port.local, port.state)).collect();
        let made = port.pool.made();
        tracing::info!(made.qps, made.mrs, milliseconds = started.elapsed().as_millis(), "session is set up");
        self.stage = SessionStage::Prepared { groups, churn: plan.churn(), connected: false };
        Ok(endpoints)
    }

    fn prepare_rank(&mut self, wanted: &Port, job: &RankJob) -> Result<Vec<GroupEndpoint>, VerbsError> {
        self.end_session();
        self.session = self.session.wrapping_add(1);
        let (session, most_memory) = (self.session, self.most_memory);
        let port = self.open(wanted)?;
        port.pool.make_room(2 * job.bytes, 0, most_memory)?;
        let ring = VerbsRank::new(port.pool.pd(), port.state, *job, session)?;
        let endpoints = ring.endpoints(port.pool.pd(), &port.local, port.state);
        self.stage = SessionStage::Ring(Box::new(ring));
        Ok(endpoints)
    }

    fn connect_groups(&mut self, peers: &[GroupEndpoint]) -> Result<(), VerbsError> {
        if let (SessionStage::Ring(ring), Some(port)) = (&mut self.stage, &self.port) {
            return ring.connect(&port.local, peers);
        }
        let (SessionStage::Prepared { groups, connected, .. }, Some(port)) = (&mut self.stage, &self.port) else {
            return Err(VerbsError::Protocol("nothing is set up to be connected".to_owned()));
        };
        // Responders first: on a loopback flow both ends are here.
        for role in [Role::Responder, Role::Requester] {
            for group in groups.iter_mut().filter(|group| group.plan().id.role == role) {
                let id = group.plan().id;
                let peer = peers.iter().find(|peer| peer.id == id.peer());
                let peer = peer.ok_or_else(|| VerbsError::Protocol(format!("flow {}: no peer was named", id.flow)))?;
                group.connect(&port.pool, &port.local, peer)?;
            }
        }
        *connected = true;
        Ok(())
    }

    fn start_traffic(&mut self) -> Result<(), VerbsError> {
        let Some(port) = &self.port else { return Err(not_running()) };
        match std::mem::replace(&mut self.stage, SessionStage::Idle) {
            SessionStage::Prepared { mut groups, churn, connected: true } => {
                let ops = groups.iter().map(|group| (group.plan().id, group.plan().ops())).collect();
                let lanes = groups.iter_mut().flat_map(Group::take_lanes).collect();
                let traffic = RunningTraffic::start(port.pool.pd().context(), lanes, &ops, &port.cpus)?;
                let churn = churn.map(|per_sec| ChurnThread::start(port.pool.pd(), per_sec)).transpose()?;
                self.stage = SessionStage::Running { traffic, churn, groups };
                Ok(())
            }
            SessionStage::Ring(ring) => {
                self.stage = SessionStage::Rank(Rank::start(*ring)?);
                Ok(())
            }
            other => {
                self.stage = other;
                Err(VerbsError::Protocol("nothing is connected".to_owned()))
            }
        }
    }

    fn read(&mut self) -> Result<HostReading, VerbsError> {
        let (SessionStage::Running { traffic, churn, groups: ends }, Some(port)) = (&self.stage, &mut self.port) else {
            return Err(not_running());
        };
        // What its lanes would have done is not the hardware's fault.
        if traffic.has_lost_a_thread() {
            return Err(VerbsError::Protocol("a traffic thread of this agent panicked: see its log".to_owned()));
        }
        let state = traffic.state();
        state.catch_up();
        let at_nanos = u64::try_from(traffic.started().elapsed().as_nanos()).unwrap_or(u64::MAX);
        let groups = state.counts();
        // Without counters of the port there is still the engine's count: a missing counter is missing.
        let mut counters = port.counters.read().unwrap_or_default();
        if let Some(churn) = churn {
            counters.extend(MADE.iter().zip(churn.made()).map(|(name, made)| ((*name).to_owned(), made)));
            if let Some(failure) = churn.failure() {
                state.event(failure);
            }
        }
        Ok(HostReading {
            at_nanos,
            groups,
            queue_full_nanos: state.queue_full_nanos(),
            received_late: state.received_late(),
            counters,
            events: state.events(),
            outstanding: state.outstanding(),
            latency: state.take_latencies(),
            lag: ends.iter().filter_map(Group::lag).collect(),
        })
    }

    fn drain(&mut self, limit: Duration) -> Result<HostReading, VerbsError> {
        let SessionStage::Running { traffic, .. } = &self.stage else { return Err(not_running()) };
        traffic.state().stop_posting();
        let started = Instant::now();
        while traffic.state().outstanding() > 0 && started.elapsed() < limit {
            thread::sleep(DRAIN_STEP);
        }
        self.read()
    }

    /// Ends traffic and leaves the objects of the session to the next one.
    fn end_session(&mut self) {
        let (groups, is_sound) = match std::mem::replace(&mut self.stage, SessionStage::Idle) {
            SessionStage::Idle | SessionStage::Ring(_) | SessionStage::Rank(_) => return,
            SessionStage::Prepared { groups, .. } => (groups, true),
            SessionStage::Running { traffic, churn, mut groups } => {
                drop(churn);
                let is_sound = traffic.state().events().is_empty();
                for lane in traffic.finish() {
                    let group = groups.iter_mut().find(|group| group.plan().id == lane.id);
                    group.expect("lanes come from the groups of their session").give_back(lane);
                }
                (groups, is_sound)
            }
        };
        let Some(port) = &mut self.port else { return };
        let mut room = Completions::new();
        // All QPs stop before any memory is given back.
        for group in groups {
            group.recycle(&mut port.pool, port.local.port, is_sound, &mut room);
        }
        port.pool.trim();
    }
}

/// Creates every group of the plan.
fn create(port: &mut OpenPort, plan: &HostPlan, session: u32) -> Result<Vec<Group>, VerbsError> {
    let OpenPort { pool, local, cpus, .. } = port;
    // Queues are memory of the library's: the kernel puts it near whoever touches it first.
    affinity::on(cpus, || plan.groups.iter().map(|group| Group::new(pool, group, local, cpus.len(), session)).collect())
}

fn not_running() -> VerbsError {
    VerbsError::Protocol("no traffic was started".to_owned())
}

impl VerbsHost for LibibverbsHost {
    fn inspect(&mut self, port: &Port) -> Result<PortReport, HostError> {
        if !matches!(self.stage, SessionStage::Idle) && self.port.as_ref().is_some_and(|open| open.wanted != *port) {
            return Err(HostError::Failed("an experiment holds another port".to_owned()));
        }
        let open = self.open(port)?;
        Ok(PortReport {
            device: open.pool.pd().context().name().to_owned(),
            gid_index: open.local.gid_index,
            active_mtu: open.state.active_mtu,
        })
    }

    fn set_up(&mut self, port: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError> {
        Ok(self.prepare(port, plan)?)
    }

    fn connect(&mut self, peers: &[GroupEndpoint]) -> Result<(), HostError> {
        Ok(self.connect_groups(peers)?)
    }

    fn set_source_ports(&mut self, wanted: &[GroupPorts]) -> Result<(), HostError> {
        let groups = match &mut self.stage {
            SessionStage::Prepared { groups, connected: false, .. } => groups,
            SessionStage::Ring(ring) => return Ok(ring.set_ports(wanted)?),
            SessionStage::Rank(rank) => return Ok(rank.set_ports(wanted)?),
            _ => return Err(VerbsError::Protocol("nothing is set up to be given source ports".to_owned()).into()),
        };
        for group in groups {
            group.set_ports(wanted);
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), HostError> {
        Ok(self.start_traffic()?)
    }

    fn sample(&mut self) -> Result<HostReading, HostError> {
        Ok(self.read()?)
    }

    fn stop(&mut self, drain: Duration) -> Result<HostReading, HostError> {
        Ok(self.drain(drain)?)
    }

    fn set_up_rank(&mut self, port: &Port, job: &RankJob) -> Result<Vec<GroupEndpoint>, HostError> {
        Ok(self.prepare_rank(port, job)?)
    }

    fn read_rank(&mut self) -> Result<RankReading, HostError> {
        match &self.stage {
            SessionStage::Ring(ring) => Ok(ring.read()),
            SessionStage::Rank(rank) => Ok(rank.read()),
            _ => Err(not_running().into()),
        }
    }

    fn recycle(&mut self) {
        self.end_session();
    }

    fn tear_down(&mut self) {
        // Objects before the device that they belong to.
        self.stage = SessionStage::Idle;
        self.port = None;
    }
}

//! The agent's host over libibverbs: the steps of a session in order, each with what it needs from the one before.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kelpie_engine::host::{GroupEndpoint, HostError, HostReading, Port, PortReport, VerbsHost};
use kelpie_engine::plan::{HostPlan, Role};
use kelpie_monitor::sources::{CounterSource, SysfsSource};

use crate::address::{self, Gid, SYSFS_ROOT};
use crate::device::{Context, PortState};
use crate::error::VerbsError;
use crate::group::Group;
use crate::library::library;
use crate::memory::check_budget;
use crate::pd::Pd;
use crate::qp::LocalPort;
use crate::traffic::Traffic;

/// Pause while waiting for outstanding work.
const DRAIN_STEP: Duration = Duration::from_millis(1);

/// How far a session is.
enum Stage {
    /// Nothing is there.
    Idle,
    /// QPs exist; connected or not.
    Prepared { groups: Vec<Group>, connected: bool },
    /// Traffic runs.
    Running(Traffic),
}

/// A port in use.
struct OpenPort {
    context: Arc<Context>,
    gid: Gid,
    state: PortState,
    local: LocalPort,
}

/// This machine, through libibverbs.
pub struct LibibverbsHost {
    default: Port,
    port: Option<OpenPort>,
    counters: Option<SysfsSource>,
    stage: Stage,
}

impl LibibverbsHost {
    /// This machine; `default` is used where a controller names no device or GID.
    ///
    /// # Errors
    /// Where libibverbs is not installed.
    pub fn new(default: Port) -> Result<Self, VerbsError> {
        library()?;
        Ok(Self { default, port: None, counters: None, stage: Stage::Idle })
    }

    fn open(&self, wanted: &Port) -> Result<OpenPort, VerbsError> {
        let device = wanted.device.as_deref().or(self.default.device.as_deref());
        let context = Context::open(device)?;
        let state = context.port(wanted.port)?;
        let index = wanted.gid_index.or(self.default.gid_index);
        let gid = address::choose(Path::new(SYSFS_ROOT), context.name(), wanted.port, index)?;
        let local = LocalPort { port: wanted.port, gid_index: gid.index };
        Ok(OpenPort { context, gid, state, local })
    }

    fn prepare(&mut self, wanted: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, VerbsError> {
        self.reset();
        let port = self.open(wanted)?;
        let pinned = plan
            .groups
            .iter()
            .map(|group| u64::from(group.qps) * u64::from(group.memory.mrs).saturating_mul(group.memory.mr_size.0));
        check_budget(pinned.fold(0, u64::saturating_add))?;
        let limit = port.state.active_mtu;
        if let Some(group) = plan.groups.iter().find(|group| group.mtu.bytes() > limit) {
            let (name, mtu) = (port.context.name(), group.mtu.bytes());
            return Err(VerbsError::Unsupported(format!("{name} has an active MTU of {limit}, below {mtu}")));
        }
        let pd = Pd::new(&port.context)?;
        let groups = plan.groups.iter().map(|group| Group::new(&pd, group)).collect::<Result<Vec<_>, _>>()?;
        let endpoints = groups.iter().map(|group| group.endpoint(&port.gid, port.state)).collect();
        self.counters = Some(SysfsSource::new(port.context.name(), wanted.port.into()));
        self.port = Some(port);
        self.stage = Stage::Prepared { groups, connected: false };
        Ok(endpoints)
    }

    fn connect_groups(&mut self, peers: &[GroupEndpoint]) -> Result<(), VerbsError> {
        let (Stage::Prepared { groups, connected }, Some(port)) = (&mut self.stage, &self.port) else {
            return Err(VerbsError::Protocol("nothing is set up to be connected".to_owned()));
        };
        // Responders first: on a loopback flow both ends are here.
        for role in [Role::Responder, Role::Requester] {
            for group in groups.iter_mut().filter(|group| group.plan().id.role == role) {
                let id = group.plan().id;
                let peer = peers.iter().find(|peer| peer.id == id.peer());
                let peer = peer.ok_or_else(|| VerbsError::Protocol(format!("flow {}: no peer was named", id.flow)))?;
                group.connect(port.local, peer)?;
            }
        }
        *connected = true;
        Ok(())
    }

    fn start_traffic(&mut self) -> Result<(), VerbsError> {
        let Some(port) = &self.port else { return Err(not_running()) };
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Prepared { groups, connected: true } => {
                self.stage = Stage::Running(Traffic::start(Arc::clone(&port.context), groups)?);
                Ok(())
            }
            other => {
                self.stage = other;
                Err(VerbsError::Protocol("nothing is connected".to_owned()))
            }
        }
    }

    fn read(&mut self) -> Result<HostReading, VerbsError> {
        let Stage::Running(traffic) = &self.stage else { return Err(not_running()) };
        let share = traffic.share();
        share.catch_up();
        let at_nanos = u64::try_from(traffic.started().elapsed().as_nanos()).unwrap_or(u64::MAX);
        let groups = share.counts();
        // Without counters of the port there is still the engine's count: a missing counter is missing.
        let counters = self.counters.as_mut().and_then(|source| source.read().ok()).unwrap_or_default();
        Ok(HostReading {
            at_nanos,
            groups,
            queue_full_nanos: share.queue_full_nanos(),
            counters,
            events: share.events(),
            outstanding: share.outstanding(),
        })
    }

    fn drain(&mut self, limit: Duration) -> Result<HostReading, VerbsError> {
        let Stage::Running(traffic) = &self.stage else { return Err(not_running()) };
        traffic.share().stop_posting();
        let started = Instant::now();
        while traffic.share().outstanding() > 0 && started.elapsed() < limit {
            thread::sleep(DRAIN_STEP);
        }
        self.read()
    }

    fn reset(&mut self) {
        // Objects before the context they belong to.
        self.stage = Stage::Idle;
        self.counters = None;
        self.port = None;
    }
}

fn not_running() -> VerbsError {
    VerbsError::Protocol("no traffic was started".to_owned())
}

impl VerbsHost for LibibverbsHost {
    fn inspect(&mut self, port: &Port) -> Result<PortReport, HostError> {
        let open = self.open(port)?;
        Ok(PortReport {
            device: open.context.name().to_owned(),
            gid_index: open.gid.index,
            active_mtu: open.state.active_mtu,
        })
    }

    fn set_up(&mut self, port: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError> {
        Ok(self.prepare(port, plan)?)
    }

    fn connect(&mut self, peers: &[GroupEndpoint]) -> Result<(), HostError> {
        Ok(self.connect_groups(peers)?)
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

    fn tear_down(&mut self) {
        self.reset();
    }
}

//! A host whose NIC is a model, behind the face of an agent's machine: two of them are a pair over the real protocol.
//! Both learn the other's model, simulate the same traffic, and each shows its own side by the clock.

mod cable;
mod fleet;
mod traffic;

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kelpie_engine::plan::HostPlan;
use kelpie_engine::verbs_host::{GroupEndpoint, HostError, HostReading, Port, PortReport, QpEndpoint, VerbsHost};
use kelpie_sim::{SimSubsystem, SimulatedTraffic};
use kelpie_spaces::Host;

use cable::Cable;

use crate::subsystem::load_simulated;

pub use fleet::{FleetAgent, SimulatedFleet};

/// What a simulated host calls its device.
pub const DEVICE: &str = "sim0";

/// Seed of every simulation between hosts, so that a seed of one host is of its noise alone. Source: that of the models
/// that come along.
const SEED: f64 = 1.0;

/// How long a step waits for the model of the other host: while it connects, when the other may not have sent it yet,
/// and when traffic starts, before which both have connected. Source: our choice, less than the step may take.
const PATIENCE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];

/// Longer than any controller waits.
const FOR_EVER: Duration = Duration::from_hours(1);

/// Times as much work as there was, of a host that lies.
const LIE: f64 = 10.0;

/// A way of a simulated host to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Traffic never starts, and the step is never answered.
    Hang,
    /// It reports ten times the work.
    Lie,
    /// Its agent is gone at the first reading of traffic.
    Die,
}

/// A fault of a simulated host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedFault {
    /// How it fails.
    pub kind: FaultKind,
    /// Set-ups that are sound before it does.
    pub after: u32,
}

impl FromStr for SimulatedFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, after) = text.split_once(':').unwrap_or((text, "0"));
        let kind = match kind {
            "hang" => Some(FaultKind::Hang),
            "lie" => Some(FaultKind::Lie),
            "die" => Some(FaultKind::Die),
            _ => None,
        };
        let fault = kind.zip(after.parse().ok()).map(|(kind, after)| Self { kind, after });
        fault.ok_or_else(|| {
            "write hang, lie or die, and the number of sound set-ups before it, such as die:3".to_owned()
        })
    }
}

/// How a host's agent dies.
type Death = Box<dyn Fn() + Send>;

/// A simulated host.
pub struct SimulatedHost {
    /// With its noise and its seed.
    model: SimSubsystem,
    /// Without both.
    quiet: SimSubsystem,
    address: SocketAddr,
    fault: Option<SimulatedFault>,
    death: Death,
    set_ups: u32,
    session: Option<SimulatedSession>,
}

impl fmt::Debug for SimulatedHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SimulatedHost")
            .field("address", &self.address)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

/// What was set up.
struct SimulatedSession {
    plan: HostPlan,
    cable: Cable,
    has_peer: bool,
    traffic: Option<SimulatedTraffic>,
    /// Noise of each flow and direction.
    factors: Vec<f64>,
    started: Option<Instant>,
    stopped: Option<Duration>,
}

fn failed<T>(what: &str) -> Result<T, HostError> {
    Err(HostError::Failed(what.to_owned()))
}

fn unsupported<T>(what: &str) -> Result<T, HostError> {
    Err(HostError::Unsupported(what.to_owned()))
}

impl SimulatedHost {
    /// A host of this model, whose agent listens there. A fault that ends the agent ends the process.
    ///
    /// # Errors
    /// The address is none that another host can reach.
    pub fn new(model: SimSubsystem, address: SocketAddr) -> anyhow::Result<Self> {
        if address.ip().is_unspecified() {
            anyhow::bail!(
                "a simulated agent tells others where it is: have it listen on one address, not on {}",
                address.ip()
            );
        }
        let mut quiet = model.clone();
        quiet.set_numbers(&[("sampling.noise", 0.0), ("sampling.seed", SEED)])?;
        let death: Death = Box::new(|| std::process::exit(3));
        Ok(Self { model, quiet, address, fault: None, death, set_ups: 0, session: None })
    }

    /// A host of the model of this name or file, with changed parameters.
    ///
    /// # Errors
    /// There is no such model, a change does not fit it, or the address is none that another host can reach.
    pub fn load(model: &str, set: &[(String, String)], address: SocketAddr) -> anyhow::Result<Self> {
        let mut model = load_simulated(model)?;
        for (path, value) in set {
            model.set(path, value).with_context(|| format!("--set {path}={value}"))?;
        }
        Self::new(model, address)
    }

    /// The same with a fault.
    #[must_use]
    pub fn with_fault(self, fault: Option<SimulatedFault>) -> Self {
        Self { fault, ..self }
    }

    /// The same, whose agent is ended by `death` if it is to die.
    #[must_use]
    pub fn dying_by(self, death: impl Fn() + Send + 'static) -> Self {
        Self { death: Box::new(death), ..self }
    }

    fn has(&self, kind: FaultKind) -> bool {
        self.fault.is_some_and(|fault| fault.kind == kind && self.set_ups > fault.after)
    }

    fn session(&mut self) -> Result<&mut SimulatedSession, HostError> {
        self.session.as_mut().ok_or_else(|| HostError::Failed("nothing is set up".to_owned()))
    }

    /// Simulates the traffic as soon as the other host's model is there; whether it was.
    fn simulate(&mut self, patience: Duration) -> Result<bool, HostError> {
        let quiet = self.quiet.clone();
        let session = self.session()?;
        if session.traffic.is_some() {
            return Ok(true);
        }
        let peer = if session.has_peer {
            let Some(text) = session.cable.receive(patience)? else { return Ok(false) };
            let peer = SimSubsystem::from_yaml("the other host's model", &text);
            peer.map_err(|error| HostError::Failed(error.to_string()))?
        } else {
            quiet.clone()
        };
        let (a, b) = if session.plan.host == Host::A { (&quiet, &peer) } else { (&peer, &quiet) };
        session.traffic = Some(traffic::simulate(a, b, &session.plan.workload)?);
        Ok(true)
    }

    fn reading(&self) -> Result<HostReading, HostError> {
        let parts =
            self.session.as_ref().and_then(|session| Some((session, session.traffic.as_ref()?, session.started?)));
        let Some((session, traffic, started)) = parts else { return failed("no traffic was started") };
        let at = session.stopped.unwrap_or_else(|| started.elapsed());
        let mut reading = traffic::reading(&session.plan, traffic, &session.factors, at);
        if session.stopped.is_some() {
            reading.at_nanos = started.elapsed().as_nanos() as u64;
        }
        Ok(reading)
    }
}

impl VerbsHost for SimulatedHost {
    fn inspect(&mut self, port: &Port) -> Result<PortReport, HostError> {
        match &port.device {
            Some(device) if device != DEVICE => {
                return failed(&format!("no RDMA device {device}: this agent is simulated, and has {DEVICE}"));
            }
            _ if port.port != 1 => return failed(&format!("{DEVICE} has port 1 alone")),
            _ => {}
        }
        let active_mtu = self.model.number("port.force_mtu").map_or(4096, |mtu| mtu as u64);
        Ok(PortReport { device: DEVICE.to_owned(), gid_index: port.gid_index.unwrap_or(0), active_mtu })
    }

    fn set_up(&mut self, port: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError> {
        self.session = None;
        self.inspect(port)?;
        if plan.groups.iter().filter_map(|group| group.send.as_ref()).any(|send| send.latency) {
            return unsupported("a simulated host knows rates and no time of a single request");
        }
        self.set_ups += 1;
        let cable = Cable::at(self.address.ip())?;
        let (gid, lid) = cable.gid_and_lid();
        let reads = self.model.number("processing.max_reads").map_or(0, |reads| reads.min(255.0) as u8);
        let mut first = 1;
        let mut endpoints = Vec::new();
        for group in &plan.groups {
            let qps = (first..first + group.qps).map(|qpn| QpEndpoint { qpn, psn: cable.session(), mrs: Vec::new() });
            let qps = qps.collect();
            endpoints.push(GroupEndpoint { id: group.id, gid, lid, needs_grh: false, reads, qps });
            first += group.qps;
        }
        // Agents of one seed are not alike.
        let mut run = DefaultHasher::new();
        (self.address, self.set_ups).hash(&mut run);
        let factors = self.model.noise(&plan.workload, run.finish(), 2 * plan.workload.flows.len());
        let lies = if self.has(FaultKind::Lie) { LIE } else { 1.0 };
        self.session = Some(SimulatedSession {
            plan: plan.clone(),
            cable,
            has_peer: false,
            traffic: None,
            factors: factors.into_iter().map(|factor| factor * lies).collect(),
            started: None,
            stopped: None,
        });
        Ok(endpoints)
    }

    fn connect(&mut self, peers: &[GroupEndpoint]) -> Result<(), HostError> {
        let text = self.quiet.yaml();
        let session = self.session()?;
        let own = session.cable.gid_and_lid();
        let named = |id| peers.iter().any(|peer| peer.id == id);
        if !session.plan.groups.iter().all(|group| named(group.id.peer())) {
            return failed("an end of a flow has no peer");
        }
        let mut others = peers.iter().filter(|peer| (peer.gid, peer.lid) != own);
        let other = others.next();
        if others.any(|peer| other.is_some_and(|other| (peer.gid, peer.lid) != (other.gid, other.lid))) {
            return unsupported("a simulated host has one peer at a time");
        }
        session.has_peer = other.is_some();
        other.map_or(Ok(()), |other| Cable::send(other, &text))?;
        self.simulate(PATIENCE[0]).map(drop)
    }

    fn start(&mut self) -> Result<(), HostError> {
        if self.has(FaultKind::Hang) {
            thread::sleep(FOR_EVER);
        }
        if !self.simulate(PATIENCE[1])? {
            return failed("the other simulated host sent no model: it did not connect, or cannot reach this host");
        }
        self.session()?.started = Some(Instant::now());
        Ok(())
    }

    fn sample(&mut self) -> Result<HostReading, HostError> {
        let reading = self.reading()?;
        if self.has(FaultKind::Die) {
            (self.death)();
            // Who is dead does not answer.
            thread::sleep(PATIENCE[0]);
            return failed("it is dead");
        }
        Ok(reading)
    }

    fn stop(&mut self, _drain: Duration) -> Result<HostReading, HostError> {
        if let Some(session) = &mut self.session {
            session.stopped = session.stopped.or(session.started.map(|started| started.elapsed()));
        }
        self.reading()
    }

    fn recycle(&mut self) {
        self.session = None;
    }

    fn tear_down(&mut self) {
        self.session = None;
    }
}

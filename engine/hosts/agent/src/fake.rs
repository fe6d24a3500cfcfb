//! A host without a device, for tests of everything above verbs: traffic flows at a fixed rate by the clock.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kelpie_engine::latency::Took;
use kelpie_engine::plan::{HostPlan, Role};
use kelpie_engine::verbs_host::{
    CompletedWork, GroupCount, GroupEndpoint, GroupLag, GroupLatency, GroupPorts, HostError, HostReading, Port,
    PortReport, QpEndpoint, RemoteMr, VerbsHost,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::server::{AgentConfig, serve_on};
use crate::{Limits, Security};

/// Messages per second and group.
pub const RATE: f64 = 50_000.0;

/// What the requests of each requester took that completed since the reading before, if they are timed.
pub const TOOK: [Took; 2] = [Took(1_500, 98), Took(1_000_000, 2)];

const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// How the next call of a step ends; used up by it.
#[derive(Debug, Clone)]
pub enum Trouble {
    Fails(HostError),
    Panics,
    Takes(Duration),
}

/// What a test sees and steers of a fake host.
#[derive(Debug, Default)]
pub struct Script {
    pub log: Vec<String>,
    pub trouble: Vec<(&'static str, Trouble)>,
    /// Whether the requests of each set-up with a requester were to be timed.
    pub timed: Vec<bool>,
    /// The ports that its QPs were given.
    pub ports: Vec<GroupPorts>,
}

struct FakeHost {
    script: Arc<Mutex<Script>>,
    plan: Option<HostPlan>,
    started: Option<Instant>,
}

impl FakeHost {
    fn step(&self, name: &'static str) -> Result<(), HostError> {
        let trouble = {
            let mut script = self.script.lock().expect("no test panics while it holds the script");
            script.log.push(name.to_owned());
            let index = script.trouble.iter().position(|(step, _)| *step == name);
            index.map(|index| script.trouble.remove(index).1)
        };
        match trouble {
            Some(Trouble::Fails(error)) => Err(error),
            Some(Trouble::Panics) => panic!("as the test asked"),
            Some(Trouble::Takes(time)) => {
                std::thread::sleep(time);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn reading(&self) -> HostReading {
        let (Some(plan), Some(started)) = (&self.plan, self.started) else { return HostReading::default() };
        let at = started.elapsed();
        let messages = (at.as_secs_f64() * RATE) as u64;
        let count = CompletedWork { messages, bytes: messages * 100, packets: messages };
        let groups = plan.groups.iter().map(|group| {
            let op = group.send.as_ref().map(|send| send.requests[0].op);
            let received = group.recv.is_some().then_some(kelpie_spaces::Opcode::Send);
            GroupCount { id: group.id, by_op: op.or(received).map(|op| (op, count)).into_iter().collect() }
        });
        let latency = plan.groups.iter().filter_map(|group| {
            let send = group.send.as_ref().filter(|send| send.latency)?;
            Some(GroupLatency { id: group.id, by_op: [(send.requests[0].op, TOOK.to_vec())].into() })
        });
        let ports = self.script.lock().expect("whole").ports.clone().into_iter();
        let lag = ports
            .filter(|group| !group.lag_ports.is_empty())
            .map(|group| GroupLag { id: group.id, leaves: Ok(group.lag_ports) });
        HostReading {
            at_nanos: u64::try_from(at.as_nanos()).expect("short"),
            groups: groups.collect(),
            latency: latency.collect(),
            lag: lag.collect(),
            counters: [("packets".to_owned(), messages)].into(),
            ..HostReading::default()
        }
    }
}

impl VerbsHost for FakeHost {
    fn inspect(&mut self, _port: &Port) -> Result<PortReport, HostError> {
        self.step("inspect")?;
        Ok(PortReport { device: "fake0".to_owned(), gid_index: 1, active_mtu: 4096 })
    }

    fn set_up(&mut self, _port: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError> {
        self.step("set_up")?;
        let send = plan.groups.iter().find_map(|group| group.send.as_ref());
        self.script.lock().expect("whole").timed.extend(send.map(|send| send.latency));
        self.plan = Some(plan.clone());
        let qp = |index: u32, role| QpEndpoint {
            qpn: index,
            psn: 0,
            mrs: if role == Role::Responder { vec![RemoteMr(4096, index)] } else { Vec::new() },
        };
        let endpoint = |group: &kelpie_engine::plan::GroupPlan| GroupEndpoint {
            id: group.id,
            gid: [0; 16],
            lid: 0,
            needs_grh: false,
            reads: if group.id.role == Role::Requester { 8 } else { 4 },
            qps: (0..group.qps).map(|index| qp(index, group.id.role)).collect(),
        };
        Ok(plan.groups.iter().map(endpoint).collect())
    }

    fn connect(&mut self, peers: &[GroupEndpoint]) -> Result<(), HostError> {
        self.step("connect")?;
        let plan = self.plan.as_ref().expect("set up comes first");
        for group in &plan.groups {
            let peer = peers.iter().find(|peer| peer.id == group.id.peer()).expect("every group has its peer");
            assert_eq!(peer.qps.len(), group.qps as usize);
        }
        assert_eq!(peers.len(), plan.groups.len(), "nobody else's groups");
        Ok(())
    }

    fn set_source_ports(&mut self, groups: &[GroupPorts]) -> Result<(), HostError> {
        self.step("set_source_ports")?;
        self.script.lock().expect("whole").ports = groups.to_vec();
        Ok(())
    }

    fn start(&mut self) -> Result<(), HostError> {
        self.step("start")?;
        self.started = Some(Instant::now());
        Ok(())
    }

    fn sample(&mut self) -> Result<HostReading, HostError> {
        self.step("sample")?;
        Ok(self.reading())
    }

    fn stop(&mut self, _drain: Duration) -> Result<HostReading, HostError> {
        self.step("stop")?;
        Ok(self.reading())
    }

    fn recycle(&mut self) {
        let _ = self.step("recycle");
        self.plan = None;
        self.started = None;
    }

    fn tear_down(&mut self) {
        let _ = self.step("tear_down");
        self.plan = None;
        self.started = None;
    }
}

/// A running agent over a fake host; dropping it is what `kill -9` does to a real one.
pub struct FakeAgent {
    pub address: SocketAddr,
    pub script: Arc<Mutex<Script>>,
    runtime: Option<Runtime>,
}

impl FakeAgent {
    /// Starts one on `address`; port 0 is any.
    pub fn start(address: SocketAddr) -> Self {
        Self::secured_on(address, Security::Loopback)
    }

    /// Starts one over another host, whose steps are not logged.
    pub fn of(host: Box<dyn VerbsHost>) -> Self {
        Self::serving(ANYWHERE, Security::Loopback, Arc::default(), host)
    }

    fn secured_on(address: SocketAddr, security: Security) -> Self {
        let script = Arc::new(Mutex::new(Script::default()));
        let host = FakeHost { script: Arc::clone(&script), plan: None, started: None };
        Self::serving(address, security, script, Box::new(host))
    }

    fn serving(address: SocketAddr, security: Security, script: Arc<Mutex<Script>>, host: Box<dyn VerbsHost>) -> Self {
        let limits = Limits { qps: 100, mrs: 1_000, memory_bytes: 16 << 20 };
        let config = AgentConfig { name: "fake".to_owned(), security, limits, door: None };
        let runtime = crate::runtime::with_one_worker().expect("a runtime");
        // The address of an agent that has just died may be in use for a moment.
        let deadline = Instant::now() + Duration::from_secs(5);
        let listener = loop {
            match runtime.block_on(TcpListener::bind(address)) {
                Ok(listener) => break listener,
                Err(error) if Instant::now() > deadline => panic!("no listener on {address}: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async move { serve_on(listener, config, host).await });
        Self { address, script, runtime: Some(runtime) }
    }

    /// Starts one on any port that is protected so.
    pub fn secured(security: Security) -> Self {
        Self::secured_on(ANYWHERE, security)
    }

    /// Starts one on any port.
    pub fn anywhere() -> Self {
        Self::start(ANYWHERE)
    }

    /// Makes the next call of `step` end so.
    pub fn trouble(&self, step: &'static str, trouble: Trouble) {
        self.script.lock().expect("whole").trouble.push((step, trouble));
    }

    /// The steps so far.
    pub fn log(&self) -> Vec<String> {
        self.script.lock().expect("whole").log.clone()
    }

    /// Waits until `step` was called `times` times.
    pub fn wait_for(&self, step: &str, times: usize) {
        let started = Instant::now();
        while self.log().iter().filter(|name| *name == step).count() < times {
            assert!(started.elapsed() < Duration::from_secs(10), "no `{step}`: {:?}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

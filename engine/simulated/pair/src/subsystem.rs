//! The simulated subsystem behind the common seam.

use std::sync::OnceLock;

use kelpie_engine::simple::{Simple, qp_times};
use kelpie_engine::{MeasureError, Subsystem};
use kelpie_events::Picos;
use kelpie_monitor::{Bounds, DirectionRates, Limit, Measurement, QpTimes, Sample};
use kelpie_nic::packet::PacketPorts;
use kelpie_spaces::{Flow, Host, Mtu, Workload};
use kelpie_topology::PortSide;

use crate::bond::BondedHosts;
use crate::load::ModelError;
use crate::model::Model;
use crate::network::ByPort;
use crate::pair_models::PairModels;
use crate::run::{RateNoise, run};

/// What two ports of each host did.
#[derive(Debug, Clone)]
pub struct PortsSeen {
    /// For each flow, each QP's source port, and the ports by which it leaves and at which it arrives.
    pub qps: Vec<Vec<(u16, PortSide, PortSide)>>,
    /// By host and port. Units: bytes.
    pub sent_bytes: [[u64; 2]; 2],
    /// As above.
    pub received_bytes: [[u64; 2]; 2],
    /// The traffic meanwhile.
    pub measurement: Measurement,
}

/// What a workload comes to on both hosts, as far as their models know it: without noise.
#[derive(Debug, Clone)]
pub struct SimulatedTraffic {
    /// Payload of each flow that comes to its responder, and to its requester. Units: bytes/s.
    pub flows: Vec<[f64; 2]>,
    /// The mean of all samples.
    pub mean: Sample,
}

/// A simulated subsystem.
#[derive(Debug, Clone)]
pub struct SimSubsystem {
    name: String,
    model: Model,
    /// That of host `b`, if it has one of its own.
    peer: Option<Box<Model>>,
    limiting: String,
    packets: u64,
    learned: OnceLock<Learned>,
}

/// Bounds that simple traffic showed.
#[derive(Debug, Clone, Copy, Default)]
struct Learned {
    qp: Option<QpTimes>,
    reads_per_sec: Option<f64>,
}

/// Share of a bound from which on it is reached. Source: our choice, of which steady traffic is known to 2 %.
const REACHED: f64 = 0.95;

/// Elements of the lists that show them.
const ELEMENTS: u32 = 16;

impl SimSubsystem {
    /// Loads an embedded model by name (`F`), or a model file.
    ///
    /// # Errors
    /// When there is none, or it does not fit the format.
    pub fn load(name_or_path: &str) -> Result<Self, ModelError> {
        Ok(Self::of(format!("sim:{name_or_path}"), Model::load(name_or_path)?))
    }

    /// The JSON schema of a model's file.
    pub fn schema() -> serde_json::Value {
        Model::schema()
    }

    /// An embedded model by its name.
    pub fn embedded(name: &str) -> Option<Self> {
        crate::load::names().contains(&name).then(|| Self::load(name).ok()).flatten()
    }

    /// A model from its text, such as [`SimSubsystem::yaml`] gives; `name` is what the subsystem is called.
    ///
    /// # Errors
    /// When it does not fit the format.
    pub fn from_yaml(name: &str, text: &str) -> Result<Self, ModelError> {
        Ok(Self::of(name.to_owned(), Model::parse(name, text)?))
    }

    fn of(name: String, model: Model) -> Self {
        Self { name, model, peer: None, limiting: String::new(), packets: 0, learned: OnceLock::new() }
    }

    /// Gives host `b` the model of another subsystem: its NIC, its memories, its applications and the rate of its
    /// cables. What belongs to neither host (seed, samples, noise, switch, length of cables) stays that of this model.
    ///
    /// # Errors
    /// When one of the hosts has a bond and the other has none.
    pub fn with_peer(mut self, b: &Self) -> Result<Self, ModelError> {
        if self.model.bond.is_some() != b.model.bond.is_some() {
            let rule = "both hosts need two ports, or one each".to_owned();
            return Err(ModelError::Parameter { path: "bond".to_owned(), rule });
        }
        self.learned.take();
        self.peer = Some(Box::new(b.model.clone()));
        Ok(self)
    }

    fn models(&self) -> PairModels<'_> {
        PairModels::new(&self.model, self.peer.as_deref().unwrap_or(&self.model))
    }

    /// The least that a host has of something.
    fn least(&self, of: fn(&Model) -> f64) -> f64 {
        Host::BOTH.map(|host| of(self.models().of(host))).into_iter().fold(f64::INFINITY, f64::min)
    }

    /// What a workload comes to, to the precision of the model.
    ///
    /// # Errors
    /// When the hosts cannot run it.
    pub fn traffic(&self, workload: &Workload) -> Result<SimulatedTraffic, MeasureError> {
        let mut quiet = self.model.clone();
        quiet.sampling.noise = 0.0;
        let run = run(PairModels::new(&quiet, self.peer.as_deref().unwrap_or(&quiet)), workload, 0, None)?;
        let mean = run.measurement.mean().ok_or_else(|| MeasureError::Unsupported {
            reason: "the simulation ended before its first sample; a larger sampling.max_events lets it go on"
                .to_owned(),
        })?;
        Ok(SimulatedTraffic { flows: run.flows, mean })
    }

    /// So many factors of the model's noise, which seed, workload and attempt decide.
    pub fn noise(&self, workload: &Workload, attempt: u64, count: usize) -> Vec<f64> {
        let mut noise = RateNoise::new(&self.model, workload, attempt);
        (0..count).map(|_| noise.factor()).collect()
    }

    /// Names of the embedded models.
    pub fn names() -> [&'static str; 8] {
        crate::load::names()
    }

    /// Names of the other models that come along.
    pub fn other_names() -> impl Iterator<Item = &'static str> {
        crate::load::other_names()
    }

    /// Changes one parameter, `path.to.key`, to a YAML value.
    ///
    /// # Errors
    /// When there is no such parameter, or the value does not fit.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), ModelError> {
        self.learned.take();
        self.model.set(path, value)
    }

    /// The number at `path.to.key` of the model; none if there is none.
    pub fn number(&self, path: &str) -> Option<f64> {
        self.model.number(path)
    }

    /// Changes several numbers of the model at once, so that their rules are checked when all have changed.
    ///
    /// # Errors
    /// When there is no such parameter, or a value does not fit.
    pub fn set_numbers(&mut self, numbers: &[(&str, f64)]) -> Result<(), ModelError> {
        self.learned.take();
        self.model.set_numbers(numbers)
    }

    /// Applies the model's fix for one of the paper's anomalies.
    ///
    /// # Errors
    /// When the model knows none.
    pub fn fix(&mut self, anomaly: u32) -> Result<(), ModelError> {
        self.learned.take();
        self.model.fix(anomaly)
    }

    /// The whole model as YAML.
    pub fn yaml(&self) -> String {
        self.model.yaml()
    }

    /// What the model calls itself, such as `F`.
    pub fn model_name(&self) -> &str {
        &self.model.name
    }

    /// Events that one measurement may take at most, which bounds its time.
    pub fn most_events(&self) -> u64 {
        self.model.sampling.max_events
    }

    /// The part that limited the last measurement and whose traffic, such as `receive_wqe_cache:UD_SEND`.
    pub fn limiting(&self) -> &str {
        &self.limiting
    }

    fn attempt(&mut self, workload: &Workload, attempt: u32) -> Result<Measurement, MeasureError> {
        let bounds = (self.model.sampling.verdict_packets > 0).then(|| self.bounds());
        let run = run(self.models(), workload, attempt, bounds.as_ref())?;
        self.limiting = run.limiting;
        self.packets = run.packets;
        Ok(run.measurement)
    }

    /// What simple traffic shows of one QP, and of reads; nothing of a model that cannot run it.
    fn learn(&self, base_rtt: f64) -> Learned {
        let mut quiet = self.clone();
        quiet.model.sampling.noise = 0.0;
        let rate = |kind: Simple| quiet.simple(kind).map(|rates| rates.messages_per_sec);
        let qp = || {
            let of_lists = rate(Simple::one_qp_lists(ELEMENTS)).map(|rate| (rate, ELEMENTS));
            qp_times(rate(Simple::ONE_QP)?, of_lists, rate(Simple::ONE_QP_LONG)?, base_rtt)
        };
        let of_lists = rate(Simple::lists(ELEMENTS)).map(|rate| rate * f64::from(ELEMENTS));
        let reads_per_sec = of_lists.map(|reads| reads.max(rate(Simple::SMALL).unwrap_or(0.0)));
        Learned { qp: qp(), reads_per_sec }
    }

    /// The bounds of its port, which the model states; the others take some experiments.
    pub fn port(&self) -> Bounds {
        let ports = if self.model.bond.is_some() { 2.0 } else { 1.0 };
        let line_rate = self.least(|model| model.port.line_rate_gbps);
        Bounds::new(ports * line_rate * 1e9, self.least(|model| model.port.max_mpps) * 1e6)
    }

    /// The bounds of the port that simple traffic does not reach, with the share of each that it does: the model
    /// contradicts itself, and traffic that is as fast as can be may be called low.
    pub fn unreached(&self) -> Vec<(Limit, f64)> {
        let bounds = self.port();
        let share = |kind: Simple| self.simple(kind).map(|rates| bounds.utilisation(&rates));
        // Many QPs, because one may be slow, and those of a bond are spread by their ports.
        let many = |kind: Simple| Simple { qps: 32, ..kind };
        let shares = [(Limit::Wire, share(many(Simple::LARGE))), (Limit::Packets, share(many(Simple::SMALL)))];
        shares.into_iter().filter_map(|(limit, share)| Some((limit, share.filter(|share| *share < REACHED)?))).collect()
    }

    /// What the ports of hosts that have two did under a workload; none of hosts that have one.
    ///
    /// # Errors
    /// When the model's hosts cannot run it.
    pub fn ports(&self, workload: &Workload) -> Result<Option<PortsSeen>, MeasureError> {
        let Some(bond) = BondedHosts::of(&self.model) else { return Ok(None) };
        let run = run(self.models(), workload, 0, None)?;
        let Some(ByPort { sent_bytes, received_bytes }) = run.by_port else { return Ok(None) };
        let taken = |flow: &Flow, [there, _]: [u16; 2]| {
            let PacketPorts { leave, arrive } = bond.taken(flow.from, there);
            (there, PortSide::BOTH[usize::from(leave)], PortSide::BOTH[usize::from(arrive)])
        };
        let flows = workload.flows.iter().zip(bond.source_ports(&workload.flows));
        let qps = flows.map(|(flow, ports)| ports.into_iter().map(|ports| taken(flow, ports)).collect()).collect();
        Ok(Some(PortsSeen { qps, sent_bytes, received_bytes, measurement: run.measurement }))
    }

    /// What simple traffic of a kind comes to; nothing of a model that cannot run it.
    fn simple(&self, kind: Simple) -> Option<DirectionRates> {
        let run = run(self.models(), &kind.workload(Mtu::ALL[4], Host::A), 0, None).ok()?;
        run.measurement.mean()?.directions.into_iter().next()
    }

    /// Packets that the last measurement moved, warm-up included.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

impl Subsystem for SimSubsystem {
    fn name(&self) -> &str {
        &self.name
    }

    fn bounds(&self) -> Bounds {
        let link_delay_ns = self.model.port.link_delay_ns;
        let of_requester = |host: Host| {
            let model = self.models().of(host);
            let crossing = model.pcie.link_latency_ns;
            let read = 2.0 * crossing + model.host.memory_latency_ns;
            // Doorbell, WQE read, payload read, two links each way, the completion, and what the application takes to
            // see it.
            model.posting.doorbell_ns + crossing + 2.0 * read + 4.0 * link_delay_ns + crossing + model.posting.poll_ns
        };
        let rtt = Host::BOTH.map(of_requester).into_iter().fold(0.0, f64::max);
        let base_rtt = Picos::from_nanos(rtt).as_seconds();
        let learned = self.learned.get_or_init(|| self.learn(base_rtt));
        Bounds {
            base_rtt_seconds: Some(base_rtt),
            max_pcie_bps: Some(self.least(|model| model.pcie.gbps) * 1e9),
            max_pcie_reads_per_sec: learned.reads_per_sec,
            qp: learned.qp,
            ..self.port()
        }
    }

    fn measure(&mut self, workload: &Workload) -> Result<Measurement, MeasureError> {
        self.attempt(workload, 0)
    }

    /// Only noise differs from run to run.
    fn measure_again(&mut self, workload: &Workload, attempt: u32) -> Result<Option<Measurement>, MeasureError> {
        let differs = attempt == 0 || self.model.sampling.noise > 0.0;
        differs.then(|| self.attempt(workload, attempt)).transpose()
    }
}

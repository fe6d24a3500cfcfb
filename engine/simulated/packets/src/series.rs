//! What happens in a run over time, for chosen QPs and ports.

use crate::congestion::CongestionControl;
use crate::error::RunError;
use crate::layout::NONE;
use crate::network::{Network, PortName, Traffic};
use crate::shard::{Plan, Shard};

/// What of a run is sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Time between samples; 0 if there are none. Units: ns.
    pub interval_ns: u64,
    /// QPs by number.
    pub qps: Vec<u32>,
    /// Ports.
    pub ports: Vec<PortName>,
    /// Most samples. When there are so many, every second one goes, and the time between samples doubles.
    pub most: usize,
}

impl Default for Watch {
    /// Nothing.
    fn default() -> Self {
        Self { interval_ns: 0, qps: Vec::new(), ports: Vec::new(), most: 4096 }
    }
}

impl Watch {
    /// All QPs of some traffic, and all ports of a network.
    pub fn all(network: &Network, traffic: &Traffic, interval_ns: u64) -> Self {
        let ends = (0..).zip(&network.links).flat_map(|(link, form)| form.ends.map(|node| PortName { node, link }));
        let qps = (0..traffic.qps.len() as u32).collect();
        Self { interval_ns, qps, ports: ends.collect(), ..Self::default() }
    }
}

/// A QP at the times of samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QpSeries {
    /// Its number.
    pub qp: u32,
    /// What had arrived in order. Units: bytes of messages.
    pub received_bytes: Vec<u64>,
    /// The rate at which it may send. Units: bit/s.
    pub rate_bps: Vec<u64>,
    /// CNPs that its receiver had sent.
    pub cnps: Vec<u32>,
}

/// A port at the times of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSeries {
    /// Which.
    pub port: PortName,
    /// What waits to leave by it. Units: bytes.
    pub queued_bytes: Vec<u32>,
    /// What had left by it. Units: bytes.
    pub sent_bytes: Vec<u64>,
    /// Frames by which it had paused the other end.
    pub pauses: Vec<u32>,
    /// Whether the other end has paused a class of it.
    pub is_paused: Vec<bool>,
}

/// What was sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Series {
    /// Time between samples, which began at 0. Units: ns.
    pub interval_ns: u64,
    /// How many samples there are.
    pub samples: usize,
    /// QPs, in the order in which they were named.
    pub qps: Vec<QpSeries>,
    /// Ports, in the order in which they were named.
    pub ports: Vec<PortSeries>,
}

impl Series {
    /// What arrived of a QP from each sample to the next one. Units: Gbit/s.
    pub fn goodput_gbps(&self, place: usize) -> impl Iterator<Item = f64> {
        let nanos = self.interval_ns as f64;
        self.qps[place].received_bytes.windows(2).map(move |two| (two[1] - two[0]) as f64 * 8.0 / nanos)
    }
}

/// Takes samples.
pub(crate) struct Sampler {
    /// When the next sample is due. Units: ns.
    pub next: u64,
    most: usize,
    /// The layout's numbers of the ports.
    ports: Vec<u32>,
    pub series: Series,
}

impl Sampler {
    /// None if there is nothing to sample.
    ///
    /// # Errors
    /// If a QP or a port is not one of the run.
    pub fn new(watch: &Watch, traffic: &Traffic, plan: &Plan<'_>) -> Result<Option<Self>, RunError> {
        if watch.interval_ns == 0 {
            return Ok(None);
        }
        let port = |name: &PortName| {
            let ends =
                if (name.link as usize) < plan.works.len() { plan.layout.ports_of_link(name.link) } else { [NONE; 2] };
            let is_named = |port: &&u32| plan.layout.ports.get(**port as usize).is_some_and(|at| at.node == name.node);
            ends.iter().find(is_named).copied().ok_or(RunError::Watch)
        };
        let ports = watch.ports.iter().map(port).collect::<Result<_, _>>()?;
        if watch.qps.iter().any(|qp| *qp as usize >= traffic.qps.len()) || watch.most < 4 {
            return Err(RunError::Watch);
        }
        let qp = |qp: &u32| QpSeries { qp: *qp, ..QpSeries::default() };
        let of_port = |port: &PortName| PortSeries {
            port: *port,
            queued_bytes: Vec::new(),
            sent_bytes: Vec::new(),
            pauses: Vec::new(),
            is_paused: Vec::new(),
        };
        let series = Series {
            interval_ns: watch.interval_ns,
            samples: 0,
            qps: watch.qps.iter().map(qp).collect(),
            ports: watch.ports.iter().map(of_port).collect(),
        };
        Ok(Some(Self { next: 0, most: watch.most, ports, series }))
    }

    /// Takes the next sample.
    pub fn sample<C: CongestionControl, const HOPS: usize>(
        &mut self,
        traffic: &Traffic,
        plan: &Plan<'_>,
        shards: &[Shard<C, HOPS>],
    ) {
        let at = |node: u32| &shards[usize::from(plan.parts[node as usize])];
        for series in &mut self.series.qps {
            let (number, qp) = (series.qp as usize, traffic.qps[series.qp as usize]);
            series.received_bytes.push(at(qp.to).received_bytes(plan, number));
            series.rate_bps.push(at(qp.from).senders[number].rate as u64);
            series.cnps.push(at(qp.to).counted[number].cnps);
        }
        for (series, port) in self.series.ports.iter_mut().zip(&self.ports) {
            let (shard, port) = (at(series.port.node), *port as usize);
            series.queued_bytes.push(shard.ports[port].queued);
            series.sent_bytes.push(shard.ports[port].sent);
            series.pauses.push(shard.pauses[port]);
            series.is_paused.push(shard.ports[port].paused != 0);
        }
        self.series.samples += 1;
        if self.series.samples >= self.most {
            self.thin();
        }
        self.next = self.series.interval_ns.saturating_mul(self.series.samples as u64);
    }

    /// Every second sample goes.
    fn thin(&mut self) {
        fn halve<T>(values: &mut Vec<T>) {
            let mut number = 0;
            values.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        for qp in &mut self.series.qps {
            halve(&mut qp.received_bytes);
            halve(&mut qp.rate_bps);
            halve(&mut qp.cnps);
        }
        for port in &mut self.series.ports {
            halve(&mut port.queued_bytes);
            halve(&mut port.sent_bytes);
            halve(&mut port.pauses);
            halve(&mut port.is_paused);
        }
        self.series.samples = self.series.samples.div_ceil(2);
        self.series.interval_ns = self.series.interval_ns.saturating_mul(2);
    }
}

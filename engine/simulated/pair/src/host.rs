//! A simulated host with several RNICs, switches, memories and GPUs, whose inside is measured by loopback traffic. What
//! a NIC does is in `kelpie-nic`; faults are parameters of parts.

mod between;
mod parts;
mod routes;
mod world;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelpie_engine::MeasureError;
use kelpie_engine::loopback::{Activity, LoopbackHost, PathProbe, Probed};
use kelpie_events::{Picos, Rate};
use kelpie_spaces::document::{MAX_INPUT, utf8};
use kelpie_spaces::{DocumentError, read_tagged};
use kelpie_topology::HostTopology;
use kelpie_topology::host::{self, NodeKind};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_yaml::Value;

use crate::load::ModelError;
use crate::model::Model;
use between::LoopbackCables;
use parts::HostParts;
use routes::Routes;
use world::{Load, LoadOutcome, Scene, run};

/// The embedded hosts, by name.
const EMBEDDED: [(&str, &str); 5] = [
    ("a100", include_str!("../hosts/a100.yaml")),
    ("h100", include_str!("../hosts/h100.yaml")),
    ("nps4", include_str!("../hosts/nps4.yaml")),
    ("storage", include_str!("../hosts/storage.yaml")),
    ("two-socket", include_str!("../hosts/two-socket.yaml")),
];

/// Large messages, for bandwidth. Source: our choice; by Azure's node health checks, loopback WRITEs of 64 KiB carry 98
/// % of what those of 8 MiB do.
const LARGE: Load = Load { message: 64 << 10, depth: 16, messages: [32, 48] };
/// Small messages, for latency. Source: Hostping: messages so small that their bytes do not count.
const SMALL: Load = Load { message: 64, depth: 1, messages: [4, 16] };
/// How long an RNIC is looked at without loopback. Units: picoseconds.
const GLANCE: Picos = Picos::new(200_000_000);

/// Why a simulated host cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedHostError {
    /// No such embedded host, and no such file.
    #[error("no simulated host `{name}`: the embedded ones are {}; a topology file is given as sim:path.yaml", names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file could not be read.
    #[error("cannot read the host {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file does not fit the format.
    #[error(transparent)]
    File(#[from] DocumentError),
    /// A change names no part, no parameter, or is outside of what the parameter may be.
    #[error("{0}")]
    Parameter(String),
    /// A change of the NIC.
    #[error(transparent)]
    Nic(#[from] ModelError),
    /// It has no RNIC, or one that reaches no memory.
    #[error("{host}: {problem}")]
    NoRnic {
        /// The host.
        host: String,
        /// What is missing.
        problem: String,
    },
}

/// Names of the embedded hosts.
pub fn names() -> [&'static str; EMBEDDED.len()] {
    EMBEDDED.map(|(name, _)| name)
}

/// What of a host's file follows the tag; [`HostTopology`] reads the host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    #[serde(rename = "host")]
    _host: IgnoredAny,
    #[serde(default)]
    simulation: Simulation,
}

/// What of a host's file the simulation alone reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Simulation {
    /// The model whose NIC all RNICs are.
    model: String,
    /// What differs from it.
    nic: BTreeMap<String, Value>,
    /// What differs from the defaults of parts.
    parts: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Default for Simulation {
    fn default() -> Self {
        Self { model: "F".to_owned(), nic: BTreeMap::new(), parts: BTreeMap::new() }
    }
}

/// A simulated host.
#[derive(Debug, Clone)]
pub struct SimHost {
    topology: HostTopology,
    parts: HostParts,
    model: Model,
    rnics: Vec<usize>,
    endpoints: Vec<usize>,
    names: [Vec<String>; 2],
    /// Runs so far, of which each has a seed of its own.
    runs: u64,
    seed: u64,
}

impl SimHost {
    /// Loads an embedded host by name, or a topology file.
    ///
    /// # Errors
    /// When there is none, or it does not fit the format.
    pub fn load(name_or_path: &str) -> Result<Self, SimulatedHostError> {
        if let Some((name, text)) = EMBEDDED.iter().find(|(name, _)| *name == name_or_path) {
            return Self::from_yaml(name, text);
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            let name = name_or_path.chars().filter(|letter| !letter.is_control()).take(64).collect();
            return Err(SimulatedHostError::Unknown { name });
        }
        // One byte more than is accepted shows that a file is too long, and what has no end is not read to it.
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_INPUT as u64 + 1).read_to_end(&mut bytes))
            .map_err(|source| SimulatedHostError::Read { path: path.to_owned(), source })?;
        Self::from_yaml(name_or_path, utf8(name_or_path, &bytes)?)
    }

    /// A host from the text of its file; `file` names it in errors.
    ///
    /// # Errors
    /// When it does not fit the format, or has no RNIC.
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, SimulatedHostError> {
        let topology = HostTopology::from_yaml(file, text)?;
        let (document, Own { simulation, .. }) = read_tagged(file, text, host::FORMAT)?;
        let refuse = |path: &str, rule: &dyn std::fmt::Display| SimulatedHostError::File(document.refuse(path, rule));
        let mut model = Model::load(&simulation.model)
            .ok()
            .filter(|_| crate::load::names().contains(&simulation.model.as_str()))
            .ok_or_else(|| refuse("simulation.model", &"write the name of an embedded model, A to H"))?;
        for (path, value) in &simulation.nic {
            let value = serde_yaml::to_string(value).unwrap_or_default();
            model.set(path, value.trim()).map_err(|error| refuse("simulation.nic", &error))?;
        }
        let nodes = |wanted: &[NodeKind]| -> Vec<usize> {
            let nodes = topology.nodes().iter().enumerate();
            wanted
                .iter()
                .flat_map(|kind| nodes.clone().filter(move |(_, node)| node.kind == *kind).map(|(index, _)| index))
                .collect()
        };
        let (rnics, mut endpoints) = (nodes(&[NodeKind::Rnic]), nodes(&[NodeKind::Memory, NodeKind::Gpu]));
        let is_cabled =
            |rnic: &&usize| rnics.iter().any(|to| to != *rnic && topology.cable_route(**rnic, *to).is_some());
        endpoints.extend(rnics.iter().filter(is_cabled));
        let names = [&rnics, &endpoints]
            .map(|nodes| nodes.iter().map(|node| topology.nodes()[*node].name.clone()).collect::<Vec<_>>());
        let parts = HostParts::new(&topology);
        let mut host = Self { parts, topology, model, rnics, endpoints, names, runs: 0, seed: 1 };
        for (part, values) in &simulation.parts {
            for (key, value) in values {
                host.set_part(part, key, value).map_err(|rule| refuse("simulation.parts", &rule))?;
            }
        }
        let unusable = |problem: String| SimulatedHostError::NoRnic { host: file.to_owned(), problem };
        if host.rnics.is_empty() {
            return Err(unusable("no node of kind rnic: add one to host.nodes".to_owned()));
        }
        for &rnic in &host.rnics {
            host.scene(rnic, None).map_err(unusable)?;
        }
        Ok(host)
    }

    /// Changes a parameter: `PART.KEY` of a part, such as `psw0|cpu0.width`, or `nic.KEY` of the NIC's model.
    ///
    /// # Errors
    /// When there is no such parameter, or the value does not fit.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), SimulatedHostError> {
        if let Some(parameter) = path.strip_prefix("nic.") {
            return Ok(self.model.set(parameter, value)?);
        }
        let text: String = path.chars().filter(|letter| !letter.is_control()).take(64).collect();
        let (part, key) = path.rsplit_once('.').ok_or_else(|| {
            SimulatedHostError::Parameter(format!("`{text}`: write PART.KEY=VALUE, such as 'psw0|cpu0.width=0.25'"))
        })?;
        let value = serde_yaml::from_str(value).unwrap_or(Value::Null);
        self.set_part(part, key, &value).map_err(SimulatedHostError::Parameter)
    }

    fn set_part(&mut self, part: &str, key: &str, value: &Value) -> Result<(), String> {
        let number = match (value.as_f64(), value.as_bool(), value.as_str()) {
            (Some(number), ..) => number,
            (_, Some(on), _) => f64::from(u8::from(on)),
            (_, _, Some("on")) => 1.0,
            (_, _, Some("off")) => 0.0,
            _ => return Err(format!("{part}.{key}: write a number, or on or off")),
        };
        self.parts.set(part, key, number)
    }

    /// The seed of all that is random.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// What it consists of.
    pub fn topology(&self) -> &HostTopology {
        &self.topology
    }

    /// The sum of latencies along links, from a node to another.
    fn distance(&self, from: usize, to: usize) -> Option<f64> {
        let links = self.topology.route(from, to)?;
        Some(links.iter().map(|link| self.parts.links[*link].get("latency_ns")).sum())
    }

    /// An RNIC with the place of an endpoint; without one with its memory alone.
    fn scene(&self, rnic: usize, endpoint: Option<usize>) -> Result<Scene, String> {
        let host = &self.topology;
        let (home, links) =
            host.nearest_memory(rnic).ok_or_else(|| format!("{} reaches no memory", host.nodes()[rnic].name))?;
        let mut routes = Routes::default();
        routes.add(host, &self.parts, rnic, home)?;
        let endpoint = match endpoint {
            Some(node) if node != home => routes.add(host, &self.parts, rnic, node)?,
            _ => 0,
        };
        let mut config = self.model.nic();
        let own = &self.parts.links[links[0]];
        config.link.rate = Rate::gbps(own.rate());
        config.link.latency = Picos::from_nanos(own.get("latency_ns"));
        (config.places, config.ways, config.home) = (routes.places, routes.ways, 0);
        let posting = &self.model.posting;
        Ok(Scene {
            config,
            endpoint,
            mmio: Picos::from_nanos(self.distance(rnic, home).unwrap_or(0.0)),
            post: Picos::from_nanos(posting.doorbell_ns + posting.wqe_ns),
            poll: Picos::from_nanos(posting.poll_ns),
            cable: Picos::from_nanos(2.0 * self.model.port.link_delay_ns),
            service_gbps: self.parts.nodes[rnic].get("service_gbps"),
        })
    }

    /// Both ends of what one RNIC sends to another, and what lies between their ports.
    fn ends(&self, from: usize, to: usize) -> Result<([Scene; 2], LoopbackCables), String> {
        let name = |node: usize| &self.topology.nodes()[node].name;
        let route = self
            .topology
            .cable_route(from, to)
            .ok_or_else(|| format!("no cable from {} to {}", name(from), name(to)))?;
        let mut scenes = [self.scene(from, None)?, self.scene(to, None)?];
        let rates = [route.first(), route.last()].map(|link| link.map_or(0.0, |link| self.parts.links[*link].rate()));
        for (scene, rate) in scenes.iter_mut().zip(rates) {
            let own = self.model.port.line_rate_gbps;
            scene.config.wire = Rate::gbps(own.min(rate));
        }
        let homes = [from, to].map(|rnic| self.topology.nearest_memory(rnic).map(|(memory, _)| memory));
        if homes[0] == homes[1] {
            // What one reads the other writes to the same memory, so each has half of it.
            for place in scenes.iter_mut().flat_map(|scene| &mut scene.config.places) {
                place.rate = place.rate.share(0.5);
            }
        }
        let links = route.iter().map(|link| &self.parts.links[*link]);
        let slowest = links.clone().map(parts::HostPart::rate).fold(self.model.port.line_rate_gbps, f64::min);
        let nodes = self.topology.nodes_on(from, &route);
        let switches = nodes.iter().filter(|node| self.topology.nodes()[**node].kind == NodeKind::NetworkSwitch);
        let switching: f64 = switches.map(|node| self.parts.nodes[*node].get("latency_ns")).sum();
        let latency = links.map(|link| link.get("latency_ns")).sum::<f64>() + switching;
        Ok((scenes, LoopbackCables { rate: Rate::gbps(slowest), latency: Picos::from_nanos(latency) }))
    }

    fn next_seed(&mut self) -> u64 {
        self.runs += 1;
        self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(self.runs)
    }

    fn run(&mut self, row: usize, column: Option<usize>, load: Option<Load>) -> Result<LoadOutcome, MeasureError> {
        let unsupported = |reason| MeasureError::Unsupported { reason };
        let (rnic, endpoint) = (self.rnics[row], column.map(|column| self.endpoints[column]));
        let to = endpoint.filter(|node| self.topology.nodes()[*node].kind == NodeKind::Rnic);
        if let Some((to, load)) = to.zip(load) {
            let (scenes, cables) = self.ends(rnic, to).map_err(unsupported)?;
            return Ok(between::run(&scenes, cables, load, self.next_seed()));
        }
        let scene = self.scene(rnic, endpoint).map_err(unsupported)?;
        Ok(run(&scene, load, GLANCE, self.next_seed()))
    }
}

impl LoopbackHost for SimHost {
    fn rnics(&self) -> &[String] {
        &self.names[0]
    }

    fn endpoints(&self) -> &[String] {
        &self.names[1]
    }

    fn activity(&mut self, rnic: usize) -> Result<Activity, MeasureError> {
        if self.parts.nodes[self.rnics[rnic]].get("service_gbps") == 0.0 {
            return Ok(Activity::default());
        }
        let seen = self.run(rnic, None, None)?;
        let drops = seen.lost as f64 / seen.took.as_seconds();
        Ok(Activity { gbps: seen.service_gbps, pause_ratio: seen.pause_ratio, drops })
    }

    fn probe(&mut self, rnic: usize, endpoint: usize, probe: PathProbe) -> Result<Probed, MeasureError> {
        let load = if probe == PathProbe::Bandwidth { LARGE } else { SMALL };
        let seen = self.run(rnic, Some(endpoint), Some(load))?;
        let value = if probe == PathProbe::Bandwidth { seen.gbps } else { seen.latency_us };
        Ok(Probed { value, took: Duration::from_secs_f64(seen.took.as_seconds()) })
    }

    fn narrow_links(&self) -> Vec<String> {
        self.parts.narrow_links()
    }

    /// Simulated time passes by itself.
    fn rest(&mut self, _: Duration) {}
}

//! Reading, checking and changing model files. The parameters themselves are in `model`.

use std::path::{Path, PathBuf};

use serde_yaml::Value;

use crate::model::Model;

/// Largest model file that is read. Units: bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The embedded models, by name.
const EMBEDDED: [(&str, &str); 8] = [
    ("A", include_str!("../models/A.yaml")),
    ("B", include_str!("../models/B.yaml")),
    ("C", include_str!("../models/C.yaml")),
    ("D", include_str!("../models/D.yaml")),
    ("E", include_str!("../models/E.yaml")),
    ("F", include_str!("../models/F.yaml")),
    ("G", include_str!("../models/G.yaml")),
    ("H", include_str!("../models/H.yaml")),
];

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No such embedded model, and no such file.
    #[error("no simulated subsystem `{name}`: the embedded ones are A to H; a file is given as sim:path.yaml")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file could not be read.
    #[error("cannot read the model {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than any model.
    #[error("the model {path} is larger than 1 MiB")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is no UTF-8.
    #[error("the model {path} is not UTF-8 (at byte {offset})")]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: usize,
    },
    /// YAML or schema.
    #[error("the model {origin} does not fit the format model/1: {message}")]
    Format {
        /// File or name.
        origin: String,
        /// What the parser says, with line and key.
        message: String,
    },
    /// A parameter is outside its domain.
    #[error("the model {origin}: {path} = {value} {rule}")]
    Domain {
        /// File or name.
        origin: String,
        /// Path of the parameter.
        path: String,
        /// Its value.
        value: String,
        /// The rule.
        rule: &'static str,
    },
    /// `--set` names no parameter.
    #[error("the model has no parameter `{path}`: `kelpie subsystem show` lists them")]
    NoParameter {
        /// What was asked for.
        path: String,
    },
    /// `--fix` of an anomaly for which the model knows no fix.
    #[error("the model {name} has no fix for anomaly {anomaly}; it has fixes for {known}")]
    NoFix {
        /// The model.
        name: String,
        /// What was asked for.
        anomaly: u32,
        /// What there is.
        known: String,
    },
}

/// The embedded models' names.
pub fn names() -> &'static [&'static str] {
    &["A", "B", "C", "D", "E", "F", "G", "H"]
}

/// A model as YAML tree and as checked parameters.
#[derive(Debug, Clone)]
pub struct Loaded {
    origin: String,
    tree: Value,
    model: Model,
}

impl Loaded {
    /// Loads an embedded model by name, or a file.
    ///
    /// # Errors
    /// When there is none of that name, or it does not fit the format.
    pub fn load(name_or_path: &str) -> Result<Self, ModelError> {
        if let Some((name, text)) = EMBEDDED.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(name, text);
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            return Err(ModelError::Unknown { name: name_or_path.chars().take(200).collect() });
        }
        let read = |source| ModelError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(read)?.len() > MAX_FILE_BYTES {
            return Err(ModelError::TooLarge { path: path.to_owned() });
        }
        let bytes = std::fs::read(path).map_err(read)?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| ModelError::NotUtf8 { path: path.to_owned(), offset: error.valid_up_to() })?;
        Self::parse(name_or_path, text)
    }

    /// Reads a model from text; `origin` names it in errors.
    ///
    /// # Errors
    /// When it does not fit the format, or a parameter is outside its domain.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ModelError> {
        let format =
            |error: serde_yaml::Error| ModelError::Format { origin: origin.to_owned(), message: error.to_string() };
        // Once as parameters, whose errors carry the line, and once as a tree for `set`.
        let model: Model = serde_yaml::from_str(text).map_err(format)?;
        let tree: Value = serde_yaml::from_str(text).map_err(format)?;
        check(origin, &model)?;
        Ok(Self { origin: origin.to_owned(), tree, model })
    }

    /// The parameters.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The parameters as YAML.
    pub fn yaml(&self) -> String {
        serde_yaml::to_string(&self.tree).expect("a tree that was read can be written")
    }

    /// Changes one parameter, `path.to.key`, to a YAML value.
    ///
    /// # Errors
    /// When there is no such parameter, or the value does not fit.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), ModelError> {
        let value: Value = serde_yaml::from_str(value)
            .map_err(|error| ModelError::Format { origin: self.origin.clone(), message: error.to_string() })?;
        self.set_value(path, value)
    }

    fn set_value(&mut self, path: &str, value: Value) -> Result<(), ModelError> {
        let mut tree = self.tree.clone();
        let mut node = &mut tree;
        for key in path.split('.') {
            let next = match node {
                Value::Sequence(items) => key.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
                Value::Mapping(_) => node.get_mut(key),
                _ => None,
            };
            node = next.ok_or_else(|| ModelError::NoParameter { path: path.chars().take(200).collect() })?;
        }
        if matches!(node, Value::Mapping(_) | Value::Sequence(_)) {
            return Err(ModelError::NoParameter { path: path.to_owned() });
        }
        *node = value;
        let model: Model = serde_yaml::from_value(tree.clone()).map_err(|error| ModelError::Format {
            origin: format!("{} with {path} set", self.origin),
            message: error.to_string(),
        })?;
        check(&self.origin, &model)?;
        self.tree = tree;
        self.model = model;
        Ok(())
    }

    /// Applies the fix of one of the paper's anomalies.
    ///
    /// # Errors
    /// When the model knows none.
    pub fn fix(&mut self, anomaly: u32) -> Result<(), ModelError> {
        let Some(changes) = self.model.fixes.get(&anomaly).cloned() else {
            let known: Vec<String> = self.model.fixes.keys().map(u32::to_string).collect();
            return Err(ModelError::NoFix { name: self.model.name.clone(), anomaly, known: known.join(", ") });
        };
        changes.into_iter().try_for_each(|(path, value)| self.set_value(&path, value))
    }
}

/// Checks that every parameter is in its domain.
fn check(origin: &str, model: &Model) -> Result<(), ModelError> {
    let refuse = |path: &str, value: String, rule| {
        Err(ModelError::Domain { origin: origin.to_owned(), path: path.to_owned(), value, rule })
    };
    if model.kelpie != "model/1" {
        return refuse("kelpie", model.kelpie.clone(), "is not model/1, the only version this Kelpie reads");
    }
    let Model {
        port, switch, posting, transmit, shared_pipeline, receive, receive_wqe, icm, pcie, host, sampling, ..
    } = model;
    let positive = [
        ("port.line_rate_gbps", port.line_rate_gbps),
        ("port.max_mpps", port.max_mpps),
        ("switch.xoff_kib", switch.xoff_kib),
        ("switch.xon_kib", switch.xon_kib),
        ("transmit.staging_kib", transmit.staging_kib),
        ("transmit.retained_kib", transmit.retained_kib),
        ("shared_pipeline.packet_ns", shared_pipeline.packet_ns),
        ("receive.buffer_kib", receive.buffer_kib),
        ("receive.xoff_kib", receive.xoff_kib),
        ("receive.xon_kib", receive.xon_kib),
        ("receive.loopback_kib", receive.loopback_kib),
        ("pcie.gbps", pcie.gbps),
        ("pcie.write_credit_kib", pcie.write_credit_kib),
        ("host.interconnect_gbps", host.interconnect_gbps),
        ("host.redirect_read_gbps", host.redirect_read_gbps),
        ("host.redirect_write_gbps", host.redirect_write_gbps),
        ("sampling.sample_us", sampling.sample_us),
    ];
    for (path, value) in positive {
        if !(value > 0.0 && value < 1e9) {
            return refuse(path, value.to_string(), "must be above zero and below 1e9");
        }
    }
    let times = [
        ("port.link_delay_ns", port.link_delay_ns),
        ("posting.doorbell_ns", posting.doorbell_ns),
        ("posting.wqe_ns", posting.wqe_ns),
        ("posting.poll_ns", posting.poll_ns),
        ("transmit.restage_ns", transmit.restage_ns),
        ("receive.read_stream_ns", receive.read_stream_ns),
        ("receive.read_page_ns", receive.read_page_ns),
        ("pcie.read_latency_ns", pcie.read_latency_ns),
        ("pcie.barrier_ns", pcie.barrier_ns),
        ("host.interconnect_latency_ns", host.interconnect_latency_ns),
    ];
    for (path, value) in times {
        if !(0.0..1e9).contains(&value) {
            return refuse(path, value.to_string(), "must be a time from 0 to below 1e9 ns");
        }
    }
    if !(0.0..=1.0).contains(&sampling.noise) {
        return refuse("sampling.noise", sampling.noise.to_string(), "must be from 0 to 1");
    }
    let counts = [
        ("posting.cores", posting.cores, 4096),
        ("posting.signal_divisor", posting.signal_divisor, 1 << 20),
        ("transmit.processing_units", transmit.processing_units, 4096),
        ("transmit.stages", transmit.stages, 4096),
        ("transmit.turn_mtus", transmit.turn_mtus, 1024),
        ("transmit.chain_divisor", transmit.chain_divisor, 1 << 20),
        ("transmit.lookup_group", transmit.lookup_group, 1 << 20),
        ("transmit.max_reads", transmit.max_reads, 1024),
        ("transmit.send_credits", transmit.send_credits, 1 << 24),
        ("receive.read_scatter_fetches", receive.read_scatter_fetches, 4096),
        ("receive_wqe.run_ahead.RC", receive_wqe.run_ahead.rc, 1 << 20),
        ("receive_wqe.run_ahead.UC", receive_wqe.run_ahead.uc, 1 << 20),
        ("receive_wqe.run_ahead.UD", receive_wqe.run_ahead.ud, 1 << 20),
        ("receive_wqe.fetch_wqes.RC", receive_wqe.fetch_wqes.rc, 1 << 20),
        ("receive_wqe.fetch_wqes.UC", receive_wqe.fetch_wqes.uc, 1 << 20),
        ("receive_wqe.fetch_wqes.UD", receive_wqe.fetch_wqes.ud, 1 << 20),
        ("receive_wqe.fetches.RC", receive_wqe.fetches.rc, 256),
        ("receive_wqe.fetches.UC", receive_wqe.fetches.uc, 256),
        ("receive_wqe.fetches.UD", receive_wqe.fetches.ud, 256),
        ("icm.misses", icm.misses, 256),
        ("icm.receive_misses", icm.receive_misses, 4096),
        ("icm.key_reads", icm.key_reads, 256),
        ("icm.doorbell_reads", icm.doorbell_reads, 256),
        ("icm.chain_reads", icm.chain_reads, 256),
        ("sampling.samples", sampling.samples, 100),
        ("sampling.warm_up_max", sampling.warm_up_max, 1000),
    ];
    for (path, value, most) in counts {
        if value == 0 || value > most {
            return refuse(path, value.to_string(), "must be above zero and within what a NIC could have");
        }
    }
    check_relations(model).or_else(|(path, value, rule)| refuse(path, value, rule))
}

/// A parameter outside of its domain: its path, its value, and the rule it breaks.
type Refused = (&'static str, String, &'static str);

/// Checks the parameters whose domain is not a range of its own.
fn check_relations(model: &Model) -> Result<(), Refused> {
    let Model { port, switch, receive, pcie, host, sampling, .. } = model;
    let refuse = |path, value, rule| Err((path, value, rule));
    if pcie.max_payload_bytes < 64 || pcie.max_completion_bytes < 64 {
        return refuse("pcie.max_payload_bytes", pcie.max_payload_bytes.to_string(), "must be at least 64");
    }
    if sampling.max_events < 1000 || sampling.max_events > 1 << 32 {
        return refuse("sampling.max_events", sampling.max_events.to_string(), "must be from 1,000 to 2^32");
    }
    if receive.xon_kib > receive.xoff_kib || receive.xoff_kib > receive.buffer_kib {
        return refuse(
            "receive.xon_kib",
            receive.xon_kib.to_string(),
            "must not be above xoff_kib, nor that above buffer_kib",
        );
    }
    if switch.xon_kib > switch.xoff_kib {
        return refuse("switch.xon_kib", switch.xon_kib.to_string(), "must not be above xoff_kib");
    }
    if host.dram.is_empty() || host.dram.len() > 64 || host.gpus.len() > 64 {
        return refuse("host.dram", host.dram.len().to_string(), "must list 1 to 64 NUMA nodes, and at most 64 GPUs");
    }
    if port.force_mtu.is_some_and(|mtu| kelpie_spaces::Mtu::try_from(mtu).is_err()) {
        return refuse("port.force_mtu", format!("{:?}", port.force_mtu), "must be a path MTU or null");
    }
    Ok(())
}

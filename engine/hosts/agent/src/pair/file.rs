//! The file that names a pair of hosts, format `pair/1`: parsing and checks. No connection is made here.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use kelpie_engine::timing::Timing;
use kelpie_engine::verbs_host::{Port, Tuning};
use kelpie_monitor::{Bounds, PerHost};
use kelpie_spaces::document::{Document, utf8};
use kelpie_spaces::{DocumentError, Host, decode};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_yaml::Value;

use crate::security::{Security, TlsFiles};

/// Longest pair file. Units: bytes.
const FILE_LIMIT: u64 = 64 << 10;

/// [`Bounds::run_to_run`] from which on no verdict is possible. Source: our choice; after three runs a share below 0.15
/// of the bounds is all that is clearly low then.
pub const MOST_RUN_TO_RUN: f64 = 0.5;

/// Why a pair file was refused.
#[derive(Debug, thiserror::Error)]
pub enum PairFileError {
    /// It could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It is longer than any pair file.
    #[error("{path}: longer than {} KiB, so no pair file", FILE_LIMIT >> 10)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It does not fit the format, or breaks a rule; the text names line and key.
    #[error(transparent)]
    File(#[from] DocumentError),
    /// It cannot be written.
    #[error("{name}: cannot be written as YAML")]
    Write {
        /// The pair.
        name: String,
        /// The cause.
        #[source]
        source: serde_yaml::Error,
    },
}

/// One host of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Where its agent listens, `host:port`.
    pub agent: String,
    /// The port that the agent is to use.
    #[serde(flatten)]
    pub port: Port,
}

/// The keys of a host one by one: serde does not say which of flattened ones is wrong.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostKeys {
    agent: String,
    #[serde(default)]
    device: Option<String>,
    port: Option<u8>,
    #[serde(default)]
    gid_index: Option<u8>,
    #[serde(default)]
    tuning: Tuning,
}

impl<'de> Deserialize<'de> for HostSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let HostKeys { agent, device, port, gid_index, tuning } = HostKeys::deserialize(deserializer)?;
        let port = port.unwrap_or(Port::default().port);
        Ok(Self { agent, port: Port { device, port, gid_index, tuning } })
    }
}

impl HostSpec {
    /// Each key that breaks a rule, with the rule.
    pub(crate) fn broken_rules(&self) -> Vec<(String, String)> {
        let mut broken = Vec::new();
        if self.agent.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            broken.push(("agent".to_owned(), format!("`{}` is not host:port", self.agent)));
        }
        if self.port.port == 0 {
            broken.push(("port".to_owned(), "ports count from 1".to_owned()));
        }
        if let Some((key, rule)) = self.port.tuning.broken_rule() {
            broken.push((format!("tuning.{key}"), rule.to_owned()));
        }
        broken
    }
}

/// A pair of hosts with agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairFile {
    /// Format tag, always [`PairFile::FORMAT`].
    pub kelpie: String,
    /// A name for people and the store.
    pub name: String,
    /// The hosts.
    pub hosts: PerHost<HostSpec>,
    /// The certificates that the controller uses; the agents have theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// Plain TCP to other machines, because the network between is trusted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// What the pair can do at best; calibrated by simple traffic if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    /// How long warm-up, samples and drain take, and whether latency is measured.
    #[serde(default)]
    pub session: Timing,
}

impl PairFile {
    /// The format tag of this version.
    pub const FORMAT: &'static str = "pair/1";

    /// The JSON schema of the file.
    pub fn schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(PairFile).to_value();
        schema["title"] = "Kelpie pair, version 1".into();
        schema["properties"]["kelpie"] = serde_json::json!({"const": Self::FORMAT});
        schema
    }

    /// Reads and checks a file; paths in it are relative to its directory and come out absolute.
    ///
    /// # Errors
    /// Where it cannot be read or breaks a rule.
    pub fn read(path: &Path) -> Result<Self, PairFileError> {
        let failed = |source| PairFileError::Read { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        // One byte more than is accepted shows that a file is too long, and what has no end is not read to it.
        File::open(path).and_then(|file| file.take(FILE_LIMIT + 1).read_to_end(&mut bytes)).map_err(failed)?;
        Self::from_bytes(path, &bytes)
    }

    /// As [`PairFile::from_yaml`], from bytes that may be anything.
    ///
    /// # Errors
    /// Also where they are too many, or no text.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, PairFileError> {
        if bytes.len() as u64 > FILE_LIMIT {
            return Err(PairFileError::TooLong { path: path.to_owned() });
        }
        Self::from_yaml(path, utf8(&path.display().to_string(), bytes)?)
    }

    /// Parses and checks `text`, which came from `path`.
    ///
    /// # Errors
    /// Where it breaks a rule.
    pub fn from_yaml(path: &Path, text: &str) -> Result<Self, PairFileError> {
        let document = Document::parse(&path.display().to_string(), text)?;
        document.expect(Self::FORMAT)?;
        let mut pair: PairFile = decode(&document, document.tree()?, &Value::Null, Self::broken_rules)?;
        if let Some(tls) = &mut pair.tls {
            tls.resolve(path).map_err(|source| PairFileError::Read { path: path.to_owned(), source })?;
        }
        Ok(pair)
    }

    /// The file as it can be stored: it reads back the same, wherever from.
    ///
    /// # Errors
    /// Where it cannot be written as YAML.
    pub fn to_yaml(&self) -> Result<String, PairFileError> {
        serde_yaml::to_string(self).map_err(|source| PairFileError::Write { name: self.name.clone(), source })
    }

    /// How the agents are reached.
    pub fn security(&self) -> Security {
        Security::of_keys(self.tls.as_ref(), self.plain)
    }

    /// Each key that breaks a rule, with the rule.
    fn broken_rules(&self) -> Vec<(String, String)> {
        let mut broken = Vec::new();
        if self.kelpie != Self::FORMAT {
            let shown: String = self.kelpie.chars().take(40).collect();
            broken.push(("kelpie".to_owned(), format!("this is format `{shown}`; write `kelpie: pair/1`")));
        }
        if self.name.is_empty() || self.name.chars().count() > 80 {
            broken.push(("name".to_owned(), "write 1 to 80 characters".to_owned()));
        }
        for host in Host::BOTH {
            let of_host = self.hosts.get(host).broken_rules().into_iter();
            broken.extend(of_host.map(|(key, rule)| (format!("hosts.{host}.{key}"), rule)));
        }
        if self.hosts.a.agent == self.hosts.b.agent {
            broken.push(("hosts".to_owned(), "a and b are the same agent; a pair needs two".to_owned()));
        }
        broken.extend(Security::broken_rule(self.tls.as_ref(), self.plain));
        if let Some(bounds) = self.bounds {
            let wrong = bounds.not_positive().into_iter();
            broken.extend(wrong.map(|key| (format!("bounds.{key}"), "write a positive number".to_owned())));
            if bounds.run_to_run.is_some_and(|share| share >= MOST_RUN_TO_RUN) {
                let rule = format!("write a share below {MOST_RUN_TO_RUN}: 0.02 is 2 %");
                broken.push(("bounds.run_to_run".to_owned(), rule));
            }
        }
        broken.extend(self.session.broken_rules().map(|(key, rule)| (format!("session.{key}"), rule)));
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "kelpie: pair/1\nname: rack 7\nhosts:\n  \
        a: {agent: \"10.0.0.1:7471\", device: mlx5_0, gid_index: 3}\n  b: {agent: \"node-b:7471\"}\n\
        bounds: {max_bps: 1e11, max_pps: 1.5e8}\nsession: {sample_ms: 500}\n";

    #[test]
    fn defaults_are_filled_in() {
        let pair = PairFile::from_yaml(Path::new("pair.yaml"), GOOD).expect("a good file");
        assert_eq!(pair.hosts.b.port, Port::default());
        assert_eq!(pair.session, Timing { sample_ms: 500, ..Timing::default() });
    }

    #[test]
    fn latency_is_off_unless_the_session_says_so_and_is_stored_only_then() {
        let read = |text: &str| PairFile::from_yaml(Path::new("pair.yaml"), text).expect("a good file");
        assert!(!read(GOOD).session.latency && !read(GOOD).to_yaml().expect("YAML").contains("latency"));
        let timed = read(&GOOD.replace("sample_ms: 500", "sample_ms: 500, latency: true"));
        assert_eq!(timed.session, Timing { sample_ms: 500, latency: true, ..Timing::default() });
        assert_eq!(read(&timed.to_yaml().expect("YAML")), timed);
    }

    #[test]
    fn certificates_are_found_from_anywhere_once_the_file_was_read() {
        let text = GOOD.replace("bounds:", "tls: {ca: ca.pem, identity: /etc/kelpie/me.pem}\nbounds:");
        let pair = PairFile::from_yaml(Path::new("/srv/lab/pair.yaml"), &text).expect("a good file");
        let files = TlsFiles {
            ca: "/srv/lab/ca.pem".into(),
            identity: "/etc/kelpie/me.pem".into(),
            insecure_key: false,
            revoked: None,
        };
        assert_eq!(pair.security(), Security::Tls(files));
        let stored = pair.to_yaml().expect("YAML");
        assert_eq!(PairFile::from_yaml(Path::new("rack 7"), &stored).expect("reads back"), pair);
        let relative = PairFile::from_yaml(Path::new("pair.yaml"), &text).expect("a good file").tls.expect("given");
        assert!(relative.ca.is_absolute() && relative.ca.ends_with("ca.pem"), "{relative:?}");
    }

    #[test]
    fn each_broken_rule_names_its_key() {
        let table = [
            ("pair/1", "pair/2", "kelpie: this is format `pair/2`"),
            ("name: rack 7", "name: ''", "name: write 1 to 80"),
            ("10.0.0.1:7471", "10.0.0.1", "hosts.a.agent: `10.0.0.1` is not host:port"),
            ("node-b:7471", "10.0.0.1:7471", "hosts: a and b are the same agent"),
            ("gid_index: 3", "port: 0", "hosts.a.port: ports count from 1"),
            ("gid_index: 3", "tuning: {service_level: 16}", "hosts.a.tuning.service_level: write 0 to 15"),
            ("gid_index: 3", "tuning: {hop_limit: 0}", "hosts.a.tuning.hop_limit: write 1 to 255"),
            ("gid_index: 3", "tuning: {ack_timeout: 0}", "hosts.a.tuning.ack_timeout: write 1 to 31"),
            ("gid_index: 3", "tuning: {udp_source_port: 4791}", "hosts.a.tuning.udp_source_port: write 49152 to 65535"),
            ("gid_index: 3", "tuning: {tos: 1}", "unknown key `tos`"),
            ("max_bps: 1e11", "max_bps: 0", "bounds.max_bps: write a positive number"),
            ("max_bps: 1e11", "max_pcie_bps: 0, max_bps: 1e11", "bounds.max_pcie_bps: write a positive number"),
            (
                "max_bps: 1e11",
                "run_to_run: 2, max_bps: 1e11",
                "bounds.run_to_run: write a share below 0.5: 0.02 is 2 %",
            ),
            ("sample_ms: 500", "sample_ms: 1", "session.sample_ms: 1 is outside 10 to 5000"),
            ("gid_index: 3", "gid: 3", "unknown key `gid`"),
            ("bounds:", "  c: {agent: \"node-c:7471\"}\nbounds:", "unknown key `c`"),
            ("bounds:", "plain: true\ntls: {ca: ca.pem, identity: me.pem}\nbounds:", "plain: `tls` is given as well"),
            ("bounds:", "tls: {ca: ca.pem}\nbounds:", "key `identity` is missing"),
            ("sample_ms: 500", "drain_ms: 10001", "session.drain_ms: 10001 is outside 0 to 10000"),
            ("sample_ms: 500", "storm_pause_percent: 0", "session.storm_pause_percent: 0 is outside 1 to 100"),
            ("gid_index: 3", "gid_index: 300", "`300` is not a whole number"),
            ("sample_ms: 500", "latency: 1", "`1` is not true or false"),
        ];
        for (from, to, expected) in table {
            let error = PairFile::from_yaml(Path::new("pair.yaml"), &GOOD.replace(from, to)).expect_err(to);
            let text = kelpie_engine::chain(&error);
            assert!(text.starts_with("pair.yaml") && text.contains(expected), "{to}: {text}");
        }
    }

    #[test]
    fn all_mistakes_are_said_at_once() {
        let text = "kelpie: pair/1\nname: ''\nhosts:\n  a: {agent: x, port: 0, tuning: {traffic_class: 999, hop: 3}}\n  \
                    b: {device: 7}\n  c: {}\nbounds: {max_bps: fast, max_pps: 0}\nsession: {samples: 0, drain: 5}\n";
        let error = PairFile::from_yaml(Path::new("pair.yaml"), text).expect_err("all of it is wrong").to_string();
        for expected in [
            "hosts.a.tuning.traffic_class: `999` is not a whole number from 0 to 255",
            "hosts.a.tuning.hop: unknown key `hop`; did you mean `hop_limit`?",
            "hosts.b.device: ",
            "hosts.b: key `agent` is missing",
            "hosts.c: unknown key `c`",
            "bounds.max_bps: `fast` is not a number",
            "session.drain: unknown key `drain`; did you mean `drain_ms`?",
        ] {
            assert!(error.contains(expected), "{expected}\n{error}");
        }
        let rules = GOOD.replace("rack 7", "''").replace("gid_index: 3", "tuning: {traffic_class: 999}");
        let error = PairFile::from_yaml(Path::new("pair.yaml"), &rules).expect_err("two mistakes").to_string();
        assert!(error.contains("name: write 1 to 80") && error.contains("`999` is not"), "{error}");
    }

    #[test]
    fn the_shipped_pair_is_good() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/guests/pair.yaml");
        assert_eq!(PairFile::read(&path).expect("shipped with the lab").name, "lab");
    }
}

//! The file that names a pair of hosts, format `pair/1`: parsing and checks. No connection is made here.

use std::path::{Path, PathBuf};

use kelpie_monitor::Bounds;
use kelpie_spaces::Host;
use serde::{Deserialize, Serialize};

use crate::host::Port;
use crate::session::Timing;

/// Longest pair file. Units: bytes.
const FILE_LIMIT: u64 = 64 << 10;

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
    #[error("{path} is longer than {FILE_LIMIT} bytes and no pair file")]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It is no pair file; the text names line and key.
    #[error("{path} is no pair file")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_yaml::Error,
    },
    /// A rule is broken.
    #[error("{path}: {key}: {rule}")]
    Rule {
        /// The file.
        path: PathBuf,
        /// Path of the key.
        key: String,
        /// The rule.
        rule: String,
    },
}

/// One host of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Where its agent listens, `host:port`.
    pub agent: String,
    /// RDMA device; the agent's own choice where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Port of the device, from 1.
    #[serde(default = "first_port")]
    pub port: u8,
    /// GID index; `RoCEv2` over IPv4 first where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u8>,
}

fn first_port() -> u8 {
    1
}

impl HostSpec {
    /// The port that the agent is to use.
    pub fn port(&self) -> Port {
        Port { device: self.device.clone(), port: self.port, gid_index: self.gid_index }
    }
}

/// Both hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// Host `a`.
    pub a: HostSpec,
    /// Host `b`.
    pub b: HostSpec,
}

/// A pair of hosts with agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairFile {
    /// Format tag, always [`PairFile::FORMAT`].
    pub kelpie: String,
    /// A name for people and the store.
    pub name: String,
    /// The hosts.
    pub hosts: Hosts,
    /// What the pair can do at best; calibrated by simple traffic where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    /// How long warm-up, samples and drain take.
    #[serde(default)]
    pub session: Timing,
}

impl PairFile {
    /// The format tag of this version.
    pub const FORMAT: &'static str = "pair/1";

    /// Reads and checks a file.
    ///
    /// # Errors
    /// Where it cannot be read or breaks a rule.
    pub fn read(path: &Path) -> Result<Self, PairFileError> {
        let failed = |source| PairFileError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > FILE_LIMIT {
            return Err(PairFileError::TooLong { path: path.to_owned() });
        }
        Self::from_yaml(path, &std::fs::read_to_string(path).map_err(failed)?)
    }

    /// Parses and checks `text`, which came from `path`.
    ///
    /// # Errors
    /// Where it breaks a rule.
    pub fn from_yaml(path: &Path, text: &str) -> Result<Self, PairFileError> {
        let pair: PairFile =
            serde_yaml::from_str(text).map_err(|source| PairFileError::Syntax { path: path.to_owned(), source })?;
        match pair.broken_rule() {
            Some((key, rule)) => Err(PairFileError::Rule { path: path.to_owned(), key, rule }),
            None => Ok(pair),
        }
    }

    /// The host's entry.
    pub fn host(&self, host: Host) -> &HostSpec {
        match host {
            Host::A => &self.hosts.a,
            Host::B => &self.hosts.b,
        }
    }

    fn broken_rule(&self) -> Option<(String, String)> {
        if self.kelpie != Self::FORMAT {
            let shown: String = self.kelpie.chars().take(40).collect();
            return Some(("kelpie".to_owned(), format!("this is format `{shown}`; write `kelpie: pair/1`")));
        }
        if self.name.is_empty() || self.name.chars().count() > 80 {
            return Some(("name".to_owned(), "write 1 to 80 characters".to_owned()));
        }
        for host in Host::BOTH {
            let spec = self.host(host);
            let has_port = spec.agent.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if !has_port {
                return Some((format!("hosts.{host}.agent"), format!("`{}` is not host:port", spec.agent)));
            }
            if spec.port == 0 {
                return Some((format!("hosts.{host}.port"), "ports count from 1".to_owned()));
            }
        }
        if self.hosts.a.agent == self.hosts.b.agent {
            return Some(("hosts".to_owned(), "a and b are the same agent; a pair needs two".to_owned()));
        }
        if let Some(bounds) = self.bounds {
            let rates = [("max_bps", Some(bounds.max_bps)), ("max_pps", Some(bounds.max_pps))];
            for (key, value) in rates.into_iter().chain([("base_rtt_seconds", bounds.base_rtt_seconds)]) {
                if value.is_some_and(|value| !(value.is_finite() && value > 0.0)) {
                    return Some((format!("bounds.{key}"), "write a positive number".to_owned()));
                }
            }
        }
        let outside = self.session.bounds().into_iter().find(|(_, value, min, max)| value < min || value > max);
        outside.map(|(key, value, min, max)| (format!("session.{key}"), format!("{value} is outside {min} to {max}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "kelpie: pair/1\nname: rack 7\nhosts:\n  a: {agent: \"10.0.0.1:7471\", device: mlx5_0, gid_index: 3}\n  b: {agent: \"node-b:7471\"}\nbounds: {max_bps: 1e11, max_pps: 1.5e8}\nsession: {sample_ms: 500}\n";

    #[test]
    fn defaults_are_filled_in() {
        let pair = PairFile::from_yaml(Path::new("pair.yaml"), GOOD).expect("a good file");
        assert_eq!(pair.hosts.b.port(), Port { device: None, port: 1, gid_index: None });
        assert_eq!(pair.session, Timing { sample_ms: 500, ..Timing::default() });
    }

    #[test]
    fn each_broken_rule_names_its_key() {
        let table = [
            ("pair/1", "pair/2", "kelpie: this is format `pair/2`"),
            ("name: rack 7", "name: ''", "name: write 1 to 80"),
            ("10.0.0.1:7471", "10.0.0.1", "hosts.a.agent: `10.0.0.1` is not host:port"),
            ("node-b:7471", "10.0.0.1:7471", "hosts: a and b are the same agent"),
            ("gid_index: 3", "port: 0", "hosts.a.port: ports count from 1"),
            ("max_bps: 1e11", "max_bps: 0", "bounds.max_bps: write a positive number"),
            ("sample_ms: 500", "sample_ms: 1", "session.sample_ms: 1 is outside 10 to 5000"),
            ("gid_index: 3", "gid: 3", "unknown field `gid`"),
            ("gid_index: 3", "gid_index: 300", "invalid value"),
        ];
        for (from, to, expected) in table {
            let error = PairFile::from_yaml(Path::new("pair.yaml"), &GOOD.replace(from, to)).expect_err(to);
            let text = crate::chain(&error);
            assert!(text.starts_with("pair.yaml") && text.contains(expected), "{to}: {text}");
        }
    }

    #[test]
    fn the_shipped_pair_is_good() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/pair.yaml");
        assert_eq!(PairFile::read(&path).expect("shipped with the lab").name, "lab");
    }
}

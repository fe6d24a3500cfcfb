//! The file that names the hosts of a cluster, format `inventory/1`: their agents, NICs and positions. No connection is
//! made here, and no secret is in it.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use kelpie_agent::{Security, TlsFiles};
use kelpie_engine::timing::Timing;
use kelpie_engine::verbs_host::{Port, Tuning};
use kelpie_spaces::document::utf8;
use kelpie_spaces::{DocumentError, read_tagged};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Most hosts. Source: our choice; one controller talks to all of them.
pub const MOST_HOSTS: usize = 4096;
/// Most NICs of a host. Source: our choice.
const MOST_NICS: usize = 64;
/// Longest name of a host, a leaf or a pod. Units: bytes. Source: our choice; RFC 1123 has 255 for names of hosts.
const MAX_NAME: usize = 255;
/// Where an agent listens if the file does not say. Source: `kelpie agent --listen`.
pub const AGENT_PORT: u16 = 7471;

/// Why an inventory was refused.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// It does not fit the format, or breaks a rule; the text names line and key.
    #[error(transparent)]
    File(#[from] DocumentError),
    /// A path in it cannot be made absolute.
    #[error("{}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// The hosts of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    /// The hosts, in any order.
    pub hosts: Vec<InventoryHost>,
    /// The certificates that the controller uses; the agents have theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// Plain TCP to other machines, because the network between is trusted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// How long warm-up, samples and drain of campaigns over its pairs take; if it is absent, as in a pair file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Timing>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InventoryHost {
    /// Its name, which schedulers know too.
    pub name: String,
    /// Where its agent listens, `host:port`; if it is absent, port 7471 of the host's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The NICs that are measured; if there is none, the agent's own choice of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<InventoryNic>,
    /// The switch that it is connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<String>,
    /// The group of switches that its leaf belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// What people and plans select hosts by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A NIC of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InventoryNic {
    /// Device, port and GID.
    #[serde(flatten)]
    pub port: Port,
    /// Its rail: NICs of one rail talk to each other. If it is absent, its place in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<u32>,
}

/// The keys of a NIC one by one: serde does not say which of flattened ones is wrong.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NicKeys {
    #[serde(default)]
    device: Option<String>,
    port: Option<u8>,
    #[serde(default)]
    gid_index: Option<u8>,
    #[serde(default)]
    tuning: Tuning,
    #[serde(default)]
    rail: Option<u32>,
}

impl<'de> Deserialize<'de> for InventoryNic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let NicKeys { device, port, gid_index, tuning, rail } = NicKeys::deserialize(deserializer)?;
        let port = Port { device, port: port.unwrap_or(Port::default().port), gid_index, tuning };
        Ok(Self { port, rail })
    }
}

impl InventoryHost {
    /// Where its agent listens, `host:port`.
    pub fn address(&self) -> String {
        self.agent.clone().unwrap_or_else(|| format!("{}:{AGENT_PORT}", self.name))
    }

    /// The ports that are measured, with the rail of each.
    pub fn ports(&self) -> Vec<(u32, Port)> {
        if self.nics.is_empty() {
            return vec![(0, Port::default())];
        }
        let rails = self.nics.iter().zip(0..);
        rails.map(|(nic, place)| (nic.rail.unwrap_or(place), nic.port.clone())).collect()
    }

    fn broken_rules(&self) -> Vec<(String, String)> {
        let mut broken = Vec::new();
        let mut refuse = |key: &str, rule: String| broken.push((key.to_owned(), rule));
        let is_name = |name: &str| {
            (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(|letter| letter.is_control() || letter == ' ')
        };
        // Names become arguments of programs and of schedulers, where `-x`, `a,b` and `n[1-9]` mean other things.
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if !self.name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) || !self.name.chars().all(is_plain) {
            refuse("name", "write letters, digits, `-`, `_` and `.`, a letter or a digit first".to_owned());
        }
        let named = [("leaf", self.leaf.as_ref()), ("pod", self.pod.as_ref())];
        let named = named.into_iter().filter_map(|(key, name)| Some((key, name?)));
        for (key, name) in std::iter::once(("name", &self.name)).chain(named) {
            if !is_name(name) {
                refuse(key, format!("write 1 to {MAX_NAME} printable bytes without spaces"));
            }
        }
        if self.pod.is_some() && self.leaf.is_none() {
            refuse("pod", "a pod is of leaves: write `leaf` too".to_owned());
        }
        let address = self.address();
        if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            refuse("agent", format!("`{address}` is not host:port"));
        }
        if self.nics.len() > MOST_NICS {
            refuse("nics", format!("at most {MOST_NICS}"));
        }
        let mut rails = HashSet::new();
        for (place, ((rail, port), _)) in self.ports().into_iter().zip(&self.nics).enumerate() {
            if port.port == 0 {
                refuse(&format!("nics[{place}].port"), "ports count from 1".to_owned());
            }
            if let Some((key, rule)) = port.tuning.broken_rule() {
                refuse(&format!("nics[{place}].tuning.{key}"), rule.to_owned());
            }
            if !rails.insert(rail) {
                refuse(&format!("nics[{place}].rail"), format!("rail {rail} has another NIC of this host"));
            }
        }
        broken
    }
}

impl Inventory {
    /// The format tag of this version.
    pub const FORMAT: &'static str = "inventory/1";

    /// The JSON schema of the file.
    pub fn schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(Inventory).to_value();
        schema["title"] = "Kelpie inventory, version 1".into();
        schema["properties"]["kelpie"] = serde_json::json!({"const": Self::FORMAT});
        schema
    }

    /// Reads and checks a file's bytes; paths in it are relative to the directory of `path`.
    ///
    /// # Errors
    /// Where it breaks a rule.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, InventoryError> {
        let name = path.display().to_string();
        let (document, mut file) = read_tagged::<Self>(&name, utf8(&name, bytes)?, Self::FORMAT)?;
        document.refuse_all(file.broken_rules().into_iter())?;
        if let Some(tls) = &mut file.tls {
            tls.resolve(path).map_err(|source| InventoryError::Path { path: path.to_owned(), source })?;
        }
        Ok(file)
    }

    /// The inventory as a file.
    ///
    /// # Errors
    /// Only what YAML cannot hold.
    pub fn to_yaml(&self) -> Result<String, serde_yaml::Error> {
        let mut document = serde_yaml::to_value(self)?;
        let hosts = document.get_mut("hosts").and_then(serde_yaml::Value::as_sequence_mut).into_iter().flatten();
        for (host, written) in self.hosts.iter().zip(hosts) {
            let nics = written.get_mut("nics").and_then(serde_yaml::Value::as_sequence_mut).into_iter().flatten();
            for (nic, written) in host.nics.iter().zip(nics) {
                // What is left out is the default.
                if let Some(keys) = written.as_mapping_mut().filter(|_| nic.port.tuning == Tuning::default()) {
                    keys.remove("tuning");
                }
            }
        }
        Ok(format!("kelpie: {}\n{}", Self::FORMAT, serde_yaml::to_string(&document)?))
    }

    /// The inventory as JSON, which is YAML too.
    ///
    /// # Errors
    /// Only what JSON cannot hold.
    pub fn to_json(&self) -> serde_json::Result<serde_json::Value> {
        let mut document = serde_json::to_value(self)?;
        document["kelpie"] = Self::FORMAT.into();
        Ok(document)
    }

    /// How the agents are reached.
    pub fn security(&self) -> Security {
        Security::of_keys(self.tls.as_ref(), self.plain)
    }

    fn broken_rules(&self) -> Vec<(String, String)> {
        let mut broken = Vec::new();
        if !(1..=MOST_HOSTS).contains(&self.hosts.len()) {
            broken.push(("hosts".to_owned(), format!("write 1 to {MOST_HOSTS} hosts")));
        }
        let (mut names, mut agents) = (HashSet::new(), HashSet::new());
        for (place, host) in self.hosts.iter().enumerate() {
            let of_host = host.broken_rules().into_iter();
            broken.extend(of_host.map(|(key, rule)| (format!("hosts[{place}].{key}"), rule)));
            if !names.insert(&host.name) {
                broken.push((format!("hosts[{place}].name"), format!("{} is in the list already", host.name)));
            }
            if !agents.insert(host.address()) {
                let rule = format!("{} is the agent of another host already", host.address());
                broken.push((format!("hosts[{place}].agent"), rule));
            }
        }
        broken.extend(Security::broken_rule(self.tls.as_ref(), self.plain));
        let of_session = self.session.iter().flat_map(|session| session.broken_rules().collect::<Vec<_>>());
        broken.extend(of_session.map(|(key, rule)| (format!("session.{key}"), rule)));
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Inventory, InventoryError> {
        Inventory::from_bytes(Path::new("/srv/hosts.yaml"), text.as_bytes())
    }

    const GOOD: &str = "kelpie: inventory/1\nhosts:\n  - {name: n1, agent: \"10.0.0.1:7471\", leaf: l1, pod: p1}\n  \
        - {name: n2, nics: [{device: mlx5_0, gid_index: 3}, {device: mlx5_1}]}\n";

    #[test]
    fn an_inventory_is_read_written_and_read_again() {
        let file = read(GOOD).expect("a good file");
        assert_eq!(file.hosts[1].address(), "n2:7471");
        let rails: Vec<u32> = file.hosts[1].ports().into_iter().map(|(rail, _)| rail).collect();
        assert_eq!((rails, file.hosts[0].ports().len()), (vec![0, 1], 1));
        assert_eq!(read(&file.to_yaml().expect("YAML")).expect("what it wrote"), file);
        let tls = read(&format!("{GOOD}tls: {{ca: ca.pem, identity: me.pem}}\n")).expect("a good file").tls;
        assert_eq!(tls.expect("given").ca, Path::new("/srv/ca.pem"));
    }

    #[test]
    fn what_breaks_a_rule_is_named_by_its_key() {
        for (from, to, expected) in [
            ("inventory/1", "inventory/2", "inventory/2"),
            ("name: n2", "name: n1", "hosts[1].name: n1 is in the list already"),
            ("name: n2", "name: n2, agent: \"10.0.0.1:7471\"", "hosts[1].agent: 10.0.0.1:7471 is the agent of another"),
            ("10.0.0.1:7471", "10.0.0.1", "hosts[0].agent: `10.0.0.1` is not host:port"),
            ("leaf: l1, ", "", "hosts[0].pod: a pod is of leaves"),
            ("{device: mlx5_1}", "{device: mlx5_1, rail: 0}", "hosts[1].nics[1].rail: rail 0 has another NIC"),
            ("{device: mlx5_1}", "{device: mlx5_1, port: 0}", "hosts[1].nics[1].port: ports count from 1"),
            ("{device: mlx5_1}", "{devise: mlx5_1}", "unknown key `devise`"),
            ("name: n2", "name: \"n 2\"", "hosts[1].name: write letters, digits"),
            ("name: n2", "name: \"-oProxyCommand=x\"", "hosts[1].name: write letters, digits"),
            ("name: n2", "name: \"n[1-9]\"", "hosts[1].name: write letters, digits"),
            ("name: n2", "name: \"n\\u202e2\"", "hosts[1].name: write letters, digits"),
        ] {
            let error = kelpie_engine::chain(&read(&GOOD.replace(from, to)).expect_err(to));
            assert!(error.starts_with("/srv/hosts.yaml") && error.contains(expected), "{to}: {error}");
        }
    }
}

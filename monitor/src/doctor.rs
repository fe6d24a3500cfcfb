//! Whether a host is fit to be measured: what spoils a measurement, each with its evidence and the command that mends it.

mod host;
mod pair;
mod pcie;
mod port;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use pair::compare;

use crate::machine::{Machine, PortLink, rdma_devices};

/// How well a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It could not be found out.
    Unknown,
    /// Measurements run, but may say less, or something about the setting instead of the NIC.
    Warn,
    /// Measurements fail, or say what the setting does and not what the NIC does.
    Bad,
}

/// Where a statement comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// A file, or what else was asked.
    pub source: String,
    /// What it said.
    pub value: String,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is about: `host`, `mlx5_0 port 1` or `pair`.
    pub about: String,
    /// A word for it, the same on every host.
    pub check: String,
    /// How well it is.
    pub state: State,
    /// What it is, and what follows from it.
    pub summary: String,
    /// What it was seen from.
    pub evidence: Vec<Evidence>,
    /// The command or setting that mends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    fn new(check: &str, state: State, summary: impl Into<String>) -> Self {
        let (check, summary) = (check.to_owned(), summary.into());
        Self { about: String::new(), check, state, summary, evidence: Vec::new(), fix: None }
    }

    /// Adds a file as evidence; one that could not be read says so.
    fn file(self, machine: &Machine, name: &str) -> Self {
        let value = machine.text(name).unwrap_or_else(|| "cannot be read".to_owned());
        self.seen(format!("/{name}"), value.lines().collect::<Vec<_>>().join("; "))
    }

    fn seen(mut self, source: impl Into<String>, value: impl Into<String>) -> Self {
        self.evidence.push(Evidence { source: source.into(), value: value.into() });
        self
    }

    fn fix(mut self, command: impl Into<String>) -> Self {
        self.fix = Some(command.into());
        self
    }
}

/// What was found on one host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Examination {
    /// Its name.
    pub host: String,
    /// Ports that were looked at.
    #[serde(default)]
    pub ports: usize,
    /// Everything that was looked at.
    pub findings: Vec<Finding>,
    /// What two hosts should have in common, by what it is called; of a port, where one port was looked at.
    pub facts: BTreeMap<String, String>,
}

impl Examination {
    fn add(&mut self, about: &str, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings.into_iter().map(|finding| Finding { about: about.to_owned(), ..finding }));
    }

    fn fact(&mut self, name: &str, value: Option<String>) {
        self.facts.extend(value.map(|value| (name.to_owned(), value)));
    }
}

/// Looks at a host and one port of one of its RDMA devices; at every port of every device where none is named.
///
/// `traffic_class` is what the traffic has that is to be lossless: DSCP times four, and ECN.
pub fn examine(machine: &Machine, device: Option<&str>, port: Option<u32>, traffic_class: u8) -> Examination {
    let mut seen =
        Examination { host: machine.text("proc/sys/kernel/hostname").unwrap_or_default(), ..Examination::default() };
    seen.add("host", host::findings(machine));
    seen.fact("kernel", machine.text("proc/sys/kernel/osrelease"));
    let devices = rdma_devices(machine);
    let wanted: Vec<&String> = devices.iter().filter(|name| device.is_none_or(|device| device == *name)).collect();
    if wanted.is_empty() {
        seen.add("host", [no_device(device, &devices)]);
    }
    let mut links = Vec::new();
    for device in wanted {
        let ports = machine.names(&format!("sys/class/infiniband/{device}/ports"));
        let ports = ports.iter().filter_map(|name| name.parse().ok());
        let ports: Vec<u32> = ports.filter(|number| port.is_none_or(|port| port == *number)).collect();
        let about = |port: u32| format!("{device} port {port}");
        if ports.is_empty() {
            let finding = Finding::new("port", State::Bad, "there is no such port");
            seen.add(
                &about(port.unwrap_or(1)),
                [finding.seen(format!("/sys/class/infiniband/{device}/ports"), "not in it")],
            );
        }
        for port in ports {
            let link = PortLink::of(machine, device, port);
            seen.add(&about(port), port::findings(machine, &link, traffic_class));
            seen.add(&about(port), pcie::findings(machine, &link));
            links.push(link);
        }
    }
    seen.ports = links.len();
    if let [link] = links.as_slice() {
        for (name, value) in port::facts(machine, link) {
            seen.fact(name, value);
        }
    }
    seen
}

fn no_device(wanted: Option<&str>, found: &[String]) -> Finding {
    let summary = match wanted {
        Some(wanted) => format!("there is no RDMA device {wanted}"),
        None => "there is no RDMA device: nothing can be measured here".to_owned(),
    };
    let value = if found.is_empty() { "no device".to_owned() } else { found.join(", ") };
    let finding = Finding::new("device", State::Bad, summary).seen("/sys/class/infiniband", value);
    match wanted {
        Some(_) if !found.is_empty() => finding.fix(format!("kelpie doctor {}", found[0])),
        _ => finding
            .fix("modprobe mlx5_ib, or your NIC's driver; for Soft-RoCE: rdma link add rxe0 type rxe netdev eth0"),
    }
}

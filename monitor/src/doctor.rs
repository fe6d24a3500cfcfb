//! Whether a host is fit to be measured: what spoils a measurement, with the evidence and the step that repairs it.

mod host;
mod nic_placement;
mod pair;
mod port;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use pair::compare;

use crate::check::{Check, State};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::{Machine, PortLink, rdma_devices};

/// What was found on one host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Examination {
    /// Its name.
    pub host: String,
    /// Ports that were examined.
    #[serde(default)]
    pub ports: usize,
    /// Everything that was examined.
    #[serde(rename = "findings")]
    pub checks: Vec<Check>,
    /// What two hosts should have in common, by name; facts of a port only if one port was examined.
    pub facts: BTreeMap<String, String>,
}

impl Examination {
    fn add(&mut self, about: &str, checks: impl IntoIterator<Item = Check>) {
        self.checks.extend(checks.into_iter().map(|check| check.about(about)));
    }

    fn fact(&mut self, kind: CheckKind, value: Option<String>) {
        self.facts.extend(value.map(|value| (kind.name().to_owned(), value)));
    }
}

/// Examines a host and one port of one of its RDMA devices; every port of every device if none is named.
///
/// `traffic_class` is the class of the traffic that has to be lossless: DSCP times four, and ECN.
pub fn examine(machine: &Machine, device: Option<&str>, port: Option<u32>, traffic_class: u8) -> Examination {
    let mut seen =
        Examination { host: machine.text("proc/sys/kernel/hostname").unwrap_or_default(), ..Examination::default() };
    seen.add("host", host::checks(machine));
    seen.fact(CheckKind::SameKernel, machine.text("proc/sys/kernel/osrelease"));
    for (kind, value) in host::facts(machine) {
        seen.fact(kind, value);
    }
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
            let check = Check::new(CheckKind::Port, State::Fail, "there is no such port");
            seen.add(
                &about(port.unwrap_or(1)),
                [check.seen(format!("/sys/class/infiniband/{device}/ports"), "not in it")],
            );
        }
        for port in ports {
            let link = PortLink::of(machine, device, port);
            seen.add(&about(port), port::checks(machine, &link, traffic_class));
            seen.add(&about(port), nic_placement::checks(machine, &link));
            links.push(link);
        }
    }
    seen.ports = links.len();
    if let [link] = links.as_slice() {
        for (kind, value) in port::facts(machine, link) {
            seen.fact(kind, value);
        }
    }
    seen
}

fn no_device(wanted: Option<&str>, found: &[String]) -> Check {
    let summary = match wanted {
        Some(wanted) => format!("there is no RDMA device {wanted}"),
        None => "there is no RDMA device: nothing can be measured here".to_owned(),
    };
    let value = if found.is_empty() { "no device".to_owned() } else { found.join(", ") };
    let check = Check::new(CheckKind::Device, State::Fail, summary).seen("/sys/class/infiniband", value);
    let check = check.measured(Gauge::Devices, found.len() as f64, 1.0);
    match wanted {
        Some(_) if !found.is_empty() => check.repair(Repair::NameDevice, &[("device", &found[0])]),
        _ => check.repair(Repair::LoadDriver, &[]),
    }
}

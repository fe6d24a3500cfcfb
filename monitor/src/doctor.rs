//! Whether a host is fit to be measured: what spoils a measurement, with the evidence and the step that repairs it.

mod bond;
mod errors;
mod host;
mod nic_placement;
mod pair;
mod pcie_rate;
mod port;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use pair::compare;

use crate::check::{Check, CheckState};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::{Machine, PortLink, rdma_devices};
use crate::sources::Reading;

use errors::Between;

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
    /// Errors per second on the way between two readings, by name; of a port only if one port was examined.
    #[serde(default)]
    pub rates: BTreeMap<String, f64>,
    /// What each port had counted, for a later examination to compute rates from.
    #[serde(default)]
    pub counted: Counted,
}

/// What the ports of a host had counted at one time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counted {
    /// Which start of the host the counters are since, if the host says.
    #[serde(default)]
    pub boot: Option<String>,
    /// Time since that start. Units: seconds.
    #[serde(default)]
    pub uptime: Option<f64>,
    /// Counters of errors and packets, by port.
    #[serde(default)]
    pub ports: BTreeMap<String, Reading>,
}

impl Counted {
    /// Time from an earlier reading of the same host to this one, if both say when they were. Units: seconds.
    fn seconds_since(&self, earlier: &Self) -> Option<f64> {
        let seconds = self.uptime? - earlier.uptime?;
        Some(seconds).filter(|seconds| *seconds > 0.0 && self.boot == earlier.boot)
    }
}

/// A reading that another one is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Earlier<'a> {
    /// What was counted then.
    pub counted: &'a Counted,
    /// How long ago that was; `None` to take the clocks of both readings. Units: seconds.
    pub seconds: Option<f64>,
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
    examine_since(machine, device, port, traffic_class, None)
}

/// The same, with what was counted since an earlier reading of this host as rates.
pub fn examine_since(
    machine: &Machine,
    device: Option<&str>,
    port: Option<u32>,
    traffic_class: u8,
    earlier: Option<Earlier<'_>>,
) -> Examination {
    let mut seen =
        Examination { host: machine.text("proc/sys/kernel/hostname").unwrap_or_default(), ..Examination::default() };
    seen.counted.boot = machine.text("proc/sys/kernel/random/boot_id");
    seen.counted.uptime = errors::uptime(machine);
    let seconds = earlier.and_then(|earlier| earlier.seconds.or(seen.counted.seconds_since(earlier.counted)));
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
    let mut rates = BTreeMap::new();
    for device in wanted {
        let ports = machine.names(&format!("sys/class/infiniband/{device}/ports"));
        let ports = ports.iter().filter_map(|name| name.parse().ok());
        let ports: Vec<u32> = ports.filter(|number| port.is_none_or(|port| port == *number)).collect();
        let about = |port: u32| format!("{device} port {port}");
        if ports.is_empty() {
            let check = Check::new(CheckKind::Port, CheckState::Fail, "there is no such port");
            seen.add(
                &about(port.unwrap_or(1)),
                [check.seen(format!("/sys/class/infiniband/{device}/ports"), "not in it")],
            );
        }
        for port in ports {
            let link = PortLink::of(machine, device, port);
            seen.add(&about(port), port::checks(machine, &link, traffic_class));
            seen.add(&about(port), nic_placement::checks(machine, &link));
            let reading = errors::read(machine, &link);
            let before = earlier.and_then(|earlier| earlier.counted.ports.get(&about(port)));
            let between = before.zip(seconds).map(|(before, seconds)| Between::new(before, &reading, seconds));
            let of_cable = errors::cable(machine, &link, &reading, between.as_ref());
            let of_path = errors::path(&link, &reading, between.as_ref());
            let of_drops = errors::drops(&link, &reading, between.as_ref());
            rates = between.map(|between| between.rates()).unwrap_or_default();
            seen.add(&about(port), [of_cable, of_path, of_drops]);
            seen.counted.ports.insert(about(port), reading);
            links.push(link);
        }
    }
    seen.ports = links.len();
    if let [link] = links.as_slice() {
        for (kind, value) in port::facts(machine, link) {
            seen.fact(kind, value);
        }
        seen.rates = rates;
    }
    seen
}

fn no_device(wanted: Option<&str>, found: &[String]) -> Check {
    let summary = match wanted {
        Some(wanted) => format!("there is no RDMA device {wanted}"),
        None => "there is no RDMA device: nothing can be measured here".to_owned(),
    };
    let value = if found.is_empty() { "no device".to_owned() } else { found.join(", ") };
    let check = Check::new(CheckKind::Device, CheckState::Fail, summary).seen("/sys/class/infiniband", value);
    let check = check.measured(Gauge::Devices, found.len() as f64, 1.0);
    match wanted {
        Some(_) if !found.is_empty() => check.repair(Repair::NameDevice, &[("device", &found[0])]),
        _ => check.repair(Repair::LoadDriver, &[]),
    }
}

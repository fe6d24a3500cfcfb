//! Whether PCIe carries what the port does, and what all ports behind the same link do together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::check::{Check, CheckState};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::{Machine, PciFunction, PcieRate, PortLink, pci_path, rdma_devices, speed};

/// What PCIe must carry for each bit of the port: packet headers and completions. Source: our choice, because a TLP of
/// 256 bytes has 24 to 28 bytes around it.
const PCIE_HEADROOM: f64 = 1.1;

/// A port of the host, as far as PCIe sees it.
struct Load {
    /// Directory of its function.
    function: String,
    /// Units: bits/s.
    bits_per_sec: f64,
}

/// What each port of the host carries, by the name of its interface or, of InfiniBand, of the port.
///
/// Virtual functions and sub-functions use the port of their parent, so they add nothing. Source: kernel
/// `Documentation/ABI/testing/sysfs-bus-pci` (`physfn`).
fn loads(machine: &Machine) -> BTreeMap<String, Load> {
    let mut loads = BTreeMap::new();
    for device in rdma_devices(machine) {
        let directory = format!("sys/class/infiniband/{device}");
        let Some(function) = pci_path(machine, &format!("{directory}/device")).pop() else { continue };
        let is_whole = machine.real(&format!("{directory}/device")).as_ref() == Some(&function.directory);
        if !is_whole || machine.has(&function.file("physfn")) {
            continue;
        }
        let ports = machine.names(&format!("{directory}/ports"));
        for link in ports.iter().filter_map(|port| Some(PortLink::of(machine, &device, port.parse().ok()?))) {
            let wires = link.wires.iter().filter_map(|wire| {
                let function = pci_path(machine, &format!("sys/class/net/{wire}/device")).pop()?;
                Some((wire.clone(), Load { function: function.directory, bits_per_sec: speed(machine, wire)? }))
            });
            let before = loads.len();
            loads.extend(wires.filter(|_| !link.is_infiniband(machine)));
            if loads.len() == before
                && let Some(bits_per_sec) = link.bits_per_sec(machine)
            {
                let name = format!("{device} port {}", link.port);
                loads.insert(name, Load { function: function.directory.clone(), bits_per_sec });
            }
        }
    }
    loads
}

/// A link on the way to the NIC, what it carries, and the ports that are behind it.
struct Way<'p, 'm> {
    function: &'p PciFunction<'m>,
    rate: PcieRate,
    names: Vec<String>,
    /// What these ports carry together. Units: bits/s.
    wanted: f64,
}

impl Way<'_, '_> {
    fn carries(&self) -> f64 {
        self.rate.bits_per_sec()
    }

    fn is_short_for_all(&self) -> bool {
        self.names.len() > 1 && self.carries() < self.wanted * PCIE_HEADROOM
    }
}

/// The check of the port's PCIe link.
pub fn check(machine: &Machine, link: &PortLink, path: &[PciFunction<'_>], nic: &PciFunction<'_>) -> Check {
    let with_evidence = |check: Check, function: &PciFunction<'_>| {
        let files = ["current_link_width", "current_link_speed", "max_link_width", "max_link_speed"];
        files.iter().fold(check, |check, name| check.file(machine, &function.file(name)))
    };
    let loads = loads(machine);
    let ways: Vec<Way<'_, '_>> = path.iter().filter_map(|function| way(function, &loads)).collect();
    // Source: kernel `drivers/pci/pci.c` (`pcie_bandwidth_available`): the first of equal ones limits.
    let narrowest = ways.iter().min_by(|a, b| a.carries().total_cmp(&b.carries()));
    let (Some(now), Some(most), Some(narrowest)) = (nic.current_rate(), nic.max_rate(), narrowest) else {
        let summary = "the PCIe link is not reported (usual in a virtual machine)";
        return with_evidence(Check::new(CheckKind::Pcie, CheckState::Unknown, summary), nic);
    };
    let port = link.bits_per_sec(machine);
    let port_needs = port.unwrap_or(0.0) * PCIE_HEADROOM;
    // Of links that are short the one that has least of what its ports want.
    let shared = ways.iter().filter(|way| way.is_short_for_all());
    let shared = shared.min_by(|a, b| (a.carries() / a.wanted).total_cmp(&(b.carries() / b.wanted)));
    let carried = narrowest.carries();
    let is_slower = carried < most.bits_per_sec();
    let state = match () {
        () if carried < port_needs => CheckState::Fail,
        () if is_slower || shared.is_some() => CheckState::Warn,
        () => CheckState::Pass,
    };
    let giga = |bits: f64| bits / 1e9;
    let mut words = match port {
        Some(port) if state == CheckState::Fail => {
            format!("carries {:.0} of the port's {:.0} Gbit/s", giga(carried), giga(port))
        }
        Some(port) if is_slower => {
            format!("carries {:.0} Gbit/s, enough for the port's {:.0} alone", giga(carried), giga(port))
        }
        _ => format!("carries {:.0} Gbit/s", giga(carried)),
    };
    let _ =
        if is_slower { write!(words, "; the NIC could have {most}") } else { write!(words, ", all that the NIC can") };
    let limiting = match shared {
        Some(way) if carried >= port_needs => way,
        _ => narrowest,
    };
    if let Some(way) = shared {
        let (all, wanted) = (way.names.join(" and "), giga(way.wanted));
        let what = format!("{} at {}", way.rate, way.function.address());
        let _ = write!(
            words,
            "; {all} share {what} and carry {wanted:.0} Gbit/s together, more than its {:.0}",
            giga(way.carries())
        );
    }
    let is_above = limiting.function.address() != nic.address();
    let summary = if carried < now.bits_per_sec() {
        format!("{} at {}, above the NIC, {words}", narrowest.rate, narrowest.function.address())
    } else {
        format!("{now} {words}")
    };
    let check = Check::new(CheckKind::Pcie, state, summary);
    let check = check.measured(Gauge::PcieCarries, carried, most.bits_per_sec().max(port_needs));
    let check = port.into_iter().fold(check, |check, port| check.measured(Gauge::PortCarries, port, None));
    let check = check.measured(Gauge::TogetherCarry, limiting.wanted, None);
    let check = with_evidence(check, nic);
    let check = if is_above { with_evidence(check, limiting.function) } else { check };
    let check =
        if port.is_some_and(|_| state != CheckState::Pass) { port_evidence(check, machine, link) } else { check };
    match state {
        CheckState::Pass => check,
        _ if state == CheckState::Warn && !is_slower => check.repair(Repair::SpreadPorts, &[]),
        _ if !is_slower => check.repair(Repair::ExpectPcie, &[]),
        _ if carried < now.bits_per_sec() => {
            check.repair(Repair::MoveAboveNic, &[("address", narrowest.function.address())])
        }
        _ => check.repair(Repair::MoveNic, &[]),
    }
}

fn port_evidence(check: Check, machine: &Machine, link: &PortLink) -> Check {
    let speeds = link.wires.iter().filter(|wire| !link.is_infiniband(machine) && speed(machine, wire).is_some());
    let files: Vec<String> = speeds.map(|wire| format!("sys/class/net/{wire}/speed")).collect();
    let files = if files.is_empty() { vec![link.port_file("rate")] } else { files };
    files.iter().fold(check, |check, file| check.file(machine, file))
}

fn way<'p, 'm>(function: &'p PciFunction<'m>, loads: &BTreeMap<String, Load>) -> Option<Way<'p, 'm>> {
    let rate = function.current_rate()?;
    // The functions of one card share its link, so what is behind one of them is what is behind their card.
    let card = function.directory.rsplit_once('.').map_or(function.directory.as_str(), |(card, _)| card);
    let below = format!("{}/", function.directory);
    let is_behind =
        |load: &Load| load.function.starts_with(&below) || load.function.strip_prefix(card).is_some_and(is_function);
    let behind: Vec<(&String, &Load)> = loads.iter().filter(|(_, load)| is_behind(load)).collect();
    Some(Way {
        function,
        rate,
        names: behind.iter().map(|(name, _)| (*name).clone()).collect(),
        wanted: behind.iter().map(|(_, load)| load.bits_per_sec).sum(),
    })
}

/// Whether this is what an address has behind its card: `.1`.
fn is_function(rest: &str) -> bool {
    rest.strip_prefix('.').is_some_and(|function| function.len() == 1)
}

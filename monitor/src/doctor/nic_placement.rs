//! The NIC's place in the host: PCIe link, errors, ordering, access control, IOMMU, NUMA node.

use crate::check::{Check, State};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::{Machine, PciFunction, PcieRate, PortLink};
use crate::sources::{CounterSource, PcieSource};

/// What PCIe must carry for each bit of the port: packet headers and completions. Source: our choice, because a TLP of
/// 256 bytes has 24 to 28 bytes around it.
const PCIE_HEADROOM: f64 = 1.1;

pub fn checks(machine: &Machine, link: &PortLink) -> Vec<Check> {
    let path = link.pci(machine);
    let Some((nic, bridges)) = path.split_last() else {
        let check = Check::new(CheckKind::Pcie, State::Unknown, "sysfs shows no PCIe device behind the RDMA device");
        return vec![check.seen(format!("/{}/device", link.device_directory()), "leads to no PCI function")];
    };
    let mut checks = vec![rate(machine, link, &path, nic), errors(machine, nic), ordering(nic), acs(bridges)];
    checks.extend([iommu(machine, nic), numa(machine, nic)]);
    checks
}

/// The link between the root port and the NIC that carries least; the first of equal ones.
///
/// Source: kernel `drivers/pci/pci.c` (`pcie_bandwidth_available`).
fn narrowest<'p, 'm>(path: &'p [PciFunction<'m>]) -> Option<(&'p PciFunction<'m>, PcieRate)> {
    let links = path.iter().filter_map(|function| Some((function, function.current_rate()?)));
    links.min_by(|(_, a), (_, b)| a.bits_per_sec().total_cmp(&b.bits_per_sec()))
}

fn rate(machine: &Machine, link: &PortLink, path: &[PciFunction<'_>], nic: &PciFunction<'_>) -> Check {
    let with_evidence = |check: Check, function: &PciFunction<'_>| {
        let files = ["current_link_width", "current_link_speed", "max_link_width", "max_link_speed"];
        files.iter().fold(check, |check, name| check.file(machine, &function.file(name)))
    };
    let (Some(now), Some(most), Some((limiting, least))) = (nic.current_rate(), nic.max_rate(), narrowest(path)) else {
        let summary = "the PCIe link is not reported (usual in a virtual machine)";
        return with_evidence(Check::new(CheckKind::Pcie, State::Unknown, summary), nic);
    };
    let port = link.netdev_file("speed").and_then(|file| machine.number::<f64>(&file)).filter(|speed| *speed > 0.0);
    let carried = least.bits_per_sec();
    let for_port = port.map_or(0.0, |megabits| megabits * 1e6 * PCIE_HEADROOM);
    let limit = most.bits_per_sec().max(for_port);
    let gigabits = carried / 1e9;
    let (state, enough) = if carried < for_port {
        (State::Fail, "too little for the port")
    } else if carried < most.bits_per_sec() {
        (State::Warn, "enough for one direction of the port")
    } else {
        let summary = format!("{now} ({gigabits:.0} Gbit/s), all that the NIC can");
        let check = Check::new(CheckKind::Pcie, State::Pass, summary).measured(Gauge::PcieCarries, carried, limit);
        return with_evidence(check, nic);
    };
    let could = format!("carries {gigabits:.0} Gbit/s, {enough}; the NIC could have {most}");
    if carried < now.bits_per_sec() {
        let address = limiting.address();
        let check = Check::new(CheckKind::Pcie, state, format!("{least} at {address}, above the NIC, {could}"))
            .measured(Gauge::PcieCarries, carried, limit)
            .repair(Repair::MoveAboveNic, &[("address", address)]);
        return with_evidence(with_evidence(check, nic), limiting);
    }
    let check = Check::new(CheckKind::Pcie, state, format!("{least} {could}"))
        .measured(Gauge::PcieCarries, carried, limit)
        .repair(Repair::MoveNic, &[]);
    with_evidence(check, nic)
}

fn errors(machine: &Machine, nic: &PciFunction<'_>) -> Check {
    let reading = PcieSource::new(machine, &nic.directory).read().unwrap_or_default();
    let totals: Vec<(&str, u64)> = ["correctable", "nonfatal", "fatal"]
        .into_iter()
        .filter_map(|kind| Some((kind, *reading.get(&format!("pci.aer_{kind}.total"))?)))
        .collect();
    let check = match &totals[..] {
        [] => Check::new(CheckKind::PcieErrors, State::Unknown, "PCIe errors are not reported (no AER)")
            .seen(format!("/{}", nic.file("aer_dev_correctable")), "not there"),
        totals if totals.iter().all(|(_, count)| *count == 0) => {
            Check::new(CheckKind::PcieErrors, State::Pass, "none since boot")
        }
        totals => {
            let list: Vec<String> =
                totals.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{count} {kind}")).collect();
            let summary =
                format!("{} since boot: packets are sent again, and the link may be marginal", list.join(", "));
            Check::new(CheckKind::PcieErrors, State::Warn, summary).repair(Repair::ReseatNic, &[])
        }
    };
    let gauges =
        [("correctable", Gauge::CorrectableErrors), ("nonfatal", Gauge::NonfatalErrors), ("fatal", Gauge::FatalErrors)];
    let measured = |check: Check, (kind, gauge): (&str, Gauge)| match totals.iter().find(|(other, _)| *other == kind) {
        Some((_, count)) => check.measured(gauge, *count as f64, 0.0),
        None => check,
    };
    let check = gauges.into_iter().fold(check, measured);
    let evidence = totals.iter().map(|(kind, count)| (nic.file(&format!("aer_dev_{kind}")), format!("total {count}")));
    evidence.fold(check, |check, (file, value)| check.seen(format!("/{file}"), value))
}

fn ordering(nic: &PciFunction<'_>) -> Check {
    let source = format!("/{} (Device Control, bit 4)", nic.file("config"));
    let address = nic.address();
    match nic.relaxed_ordering() {
        Some(true) => {
            let summary = "the device may; each MR has to ask for it too, as Kelpie's do unless its host has \
                           `tuning: {relaxed_ordering: false}`";
            Check::new(CheckKind::RelaxedOrdering, State::Pass, summary).seen(source, "1")
        }
        Some(false) => Check::new(
            CheckKind::RelaxedOrdering,
            State::Warn,
            "disabled: writes wait for each other on their way to memory",
        )
        .seen(source, "0")
        .repair(Repair::EnableOrdering, &[("address", address)]),
        None if nic.config_is_readable() => {
            Check::new(CheckKind::RelaxedOrdering, State::Unknown, "the device has no capability of PCI Express")
                .seen(source, "not there")
        }
        None => Check::new(CheckKind::RelaxedOrdering, State::Unknown, "the configuration space is not readable")
            .seen(source, "cannot be read")
            .repair(Repair::LookAsRoot, &[]),
    }
}

fn acs(bridges: &[PciFunction<'_>]) -> Check {
    let redirecting: Vec<&PciFunction<'_>> =
        bridges.iter().filter(|bridge| bridge.acs_redirects() == Some(true)).collect();
    let source = |bridge: &PciFunction<'_>| format!("/{} (ACS Control, bits 2 and 3)", bridge.file("config"));
    if let Some(first) = redirecting.first() {
        let summary = "the bridge sends requests between devices up to the root: the way to a GPU's memory is long";
        let check = Check::new(CheckKind::Acs, State::Warn, summary)
            .measured(Gauge::RedirectingBridges, redirecting.len() as f64, 0.0)
            .repair(Repair::DisableAcs, &[("address", first.address())]);
        return redirecting.iter().fold(check, |check, bridge| check.seen(source(bridge), "redirects"));
    }
    let unknown = bridges.iter().find(|bridge| bridge.acs_redirects().is_none());
    match (unknown, bridges.first()) {
        (Some(bridge), _) => {
            Check::new(CheckKind::Acs, State::Unknown, "the configuration space of a bridge is not readable")
                .seen(source(bridge), "cannot be read")
                .repair(Repair::LookAsRoot, &[])
        }
        (None, Some(bridge)) => Check::new(CheckKind::Acs, State::Pass, "no bridge above the NIC redirects")
            .measured(Gauge::RedirectingBridges, 0.0, 0.0)
            .seen(source(bridge), "does not redirect"),
        (None, None) => Check::new(CheckKind::Acs, State::Pass, "no bridge above the NIC")
            .seen("/sys/devices", "the NIC is at the root"),
    }
}

fn iommu(machine: &Machine, nic: &PciFunction<'_>) -> Check {
    let file = nic.file("iommu_group/type");
    match machine.text(&file).as_deref() {
        Some("identity") => {
            Check::new(CheckKind::Iommu, State::Pass, "passes the NIC's addresses through").file(machine, &file)
        }
        Some(kind) => {
            let summary = format!(
                "translates every address of the NIC ({kind}): misses of its cache look like misses of the NIC's"
            );
            let check = Check::new(CheckKind::Iommu, State::Warn, summary).file(machine, &file);
            check.file(machine, "proc/cmdline").repair(Repair::PassThrough, &[("option", passthrough(machine))])
        }
        None => Check::new(CheckKind::Iommu, State::Pass, "none, or off").seen(format!("/{file}"), "not there"),
    }
}

/// What the kernel calls an IOMMU that passes addresses through; arm64 has no `iommu=pt`.
///
/// Source: kernel `Documentation/admin-guide/kernel-parameters.txt` (`iommu`, `iommu.passthrough`).
fn passthrough(machine: &Machine) -> &'static str {
    let reported = machine.text("proc/sys/kernel/arch");
    match reported.as_deref().or(machine.is_live().then_some(std::env::consts::ARCH)) {
        Some("x86_64") => "iommu=pt",
        Some("aarch64") => "iommu.passthrough=1",
        _ => "iommu=pt (on arm64 iommu.passthrough=1)",
    }
}

/// Where the kernel lists NUMA nodes. Source: kernel `Documentation/ABI/stable/sysfs-devices-node`.
const NODES: &str = "sys/devices/system/node";

fn numa(machine: &Machine, nic: &PciFunction<'_>) -> Check {
    let is_node = |name: &String| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let nodes: Vec<String> = machine.names(NODES).into_iter().filter(is_node).collect();
    numa_among(&nodes, machine, nic).measured(Gauge::Nodes, nodes.len() as f64, None)
}

fn numa_among(nodes: &[String], machine: &Machine, nic: &PciFunction<'_>) -> Check {
    let file = nic.file("numa_node");
    let node = machine.number::<i64>(&file);
    if nodes.len() < 2 {
        return Check::new(CheckKind::Numa, State::NotApplicable, "one node")
            .seen(format!("/{NODES}"), nodes.join(" "));
    }
    let Some(node) = node.filter(|node| *node >= 0) else {
        let summary = format!(
            "the firmware does not report which of {} nodes the NIC is at: threads may run far from it",
            nodes.len()
        );
        let check = Check::new(CheckKind::Numa, State::Warn, summary).file(machine, &file);
        return check.repair(Repair::ReportNuma, &[]);
    };
    let distance = format!("{NODES}/node{node}/distance");
    let farthest = machine
        .text(&distance)
        .and_then(|text| text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()).max());
    let farthest = farthest
        .map_or_else(String::new, |farthest| format!(", the farthest node at distance {farthest} (near is 10)"));
    let summary = format!("the NIC is at node {node} of {}: `dram:{node}` is near{farthest}", nodes.len());
    Check::new(CheckKind::Numa, State::Pass, summary).file(machine, &file).file(machine, &distance)
}

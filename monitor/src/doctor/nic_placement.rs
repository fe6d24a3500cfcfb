//! The NIC's place in the host: PCIe link, errors, ordering, access control, IOMMU, NUMA node.

use super::errors::{allowed_errors, uptime};
use super::pcie_rate;
use crate::check::{Check, CheckState};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::{Machine, PciFunction, PortLink};
use crate::sources::{CounterSource, PcieSource};

pub fn checks(machine: &Machine, link: &PortLink) -> Vec<Check> {
    let path = link.pci(machine);
    let Some((nic, bridges)) = path.split_last() else {
        let check =
            Check::new(CheckKind::Pcie, CheckState::Unknown, "sysfs shows no PCIe device behind the RDMA device");
        return vec![check.seen(format!("/{}/device", link.device_directory()), "leads to no PCI function")];
    };
    let mut checks = vec![
        pcie_rate::check(machine, link, &path, nic),
        errors(machine, nic),
        ordering(machine, &path, nic),
        read_request(nic),
        acs(bridges),
    ];
    checks.extend([iommu(machine, nic), numa(machine, nic)]);
    checks
}

fn errors(machine: &Machine, nic: &PciFunction<'_>) -> Check {
    let reading = PcieSource::new(machine, &nic.directory).read().unwrap_or_default();
    let totals: Vec<(&str, u64)> = ["correctable", "nonfatal", "fatal"]
        .into_iter()
        .filter_map(|kind| Some((kind, *reading.get(&format!("pci.aer_{kind}.total"))?)))
        .collect();
    let allowed = allowed_errors(uptime(machine));
    let check = match &totals[..] {
        [] => Check::new(CheckKind::PcieErrors, CheckState::Unknown, "PCIe errors are not reported (no AER)")
            .seen(format!("/{}", nic.file("aer_dev_correctable")), "not there"),
        totals if totals.iter().all(|(_, count)| *count == 0) => {
            Check::new(CheckKind::PcieErrors, CheckState::Pass, "none since boot")
        }
        totals
            if totals.iter().all(|(kind, count)| *kind == "correctable" && *count as f64 <= allowed || *count == 0) =>
        {
            let count: u64 = totals.iter().map(|(_, count)| count).sum();
            let summary = format!("{count} correctable since boot, as a sound link may have");
            Check::new(CheckKind::PcieErrors, CheckState::Pass, summary)
        }
        totals => {
            let list: Vec<String> =
                totals.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{count} {kind}")).collect();
            let summary =
                format!("{} since boot: packets are sent again, and the link may be marginal", list.join(", "));
            Check::new(CheckKind::PcieErrors, CheckState::Warn, summary).repair(Repair::ReseatNic, &[])
        }
    };
    let gauges =
        [("correctable", Gauge::CorrectableErrors), ("nonfatal", Gauge::NonfatalErrors), ("fatal", Gauge::FatalErrors)];
    let measured = |check: Check, (kind, gauge): (&str, Gauge)| match totals.iter().find(|(other, _)| *other == kind) {
        Some((_, count)) => check.measured(gauge, *count as f64, if kind == "correctable" { allowed } else { 0.0 }),
        None => check,
    };
    let check = gauges.into_iter().fold(check, measured);
    let evidence = totals.iter().map(|(kind, count)| (nic.file(&format!("aer_dev_{kind}")), format!("total {count}")));
    evidence.fold(check, |check, (file, value)| check.seen(format!("/{file}"), value))
}

/// Root ports that relaxed ordering slows down or confuses, `(vendor, first device, last)`: Intel's of Haswell and
/// Broadwell servers, and the A1100 of AMD.
///
/// Source: kernel `drivers/pci/quirks.c` (`quirk_relaxedordering_disable`) and `drivers/pci/probe.c`
/// (`pci_configure_relaxed_ordering`), which turns the bit off below them.
const NO_ORDERING: [(u16, u16, u16); 3] =
    [(0x8086, 0x6f01, 0x6f0e), (0x8086, 0x2f01, 0x2f0e), (0x1022, 0x1a00, 0x1a02)];

fn is_broken(root: &PciFunction<'_>) -> bool {
    let is_of = |(vendor, device): (u16, u16)| {
        NO_ORDERING.iter().any(|(of, first, last)| vendor == *of && (*first..=*last).contains(&device))
    };
    root.ids().is_some_and(is_of)
}

fn ordering(machine: &Machine, path: &[PciFunction<'_>], nic: &PciFunction<'_>) -> Check {
    let source = format!("/{} (Device Control, bit 4)", nic.file("config"));
    let address = nic.address();
    let broken = path.first().filter(|root| root.address() != address && is_broken(root));
    let with_root = |check: Check| match broken {
        Some(root) => check.file(machine, &root.file("vendor")).file(machine, &root.file("device")),
        None => check,
    };
    match (nic.relaxed_ordering(), broken) {
        (Some(true), Some(root)) => {
            let summary = format!(
                "the device may, but its root port {} is one that the kernel lists as broken for it",
                root.address()
            );
            with_root(Check::new(CheckKind::RelaxedOrdering, CheckState::Warn, summary).seen(source, "1"))
                .repair(Repair::DisableOrdering, &[("address", address)])
        }
        (Some(false), Some(root)) => {
            let summary = format!(
                "disabled, and has to be: the kernel lists the root port {} as broken for it, so let it be",
                root.address()
            );
            with_root(Check::new(CheckKind::RelaxedOrdering, CheckState::Pass, summary).seen(source, "0"))
        }
        (Some(true), None) => {
            let summary = "the device may; each MR has to ask for it too, as Kelpie's do unless its host has \
                           `tuning: {relaxed_ordering: false}`";
            Check::new(CheckKind::RelaxedOrdering, CheckState::Pass, summary).seen(source, "1")
        }
        (Some(false), None) => Check::new(
            CheckKind::RelaxedOrdering,
            CheckState::Warn,
            "disabled: writes wait for each other on their way to memory",
        )
        .seen(source, "0")
        .repair(Repair::EnableOrdering, &[("address", address)]),
        (None, _) if nic.config_is_readable() => {
            Check::new(CheckKind::RelaxedOrdering, CheckState::Unknown, "the device has no capability of PCI Express")
                .seen(source, "not there")
        }
        (None, _) => {
            Check::new(CheckKind::RelaxedOrdering, CheckState::Unknown, "the configuration space is not readable")
                .seen(source, "cannot be read")
                .repair(Repair::LookAsRoot, &[])
        }
    }
}

/// Smallest read request that does not hold a NIC back. Units: bytes. Source: kernel `include/linux/pci.h`: 512 is what
/// devices start with; with a smaller one a NIC has too little under way for its tags.
const READ_REQUEST: u32 = 512;

fn read_request(nic: &PciFunction<'_>) -> Check {
    let source = format!("/{} (Device Control, bits 12 to 14)", nic.file("config"));
    let Some(bytes) = nic.read_request() else {
        let (summary, value) = if nic.config_is_readable() {
            ("the device has no capability of PCI Express", "not there")
        } else {
            ("the configuration space is not readable", "cannot be read")
        };
        let check = Check::new(CheckKind::ReadRequest, CheckState::Unknown, summary).seen(source, value);
        return if nic.config_is_readable() { check } else { check.repair(Repair::LookAsRoot, &[]) };
    };
    let (state, summary) = if bytes < READ_REQUEST {
        (CheckState::Warn, format!("only {bytes} bytes at once: what the NIC sends is read in small pieces"))
    } else {
        (CheckState::Pass, format!("up to {bytes} bytes at once"))
    };
    let check = Check::new(CheckKind::ReadRequest, state, summary)
        .measured(Gauge::ReadBytes, f64::from(bytes), f64::from(READ_REQUEST))
        .seen(source, format!("{bytes} bytes"));
    if state == CheckState::Pass {
        check
    } else {
        check.repair(Repair::RaiseReadRequest, &[("address", nic.address())])
    }
}

fn acs(bridges: &[PciFunction<'_>]) -> Check {
    let redirecting: Vec<&PciFunction<'_>> =
        bridges.iter().filter(|bridge| bridge.acs_redirects() == Some(true)).collect();
    let source = |bridge: &PciFunction<'_>| format!("/{} (ACS Control, bits 2 and 3)", bridge.file("config"));
    if let Some(first) = redirecting.first() {
        let more = redirecting.len() - 1;
        let others = if more == 0 { String::new() } else { format!(" and {more} more") };
        let summary = format!(
            "the bridge {}{others} sends requests between devices up to the root: the way to a GPU's memory is long",
            first.address()
        );
        let check = Check::new(CheckKind::Acs, CheckState::Warn, summary).measured(
            Gauge::RedirectingBridges,
            redirecting.len() as f64,
            0.0,
        );
        let repaired = |check: Check, bridge: &&PciFunction<'_>| {
            check.repair(Repair::DisableAcs, &[("address", bridge.address())])
        };
        let check = redirecting.iter().fold(check, repaired);
        return redirecting.iter().fold(check, |check, bridge| check.seen(source(bridge), "redirects"));
    }
    let unknown = bridges.iter().find(|bridge| bridge.acs_redirects().is_none());
    match (unknown, bridges.first()) {
        (Some(bridge), _) => {
            Check::new(CheckKind::Acs, CheckState::Unknown, "the configuration space of a bridge is not readable")
                .seen(source(bridge), "cannot be read")
                .repair(Repair::LookAsRoot, &[])
        }
        (None, Some(bridge)) => Check::new(CheckKind::Acs, CheckState::Pass, "no bridge above the NIC redirects")
            .measured(Gauge::RedirectingBridges, 0.0, 0.0)
            .seen(source(bridge), "does not redirect"),
        (None, None) => Check::new(CheckKind::Acs, CheckState::Pass, "no bridge above the NIC")
            .seen("/sys/devices", "the NIC is at the root"),
    }
}

fn iommu(machine: &Machine, nic: &PciFunction<'_>) -> Check {
    let file = nic.file("iommu_group/type");
    match machine.text(&file).as_deref() {
        Some("identity") => {
            Check::new(CheckKind::Iommu, CheckState::Pass, "passes the NIC's addresses through").file(machine, &file)
        }
        Some(kind) => {
            let summary = format!(
                "translates every address of the NIC ({kind}): misses of its cache look like misses of the NIC's"
            );
            let check = Check::new(CheckKind::Iommu, CheckState::Warn, summary).file(machine, &file);
            check.file(machine, "proc/cmdline").repair(Repair::PassThrough, &[("option", passthrough(machine))])
        }
        None => Check::new(CheckKind::Iommu, CheckState::Pass, "none, or off").seen(format!("/{file}"), "not there"),
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
        return Check::new(CheckKind::Numa, CheckState::NotApplicable, "one node")
            .seen(format!("/{NODES}"), nodes.join(" "));
    }
    let Some(node) = node.filter(|node| *node >= 0) else {
        let summary = format!(
            "the firmware does not report which of {} nodes the NIC is at: threads may run far from it",
            nodes.len()
        );
        let check = Check::new(CheckKind::Numa, CheckState::Warn, summary).file(machine, &file);
        return check.repair(Repair::ReportNuma, &[]);
    };
    let distance = format!("{NODES}/node{node}/distance");
    let farthest = machine
        .text(&distance)
        .and_then(|text| text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()).max());
    let farthest = farthest
        .map_or_else(String::new, |farthest| format!(", the farthest node at distance {farthest} (near is 10)"));
    let summary = format!("the NIC is at node {node} of {}: `dram:{node}` is near{farthest}", nodes.len());
    Check::new(CheckKind::Numa, CheckState::Pass, summary).file(machine, &file).file(machine, &distance)
}

//! The inside of a host as its files say it: PCIe tree, sockets, NUMA, GPUs, RNICs, and the settings that bear on them.
//!
//! Source of the files: kernel `Documentation/ABI/testing/sysfs-bus-pci`, `.../stable/sysfs-devices-node`,
//! `.../testing/sysfs-devices-edac`, `.../testing/sysfs-class-iommu`.

use std::collections::BTreeMap;

use kelpie_monitor::check::{Check, CheckState};
use kelpie_monitor::checks::{CheckKind, Gauge, Repair};
use kelpie_monitor::machine::{Machine, PciFunction, PcieRate, pci_path, rdma_devices};
use kelpie_topology::HostTopology;
use kelpie_topology::host::{HostLink, Node, NodeKind};

use crate::host::CandidateCause;

mod names;

use names::Accelerator;

/// What was found.
#[derive(Debug)]
pub struct Discovered {
    /// The host.
    pub topology: HostTopology,
    /// Readings that bear on its links.
    pub readings: Vec<Check>,
    /// What its devices are, a line each.
    pub devices: Vec<String>,
}

/// Reads the inside of a host. What is not there is left out.
///
/// # Errors
/// If the host has no RDMA device on PCI, or more devices than a topology holds.
pub fn discover(machine: &Machine) -> Result<Discovered, String> {
    let mut building = Building { machine, nodes: Vec::new(), links: Vec::new(), readings: Vec::new() };
    let homes = building.sockets();
    let mut devices = building.rnics();
    let others = building.nics_without_rdma(&devices);
    if devices.is_empty() {
        let others = if others.is_empty() { String::new() } else { format!("; NICs without: {}", others.join("; ")) };
        return Err(format!("no RDMA device on PCI: sys/class/infiniband has none with a PCI function{others}"));
    }
    devices.extend(building.others());
    let mut said: Vec<String> = devices.iter().filter_map(Building::said).collect();
    if devices.iter().any(|(_, kind, _)| *kind == NodeKind::Gpu) {
        said.push(NUMBERS.to_owned());
    }
    said.extend(others);
    let mut cards: BTreeMap<String, usize> = BTreeMap::new();
    for (_, _, path) in &devices {
        *cards.entry(path.last().map_or("", |function| function.card()).to_owned()).or_default() += 1;
    }
    for (name, kind, path) in &devices {
        let shares = path.last().is_some_and(|function| cards[function.card()] > 1);
        building.device(name, *kind, path, &homes, shares);
    }
    building.settings(&devices);
    let Building { nodes, links, readings, .. } = building;
    let topology = HostTopology::new(nodes, links).map_err(|broken| {
        let said: Vec<String> = broken.iter().map(|(path, rule)| format!("{path}: {rule}")).collect();
        said.join("; ")
    })?;
    Ok(Discovered { topology, readings, devices: said })
}

/// Source: NVIDIA, "CUDA C++ Programming Guide", environment variables: `FASTEST_FIRST` is the default.
const NUMBERS: &str = "gpuN counts PCI addresses. CUDA counts so with CUDA_DEVICE_ORDER=PCI_BUS_ID alone: by default \
    its device 0 is the fastest one. Start the agent with that variable if the GPUs differ";

/// Fills in what readings of causes say on a machine, where their function's address is known.
pub fn fill_in(causes: &mut [CandidateCause], machine: &Machine) {
    for reading in causes.iter_mut().flat_map(|cause| &mut cause.readings) {
        let Some(address) = &reading.pci else { continue };
        let Some(function) = function(machine, address) else { continue };
        let on = |on: bool| if on { "on" } else { "off" }.to_owned();
        reading.seen = match reading.what.split(' ').next() {
            Some("LnkSta") => function.current_rate().map(|now| {
                let most = function.max_rate().map_or_else(|| "not known".to_owned(), |most| most.to_string());
                format!("{now}; at most {most}")
            }),
            Some("AER") => function.text("aer_dev_correctable").and_then(|text| {
                let total = text.lines().find(|line| line.starts_with("TOTAL"))?.to_owned();
                Some(total)
            }),
            Some("ACSCtl") => function.acs_redirects().map(on),
            Some("ATSCtl") => function.ats_enabled().map(on),
            _ => None,
        };
    }
}

/// The function of an address: by the bus, else on the way to an RNIC.
fn function<'m>(machine: &'m Machine, address: &str) -> Option<PciFunction<'m>> {
    let by_bus = pci_path(machine, &format!("sys/bus/pci/devices/{address}")).pop();
    by_bus.or_else(|| {
        let ways = rdma_devices(machine).into_iter();
        let mut functions = ways.flat_map(|name| pci_path(machine, &format!("sys/class/infiniband/{name}/device")));
        functions.find(|function| function.address() == address)
    })
}

/// A device: its name, its kind, and the functions from the root port to it.
type PciDevice<'m> = (String, NodeKind, Vec<PciFunction<'m>>);

struct Building<'m> {
    machine: &'m Machine,
    nodes: Vec<Node>,
    links: Vec<HostLink>,
    readings: Vec<Check>,
}

impl<'m> Building<'m> {
    fn add(&mut self, name: &str, kind: NodeKind, pci: Option<&str>) -> usize {
        self.nodes.push(Node { name: name.to_owned(), kind, pci: pci.map(str::to_owned), port_gbps: None });
        self.nodes.len() - 1
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    fn join(&mut self, a: usize, b: usize, gbps: Option<f64>) {
        self.links.push(HostLink { a, b, gbps, ..HostLink::default() });
    }

    /// The rate of an RNIC's fastest port that is up. Units: Gbit/s.
    fn port_gbps(&self, rnic: &str) -> Option<f64> {
        let directory = format!("sys/class/infiniband/{rnic}/ports");
        let rate = |port: &String| -> Option<f64> {
            let state = self.machine.text(&format!("{directory}/{port}/state"))?;
            let rate = self.machine.text(&format!("{directory}/{port}/rate"))?;
            rate.split(' ').next()?.parse().ok().filter(|_| state.contains("ACTIVE"))
        };
        let rates = self.machine.names(&directory).iter().filter_map(rate).collect::<Vec<f64>>();
        rates.into_iter().filter(|gbps| gbps.is_finite() && *gbps > 0.0).max_by(f64::total_cmp)
    }

    /// Sockets, their NUMA nodes where there are several, and memory. Returns where a device of a NUMA node hangs.
    fn sockets(&mut self) -> BTreeMap<i64, usize> {
        let machine = self.machine;
        let number = |name: &String| name.strip_prefix("node").and_then(|number| number.parse::<i64>().ok());
        let mut numa: Vec<i64> = machine.names("sys/devices/system/node").iter().filter_map(number).collect();
        numa.sort_unstable();
        let package = |node: i64| -> i64 {
            let first = machine.text(&format!("sys/devices/system/node/node{node}/cpulist"));
            let first = first.and_then(|list| list.split(['-', ',']).next().map(str::to_owned));
            let id =
                |cpu: String| machine.number(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"));
            first.filter(|cpu| !cpu.is_empty()).and_then(id).unwrap_or(0)
        };
        let mut packages: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for &node in &numa {
            packages.entry(package(node)).or_default().push(node);
        }
        if packages.is_empty() {
            packages.insert(0, vec![0]);
        }
        let mut homes = BTreeMap::new();
        let mut sockets = Vec::new();
        for (package, nodes) in packages {
            let socket = self.add(&format!("cpu{package}"), NodeKind::Socket, None);
            for &node in &nodes {
                let home = if nodes.len() > 1 {
                    let home = self.add(&format!("numa{node}"), NodeKind::NumaNode, None);
                    self.join(home, socket, None);
                    home
                } else {
                    socket
                };
                let memory = self.add(&format!("mem{node}"), NodeKind::Memory, None);
                self.join(memory, home, None);
                homes.insert(node, home);
            }
            for other in &sockets {
                self.join(*other, socket, None);
            }
            sockets.push(socket);
        }
        homes
    }

    fn rnics(&self) -> Vec<PciDevice<'m>> {
        let path = |name: &String| pci_path(self.machine, &format!("sys/class/infiniband/{name}/device"));
        let all = rdma_devices(self.machine).into_iter().map(|name| (path(&name), name));
        all.filter(|(path, _)| !path.is_empty()).map(|(path, name)| (name, NodeKind::Rnic, path)).collect()
    }

    /// GPUs and drives.
    fn others(&self) -> Vec<PciDevice<'m>> {
        let (mut gpus, mut drives) = (Vec::new(), Vec::new());
        for address in self.machine.names("sys/bus/pci/devices") {
            let directory = format!("sys/bus/pci/devices/{address}");
            let read = |name: &str| self.machine.text(&format!("{directory}/{name}")).unwrap_or_default();
            let (class, vendor) = (read("class"), read("vendor"));
            let path = pci_path(self.machine, &directory);
            let is_integrated = path.last().is_some_and(|function| self.is_integrated(function, path.len(), &vendor));
            let is_gpu = names::accelerator(&class, &vendor, is_integrated) == Some(Accelerator::Real);
            if is_gpu && !path.is_empty() {
                gpus.push((format!("gpu{}", gpus.len()), NodeKind::Gpu, path));
            } else if class.starts_with("0x0108") && !path.is_empty() {
                // Source: PCI Code and ID Assignment Specification: NVM Express is 0108.
                drives.push((format!("nvme{}", drives.len()), NodeKind::Nvme, path));
            }
        }
        gpus.into_iter().chain(drives).collect()
    }

    /// Whether a display is the processor's own: Intel's is device 02 of the root bus, and beside AMD's is the
    /// processor's security coprocessor, of class 1080, as another function of the same device.
    fn is_integrated(&self, display: &PciFunction<'m>, depth: usize, vendor: &str) -> bool {
        match vendor {
            "0x8086" => depth == 1 && display.address().ends_with(":00:02.0"),
            "0x1002" => (1..8).any(|function| {
                let beside = format!("sys/bus/pci/devices/{}.{function}/class", display.card());
                self.machine.text(&beside).is_some_and(|class| class.starts_with("0x1080"))
            }),
            _ => false,
        }
    }

    /// What a device is, in words.
    fn said((name, kind, path): &PciDevice<'m>) -> Option<String> {
        let function = path.last()?;
        let read = |file: &str| function.text(file).unwrap_or_default();
        let (vendor, device, class) = (read("vendor"), read("device"), read("class"));
        let maker = names::vendor(&vendor).map_or_else(|| format!("vendor {vendor}"), str::to_owned);
        let what = match kind {
            NodeKind::Rnic => names::nic(&vendor, &device).map_or_else(|| format!("{maker} NIC"), str::to_owned),
            NodeKind::Gpu => format!("{maker}, class {}", class.get(..6).unwrap_or(&class)),
            _ => return None,
        };
        Some(format!("{name}: {}: {what}", function.address()))
    }

    /// NICs on PCI that no RDMA device belongs to, in words.
    fn nics_without_rdma(&self, rnics: &[PciDevice<'m>]) -> Vec<String> {
        let is_rnic = |address: &str| {
            rnics.iter().any(|(_, _, path)| path.last().is_some_and(|function| function.address() == address))
        };
        let all = self.machine.names("sys/bus/pci/devices").into_iter().filter(|address| !is_rnic(address));
        all.filter_map(|address| {
            let read = |name: &str| self.machine.text(&format!("sys/bus/pci/devices/{address}/{name}"));
            let (class, vendor) = (read("class")?, read("vendor")?);
            // Source: PCI Code and ID Assignment Specification: network controllers are 02.
            let device = read("device").unwrap_or_default();
            let what = names::nic(&vendor, &device)
                .or_else(|| names::vendor(&vendor))
                .filter(|_| class.starts_with("0x02"))?;
            Some(format!("{address}: {what}: no RDMA device"))
        })
        .collect()
    }

    /// Adds a device with the switches on its way. A switch is its upstream port; the ports below belong to it.
    fn device(
        &mut self,
        name: &str,
        kind: NodeKind,
        path: &[PciFunction<'m>],
        homes: &BTreeMap<i64, usize>,
        shares: bool,
    ) {
        let Some((device, above)) = path.split_last() else { return };
        let numa = device.text("numa_node").and_then(|node| node.parse::<i64>().ok()).filter(|node| *node >= 0);
        let home = numa.and_then(|node| homes.get(&node)).or_else(|| homes.values().next());
        let mut at = *home.expect("there is one socket at least");
        for pair in above.windows(2).step_by(2) {
            let [parent, port] = pair else { continue };
            let switch = format!("psw:{}", port.address());
            at = self.find(&switch).unwrap_or_else(|| {
                let node = self.add(&switch, NodeKind::PcieSwitch, Some(port.address()));
                self.link_of(port, Some(parent), node, at);
                node
            });
        }
        if shares {
            // The functions of a card share its link, as they would a switch's.
            let card = format!("card:{}", device.card());
            at = self.find(&card).unwrap_or_else(|| {
                let node = self.add(&card, NodeKind::PcieSwitch, Some(device.address()));
                self.link_of(device, above.last(), node, at);
                node
            });
        }
        let node = self.add(name, kind, Some(device.address()));
        if kind == NodeKind::Rnic {
            self.nodes[node].port_gbps = self.port_gbps(name);
        }
        if shares {
            self.join(node, at, None);
        } else {
            self.link_of(device, above.last(), node, at);
        }
    }

    /// Adds the link above a function, and says if it is below what the function and the port above it can do. A GPU
    /// slows its link down while it is idle, so of its speed nothing is said.
    fn link_of(&mut self, function: &PciFunction<'_>, parent: Option<&PciFunction<'_>>, a: usize, b: usize) {
        let now = function.current_rate();
        let most = function.max_rate().map(|own| {
            let above = parent.and_then(PciFunction::max_rate).unwrap_or(own);
            PcieRate { width: own.width.min(above.width), gt_per_sec: own.gt_per_sec.min(above.gt_per_sec) }
        });
        let is_gpu = self.nodes[a].kind == NodeKind::Gpu;
        let loaded = match (now, most) {
            (Some(now), Some(most)) if is_gpu => {
                Some(PcieRate { gt_per_sec: most.gt_per_sec.max(now.gt_per_sec), ..now })
            }
            (now, _) => now,
        };
        let gbps = |rate: PcieRate| Some((rate.bits_per_sec() / 1e8).round() / 10.0).filter(|gbps| *gbps > 0.0);
        let mut link = HostLink { a, b, gbps: loaded.and_then(gbps), ..HostLink::default() };
        let below = loaded.zip(most).filter(|(now, most)| now.bits_per_sec() < most.bits_per_sec());
        if let Some((now, most)) = below {
            link.able_gbps = gbps(most);
            link.lanes = (now.width < most.width).then_some([now.width, most.width]);
            link.gt_per_sec = (now.gt_per_sec < most.gt_per_sec).then_some([now.gt_per_sec, most.gt_per_sec]);
        }
        self.links.push(link);
        let name = format!("{}|{}", self.nodes[a].name, self.nodes[b].name);
        let check = match (now, below) {
            (Some(now), Some((_, most))) => {
                let check = Check::new(CheckKind::PcieLink, CheckState::Warn, format!("{now}, but it could be {most}"));
                check.repair(Repair::ReseatCard, &[])
            }
            (Some(now), None) => {
                let idle = if loaded == Some(now) { "" } else { "; a GPU slows its link down while it is idle" };
                Check::new(CheckKind::PcieLink, CheckState::Pass, format!("{now}{idle}"))
            }
            (None, _) => Check::new(CheckKind::PcieLink, CheckState::Unknown, "width and speed cannot be read"),
        };
        let carried = now.into_iter().fold(check, |check, now| {
            check.measured(Gauge::LinkCarries, now.bits_per_sec(), most.map(PcieRate::bits_per_sec))
        });
        let check = carried.about(name).file(self.machine, &function.file("current_link_width"));
        self.readings.push(check.file(self.machine, &function.file("current_link_speed")));
    }

    /// ACS of ports between peers, ATS of devices, the IOMMU, whether this is a virtual machine, DIMMs.
    fn settings(&mut self, devices: &[PciDevice<'m>]) {
        let machine = self.machine;
        let cpu = machine.text("proc/cpuinfo").unwrap_or_default();
        let flags = cpu.lines().find(|line| line.starts_with("flags"));
        let is_virtual = flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
        let words = if is_virtual { "a virtual machine" } else { "no virtual machine" };
        let state = if flags.is_some() { CheckState::Pass } else { CheckState::Unknown };
        let words = if flags.is_some() { words } else { "not known whether this is a virtual machine" };
        self.readings.push(Check::new(CheckKind::Virtualisation, state, words).about("host"));
        let units = machine.names("sys/class/iommu");
        let kind = machine.text("sys/kernel/iommu_groups/0/type").unwrap_or_else(|| "not known".to_owned());
        let iommu =
            if units.is_empty() { "no IOMMU".to_owned() } else { format!("IOMMU in use, domains of type {kind}") };
        self.readings.push(Check::new(CheckKind::InsideIommu, CheckState::Pass, iommu).about("host"));
        let mut seen = std::collections::BTreeSet::new();
        for (name, kind, path) in devices {
            for port in path.iter().skip(2).step_by(2).take(path.len().saturating_sub(3).div_ceil(2)) {
                if seen.insert(port.address().to_owned()) {
                    self.readings.push(acs(port, is_virtual).about(port.address()));
                }
            }
            if matches!(kind, NodeKind::Rnic | NodeKind::Gpu)
                && let Some(device) = path.last()
            {
                self.readings.push(ats(device, is_virtual).about(name));
            }
        }
        self.dimms();
    }

    fn dimms(&mut self) {
        let mut sizes = Vec::new();
        for controller in self.machine.names("sys/devices/system/edac/mc") {
            let directory = format!("sys/devices/system/edac/mc/{controller}");
            for dimm in self.machine.names(&directory).iter().filter(|name| name.starts_with("dimm")) {
                sizes.extend(self.machine.number::<u64>(&format!("{directory}/{dimm}/size")).filter(|size| *size > 0));
            }
        }
        let check = if sizes.is_empty() {
            Check::new(CheckKind::Dimms, CheckState::Unknown, "the kernel's EDAC driver shows no DIMM")
        } else {
            let mebibytes = sizes.iter().sum::<u64>();
            Check::new(CheckKind::Dimms, CheckState::Pass, format!("{} DIMMs, {mebibytes} MiB", sizes.len()))
                .measured(Gauge::DimmCount, sizes.len() as f64, None)
                .measured(Gauge::DimmMemory, mebibytes as f64, None)
        };
        self.readings.push(check.about("host"));
    }
}

/// Redirection of requests between peers is needed between virtual machines and slows GPUs on a bare host.
fn acs(port: &PciFunction<'_>, is_virtual: bool) -> Check {
    match port.acs_redirects() {
        Some(true) if !is_virtual => {
            Check::new(CheckKind::InsideAcs, CheckState::Warn, "ACS sends traffic between peers through the root")
                .repair(Repair::TurnAcsOff, &[("address", port.address())])
        }
        Some(true) => Check::new(CheckKind::InsideAcs, CheckState::Pass, "ACS redirects, as virtual machines need it"),
        Some(false) => Check::new(CheckKind::InsideAcs, CheckState::Pass, "peers reach each other without the root"),
        None => Check::new(CheckKind::InsideAcs, CheckState::Unknown, "the configuration space is for root alone"),
    }
}

fn ats(device: &PciFunction<'_>, is_virtual: bool) -> Check {
    match device.ats_enabled() {
        Some(false) if is_virtual => {
            Check::new(CheckKind::Ats, CheckState::Warn, "ATS is off, and a virtual machine needs it")
                .repair(Repair::TurnAtsOn, &[])
        }
        Some(on) => Check::new(CheckKind::Ats, CheckState::Pass, if on { "ATS is on" } else { "ATS is off" }),
        None => Check::new(CheckKind::Ats, CheckState::Unknown, "the configuration space is for root alone"),
    }
}

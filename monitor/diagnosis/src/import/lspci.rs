//! What `lspci -vvv` prints: the PCI tree by the buses behind its bridges, and links by `LnkCap` and `LnkSta`.
//!
//! Source: lspci(8) of pciutils, and what it prints.

use std::collections::BTreeMap;

use kelpie_topology::host::{HostLink, NodeKind};

use super::building::{Host, Imported, MOST, address, gbps};

/// Deepest tree. Source: our choice, as PCI has 256 buses.
const DEPTH: usize = 32;

/// A function as its paragraph says it.
#[derive(Debug, Default, Clone)]
struct Function {
    address: String,
    what: String,
    numa: u32,
    /// Buses behind a bridge, both included.
    buses: Option<[u32; 2]>,
    /// Whether it is a switch's upstream port.
    is_upstream: bool,
    /// Lanes and GT/s, as they are and as they could be.
    now: Option<(u32, f64)>,
    most: Option<(u32, f64)>,
}

/// Whether a text looks like it: its first line begins with a PCI address and a class.
pub fn is_like(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    first
        .split_once(' ')
        .is_some_and(|(begin, rest)| begin.contains('.') && address(begin).is_some() && rest.contains(':'))
}

/// NICs that have RDMA: all of InfiniBand, and Ethernet of these.
const WITH_RDMA: [&str; 8] = ["Mellanox", "NetXtreme-E", "E810", "E82", "Pensando", "Elastic Fabric", "HNS", "Chelsio"];
/// Displays of management controllers and hypervisors.
const DISPLAYS: [&str; 8] = ["ASPEED", "Matrox", "Silicon Motion", "XGI", "Virtio", "QXL", "VMware", "Hyper-V"];

fn kind(what: &str, address: &str) -> Option<NodeKind> {
    let (class, name) = what.split_once(": ")?;
    let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
    // Source: the PCI ID repository's names of classes.
    if class.starts_with("Infiniband controller") || class.starts_with("Ethernet controller") && is(&WITH_RDMA) {
        return Some(NodeKind::Rnic);
    }
    let is_integrated = name.contains("Intel") && address.ends_with(":00:02.0");
    let is_vga = class.starts_with("VGA compatible controller");
    let is_display = class.starts_with("3D controller") || class.starts_with("Display controller");
    let is_gpu = class.starts_with("Processing accelerators")
        || is_display && !is(&DISPLAYS) && !is_integrated
        || is_vga && is(&["NVIDIA", "AMD", "Advanced Micro Devices", "Intel"]) && !is_integrated;
    if is_gpu {
        return Some(NodeKind::Gpu);
    }
    class.starts_with("Non-Volatile memory controller").then_some(NodeKind::Nvme)
}

/// `Speed 16GT/s (ok), Width x4 (downgraded)`.
fn rate(text: &str) -> Option<(u32, f64)> {
    let speed = text.split("Speed ").nth(1)?.split("GT/s").next()?.parse().ok()?;
    let width = text.split("Width x").nth(1)?;
    let digits = width.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(width.len());
    let lanes = width[..digits].parse().ok().filter(|lanes| (1..=64).contains(lanes))?;
    Some((lanes, speed)).filter(|(_, speed)| (0.1..=1024.0).contains(speed))
}

fn functions(text: &str) -> Result<Vec<Function>, String> {
    let mut all: Vec<Function> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        if !line.starts_with([' ', '\t']) {
            let (begin, what) = line.split_once(' ').unwrap_or((line, ""));
            let address = address(begin).ok_or_else(|| format!("line {}: no PCI address", index + 1))?;
            if all.len() >= 16 * MOST {
                return Err(format!("more than {} functions", 16 * MOST));
            }
            all.push(Function { address, what: what.to_owned(), ..Function::default() });
            continue;
        }
        let Some(function) = all.last_mut() else { continue };
        let line = line.trim();
        let after = |key: &str| line.strip_prefix(key).map(str::trim);
        if let Some(rest) = after("LnkCap:") {
            function.most = rate(rest);
        } else if let Some(rest) = after("LnkSta:") {
            function.now = rate(rest);
        } else if let Some(rest) = after("NUMA node:") {
            function.numa = rest.parse().unwrap_or(0);
        } else if let Some(rest) = after("Bus:") {
            let bus = |key: &str| {
                let text = rest.split(key).nth(1)?;
                u32::from_str_radix(text.split([',', ' ']).next()?, 16).ok()
            };
            function.buses = bus("secondary=").zip(bus("subordinate=")).map(|(first, last)| [first, last]);
        } else if line.starts_with("Capabilities:") && line.contains("Express") {
            function.is_upstream |= line.contains("Upstream Port");
        }
    }
    Ok(all)
}

/// Domain and bus of an address.
fn bus(address: &str) -> Option<(&str, u32)> {
    let mut parts = address.split(':');
    let (domain, bus) = (parts.next()?, parts.next()?);
    Some((domain, u32::from_str_radix(bus, 16).ok()?))
}

/// Reads it.
pub fn read(text: &str) -> Result<Imported, String> {
    let all = functions(text)?;
    let mut above: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    for (index, function) in all.iter().enumerate() {
        if let (Some((domain, _)), Some([first, _])) = (bus(&function.address), function.buses) {
            above.insert((domain, first), index);
        }
    }
    let parent = |function: &Function| bus(&function.address).and_then(|bus| above.get(&bus)).copied();
    let mut host = Host::default();
    let mut switches: BTreeMap<usize, usize> = BTreeMap::new();
    let mut counts: BTreeMap<NodeKind, usize> = BTreeMap::new();
    for (index, function) in all.iter().enumerate() {
        let Some(kind) = kind(&function.what, &function.address) else { continue };
        let mut way = vec![index];
        while let Some(next) = parent(&all[way[way.len() - 1]]) {
            if way.len() >= DEPTH || way.contains(&next) {
                return Err(format!("{}: bridges in a circle, or more than {DEPTH} deep", function.address));
            }
            way.push(next);
        }
        let mut at = host.home(function.numa)?;
        for &port in way[1..].iter().rev().filter(|port| all[**port].is_upstream) {
            at = if let Some(node) = switches.get(&port) {
                *node
            } else {
                let own = &all[port];
                let node = host.add(format!("psw:{}", own.address), NodeKind::PcieSwitch, Some(own.address.clone()))?;
                join(&mut host, [node, at], own, parent(own).map(|parent| &all[parent]), false);
                switches.insert(port, node);
                node
            };
        }
        let count = counts.entry(kind).or_default();
        let name = match kind {
            NodeKind::Rnic => format!("rnic{count}"),
            NodeKind::Gpu => format!("gpu{count}"),
            _ => format!("nvme{count}"),
        };
        *count += 1;
        let node = host.add(name, kind, Some(function.address.clone()))?;
        join(&mut host, [node, at], function, parent(function).map(|parent| &all[parent]), kind == NodeKind::Gpu);
    }
    let mut notes = vec![
        "rnicN counts PCI addresses, because lspci has no names of RDMA devices: rename them as `rdma link` has them"
            .to_owned(),
        "a NUMA node is taken for a socket, because lspci does not print which node is of which socket".to_owned(),
    ];
    if !all.iter().any(|function| function.now.is_some()) {
        notes.push("no LnkSta in it: run lspci -vvv as root".to_owned());
    }
    if counts.contains_key(&NodeKind::Gpu) {
        notes.push("gpuN counts PCI addresses, which CUDA does with CUDA_DEVICE_ORDER=PCI_BUS_ID alone".to_owned());
    }
    host.done(notes)
}

/// The link above a function. A GPU slows its link down while it is idle, so of its speed nothing is said.
fn join(host: &mut Host, [a, b]: [usize; 2], own: &Function, parent: Option<&Function>, is_gpu: bool) {
    let above = parent.and_then(|parent| parent.most);
    let most =
        own.most.map(|(lanes, speed)| above.map_or((lanes, speed), |above| (lanes.min(above.0), speed.min(above.1))));
    let now = own
        .now
        .map(|(lanes, speed)| (lanes, if is_gpu { most.map_or(speed, |most| most.1.max(speed)) } else { speed }));
    let mut link = HostLink { a, b, gbps: now.and_then(|(lanes, speed)| gbps(lanes, speed)), ..HostLink::default() };
    if let (Some(now), Some(most)) = (now, most) {
        let able = gbps(most.0, most.1).filter(|able| link.gbps.is_some_and(|gbps| gbps < *able));
        if able.is_some() {
            link.able_gbps = able;
            link.lanes = (now.0 < most.0).then_some([now.0, most.0]);
            link.gt_per_sec = (now.1 < most.1).then_some([now.1, most.1]);
        }
    }
    host.links.push(link);
}
